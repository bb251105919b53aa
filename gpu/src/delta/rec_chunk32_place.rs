//! `delta.rec/chunk32`: a head's part of the scan's shared memory, and a lane's place in it.

use cuda_std::{copy, global, int, shared};

use super::RecParams;
use super::rec_chunk32::{CHUNK, MATRIX_PITCH, ROW_PITCH, Record, at_token};
use super::rec_chunk32_steps::Sums;
use crate::geometry::HEAD_DIM;

/// Columns of a block.
pub const COLUMNS: usize = 16;
/// Threads of a value head.
pub const HEAD_THREADS: u32 = 128;
/// Warps of a value head.
pub const HEAD_WARPS: usize = 4;

/// f32 of a staged matrix.
pub const MATRIX: usize = CHUNK * MATRIX_PITCH;
/// f32 from a column of Y or D to the next: scalar stores of a warp and 16-byte loads then use all banks once.
pub const COLUMN_PITCH: usize = CHUNK + 8;
/// f32 from a token of the scaled D to the next, for the same reason.
pub const TOKEN_PITCH: usize = COLUMNS + 4;
/// f32 of what a warp sends to another: 8 of each lane.
const PART: usize = 8 * 32;

// A head's part of shared memory, offsets in f32.
/// The state by columns: written by the update, read by the products.
pub const STATE_AT: usize = 0;
/// T, then P: landed from the second barrier of the head on, read by D and by the outputs.
pub const MATRIX_AT: usize = STATE_AT + COLUMNS * ROW_PITCH;
/// Y by columns, read by D.
pub const Y_AT: usize = MATRIX_AT + 2 * MATRIX;
/// Parts of the products, 3 of each warp, from the products to Y.
const PARTS_AT: usize = Y_AT + COLUMNS * COLUMN_PITCH;
/// D by columns, over the parts, read by the outputs.
pub const D_AT: usize = PARTS_AT;
/// exp(G_L - G_t) D_t by tokens, over the parts, read by the update.
pub const SCALED_AT: usize = D_AT + COLUMNS * COLUMN_PITCH;
/// All of it.
pub const HEAD_LEN: usize = PARTS_AT + 3 * HEAD_WARPS * PART;
const _: () = assert!(SCALED_AT + CHUNK * TOKEN_PITCH <= HEAD_LEN && HEAD_LEN.is_multiple_of(4));

/// The four warps' sums of the lane's own tokens and columns, own ones first: S^T k, then S^T q.
pub struct Parts([[[f32; 4]; 4]; 2]);

impl Parts {
    /// Their sum, `[token][column]`.
    #[inline(always)]
    pub fn sums(&self, which: usize) -> [[f32; 2]; 2] {
        let p = &self.0[which];
        let mut sum = [[0.0f32; 2]; 2];
        for j in 0..2 {
            for i in 0..2 {
                let e = 2 * j + i;
                sum[j][i] = (p[0][e] + p[1][e]) + (p[2][e] + p[3][e]);
            }
        }
        sum
    }
}

/// A lane's place in its head.
#[derive(Clone, Copy)]
pub struct Lane {
    /// Thread of the block.
    pub thread: usize,
    /// Lane in the warp.
    pub id: usize,
    /// Head of the block.
    pub head: usize,
    /// Warp in the head.
    pub warp: usize,
    /// Its first own token, and that of warp xor 1.
    pub near: [usize; 2],
    /// Its first own column, and that of warp xor 2.
    pub left: [usize; 2],
    /// First state row of the update.
    pub row: usize,
    /// First column of the update.
    pub quad: usize,
}

impl Lane {
    /// The place of thread `thread` of the block.
    #[inline(always)]
    #[must_use]
    pub fn of(thread: usize) -> Self {
        let small = thread as u32; // the arithmetic below in 32 bits
        let (id, warp) = (small % 32, small / 32 % HEAD_WARPS as u32);
        let (ts, cq) = (id / 2 % 8, id % 2 + id / 16 * 2);
        let (near, left) = (8 * (warp % 2) + ts, 8 * (warp / 2) + cq);
        Self {
            thread,
            id: id as usize,
            head: (small / HEAD_THREADS) as usize,
            warp: warp as usize,
            near: [near as usize, (near ^ 8) as usize],
            left: [left as usize, (left ^ 8) as usize],
            row: (32 * warp + 4 * ts) as usize,
            quad: 4 * cq as usize,
        }
    }

