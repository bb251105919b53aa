//! `delta.rec/wg32`, first launch: as that of `tc32` (`rec_tc32_prep.rs`), but it may run beside the scan of the pass before.
//!
//! Math      as `delta_rec_tc32_prep`
//! Shapes    `RecParams` with scratch; any head counts with value_heads a multiple of key_heads
//! Mapping   as `delta_rec_tc32_prep`: the free SMs of a scan take its blocks
//! Order     writes the half of the scratch that the scan ahead does not read; the last block ends behind that scan
//! Barriers  two, as `delta_rec_tc32_prep`
//! Budget    128 registers, 38,912 B shared, 0 B local (enforced by tests/tests/ptx/)

use cuda_std::thread::{block_idx_x, block_idx_y, grid_dim_x, grid_dim_y};
use cuda_std::{grid, kernel};

use super::RecParams;
use super::rec_tc32_prep::{BOUNDS, body};

/// # Safety
/// As [`delta_rec_tc32_prep`](super::rec_tc32_prep::delta_rec_tc32_prep); where it starts early nothing reads its slots, and
/// nothing that it reads is being written.
#[kernel(sm = 90)]
#[launch_bounds(BOUNDS)]
pub unsafe fn delta_rec_wg32_prep(p: RecParams) {
    // SAFETY: same contract.
    unsafe { body::<true>(p) }
    end_in_order();
}

/// # Safety
/// As [`delta_rec_wg32_prep`].
#[kernel(sm = 90)]
#[launch_bounds(BOUNDS)]
pub unsafe fn delta_rec_wg32_fast_prep(p: RecParams) {
    // SAFETY: same contract.
    unsafe { body::<false>(p) }
    end_in_order();
}

/// The launch is over only when the one ahead is: what follows it is behind both. One block's wait is enough, and leaves the
/// places of the others.
#[inline(always)]
fn end_in_order() {
    if block_idx_x() == grid_dim_x() - 1 && block_idx_y() == grid_dim_y() - 1 {
        grid::wait_for_previous();
    }
}
