//! `dense.product/rows8`, `dense.product/rows2`: a warp multiplies 8 or 2 matrix rows with one token, reading each weight once.
//!
//! Math      y[t][n] = sum over c of W[n][c] x[t][c], plus add[t][n]
//! Shapes    `ProductParams`
//! Mapping   grid (ceil(n_out / rows of a block), tokens); warp w of block b: R rows from R (4 b + w) on; lane: columns
//!           4 l .. 4 l + 3 of every 128
//! Order     the module's
//! Barriers  none of the block; one of the warp between the partial sums and their readers; no lane returns before it
//! Budget    128 registers, 4,224 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   rows8: Bitwise against rows2, which is the base

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, block_idx_y, thread_idx_x};
use cuda_std::{global, kernel, shared_array, warp};

use super::ProductParams;
use super::lane_sums::{PITCH, by_four_lanes, chains, put};
use super::weight::{Bf16, F16, F32, Weight};

/// Four warps, which share nothing.
pub const BOUNDS: Bounds = Bounds { threads: 128, min_blocks: 4 };
/// Warps of a block.
pub const WARPS: usize = BOUNDS.threads as usize / 32;
/// Matrix rows of a warp in `rows8`.
pub const MANY: usize = 8;
/// Matrix rows of a warp in `rows2`.
pub const FEW: usize = 2;

/// # Safety
/// Shapes and alignment as `ProductParams` says, weights f32; grid `(n_out / 32 rounded up, tokens)`, block 128.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn dense_product_rows8_f32(p: ProductParams) {
    let sums = shared_array![f32; MANY * PITCH * WARPS];
    // SAFETY: same contract; `sums` has room for MANY outputs a warp.
    unsafe { body::<F32, MANY>(p, sums) }
}

/// # Safety
/// Shapes and alignment as `ProductParams` says, weights f16; grid `(n_out / 32 rounded up, tokens)`, block 128.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn dense_product_rows8_f16(p: ProductParams) {
    let sums = shared_array![f32; MANY * PITCH * WARPS];
    // SAFETY: same contract; `sums` has room for MANY outputs a warp.
    unsafe { body::<F16, MANY>(p, sums) }
}

/// # Safety
/// Shapes and alignment as `ProductParams` says, weights bf16; grid `(n_out / 32 rounded up, tokens)`, block 128.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn dense_product_rows8_bf16(p: ProductParams) {
    let sums = shared_array![f32; MANY * PITCH * WARPS];
    // SAFETY: same contract; `sums` has room for MANY outputs a warp.
    unsafe { body::<Bf16, MANY>(p, sums) }
}

/// # Safety
/// Shapes and alignment as `ProductParams` says, weights f32; grid `(n_out / 8 rounded up, tokens)`, block 128.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn dense_product_rows2_f32(p: ProductParams) {
    let sums = shared_array![f32; FEW * PITCH * WARPS];
    // SAFETY: same contract; `sums` has room for FEW outputs a warp.
    unsafe { body::<F32, FEW>(p, sums) }
}

/// # Safety
/// Shapes and alignment as `ProductParams` says, weights f16; grid `(n_out / 8 rounded up, tokens)`, block 128.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn dense_product_rows2_f16(p: ProductParams) {
    let sums = shared_array![f32; FEW * PITCH * WARPS];
    // SAFETY: same contract; `sums` has room for FEW outputs a warp.
    unsafe { body::<F16, FEW>(p, sums) }
}

/// # Safety
/// Shapes and alignment as `ProductParams` says, weights bf16; grid `(n_out / 8 rounded up, tokens)`, block 128.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn dense_product_rows2_bf16(p: ProductParams) {
    let sums = shared_array![f32; FEW * PITCH * WARPS];
    // SAFETY: same contract; `sums` has room for FEW outputs a warp.
    unsafe { body::<Bf16, FEW>(p, sums) }
}

#[inline(always)]
unsafe fn body<W: Weight, const R: usize>(p: ProductParams, sums: *mut f32) {
    let (warp, lane) = (thread_idx_x() as usize / 32, thread_idx_x() % 32);
    let token = block_idx_y() as usize;
    let first = (block_idx_x() as usize * WARPS + warp) * R;
    let last = p.n_out as usize - 1;
    // SAFETY: rows are clamped to the matrix, in 64 bits; the grid has one y a token.
    let (w, x) = unsafe {
        let row = |r: usize| p.w.add((first + r).min(last) * W::row_bytes(p.n_in as usize));
        (core::array::from_fn::<_, R, _>(row), [p.x.add(token * p.x_stride as usize)])
    };
    // SAFETY: as above.
    let acc = unsafe { chains::<W, R, 1>(w, x, p.n_in, lane) };
    // SAFETY: the warp's own part of the array.
    let sums = unsafe { sums.add(warp * R * PITCH) };
    for r in 0..R {
        // SAFETY: `r < R`.
        unsafe { put(sums, r, lane, acc[r][0]) };
    }
    warp::sync_warp(warp::FULL_MASK);
    // Lanes beyond the R outputs sum what lies there for output `R - 1` and drop it.
    let output = (lane / 4).min(R as u32 - 1);
    // SAFETY: `output < R`; all lanes are here.
    let sum = unsafe { by_four_lanes(sums, 4 * output + lane % 4) };
    let n = first + lane as usize / 4;
    if lane.is_multiple_of(4) && (lane / 4) < R as u32 && n < p.n_out as usize {
        // SAFETY: `n < n_out`, one y a token; one writer an element.
        unsafe { store(&p, token, n, sum) };
    }
}

/// Writes an output, after adding what is to be added.
///
/// # Safety
/// `token < tokens`, `n < n_out`.
#[inline(always)]
pub(super) unsafe fn store(p: &ProductParams, token: usize, n: usize, mut v: f32) {
    if !p.add.is_null() {
        // SAFETY: same contract; `add` may be `y`, whose element only this thread touches.
        v += unsafe { global::load(p.add.add(token * p.add_stride as usize + n)) };
    }
    // SAFETY: same contract.
    unsafe { global::store(p.y.add(token * p.y_stride as usize + n), v) };
}
