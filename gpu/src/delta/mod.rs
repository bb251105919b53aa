//! Gated DeltaNet: the recurrence over a prompt or a decode window, and its output norm.
//!
//! One value head `h` keeps a state `S[128][128]` (rows: key dimension, columns: value dimension) and reads key head
//! `h mod key_heads`. A token with log decay `gate`, weight `beta`, rows `q`, `k`, `v` does, in this order and
//! rounding, which every sequential variant keeps bit for bit (Gated Delta Networks, arXiv 2412.06464):
//!
//! ```text
//! g     = exp(gate)
//! p_j   = 0; r ascending in row group j:  p_j = fma(S[r], k[r], p_j)             j = 0..3, 32 rows each
//! m     = ((p_0 + p_1) + p_2) + p_3
//! d     = fma(-g, m, v) * beta
//! o_j   = 0; r ascending:  S[r] = fma(g, S[r], k[r] * d);  o_j = fma(S[r], q[r], o_j)
//! y     = (((o_0 + o_1) + o_2) + o_3) * 0x3DB504F3
//! ```

pub mod chunk;
pub mod chunk_keys;
pub mod chunk_ring;
pub mod chunk_scan;
pub mod chunk_solve;
pub mod chunk_values;
pub mod chunk_walk;
pub mod conv_warp;
pub mod gated_norm_warp;
pub mod gates_elem;
pub mod out_norm_block;
pub mod out_norm_warp;
pub mod rec_chunk32;
pub mod rec_chunk32_place;
pub mod rec_chunk32_prep;
pub mod rec_chunk32_scan;
pub mod rec_chunk32_skew;
pub mod rec_chunk32_steps;
pub mod rec_cols;
pub mod rec_keyhead;
pub mod rec_lanes;
pub mod rec_tc32_prep;
pub mod rec_tc32_scan;
pub mod rec_wg32_fast_scan;
pub mod rec_wg32_prep;
pub mod rec_wg32_scan;
pub mod rec_wg32_split;
pub mod rec_wg32_split_join;
pub mod row_group;
pub mod sequence;
pub mod token_slots;
pub mod window_commit;
pub mod window_step;

use cuda_std::float;

use crate::geometry::OUTPUT_SCALE;

/// Launch parameters of every `delta.rec` variant. All pointers are 16-byte aligned, no two arrays overlap, strides are
/// in elements and multiples of 4 except those of gate and beta.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RecParams {
    /// f32 `[tokens][qkv_stride]`: q heads, then k heads (128 each, L2-normalised, q not scaled), then v heads.
    pub qkv: *const f32,
    /// f32 `[tokens][gate_stride]`: log decay of each value head, finite and <= 0.
    pub gate: *const f32,
    /// f32 `[tokens][beta_stride]`: beta of each value head, in 0..=1.
    pub beta: *const f32,
    /// f32 `[sequences][128][value_heads][128]`, row r of all heads together; read, and written unless `keep_state`.
    pub state: *mut f32,
    /// f32 `[tokens][y_stride]`: output, head h at `h * 128`.
    pub y: *mut f32,
    /// u32 `[sequences + 1]`: the token where each sequence starts, ascending, then where the last one ends. Null: one
    /// sequence of all tokens.
    pub starts: *const u32,
    /// Scratch of the variants that need it, as many f32 as their `scratch_floats` says; null for the others.
    pub scratch: *mut f32,
    /// Tokens of all sequences together, at least 1.
    pub tokens: u32,
    /// Elements from a token's q, k, v row to the next.
    pub qkv_stride: u32,
    /// Elements from a token's gates to the next.
    pub gate_stride: u32,
    /// Elements from a token's betas to the next.
    pub beta_stride: u32,
    /// Elements from a token's output to the next.
    pub y_stride: u32,
    /// Key heads.
    pub key_heads: u32,
    /// Value heads, a multiple of `key_heads`.
    pub value_heads: u32,
    /// 1: the state in memory stays as it is (a window of drafts to verify). 0: it is updated.
    pub keep_state: u32,
    /// Sequences of the call: the grid's y.
    pub sequences: u32,
    /// The launch walks each sequence from this token of it on.
    pub first: u32,
    /// The launch walks at most this many tokens of each sequence.
    pub span: u32,
    /// Not read; keeps the struct free of padding.
    pub reserved: u32,
}
const _: () = assert!(size_of::<RecParams>() == 104); // no padding: nothing uninitialised crosses the launch

