//! The stages of a scanning block: four warps fill them, four warps scan what is there. A stage has two named barriers, one
//! that it is full and one that it is empty.
//!
//! All comes by asynchronous copies: what prep left, and v, for which L2 is asked two turns before. With three stages or more a
//! chunk is handed over one turn after its copies were started, so that nobody waits for them; with two they land while the chunk
//! before is scanned.

use cuda_std::barrier::{arrive_named, sync_named};
use cuda_std::copy::{cp_async_commit, cp_async_wait_all, cp_async_wait_group, cp_async16};
use cuda_std::{shared, warp};

use super::RecParams;
use super::chunk::{CHUNK, head_bytes, head_of, image_bytes, key_bytes, keys_of, slot_bytes};
use super::chunk_values::{FILLERS, VALUE_BYTES, ValueQuads};
use super::chunk_walk::Task;

/// Warps that scan: 64 columns of a head.
pub const SCANNERS: usize = 4;
/// Threads of a block: the scanning warps, then those that fill stages.
pub const THREADS: u32 = 32 * (SCANNERS + FILLERS) as u32;
/// Bytes of a stage, of which each starts at a multiple of `align`: images, scalars and v.
const fn stage_bytes(pairs: bool, align: usize) -> usize {
    (key_bytes(pairs) + head_bytes(pairs) + VALUE_BYTES).next_multiple_of(align)
}

/// Dynamic shared memory of a ring of `stages`, with room to start at a multiple of `align`.
pub const fn shared_bytes(pairs: bool, align: usize, stages: usize) -> u32 {
    (stages * stage_bytes(pairs, align) + align) as u32
}

/// A stage's parts in shared memory.
#[derive(Clone, Copy)]
pub struct Stage {
    index: usize,
    /// k, q images.
    pub keys: *mut u8,
    /// T, P images.
    pub head: *mut u8,
    /// Scalars of the tokens.
    pub scalars: *mut f32,
    /// v of the block's columns, then y: f32 `[32][VALUE_PITCH]`.
    pub values: *mut f32,
}

/// The ring; chunk c is in stage c mod `STAGES`. Stages start at multiples of `ALIGN`: 1,024 is what the swizzle of `wgmma`
/// counts from.
#[derive(Clone, Copy)]
pub struct Ring<const PAIRS: bool, const ALIGN: usize, const STAGES: usize> {
    start: *mut u8,
}

impl<const PAIRS: bool, const ALIGN: usize, const STAGES: usize> Ring<PAIRS, ALIGN, STAGES> {
    /// The ring in the block's dynamic shared memory.
    #[inline(always)]
    pub fn here() -> Self {
        let start = shared::dynamic_shared::<u8>();
        Self { start: start.wrapping_add(start.addr().wrapping_neg() % ALIGN) }
    }

    /// The stage of chunk `chunk`.
    #[inline(always)]
    pub fn stage(self, chunk: usize) -> Stage {
        let index = (chunk as u32 % STAGES as u32) as usize; // a call has fewer than 2^32 tokens
        let keys = self.start.wrapping_add(index * stage_bytes(PAIRS, ALIGN));
        let head = keys.wrapping_add(key_bytes(PAIRS));
        let scalars = head.wrapping_add(image_bytes(PAIRS));
        Stage { index, keys, head, scalars: scalars.cast(), values: head.wrapping_add(head_bytes(PAIRS)).cast() }
    }

    /// A scanning warp: waits for the chunk in `stage`.
    #[inline(always)]
    #[track_caller]
    pub fn wait_full(self, stage: Stage) {
        // SAFETY: ids 1 to STAGES; all warps of the block take part.
        unsafe { sync_named(1 + stage.index as u32, THREADS) };
    }

    /// A scanning warp: it has read all it needs of `stage`, and its outputs are there.
    #[inline(always)]
    #[track_caller]
    pub fn give_back(self, stage: Stage) {
        // SAFETY: ids behind those above; the filling warps wait.
        unsafe { arrive_named((1 + STAGES + stage.index) as u32, THREADS) };
    }

