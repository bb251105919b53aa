//! `delta.rec/chunk32`: what its two kernels share, the sizes of a chunk and the record of one in scratch.
//!
//! 32 tokens are taken at once (the WY form of Gated Delta Networks, arXiv 2412.06464). With G_t the sum of the chunk's log
//! decays up to token t, S the state before the chunk and L its last token:
//!
//! ```text
//! A[t][i] = beta_t exp(G_t - G_i) (k_t . k_i)   for i < t, else 0          prep
//! T       = (I + A)^-1                          unit lower triangular      prep
//! P[t][i] = exp(G_t - G_i) (q_t . k_i)          for i <= t, else 0         prep
//! Y_t     = beta_t (v_t - exp(G_t) S^T k_t)                                scan
//! D       = T Y                                                            scan
//! o_t     = exp(G_t) S^T q_t + sum_i P[t][i] D_i                           scan
//! S       = exp(G_L) S + sum_t k_t (exp(G_L - G_t) D_t)^T                  scan
//! ```
//!
//! Every exponent is <= 0 and |T|, |P| <= 1 whatever the keys are, so nothing grows. G is summed and subtracted in f64:
//! with f32 sums one token that forgets all would spoil the decays behind it. Tokens behind the last one count as gate
//! 0, beta 0 and zero rows: their rows of T are those of the identity, those of P are zero.
//!
//! A launch of prep makes the records of up to `span` tokens of each sequence, all chunks at once; the launch of scan
//! behind it walks them in order. A record is read only in the pass that made it.

use cuda_std::{copy, global, int};

use super::RecParams;
use crate::geometry::HEAD_DIM;

/// Tokens of a chunk.
pub use super::chunk::CHUNK;
/// f32 from a staged q, k or state column to the next: 4 more than a row has, so that eight of them use all banks.
pub const ROW_PITCH: usize = HEAD_DIM + 4;
/// f32 from a row of a staged 32 x 32 matrix to the next, for the same reason.
pub const MATRIX_PITCH: usize = CHUNK + 4;
/// f32 of a chunk's staged k and q rows, k rows first.
pub const KEYS: usize = 2 * CHUNK * ROW_PITCH;

/// Elements of T, and of P.
const MATRIX: usize = CHUNK * CHUNK;
/// Record of a chunk and value head: T and P by rows, then three values of each token.
const RECORD: usize = 2 * MATRIX + 3 * CHUNK;

/// f32 of scratch for calls with `value_heads` heads whose sequences have `slots` chunks a pass together.
#[must_use]
pub const fn scratch_floats(value_heads: usize, slots: usize) -> usize {
    slots * value_heads * RECORD
}

/// The record of a chunk and value head in scratch.
#[derive(Clone, Copy)]
pub struct Record(*mut f32);

impl Record {
    /// The record of chunk `chunk` of the pass, of sequence `sequence`; a sequence has a slot for each chunk of the span.
    ///
    /// # Safety
    /// `p.scratch` has [`scratch_floats`] of the call's slots; `32 chunk < p.span`, `head < p.value_heads`.
    #[inline(always)]
    #[must_use]
    pub unsafe fn new(p: &RecParams, sequence: usize, chunk: usize, head: usize) -> Self {
        let slot = sequence * (p.span as usize / CHUNK) + chunk;
        // SAFETY: inside the scratch by this function's contract.
        Self(unsafe { p.scratch.add((slot * p.value_heads as usize + head) * RECORD) })
    }

    /// The record of the next chunk of the same head.
    #[inline(always)]
    #[must_use]
    pub fn next(self, value_heads: u32) -> Self {
        // Not used behind the last chunk, where it may be outside the scratch.
        Self(self.0.wrapping_add(value_heads as usize * RECORD))
    }

    /// `T[32][32]`.
    #[inline(always)]
    #[must_use]
    pub fn solved(self) -> *mut f32 {
        self.0
    }

