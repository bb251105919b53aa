//! What the variants of `qsa.scores` share: the arithmetic that they keep, and how warps walk over the blocks.
//!
//! ```text
//! d_h(l) = fma(k3, q3, fma(k2, q2, fma(k1, q1, k0 * q0)))       lane l: columns 4 l .. 4 l + 3 of the key and of head h
//! D_h    = the sum of d_h over the lanes, by the butterfly 16, 8, 4, 2, 1
//! score  = ((r_0 + r_1) + r_2) + r_3      r_h = D_h where that is above 0, else +0, also where it is no number
//! tail   = score + 1e9                    of block n_bid, if it holds a tail: always among the best
//! ```
//!
//! A row has the scores of blocks 0 to `n_bid`; the last one is that of the dead key, whatever the pooled keys hold there.

use cuda_std::int::opaque;
use cuda_std::thread::{block_idx_x, grid_dim_x, thread_idx_x};
use cuda_std::{float, global};

use super::{INDEX_DIM, INDEX_HEADS, RATIO, ScoresParams};

/// What a lane holds of a key or of a query head.
pub type Quad = [f32; 4];

/// Warps of a block.
pub const WARPS: u32 = 8;

/// What the tail block's score is raised by.
const TAIL: f32 = 1e9;

/// What the kernels need of a row's step record.
#[derive(Clone, Copy)]
pub struct Row {
    /// Complete blocks.
    pub n_bid: u32,
    has_tail: bool,
}

impl Row {
    /// In the place of a row before it is read.
    pub const NONE: Self = Self { n_bid: 0, has_tail: false };

    /// Row `row`, or the last one if there are fewer.
    ///
    /// # Safety
    /// As the kernels.
    #[inline(always)]
    #[must_use]
    pub unsafe fn of(p: &ScoresParams, row: u32) -> Self {
        // SAFETY: within the `nq` records, which are 16 bytes each and 16-byte aligned.
        let [_, n_kv, n_bid, _] = unsafe { global::load4_nc(p.steps.add(row.min(p.nq - 1) as usize).cast::<u32>()) };
        Self { n_bid, has_tail: !n_kv.is_multiple_of(RATIO as u32) }
    }

    /// Whether the row has a score of the block, within the launch's reach.
    #[inline(always)]
    #[must_use]
    pub fn has(&self, p: &ScoresParams, block: u32) -> bool {
        block <= self.n_bid && block < p.reach
    }

    /// The lane's part of the key that a block has for the row: the dead one unless the block is complete.
    ///
    /// # Safety
    /// As the kernels.
    #[inline(always)]
    #[must_use]
    pub unsafe fn key(&self, p: &ScoresParams, block: u32, lane: u32) -> Quad {
        let key = if block < self.n_bid.min(p.reach) { key_at(p, block) } else { p.dead };
        // SAFETY: a row of the pooled keys, or the dead key; `lane < 32`.
        unsafe { global::load4_nc(key.add(4 * lane as usize)) }
    }

    /// The score with what the tail adds.
    #[inline(always)]
    #[must_use]
    pub fn finish(&self, block: u32, score: f32) -> f32 {
        if block == self.n_bid && self.has_tail { score + TAIL } else { score }
    }
}

/// The pooled key of a block.
#[inline(always)]
#[must_use]
pub fn key_at(p: &ScoresParams, block: u32) -> *const f32 {
    p.pooled.wrapping_add(block as usize * INDEX_DIM)
}

/// A lane's part of the pooled key of a block.
#[inline(always)]
#[must_use]
pub fn part(p: &ScoresParams, block: u32, lane: u32) -> *const f32 {
    key_at(p, block).wrapping_add(4 * lane as usize)
}

/// A head of a query, or of the last one if there are fewer.
#[inline(always)]
#[must_use]
pub fn head_at(p: &ScoresParams, query: u32, head: u32) -> *const f32 {
    p.q_idx.wrapping_add((query.min(p.nq - 1) as usize * INDEX_HEADS + head as usize) * INDEX_DIM)
}

/// A lane's part of a dot product.
#[inline(always)]
#[must_use]
pub fn dot(k: Quad, q: Quad) -> f32 {
    float::fma(k[3], q[3], float::fma(k[2], q[2], float::fma(k[1], q[1], k[0] * q[0])))
}

/// `d` where it is above 0, else +0.
#[inline(always)]
#[must_use]
pub fn relu(d: f32) -> f32 {
    float::max(d, 0.0)
}

/// `n`, which the compiler does not know where it is more than 1. A loop of so many rounds is not unrolled: ptxas (12.9) would
/// form all dot products of the rounds before the first shuffle, and spill.
#[inline(always)]
#[must_use]
pub fn rounds(n: usize) -> usize {
    if n == 1 { 1 } else { opaque(n) }
}

/// The blocks of a launch's queries, walked by all warps of the grid's x.
#[derive(Clone, Copy)]
pub struct Walk {
    /// Blocks that are complete for every query.
    complete: u32,
    /// The last block of any query.
    last: u32,
}

impl Walk {
    /// Over the blocks of `rows`.
    #[inline(always)]
    #[must_use]
    pub fn of<const N: usize>(p: &ScoresParams, rows: &[Row; N]) -> Self {
        let (mut complete, mut last) = (p.reach, 0);
        for i in 0..N {
            complete = complete.min(rows[i].n_bid);
            last = last.max(rows[i].n_bid);
        }
        Self { complete, last: last.min(p.reach - 1) }
    }

    /// Walks by steps of `R` blocks. `score` gets a step that is complete for every query, by its number, and its keys as
    /// `load(step, i)` gave them; it leaves those of the step that the warp takes next, whose number it gets too, in their
    /// place. Behind the warp's last step that is the same step again. All other steps go to `rest`.
    ///
    /// The steps of `rest` are those warps' that have fewest of the others.
    #[inline(always)]
    pub fn steps<const R: usize>(
        self,
        load: impl Fn(u32, usize) -> Quad,
        mut score: impl FnMut(u32, &mut [Quad; R], u32),
        mut rest: impl FnMut(u32),
    ) {
        let (warp, warps) = (block_idx_x() * WARPS + thread_idx_x() / 32, grid_dim_x() * WARPS);
        let whole = self.complete / R as u32;
        let mut step = warp;
        if step < whole {
            let mut keys = [[0.0; 4]; R];
            for i in 0..R {
                keys[i] = load(step, i);
            }
            while step < whole {
                let next = step + warps;
                score(step, &mut keys, if next < whole { next } else { step });
                step = next;
            }
        }
        let mut step = whole + (warps - 1 - warp);
        while step <= self.last / R as u32 {
            rest(step);
            step += warps;
        }
    }
}
