//! `qsa.topk/reg`: one block chooses a row's cells, every score read once and kept in a register.
//!
//! Math      `TopkParams`, in the rounds of `topk_rounds`
//! Shapes    `TopkParams`, `max_blocks` at most `MOST_BLOCKS`
//! Mapping   block r = row r; warp w takes the w-th run of blocks, lane l of it blocks l, l + 32, ..: up to 33 keys
//! Order     integers only: counts do not depend on the order of counting
//! Barriers  per round two (behind the warps' counts, behind their sums), one before the ids; all by all threads
//! Budget    64 registers, 34,048 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Bitwise

use cuda_std::{global, kernel, warp};

use super::TopkParams;
use super::topk::{Found, Place, Row, Share, count, order_key};
use super::topk_rounds::{BOUNDS, Keys, body};

/// Keys of a thread: more do not fit in 64 registers, of which a block of 1,024 threads has no more.
const PER: usize = 33;
/// Most blocks of a row.
pub const MOST_BLOCKS: usize = PER * BOUNDS.threads as usize;

/// # Safety
/// Shapes as `TopkParams` says, `max_blocks <= MOST_BLOCKS`; grid `rows`, block 1,024.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn qsa_topk_reg(p: TopkParams) {
    // SAFETY: same contract.
    unsafe { body::<Registers>(p) }
}

#[derive(Clone, Copy)]
struct Registers {
    first: u32,
    keys: [u32; PER],
}

impl Keys for Registers {
    #[inline(always)]
    unsafe fn of(row: Row, share: Share) -> Self {
        let mut keys = [0u32; PER];
        for k in 0..PER {
            let block = share.first + 32 * k as u32 + warp::lane_id();
            if block < share.end {
                // SAFETY: a complete block.
                keys[k] = order_key(unsafe { global::load_nc(row.scores.add(block as usize)) });
            }
        }
        Self { first: share.first, keys }
    }

    #[inline(always)]
    unsafe fn count(self, _: Row, found: Found, shift: u32, digits: *mut u32) {
        // SAFETY: same contract.
        unsafe { count(self.keys, found, shift, digits) }
    }

    #[inline(always)]
    unsafe fn write(self, row: Row, found: Found, place: Place) -> Place {
        // SAFETY: same contract.
        unsafe { place.write(self.keys, self.first, found, row) }
    }
}