    /// `P[32][32]`.
    #[inline(always)]
    #[must_use]
    pub fn products(self) -> *mut f32 {
        // SAFETY: inside the record, as the next three.
        unsafe { self.0.add(MATRIX) }
    }

    /// `exp(G_t)` of the 32 tokens: decay since the chunk's start.
    #[inline(always)]
    #[must_use]
    pub fn since_start(self) -> *mut f32 {
        // SAFETY: see `products`.
        unsafe { self.0.add(2 * MATRIX) }
    }

    /// `exp(G_L - G_t)` of the 32 tokens: decay until the chunk's end.
    #[inline(always)]
    #[must_use]
    pub fn until_end(self) -> *mut f32 {
        // SAFETY: see `products`.
        unsafe { self.0.add(2 * MATRIX + CHUNK) }
    }

    /// beta of the 32 tokens, 0 behind the last one.
    #[inline(always)]
    #[must_use]
    pub fn beta(self) -> *mut f32 {
        // SAFETY: see `products`.
        unsafe { self.0.add(2 * MATRIX + 2 * CHUNK) }
    }
}

/// Starts the copies of a chunk's k and q rows to `keys`: warp `warp` of `WARPS` takes every `WARPS`-th token, a lane 16
/// bytes of both rows. Rows behind the last token become zero, so the chunk may be behind it, too. The caller closes the
/// group.
///
/// # Safety
/// `p` is a block's call (`of_block`) with a token, `key_head < p.key_heads`; `keys` is [`KEYS`] f32 of shared memory
/// without readers, 16-byte aligned; all `WARPS` warps call it.
#[inline(always)]
pub unsafe fn copy_keys<const WARPS: usize>(
    p: &RecParams,
    chunk: u32,
    key_head: usize,
    keys: *mut f32,
    warp: usize,
    lane: usize,
) {
    // Opaque, else the addresses of all rows stay in registers.
    let (warp, lane) = (int::opaque(warp) as u32, int::opaque(lane) as u32);
    let head = p.qkv.wrapping_add(key_head * HEAD_DIM + 4 * lane as usize);
    for i in 0..CHUNK.div_ceil(WARPS) {
        let row = warp + (WARPS * i) as u32;
        if WARPS * (i + 1) <= CHUNK || row < CHUNK as u32 {
            let token = chunk * CHUNK as u32 + row;
            let q = at_token(head, token, p.qkv_stride);
            let k = q.wrapping_add(p.key_heads as usize * HEAD_DIM);
            let bytes = if token < p.tokens { 16 } else { 0 };
            // SAFETY: a token that is copied is one of the sequence's, k heads follow the q heads; `row < 32` and
            // `4 lane + 3 < 128`; all terms are multiples of 4 floats.
            unsafe {
                let to = keys.add((row * ROW_PITCH as u32 + 4 * lane) as usize);
                copy::cp_async16_zfill(to, k, bytes);
                copy::cp_async16_zfill(to.add(CHUNK * ROW_PITCH), q, bytes);
            }
        }
    }
}

/// The address of an element of token `token`, which may be behind the last one, from that of token 0; rows are `stride`
/// elements apart. One instruction: the tokens of a pass, and some more, are below 2^30.
#[inline(always)]
#[must_use]
pub fn at_token(p: *const f32, token: u32, stride: u32) -> *const f32 {
    p.wrapping_byte_add((4 * token) as usize * stride as usize)
}

/// Log decay and beta of a token and head; 0 and 0 behind the last token.
///
/// # Safety
/// `p` is a block's call; `head < p.value_heads`.
#[inline(always)]
pub unsafe fn gates_of(p: &RecParams, token: usize, head: usize) -> (f32, f32) {
    if token >= p.tokens as usize {
        return (0.0, 0.0);
    }
    // SAFETY: the token is one of the sequence's.
    unsafe {
        (
            global::load(p.gate.add(token * p.gate_stride as usize + head)),
            global::load(p.beta.add(token * p.beta_stride as usize + head)),
        )
    }
}
