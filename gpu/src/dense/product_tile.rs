//! `dense.product/tile`: a warp multiplies 4 matrix rows with 8 tokens, reading each weight once for all of them.
//!
//! Math      as `dense.product/rows2`
//! Shapes    `ProductParams`
//! Mapping   grid (ceil(n_out / 16), ceil(tokens / 8)); warp w of block b: rows 4 (4 b + w) .. + 3; lane: columns 4 l ..
//!           4 l + 3 of every 128, then the output of row l / 8 and token l % 8
//! Order     the module's
//! Barriers  none of the block; one of the warp between the partial sums and their readers; no lane returns before it
//! Budget    128 registers, 16,896 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Bitwise against `dense.product/rows2`

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, block_idx_y, thread_idx_x};
use cuda_std::{kernel, shared_array, warp};

use super::ProductParams;
use super::lane_sums::{PITCH, chains, put, whole};
use super::product_rows::store;
use super::weight::{Bf16, F16, F32, Weight};

/// Four warps, which share nothing; 32 sums and 12 operands of 4 values a lane.
pub const BOUNDS: Bounds = Bounds { threads: 128, min_blocks: 4 };
/// Warps of a block.
pub const WARPS: usize = BOUNDS.threads as usize / 32;
/// Matrix rows of a warp.
pub const ROWS: usize = 4;
/// Tokens of a warp.
pub const TOKENS: usize = 8;

/// # Safety
/// Shapes and alignment as `ProductParams` says, weights f32; grid `(n_out / 16, tokens / 8)`, both rounded up, block 128.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn dense_product_tile_f32(p: ProductParams) {
    let sums = shared_array![f32; 32 * PITCH * WARPS];
    // SAFETY: same contract; `sums` has room for 32 outputs a warp.
    unsafe { body::<F32>(p, sums) }
}

/// # Safety
/// Shapes and alignment as `ProductParams` says, weights f16; grid `(n_out / 16, tokens / 8)`, both rounded up, block 128.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn dense_product_tile_f16(p: ProductParams) {
    let sums = shared_array![f32; 32 * PITCH * WARPS];
    // SAFETY: same contract; `sums` has room for 32 outputs a warp.
    unsafe { body::<F16>(p, sums) }
}

/// # Safety
/// Shapes and alignment as `ProductParams` says, weights bf16; grid `(n_out / 16, tokens / 8)`, both rounded up, block 128.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn dense_product_tile_bf16(p: ProductParams) {
    let sums = shared_array![f32; 32 * PITCH * WARPS];
    // SAFETY: same contract; `sums` has room for 32 outputs a warp.
    unsafe { body::<Bf16>(p, sums) }
}

#[inline(always)]
unsafe fn body<W: Weight>(p: ProductParams, sums: *mut f32) {
    let (warp, lane) = (thread_idx_x() as usize / 32, thread_idx_x() % 32);
    let first_token = block_idx_y() as usize * TOKENS;
    let first = (block_idx_x() as usize * WARPS + warp) * ROWS;
    let (last, last_token) = (p.n_out as usize - 1, p.tokens as usize - 1);
    // SAFETY: rows and tokens are clamped to what there is, in 64 bits.
    let (w, x) = unsafe {
        let row = |r: usize| p.w.add((first + r).min(last) * W::row_bytes(p.n_in as usize));
        let token = |t: usize| p.x.add((first_token + t).min(last_token) * p.x_stride as usize);
        (core::array::from_fn::<_, ROWS, _>(row), core::array::from_fn::<_, TOKENS, _>(token))
    };
    // SAFETY: as above.
    let acc = unsafe { chains::<W, ROWS, TOKENS>(w, x, p.n_in, lane) };
    // SAFETY: the warp's own part of the array.
    let sums = unsafe { sums.add(warp * 32 * PITCH) };
    for r in 0..ROWS {
        for t in 0..TOKENS {
            // SAFETY: `8 r + t < 32`.
            unsafe { put(sums, r * TOKENS + t, lane, acc[r][t]) };
        }
    }
    warp::sync_warp(warp::FULL_MASK);
    // SAFETY: lane < 32 outputs, all written before the barrier.
    let sum = unsafe { whole(sums, lane as usize) };
    let (n, token) = (first + lane as usize / TOKENS, first_token + lane as usize % TOKENS);
    if n < p.n_out as usize && token < p.tokens as usize {
        // SAFETY: just checked; one writer an element.
        unsafe { store(&p, token, n, sum) };
    }
}
