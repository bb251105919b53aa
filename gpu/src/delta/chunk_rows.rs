//! Rows of a chunk, from memory to shared memory: k and q as f16 images, v as it is; and y back. Four warps do it.

use cuda_std::copy::cp_async16_zfill;
use cuda_std::{global, int, shared, warp};

use super::RecParams;
use super::chunk::{CHUNK, KEYS, key_at, key_scale, parts, power_of_two, split};
use super::chunk_walk::Task;
use crate::geometry::HEAD_DIM;

/// Warps that share the rows of a chunk.
pub const SPLITTERS: usize = 4;
/// Rows of a warp.
const ROWS: usize = 16;

/// A lane's quads of its warp's rows.
pub type Rows = [[f32; 4]; ROWS];

/// Where a warp's rows are: k of tokens 0.. (warp 0) and 16.. (1) of the chunk, q of 0.. (2) and 16.. (3).
#[derive(Clone, Copy)]
pub struct RowSource {
    /// The lane's quad in the row of the sequence's first token.
    from: *const f32,
    stride: usize,
    tokens: usize,
    warp: usize,
}

impl RowSource {
    /// Rows of warp `warp` of key head `key_head` of the block's sequence `p`.
    #[inline(always)]
    pub fn new(p: &RecParams, key_head: usize, warp: usize) -> Self {
        let key_width = if warp < 2 { p.key_heads as usize * HEAD_DIM } else { 0 };
        let column = key_width + key_head * HEAD_DIM + warp::lane_id() as usize * 4;
        Self { from: p.qkv.wrapping_add(column), stride: p.qkv_stride as usize, tokens: p.tokens as usize, warp }
    }

    /// Loads the rows of the chunk from token `first` on; 0 past the end.
    #[inline(always)]
    pub fn load(&self, first: usize) -> Rows {
        let stride = int::opaque(self.stride); // else a loop over chunks carries an address for each row
        let token = first + self.warp % 2 * ROWS;
        let from = self.from.wrapping_add(token * stride);
        let mut rows = [[0.0f32; 4]; ROWS];
        if token + ROWS <= self.tokens {
            for r in 0..ROWS {
                // SAFETY: a token of the sequence; the lane's 16 bytes of its row. Read only.
                rows[r] = unsafe { global::load4_nc(from.wrapping_add(r * stride)) };
            }
        } else {
            for r in 0..ROWS {
                if token + r < self.tokens {
                    // SAFETY: as above.
                    rows[r] = unsafe { global::load4_nc(from.wrapping_add(r * stride)) };
                }
            }
        }
        rows
    }

    /// Asks L2 for half `half` of the rows of the chunk from token `first` on.
    #[inline(always)]
    pub fn fetch(&self, first: usize, half: usize) {
        let token = first + self.warp % 2 * ROWS + half * (ROWS / 2) + warp::lane_id() as usize % 8;
        if token < self.tokens {
            // SAFETY: a token of the sequence. Lanes 8 apart have their quads in different lines.
            unsafe { global::prefetch_l2(self.from.wrapping_add(token * int::opaque(self.stride))) };
        }
    }

    /// Splits the rows into the images at `images`.
    ///
    /// # Safety
    /// The warp's rows of the images have no reader.
    #[inline(always)]
    pub unsafe fn store<const PAIRS: bool>(&self, images: *mut u8, rows: &Rows) {
        let lane = int::opaque(warp::lane_id() as usize); // else a loop over chunks carries an address for each row
        let scale = power_of_two(key_scale(PAIRS));
        let to = images.wrapping_add(self.warp * ROWS * 128 + lane % 2 * 8);
        for r in 0..ROWS {
            let x = rows[r];
            let a = split::<PAIRS>(x[0] * scale, x[1] * scale);
            let b = split::<PAIRS>(x[2] * scale, x[3] * scale);
            for part in 0..parts(PAIRS) {
                let at = KEYS[part] + key_at(r, lane / 2);
                // SAFETY: row < 64, unit < 16: inside the image; multiples of 8 bytes.
                unsafe { shared::store2(to.add(at).cast::<u32>(), [a[part], b[part]]) };
            }
        }
    }
}

/// f32 from a token's v in a stage to the next: 64, and 4 so that the lanes of a fragment read different banks.
pub const VALUE_PITCH: usize = 68;
/// Bytes of v in a stage.
pub const VALUE_BYTES: usize = CHUNK * VALUE_PITCH * 4;
/// Quads of v that a lane brings.
const VALUE_QUADS: usize = CHUNK * 64 / 4 / (32 * SPLITTERS);

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
            let at = (self.token + 2 * SPLITTERS * i) * VALUE_PITCH + 4 * self.quad;
            let bytes = if token + 2 * SPLITTERS * i < self.given { 16 } else { 0 };
            // SAFETY: token < 32, quad < 16; a token of the sequence, columns of the head, read only, or nothing is read.
            unsafe { cp_async16_zfill(to.add(at), from.wrapping_add(2 * SPLITTERS * i * stride), bytes) };
        }
    }

    /// Asks L2 for the warp's part of v of the chunk from token `first` on.
    #[inline(always)]
    pub fn fetch(&self, first: usize) {
        let token = first + self.token + 2 * SPLITTERS * (self.quad % VALUE_QUADS);
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
            if token + 2 * SPLITTERS * i < self.wanted {
                let at = (self.token + 2 * SPLITTERS * i) * VALUE_PITCH + 4 * self.quad;
                // SAFETY: as in `store`; a token of the sequence, columns of the head, one writer an element.
                unsafe { global::store4(to.wrapping_add(2 * SPLITTERS * i * stride), shared::load4(from.add(at))) };
            }
        }
    }
}
