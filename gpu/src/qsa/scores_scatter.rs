//! `qsa.scores/scatter`: as `multi`, with one reduction for the four heads and the next keys under way.
//!
//! Math      the module `scores`
//! Shapes    `ScoresParams`, nq at most 8
//! Mapping   any grid along x: steps of two blocks are dealt to the warps; lane l has columns 4 l .. 4 l + 3, and after the
//!           reduction the sum of head l / 8
//! Order     the module's: `warp::scatter_sum` has the butterfly's bits
//! Barriers  one, behind the queries in shared memory
//! Budget    80 registers, 16,384 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Bitwise against `per_query`

use cuda_std::launch::Bounds;
use cuda_std::thread::thread_idx_x;
use cuda_std::{global, kernel, shared, shared_array, warp};

use super::scores::{Quad, Row, WARPS, Walk, dot, part, relu};
use super::scores_multi::{QUERIES, share_queries};
use super::{INDEX_DIM, INDEX_HEADS, ScoresParams};

/// Eight warps, which share the queries.
pub const BOUNDS: Bounds = Bounds { threads: 32 * WARPS, min_blocks: 3 };
/// Blocks of a step.
pub const STEP: usize = 2;

/// # Safety
/// Shapes and alignment as `ScoresParams` says, `nq <= QUERIES`; block 256.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn qsa_scores_scatter(p: ScoresParams) {
    let queries = shared_array![f32; QUERIES * INDEX_HEADS * INDEX_DIM];
    // SAFETY: as the kernel; the array has room for `QUERIES` queries.
    unsafe { share_queries(&p, queries) };
    let lane = thread_idx_x() % 32;
    // SAFETY: rows past the last are the last one again.
    let rows: [Row; QUERIES] = [0, 1, 2, 3, 4, 5, 6, 7].map(|i| unsafe { Row::of(&p, i) });
    let own = warp::scatter_index::<INDEX_HEADS>() as usize;
    let heads = |query: u32| -> [Quad; INDEX_HEADS] {
        let at = |h: usize| (query as usize * INDEX_HEADS + (h ^ own)) * INDEX_DIM + 4 * lane as usize;
        // SAFETY: `query < nq`, `h < 4`: within the array, which nobody writes any more.
        [0, 1, 2, 3].map(|h| unsafe { shared::load4(queries.add(at(h))) })
    };
    // SAFETY: the step's blocks are complete, so their keys are written; 32 lanes have four columns each.
    let load = |step: u32, i: usize| unsafe { global::load4_nc_ordered(part(&p, STEP as u32 * step + i as u32, lane)) };
    let score = |step: u32, keys: &mut [Quad; STEP], next: u32| {
        let ahead = [load(next, 0), load(next, 1)];
        for query in 0..p.nq {
            let heads = heads(query);
            let (a, b) = (reduce(keys[0], &heads), reduce(keys[1], &heads));
            if lane < STEP as u32 {
                let at = query as usize * p.max_blocks as usize + STEP * step as usize + lane as usize;
                // SAFETY: a step lies below `reach`; one warp has this step.
                unsafe { global::store(p.out.add(at), if lane == 0 { a } else { b }) }
            }
        }
        *keys = ahead;
    };
    let rest = |step: u32| {
        for i in 0..STEP as u32 * p.nq {
            let (block, query) = (STEP as u32 * step + i % STEP as u32, i / STEP as u32);
            // SAFETY: `query < nq`; lane 0 writes a block that the row has.
            unsafe {
                let row = Row::of(&p, query);
                let score = row.finish(block, reduce(row.key(&p, block, lane), &heads(query)));
                if lane == 0 && row.has(&p, block) {
                    global::store(p.out.add(query as usize * p.max_blocks as usize + block as usize), score);
                }
            }
        }
    };
    Walk::of(&p, &rows).steps(load, score, rest);
}

/// The score of a key, in lanes 0 to 7; `heads[s]` is head `s ^ scatter_index`.
#[inline(always)]
pub(super) fn reduce(key: Quad, heads: &[Quad; INDEX_HEADS]) -> f32 {
    let r = relu(warp::scatter_sum_own_first(heads.map(|q| dot(key, q))));
    ((r + warp::shfl_down(r, 8)) + warp::shfl_down(r, 16)) + warp::shfl_down(r, 24)
}
