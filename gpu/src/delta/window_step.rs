//! `delta.rec/window`: 1 to 8 tokens of a decode window, a warp for 16 columns of a head, no block barrier.
//!
//! Math      the module's recurrence; but for the last token, the kv sums of the next token are formed in the update loop
//! Shapes    `RecParams` with tokens <= 8; any head counts with value_heads a multiple of key_heads
//! Mapping   block of one warp: block b = head b / 8, columns 16 (b mod 8) ..; lane l: rows 32 (l / 8) .. + 31 of columns
//!           2 (l mod 8) and the next: 64 state registers, loaded once, stored once
//! Order     as `cols`; sums cross lanes by shuffles and are added p0, p1, p2, p3
//! Staging   all tokens at once (`token_slots.rs`), while the state loads
//! Barriers  none of the block; the warp meets when its copies have landed
//! Budget    176 registers, 9,856 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Bitwise against `delta.rec/cols`

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, thread_idx_x};
use cuda_std::{copy, kernel, shared_array, warp};

use super::RecParams;
use super::row_group::{BLOCKS, COLUMNS, Carried, HeadRows, Place, StatePart, kv_partial, read_row};
use super::token_slots::{TokenSlots, slot_len};
use crate::geometry::{GROUP_ROWS, HEAD_DIM, WINDOW_TOKENS};

/// One warp a block: the 384 warps of 48 heads spread over all SMs.
pub const BOUNDS: Bounds = Bounds { threads: 32, min_blocks: 1 };

/// # Safety
/// Shapes, alignment and aliasing as `RecParams` says, tokens <= 8; grid `value_heads * 8`, block 32.
#[kernel(sm = 80)]
#[launch_bounds(BOUNDS)]
pub unsafe fn delta_rec_window(p: RecParams) {
    // SAFETY: the grid's y is a sequence. The same for every thread of the block, before its first barrier.
    let p = unsafe { p.of_block() };
    if p.tokens == 0 {
        return;
    }
    let slots = shared_array![f32; WINDOW_TOKENS * slot_len(1)];
    // SAFETY: same contract.
    let (staged, part, mut carried) = unsafe { open(&p, p.tokens, slots) };
    // SAFETY: the tokens have landed and the first slot holds one.
    let mut k = unsafe { read_row(staged.k_row(slots)) };
    carried.kv = kv_partial(&carried.s, &k);
    // SAFETY: the first token's output; the pointer moves on as tokens are done.
    let mut y = unsafe { p.y.add(staged.head * HEAD_DIM + staged.column) };
    for t in 0..p.tokens as usize - 1 {
        let mut k_next = [0.0f32; GROUP_ROWS];
        // SAFETY: `t + 1 < tokens <= 8`; one token's output.
        unsafe {
            let (here, next) = (staged.slot(t), staged.slot(t + 1));
            let (g, d) = staged.corrections(here, carried.kv);
            let o = carried.advance(g, d, &k, staged.q_row(here), staged.k_row(next), &mut k_next);
            staged.place.store_one(y, o);
        }
        k = k_next;
        y = y.wrapping_add(p.y_stride as usize);
    }
    // SAFETY: the last token's slot and output.
    unsafe {
        let here = staged.slot(p.tokens as usize - 1);
        let (g, d) = staged.corrections(here, carried.kv);
        let o = carried.finish(g, d, &k, staged.q_row(here));
        staged.place.store_one(y, o);
    }
    if p.keep_state == 0 {
        part.store(&carried.s);
    }
}

/// Stages `tokens` tokens of the block's head in `slots`, loads its state, and waits for both.
///
/// # Safety
/// As [`delta_rec_window`]; `tokens <= 8`; `slots` holds 8 slots of one head.
#[inline(always)]
pub(super) unsafe fn open(p: &RecParams, tokens: u32, slots: *mut f32) -> (TokenSlots<1>, StatePart, Carried) {
    let (head, column) = (block_idx_x() as usize / BLOCKS, block_idx_x() as usize % BLOCKS * COLUMNS);
    let (lane, place, rows) = (thread_idx_x() as usize, Place::here(), HeadRows::new(p.key_heads, head));
    let staged = TokenSlots { slots, warp: 0, lane, head, column, rows, place };
    // SAFETY: the grid has 8 blocks a head; only this lane touches its part of the state. Nobody reads the slots yet.
    unsafe {
        let part = StatePart::new(p.state, p.value_heads, head, column, place);
        let s = part.load();
        staged.copy_tokens(p, tokens, 0, 0);
        copy::cp_async_wait_all();
        warp::sync_warp(warp::FULL_MASK);
        staged.make_decays(0);
        (staged, part, Carried { s, kv: [0.0; 2] })
    }
}
