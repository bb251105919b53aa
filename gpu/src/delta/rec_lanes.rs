//! `delta.rec/lanes`: the four row groups of a column in four lanes of one warp, a warp for each value head.
//!
//! Math      the module's recurrence; the kv sums of token t + 1 are formed inside the update loop of token t, from the
//!           rows it has just updated, so that the two 32-term chains of a token overlap
//! Shapes    `RecParams` with value_heads = VPK * key_heads, VPK = 1, 2, 3 or 4; any token count
//! Mapping   block (key head kh, column block cb of 16) = 8 kh + cb, VPK warps; warp w = head kh + w key_heads; lane l:
//!           rows 32 (l / 8) .. + 31 of columns 16 cb + 2 (l mod 8) and the next: 64 state registers
//! Order     as `cols`: the same operations in the same order for each (head, column, row group); sums cross lanes by
//!           shuffles and are added p0, p1, p2, p3
//! Staging   8 tokens a buffer, three buffers; a token's slot holds q and k rows with 36 f32 a row group, so that the
//!           four groups of a warp read different banks, then log decay and beta, then v, of each head. The warp of a
//!           head turns log decays into decays in place
//! Barriers  one every 8 tokens, by all threads, before the last two tokens of buffer b: buffer b + 1 has landed for all,
//!           and all have left buffer b - 1, which is then refilled with b + 2
//! Budget    232 registers, 34,560 B shared, 0 B local (enforced by tests/tests/ptx/budgets.rs)
//! Promise   Bitwise against `delta.rec/cols`

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, sync_threads, thread_idx_x};
use cuda_std::{copy, float, kernel, shared, shared_array, warp};

use super::RecParams;
use super::row_group::{Carried, HeadRows, PITCH, PLACES, Place, ROW, StatePart, kv_partial, read_row};
use crate::geometry::{GROUP_ROWS, HEAD_DIM, MAX_VPK};

/// Columns of a lane.
const C: usize = 2;
/// Columns of a block.
pub const COLUMNS: usize = PLACES * C;
/// Blocks of a key head.
pub const BLOCKS: usize = HEAD_DIM / COLUMNS;
/// Tokens of a staging buffer.
const STAGE: usize = 8;
/// Token slots in shared memory: three buffers.
const SLOTS: usize = 3 * STAGE;
/// f32 of a slot: q row, k row, (log decay, beta) and v of each head.
const SLOT: usize = 2 * ROW + MAX_VPK as usize * (2 + COLUMNS);
/// Where a slot's (log decay, beta) pairs start.
const GATES: usize = 2 * ROW;
/// Where a slot's v values start.
const V: usize = GATES + 2 * MAX_VPK as usize;

/// Launch bounds for `vpk` warps; the block has its SM for itself.
pub const fn bounds(vpk: u32) -> Bounds {
    Bounds { threads: 32 * vpk, min_blocks: 1 }
}

/// # Safety
/// Shapes, alignment and aliasing as `RecParams` says, value_heads = key_heads; grid `key_heads * 8`, block 32.
#[kernel(sm = 80)]
#[launch_bounds(bounds(1))]
pub unsafe fn delta_rec_lanes_vpk1(p: RecParams) {
    // SAFETY: same contract.
    unsafe { body::<1>(p) }
}

/// # Safety
/// As [`delta_rec_lanes_vpk1`] with value_heads = 2 key_heads, block 64.
#[kernel(sm = 80)]
#[launch_bounds(bounds(2))]
pub unsafe fn delta_rec_lanes_vpk2(p: RecParams) {
    // SAFETY: same contract.
    unsafe { body::<2>(p) }
}

/// # Safety
/// As [`delta_rec_lanes_vpk1`] with value_heads = 3 key_heads, block 96.
#[kernel(sm = 80)]
#[launch_bounds(bounds(3))]
pub unsafe fn delta_rec_lanes_vpk3(p: RecParams) {
    // SAFETY: same contract.
    unsafe { body::<3>(p) }
}

