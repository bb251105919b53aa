//! `conv.window`: the rows of a causal convolution's input that the next call needs.

use varve_gpu::conv::{WindowParams, window_quad};

use super::checks::count;
use super::dispatch::{OpError, Pick, Table, Variant};
use super::quads::{QuadSizes, Rows, all_wide};
use crate::backend::{Stream, View, ViewMut};

/// The only variant.
pub static CONV_WINDOW: Table<QuadSizes, WindowParams> = Table {
    op: "conv.window",
    rows: &[Variant::base(
        "quad",
        |ask| Ok(ask.instance(&window_quad::CONV_WINDOW_QUAD_WIDE, &window_quad::CONV_WINDOW_QUAD_NARROW)),
        QuadSizes::launch,
    )],
};

/// Operands of [`window`]. Rows may have gaps.
pub struct WindowArgs<'a> {
    /// f32 `[rows, width]`: the last inputs, oldest first; changed in place.
    pub window: ViewMut<'a, f32, 2>,
    /// f32 `[tokens, width]`: the call's inputs.
    pub x: View<'a, f32, 2>,
}

/// `window` becomes the last rows of `window ++ x`.
///
/// Returns the variant's name. No operand may overlap one that is written.
///
/// # Errors
/// [`OpError::Layout`] or [`OpError::Value`] name the operand; nothing was enqueued then. Otherwise as
/// [`Table::enqueue`].
pub fn window(pick: Pick<'_>, stream: &Stream, mut args: WindowArgs<'_>) -> Result<&'static str, OpError> {
    let op = CONV_WINDOW.op;
    let ([rows, width], [tokens, _]) = (args.window.dims, args.x.dims);
    args.x.expect(op, "x", [tokens, width])?;
    if args.window.is_empty() || args.x.is_empty() {
        return Ok(CONV_WINDOW.base().name);
    }
    let sizes = QuadSizes { rows: 1, width, wide: all_wide(width, &[&args.window, &args.x]) };
    let params = WindowParams {
        x: args.x.ptr(),
        quads: sizes.quads(op)?,
        rows: count(op, "rows", rows, i32::MAX as u32)?,
        tokens: count(op, "tokens", tokens, i32::MAX as u32)?,
        window_stride: args.window.stride(op, "window strides")?,
        x_stride: args.x.stride(op, "x strides")?,
        unused: 0,
        window: args.window.ptr_mut(),
    };
    // SAFETY: the checks above are what `WindowParams` asks for, `sizes.wide` what the wide instance asks for; views
    // borrow their buffers, which are freed in stream order.
    unsafe { CONV_WINDOW.enqueue(pick, stream, &sizes, params) }
}
