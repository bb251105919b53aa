//! What a block of `dense.product/mma` does: `16 MI WARPS_M` matrix rows by `32 WARPS_N` tokens on tensor cores.
//!
//! Warp w has rows `16 MI (w / WARPS_N) ..` and tokens `32 (w mod WARPS_N) ..` of the block as `MI` x 4 tiles of `mma.sync` m16n8k16,
//! W being A and x being B. `AHEAD + 2` stages of 32 columns hold rows of W, of hi and of lo, 64 bytes each with units of 16
//! swizzled; all but one are under way (cp.async) while one is multiplied. Beyond n_in there are zeros; rows and tokens beyond the
//! last are the last again. One barrier a stage, by all threads, between its two halves of 16 columns: the next stage has landed, this one has
//! been read. Operands of a half are read from shared memory while the one before is multiplied.
//!
//! A token's sums are made in one order whatever the sizes of the block: slices of 128 columns, ascending, each a sum in a tensor core
//! from 0: 16 columns, ascending, lo before hi; slices are added in f32.

use cuda_std::copy::{cp_async_commit, cp_async_wait_all, cp_async_wait_group, cp_async16_zfill};
use cuda_std::thread::{block_idx_x, block_idx_y, sync_threads, thread_idx_x};
use cuda_std::{global, mma, shared};

use super::ProductParams;
use super::parts::{Half, PARTS, part_bytes, scale};
use super::product_rows::store;
use crate::delta::chunk::{MatrixLane, chunk_at, pairs};

/// Columns of a stage.
const STEP: usize = 32;
/// Stages of a slice.
const SLICE: usize = 4;
/// Bytes of a row of a stage.
const ROW: usize = 2 * STEP;

/// Bytes of `ahead + 2` stages of so many matrix rows and tokens: the dynamic shared memory of a block.
#[must_use]
pub const fn shared_bytes(rows: usize, tokens: usize, ahead: u32) -> usize {
    (ahead as usize + 2) * stage_bytes(rows, tokens)
}

const fn stage_bytes(rows: usize, tokens: usize) -> usize {
    (rows + PARTS * tokens) * ROW
}

/// Where a thread's units of a stage come from: 16 bytes of `W_ROWS` rows of W, and of `X_ROWS` tokens, each `PITCH` rows apart.
struct Copies<const W_ROWS: usize, const X_ROWS: usize, const PITCH: usize> {
    w: [*const u8; W_ROWS],
    x: [*const u8; X_ROWS],
    part: usize,
    /// First column of the unit in a stage.
    column: usize,
    /// Its byte among the rows of an operand.
    at: usize,
    n_in: usize,
}

impl<const W_ROWS: usize, const X_ROWS: usize, const PITCH: usize> Copies<W_ROWS, X_ROWS, PITCH> {
    #[inline(always)]
    fn new(p: &ProductParams, first_row: usize, first_token: usize) -> Self {
        let (row, unit) = (thread_idx_x() as usize / 4, thread_idx_x() as usize % 4);
        let (n_in, last_row, last_token) = (p.n_in as usize, p.n_out as usize - 1, p.tokens as usize - 1);
        let mut copies = Self {
            w: [p.w; W_ROWS],
            x: [p.scratch.cast_const(); X_ROWS],
            part: part_bytes(p.tokens as usize, n_in),
            column: 8 * unit,
            at: chunk_at(row, unit),
            n_in,
        };
        for r in 0..W_ROWS {
            let row = (first_row + row + PITCH * r).min(last_row);
            copies.w[r] = copies.w[r].wrapping_add(2 * (row * n_in + 8 * unit));
        }
        for r in 0..X_ROWS {
            let token = (first_token + row + PITCH * r).min(last_token);
            copies.x[r] = copies.x[r].wrapping_add(2 * (token * n_in + 8 * unit));
        }
        copies
    }

    /// Starts the copies of columns `column ..` into a stage.
    ///
    /// # Safety
    /// The stage has no reader.
    #[inline(always)]
    unsafe fn start(&self, stage: *mut u8, column: usize) {
        let bytes = if self.column + column < self.n_in { 16 } else { 0 };
        let (to, from) = (stage.wrapping_add(self.at), 2 * column);
        for r in 0..W_ROWS {
            // SAFETY: columns of a clamped row, of which n_in, a multiple of 8, has all 8 or none; multiples of 16.
            unsafe { cp_async16_zfill(to.wrapping_add(r * PITCH * ROW), self.w[r].wrapping_add(from), bytes) };
        }
        let to = to.wrapping_add(W_ROWS * PITCH * ROW);
        for r in 0..X_ROWS {
            for i in 0..PARTS {
                let to = to.wrapping_add((i * X_ROWS + r) * PITCH * ROW);
                // SAFETY: as above, of a clamped token of part i.
                unsafe { cp_async16_zfill(to, self.x[r].wrapping_add(i * self.part + from), bytes) };
            }
        }
    }
}

/// The block's part of y. `PITCH` is a quarter of the threads; `W_ROWS PITCH` and `X_ROWS PITCH` are the block's rows and tokens; the
/// stages are a multiple of the four of a slice.
///
/// # Safety
/// `ProductParams` with scratch as `dense_product_mma_split` left it, w 16-byte aligned, n_in a multiple of 8; grid
/// `(ceil(tokens / (X_ROWS PITCH)), ceil(n_out / (W_ROWS PITCH)))`, dynamic shared memory [`shared_bytes`].
#[inline(always)]
pub unsafe fn body<
    W: Half,
    const MI: usize,
    const WARPS_N: usize,
    const W_ROWS: usize,
    const X_ROWS: usize,
    const PITCH: usize,
    const AHEAD: u32,