    /// The same place, made anew from a number that the compiler does not know: else it keeps the addresses of all stages in
    /// registers, from before the first chunk on.
    #[inline(always)]
    pub fn again(&self) -> Self {
        Self::of(int::opaque(self.thread))
    }

    /// Token of slot `slot`: 0 and 1 are the lane's own, 2 and 3 those of warp xor 1. Even warps own the first and the last
    /// eight tokens, odd ones those between.
    #[inline(always)]
    pub fn token(&self, slot: usize) -> usize {
        match slot {
            0 => self.near[0],
            1 => self.near[1] + 16,
            2 => self.near[1],
            _ => self.near[0] + 16,
        }
    }

    /// Column of slot `slot`: 0 and 1 are the lane's own, 2 and 3 those of warp xor 2.
    #[inline(always)]
    pub fn column(&self, slot: usize) -> usize {
        self.left[slot / 2] + 4 * (slot % 2)
    }

    /// Where the column of slot `slot` starts in Y and D.
    #[inline(always)]
    pub fn column_at(&self, slot: usize) -> usize {
        self.left[slot / 2] * COLUMN_PITCH + 4 * (slot % 2) * COLUMN_PITCH
    }

    /// Writes the lane's tile of the state to the head's copy.
    ///
    /// # Safety
    /// `part` is the head's part of shared memory; its copy of the state has no reader.
    #[inline(always)]
    pub unsafe fn store_state(&self, part: *mut f32, s: &[[f32; 4]; 4]) {
        for c in 0..4 {
            let at = STATE_AT + (self.quad + c) * ROW_PITCH + self.row;
            // SAFETY: row + 3 < 128, column < 16; multiples of 4 floats.
            unsafe { shared::store4(part.add(at), [s[0][c], s[1][c], s[2][c], s[3][c]]) };
        }
    }

    /// Starts the copies of T and P on and below the diagonal, 8 x 8 blocks at a time; the caller closes the group.
    ///
    /// # Safety
    /// The record is there; T and P in `part` have no reader; all 128 threads of the head call it.
    #[inline(always)]
    pub unsafe fn copy_matrices(&self, record: Record, part: *mut f32) {
        let thread = self.thread as u32 % HEAD_THREADS;
        for half in 0..2 {
            let (row, quad) = (16 * half + thread / 8, thread % 8);
            if quad / 2 <= row / 8 {
                let from = 16 * half * CHUNK as u32 + 4 * thread; // row * 32 + 4 quad
                let to = MATRIX_AT as u32 + row * MATRIX_PITCH as u32 + 4 * quad;
                // SAFETY: `row < 32`, `quad < 8`; multiples of 4 floats.
                unsafe {
                    copy::cp_async16(part.add(to as usize), record.solved().add(from as usize));
                    copy::cp_async16(part.add(to as usize + MATRIX), record.products().add(from as usize));
                }
            }
        }
    }

    /// v of the lane's tokens, counted from `first`, and columns; 0 behind the last token.
    ///
    /// # Safety
    /// `p` is a block's call, `column` the first of the block's columns of its head, counted over all heads.
    #[inline(always)]
    pub unsafe fn load_values(&self, p: &RecParams, first: u32, column: usize) -> [[f32; 2]; 2] {
        let values = p.qkv.wrapping_add(2 * p.key_heads as usize * HEAD_DIM + column + self.left[0]);
        let mut v = [[0.0f32; 2]; 2];
        for j in 0..2 {
            let token = first + self.token(j) as u32;
            if token < p.tokens {
                let row = at_token(values, token, p.qkv_stride);
                // SAFETY: the token is one of the sequence's, own columns are 4 apart.
                v[j] = unsafe { [global::load(row), global::load(row.add(4))] };
            }
        }
        v
    }

