//! `hyper.mix`: the gated mean of the residual streams, a layer's input.

use varve_gpu::hyper::{MixParams, mix_quad};

use super::checks::count;
use super::dispatch::{OpError, Pick, Table, Variant};
use super::quads::{QuadSizes, Rows, all_wide, at_least_one};
use crate::backend::{Stream, View, ViewMut};

/// The only variant.
pub static HYPER_MIX: Table<QuadSizes, MixParams> = Table {
    op: "hyper.mix",
    rows: &[Variant::base(
        "quad",
        |ask| Ok(ask.instance(&mix_quad::HYPER_MIX_QUAD_WIDE, &mix_quad::HYPER_MIX_QUAD_NARROW)),
        QuadSizes::launch,
    )],
};

/// Operands of [`mix`]. Rows may have gaps.
pub struct MixArgs<'a> {
    /// f32 `[tokens, C d]`: gates before the sigmoid.
    pub up: View<'a, f32, 2>,
    /// f32 `[tokens, C d]`: the normed streams.
    pub n: View<'a, f32, 2>,
    /// Streams C.
    pub streams: usize,
    /// f32 `[tokens, d]`.
    pub x: ViewMut<'a, f32, 2>,
}

/// `x[t, i] = (1 / C) sum over c of sigmoid(up[t, c d + i]) n[t, c d + i]`, c ascending.
///
/// Returns the variant's name. No operand may overlap one that is written.
///
/// # Errors
/// [`OpError::Layout`] or [`OpError::Value`] name the operand; nothing was enqueued then. Otherwise as
/// [`Table::enqueue`].
pub fn mix(pick: Pick<'_>, stream: &Stream, mut args: MixArgs<'_>) -> Result<&'static str, OpError> {
    let op = HYPER_MIX.op;
    let [tokens, dim] = args.x.dims;
    at_least_one(op, "streams", args.streams)?;
    let wide = dim.saturating_mul(args.streams);
    args.up.expect(op, "up", [tokens, wide])?;
    args.n.expect(op, "n", [tokens, wide])?;
    if args.x.is_empty() {
        return Ok(HYPER_MIX.base().name);
    }
    let sizes = QuadSizes { rows: tokens, width: dim, wide: all_wide(dim, &[&args.up, &args.n, &args.x]) };
    let streams = count(op, "streams", args.streams, 1 << 24)?;
    let params = MixParams {
        up: args.up.ptr(),
        n: args.n.ptr(),
        quads: sizes.quads(op)?,
        streams,
        up_stride: args.up.stride(op, "up strides")?,
        n_stride: args.n.stride(op, "n strides")?,
        x_stride: args.x.stride(op, "x strides")?,
        inv_streams: 1.0 / streams as f32,
        x: args.x.ptr_mut(),
    };
    // SAFETY: the checks above are what `MixParams` asks for, `sizes.wide` what the wide instance asks for; views
    // borrow their buffers, which are freed in stream order.
    unsafe { HYPER_MIX.enqueue(pick, stream, &sizes, params) }
}
