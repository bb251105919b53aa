//! `qsa.scores/packed`: as `rows`, with one reduction for the 16 sums of four (query, block) pairs.
//!
//! Math      the module `scores`
//! Shapes    `ScoresParams`; `out` rows 16-byte aligned where a warp has four queries
//! Mapping   any grid along x, groups of NQ queries along y: steps of four blocks, or two with four queries, are dealt to the warps. A reduction has NQ
//!           queries and NB = 4 / NQ blocks; pair u = q NB + b is that of lanes 8 u .. 8 u + 7, which get the sum of head h
//!           in lanes 8 u + 2 h and 8 u + 2 h + 1. A lane holds queries, heads and keys with its own first, so that nothing
//!           is selected. Queries past the last are the last one again and are not stored
//! Order     the module's: `warp::scatter_sum` has the butterfly's bits
//! Barriers  none
//! Budget    128 registers, 0 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Bitwise against `per_query`

use cuda_std::int::opaque;
use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_y, thread_idx_x};
use cuda_std::{global, kernel, warp};

use super::scores::{Quad, Row, WARPS, Walk, dot, head_at, part, relu, rounds};
use super::{INDEX_HEADS, ScoresParams};

/// Eight warps, which share nothing; an SM's registers for 16 warps.
pub const BOUNDS: Bounds = Bounds { threads: 32 * WARPS, min_blocks: 2 };
/// As [`BOUNDS`], for 24 warps: a query takes 16 registers.
pub const BOUNDS_NQ1: Bounds = Bounds { threads: 32 * WARPS, min_blocks: 3 };
/// Blocks of the longest step.
pub const LONGEST_STEP: usize = 4;
/// (query, block) pairs of a reduction.
const PAIRS: usize = 4;

/// # Safety
/// Shapes and alignment as `ScoresParams` says, `nq` 1; grid y 1, block 256.
#[kernel]
#[launch_bounds(BOUNDS_NQ1)]
pub unsafe fn qsa_scores_packed_nq1(p: ScoresParams) {
    // SAFETY: same contract.
    unsafe { body::<1, 4, 4>(p) }
}

/// # Safety
/// Shapes and alignment as `ScoresParams` says, `nq` 2; grid y 1, block 256.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn qsa_scores_packed_nq2(p: ScoresParams) {
    // SAFETY: same contract.
    unsafe { body::<2, 2, 4>(p) }
}

/// # Safety
/// Shapes and alignment as `ScoresParams` says, `max_blocks` a multiple of 4; grid y `nq / 4` rounded up, block 256.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn qsa_scores_packed_nq4(p: ScoresParams) {
    // SAFETY: same contract.
    unsafe { body::<4, 1, 2>(p) }
}

/// NQ queries and NB blocks a reduction, STEP blocks a step: one reduction or two.
#[inline(always)]
unsafe fn body<const NQ: usize, const NB: usize, const STEP: usize>(p: ScoresParams) {
    const { assert!(NQ * NB == PAIRS) };
    let lane = thread_idx_x() % 32;
    let (own_query, own_block, own_head) = (lane / 8 / NB as u32, lane / 8 % NB as u32, lane / 2 % 4);
    let first = block_idx_y() * NQ as u32;
    let query = |first: u32, slot: usize| first + (slot as u32 ^ own_query);
    let mut rows = [Row::NONE; NQ];
    let mut heads = [[[0.0f32; 4]; INDEX_HEADS]; NQ];
    for slot in 0..NQ {
        // SAFETY: a query past the last is the last one.
        rows[slot] = unsafe { Row::of(&p, query(first, slot)) };
    }
    for slot in 0..NQ {
        for h in 0..INDEX_HEADS {
            let head = head_at(&p, query(first, slot), h as u32 ^ own_head);
            // SAFETY: 32 lanes have four columns each.
            heads[slot][h] = unsafe { global::load4_nc_ordered(head.add(4 * lane as usize)) };
        }
    }
    let is_query = first + own_query < p.nq;
    let out = p.out.wrapping_add((first + own_query) as usize * p.max_blocks as usize);
    // SAFETY: the step's blocks are complete, so their keys are written; 32 lanes have four columns each.
    let load = |step: u32, i: usize| unsafe {
        global::load4_nc_ordered(part(&p, STEP as u32 * step + (i as u32 ^ own_block), lane))
    };
    let score = |step: u32, keys: &mut [Quad; STEP], next: u32| {
        let mut scores = [0.0; 2];
        for i in 0..STEP / NB {
            let dots = dots::<NQ, NB>(|_, block| keys[NB * i + block], &heads);
            for block in 0..NB {
                keys[NB * i + block] = load(next, NB * i + block);
            }
            scores[i] = reduce(dots);
        }
        if !lane.is_multiple_of(8) || !is_query {
            return;
        }
        let at = STEP * step as usize + own_block as usize;
        // SAFETY: a step lies below `reach`; one warp has this step of these queries. With four queries a warp the rows are
        // 16-byte aligned, and a step is 8 bytes of a row.
        unsafe {
            if NB == 1 {
                global::store2(out.add(at), scores);
            } else {
                for i in 0..STEP / NB {
                    global::store(out.add(at + NB * i), scores[i]);
                }
            }
        }
    };
    let rest = |step: u32| {
        // Else the addresses of the records would be kept from the start on.
        let first = opaque(first as usize) as u32;
        for i in 0..rounds(STEP / NB) as u32 {
            let block = |slot: usize| STEP as u32 * step + NB as u32 * i + (slot as u32 ^ own_block);
            // SAFETY: a query past the last is the last one; 32 lanes have four columns each.
            let key = |slot, of: usize| unsafe { Row::of(&p, query(first, slot)).key(&p, block(of), lane) };
            let score = reduce(dots::<NQ, NB>(key, &heads));
            // SAFETY: as above.
            let row = unsafe { Row::of(&p, query(first, 0)) };
            if lane.is_multiple_of(8) && is_query && row.has(&p, block(0)) {
                // SAFETY: a block that the row has; one warp has this step of these queries.
                unsafe { global::store(out.add(block(0) as usize), row.finish(block(0), score)) }
            }
        }
    };
    Walk::of(&p, &rows).steps(load, score, rest);
}

/// The lane's parts of the sums of NQ queries and NB blocks. `key` gives the key of a slot of a query and of a block; `heads`
/// are those of the slots. Slot s of a lane is number s of all, exclusive or the lane's own.
#[inline(always)]
fn dots<const NQ: usize, const NB: usize>(
    key: impl Fn(usize, usize) -> Quad,
    heads: &[[Quad; INDEX_HEADS]; NQ],
) -> [f32; PAIRS * INDEX_HEADS] {
    let mut dots = [0.0; PAIRS * INDEX_HEADS];
    for query in 0..NQ {
        for block in 0..NB {
            let key = key(query, block);
            for h in 0..INDEX_HEADS {
                dots[(query * NB + block) * INDEX_HEADS + h] = dot(key, heads[query][h]);
            }
        }
    }
    dots
}

/// The scores of four pairs, that of pair u in lane 8 u.
#[inline(always)]
fn reduce(dots: [f32; PAIRS * INDEX_HEADS]) -> f32 {
    let r = relu(warp::scatter_sum_own_first(dots));
    ((r + warp::shfl_down(r, 2)) + warp::shfl_down(r, 4)) + warp::shfl_down(r, 6)
}
