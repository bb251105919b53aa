//! `qsa.topk` by one block of 32 warps, each of which counts for itself: what `reg` and `wide` share.
//!
//! A round: every warp counts its keys; a thread a digit adds the warps' counts; every warp chooses the digit for itself
//! and notes how many of its own keys are above it, from its own counts. So nothing is read again to place the cells.

use cuda_std::barrier::sync_threads;
use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, thread_idx_x};
use cuda_std::{shared, shared_array};

use super::TopkParams;
use super::topk::{DIGITS, Found, Place, ROUNDS, Row, Share, beyond, clear, rounds};

/// A block a row, with as many threads as a block can have.
pub const BOUNDS: Bounds = Bounds { threads: 1024, min_blocks: 1 };
/// Warps of the block.
pub const WARPS: u32 = BOUNDS.threads / 32;

/// Where a warp's keys are, lane l's key k being of block `share.first + 32 k + l`.
pub trait Keys: Copy {
    /// Keys of the warp's share.
    ///
    /// # Safety
    /// All lanes of the warp are here; the share is of the row's complete blocks.
    unsafe fn of(row: Row, share: Share) -> Self;

    /// Counts them ([`super::topk::count`]).
    ///
    /// # Safety
    /// As `count`.
    unsafe fn count(self, row: Row, found: Found, shift: u32, digits: *mut u32);

    /// Writes what is chosen of them ([`Place::write`]).
    ///
    /// # Safety
    /// As [`Place::write`].
    unsafe fn write(self, row: Row, found: Found, place: Place) -> Place;
}

/// The body of both kernels.
///
/// # Safety
/// Shapes as `TopkParams` says; grid `rows`, block 1,024.
#[inline(always)]
pub unsafe fn body<K: Keys>(p: TopkParams) {
    let counts = shared_array![u32; WARPS as usize * DIGITS]; // [warp][digit]: complete blocks of the round
    let cells = shared_array![u32; DIGITS]; // [digit]: cells of the round
    let warps = shared_array![u32; 2 * WARPS as usize]; // [warp][2]: blocks above and at the threshold
    let (t, warp) = (thread_idx_x(), thread_idx_x() / 32);
    // SAFETY: one block a row.
    let row = unsafe { Row::of(p, block_idx_x()) };
    if row.is_whole() {
        // SAFETY: just asked.
        unsafe { row.write_all(t, BOUNDS.threads) };
        return; // the whole block
    }
    // SAFETY: the row is `Row::of`'s; all lanes are here.
    let (tail_key, keys) = unsafe { (row.tail_key(), K::of(row, Share::of(row.blocks, warp, WARPS))) };
    let own = counts.wrapping_add(warp as usize * DIGITS);
    // SAFETY: `own` is the warp's.
    unsafe { clear(own) };
    let (mut found, mut mine) = (Found::START, Place::START);
    for round in 0..rounds() {
        let shift = 24 - 8 * round;
        // SAFETY: only this warp adds to `own`, which it has cleared.
        unsafe { keys.count(row, found, shift, own) };
        sync_threads();
        if t < DIGITS as u32 {
            let mut blocks = 0u32;
            for w in 0..WARPS as usize {
                // SAFETY: `t < DIGITS`; all counts are complete.
                blocks += unsafe { shared::load(counts.add(w * DIGITS + t as usize)) };
            }
            let tail = if found.holds(tail_key, shift) && tail_key >> shift & 255 == t { row.tail } else { 0 };
            // SAFETY: a thread a digit; the choice of the round before was made before the barrier.
            unsafe { shared::store(cells.add(t as usize), 4 * blocks + tail) };
        }
        sync_threads();
        // SAFETY: `cells` is complete and changes behind the next barrier; `own` is this warp's again, and every lane
        // clears the words that it has read in `beyond`.
        unsafe {
            found = found.with_digit(cells, row.width, shift);
            let digit = found.key >> shift & 255;
            mine.above += beyond(own, digit);
            if round == ROUNDS - 1 {
                mine.ties = shared::load(own.add(digit as usize));
            } else {
                clear(own);
            }
        }
    }
    if t.is_multiple_of(32) {
        // SAFETY: a pair a warp.
        unsafe { shared::store2(warps.add(2 * warp as usize), [mine.above, mine.ties]) };
    }
    sync_threads();
    // SAFETY: all pairs are written; the threshold is whole. The last warp ends behind all complete blocks.
    unsafe {
        let place = keys.write(row, found, Place::START.behind_warps(warps, warp));
        if t == BOUNDS.threads - 1 {
            place.write_tail(tail_key, found, row);
        }
    }
}
