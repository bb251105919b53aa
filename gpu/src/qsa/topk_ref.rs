//! `qsa.topk/ref`: one block chooses a row's cells, reading every score again in each round.
//!
//! Math      `TopkParams`; a round counts the next 8 bits of the keys that match so far
//! Shapes    `TopkParams`
//! Mapping   block r = row r; rounds: thread t takes blocks t, t + 256, ..; ids: thread t takes a run of blocks
//! Order     integers only: counts do not depend on the order of counting
//! Barriers  per round three (behind clearing, counting, choosing); then two around the scan; all by all threads
//! Budget    64 registers, 3,088 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Base

use cuda_std::barrier::sync_threads;
use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, thread_idx_x};
use cuda_std::{atomic, global, kernel, shared, shared_array};

use super::topk::{DIGITS, Found, Row, rounds};
use super::{RATIO, TopkParams};

/// A thread a digit.
pub const BOUNDS: Bounds = Bounds { threads: DIGITS as u32, min_blocks: 4 };
const THREADS: u32 = BOUNDS.threads;
/// Cells of a complete block.
const CELLS: u32 = RATIO as u32;

/// # Safety
/// Shapes as `TopkParams` says; grid `rows`, block 256.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn qsa_topk_ref(p: TopkParams) {
    let counts = shared_array![u32; DIGITS]; // [digit]: cells
    let runs = shared_array![u32; 2 * DIGITS]; // [thread][2]: cells of its run above and at the threshold, then before it
    let chosen = shared_array![u32; 2]; // the threshold so far, cells above it
    let t = thread_idx_x();
    // SAFETY: one block a row.
    let row = unsafe { Row::of(p, block_idx_x()) };
    if row.is_whole() {
        // SAFETY: just asked.
        unsafe { row.write_all(t, THREADS) };
        return; // the whole block
    }
    let candidates = row.blocks + u32::from(row.tail > 0);
    let weight = |block: u32| if block < row.blocks { CELLS } else { row.tail };
    let mut found = Found::START;
    for round in 0..rounds() {
        let shift = 24 - 8 * round;
        // SAFETY: a thread a digit; the choice of the round before has been read.
        unsafe { shared::store(counts.add(t as usize), 0u32) };
        sync_threads();
        let mut block = t;
        while block < candidates {
            // SAFETY: a candidate.
            let key = unsafe { row.key(block) };
            if found.holds(key, shift) {
                // SAFETY: a digit is below `DIGITS`; others only add.
                unsafe { atomic::add_shared_u32(counts.add((key >> shift & 255) as usize), weight(block)) };
            }
            block += THREADS;
        }
        sync_threads();
        if t == 0 {
            let (mut digit, mut above) = (DIGITS as u32 - 1, found.above);
            loop {
                // SAFETY: counts are complete.
                let cells = unsafe { shared::load(counts.add(digit as usize)) };
                if digit == 0 || above + cells >= row.width {
                    break;
                }
                above += cells;
                digit -= 1;
            }
            // SAFETY: one writer, behind a barrier.
            unsafe { shared::store2(chosen, [found.key | digit << shift, above]) };
        }
        sync_threads();
        // SAFETY: written before the barrier, and next behind two more.
        let [key, above] = unsafe { shared::load2(chosen) };
        found = Found { key, above };
    }

    let per = candidates.div_ceil(THREADS);
    let (start, end) = ((t * per).min(candidates), ((t + 1) * per).min(candidates));
    let mut mine = [0u32; 2];
    for block in start..end {
        // SAFETY: a candidate.
        let key = unsafe { row.key(block) };
        mine[0] += if key > found.key { weight(block) } else { 0 };
        mine[1] += if key == found.key { weight(block) } else { 0 };
    }
    // SAFETY: a thread a pair.
    unsafe { shared::store2(runs.add(2 * t as usize), mine) };
    sync_threads();
    if t == 0 {
        let mut before = [0u32; 2];
        for i in 0..THREADS as usize {
            // SAFETY: all pairs are written; nobody else touches them before the barrier.
            unsafe {
                let [above, ties] = shared::load2(runs.add(2 * i));
                shared::store2(runs.add(2 * i), before);
                before = [before[0] + above, before[1] + ties];
            }
        }
    }
    sync_threads();
    // SAFETY: the scan is complete.
    let [mut above, mut ties] = unsafe { shared::load2(runs.add(2 * t as usize)) };
    let tied = row.width - found.above;
    for block in start..end {
        // SAFETY: a candidate.
        let key = unsafe { row.key(block) };
        for i in 0..weight(block) {
            if key > found.key || key == found.key && ties < tied {
                // SAFETY: cells above the threshold and `tied` that equal it are `width` in all, at most `cap`.
                unsafe { global::store(row.ids.add((above + ties.min(tied)) as usize), CELLS * block + i) };
            }
            above += u32::from(key > found.key);
            ties += u32::from(key == found.key);
        }
    }
}
