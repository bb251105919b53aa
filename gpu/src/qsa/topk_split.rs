//! `qsa.topk/split`: what its launches share: a block's part of a row, and what blocks leave for the next launch.
//!
//! A launch counts one digit of its blocks' keys and leaves the counts in scratch; in the next one every block adds up those
//! of the whole row for itself, and so knows the digit. No block waits for another, and nothing has to be cleared.

use cuda_std::launch::Bounds;
use cuda_std::thread::thread_idx_x;
use cuda_std::{global, shared};

use super::TopkParams;
use super::topk::{DIGITS, Found, Row};

/// A thread a digit.
pub const BOUNDS: Bounds = Bounds { threads: DIGITS as u32, min_blocks: 4 };
/// Blocks of a row.
pub const PARTS: u32 = 32;
/// Warps of a block.
pub const WARPS: u32 = BOUNDS.threads / 32;

/// What the blocks of a row leave for each other, u32: counts of complete blocks `[2][PARTS][DIGITS]`, those of even and
/// of odd rounds; then `[PARTS][4]` what a block has found: threshold, cells above it, its own blocks above it, unused.
#[derive(Clone, Copy)]
pub struct Scratch(*mut u32);

/// Words of scratch of a row.
pub const SCRATCH_WORDS: usize = 2 * PARTS as usize * DIGITS + 4 * PARTS as usize;

impl Scratch {
    /// That of a row.
    ///
    /// # Safety
    /// `TopkParams` as it says; `row < rows`.
    #[inline(always)]
    #[must_use]
    pub unsafe fn of(p: TopkParams, row: u32) -> Self {
        // SAFETY: `row < rows`.
        Self(unsafe { p.scratch.add(row as usize * SCRATCH_WORDS) })
    }

    /// Counts of a block in a round.
    ///
    /// # Safety
    /// `part < PARTS`.
    #[inline(always)]
    #[must_use]
    pub unsafe fn counts(self, round: u32, part: u32) -> *mut u32 {
        // SAFETY: two rounds of `PARTS`.
        unsafe { self.0.add((round % 2 * PARTS + part) as usize * DIGITS) }
    }

    /// What a block has found.
    ///
    /// # Safety
    /// `part < PARTS`.
    #[inline(always)]
    #[must_use]
    pub unsafe fn found(self, part: u32) -> *mut u32 {
        // SAFETY: behind the counts; a multiple of 4 words.
        unsafe { self.0.add(2 * PARTS as usize * DIGITS + 4 * part as usize) }
    }
}

/// Adds up round `round` of a row, a thread a digit: to `cells` the cells of all blocks, to `blocks` the complete blocks of
/// the parts from `of[0]` to `of[1]`. A barrier must follow.
///
/// # Safety
/// All threads of the block are here; both arrays are u32 `[DIGITS]` in shared memory, not in use; an earlier launch
/// counted the round, and `found` is what was found before it.
#[inline(always)]
pub unsafe fn add_up(
    row: Row,
    scratch: Scratch,
    found: Found,
    round: u32,
    of: [u32; 2],
    [cells, blocks]: [*mut u32; 2],
) {
    let (t, shift) = (thread_idx_x(), 24 - 8 * round);
    // SAFETY: threads read and write one digit each; the row is `Row::of`'s.
    unsafe {
        let tail_key = row.tail_key();
        let (mut all, mut some) = (0u32, 0u32);
        for part in 0..PARTS {
            let n = global::load_nc(scratch.counts(round, part).add(t as usize));
            all += n;
            some += if of[0] <= part && part < of[1] { n } else { 0 };
        }
        let tail = if found.holds(tail_key, shift) && tail_key >> shift & 255 == t { row.tail } else { 0 };
        shared::store(cells.add(t as usize), 4 * all + tail);
        shared::store(blocks.add(t as usize), some);
    }
}

/// The threshold that a block has found before round `round`, and its blocks above that.
///
/// # Safety
/// An earlier launch counted round `round`.
#[inline(always)]
#[must_use]
pub unsafe fn found_before(scratch: Scratch, part: u32, round: u32) -> (Found, u32) {
    if round == 0 {
        return (Found::START, 0);
    }
    // SAFETY: the launch before last wrote it, or nothing reads it.
    let [key, above, blocks, _] = unsafe { global::load4(scratch.found(part)) };
    (Found { key, above }, blocks)
}
