//! `qsa.topk/wide`: one block chooses a row's cells, reading every score again in each round, four at a time.
//!
//! Math      `TopkParams`, in the rounds of `topk_rounds`
//! Shapes    `TopkParams`
//! Mapping   block r = row r; warp w takes the w-th run of blocks, lane l of it blocks l, l + 32, ..
//! Order     integers only: counts do not depend on the order of counting
//! Barriers  per round two (behind the warps' counts, behind their sums), one before the ids; all by all threads
//! Budget    64 registers, 34,048 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Bitwise

use cuda_std::kernel;

use super::TopkParams;
use super::topk::{Found, Place, Row, Share, count};
use super::topk_rounds::{BOUNDS, Keys, body};

/// # Safety
/// Shapes as `TopkParams` says; grid `rows`, block 1,024.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn qsa_topk_wide(p: TopkParams) {
    // SAFETY: same contract.
    unsafe { body::<Streamed>(p) }
}

#[derive(Clone, Copy)]
struct Streamed(Share);

impl Keys for Streamed {
    #[inline(always)]
    unsafe fn of(_: Row, share: Share) -> Self {
        Self(share)
    }

    #[inline(always)]
    unsafe fn count(self, row: Row, found: Found, shift: u32, digits: *mut u32) {
        let mut k = 0;
        while k < self.0.per {
            // SAFETY: the share is of the row's complete blocks; as the caller says.
            unsafe { count(self.0.keys4(row, k), found, shift, digits) };
            k += 4;
        }
    }

    #[inline(always)]
    unsafe fn write(self, row: Row, found: Found, place: Place) -> Place {
        let (mut k, mut place) = (0, place);
        while k < self.0.per {
            // SAFETY: as in `count`; batches follow each other.
            place = unsafe { place.write(self.0.keys4(row, k), self.0.first + 32 * k, found, row) };
            k += 4;
        }
        place
    }
}
