//! `delta.gated_norm`: gated RMS norm of the recurrence's output, to f32.

use varve_gpu::delta::{GatedNormParams, gated_norm_warp};
use varve_gpu::geometry::HEAD_DIM;

use super::checks::{axis, count, positive, quads, rows_in, rows_out, vector};
use super::delta_out_norm::OutputGate;
use super::dispatch::{OpError, Pick, Table, Variant};
use crate::backend::{Launch, Stream, View, ViewMut};

/// Sizes of a call.
#[derive(Clone, Copy, Debug)]
pub struct GatedNormSizes {
    /// Tokens times value heads.
    pub rows: usize,
    /// The model's gate.
    pub gate: OutputGate,
}

/// The only variant.
pub static DELTA_GATED_NORM: Table<GatedNormSizes, GatedNormParams> = Table {
    op: "delta.gated_norm",
    rows: &[Variant::base(
        "warp",
        |ask| {
            Ok(match ask.gate {
                OutputGate::Sigmoid => &gated_norm_warp::DELTA_GATED_NORM_WARP_SIGMOID,
                OutputGate::Silu => &gated_norm_warp::DELTA_GATED_NORM_WARP_SILU,
            })
        },
        |ask| Launch::new(axis(ask.rows.div_ceil(gated_norm_warp::WARPS as usize)), gated_norm_warp::BOUNDS.threads),
    )],
};

/// Operands of [`gated_norm`].
pub struct GatedNormArgs<'a> {
    /// f32 `[tokens, value_heads * 128]`: recurrence output; only the first `head_dim` values of a head are read.
    pub y: View<'a, f32, 2>,
    /// f32 `[tokens, value_heads * head_dim]`: raw output of the z projection.
    pub z: View<'a, f32, 2>,
    /// f32 `[head_dim]`: gain as stored in the file.
    pub gamma: View<'a, f32, 1>,
    /// f32 `[tokens, value_heads * head_dim]`.
    pub out: ViewMut<'a, f32, 2>,
    /// `rms_norm_eps`, > 0.
    pub eps: f32,
    /// The model's gate.
    pub gate: OutputGate,
}

/// `out = y * rsqrt(mean(y^2) + eps) * gamma * act(z)`, head by head.
///
/// # Errors
/// [`OpError::Layout`] or [`OpError::Value`] name the operand; nothing was enqueued then. [`OpError::Launch`] otherwise.
pub fn gated_norm(pick: Pick<'_>, stream: &Stream, mut args: GatedNormArgs<'_>) -> Result<&'static str, OpError> {
    let op = DELTA_GATED_NORM.op;
    let ([tokens, width], [head_dim]) = (args.z.dims, args.gamma.dims);
    let dim = quads(op, "values of a head", head_dim, HEAD_DIM)?;
    let value_heads = width / head_dim;
    vector(op, "gamma", &args.gamma, head_dim)?;
    positive(op, "eps", args.eps)?;
    let params = GatedNormParams {
        y_stride: rows_in(op, "y", &args.y, [tokens, value_heads * HEAD_DIM])?,
        z_stride: rows_in(op, "z", &args.z, [tokens, value_heads * head_dim])?,
        out_stride: rows_out(op, "out", &args.out, [tokens, value_heads * head_dim])?,
        y: args.y.ptr(),
        z: args.z.ptr(),
        gamma: args.gamma.ptr(),
        out: args.out.ptr_mut(),
        tokens: count(op, "tokens", tokens, i32::MAX as u32)?,
        value_heads: count(op, "value heads", value_heads, 8192)?,
        head_dim: dim,
        eps: args.eps,
        inv_dim: 1.0 / head_dim as f32,
    };
    let rows = tokens * value_heads;
    count(op, "heads of all tokens", rows, i32::MAX as u32)?;
    if rows == 0 {
        return Ok(DELTA_GATED_NORM.base().name);
    }
    // SAFETY: shapes, strides and alignment were checked; views borrow their buffers, and out's exclusively.
    unsafe { DELTA_GATED_NORM.enqueue(pick, stream, &GatedNormSizes { rows, gate: args.gate }, params) }
}