    /// Values of the lane's two tokens.
    ///
    /// # Safety
    /// `values` are 32 f32 in global memory that nobody writes.
    #[inline(always)]
    pub unsafe fn pair(&self, values: *const f32) -> [f32; 2] {
        // SAFETY: tokens are below 32.
        unsafe { [global::load(values.add(self.token(0))), global::load(values.add(self.token(1)))] }
    }

    /// Writes the lane's elements of Y or D by columns.
    ///
    /// # Safety
    /// `columns` is Y or D of the head, without readers.
    #[inline(always)]
    pub unsafe fn store_columns(&self, columns: *mut f32, elements: &[[f32; 2]; 2]) {
        for j in 0..2 {
            for i in 0..2 {
                // SAFETY: 16 columns, 32 tokens; one lane an element.
                unsafe { shared::store(columns.add(self.column_at(i) + self.token(j)), elements[j][i]) };
            }
        }
    }

    /// Writes the lane's elements of D by tokens, each token times its factor.
    ///
    /// # Safety
    /// `scaled` is the scaled D of the head, without readers.
    #[inline(always)]
    pub unsafe fn store_scaled(&self, scaled: *mut f32, d: &[[f32; 2]; 2], factors: [f32; 2]) {
        for j in 0..2 {
            for i in 0..2 {
                let at = self.token(j) * TOKEN_PITCH + self.column(i);
                // SAFETY: 32 tokens, 16 columns; one lane an element.
                unsafe { shared::store(scaled.add(at), factors[j] * d[j][i]) };
            }
        }
    }

    /// Writes the lane's outputs, tokens counted from `first`; none behind the last one.
    ///
    /// # Safety
    /// As [`Self::load_values`]; one lane an element.
    #[inline(always)]
    pub unsafe fn store_outputs(&self, p: &RecParams, first: u32, column: usize, o: &[[f32; 2]; 2]) {
        let y = p.y.wrapping_add(column + self.left[0]);
        for j in 0..2 {
            let token = first + self.token(j) as u32;
            if token < p.tokens {
                let row = at_token(y, token, p.y_stride).cast_mut();
                // SAFETY: the token is one of the sequence's, own columns are 4 apart.
                unsafe {
                    global::store(row, o[j][0]);
                    global::store(row.add(4), o[j][1]);
                }
            }
        }
    }

    /// Sends the sums that are not the lane's own: part m - 1 of warp w goes to warp w xor m, whose bit 0 chooses tokens, bit
    /// 1 columns.
    ///
    /// # Safety
    /// The head's parts have no reader.
    #[inline(always)]
    pub unsafe fn send(&self, part: *mut f32, sums: &Sums) {
        for m in 1..4 {
            let (t, c) = (2 * (m % 2), 2 * (m / 2));
            let to = PARTS_AT + ((m - 1) * HEAD_WARPS + self.warp) * PART + 4 * self.id;
            for i in 0..2 {
                let four = [sums[i][t][c], sums[i][t][c + 1], sums[i][t + 1][c], sums[i][t + 1][c + 1]];
                // SAFETY: `3 * 4` parts of 8 f32 a lane; multiples of 4 floats.
                unsafe { shared::store4(part.add(to + i * PART / 2), four) };
            }
        }
    }

    /// The lane's own sums and what the other three warps have sent.
    ///
    /// # Safety
    /// A barrier of the head after [`Self::send`].
    #[inline(always)]
    pub unsafe fn receive(&self, part: *const f32, sums: &Sums) -> Parts {
        let mut parts = Parts([[[0.0; 4]; 4]; 2]);
        for i in 0..2 {
            parts.0[i][0] = [sums[i][0][0], sums[i][0][1], sums[i][1][0], sums[i][1][1]];
        }
        for m in 1..4 {
            let from = PARTS_AT + ((m - 1) * HEAD_WARPS + (self.warp ^ m)) * PART + 4 * self.id;
            for i in 0..2 {
                // SAFETY: as in `send`.
                parts.0[i][m] = unsafe { shared::load4(part.add(from + i * PART / 2)) };
            }
        }
        parts
    }
}
