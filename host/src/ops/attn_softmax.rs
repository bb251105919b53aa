//! `attn.softmax`: gated attention over all visible tokens.

use varve_gpu::attn::{MAX_DIM, SoftmaxParams, softmax_chunks};

use super::checks::{axis, count, matrix, quads, row_stride, rows_in};
use super::dispatch::{OpError, Pick, Table, Variant};
use crate::backend::{Launch, Stream, View, ViewMut};

/// Sizes of a call.
#[derive(Clone, Copy, Debug)]
pub struct SoftmaxSizes {
    /// Tokens.
    pub tokens: usize,
    /// Query heads.
    pub heads: usize,
}

/// The only variant.
pub static ATTN_SOFTMAX: Table<SoftmaxSizes, SoftmaxParams> = Table {
    op: "attn.softmax",
    rows: &[Variant::base(
        "chunks",
        |_| Ok(&softmax_chunks::ATTN_SOFTMAX_CHUNKS),
        |ask| Launch { grid: [axis(ask.tokens), axis(ask.heads), 1], ..Launch::new(1, softmax_chunks::BOUNDS.threads) },
    )],
};

/// Operands of [`softmax`].
pub struct SoftmaxArgs<'a> {
    /// f32 `[tokens, heads * dim]`, normed and rotated, dense.
    pub q: View<'a, f32, 2>,
    /// f32 `[tokens, heads * gate_head_stride - ..]`: output gate before its sigmoid; head h at `h * gate_head_stride`.
    pub gate: View<'a, f32, 2>,
    /// Elements from a head's gate to the next.
    pub gate_head_stride: usize,
    /// f32 `[positions, kv_heads * dim]`, dense: positions up to the last token's.
    pub k: View<'a, f32, 2>,
    /// As `k`.
    pub v: View<'a, f32, 2>,
    /// f32 `[tokens, heads * dim]`, dense.
    pub y: ViewMut<'a, f32, 2>,
    /// Position of the first token.
    pub first: usize,
    /// Values of a head.
    pub dim: usize,
}

/// `y = sigmoid(gate) * softmax(q k^T / sqrt(dim)) v`, head by head, over the tokens that each token sees.
///
/// # Errors
/// [`OpError::Layout`] or [`OpError::Value`] name the operand; nothing was enqueued then. [`OpError::Launch`] otherwise.
pub fn softmax(pick: Pick<'_>, stream: &Stream, mut args: SoftmaxArgs<'_>) -> Result<&'static str, OpError> {
    let op = ATTN_SOFTMAX.op;
    let ([tokens, width], [positions, kv_width]) = (args.q.dims, args.k.dims);
    let dim = quads(op, "values of a head", args.dim, MAX_DIM)?;
    let (heads, kv_heads) = (width / args.dim, kv_width / args.dim);
    if heads == 0
        || kv_heads == 0
        || !heads.is_multiple_of(kv_heads)
        || heads * args.dim != width
        || kv_heads * args.dim != kv_width
    {
        let got = format!("q of {width} and k of {kv_width} values, heads of {}", args.dim);
        return Err(OpError::Value {
            op,
            what: "head count",
            got,
            rule: "query heads must be a multiple of key heads",
        });
    }
    matrix(op, "q", &args.q, [tokens, width])?;
    matrix(op, "k", &args.k, [positions, kv_width])?;
    matrix(op, "v", &args.v, [positions, kv_width])?;
    matrix(op, "y", &args.y.as_view(), [tokens, width])?;
    let gate_width = (heads - 1) * args.gate_head_stride + args.dim;
    if args.first + tokens > positions {
        let got = format!("{} of {positions}", args.first + tokens);
        return Err(OpError::Value { op, what: "last position", got, rule: "k and v must reach it" });
    }
    let params = SoftmaxParams {
        gate_stride: rows_in(op, "gate", &args.gate, [tokens, gate_width])?,
        q: args.q.ptr(),
        gate: args.gate.ptr(),
        k: args.k.ptr(),
        v: args.v.ptr(),
        y: args.y.ptr_mut(),
        first: count(op, "position", args.first, i32::MAX as u32)?,
        tokens: count(op, "tokens", tokens, i32::MAX as u32)?,
        heads: count(op, "heads", heads, 65_535)?,
        kv_heads: count(op, "key heads", kv_heads, 65_535)?,
        dim,
        gate_head_stride: row_stride(op, "head stride of the gate", [args.gate_head_stride, 1], 4)?,
        scale: 1.0 / (args.dim as f32).sqrt(),
    };
    if tokens == 0 {
        return Ok(ATTN_SOFTMAX.base().name);
    }
    // SAFETY: shapes, strides, alignment and positions were checked; views borrow their buffers, and y's exclusively.
    unsafe { ATTN_SOFTMAX.enqueue(pick, stream, &SoftmaxSizes { tokens, heads }, params) }
}
