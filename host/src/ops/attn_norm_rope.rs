//! `attn.norm_rope`: RMS norm of each head, then the rotary embedding.

use varve_gpu::attn::{NormRopeParams, Rope, norm_rope_warp};

use super::checks::{axis, count, matrix, positive, quads, row_stride, rows_in, rows_out, vector};
use super::dispatch::{OpError, Pick, Table, Variant};
use crate::backend::{Launch, Stream, View, ViewMut};

/// Sizes of a call.
#[derive(Clone, Copy, Debug)]
pub struct NormRopeSizes {
    /// Tokens times heads.
    pub rows: usize,
}

/// The only variant.
pub static ATTN_NORM_ROPE: Table<NormRopeSizes, NormRopeParams> = Table {
    op: "attn.norm_rope",
    rows: &[Variant::base(
        "warp",
        |_| Ok(&norm_rope_warp::ATTN_NORM_ROPE_WARP),
        |ask| Launch::new(axis(ask.rows.div_ceil(norm_rope_warp::WARPS as usize)), norm_rope_warp::BOUNDS.threads),
    )],
};

/// Rotary tables of a model: f32 `[positions, pairs]` each, and the position of a call's first token.
#[derive(Clone, Copy, Debug)]
pub struct RopeTables<'a> {
    /// Cosines.
    pub cos: View<'a, f32, 2>,
    /// Sines.
    pub sin: View<'a, f32, 2>,
    /// Position of the first token.
    pub first: usize,
}

impl RopeTables<'_> {
    /// Checks that the tables reach `tokens` tokens from `first` on, for heads of `dim` values.
    pub(super) fn check(&self, op: &'static str, tokens: usize, dim: usize) -> Result<Rope, OpError> {
        let [positions, half] = self.cos.dims;
        matrix(op, "cos", &self.cos, [positions, half])?;
        matrix(op, "sin", &self.sin, [positions, half])?;
        if self.first + tokens > positions {
            return Err(OpError::Value {
                op,
                what: "last position",
                got: (self.first + tokens).to_string(),
                rule: "it must be within the rotary tables",
            });
        }
        let half = quads(op, "rotary pairs", half, dim / 2)?;
        Ok(Rope { cos: self.cos.ptr(), sin: self.sin.ptr(), half, first: count(op, "position", self.first, u32::MAX)? })
    }
}

/// How heads lie in a row of x.
#[derive(Clone, Copy, Debug)]
pub struct Heads {
    /// How many.
    pub count: usize,
    /// Values of each.
    pub dim: usize,
    /// From one to the next, in elements.
    pub stride: usize,
}

/// `y = rope(x * rsqrt(mean(x^2) + eps) * gain)` head by head: x f32 `[tokens, heads * stride]`, gain f32 `[dim]`, y f32
/// `[tokens, heads * dim]`. Channels i and i + pairs rotate together; those behind twice the pairs pass.
///
/// # Errors
/// [`OpError::Layout`] or [`OpError::Value`] name the operand; nothing was enqueued then. [`OpError::Launch`] otherwise.
pub fn norm_rope(
    pick: Pick<'_>,
    stream: &Stream,
    x: &View<'_, f32, 2>,
    heads: Heads,
    (gain, eps): (&View<'_, f32, 1>, f32),
    rope: &RopeTables<'_>,
    y: &mut ViewMut<'_, f32, 2>,
) -> Result<&'static str, OpError> {
    let op = ATTN_NORM_ROPE.op;
    let [tokens, _] = x.dims;
    let dim = quads(op, "values of a head", heads.dim, i32::MAX as usize)?;
    vector(op, "gain", gain, heads.dim)?;
    positive(op, "eps", eps)?;
    if heads.stride < heads.dim {
        let got = format!("{} for heads of {}", heads.stride, heads.dim);
        return Err(OpError::Value { op, what: "head stride", got, rule: "heads must not overlap" });
    }
    let params = NormRopeParams {
        x: x.ptr(),
        gain: gain.ptr(),
        x_stride: rows_in(op, "x", x, [tokens, heads.count * heads.stride])?,
        y_stride: rows_out(op, "y", y, [tokens, heads.count * heads.dim])?,
        y: y.ptr_mut(),
        rope: rope.check(op, tokens, heads.dim)?,
        tokens: count(op, "tokens", tokens, i32::MAX as u32)?,
        heads: count(op, "heads", heads.count, 65_535)?,
        dim,
        head_stride: row_stride(op, "head stride", [heads.stride, 1], 4)?,
        eps,
        inv_dim: 1.0 / heads.dim as f32,
    };
    let rows = tokens * heads.count;
    count(op, "heads of all tokens", rows, i32::MAX as u32)?;
    if rows == 0 {
        return Ok(ATTN_NORM_ROPE.base().name);
    }
    // SAFETY: shapes, strides, alignment and positions were checked; views borrow their buffers, and y's exclusively.
    unsafe { ATTN_NORM_ROPE.enqueue(pick, stream, &NormRopeSizes { rows }, params) }
}
