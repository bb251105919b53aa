//! `moe.product/pair`: a warp multiplies 8 rows of the pair's expert with the pair's row of x.
//!
//! Math      y[p][n] = sum over c of W[ids[p]][n][c] x[p / pairs_of_row][c]
//! Shapes    `ExpertProductParams`
//! Mapping   grid (ceil(n_out / 32), pairs); warp w of block b: rows 8 (4 b + w) .. + 7; lane: columns 4 l .. 4 l + 3 of
//!           every 128
//! Order     that of every product (`dense`)
//! Barriers  none of the block; one of the warp between the partial sums and their readers; no lane returns before it
//! Budget    128 registers, 4,224 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Base

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, block_idx_y, thread_idx_x};
use cuda_std::{global, kernel, shared_array, warp};

use super::ExpertProductParams;
use crate::dense::blocks::of_format;
use crate::dense::lane_sums::{PITCH, by_four_lanes, chains, put};
use crate::dense::weight::{Bf16, F16, F32, Weight};

/// Four warps, which share nothing.
pub const BOUNDS: Bounds = Bounds { threads: 128, min_blocks: 4 };
/// Warps of a block.
pub const WARPS: usize = BOUNDS.threads as usize / 32;
/// Matrix rows of a warp.
pub const ROWS: usize = 8;

/// # Safety
/// Shapes and alignment as `ExpertProductParams` says, weights f32; grid `(n_out / 32 rounded up, pairs)`, block 128.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn moe_product_pair_f32(p: ExpertProductParams) {
    let sums = shared_array![f32; ROWS * PITCH * WARPS];
    // SAFETY: same contract; `sums` has room for 8 outputs a warp.
    unsafe { body::<F32>(p, sums) }
}

/// # Safety
/// Shapes and alignment as `ExpertProductParams` says, weights f16; grid `(n_out / 32 rounded up, pairs)`, block 128.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn moe_product_pair_f16(p: ExpertProductParams) {
    let sums = shared_array![f32; ROWS * PITCH * WARPS];
    // SAFETY: same contract; `sums` has room for 8 outputs a warp.
    unsafe { body::<F16>(p, sums) }
}

/// # Safety
/// Shapes and alignment as `ExpertProductParams` says, weights bf16; grid `(n_out / 32 rounded up, pairs)`, block 128.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn moe_product_pair_bf16(p: ExpertProductParams) {
    let sums = shared_array![f32; ROWS * PITCH * WARPS];
    // SAFETY: same contract; `sums` has room for 8 outputs a warp.
    unsafe { body::<Bf16>(p, sums) }
}

/// # Safety
/// Shapes and alignment as `ExpertProductParams` says, weights blocks of its format; grid `(n_out / 32 rounded up, pairs)`,
/// block 128.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn moe_product_pair_blocks(p: ExpertProductParams) {
    let sums = shared_array![f32; ROWS * PITCH * WARPS];
    // SAFETY: same contract; `sums` has room for 8 outputs a warp.
    unsafe { of_format!(p.format, W => body::<W>(p, sums)) }
}

#[inline(always)]
unsafe fn body<W: Weight>(p: ExpertProductParams, sums: *mut f32) {
    let (warp, lane) = (thread_idx_x() as usize / 32, thread_idx_x() % 32);
    let pair = block_idx_y() as usize;
    let first = (block_idx_x() as usize * WARPS + warp) * ROWS;
    let (n_in, n_out) = (p.n_in as usize, p.n_out as usize);
    // SAFETY: the grid has one y a pair.
    let expert = unsafe { global::load_nc(p.ids.add(pair)) };
    let known = expert < p.experts;
    let expert = if known { expert as usize } else { 0 };
    // SAFETY: expert and rows are within the matrices, in 64 bits; the pair's row of x exists.
    let (w, x) = unsafe {
        let row = |r: usize| p.w.add((expert * n_out + (first + r).min(n_out - 1)) * W::row_bytes(n_in));
        let x = p.x.add(pair / p.pairs_of_row as usize * p.x_stride as usize);
        (core::array::from_fn::<_, ROWS, _>(row), [x])
    };
    // SAFETY: as above.
    let acc = unsafe { chains::<W, ROWS, 1>(w, x, p.n_in, lane) };
    // SAFETY: the warp's own part of the array.
    let sums = unsafe { sums.add(warp * ROWS * PITCH) };
    for r in 0..ROWS {
        // SAFETY: `r < ROWS`.
        unsafe { put(sums, r, lane, acc[r][0]) };
    }
    warp::sync_warp(warp::FULL_MASK);
    // SAFETY: eight outputs, all written before the barrier; all lanes are here.
    let sum = unsafe { by_four_lanes(sums, lane) };
    let n = first + lane as usize / 4;
    if lane.is_multiple_of(4) && n < n_out {
        // SAFETY: `n < n_out`, one y a pair; one writer an element.
        unsafe { global::store(p.y.add(pair * p.y_stride as usize + n), if known { sum } else { f32::NAN }) };
    }
}
