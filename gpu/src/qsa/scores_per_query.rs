//! `qsa.scores/per_query`: a warp scores one block for one query.
//!
//! Math      the module `scores`
//! Shapes    `ScoresParams`
//! Mapping   grid (reach / 8 rounded up, nq): warp w of block x has block 8 x + w; lane l columns 4 l .. 4 l + 3
//! Order     the module's, a butterfly a head
//! Barriers  none; a warp whose block the row has not is done
//! Budget    40 registers, 0 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Base

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, block_idx_y, thread_idx_x};
use cuda_std::{global, kernel, warp};

use super::scores::{Row, WARPS, dot, head_at, relu};
use super::{INDEX_HEADS, ScoresParams};

/// Eight warps, which share nothing.
pub const BOUNDS: Bounds = Bounds { threads: 32 * WARPS, min_blocks: 4 };

/// # Safety
/// Shapes and alignment as `ScoresParams` says; grid `[reach / 8 rounded up, nq]`, block 256.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn qsa_scores_per_query(p: ScoresParams) {
    let (block, query) = (block_idx_x() * WARPS + thread_idx_x() / 32, block_idx_y());
    // SAFETY: `query < nq`; the block is one of the row's.
    unsafe { score_block(&p, query, block) }
}

/// One block of one query, by a warp.
///
/// # Safety
/// As the kernel; `query < nq`.
#[inline(always)]
pub(super) unsafe fn score_block(p: &ScoresParams, query: u32, block: u32) {
    let lane = thread_idx_x() % 32;
    // SAFETY: `query < nq`.
    let row = unsafe { Row::of(p, query) };
    if !row.has(p, block) {
        return; // a whole warp
    }
    // SAFETY: 32 lanes have four columns each.
    let key = unsafe { row.key(p, block, lane) };
    let mut r = [0.0; INDEX_HEADS];
    for h in 0..INDEX_HEADS {
        // SAFETY: as above.
        let q = unsafe { global::load4_nc(head_at(p, query, h as u32).add(4 * lane as usize)) };
        r[h] = relu(warp::sum_xor(dot(key, q)));
    }
    let score = row.finish(block, ((r[0] + r[1]) + r[2]) + r[3]);
    if lane == 0 {
        let at = query as usize * p.max_blocks as usize + block as usize;
        // SAFETY: `block < reach`; one warp has this block of this query.
        unsafe { global::store(p.out.add(at), score) }
    }
}
