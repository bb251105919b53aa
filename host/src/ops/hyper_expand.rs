//! `hyper.expand`: a token's embedding to every residual stream.

use varve_gpu::hyper::{ExpandParams, expand_quad};

use super::checks::count;
use super::dispatch::{OpError, Pick, Table, Variant};
use super::quads::{QuadSizes, Rows, all_wide, at_least_one};
use crate::backend::{Stream, View, ViewMut};

/// The only variant.
pub static HYPER_EXPAND: Table<QuadSizes, ExpandParams> = Table {
    op: "hyper.expand",
    rows: &[Variant::base(
        "quad",
        |ask| Ok(ask.instance(&expand_quad::HYPER_EXPAND_QUAD_WIDE, &expand_quad::HYPER_EXPAND_QUAD_NARROW)),
        QuadSizes::launch,
    )],
};

/// Operands of [`expand`]. Rows may have gaps.
pub struct ExpandArgs<'a> {
    /// f32 `[tokens, d]`.
    pub h: View<'a, f32, 2>,
    /// Streams C.
    pub streams: usize,
    /// f32 `[tokens, C d]`.
    pub s: ViewMut<'a, f32, 2>,
}

/// `s[t, c d + i] = h[t, i]` for every stream c.
///
/// Returns the variant's name. No operand may overlap one that is written.
///
/// # Errors
/// [`OpError::Layout`] or [`OpError::Value`] name the operand; nothing was enqueued then. Otherwise as
/// [`Table::enqueue`].
pub fn expand(pick: Pick<'_>, stream: &Stream, mut args: ExpandArgs<'_>) -> Result<&'static str, OpError> {
    let op = HYPER_EXPAND.op;
    let [tokens, dim] = args.h.dims;
    at_least_one(op, "streams", args.streams)?;
    args.s.expect(op, "s", [tokens, dim.saturating_mul(args.streams)])?;
    if args.h.is_empty() {
        return Ok(HYPER_EXPAND.base().name);
    }
    let sizes = QuadSizes { rows: tokens, width: dim, wide: all_wide(dim, &[&args.h, &args.s]) };
    let params = ExpandParams {
        h: args.h.ptr(),
        quads: sizes.quads(op)?,
        streams: count(op, "streams", args.streams, i32::MAX as u32)?,
        h_stride: args.h.stride(op, "h strides")?,
        s_stride: args.s.stride(op, "s strides")?,
        s: args.s.ptr_mut(),
    };
    // SAFETY: the checks above are what `ExpandParams` asks for, `sizes.wide` what the wide instance asks for; views
    // borrow their buffers, which are freed in stream order.
    unsafe { HYPER_EXPAND.enqueue(pick, stream, &sizes, params) }
}
