//! `hyper.write`: a layer's output back to every residual stream.

use varve_gpu::hyper::{WriteParams, write_quad};

use super::checks::count;
use super::dispatch::{OpError, Pick, Table, Variant};
use super::quads::{QuadSizes, Rows, all_wide, at_least_one};
use crate::backend::{Stream, View, ViewMut};

/// The only variant.
pub static HYPER_WRITE: Table<QuadSizes, WriteParams> = Table {
    op: "hyper.write",
    rows: &[Variant::base(
        "quad",
        |ask| Ok(ask.instance(&write_quad::HYPER_WRITE_QUAD_WIDE, &write_quad::HYPER_WRITE_QUAD_NARROW)),
        QuadSizes::launch,
    )],
};

/// Operands of [`write`]. Rows may have gaps.
pub struct WriteArgs<'a> {
    /// f32 `[tokens, C d]`, changed in place.
    pub s: ViewMut<'a, f32, 2>,
    /// f32 `[tokens, C]`.
    pub inj: View<'a, f32, 2>,
    /// f32 `[tokens, d]`.
    pub y: View<'a, f32, 2>,
}

/// `s[t, c d + i] += inj[t, c] y[t, i]`, rounded once.
///
/// Returns the variant's name. No operand may overlap one that is written.
///
/// # Errors
/// [`OpError::Layout`] or [`OpError::Value`] name the operand; nothing was enqueued then. Otherwise as
/// [`Table::enqueue`].
pub fn write(pick: Pick<'_>, stream: &Stream, mut args: WriteArgs<'_>) -> Result<&'static str, OpError> {
    let op = HYPER_WRITE.op;
    let [tokens, dim] = args.y.dims;
    let streams = args.inj.dims[1];
    at_least_one(op, "streams", streams)?;
    args.inj.expect(op, "inj", [tokens, streams])?;
    args.s.expect(op, "s", [tokens, dim.saturating_mul(streams)])?;
    if args.y.is_empty() {
        return Ok(HYPER_WRITE.base().name);
    }
    let sizes = QuadSizes { rows: tokens, width: dim, wide: all_wide(dim, &[&args.s, &args.y]) };
    let params = WriteParams {
        inj: args.inj.ptr(),
        y: args.y.ptr(),
        quads: sizes.quads(op)?,
        streams: count(op, "streams", streams, i32::MAX as u32)?,
        s_stride: args.s.stride(op, "s strides")?,
        inj_stride: args.inj.stride(op, "inj strides")?,
        y_stride: args.y.stride(op, "y strides")?,
        unused: 0,
        s: args.s.ptr_mut(),
    };
    // SAFETY: the checks above are what `WriteParams` asks for, `sizes.wide` what the wide instance asks for; views
    // borrow their buffers, which are freed in stream order.
    unsafe { HYPER_WRITE.enqueue(pick, stream, &sizes, params) }
}
