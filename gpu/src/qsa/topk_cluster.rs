//! `qsa.topk/cluster`: a cluster of 8 blocks chooses a row's cells, every score read once and kept in shared memory.
//!
//! Math      `TopkParams`; a round counts the next 8 bits of the keys that match so far, every block its own, and writes
//!           its counts into the shared memory of all blocks of the cluster
//! Shapes    `TopkParams`, `max_blocks` at most `MOST_BLOCKS`
//! Mapping   grid (8, rows): block c = the c-th run of a row's blocks, warp w of it the w-th run of that
//! Order     integers only: counts do not depend on the order of counting
//! Barriers  of the cluster: one at the start, one a round behind the writing; of the block: per round three (behind the
//!           warps' counts, behind the sums, behind the choice), one before the ids; all by all threads. No block writes
//!           to another one behind the last of the cluster's, so each may end when it likes
//! Budget    80 registers, 18,576 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Bitwise

use cuda_std::barrier::sync_threads;
use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_y, thread_idx_x};
use cuda_std::{cluster, kernel, shared, shared_array};

use super::TopkParams;
use super::topk::{DIGITS, Found, Place, ROUNDS, Row, Share, beyond, clear, count, rounds};

/// Half of what a block can have: barriers are shorter, and fewer warps add up and clear counts.
pub const BOUNDS: Bounds = Bounds { threads: 512, min_blocks: 1 };
/// Blocks of a cluster.
pub const PARTS: u32 = 8;
/// Most blocks of a row: 80 keys a thread, 160 KiB of an SM's 227.
pub const MOST_BLOCKS: usize = 80 * (PARTS * BOUNDS.threads) as usize;
/// Warps of a block.
const WARPS: u32 = BOUNDS.threads / 32;
/// Words of counts that the blocks write to each other, `[2][PARTS][DIGITS]`: those of even and of odd rounds.
const EXCHANGED: usize = 2 * PARTS as usize * DIGITS;

/// Keys that a thread loads at a time.
const BATCH: usize = 8;

/// Keys of a thread, in batches, where `per` are there.
#[inline(always)]
const fn batches(per: u32) -> u32 {
    per.div_ceil(BATCH as u32)
}

/// Dynamic shared memory of a block in bytes, for rows of `max_blocks` blocks: the counts, then the keys.
#[must_use]
pub const fn shared_bytes(max_blocks: u32) -> u32 {
    4 * (EXCHANGED as u32 + BATCH as u32 * batches(max_blocks.div_ceil(PARTS * BOUNDS.threads)) * BOUNDS.threads)
}