/// # Safety
/// As [`delta_rec_lanes_vpk1`] with value_heads = 4 key_heads, block 128.
#[kernel(sm = 80)]
#[launch_bounds(bounds(4))]
pub unsafe fn delta_rec_lanes_vpk4(p: RecParams) {
    // SAFETY: same contract.
    unsafe { body::<4>(p) }
}

/// What a lane needs to walk the tokens.
struct Walk<const VPK: usize> {
    p: RecParams,
    place: Place,
    lane: usize,
    warp: usize,
    head: usize,
    rows: HeadRows,
    /// First column of the block in its head.
    column: usize,
    /// Shared `[SLOTS][SLOT]`.
    slots: *mut f32,
}

impl<const VPK: usize> Walk<VPK> {
    /// Starts the copies of buffer `b` (tokens 8 b ..); one group, empty past the end.
    #[inline(always)]
    fn stage(&self, b: u32) {
        let p = &self.p;
        let (first, slot0) = (b * STAGE as u32, b % 3 * STAGE as u32);
        let left = p.tokens.saturating_sub(first) as usize;
        let (first, slot0) = (first as usize, slot0 as usize);
        let thread = self.warp * 32 + self.lane;
        // SAFETY: every token copied is below `tokens`; sources stay in their token's rows, destinations in their slot;
        // addresses are multiples of 16 bytes, of 4 for gates. The buffer has no reader left (see Barriers).
        unsafe {
            for i in 0..(STAGE * 64).div_ceil(32 * VPK) {
                let piece = thread + 32 * VPK * i;
                let (t, part) = (piece / 64, piece % 64);
                if t < STAGE.min(left) {
                    let (which, quad) = (part / 32, part % 32);
                    let row = if which == 0 { self.rows.q } else { self.rows.k };
                    let to = (slot0 + t) * SLOT + which * ROW + quad / 8 * PITCH + quad % 8 * 4;
                    let from = (first + t) * p.qkv_stride as usize + row + quad * 4;
                    copy::cp_async16(self.slots.add(to), p.qkv.add(from));
                }
            }
            let (t, quad) = (self.lane / 4, self.lane % 4);
            if t < left {
                let to = (slot0 + t) * SLOT + V + self.warp * COLUMNS + quad * 4;
                let from = (first + t) * p.qkv_stride as usize + self.rows.v + self.column + quad * 4;
                copy::cp_async16(self.slots.add(to), p.qkv.add(from));
            }
            let (t, which) = (self.lane / 2, self.lane % 2);
            if t < STAGE.min(left) {
                let (source, stride) = if which == 0 { (p.gate, p.gate_stride) } else { (p.beta, p.beta_stride) };
                let to = (slot0 + t) * SLOT + GATES + self.warp * 2 + which;
                copy::cp_async4(self.slots.add(to), source.add((first + t) * stride as usize + self.head));
            }
        }
        copy::cp_async_commit();
    }

    /// Turns the log decays of the warp's head in buffer `b` into decays. The buffer has landed.
    #[inline(always)]
    fn decays(&self, b: u32) {
        if self.lane < STAGE {
            let slot = (b % 3) as usize * STAGE + self.lane;
            // SAFETY: inside the buffer; only this lane touches the element before the warp's next `sync_warp`. Past the
            // last token the slot holds anything, and nothing uses it.
            unsafe {
                let gate = self.slots.add(slot * SLOT + GATES + self.warp * 2);
                shared::store(gate, float::exp(shared::load(gate)));
            }
        }
        warp::sync_warp(u32::MAX);
    }

    /// Decay and corrections of the token in `slot`, which has landed and whose decay is made.
    #[inline(always)]
    fn corrections(&self, slot: *const f32, kv: [f32; C]) -> (f32, [f32; C]) {
        // SAFETY: `warp < VPK`, `2 place + 1 < 16`.
        let ([g, beta], v) = unsafe {
            let v = slot.add(V + self.warp * COLUMNS + C * self.place.place);
            (shared::load2(slot.add(GATES + self.warp * 2)), shared::load2(v))
        };
        (g, self.place.corrections(kv, g, beta, v))
    }

