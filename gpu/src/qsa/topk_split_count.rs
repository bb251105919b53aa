//! `qsa.topk/split`, launches 1 to 4 of five: 32 blocks of a row count a round together.
//!
//! Math      `TopkParams`; a round counts the next 8 bits of the keys that match so far
//! Shapes    `TopkParams`, scratch `Scratch` a row
//! Mapping   grid (32, rows): block c = the c-th run of a row's blocks, warp w of it the w-th run of that
//! Order     integers only: counts do not depend on the order of counting
//! Barriers  behind the warps' counts, and from round 1 on behind the sums of the round before; by all threads
//! Budget    64 registers, 10,240 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Bitwise

use cuda_std::barrier::sync_threads;
use cuda_std::thread::{block_idx_x, block_idx_y, thread_idx_x};
use cuda_std::{global, kernel, shared, shared_array};

use super::TopkParams;
use super::topk::{DIGITS, Found, Row, Share, beyond, clear, count};
use super::topk_split::{BOUNDS, PARTS, Scratch, WARPS, add_up, found_before};

/// # Safety
/// Shapes as `TopkParams` says; grid `(32, rows)`, block 256; the launches of rounds before have ended.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn qsa_topk_split_count(p: TopkParams) {
    let counts = shared_array![u32; WARPS as usize * DIGITS]; // [warp][digit]: complete blocks of the round
    let cells = shared_array![u32; DIGITS]; // [digit]: cells of the round before, of the whole row
    let blocks = shared_array![u32; DIGITS]; // [digit]: complete blocks of the round before, of this block of threads
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
        // that. The sums are complete behind the barrier.
        unsafe {
            let (before, above) = found_before(scratch, part, last);
            add_up(row, scratch, before, last, [part, part + 1], [cells, blocks]);
            sync_threads();
            let shift = 24 - 8 * last;
            found = before.with_digit(cells, row.width, shift);
            let above = above + beyond(blocks, found.key >> shift & 255);
            if t == 0 {
                // Every warp read what was found before ahead of the barrier.
                global::store4(scratch.found(part), [found.key, found.above, above, 0]);
            }
        }
    }
    let own = counts.wrapping_add(warp as usize * DIGITS);
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
    let mut n = 0u32;
    for w in 0..WARPS as usize {
        // SAFETY: all counts are complete.
        n += unsafe { shared::load(counts.add(w * DIGITS + t as usize)) };
    }
    // SAFETY: a thread a digit of this block's.
    unsafe { global::store(scratch.counts(round, part).add(t as usize), n) };
}
