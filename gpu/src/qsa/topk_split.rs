//! `qsa.topk/split`: 32 blocks choose a row's cells together, in five launches: a round each, then the ids.
//!
//! Math      `TopkParams`; a launch counts one digit of its blocks' keys and leaves the counts in scratch; the next one
//!           adds them up, each block for itself, and so knows the digit. No block waits for another
//! Shapes    `TopkParams`, scratch `Scratch` a row
//! Mapping   grid (32, rows): block c = the c-th run of a row's blocks, warp w of it the w-th run of that
//! Order     integers only: counts do not depend on the order of counting
//! Barriers  count: one behind its counts, from round 1 on one more behind the sums; place: two; all by all threads
//! Budget    64 registers, 10,240 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Bitwise

use cuda_std::barrier::sync_threads;
use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, block_idx_y, thread_idx_x};
use cuda_std::{global, kernel, shared, shared_array};

use super::TopkParams;
use super::topk::{DIGITS, Found, Place, ROUNDS, Row, Share, beyond, clear, count};

/// A thread a digit.
pub const BOUNDS: Bounds = Bounds { threads: DIGITS as u32, min_blocks: 4 };
/// Blocks of a row.
pub const PARTS: u32 = 32;
/// Warps of a block.
const WARPS: u32 = BOUNDS.threads / 32;

/// What the blocks of a row leave for each other, u32: counts of complete blocks `[2][PARTS][DIGITS]`, those of even and
/// of odd rounds; then `[PARTS][4]` what a block has found: threshold, cells above it, its own blocks above it, unused.
#[derive(Clone, Copy)]
struct Scratch(*mut u32);

/// Words of scratch of a row.
pub const SCRATCH_WORDS: usize = 2 * PARTS as usize * DIGITS + 4 * PARTS as usize;

impl Scratch {
    #[inline(always)]
    unsafe fn of(p: TopkParams, row: u32) -> Self {
        // SAFETY: `row < rows`.
        Self(unsafe { p.scratch.add(row as usize * SCRATCH_WORDS) })
    }

    /// Counts of a block in a round.
    #[inline(always)]
    unsafe fn counts(self, round: u32, part: u32) -> *mut u32 {
        // SAFETY: two rounds of `PARTS`.
        unsafe { self.0.add((round % 2 * PARTS + part) as usize * DIGITS) }
    }

    /// What a block has found.
    #[inline(always)]
    unsafe fn found(self, part: u32) -> *mut u32 {
        // SAFETY: behind the counts; a multiple of 4 words.
        unsafe { self.0.add(2 * PARTS as usize * DIGITS + 4 * part as usize) }
    }
}

/// Arrays of a block in shared memory.
#[derive(Clone, Copy)]
struct Arrays {
    /// `[warp][digit]`: complete blocks of the round.
    counts: *mut u32,
    /// `[digit]`: cells of the round before, of the whole row.
    cells: *mut u32,
    /// `[digit]`: complete blocks of the round before, of this block or of those before it.
    blocks: *mut u32,
}

impl Arrays {
    #[inline(always)]
    fn new() -> Self {
        Self {
            counts: shared_array![u32; WARPS as usize * DIGITS],
            cells: shared_array![u32; DIGITS],
            blocks: shared_array![u32; DIGITS],
        }
    }

    /// Adds up round `round` of a row: the cells of all, and the blocks of parts `of.0` to `of.1`.
    ///
    /// # Safety
    /// All threads of the block are here; an earlier launch counted the round.
    #[inline(always)]
    unsafe fn add_up(self, row: Row, scratch: Scratch, found: Found, round: u32, of: (u32, u32)) {
        let (t, shift) = (thread_idx_x(), 24 - 8 * round);
        // SAFETY: threads read and write one digit each.
        unsafe {
            let tail_key = row.tail_key();
            let (mut all, mut some) = (0u32, 0u32);
            for part in 0..PARTS {
                let n = global::load_nc(scratch.counts(round, part).add(t as usize));
                all += n;
                some += if of.0 <= part && part < of.1 { n } else { 0 };
            }
            let tail = if found.holds(tail_key, shift) && tail_key >> shift & 255 == t { row.tail } else { 0 };
            shared::store(self.cells.add(t as usize), 4 * all + tail);
            shared::store(self.blocks.add(t as usize), some);
        }
        sync_threads();
    }
}

/// The threshold that a block has found before round `round`, and its blocks above that.
#[inline(always)]
unsafe fn found_before(scratch: Scratch, part: u32, round: u32) -> (Found, u32) {
    if round == 0 {
        return (Found::START, 0);
    }
    // SAFETY: the launch before last wrote it, or nothing reads it.
    let [key, above, blocks, _] = unsafe { global::load4(scratch.found(part)) };
    (Found { key, above }, blocks)
}

