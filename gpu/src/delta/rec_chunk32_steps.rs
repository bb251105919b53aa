//! `delta.rec/chunk32`: the three products of a chunk, as one lane does them.

use cuda_std::{float, int, shared};

use super::rec_chunk32::{CHUNK, MATRIX_PITCH, ROW_PITCH};
use super::rec_chunk32_place::{COLUMN_PITCH, Lane, STATE_AT, TOKEN_PITCH};

/// S^T k, then S^T q, over the rows of a warp: `[token slot][column slot]`.
pub type Sums = [[[f32; 4]; 4]; 2];

impl Lane {
    /// S^T k and S^T q over the warp's rows, for the tokens and columns of all slots.
    ///
    /// # Safety
    /// `keys` is a landed buffer, the head's copy of the state whole.
    #[inline(always)]
    pub unsafe fn products<const STEP: usize>(&self, keys: *const f32, part: *const f32) -> Sums {
        let (mut x, mut qs) = ([[0.0f32; 4]; 4], [[0.0f32; 4]; 4]);
        let rows = 32 * self.warp;
        // SAFETY: tokens are below 32, columns below 16; multiples of 4 floats, here and below.
        let (mut keys, mut columns) = unsafe {
            (
                [keys.add(self.near[0] * ROW_PITCH + rows), keys.add(self.near[1] * ROW_PITCH + rows)],
                [
                    part.add(STATE_AT + self.left[0] * ROW_PITCH + rows),
                    part.add(STATE_AT + self.left[1] * ROW_PITCH + rows),
                ],
            )
        };
        let mut steps = int::opaque(32 / STEP) as u32;
        while steps > 0 {
            for r in (0..STEP).step_by(4) {
                let mut s = [[0.0f32; 4]; 4];
                for c in 0..4 {
                    // SAFETY: `32 w + 32 <= 128` rows of the state, four of them from here on.
                    s[c] = unsafe { shared::load4(columns[c / 2].add(4 * (c % 2) * ROW_PITCH + r)) };
                }
                for t in 0..4 {
                    // Slots 0 and 3 start from the lane's first token, 1 and 2 from that of warp xor 1 (see `token`).
                    let (near, far) = ([0, 1, 1, 0][t], [0, 16, 0, 16][t]);
                    // SAFETY: as above; q rows follow the 32 k rows.
                    let (k, q) = unsafe {
                        let row = keys[near].add(far * ROW_PITCH + r);
                        (shared::load4(row), shared::load4(row.add(CHUNK * ROW_PITCH)))
                    };
                    for e in 0..4 {
                        for c in 0..4 {
                            x[t][c] = float::fma(k[e], s[c][e], x[t][c]);
                            qs[t][c] = float::fma(q[e], s[c][e], qs[t][c]);
                        }
                    }
                }
            }
            for i in 0..2 {
                // SAFETY: at most just behind the warp's rows.
                unsafe {
                    keys[i] = keys[i].add(STEP);
                    columns[i] = columns[i].add(STEP);
                }
            }
            steps -= 1;
        }
        [x, qs]
    }

    /// Rows of the lane's two tokens of the product of a lower triangular matrix and its two columns: `[token][column]`.
    ///
    /// # Safety
    /// `matrix` is T or P, whose 8 x 8 blocks above the diagonal are not read; `columns` is Y or D; nobody writes them.
    #[inline(always)]
    pub unsafe fn triangular(&self, matrix: *const f32, columns: *const f32) -> [[f32; 2]; 2] {
        // SAFETY: tokens and columns are below 32 and 16.
        let (rows, columns) = unsafe {
            (
                [matrix.add(self.token(0) * MATRIX_PITCH), matrix.add(self.token(1) * MATRIX_PITCH)],
                columns.add(self.column_at(0)),
            )
        };
        let mut sum = [[0.0f32; 2]; 2];
        // SAFETY: `i + 3 < 32`, below the end of the token's block on the diagonal; this function's contract.
        unsafe {
            both(&mut sum, rows, columns, 0);
            // Even warps have tokens 0 to 7 and 24 to 31, odd ones 8 to 15 and 16 to 23. No branch has an else: LLVM 22 would
            // merge the ends of both and split their loads.
            if !self.warp.is_multiple_of(2) {
                one(&mut sum[0], rows[0], columns, 8);
            }
            one(&mut sum[1], rows[1], columns, 8);
            one(&mut sum[1], rows[1], columns, 16);
            if self.warp.is_multiple_of(2) {
                one(&mut sum[1], rows[1], columns, 24);
            }
        }
        sum
    }

