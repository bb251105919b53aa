//! How a block of a tensor-core scan walks its sequence: four warps fill stages, four scan them, whatever multiplies.

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, block_idx_y, thread_idx_x};
use cuda_std::warp;

use super::RecParams;
use super::chunk::CHUNK;
use super::chunk_ring::{Ring, SCANNERS, Stage, THREADS};
use super::chunk_scan::{COLUMNS, Lane, SETTLED, STATE_TILES, Scaled, identity};
use crate::geometry::HEAD_DIM;

/// Four scanning warps and four that fill stages; a block has its SM for itself.
pub const BOUNDS: Bounds = Bounds { threads: THREADS, min_blocks: 1 };
/// Column blocks of a head: the grid's x is `value_heads * SPLIT`.
pub const SPLIT: usize = HEAD_DIM / (SCANNERS * COLUMNS);

/// What multiplies: one of the files that have a scan's kernels.
pub trait Products<const PAIRS: bool> {
    /// Takes `chunks` chunks from `ring`, one at least, for scanning warp `warp`: their outputs in place of v in their stages,
    /// and the state from before the first to after the last.
    ///
    /// # Safety
    /// The filling warps bring as many; the four scanning warps call it together.
    unsafe fn scan<const ALIGN: usize, const STAGES: usize>(
        ring: Ring<PAIRS, ALIGN, STAGES>,
        chunks: usize,
        state: &mut Scaled,
        warp: usize,
    );

    /// What [`scan`](Self::scan) needs of who writes a stage, between the write and a barrier: without the fence that
    /// `wgmma` wants it may read what was there before.
    fn make_visible();
}

/// A form that is done with a chunk before it takes the next.
pub trait Advance<const PAIRS: bool> {
    /// Makes one chunk's outputs, in place of v in its stage, and the state after it, for scanning warp `warp`.
    ///
    /// # Safety
    /// The stage holds the chunk; the four scanning warps call it together.
    unsafe fn advance(stage: Stage, state: &mut Scaled, warp: usize);

    /// See [`Products::make_visible`].
    fn make_visible();
}

impl<A: Advance<PAIRS>, const PAIRS: bool> Products<PAIRS> for A {
    #[inline(always)]
    unsafe fn scan<const ALIGN: usize, const STAGES: usize>(
        ring: Ring<PAIRS, ALIGN, STAGES>,
        chunks: usize,
        state: &mut Scaled,
        warp: usize,
    ) {
        for chunk in 0..chunks {
            let stage = ring.stage(chunk);
            ring.wait_full(stage);
            // SAFETY: the stage holds the chunk until this warp gives it back.
            unsafe { A::advance(stage, state, warp) };
            ring.give_back(stage);
            if chunk % SETTLED == SETTLED - 1 {
                state.settle();
            }
        }
    }

    #[inline(always)]
    fn make_visible() {
        A::make_visible();
    }
}

/// What a walk begins with and leaves.
#[derive(Clone, Copy)]
pub struct Task {
    /// The slot of the first chunk.
    pub slot: usize,
    /// The state before the first chunk.
    pub start: Start,
    /// Whether v counts; else it is 0.
    pub values: bool,
    /// Whether outputs are written.
    pub outputs: bool,
    /// Where the state after the last chunk goes, f32 `[128][value_heads][128]`.
    pub end: *mut f32,
    /// Whether it goes there.
    pub ends: bool,
}

/// The state that a walk begins with.
#[derive(Clone, Copy)]
pub enum Start {
    /// The one at `RecParams::state`.
    Memory,
    /// Zeros.
    Zero,
    /// The identity.
    Identity,
}

/// The block's part of the call `whole`.
///
/// # Safety
/// `whole` as `RecParams` says, scratch as the prep of the same pass left it; grid `[value_heads * SPLIT, sequences]`, block
/// `THREADS`, dynamic shared memory `chunk_ring::shared_bytes(PAIRS, ALIGN, STAGES)`.
#[inline(always)]
pub unsafe fn walk<P: Products<PAIRS>, const PAIRS: bool, const ALIGN: usize, const STAGES: usize>(whole: RecParams) {
    // SAFETY: the grid's y is a sequence. The same for every thread of the block, before its first barrier.
    let p = unsafe { whole.of_block() };
    if p.tokens == 0 {
        return;
    }
    let slot = block_idx_y() as usize * (whole.span as usize / CHUNK);
    let task = Task { slot, start: Start::Memory, values: true, outputs: true, end: p.state, ends: p.keep_state == 0 };
    // SAFETY: as above.
    unsafe { task.walk::<P, PAIRS, ALIGN, STAGES>(&p) }
}

impl Task {
    /// Walks the tokens of `p`, of which there is one at least.
    ///
    /// # Safety
    /// As [`walk`]; `p` is the same for every thread of the block, and no other block writes its outputs or ends there.
    #[inline(always)]
    pub unsafe fn walk<P: Products<PAIRS>, const PAIRS: bool, const ALIGN: usize, const STAGES: usize>(
        self,
        p: &RecParams,
    ) {
        // The shuffle tells the compiler that a warp is of one mind.
        let warp = warp::shfl_idx(thread_idx_x() / 32, 0) as usize;
        let (head, half) = (block_idx_x() as usize / SPLIT, block_idx_x() as usize % SPLIT);
        let ring = Ring::<PAIRS, ALIGN, STAGES>::here();
        if warp >= SCANNERS {
            // SAFETY: prep of this pass has filled the slots of its chunks.
            unsafe { ring.fill(p, &self, head, half, warp - SCANNERS, P::make_visible) };
            return;
        }
        let column = (half * SCANNERS + warp) * COLUMNS;
        let lane = Lane::new(p, p.state, head, column);
        let mut state = Scaled::of(match self.start {
            Start::Memory => lane.load_state(),
            Start::Zero => [0.0; 4 * STATE_TILES],
            Start::Identity => identity(column),
        });
        // SAFETY: the filling warps bring these chunks.
        unsafe { P::scan(ring, (p.tokens as usize).div_ceil(CHUNK), &mut state, warp) };
        if self.ends {
            state.store(&Lane::new(p, self.end, head, column));
        }
    }
}
