//! `qsa.scores/rows`: as `scatter`, with the queries in registers.
//!
//! Math      the module `scores`
//! Shapes    `ScoresParams`, nq = NQ, 1 to 4: an instance each
//! Mapping   any grid along x: steps of four blocks, or two with three and four queries, are dealt to the warps; lane l has columns 4 l .. 4 l + 3, and after the
//!           reduction the sum of head l / 8
//! Order     the module's: `warp::scatter_sum` has the butterfly's bits
//! Barriers  none
//! Budget    128 registers, 0 B shared, 0 B local (enforced by tests/tests/ptx/)
//!           NQ = 4 for sm_90a only: elsewhere it would spill, and `packed` or `scatter` take four queries
//! Promise   Bitwise against `per_query`

use cuda_std::launch::Bounds;
use cuda_std::thread::thread_idx_x;
use cuda_std::{global, kernel, warp};

use super::scores::{Quad, Row, WARPS, Walk, head_at, part, rounds};
use super::scores_scatter::reduce;
use super::{INDEX_HEADS, ScoresParams};

/// Eight warps, which share nothing; an SM's registers for 16 warps.
pub const BOUNDS: Bounds = Bounds { threads: 32 * WARPS, min_blocks: 2 };
/// As [`BOUNDS`], for 24 warps: a query takes 16 registers.
pub const BOUNDS_NQ1: Bounds = Bounds { threads: 32 * WARPS, min_blocks: 3 };
/// Blocks of the longest step.
pub const LONGEST_STEP: usize = 4;

/// # Safety
/// Shapes and alignment as `ScoresParams` says, `nq` 1; block 256.
#[kernel]
#[launch_bounds(BOUNDS_NQ1)]
pub unsafe fn qsa_scores_rows_nq1(p: ScoresParams) {
    // SAFETY: same contract.
    unsafe { body::<1, 4>(p) }
}

/// # Safety
/// As [`qsa_scores_rows_nq1`], `nq` 2.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn qsa_scores_rows_nq2(p: ScoresParams) {
    // SAFETY: same contract.
    unsafe { body::<2, 4>(p) }
}

/// # Safety
/// As [`qsa_scores_rows_nq1`], `nq` 3.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn qsa_scores_rows_nq3(p: ScoresParams) {
    // SAFETY: same contract.
    unsafe { body::<3, 2>(p) }
}

/// # Safety
/// As [`qsa_scores_rows_nq1`], `nq` 4.
#[kernel(sm = 90)]
#[launch_bounds(BOUNDS)]
pub unsafe fn qsa_scores_rows_nq4(p: ScoresParams) {
    // SAFETY: same contract.
    unsafe { body::<4, 2>(p) }
}

/// NQ queries, STEP blocks a step.
#[inline(always)]
unsafe fn body<const NQ: usize, const STEP: usize>(p: ScoresParams) {
    let (lane, own) = (thread_idx_x() % 32, warp::scatter_index::<INDEX_HEADS>());
    let mut rows = [Row::NONE; NQ];
    let mut heads = [[[0.0f32; 4]; INDEX_HEADS]; NQ];
    for query in 0..NQ {
        // SAFETY: `nq` is NQ.
        rows[query] = unsafe { Row::of(&p, query as u32) };
    }
    for query in 0..NQ {
        for h in 0..INDEX_HEADS {
            let head = head_at(&p, query as u32, h as u32 ^ own);
            // SAFETY: 32 lanes have four columns each.
            heads[query][h] = unsafe { global::load4_nc_ordered(head.add(4 * lane as usize)) };
        }
    }
    // SAFETY: the step's blocks are complete, so their keys are written; 32 lanes have four columns each.
    let load = |step: u32, i: usize| unsafe { global::load4_nc_ordered(part(&p, STEP as u32 * step + i as u32, lane)) };
    let score = |step: u32, keys: &mut [Quad; STEP], next: u32| {
        let mut mine = [0.0; NQ];
        for i in 0..STEP {
            let key = keys[i];
            keys[i] = load(next, i);
            for query in 0..NQ {
                let score = reduce(key, &heads[query]);
                mine[query] = if lane == i as u32 { score } else { mine[query] };
            }
        }
        if lane < STEP as u32 {
            for query in 0..NQ {
                let at = query * p.max_blocks as usize + STEP * step as usize + lane as usize;
                // SAFETY: a step lies below `reach`; one warp has this step.
                unsafe { global::store(p.out.add(at), mine[query]) }
            }
        }
    };
    let rest = |step: u32| {
        for i in 0..rounds(STEP) {
            let block = STEP as u32 * step + i as u32;
            for query in 0..NQ {
                // SAFETY: `nq` is NQ; lane 0 writes a block that the row has.
                unsafe {
                    let row = Row::of(&p, query as u32);
                    let score = row.finish(block, reduce(row.key(&p, block, lane), &heads[query]));
                    if lane == 0 && row.has(&p, block) {
                        global::store(p.out.add(query * p.max_blocks as usize + block as usize), score);
                    }
                }
            }
        }
    };
    Walk::of(&p, &rows).steps(load, score, rest);
}