    /// S = whole * S + sum over tokens of k_t times the scaled D_t.
    ///
    /// # Safety
    /// `keys` is a landed buffer, `scaled` the scaled D, complete; nobody writes them.
    #[inline(always)]
    pub unsafe fn update<const STEP: usize>(
        &self,
        s: &mut [[f32; 4]; 4],
        whole: f32,
        keys: *const f32,
        scaled: *const f32,
    ) {
        let mut sum = [[0.0f32; 4]; 4];
        // SAFETY: row + 3 < 128, quad + 3 < 16; multiples of 4 floats, here and below.
        let (mut k_row, mut d_row) = unsafe { (keys.add(self.row), scaled.add(self.quad)) };
        let mut steps = int::opaque(CHUNK / STEP) as u32;
        while steps > 0 {
            for t in 0..STEP {
                // SAFETY: 32 tokens in all.
                let (k, d) =
                    unsafe { (shared::load4(k_row.add(t * ROW_PITCH)), shared::load4(d_row.add(t * TOKEN_PITCH))) };
                for r in 0..4 {
                    for c in 0..4 {
                        sum[r][c] = float::fma(k[r], d[c], sum[r][c]);
                    }
                }
            }
            // SAFETY: at most just behind the last token.
            unsafe {
                k_row = k_row.add(STEP * ROW_PITCH);
                d_row = d_row.add(STEP * TOKEN_PITCH);
            }
            steps -= 1;
        }
        for r in 0..4 {
            for c in 0..4 {
                s[r][c] = float::fma(whole, s[r][c], sum[r][c]);
            }
        }
    }
}

/// Adds the terms of tokens `first` to `first + 7` to both rows.
///
/// # Safety
/// As [`Lane::triangular`]; neither row's block on the diagonal ends before `first + 8`.
#[inline(always)]
unsafe fn both(sum: &mut [[f32; 2]; 2], rows: [*const f32; 2], columns: *const f32, first: usize) {
    for i in (first..first + 8).step_by(4) {
        // SAFETY: this function's contract; multiples of 4 floats.
        let (m, y) = unsafe {
            (
                [shared::load4(rows[0].add(i)), shared::load4(rows[1].add(i))],
                [shared::load4(columns.add(i)), shared::load4(columns.add(4 * COLUMN_PITCH + i))],
            )
        };
        for e in 0..4 {
            for j in 0..2 {
                for c in 0..2 {
                    sum[j][c] = float::fma(m[j][e], y[c][e], sum[j][c]);
                }
            }
        }
    }
}

/// Adds the terms of tokens `first` to `first + 7` to one row.
///
/// # Safety
/// As [`both`], for this row alone.
#[inline(always)]
unsafe fn one(sum: &mut [f32; 2], row: *const f32, columns: *const f32, first: usize) {
    for i in (first..first + 8).step_by(4) {
        // SAFETY: this function's contract; multiples of 4 floats.
        let (m, y) = unsafe {
            (
                shared::load4(row.add(i)),
                [shared::load4(columns.add(i)), shared::load4(columns.add(4 * COLUMN_PITCH + i))],
            )
        };
        for e in 0..4 {
            for c in 0..2 {
                sum[c] = float::fma(m[e], y[c][e], sum[c]);
            }
        }
    }
}
