//! Gated attention: per-head norm and rotary embedding, and softmax attention over all visible tokens.

pub mod norm_rope_warp;
pub mod softmax_chunks;

use cuda_std::{float, global, warp};

/// Rotary tables and where in the sequence a call starts.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Rope {
    /// f32 `[positions][half]`: cosines, then their sines in `sin`.
    pub cos: *const f32,
    /// f32 `[positions][half]`.
    pub sin: *const f32,
    /// Pairs that rotate: channel i with channel i + half; a multiple of 4.
    pub half: u32,
    /// Position of the call's first row.
    pub first: u32,
}

/// Launch parameters of `attn.norm_rope`. Pointers are 16-byte aligned, strides in elements and multiples of 4; x and y
/// are disjoint.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct NormRopeParams {
    /// f32 `[tokens][x_stride]`, head h at `h * head_stride`.
    pub x: *const f32,
    /// f32 `[dim]`.
    pub gain: *const f32,
    /// f32 `[tokens][y_stride]`, head h at `h * dim`.
    pub y: *mut f32,
    /// Angles; token t has position `first + t`.
    pub rope: Rope,
    /// Tokens of the call, at least 1.
    pub tokens: u32,
    /// Heads.
    pub heads: u32,
    /// Values of a head, a multiple of 4, at least `2 half`.
    pub dim: u32,
    /// Elements from a token's x to the next.
    pub x_stride: u32,
    /// Elements from a head's x to the next.
    pub head_stride: u32,
    /// Elements from a token's y to the next.
    pub y_stride: u32,
    /// Added to the mean square.
    pub eps: f32,
    /// 1 / dim, rounded once on the host.
    pub inv_dim: f32,
}
const _: () = assert!(size_of::<NormRopeParams>() == 80);

/// Launch parameters of `attn.softmax`. Pointers are 16-byte aligned, strides in elements and multiples of 4.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SoftmaxParams {
    /// f32 `[tokens][heads][dim]`, normed and rotated.
    pub q: *const f32,
    /// f32 `[tokens][gate_stride]`, head h at `h * gate_head_stride`: the output gate before its sigmoid.
    pub gate: *const f32,
    /// f32 `[positions][kv_heads][dim]`.
    pub k: *const f32,
    /// f32 `[positions][kv_heads][dim]`.
    pub v: *const f32,
    /// f32 `[tokens][heads][dim]`.
    pub y: *mut f32,
    /// Position of the first token: token t sees positions `0 ..= first + t`.
    pub first: u32,
    /// Tokens of the call, at least 1.
    pub tokens: u32,
    /// Query heads, a multiple of `kv_heads`; head h reads `h / (heads / kv_heads)`.
    pub heads: u32,
    /// Key heads.
    pub kv_heads: u32,
    /// Values of a head, a multiple of 4, at most [`MAX_DIM`].
    pub dim: u32,
    /// Elements from a token's gate to the next.
    pub gate_stride: u32,
    /// Elements from a head's gate to the next.
    pub gate_head_stride: u32,
    /// What scores are multiplied by.
    pub scale: f32,
}
const _: () = assert!(size_of::<SoftmaxParams>() == 72);

/// Largest head that `attn.softmax` takes.
pub const MAX_DIM: usize = 256;

/// One row: `y = rope(x * rsqrt(mean(x^2) + eps) * gain)`, where `x(c)` gives columns c .. c + 3.
///
/// # Safety
/// `gain` and `y` hold `dim` values, `position` is within the tables; all lanes of the warp call it together.
#[inline(always)]
#[allow(clippy::too_many_arguments)] // a row has that many parts
pub(crate) unsafe fn norm_rope_row(
    x: impl Fn(u32) -> [f32; 4],
    gain: *const f32,
    y: *mut f32,
    dim: u32,
    (eps, inv_dim): (f32, f32),
    rope: &Rope,
    position: usize,
    lane: u32,
) {
    let mut sum = 0.0f32;
    let mut c = 4 * lane;
    while c < dim {
        let v = x(c);
        for j in 0..4 {
            sum = float::fma(v[j], v[j], sum);
        }
        c += 128;
    }
    let scale = float::rsqrt(warp::sum_xor(sum) * inv_dim + eps);
    let half = rope.half;
    let normed = |c: u32| {
        // SAFETY: `c + 3 < dim`.
        let (v, g) = (x(c), unsafe { global::load4_nc(gain.add(c as usize)) });
        [0, 1, 2, 3].map(|j| v[j] * scale * g[j])
    };
    let mut c = 4 * lane;
    while c < dim {
        let mut out = normed(c);
        if c < 2 * half {
            // Both halves are multiples of 4, so these four channels have their partners side by side, too.
            let lower = c < half;
            let (pair, partner) = if lower { (c, c + half) } else { (c - half, c - half) };
            let other = normed(partner);
            let at = position * half as usize + pair as usize;
            // SAFETY: `pair + 3 < half`, the position is within the tables.
            let (cos, sin) = unsafe { (global::load4_nc(rope.cos.add(at)), global::load4_nc(rope.sin.add(at))) };
            for j in 0..4 {
                let sine = if lower { -sin[j] } else { sin[j] };
                out[j] = float::fma(out[j], cos[j], other[j] * sine);
            }
        }
        // SAFETY: `c + 3 < dim`; one writer an element.
        unsafe { global::store4(y.add(c as usize), out) };
        c += 128;
    }
}
