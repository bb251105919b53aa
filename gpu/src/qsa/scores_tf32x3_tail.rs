//! `qsa.scores/tf32x3`, second launch: the score of the dead key for each query.
//!
//! Math      the module `scores`, block n_bid
//! Shapes    `ScoresParams`
//! Mapping   block = query, one warp
//! Order     the module's, a butterfly a head
//! Barriers  none
//! Budget    40 registers, 0 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Bitwise against `per_query`: of this block the bits are the base's

use cuda_std::kernel;
use cuda_std::launch::Bounds;
use cuda_std::thread::block_idx_x;

use super::ScoresParams;
use super::scores::Row;
use super::scores_per_query::score_block;

/// One warp: nothing here takes time but the launch.
pub const BOUNDS: Bounds = Bounds { threads: 32, min_blocks: 16 };

/// # Safety
/// Shapes and alignment as `ScoresParams` says; grid `nq`, block 32.
#[kernel(sm = 80)]
#[launch_bounds(BOUNDS)]
pub unsafe fn qsa_scores_tf32x3_tail(p: ScoresParams) {
    let query = block_idx_x();
    // SAFETY: `query < nq`.
    unsafe { score_block(&p, query, Row::of(&p, query).n_bid) }
}
