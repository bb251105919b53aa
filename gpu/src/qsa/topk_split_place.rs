//! `qsa.topk/split`, the last of five launches: 32 blocks of a row write its cells.
//!
//! Math      `TopkParams`; the last digit of the threshold, then each block's place behind those before
//! Shapes    `TopkParams`, scratch `Scratch` a row
//! Mapping   as `topk_split_count`
//! Order     integers only: counts do not depend on the order of counting
//! Barriers  behind the sums of the last round, behind the warps' counts; by all threads
//! Budget    64 registers, 2,112 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Bitwise

use cuda_std::barrier::sync_threads;
use cuda_std::thread::{block_idx_x, block_idx_y, thread_idx_x};
use cuda_std::{global, kernel, shared, shared_array};

use super::TopkParams;
use super::topk::{DIGITS, Place, ROUNDS, Row, Share, beyond, sum};
use super::topk_split::{BOUNDS, PARTS, Scratch, WARPS, add_up, found_before};

/// # Safety
/// Shapes as `TopkParams` says; grid `(32, rows)`, block 256; the launches that count all rounds have ended.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn qsa_topk_split_place(p: TopkParams) {
    let cells = shared_array![u32; DIGITS]; // [digit]: cells of the last round, of the whole row
    let blocks = shared_array![u32; DIGITS]; // [digit]: complete blocks of the last round, in the blocks of threads before
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
        add_up(row, scratch, before, last, [0, part], [cells, blocks]);
        sync_threads();
        let found = before.with_digit(cells, row.width, 0);
        let digit = found.key & 255;
        let lane = t % 32;
        let parts = if lane < part { global::load(scratch.found(lane).add(2)) } else { 0 };
        let behind_parts =
            Place { above: sum(parts) + beyond(blocks, digit), ties: shared::load(blocks.add(digit as usize)) };
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