    /// One token in `slot`, `k` its key row; `k_next` receives the next token's key row, which is in `next`. Returns the
    /// output partials.
    #[inline(always)]
    fn step(
        &self,
        slot: *const f32,
        next: *const f32,
        carried: &mut Carried<C>,
        k: &[f32; GROUP_ROWS],
        k_next: &mut [f32; GROUP_ROWS],
    ) -> [f32; C] {
        let (g, d) = self.corrections(slot, carried.kv);
        // SAFETY: `36 group + 31 < ROW`; both slots have landed (past the last token `next` holds anything, unused).
        unsafe {
            let q_row = slot.add(self.place.group * PITCH);
            let k_row = next.add(ROW + self.place.group * PITCH);
            carried.advance(g, d, k, q_row, k_row, k_next)
        }
    }
}

/// The kernel for `VPK` warps. Statics cannot depend on `VPK`, so shared memory is laid out for the most heads.
#[inline(always)]
unsafe fn body<const VPK: usize>(p: RecParams) {
    let thread = thread_idx_x() as usize;
    let (key_head, column_block) = (block_idx_x() as usize / BLOCKS, block_idx_x() as usize % BLOCKS);
    let (head, column, place) = (key_head + thread / 32 * p.key_heads as usize, column_block * COLUMNS, Place::here());
    let rows = HeadRows::new(p.key_heads, head);
    let slots = shared_array![f32; SLOTS * SLOT];
    let walk = Walk::<VPK> { p, place, lane: thread % 32, warp: thread / 32, head, rows, column, slots };
    walk.stage(0);
    walk.stage(1);
    // SAFETY: the grid has 8 blocks a key head, so head and columns are inside the state; only this lane touches its part.
    let part = unsafe { StatePart::new::<C>(p.state, p.value_heads, head, column, place) };
    let mut carried = Carried { s: part.load::<C>(), kv: [0.0; C] };
    copy::cp_async_wait_group::<1>();
    sync_threads();
    walk.decays(0);
    // SAFETY: buffer 0 has landed and holds at least one token.
    let mut k_even = unsafe { read_row(slots.add(ROW), place) };
    let mut k_odd = [0.0f32; GROUP_ROWS];
    carried.kv = kv_partial(&carried.s, &k_even);

    let (mut left, mut slot, mut buffer) = (p.tokens, 0u32, 0u32);
    // SAFETY: the first token's output; the pointer moves one token on for each token done.
    let mut y = unsafe { p.y.add(head * HEAD_DIM + column) };
    let stride = p.y_stride as usize;
    while left >= 2 {
        if slot % STAGE as u32 == STAGE as u32 - 2 {
            copy::cp_async_wait_all();
            sync_threads();
            walk.decays(buffer + 1);
            walk.stage(buffer + 2);
            buffer += 1;
        }
        // SAFETY: slots 0 .. 23.
        let (here, odd) = unsafe { (slots.add(slot as usize * SLOT), slots.add((slot as usize + 1) * SLOT)) };
        slot = if slot + 2 == SLOTS as u32 { 0 } else { slot + 2 };
        // SAFETY: as above.
        let after = unsafe { slots.add(slot as usize * SLOT) };
        let o_even = walk.step(here, odd, &mut carried, &k_even, &mut k_odd);
        let o_odd = walk.step(odd, after, &mut carried, &k_odd, &mut k_even);
        // SAFETY: two tokens' outputs, `stride` apart.
        unsafe { place.store_two(y, stride, o_even, o_odd) };
        y = y.wrapping_add(2 * stride);
        left -= 2;
    }
    if left == 1 {
        // SAFETY: the last token's slot, which has landed, and its output.
        unsafe {
            let here = slots.add(slot as usize * SLOT);
            let (g, d) = walk.corrections(here, carried.kv);
            let o = carried.finish(g, d, &k_even, here.add(place.group * PITCH));
            place.store_one(y, o);
        }
    }
    copy::cp_async_wait_all();
    if p.keep_state == 0 {
        part.store(&carried.s);
    }
}