    /// Filling warp `warp`: brings the chunks of value head `head`, half `half` of its columns, of the tokens of `p`, and takes
    /// their outputs to memory, both as far as `task` wants. `make_visible` is what the scanning warps' products need between a
    /// write and a barrier.
    ///
    /// # Safety
    /// Scratch holds the chunks; the scanning warps take and give back every one.
    #[inline(always)]
    pub unsafe fn fill(
        self,
        p: &RecParams,
        task: &Task,
        head: usize,
        half: usize,
        warp: usize,
        make_visible: impl Fn(),
    ) {
        let filler = Filler::<PAIRS> {
            chunks: (p.tokens as usize).div_ceil(CHUNK),
            values: ValueQuads::new(p, task, head, half, warp),
            heads: head_of::<PAIRS>(p, task.slot, head),
            keys: keys_of::<PAIRS>(p, task.slot, head % p.key_heads as usize),
            slot_bytes: slot_bytes(PAIRS, p.key_heads as usize, p.value_heads as usize),
            warp,
        };
        for chunk in 0..filler.chunks {
            // SAFETY: chunks in order.
            unsafe { self.turn(&filler, chunk, &make_visible) };
        }
        if STAGES > 2 {
            cp_async_wait_all();
            self.hand_over(self.stage(filler.chunks - 1), &make_visible);
        }
        for chunk in filler.chunks.saturating_sub(STAGES)..filler.chunks {
            // SAFETY: the last chunks.
            unsafe { self.take_back(&filler, chunk) };
        }
    }

    /// A filling warp's turn for `chunk`.
    ///
    /// # Safety
    /// Called once for each chunk, in order, by the filling warps.
    #[inline(always)]
    #[track_caller]
    unsafe fn turn(self, filler: &Filler<PAIRS>, chunk: usize, make_visible: &impl Fn()) {
        let stage = self.stage(chunk);
        // SAFETY: the stage has no reader left behind the barrier of the chunk before it there.
        unsafe {
            if chunk >= STAGES {
                self.take_back(filler, chunk - STAGES);
            }
            filler.start_copies(stage, chunk);
        }
        if STAGES == 2 {
            cp_async_wait_all();
            self.hand_over(stage, make_visible);
        } else if chunk > 0 {
            cp_async_wait_group::<1>();
            self.hand_over(self.stage(chunk - 1), make_visible);
        }
    }

    /// Says that `stage` is full.
    #[inline(always)]
    #[track_caller]
    fn hand_over(self, stage: Stage, make_visible: &impl Fn()) {
        make_visible();
        // SAFETY: ids 1 to STAGES; all warps of the block take part.
        unsafe { arrive_named(1 + stage.index as u32, THREADS) };
    }

    /// Waits until the scanning warps are done with `chunk`, and brings its outputs to memory.
    ///
    /// # Safety
    /// Called once for each chunk by the filling warps.
    #[inline(always)]
    #[track_caller]
    unsafe fn take_back(self, filler: &Filler<PAIRS>, chunk: usize) {
        let stage = self.stage(chunk);
        // SAFETY: as in `give_back`; the outputs are complete behind the barrier.
        unsafe {
            sync_named((1 + STAGES + stage.index) as u32, THREADS);
            filler.values.flush(stage.values, chunk * CHUNK);
        }
    }
}

/// What a filling warp knows.
struct Filler<const PAIRS: bool> {
    chunks: usize,
    values: ValueQuads,
    /// The value head's part of the sequence's first slot.
    heads: *const u8,
    /// The key head's.
    keys: *const u8,
    slot_bytes: usize,
    warp: usize,
}

impl<const PAIRS: bool> Filler<PAIRS> {
    /// Starts the lane's copies of `chunk`, closes their group and asks L2 for v of a chunk to come.
    ///
    /// # Safety
    /// The stage has no reader, and is not read before they have landed.
    #[inline(always)]
    #[track_caller]
    unsafe fn start_copies(&self, stage: Stage, chunk: usize) {
        let at = chunk * self.slot_bytes;
        // SAFETY: parts of the slot and the stage, written by the launch before; the caller's.
        unsafe {
            self.copy(stage.keys, self.keys.wrapping_add(at), key_bytes(PAIRS));
            self.copy(stage.head, self.heads.wrapping_add(at), head_bytes(PAIRS));
            self.values.start_copies(stage.values, chunk * CHUNK);
        }
        cp_async_commit();
        self.values.fetch((chunk + 2) * CHUNK);
    }

    /// Starts the lane's copies of `bytes` bytes, in units of 16.
    ///
    /// # Safety
    /// As [`start_copies`](Self::start_copies).
    #[inline(always)]
    #[track_caller]
    unsafe fn copy(&self, to: *mut u8, from: *const u8, bytes: usize) {
        for i in 0..bytes.div_ceil(16 * 32 * FILLERS) {
            let at = ((i * FILLERS + self.warp) * 32 + warp::lane_id() as usize) * 16;
            if at < bytes {
                // SAFETY: the caller's; multiples of 16 bytes.
                unsafe { cp_async16(to.add(at), from.wrapping_add(at)) };
            }
        }
    }
}
