//! `dense.product/mma`, second launch: 128 matrix rows by 128 tokens on tensor cores.
//!
//! Math      y[t][n] = 2^-E_t sum over c of W[n][c] (lo[t][c] + hi[t][c]), plus add[t][n]; parts and E as `parts`
//! Shapes    `ProductParams` with scratch as `dense.product/mma`'s first launch left it; n_in a multiple of 8, w 16-byte aligned
//! Mapping   grid (ceil(tokens / 128), ceil(n_out / 128)), so that neighbours share matrix rows; warp w of a block: rows 64 (w / 4) ..
//!           and tokens 32 (w mod 4) .., as 4 x 4 tiles of `mma.sync` m16n8k16, W being A and x being B
//! Memory    four stages of 32 columns: rows of W, of hi and of lo, 64 bytes each with units of 16 swizzled; three are under way
//!           (cp.async) while one is multiplied. Beyond n_in there are zeros, rows and tokens beyond the last are the last again
//! Order     slices of 128 columns, ascending, each a sum in a tensor core from 0: 16 columns, ascending, lo before hi; slices are
//!           added in f32. A token's bits depend neither on its place in a block nor on the other tokens
//! Barriers  one a step of 32 columns, by all 256 threads: the stage has landed, the one before it has no reader; no early return
//! Budget    255 registers, 0 B shared but the stages, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Rounding against `dense.product/rows2` (docs/src/exactness.md)

use cuda_std::copy::{cp_async_commit, cp_async_wait_group, cp_async16_zfill};
use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, block_idx_y, sync_threads, thread_idx_x};
use cuda_std::{global, kernel, mma, shared};

use super::ProductParams;
use super::parts::{Half, PARTS, part_bytes, scale};
use super::product_rows::store;
use super::weight::{Bf16, F16};
use crate::delta::chunk::{MatrixLane, chunk_at, pairs};

/// A block an SM: 64 sums of a slice and 64 of all a thread.
pub const BOUNDS: Bounds = Bounds { threads: 256, min_blocks: 1 };
/// Matrix rows of a block.
pub const ROWS: usize = 128;
/// Tokens of a block.
pub const TOKENS: usize = 128;
/// Columns of a stage.
const STEP: usize = 32;
/// Stages, and steps of a slice.
const STAGES: usize = 4;
/// Bytes of 128 rows of a stage.
const PLANE: usize = ROWS * 2 * STEP;
/// Bytes of a stage: W, then the parts of x.
const STAGE: usize = (1 + PARTS) * PLANE;
/// Dynamic shared memory of a block in bytes: what cards of 8.6 and 8.9 give one block is 101,376.
pub const SHARED_BYTES: usize = STAGES * STAGE;
const _: () = assert!(SHARED_BYTES <= 101_376 && ROWS == TOKENS);

/// # Safety
/// Shapes and alignment as the header says, weights f16; block 256, dynamic shared memory `SHARED_BYTES`.
#[kernel(sm = 80)]
#[launch_bounds(BOUNDS)]
pub unsafe fn dense_product_mma_f16(p: ProductParams) {
    // SAFETY: same contract.
    unsafe { body::<F16>(p) }
}

/// # Safety
/// Shapes and alignment as the header says, weights bf16; block 256, dynamic shared memory `SHARED_BYTES`.
#[kernel(sm = 80)]
#[launch_bounds(BOUNDS)]
pub unsafe fn dense_product_mma_bf16(p: ProductParams) {
    // SAFETY: same contract.
    unsafe { body::<Bf16>(p) }
}

/// Sums of a warp: by 16 rows and by 8 tokens, as C of m16n8k16.
type Sums = [[[f32; 4]; 4]; 4];

/// Where a thread's units of a stage come from: 16 bytes of rows r and r + 64 of each operand.
struct Copies {
    w: [*const u8; 2],
    x: [*const u8; 2],
    part: usize,
    /// First column of the unit in a stage.
    column: usize,
    /// Its byte in a stage.
    at: usize,
    n_in: usize,
}

impl Copies {
    #[inline(always)]
    fn new(p: &ProductParams, first_row: usize, first_token: usize) -> Self {
        let (row, unit) = (thread_idx_x() as usize / 4, thread_idx_x() as usize % 4);
        let n_in = p.n_in as usize;
        let from = |base: *const u8, first: usize, n: u32| {
            [0, ROWS / 2].map(|r| base.wrapping_add(2 * ((first + row + r).min(n as usize - 1) * n_in + 8 * unit)))
        };
        Self {
            w: from(p.w, first_row, p.n_out),
            x: from(p.scratch, first_token, p.tokens),
            part: part_bytes(p.tokens as usize, n_in),
            column: 8 * unit,
            at: chunk_at(row, unit),
            n_in,
        }
    }