/// # Safety
/// Shapes as `TopkParams` says, `max_blocks <= MOST_BLOCKS`; grid `(8, rows)`, block 512, `shared_bytes` of dynamic
/// shared memory.
#[kernel(sm = 90, cluster = 8)]
#[launch_bounds(BOUNDS)]
pub unsafe fn qsa_topk_cluster(p: TopkParams) {
    let exchanged = shared::dynamic_shared::<u32>();
    let kept = exchanged.wrapping_add(EXCHANGED); // [four][thread][4]: keys
    let counts = shared_array![u32; WARPS as usize * DIGITS]; // [warp][digit]: complete blocks of the round
    let cells = shared_array![u32; DIGITS]; // [digit]: cells of the round, of the whole row
    let blocks = shared_array![u32; DIGITS]; // [digit]: complete blocks of the round, in the blocks of threads before
    let warps = shared_array![u32; 2 * WARPS as usize]; // [warp][2]: blocks above and at the threshold
    let chosen = shared_array![u32; 4]; // threshold, cells above it; blocks of the blocks of threads before above and at it
    let (t, warp, part) = (thread_idx_x(), thread_idx_x() / 32, cluster::rank());
    // SAFETY: the grid's y are rows.
    let row = unsafe { Row::of(p, block_idx_y()) };
    if row.is_whole() {
        // SAFETY: just asked.
        unsafe { row.write_all(part * BOUNDS.threads + t, PARTS * BOUNDS.threads) };
        return; // the whole cluster
    }
    cluster::sync(); // all blocks have started
    let share = Share::of(row.blocks, part * WARPS + warp, PARTS * WARPS);
    // The thread's own keys, so that no barrier is needed.
    let place_of = |four: u32| kept.wrapping_add(4 * (four * BOUNDS.threads + t) as usize);
    for batch in 0..batches(share.per) {
        // SAFETY: the row has no more blocks than `shared_bytes` is for; the thread's own words.
        unsafe {
            let keys = share.keys::<BATCH>(row, batch * BATCH as u32);
            shared::store4(place_of(2 * batch), [keys[0], keys[1], keys[2], keys[3]]);
            shared::store4(place_of(2 * batch + 1), [keys[4], keys[5], keys[6], keys[7]]);
        }
    }
    let n_fours = share.per.div_ceil(4);
    let own = counts.wrapping_add(warp as usize * DIGITS);
    // SAFETY: `own` is the warp's; the row is `Row::of`'s.
    let tail_key = unsafe {
        clear(own);
        row.tail_key()
    };
    // What is found; complete blocks above it of this warp, and of the blocks of threads before this one.
    let (mut found, mut mine, mut behind) = (Found::START, Place::START, Place::START);
    for round in 0..rounds() {
        let shift = 24 - 8 * round;
        for four in 0..n_fours {
            // SAFETY: the thread wrote these keys; only this warp adds to `own`, which it has cleared.
            unsafe { count(shared::load4(place_of(four)), found, shift, own) };
        }
        sync_threads();
        let side = exchanged.wrapping_add((round % 2) as usize * PARTS as usize * DIGITS);
        if t < DIGITS as u32 {
            let mut n = 0u32;
            for w in 0..WARPS as usize {
                // SAFETY: all counts of the block are complete.
                n += unsafe { shared::load(counts.add(w * DIGITS + t as usize)) };
            }
            for to in 0..PARTS {
                // SAFETY: a word for each block and digit; that of two rounds ago was read before the last barrier of
                // the cluster. All blocks run until the next one.
                unsafe { cluster::store(side.add(part as usize * DIGITS + t as usize), to, n) };
            }
        }
        cluster::sync();
        if t < DIGITS as u32 {
            let (mut all, mut before) = (0u32, 0u32);
            for from in 0..PARTS {
                // SAFETY: written by all blocks before the cluster's barrier.
                let n = unsafe { shared::load(side.add(from as usize * DIGITS + t as usize)) };
                all += n;
                before += if from < part { n } else { 0 };
            }
            let tail = if found.holds(tail_key, shift) && tail_key >> shift & 255 == t { row.tail } else { 0 };
            // SAFETY: a thread a digit; those of the round before were read before the barrier.
            unsafe {
                shared::store(cells.add(t as usize), 4 * all + tail);
                shared::store(blocks.add(t as usize), before);
            }
        }
        sync_threads();
        if warp == 0 {
            // SAFETY: `cells` and `blocks` are complete and change behind the next barriers; `chosen` was read before the last
            // ones. One warp chooses: the others would only take its time.
            unsafe {
                let next = found.with_digit(cells, row.width, shift);
                let digit = next.key >> shift & 255;
                let above = behind.above + beyond(blocks, digit);
                if t == 0 {
                    let ties = shared::load(blocks.add(digit as usize));
                    shared::store4(chosen, [next.key, next.above, above, ties]);
                }
            }
        }
        sync_threads();
        // SAFETY: the choice is made; `own` is this warp's again, and every lane clears the words that it has read in
        // `beyond`.
        unsafe {
            let [key, cells_above, above, ties] = shared::load4(chosen);
            (found, behind) = (Found { key, above: cells_above }, Place { above, ties });
            let digit = key >> shift & 255;
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
    // SAFETY: all pairs are written; the threshold is whole. The last warp of the last block ends behind all blocks.
    unsafe {
        let mut place = behind.behind_warps(warps, warp);
        for four in 0..n_fours {
            place = place.write(shared::load4(place_of(four)), share.first + 128 * four, found, row);
        }
        if part == PARTS - 1 && t == BOUNDS.threads - 1 {
            place.write_tail(tail_key, found, row);
        }
    }
}
