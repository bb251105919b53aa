//! `delta.conv`: causal convolution of the projections, SiLU, and the L2 norm of queries and keys.

use varve_gpu::delta::{CONV_TAPS, ConvParams, conv_warp};
use varve_gpu::geometry::HEAD_DIM;

use super::checks::{axis, count, matrix, quads, rows_in, rows_out};
use super::dispatch::{OpError, Pick, Table, Variant};
use crate::backend::{Launch, Stream, View, ViewMut};

/// Sizes of a call.
#[derive(Clone, Copy, Debug)]
pub struct ConvSizes {
    /// Tokens times heads: q, k and v heads together.
    pub rows: usize,
}

/// The only variant.
pub static DELTA_CONV: Table<ConvSizes, ConvParams> = Table {
    op: "delta.conv",
    rows: &[Variant::base(
        "warp",
        |_| Ok(&conv_warp::DELTA_CONV_WARP),
        |ask| Launch::new(axis(ask.rows.div_ceil(conv_warp::WARPS as usize)), conv_warp::BOUNDS.threads),
    )],
};

/// Operands of [`conv`]; the channels are q heads, k heads, v heads of `head_dim` each.
pub struct ConvArgs<'a> {
    /// f32 `[tokens, channels]`: projections.
    pub raw: View<'a, f32, 2>,
    /// f32 `[3, channels]`: the projections of the three tokens before, oldest first; zeros before the start.
    pub window: View<'a, f32, 2>,
    /// f32 `[channels, 4]`, the last tap for the current token.
    pub taps: View<'a, f32, 2>,
    /// f32 `[tokens, heads * 128]`: what `delta.rec` reads; values behind `head_dim` are 0.
    pub out: ViewMut<'a, f32, 2>,
    /// Key heads.
    pub key_heads: usize,
    /// Value heads.
    pub value_heads: usize,
    /// Channels of a head, a multiple of 4, at most 128.
    pub head_dim: usize,
}

/// `out = l2norm(silu(conv(raw)))`, the norm for q and k heads only; q heads also times `sqrt(128 / head_dim)`, so that
/// `delta.rec` gives `o / sqrt(head_dim)`. The window is not moved on: that is `conv.window`'s.
///
/// # Errors
/// [`OpError::Layout`] or [`OpError::Value`] name the operand; nothing was enqueued then. [`OpError::Launch`] otherwise.
pub fn conv(pick: Pick<'_>, stream: &Stream, mut args: ConvArgs<'_>) -> Result<&'static str, OpError> {
    let op = DELTA_CONV.op;
    let [tokens, _] = args.raw.dims;
    let heads = 2 * args.key_heads + args.value_heads;
    let head_dim = quads(op, "channels of a head", args.head_dim, HEAD_DIM)?;
    let channels = heads * args.head_dim;
    matrix(op, "window", &args.window, [CONV_TAPS - 1, channels])?;
    matrix(op, "taps", &args.taps, [channels, CONV_TAPS])?;
    let params = ConvParams {
        raw_stride: rows_in(op, "raw", &args.raw, [tokens, channels])?,
        out_stride: rows_out(op, "out", &args.out, [tokens, heads * HEAD_DIM])?,
        raw: args.raw.ptr(),
        window: args.window.ptr(),
        taps: args.taps.ptr(),
        out: args.out.ptr_mut(),
        tokens: count(op, "tokens", tokens, i32::MAX as u32)?,
        key_heads: count(op, "key heads", args.key_heads, 8192)?,
        value_heads: count(op, "value heads", args.value_heads, 8192)?,
        head_dim,
        q_scale: (HEAD_DIM as f32 / args.head_dim as f32).sqrt(),
        reserved: 0,
    };
    let rows = tokens * heads;
    count(op, "heads of all tokens", rows, i32::MAX as u32)?;
    if rows == 0 {
        return Ok(DELTA_CONV.base().name);
    }
    // SAFETY: shapes, strides and alignment were checked; views borrow their buffers, and out's exclusively.
    unsafe { DELTA_CONV.enqueue(pick, stream, &ConvSizes { rows }, params) }
}
