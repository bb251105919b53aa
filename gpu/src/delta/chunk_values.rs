//! v of a chunk on its way into a stage, and y back to memory. The filling warps do it.

use cuda_std::copy::cp_async16_zfill;
use cuda_std::{global, int, shared, warp};

use super::RecParams;
use super::chunk::CHUNK;
use super::chunk_walk::Task;
use crate::geometry::HEAD_DIM;

/// Warps that fill stages.
pub const FILLERS: usize = 4;

/// f32 from a token's v in a stage to the next: 64, and 4 so that the lanes of a fragment read different banks.
pub const VALUE_PITCH: usize = 68;
/// Bytes of v in a stage.
pub const VALUE_BYTES: usize = CHUNK * VALUE_PITCH * 4;
/// Quads of v that a lane brings.
const VALUE_QUADS: usize = CHUNK * 64 / 4 / (32 * FILLERS);

/// A warp's part of v and y, 64 columns of a value head: a lane has quad `lane mod 16` of every eighth token.
#[derive(Clone, Copy)]
pub struct ValueQuads {
    v: *const f32,
    v_stride: usize,
    y: *mut f32,
    y_stride: usize,
    /// Tokens that have a v: all, or none.
    given: usize,
    /// Tokens whose y is written: all, or none.
    wanted: usize,
    token: usize,
    quad: usize,
}

impl ValueQuads {
    /// For warp `warp`, half `half` of the columns of value head `head` of the tokens of `p`.
    #[inline(always)]
    pub fn new(p: &RecParams, task: &Task, head: usize, half: usize, warp: usize) -> Self {
        let lane = warp::lane_id() as usize;
        let (token, quad) = (2 * warp + lane / 16, lane % 16);
        let at = head * HEAD_DIM + half * 64 + 4 * quad;
        Self {
            v: p.qkv.wrapping_add(2 * p.key_heads as usize * HEAD_DIM + at),
            v_stride: p.qkv_stride as usize,
            y: p.y.wrapping_add(at),
            y_stride: p.y_stride as usize,
            given: if task.values { p.tokens as usize } else { 0 },
            wanted: if task.outputs { p.tokens as usize } else { 0 },
            token,
            quad,
        }
    }

    /// Starts copies of the lane's quads of v of the chunk from token `first` on into a stage; 0 where there is no v.
    ///
    /// # Safety
    /// `values` in the stage has no reader.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn start_copies(&self, to: *mut f32, first: usize) {
        let stride = int::opaque(self.v_stride);
        let token = first + self.token;
        let from = self.v.wrapping_add(token * stride);
        for i in 0..VALUE_QUADS {
            let at = (self.token + 2 * FILLERS * i) * VALUE_PITCH + 4 * self.quad;
            let bytes = if token + 2 * FILLERS * i < self.given { 16 } else { 0 };
            // SAFETY: token < 32, quad < 16; a token of the sequence, columns of the head, read only, or nothing is read.
            unsafe { cp_async16_zfill(to.add(at), from.wrapping_add(2 * FILLERS * i * stride), bytes) };
        }
    }

    /// Asks L2 for the warp's part of v of the chunk from token `first` on.
    #[inline(always)]
    pub fn fetch(&self, first: usize) {
        let token = first + self.token + 2 * FILLERS * (self.quad % VALUE_QUADS);
        if token < self.given {
            // SAFETY: a token of the sequence. Quads of each remainder are in both lines.
            unsafe { global::prefetch_l2(self.v.wrapping_add(token * int::opaque(self.v_stride))) };
        }
    }

    /// Brings y of the chunk from token `first` on, which lies in a stage in place of v, to memory where it is wanted.
    ///
    /// # Safety
    /// The scanning warps have written it.
    #[inline(always)]
    pub unsafe fn flush(&self, from: *const f32, first: usize) {
        let stride = int::opaque(self.y_stride);
        let token = first + self.token;
        let to = self.y.wrapping_add(token * stride);
        for i in 0..VALUE_QUADS {
            if token + 2 * FILLERS * i < self.wanted {
                let at = (self.token + 2 * FILLERS * i) * VALUE_PITCH + 4 * self.quad;
                // SAFETY: as in `store`; a token of the sequence, columns of the head, one writer an element.
                unsafe { global::store4(to.wrapping_add(2 * FILLERS * i * stride), shared::load4(from.add(at))) };
            }
        }
    }
}