/// Launch parameters of `delta.commit`: the recurrence over the first tokens of a window, state only.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CommitParams {
    /// The window, `tokens <= WINDOW_TOKENS`; its `y` is not written and may be null, its `keep_state` is not read.
    pub window: RecParams,
    /// u32 `[1]` in device memory: tokens to replay; more than the window counts as the window, 0 leaves the state.
    pub accepted: *const u32,
}
const _: () = assert!(size_of::<CommitParams>() == 112);

/// Launch parameters of every `delta.out_norm` variant. All pointers are 16-byte aligned, no two arrays overlap, strides
/// are in elements and multiples of 4.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct OutNormParams {
    /// f32 `[tokens][y_stride]`: recurrence output, head h at `h * 128`.
    pub y: *const f32,
    /// f32 `[tokens][z_stride]`: raw output gate, head h at `h * 128`.
    pub z: *const f32,
    /// f32 `[128]`: gain as stored in the file (plain w, not 1 + w).
    pub gamma: *const f32,
    /// f16 bits `[tokens][y16_stride]`: what the output projection reads, head h at `h * 128`.
    pub y16: *mut u16,
    /// Tokens of the call, at least 1.
    pub tokens: u32,
    /// Elements from a token's y to the next.
    pub y_stride: u32,
    /// Elements from a token's z to the next.
    pub z_stride: u32,
    /// Elements from a token's y16 to the next.
    pub y16_stride: u32,
    /// Value heads.
    pub value_heads: u32,
    /// Added to the mean square, > 0 (`rms_norm_eps`).
    pub eps: f32,
}
const _: () = assert!(size_of::<OutNormParams>() == 56);

/// Launch parameters of `delta.conv`. Pointers are 16-byte aligned, strides in elements and multiples of 4; `out` is
/// disjoint from the rest.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ConvParams {
    /// f32 `[tokens][raw_stride]`: projections of a token; q heads, k heads, v heads of `head_dim` channels each.
    pub raw: *const f32,
    /// f32 `[CONV_TAPS - 1][channels]`: the projections of the tokens before, oldest first.
    pub window: *const f32,
    /// f32 `[channels][CONV_TAPS]`, the last tap for the current token.
    pub taps: *const f32,
    /// f32 `[tokens][out_stride]`: q, k, v of [`HEAD_DIM`](crate::geometry::HEAD_DIM) values a head, what `delta.rec`
    /// reads; values behind `head_dim` are 0.
    pub out: *mut f32,
    /// Tokens of the call, at least 1.
    pub tokens: u32,
    /// Elements from a token's projections to the next.
    pub raw_stride: u32,
    /// Elements from a token's output to the next.
    pub out_stride: u32,
    /// Key heads: as many q as k heads.
    pub key_heads: u32,
    /// Value heads.
    pub value_heads: u32,
    /// Channels of a head, a multiple of 4, at most `HEAD_DIM`.
    pub head_dim: u32,
    /// What normalised q rows are multiplied by: sqrt(HEAD_DIM / head_dim), so that the recurrence's fixed output scale
    /// becomes 1 / sqrt(head_dim).
    pub q_scale: f32,
    /// Not read; keeps the struct free of padding.
    pub reserved: u32,
}
const _: () = assert!(size_of::<ConvParams>() == 64);

/// Taps of the causal convolution: `linear_conv_kernel_dim`.
pub const CONV_TAPS: usize = 4;
/// Added to the sum of squares of a q or k row before its root.
pub const L2_EPS: f32 = 1e-6;