/// # Safety
/// Shapes as `TopkParams` says; grid `(32, rows)`, block 256; the launches of rounds before have ended.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn qsa_topk_split_count(p: TopkParams) {
    let arrays = Arrays::new();
    let (t, warp, part, round) = (thread_idx_x(), thread_idx_x() / 32, block_idx_x(), p.round);
    // SAFETY: the grid's y are rows.
    let (row, scratch) = unsafe { (Row::of(p, block_idx_y()), Scratch::of(p, block_idx_y())) };
    if row.is_whole() {
        return; // the whole block
    }
    let mut found = Found::START;
    if round > 0 {
        let last = round - 1;
        // SAFETY: earlier launches counted the round before and wrote what was found before it; only this block uses
        // that. `cells` and `blocks` are complete behind `add_up`.
        unsafe {
            let (before, mut blocks) = found_before(scratch, part, last);
            arrays.add_up(row, scratch, before, last, (part, part + 1));
            let shift = 24 - 8 * last;
            found = before.with_digit(arrays.cells, row.width, shift);
            blocks += beyond(arrays.blocks, found.key >> shift & 255);
            // Every warp has read what was found before: `add_up` has a barrier.
            if t == 0 {
                global::store4(scratch.found(part), [found.key, found.above, blocks, 0]);
            }
        }
    }
    let own = arrays.counts.wrapping_add(warp as usize * DIGITS);
    let share = Share::of(row.blocks, part * WARPS + warp, PARTS * WARPS);
    // SAFETY: `own` is the warp's; the share is of the row's blocks.
    unsafe {
        clear(own);
        let mut k = 0;
        while k < share.per {
            count(share.keys4(row, k), found, 24 - 8 * round, own);
            k += 4;
        }
    }
    sync_threads();
    let mut blocks = 0u32;
    for w in 0..WARPS as usize {
        // SAFETY: all counts are complete.
        blocks += unsafe { shared::load(arrays.counts.add(w * DIGITS + t as usize)) };
    }
    // SAFETY: a thread a digit of this block's.
    unsafe { global::store(scratch.counts(round, part).add(t as usize), blocks) };
}

/// # Safety
/// As [`qsa_topk_split_count`]; all four rounds are counted.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn qsa_topk_split_place(p: TopkParams) {
    let arrays = Arrays::new();
    let warps = shared_array![u32; 2 * WARPS as usize]; // [warp][2]: blocks above and at the threshold
    let (t, warp, part) = (thread_idx_x(), thread_idx_x() / 32, block_idx_x());
    // SAFETY: the grid's y are rows.
    let (row, scratch) = unsafe { (Row::of(p, block_idx_y()), Scratch::of(p, block_idx_y())) };
    if row.is_whole() {
        // SAFETY: just asked.
        unsafe { row.write_all(part * BOUNDS.threads + t, PARTS * BOUNDS.threads) };
        return; // the whole block
    }
    let share = Share::of(row.blocks, part * WARPS + warp, PARTS * WARPS);
    let last = ROUNDS - 1;
    // SAFETY: earlier launches counted the last round and wrote what was found before it, of all blocks. Shared arrays
    // are read behind the barrier that follows their writing.
    unsafe {
        let (before, _) = found_before(scratch, part, last);
        arrays.add_up(row, scratch, before, last, (0, part));
        let found = before.with_digit(arrays.cells, row.width, 0);
        let digit = found.key & 255;
        let lane = t % 32;
        let parts = if lane < part { global::load(scratch.found(lane).add(2)) } else { 0 };
        let behind_parts = Place {
            above: super::topk::sum(parts) + beyond(arrays.blocks, digit),
            ties: shared::load(arrays.blocks.add(digit as usize)),
        };
        let (mut mine, mut k) = (Place::START, 0);
        while k < share.per {
            mine = mine.with_keys(share.keys4(row, k), found.key);
            k += 4;
        }
        if lane == 0 {
            shared::store2(warps.add(2 * warp as usize), [mine.above, mine.ties]);
        }
        sync_threads();
        let (mut place, mut k) = (behind_parts.behind_warps(warps, warp), 0);
        while k < share.per {
            place = place.write(share.keys4(row, k), share.first + 32 * k, found, row);
            k += 4;
        }
        if part == PARTS - 1 && t == BOUNDS.threads - 1 {
            place.write_tail(row.tail_key(), found, row);
        }
    }
}
