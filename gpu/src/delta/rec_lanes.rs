//! `delta.rec/lanes`: the four row groups of a column in four lanes of one warp, a warp for each value head.
//!
//! Math      the module's recurrence; the kv sums of token t + 1 are formed inside the update loop of token t, from the
//!           rows it has just updated, so that the two 32-term chains of a token overlap
//! Shapes    `RecParams` with value_heads = VPK * key_heads, VPK = 2, 3 or 4; any token count
//! Mapping   block (key head kh, column block cb of 16) = 8 kh + cb, VPK warps; warp w = head kh + w key_heads; lane l:
//!           rows 32 (l / 8) .. + 31 of columns 16 cb + 2 (l mod 8) and the next: 64 state registers
//! Order     as `cols`: the same operations in the same order for each (head, column, row group); sums cross lanes by
//!           shuffles and are added p0, p1, p2, p3
//! Staging   8 tokens a buffer, three buffers (`token_slots.rs`); the warp of a head turns log decays into decays
//! Barriers  one every 8 tokens, by all threads, before the last two tokens of buffer b: buffer b + 1 has landed for all,
//!           and all have left buffer b - 1, which is then refilled with b + 2
//! Budget    248 registers, 34,560 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Bitwise against `delta.rec/cols`

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, sync_threads, thread_idx_x};
use cuda_std::{copy, kernel, shared_array};

use super::RecParams;
use super::row_group::{BLOCKS, COLUMNS, Carried, HeadRows, Place, StatePart, kv_partial, read_row};
use super::token_slots::{STAGE, TokenSlots, slot_len};
use crate::geometry::{GROUP_ROWS, HEAD_DIM, MAX_VPK};

/// Token slots in shared memory: three buffers.
const SLOTS: u32 = 3 * STAGE as u32;

/// Launch bounds for `vpk` warps; the block has its SM for itself.
pub const fn bounds(vpk: u32) -> Bounds {
    Bounds { threads: 32 * vpk, min_blocks: 1 }
}

/// # Safety
/// Shapes, alignment and aliasing as `RecParams` says, value_heads = 2 key_heads; grid `key_heads * 8`, block 64.
#[kernel(sm = 80)]
#[launch_bounds(bounds(2))]
pub unsafe fn delta_rec_lanes_vpk2(p: RecParams) {
    // SAFETY: same contract.
    unsafe { body::<2>(p) }
}

/// # Safety
/// As [`delta_rec_lanes_vpk2`] with value_heads = 3 key_heads, block 96.
#[kernel(sm = 80)]
#[launch_bounds(bounds(3))]
pub unsafe fn delta_rec_lanes_vpk3(p: RecParams) {
    // SAFETY: same contract.
    unsafe { body::<3>(p) }
}

/// # Safety
/// As [`delta_rec_lanes_vpk2`] with value_heads = 4 key_heads, block 128.
#[kernel(sm = 80)]
#[launch_bounds(bounds(4))]
pub unsafe fn delta_rec_lanes_vpk4(p: RecParams) {
    // SAFETY: same contract.
    unsafe { body::<4>(p) }
}

/// The kernel for `VPK` warps. Statics cannot depend on `VPK`, so shared memory is laid out for the most heads.
#[inline(always)]
unsafe fn body<const VPK: usize>(p: RecParams) {
    // SAFETY: the grid's y is a sequence. The same for every thread of the block, before its first barrier.
    let p = unsafe { p.of_block() };
    if p.tokens == 0 {
        return;
    }
    let thread = thread_idx_x() as usize;
    let (warp, lane, place) = (thread / 32, thread % 32, Place::here());
    let (key_head, column) = (block_idx_x() as usize / BLOCKS, block_idx_x() as usize % BLOCKS * COLUMNS);
    let head = key_head + warp * p.key_heads as usize;
    let rows = HeadRows::new(p.key_heads, head);
    let slots = shared_array![f32; SLOTS as usize * slot_len(MAX_VPK as usize)];
    let staged = TokenSlots::<VPK> { slots, warp, lane, head, column, rows, place };
    // SAFETY: nobody reads yet.
    unsafe {
        staged.copy_tokens(&p, p.tokens, 0, 0);
        staged.copy_tokens(&p, p.tokens, STAGE as u32, STAGE as u32);
    }
    // SAFETY: the grid has 8 blocks a key head, so head and columns are inside the state; only this lane touches its part.
    let part = unsafe { StatePart::new(p.state, p.value_heads, head, column, place) };
    let mut carried = Carried { s: part.load(), kv: [0.0; 2] };
    copy::cp_async_wait_group::<1>();
    sync_threads();
    let mut k_odd = [0.0f32; GROUP_ROWS];
    // SAFETY: buffer 0 has landed and holds at least one token.
    let mut k_even = unsafe {
        staged.make_decays(0);
        read_row(staged.k_row(slots))
    };
    carried.kv = kv_partial(&carried.s, &k_even);

    let (mut left, mut slot, mut refill, mut first) = (p.tokens, 0, 2 * STAGE as u32, 2 * STAGE as u32);
    // SAFETY: the first token's output; the pointer moves on as tokens are done.
    let mut y = unsafe { p.y.add(head * HEAD_DIM + column) };
    let stride = p.y_stride as usize;
    while left >= 2 {
        if slot % STAGE as u32 == STAGE as u32 - 2 {
            copy::cp_async_wait_all();
            sync_threads();
            let next = if slot + 2 == SLOTS { 0 } else { slot + 2 };
            // SAFETY: buffer b + 1 has landed for all; all have left buffer b - 1, which is `refill` (see Barriers).
            unsafe {
                staged.make_decays(next);
                staged.copy_tokens(&p, p.tokens, first, refill);
            }
            first = first.saturating_add(STAGE as u32);
            refill = if refill == 2 * STAGE as u32 { 0 } else { refill + STAGE as u32 };
        }
        // SAFETY: slots 0 .. 23, all landed but the last, which after the last token holds anything and is not used; two
        // tokens' outputs, `stride` apart.
        unsafe {
            let (here, odd) = (staged.slot(slot as usize), staged.slot(slot as usize + 1));
            slot = if slot + 2 == SLOTS { 0 } else { slot + 2 };
            let after = staged.slot(slot as usize);
            let (g, d) = staged.corrections(here, carried.kv);
            let o_even = carried.advance(g, d, &k_even, staged.q_row(here), staged.k_row(odd), &mut k_odd);
            let (g, d) = staged.corrections(odd, carried.kv);
            let o_odd = carried.advance(g, d, &k_odd, staged.q_row(odd), staged.k_row(after), &mut k_even);
            place.store_two(y, stride, o_even, o_odd);
        }
        y = y.wrapping_add(2 * stride);
        left -= 2;
    }
    if left == 1 {
        // SAFETY: the last token's slot, which has landed, and its output.
        unsafe {
            let here = staged.slot(slot as usize);
            let (g, d) = staged.corrections(here, carried.kv);
            let o = carried.finish(g, d, &k_even, staged.q_row(here));
            place.store_one(y, o);
        }
    }
    copy::cp_async_wait_all();
    if p.keep_state == 0 {
        part.store(&carried.s);
    }
}