/// Launch parameters of `delta.gates`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GatesParams {
    /// f32 `[tokens][ba_stride]`: the b projections of the value heads, then their a projections.
    pub ba: *const f32,
    /// f32 `[value_heads]`: `-exp(A_log)`.
    pub neg_a: *const f32,
    /// f32 `[value_heads]`.
    pub dt_bias: *const f32,
    /// f32 `[tokens][value_heads]`: log decay.
    pub gate: *mut f32,
    /// f32 `[tokens][value_heads]`.
    pub beta: *mut f32,
    /// Tokens of the call, at least 1.
    pub tokens: u32,
    /// Value heads.
    pub value_heads: u32,
    /// Elements from a token's b and a to the next.
    pub ba_stride: u32,
    /// Not read; keeps the struct free of padding.
    pub reserved: u32,
}
const _: () = assert!(size_of::<GatesParams>() == 56);

/// Launch parameters of `delta.gated_norm`. Pointers are 16-byte aligned, strides in elements and multiples of 4; `out` is
/// disjoint from the rest.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GatedNormParams {
    /// f32 `[tokens][y_stride]`: recurrence output, head h at `h * HEAD_DIM`.
    pub y: *const f32,
    /// f32 `[tokens][z_stride]`: raw output gate, head h at `h * head_dim`.
    pub z: *const f32,
    /// f32 `[head_dim]`: gain as stored in the file (plain w, not 1 + w).
    pub gamma: *const f32,
    /// f32 `[tokens][out_stride]`, head h at `h * head_dim`.
    pub out: *mut f32,
    /// Tokens of the call, at least 1.
    pub tokens: u32,
    /// Value heads.
    pub value_heads: u32,
    /// Values of a head, a multiple of 4, at most `HEAD_DIM`.
    pub head_dim: u32,
    /// Elements from a token's y to the next.
    pub y_stride: u32,
    /// Elements from a token's z to the next.
    pub z_stride: u32,
    /// Elements from a token's out to the next.
    pub out_stride: u32,
    /// Added to the mean square.
    pub eps: f32,
    /// 1 / head_dim, rounded once on the host.
    pub inv_dim: f32,
}
const _: () = assert!(size_of::<GatedNormParams>() == 64);

/// The correction `d` of one column from its prediction `m`.
#[inline(always)]
fn correction(g: f32, m: f32, v: f32, beta: f32) -> f32 {
    float::fma(-g, m, v) * beta
}

/// A column's sum over row groups, in the order of the contract.
#[inline(always)]
fn group_sum(p: [f32; 4]) -> f32 {
    ((p[0] + p[1]) + p[2]) + p[3]
}

/// The output value of a column from its four partial sums.
#[inline(always)]
fn output(o: [f32; 4]) -> f32 {
    group_sum(o) * OUTPUT_SCALE
}

/// One row of the update: `S = fma(g, S, k d)` with the product rounded on its own, then `o = fma(S, q, o)`.
#[inline(always)]
fn update_row(s: &mut f32, o: &mut f32, g: f32, d: f32, k: f32, q: f32) {
    *s = float::fma(g, *s, k * d);
    *o = float::fma(*s, q, *o);
}

/// One element of the output norm: `y * scale * gamma * gate(z)` from left to right, as f16 bits. A magnitude beyond the
/// largest f16 (possible with SiLU only) is clamped to it; NaN stays NaN.
#[inline(always)]
fn normed<const SILU: bool>(y: f32, scale: f32, gamma: f32, z: f32) -> f32 {
    let gate = if SILU { float::silu(z) } else { float::sigmoid(z) };
    let v = y * scale * gamma * gate;
    const F16_MAX: f32 = 65504.0;
    v.clamp(-F16_MAX, F16_MAX)
}

/// The row's factor `rsqrt(ss / 128 + eps)`.
#[inline(always)]
fn norm_scale(ss: f32, eps: f32) -> f32 {
    float::rsqrt(ss * (1.0 / 128.0) + eps)
}
