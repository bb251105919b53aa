//! The stages of a scanning block: four warps fill them, four warps scan what is there. A stage has two named barriers, one
//! that it is full and one that it is empty.
//!
//! v and what prep left come by asynchronous copies; k and q pass through registers, where they are split, and are loaded a
//! turn ahead. L2 is asked for v, k and q two turns before that. With three stages or more a chunk is handed over one turn
//! after its copies were started, so that nobody waits for them; with two they land while the chunk before is scanned.

use cuda_std::barrier::{arrive_named, sync_named};
use cuda_std::copy::{cp_async_commit, cp_async_wait_all, cp_async_wait_group, cp_async16};
use cuda_std::{shared, warp};

use super::RecParams;
use super::chunk::{CHUNK, head_bytes, image_bytes, key_bytes, slot_of};
use super::chunk_rows::{RowSource, Rows, SPLITTERS, VALUE_BYTES, ValueQuads};
use super::chunk_walk::Task;

/// Warps that scan: 64 columns of a head.
pub const SCANNERS: usize = 4;
/// Threads of a block: the scanning warps, then those that fill stages.
pub const THREADS: u32 = 32 * (SCANNERS + SPLITTERS) as u32;
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
            rows: RowSource::new(p, head % p.key_heads as usize, warp),
            values: ValueQuads::new(p, task, head, half, warp),
            slots: slot_of::<PAIRS>(p, task.slot, head),
            slot_bytes: p.value_heads as usize * head_bytes(PAIRS),
            half,
            warp,
        };
        // Two turns a round, so that rows which are under way need not move to where the next turn expects them.
        let (mut chunk, mut even) = (0, filler.rows.load(0));
        loop {
            let odd = filler.ahead(chunk);
            // SAFETY: chunks in order.
            unsafe { self.turn(&filler, chunk, &even, &make_visible) };
            if chunk + 1 == filler.chunks {
                break;
            }
            even = filler.ahead(chunk + 1);
            // SAFETY: as above.
            unsafe { self.turn(&filler, chunk + 1, &odd, &make_visible) };
            chunk += 2;
            if chunk == filler.chunks {
                break;
            }
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

    /// A filling warp's turn for `chunk`, whose rows of k or q are `rows`.
    ///
    /// # Safety
    /// Called once for each chunk, in order, by the filling warps.
    #[inline(always)]
    #[track_caller]
    unsafe fn turn(self, filler: &Filler<PAIRS>, chunk: usize, rows: &Rows, make_visible: &impl Fn()) {
        let stage = self.stage(chunk);
        // SAFETY: the stage has no reader left behind the barrier of the chunk before it there.
        unsafe {
            if chunk >= STAGES {
                self.take_back(filler, chunk - STAGES);
            }
            filler.start_copies(stage, chunk);
            filler.rows.store::<PAIRS>(stage.keys, rows);
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
    rows: RowSource,
    values: ValueQuads,
    /// The value head's part of the sequence's first slot.
    slots: *const u8,
    slot_bytes: usize,
    /// Which of the value head's columns; the blocks of both halves share the asking for rows of k and q.
    half: usize,
    warp: usize,
}

/// Units of 16 bytes that a lane brings of what a value head needs.
const UNITS: usize = head_bytes(true).div_ceil(16 * 32 * SPLITTERS);

impl<const PAIRS: bool> Filler<PAIRS> {
    /// Rows of the chunk behind `chunk`, under way while the turn for `chunk` waits, copies and splits. Asks L2 for what turns
    /// to come will load: 1.5 % off a scan of 8,192 tokens.
    #[inline(always)]
    fn ahead(&self, chunk: usize) -> Rows {
        let rows = self.rows.load((chunk + 1) * CHUNK);
        self.rows.fetch((chunk + 3) * CHUNK, self.half);
        self.values.fetch((chunk + 2) * CHUNK);
        rows
    }

    /// Starts the lane's copies of `chunk` and closes their group.
    ///
    /// # Safety
    /// The stage has no reader, and is not read before they have landed.
    #[inline(always)]
    #[track_caller]
    unsafe fn start_copies(&self, stage: Stage, chunk: usize) {
        let from = self.slots.wrapping_add(chunk * self.slot_bytes);
        for i in 0..UNITS {
            let at = ((i * SPLITTERS + self.warp) * 32 + warp::lane_id() as usize) * 16;
            if at < head_bytes(PAIRS) {
                // SAFETY: inside the slot and the stage; multiples of 16 bytes. Written by the launch before.
                unsafe { cp_async16(stage.head.add(at), from.wrapping_add(at)) };
            }
        }
        // SAFETY: as above.
        unsafe { self.values.start_copies(stage.values, chunk * CHUNK) };
        cp_async_commit();
    }
}