>(
    p: ProductParams,
) {
    let (rows, tokens, stages) = (W_ROWS * PITCH, X_ROWS * PITCH, AHEAD as usize + 2);
    let stage_of = |s: usize| shared::dynamic_shared::<u8>().wrapping_add(s * stage_bytes(rows, tokens));
    let (mut row, mut token) = (block_idx_y() as usize * rows, block_idx_x() as usize * tokens);
    let copies = Copies::<W_ROWS, X_ROWS, PITCH>::new(&p, row, token);
    for s in 0..stages - 1 {
        // SAFETY: nobody has read a stage yet.
        unsafe { copies.start(stage_of(s), s * STEP) };
        cp_async_commit();
    }
    let warp = thread_idx_x() as usize / 32;
    let (of_w, of_x) = (16 * MI * (warp / WARPS_N), 32 * (warp % WARPS_N));
    (row, token) = (row + of_w, token + of_x);
    let at = [of_w * ROW, rows * ROW + of_x * ROW, tokens * ROW];
    cp_async_wait_group::<AHEAD>();
    sync_threads();
    // SAFETY: the first stage has landed and all know.
    let mut first = unsafe { Fragments::<MI>::load(stage_of(0), at, 0) };
    let mut all = [[[0.0f32; 4]; 4]; MI];
    let mut column = 0;
    while column < p.n_in as usize {
        let mut sums = [[[0.0f32; 4]; 4]; MI];
        for s in 0..stages {
            // SAFETY: the stage has landed and all know.
            let second = unsafe { Fragments::<MI>::load(stage_of(s), at, 1) };
            first.add::<W>(&mut sums);
            // SAFETY: all have read the stage before this one.
            unsafe { copies.start(stage_of((s + stages - 1) % stages), column + (s + stages - 1) * STEP) };
            cp_async_commit();
            cp_async_wait_group::<AHEAD>();
            sync_threads();
            // SAFETY: the next stage has landed and all know; behind the last one it holds zeros.
            first = unsafe { Fragments::<MI>::load(stage_of((s + 1) % stages), at, 0) };
            second.add::<W>(&mut sums);
            if s % SLICE == SLICE - 1 {
                for i in 0..MI {
                    for j in 0..4 {
                        for e in 0..4 {
                            all[i][j][e] += sums[i][j][e];
                            sums[i][j][e] = 0.0;
                        }
                    }
                }
            }
        }
        column += stages * STEP;
    }
    cp_async_wait_all(); // zeros from beyond n_in
    // SAFETY: same contract.
    unsafe { finish::<MI>(&p, &all, row, token) };
}

/// A warp's operands of 16 columns.
struct Fragments<const MI: usize> {
    w: [[u32; 4]; MI],
    /// By part and 8 tokens.
    x: [[[u32; 2]; 4]; PARTS],
}

impl<const MI: usize> Fragments<MI> {
    /// Columns `16 k ..` of a stage: `16 MI` rows of W, whose first starts at byte `w`, and 32 tokens, at byte `x`; the second part is
    /// `part` bytes behind the first.
    ///
    /// # Safety
    /// The stage holds the operands.
    #[inline(always)]
    #[track_caller]
    unsafe fn load(stage: *const u8, [w, x, part]: [usize; 3], k: usize) -> Self {
        let (of_w, of_x) = (MatrixLane::rows_first(), MatrixLane::columns_first());
        let mut fragments = Self { w: [[0; 4]; MI], x: [[[0; 2]; 4]; PARTS] };
        for i in 0..MI {
            // SAFETY: rows and columns of W's part of the stage.
            fragments.w[i] = unsafe { mma::ldmatrix_x4(stage.wrapping_add(w + of_w.chunk(16 * i, k))) };
        }
        for i in 0..PARTS {
            for j in 0..2 {
                // SAFETY: tokens and columns of the part.
                let b = unsafe { mma::ldmatrix_x4(stage.wrapping_add(x + i * part + of_x.chunk(16 * j, k))) };
                [fragments.x[i][2 * j], fragments.x[i][2 * j + 1]] = pairs(b);
            }
        }
        fragments
    }

    /// Adds their products, the last part first.
    #[inline(always)]
    #[track_caller]
    fn add<W: Half>(&self, sums: &mut [[[f32; 4]; 4]; MI]) {
        for part in (0..PARTS).rev() {
            for j in 0..4 {
                for i in 0..MI {
                    sums[i][j] = W::product(self.w[i], self.x[part][j], sums[i][j]);
                }
            }
        }
    }
}

/// Writes a warp's sums, scaled back.
///
/// # Safety
/// Shapes as `ProductParams` says; the rows and tokens are this warp's.
#[inline(always)]
unsafe fn finish<const MI: usize>(p: &ProductParams, sums: &[[[f32; 4]; 4]; MI], first_row: usize, first_token: usize) {
    let lane = thread_idx_x() as usize % 32;
    let (row, token) = (first_row + lane / 4, first_token + 2 * (lane % 4));
    let exponents = p.scratch.wrapping_add(PARTS * part_bytes(p.tokens as usize, p.n_in as usize)).cast::<i32>();
    for j in 0..4 {
        for e in 0..2 {
            let token = token + 8 * j + e;
            if token < p.tokens as usize {
                // SAFETY: a token's exponent, which the first launch wrote.
                let [s0, s1] = scale(-unsafe { global::load(exponents.add(token)) });
                for i in 0..MI {
                    for h in 0..2 {
                        let row = row + 16 * i + 8 * h;
                        if row < p.n_out as usize {
                            // SAFETY: just checked; one writer an element.
                            unsafe { store(p, token, row, sums[i][j][2 * h + e] * s0 * s1) };
                        }
                    }
                }
            }
        }
    }
}