    /// Starts the copies of columns `column ..` into a stage.
    ///
    /// # Safety
    /// The stage has no reader.
    #[inline(always)]
    unsafe fn start(&self, stage: *mut u8, column: usize) {
        let bytes = if self.column + column < self.n_in { 16 } else { 0 };
        let to = stage.wrapping_add(self.at);
        for r in 0..2 {
            let (from, at) = (2 * column, r * PLANE / 2);
            // SAFETY: columns of clamped rows and tokens, of which n_in, a multiple of 8, has all 8 or none; multiples of 16.
            unsafe {
                cp_async16_zfill(to.wrapping_add(at), self.w[r].wrapping_add(from), bytes);
                for i in 0..PARTS {
                    let from = self.x[r].wrapping_add(i * self.part + from);
                    cp_async16_zfill(to.wrapping_add((1 + i) * PLANE + at), from, bytes);
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn body<W: Half>(p: ProductParams) {
    let stages = shared::dynamic_shared::<u8>();
    let (first_row, first_token) = (block_idx_y() as usize * ROWS, block_idx_x() as usize * TOKENS);
    let copies = Copies::new(&p, first_row, first_token);
    for s in 0..STAGES - 1 {
        // SAFETY: nobody has read a stage yet.
        unsafe { copies.start(stages.wrapping_add(s * STAGE), s * STEP) };
        cp_async_commit();
    }
    let warp = thread_idx_x() as usize / 32;
    let (rows, tokens) = (64 * (warp / 4), 32 * (warp % 4));
    let mut all = [[[0.0f32; 4]; 4]; 4];
    let mut column = 0;
    while column < p.n_in as usize {
        let mut sums = [[[0.0f32; 4]; 4]; 4];
        for s in 0..STAGES {
            cp_async_wait_group::<{ STAGES as u32 - 2 }>();
            sync_threads();
            let next = (s + STAGES - 1) % STAGES;
            // SAFETY: all have come past the products with that stage.
            unsafe { copies.start(stages.wrapping_add(next * STAGE), column + (s + STAGES - 1) * STEP) };
            cp_async_commit();
            // SAFETY: the stage has landed and all know.
            unsafe { step::<W>(&mut sums, stages.wrapping_add(s * STAGE), rows, tokens) };
        }
        for i in 0..4 {
            for j in 0..4 {
                for e in 0..4 {
                    all[i][j][e] += sums[i][j][e];
                }
            }
        }
        column += STAGES * STEP;
    }
    // SAFETY: same contract.
    unsafe { finish(&p, &all, first_row + rows, first_token + tokens) };
}

/// Adds a stage's products: 64 rows from `rows` on, 32 tokens from `tokens` on.
///
/// # Safety
/// The stage holds the operands.
#[inline(always)]
unsafe fn step<W: Half>(sums: &mut Sums, stage: *const u8, rows: usize, tokens: usize) {
    let (of_w, of_x) = (MatrixLane::rows_first(), MatrixLane::columns_first());
    for k in 0..STEP / 16 {
        let mut a = [[0u32; 4]; 4];
        for i in 0..4 {
            // SAFETY: rows and columns of W's part of the stage.
            a[i] = unsafe { mma::ldmatrix_x4(stage.wrapping_add(of_w.chunk(rows + 16 * i, k))) };
        }
        for part in (0..PARTS).rev() {
            let x = stage.wrapping_add((1 + part) * PLANE);
            for j in 0..2 {
                // SAFETY: tokens and columns of the part.
                let b = pairs(unsafe { mma::ldmatrix_x4(x.wrapping_add(of_x.chunk(tokens + 16 * j, k))) });
                for h in 0..2 {
                    for i in 0..4 {
                        sums[i][2 * j + h] = W::product(a[i], b[h], sums[i][2 * j + h]);
                    }
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
unsafe fn finish(p: &ProductParams, sums: &Sums, first_row: usize, first_token: usize) {
    let lane = thread_idx_x() as usize % 32;
    let (row, token) = (first_row + lane / 4, first_token + 2 * (lane % 4));
    let exponents = p.scratch.wrapping_add(PARTS * part_bytes(p.tokens as usize, p.n_in as usize)).cast::<i32>();
    for j in 0..4 {
        for e in 0..2 {
            let token = token + 8 * j + e;
            if token < p.tokens as usize {
                // SAFETY: a token's exponent, which the first launch wrote.
                let [s0, s1] = scale(-unsafe { global::load(exponents.add(token)) });
                for i in 0..4 {
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
