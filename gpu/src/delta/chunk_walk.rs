//! How a block of a tensor-core scan walks its sequence: four warps fill stages, four scan them, whatever multiplies.

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, thread_idx_x};
use cuda_std::warp;

use super::RecParams;
use super::chunk::CHUNK;
use super::chunk_ring::{Ring, SCANNERS, Stage, THREADS};
use super::chunk_scan::{COLUMNS, Lane, SETTLED, Scaled};
use crate::geometry::HEAD_DIM;

/// Four scanning warps and four that fill stages; a block has its SM for itself.
pub const BOUNDS: Bounds = Bounds { threads: THREADS, min_blocks: 1 };
/// Column blocks of a head: the grid's x is `value_heads * SPLIT`.
pub const SPLIT: usize = HEAD_DIM / (SCANNERS * COLUMNS);

/// What multiplies: one of the two files that have a scan's kernels.
pub trait Products<const PAIRS: bool> {
    /// Makes one chunk's outputs, in place of v in its stage, and the state after it, for scanning warp `warp`.
    ///
    /// # Safety
    /// The stage holds the chunk; the four scanning warps call it together.
    unsafe fn advance(stage: Stage, state: &mut Scaled, warp: usize);

    /// What [`advance`](Self::advance) needs of who writes a stage, between the write and a barrier: without the fence that
    /// `wgmma` wants it may read what was there before.
    fn make_visible();
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
    // The shuffle tells the compiler that a warp is of one mind.
    let warp = warp::shfl_idx(thread_idx_x() / 32, 0) as usize;
    let (head, half) = (block_idx_x() as usize / SPLIT, block_idx_x() as usize % SPLIT);
    let ring = Ring::<PAIRS, ALIGN, STAGES>::here();
    if warp >= SCANNERS {
        // SAFETY: prep of this pass has filled the slots of its chunks.
        unsafe { ring.fill(&whole, &p, head, half, warp - SCANNERS, P::make_visible) };
        return;
    }
    let lane = Lane::new(&p, head, (half * SCANNERS + warp) * COLUMNS);
    let mut state = Scaled::load(&lane);
    let chunks = (p.tokens as usize).div_ceil(CHUNK);
    for chunk in 0..chunks {
        let stage = ring.stage(chunk);
        ring.wait_full(stage);
        // SAFETY: the stage holds the chunk until this warp gives it back.
        unsafe { P::advance(stage, &mut state, warp) };
        ring.give_back(stage);
        if chunk % SETTLED == SETTLED - 1 {
            state.settle();
        }
    }
    if p.keep_state == 0 {
        state.store(&lane);
    }
}
