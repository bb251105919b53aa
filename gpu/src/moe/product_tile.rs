//! `moe.product/tile`: a warp multiplies 4 rows of an expert with up to 8 pairs that `moe.plan` put together, reading each
//! weight once for all of them.
//!
//! Math      as `moe.product/pair`
//! Shapes    `ExpertProductParams`; the experts of tiles are below `experts`, as `moe.plan` sees to
//! Mapping   grid (ceil(n_out / 16), max_tiles); blocks behind the last tile end at once; warp w of block b: rows
//!           4 (4 b + w) .. + 3; lane: columns 4 l .. 4 l + 3 of every 128, then the output of row l / 8 and pair l % 8
//! Order     that of every product (`dense`)
//! Barriers  none of the block; one of the warp between the partial sums and their readers; a block returns before it only
//!           as a whole
//! Budget    128 registers, 16,896 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Bitwise against `moe.product/pair`

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, block_idx_y, thread_idx_x};
use cuda_std::{global, kernel, shared_array, warp};

use super::{ExpertProductParams, NO_PAIR, TILE, TILE_WORDS};
use crate::dense::blocks::of_format;
use crate::dense::lane_sums::{PITCH, chains, put, whole};
use crate::dense::weight::{Bf16, F16, F32, Weight};

/// Four warps, which share nothing; 32 sums and 12 operands of 4 values a lane.
pub const BOUNDS: Bounds = Bounds { threads: 128, min_blocks: 4 };
/// Warps of a block.
pub const WARPS: usize = BOUNDS.threads as usize / 32;
/// Matrix rows of a warp.
pub const ROWS: usize = 4;

/// # Safety
/// Shapes and alignment as `ExpertProductParams` says, weights f32; grid `(n_out / 16 rounded up, max_tiles)`, block 128.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn moe_product_tile_f32(p: ExpertProductParams) {
    let sums = shared_array![f32; ROWS * TILE * PITCH * WARPS];
    // SAFETY: same contract; `sums` has room for 32 outputs a warp.
    unsafe { body::<F32>(p, sums) }
}

/// # Safety
/// Shapes and alignment as `ExpertProductParams` says, weights f16; grid `(n_out / 16 rounded up, max_tiles)`, block 128.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn moe_product_tile_f16(p: ExpertProductParams) {
    let sums = shared_array![f32; ROWS * TILE * PITCH * WARPS];
    // SAFETY: same contract; `sums` has room for 32 outputs a warp.
    unsafe { body::<F16>(p, sums) }
}

/// # Safety
/// Shapes and alignment as `ExpertProductParams` says, weights bf16; grid `(n_out / 16 rounded up, max_tiles)`, block 128.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn moe_product_tile_bf16(p: ExpertProductParams) {
    let sums = shared_array![f32; ROWS * TILE * PITCH * WARPS];
    // SAFETY: same contract; `sums` has room for 32 outputs a warp.
    unsafe { body::<Bf16>(p, sums) }
}

/// # Safety
/// Shapes and alignment as `ExpertProductParams` says, weights blocks of its format; grid
/// `(n_out / 16 rounded up, max_tiles)`, block 128.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn moe_product_tile_blocks(p: ExpertProductParams) {
    let sums = shared_array![f32; ROWS * TILE * PITCH * WARPS];
    // SAFETY: same contract; `sums` has room for 32 outputs a warp.
    unsafe { of_format!(p.format, W => body::<W>(p, sums)) }
}

#[inline(always)]
unsafe fn body<W: Weight>(p: ExpertProductParams, sums: *mut f32) {
    let (warp, lane) = (thread_idx_x() as usize / 32, thread_idx_x() % 32);
    // SAFETY: one word.
    if block_idx_y() >= unsafe { global::load_nc(p.n_tiles) } {
        return; // the whole block
    }
    let first = (block_idx_x() as usize * WARPS + warp) * ROWS;
    let (n_in, n_out) = (p.n_in as usize, p.n_out as usize);
    // SAFETY: the tile is one of those written, with its first pair there.
    let (tile, expert, some_pair) = unsafe {
        let tile = p.tiles.add(block_idx_y() as usize * TILE_WORDS);
        (tile, global::load_nc(tile) as usize, global::load_nc(tile.add(1)))
    };
    // SAFETY: `t < TILE`.
    let pair_at = |t: usize| unsafe { global::load_nc(tile.add(1 + t)) };
    // SAFETY: expert and rows are within the matrices, in 64 bits; a place without a pair reads the first pair's row.
    let (w, x) = unsafe {
        let row = |r: usize| p.w.add((expert * n_out + (first + r).min(n_out - 1)) * W::row_bytes(n_in));
        let x = |t: usize| {
            let pair = pair_at(t);
            let pair = if pair == NO_PAIR { some_pair } else { pair };
            p.x.add((pair / p.pairs_of_row) as usize * p.x_stride as usize)
        };
        (core::array::from_fn::<_, ROWS, _>(row), core::array::from_fn::<_, TILE, _>(x))
    };
    // SAFETY: as above.
    let acc = unsafe { chains::<W, ROWS, TILE>(w, x, p.n_in, lane) };
    // SAFETY: the warp's own part of the array.
    let sums = unsafe { sums.add(warp * 32 * PITCH) };
    for r in 0..ROWS {
        for t in 0..TILE {
            // SAFETY: `8 r + t < 32`.
            unsafe { put(sums, r * TILE + t, lane, acc[r][t]) };
        }
    }
    warp::sync_warp(warp::FULL_MASK);
    // SAFETY: 32 outputs, all written before the barrier.
    let sum = unsafe { whole(sums, lane as usize) };
    let (n, pair) = (first + lane as usize / TILE, pair_at(lane as usize % TILE));
    if n < n_out && pair != NO_PAIR {
        // SAFETY: just checked; a pair is in one tile only, so there is one writer an element.
        unsafe { global::store(p.y.add(pair as usize * p.y_stride as usize + n), sum) };
    }
}
