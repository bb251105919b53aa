//! `qsa.scores/multi`: a warp reads the key of a block once for all queries.
//!
//! Math      the module `scores`
//! Shapes    `ScoresParams`, nq at most 8
//! Mapping   any grid along x: warp w of all has blocks w, w + warps, ..; lane l columns 4 l .. 4 l + 3
//! Order     the module's, a butterfly a head
//! Barriers  one, behind the queries in shared memory
//! Budget    64 registers, 16,384 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Bitwise against `per_query`

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, grid_dim_x, sync_threads, thread_idx_x};
use cuda_std::{global, kernel, shared, shared_array, warp};

use super::scores::{Quad, Row, WARPS, dot, head_at, relu};
use super::{INDEX_DIM, INDEX_HEADS, ScoresParams};

/// Eight warps, which share the queries.
pub const BOUNDS: Bounds = Bounds { threads: 32 * WARPS, min_blocks: 4 };
/// Most queries.
pub const QUERIES: usize = 8;

/// Floats of a query.
const QUERY: usize = INDEX_HEADS * INDEX_DIM;

/// # Safety
/// Shapes and alignment as `ScoresParams` says, `nq <= QUERIES`; block 256.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn qsa_scores_multi(p: ScoresParams) {
    let queries = shared_array![f32; QUERIES * QUERY];
    // SAFETY: as the kernel; the array has room for `QUERIES` queries.
    let last = unsafe { share_queries(&p, queries) };
    let lane = thread_idx_x() % 32;
    let mut block = block_idx_x() * WARPS + thread_idx_x() / 32;
    while block <= last {
        for query in 0..p.nq {
            // SAFETY: `query < nq`.
            let row = unsafe { Row::of(&p, query) };
            if row.has(&p, block) {
                let head = |h: usize| -> Quad {
                    let at = query as usize * QUERY + h * INDEX_DIM + 4 * lane as usize;
                    // SAFETY: within the query's part of the array, which nobody writes any more.
                    unsafe { shared::load4(queries.add(at)) }
                };
                // SAFETY: 32 lanes have four columns each.
                let key = unsafe { row.key(&p, block, lane) };
                let mut r = [0.0; INDEX_HEADS];
                for h in 0..INDEX_HEADS {
                    r[h] = relu(warp::sum_xor(dot(key, head(h))));
                }
                let score = row.finish(block, ((r[0] + r[1]) + r[2]) + r[3]);
                if lane == 0 {
                    let at = query as usize * p.max_blocks as usize + block as usize;
                    // SAFETY: `block < reach`; one warp has this block.
                    unsafe { global::store(p.out.add(at), score) }
                }
            }
        }
        block += grid_dim_x() * WARPS;
    }
}

/// Brings the queries to shared memory; gives the last block of any.
///
/// # Safety
/// As the kernel; `queries` has room for `nq` queries, and all threads of the block are here.
#[inline(always)]
pub(super) unsafe fn share_queries(p: &ScoresParams, queries: *mut f32) -> u32 {
    let mut at = 4 * thread_idx_x() as usize;
    while at < p.nq as usize * QUERY {
        // SAFETY: four floats of a query, which one thread copies.
        unsafe { shared::store4(queries.add(at), global::load4_nc(head_at(p, 0, 0).add(at))) }
        at += 4 * BOUNDS.threads as usize;
    }
    let mut last = 0;
    for query in 0..p.nq {
        // SAFETY: `query < nq`.
        last = last.max(unsafe { Row::of(p, query) }.n_bid);
    }
    sync_threads();
    last.min(p.reach - 1)
}
