//! `ple.gate`: the PLE's value, gated for each residual stream.

use varve_gpu::ple::{GateParams, gate_warp};

use super::checks::{axis, count};
use super::dispatch::{OpError, Pick, Table, Variant};
use super::quads::{Rows, all_wide, at_least_one};
use crate::backend::{Launch, Stream, View, ViewMut};

/// Sizes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateSizes {
    /// Tokens times streams: a warp each.
    pub warps: usize,
    /// Every operand's rows start at multiples of 16 bytes and the width is a multiple of 4.
    pub wide: bool,
}

/// The only variant.
pub static PLE_GATE: Table<GateSizes, GateParams> = Table {
    op: "ple.gate",
    rows: &[Variant::base(
        "warp",
        |ask| Ok(if ask.wide { &gate_warp::PLE_GATE_WARP_WIDE } else { &gate_warp::PLE_GATE_WARP_NARROW }),
        |ask| {
            let blocks = ask.warps.div_ceil(gate_warp::WARPS as usize);
            Launch::new(axis(blocks), gate_warp::BOUNDS.threads)
        },
    )],
};

/// Operands of [`gate`]. Rows may have gaps.
pub struct GateArgs<'a> {
    /// f32 `[tokens, C d]`, normed.
    pub key: View<'a, f32, 2>,
    /// f32 `[tokens, C d]`, normed.
    pub query: View<'a, f32, 2>,
    /// f32 `[tokens, d]`.
    pub val: View<'a, f32, 2>,
    /// Streams C.
    pub streams: usize,
    /// f32 `[tokens, C d]`.
    pub u: ViewMut<'a, f32, 2>,
}

/// `u[t, c d + i] = sigmoid(sign(dot) sqrt(max(|dot|, 1e-6))) val[t, i]`, where `dot` is the product of the stream's
/// key and query over `sqrt(d)`, and `sign(0) = 0`.
///
/// Returns the variant's name. No operand may overlap one that is written.
///
/// # Errors
/// [`OpError::Layout`] or [`OpError::Value`] name the operand; nothing was enqueued then. Otherwise as
/// [`Table::enqueue`].
pub fn gate(pick: Pick<'_>, stream: &Stream, mut args: GateArgs<'_>) -> Result<&'static str, OpError> {
    let op = PLE_GATE.op;
    let [tokens, dim] = args.val.dims;
    at_least_one(op, "streams", args.streams)?;
    let width = dim.saturating_mul(args.streams);
    args.key.expect(op, "key", [tokens, width])?;
    args.query.expect(op, "query", [tokens, width])?;
    args.u.expect(op, "u", [tokens, width])?;
    if args.val.is_empty() {
        return Ok(PLE_GATE.base().name);
    }
    let warps = tokens.saturating_mul(args.streams);
    count(op, "tokens times streams", warps, i32::MAX as u32)?;
    let sizes = GateSizes { warps, wide: all_wide(dim, &[&args.key, &args.query, &args.val, &args.u]) };
    let params = GateParams {
        key: args.key.ptr(),
        query: args.query.ptr(),
        val: args.val.ptr(),
        tokens: count(op, "tokens", tokens, i32::MAX as u32)?,
        dim: count(op, "width", dim, i32::MAX as u32)?,
        streams: count(op, "streams", args.streams, i32::MAX as u32)?,
        key_stride: args.key.stride(op, "key strides")?,
        query_stride: args.query.stride(op, "query strides")?,
        val_stride: args.val.stride(op, "val strides")?,
        u_stride: args.u.stride(op, "u strides")?,
        inv_sqrt_dim: (1.0 / (dim as f64).sqrt()) as f32,
        u: args.u.ptr_mut(),
    };
    // SAFETY: the checks above are what `GateParams` asks for, `sizes.wide` what the wide instance asks for; views
    // borrow their buffers, which are freed in stream order.
    unsafe { PLE_GATE.enqueue(pick, stream, &sizes, params) }
}
