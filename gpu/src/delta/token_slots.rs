//! Tokens staged in shared memory, as `lanes` and the window kernels read them.
//!
//! A slot holds one token: its q and k rows with 36 f32 a row group, so that the four groups of a warp read different
//! banks; (log decay, beta) of each head; 16 v values of each head. Warp w of a block works for head w of the slot.

use cuda_std::{copy, float, shared, warp};

use super::RecParams;
use super::row_group::{COLUMNS, HeadRows, PITCH, Place, ROW};

/// Most tokens that are copied together.
pub const STAGE: usize = 8;

/// Where a slot's (log decay, beta) pairs start.
const GATES: usize = 2 * ROW;

/// Where a slot's v values start, for `heads` heads: a multiple of 4.
const fn v_start(heads: usize) -> usize {
    GATES + (2 * heads).next_multiple_of(4)
}

/// f32 of a slot for `heads` heads: a multiple of 4.
pub const fn slot_len(heads: usize) -> usize {
    v_start(heads) + heads * COLUMNS
}

/// A warp's view of the slots of its block, which has `HEADS` warps.
#[derive(Clone, Copy)]
pub struct TokenSlots<const HEADS: usize> {
    /// Shared memory, `slot_len(HEADS)` f32 a slot, 16-byte aligned.
    pub slots: *mut f32,
    /// Warp in the block.
    pub warp: usize,
    /// Lane in the warp.
    pub lane: usize,
    /// Value head of this warp.
    pub head: usize,
    /// First of the block's 16 columns in its head.
    pub column: usize,
    /// The warp's rows in a token's q, k, v row.
    pub rows: HeadRows,
    /// The lane's place.
    pub place: Place,
}

impl<const HEADS: usize> TokenSlots<HEADS> {
    /// The slot's first element.
    ///
    /// # Safety
    /// The slot is inside the shared array.
    #[inline(always)]
    pub unsafe fn slot(&self, slot: usize) -> *mut f32 {
        // SAFETY: this function's contract.
        unsafe { self.slots.add(slot * slot_len(HEADS)) }
    }

    /// Starts the copies of up to 8 tokens from `first` on, as many as there are before `tokens`, to the slots from
    /// `slot0` on; all warps of the block together. One cp.async group, empty when there is no token.
    ///
    /// # Safety
    /// `p` is a valid call; the 8 slots are inside the array and have no reader left.
    #[inline(always)]
    pub unsafe fn copy_tokens(&self, p: &RecParams, tokens: u32, first: u32, slot0: u32) {
        let n = STAGE.min(tokens.saturating_sub(first) as usize);
        let thread = self.warp * 32 + self.lane;
        // SAFETY: the token is below `tokens` and the address inside its row; multiples of 16 bytes.
        let row = |t: usize, at: usize| unsafe { p.qkv.add((first as usize + t) * p.qkv_stride as usize + at) };
        // SAFETY: inside the slot; multiples of 16 bytes (of 4 for gates), since every part of a slot is.
        unsafe {
            let to = |t: usize, at: usize| self.slot(slot0 as usize + t).add(at);
            for i in 0..(STAGE * 64).div_ceil(32 * HEADS) {
                let piece = thread + 32 * HEADS * i;
                let (t, part) = (piece / 64, piece % 64);
                if t < n {
                    let (which, quad) = (part / 32, part % 32);
                    let from = if which == 0 { self.rows.q } else { self.rows.k };
                    copy::cp_async16(to(t, which * ROW + quad / 8 * PITCH + quad % 8 * 4), row(t, from + quad * 4));
                }
            }
            let (t, quad) = (self.lane / 4, self.lane % 4);
            if t < n {
                let from = row(t, self.rows.v + self.column + quad * 4);
                copy::cp_async16(to(t, v_start(HEADS) + self.warp * COLUMNS + quad * 4), from);
            }
            let (t, which) = (self.lane / 2, self.lane % 2);
            if t < n {
                let (source, stride) = if which == 0 { (p.gate, p.gate_stride) } else { (p.beta, p.beta_stride) };
                let from = source.add((first as usize + t) * stride as usize + self.head);
                copy::cp_async4(to(t, GATES + self.warp * 2 + which), from);
            }
        }
        copy::cp_async_commit();
    }

    /// Turns the log decays of the warp's head in the 8 slots from `slot0` on into decays, in place. All lanes call it.
    ///
    /// # Safety
    /// The slots' copies have landed for the whole warp. A slot that got no token holds anything and stays unused.
    #[inline(always)]
    pub unsafe fn make_decays(&self, slot0: u32) {
        if self.lane < STAGE {
            // SAFETY: inside the slot; only this lane touches the element until the warp meets below.
            unsafe {
                let gate = self.slot(slot0 as usize + self.lane).add(GATES + self.warp * 2);
                shared::store(gate, float::exp(shared::load(gate)));
            }
        }
        warp::sync_warp(warp::FULL_MASK);
    }

    /// Decay and corrections of the token in `slot`, from its kv partials. All lanes call it.
    ///
    /// # Safety
    /// `slot` holds a token whose decay is made.
    #[inline(always)]
    pub unsafe fn corrections(&self, slot: *const f32, kv: [f32; 2]) -> (f32, [f32; 2]) {
        // SAFETY: `warp < HEADS`, `2 place + 1 < 16`; multiples of 8 bytes.
        let ([g, beta], v) = unsafe {
            let v = slot.add(v_start(HEADS) + self.warp * COLUMNS + 2 * self.place.place);
            (shared::load2(slot.add(GATES + self.warp * 2)), shared::load2(v))
        };
        (g, self.place.corrections(kv, g, beta, v))
    }

    /// The lane's row group of the q row in `slot`.
    ///
    /// # Safety
    /// `slot` is a slot.
    #[inline(always)]
    pub unsafe fn q_row(&self, slot: *const f32) -> *const f32 {
        // SAFETY: `36 group + 31 < ROW`.
        unsafe { slot.add(self.place.group * PITCH) }
    }

    /// The lane's row group of the k row in `slot`.
    ///
    /// # Safety
    /// `slot` is a slot.
    #[inline(always)]
    pub unsafe fn k_row(&self, slot: *const f32) -> *const f32 {
        // SAFETY: as `q_row`; the k row follows the q row.
        unsafe { slot.add(ROW + self.place.group * PITCH) }
    }
}
