//! `qsa.append/warp`: a warp makes the pooled key of one block that the call completes; the first block of threads also
//! keeps the raw keys of the tail, and makes the dead key at position 0.
//!
//! Math      pooled = rope(norm((((r0 + r1) + r2) + r3) / 4, gain)) at the position of the block's first cell; the dead key
//!           is that of four cells like the first, at position 0
//! Shapes    `AppendParams`
//! Mapping   warp number w: the w-th block that the call completes; lane l: columns 4 l .. 4 l + 3
//! Order     the mean as written; norm and rotation as `attn.norm_rope`
//! Barriers  one, in the first block of threads: its warp 0 alone reads the tail of earlier calls, before the barrier; behind
//!           it the tail is written. Later blocks of the sequence lie wholly in the call.
//! Budget    64 registers, 0 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Base

use cuda_std::barrier::sync_threads;
use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, thread_idx_x};
use cuda_std::{float, global, kernel};

use super::{AppendParams, INDEX_DIM, RATIO};
use crate::attn::{Rope, norm_rope_row};

/// Four warps.
pub const BOUNDS: Bounds = Bounds { threads: 128, min_blocks: 8 };
/// Completed blocks of a block of threads, a warp each.
pub const WARPS: u32 = BOUNDS.threads / 32;

/// # Safety
/// Shapes and alignment as `AppendParams` says; block 128; the grid has a warp for every block of cells that `tokens` tokens
/// can complete: `tokens / 4` rounded up.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn qsa_append_warp(p: AppendParams) {
    let (warp, lane) = (block_idx_x() * WARPS + thread_idx_x() / 32, thread_idx_x() % 32);
    // SAFETY: `tokens` is at least 1; a record is four words, the first its position.
    let first = unsafe { global::load_nc(p.steps.cast::<u32>()) };
    let end = first + p.tokens;
    let ratio = RATIO as u32;
    let block = first / ratio + warp;
    if block < end / ratio && block < p.max_blocks && block * ratio < p.positions {
        let start = block * ratio;
        let mean = |c: u32| {
            let mut sum = [0.0f32; 4];
            for j in 0..ratio {
                // SAFETY: the block ends in the call, so a cell that is not in it is in the tail.
                let v = unsafe { cell(&p, first, start + j, c) };
                sum = if j == 0 { v } else { [0, 1, 2, 3].map(|i| sum[i] + v[i]) };
            }
            sum.map(|v| v * 0.25)
        };
        // SAFETY: the position is within the tables, the block within the pooled keys; a whole warp is here.
        unsafe { make(&p, mean, p.pooled.add(block as usize * INDEX_DIM), start, lane) };
    }
    if first == 0 && warp == 1 {
        let mean = |c: u32| {
            // SAFETY: position 0 is in the call.
            let r = unsafe { cell(&p, 0, 0, c) };
            r.map(|r| (((r + r) + r) + r) * 0.25)
        };
        // SAFETY: as above.
        unsafe { make(&p, mean, p.dead, 0, lane) };
    }
    if block_idx_x() != 0 {
        return; // a whole block of threads
    }
    sync_threads();
    let slot = thread_idx_x() / 32;
    if slot + 1 < ratio {
        // The last cell of the call that has this slot: end - 1 - ((end - 1 - slot) mod 4).
        let back = (end - 1 + ratio - slot) % ratio;
        if back < p.tokens {
            // SAFETY: the cell is in the call; one writer an element, and whoever reads the tail did so before the barrier.
            unsafe {
                let v = cell(&p, first, end - 1 - back, 4 * lane);
                global::store4(p.tail.add(slot as usize * INDEX_DIM + 4 * lane as usize), v);
            }
        }
    }
}

/// Columns c .. c + 3 of a cell's raw key, rounded as the cache does.
///
/// # Safety
/// The cell's position is in the call, or its key in the tail; `c + 3 < INDEX_DIM`.
#[inline(always)]
unsafe fn cell(p: &AppendParams, first: u32, position: u32, c: u32) -> [f32; 4] {
    // SAFETY: the caller's promise.
    unsafe {
        if position < first {
            return global::load4(p.tail.add(position as usize % RATIO * INDEX_DIM + c as usize));
        }
        let v = global::load4_nc(p.raw.add((position - first) as usize * p.raw_stride as usize + c as usize));
        if p.round_to_f16 == 0 { v } else { v.map(|v| float::f16_to_f32(float::f32_to_f16(v))) }
    }
}

/// Norms and rotates one key.
///
/// # Safety
/// `key` holds `INDEX_DIM` values, `position` is within the tables; all lanes of the warp call it together.
#[inline(always)]
unsafe fn make(p: &AppendParams, mean: impl Fn(u32) -> [f32; 4], key: *mut f32, position: u32, lane: u32) {
    let rope = Rope { cos: p.cos, sin: p.sin, half: p.half, first: 0 };
    // SAFETY: the caller's promise.
    unsafe {
        norm_rope_row(
            mean,
            p.gain,
            key,
            INDEX_DIM as u32,
            (p.eps, 1.0 / INDEX_DIM as f32),
            &rope,
            position as usize,
            lane,
        )
    }
}
