//! The work of a lane of `fused` on one block: four neighbouring calls of a format at once. The formats are in `fused_kquants` and
//! `fused_others`.
//!
//! Calls 4 g .. 4 g + 3 of the lanes of a chunk share a block's scales and read 16 neighbouring bytes of codes of the vectors, so
//! that one lane does them with a quarter of the loads. Each call adds to a sum of its own, in the steps of `call`; integers
//! become floats in the form `FOLDED` of `call`.

use cuda_std::{int, shared};

use super::fused_vectors::Group;

/// A lane's part of a group of four chunks.
#[derive(Clone, Copy)]
pub struct Lane {
    /// Chunk of the group, and slot.
    pub(super) v: u32,
    /// Four lanes of the module's order: 4 g and on.
    pub(super) g: u32,
}

impl Lane {
    /// Of lane `lane` of the warp.
    #[inline(always)]
    pub(super) fn new(lane: u32) -> Self {
        Self { v: lane % 4, g: lane / 4 }
    }
}

/// What a format does for a lane and a block.
pub trait Quad {
    /// Values of a block.
    const VALUES: usize;
    /// Bytes of a block.
    const BYTES: usize;
    /// Lanes of a block in the module's order.
    const LPB: u32;
    /// Blocks of a group of four chunks.
    const STEP_BLOCKS: u32 = 4 * 32 / Self::LPB;
    /// Groups of a piece of a row.
    const STEPS: u32;
    /// What steps are multiplied by, a power of two: the reciprocal of what codes are, so that products of both are exactly
    /// those of the format.
    const STEP_SCALE: f32 = 1.0;
    /// Whether it reads the steps times sums.
    const SUMS: bool;
    /// Integers of four calls.
    type Weights: Copy;

    /// The lane's block of a group.
    #[inline(always)]
    #[must_use]
    fn block(lane: Lane) -> u32 {
        lane.v * (32 / Self::LPB) + 4 * lane.g / Self::LPB
    }

    /// Where the 16 codes at byte `at` of a group lie: bits of `at` that tell the lanes of a quarter warp apart join those
    /// that choose the bank. `at` is a multiple of 16.
    fn permuted(at: u32) -> u32;

    /// The lane's calls of the block at byte `at` of `piece`, in shared memory.
    ///
    /// # Safety
    /// The block is there, and one word behind it; `piece` is 16-byte aligned, `at` as the format's blocks are.
    unsafe fn load(piece: *const u8, at: u32, lane: Lane) -> Self::Weights;

    /// Adds the calls of column `c`, of `R` rows, to their sums.
    ///
    /// # Safety
    /// `x` has the lane's block.
    unsafe fn add<const R: usize, const T: usize>(
        w: &[Self::Weights; R],
        x: Group<T>,
        c: usize,
        lane: Lane,
        a: &mut [[[f32; 4]; T]; R],
    );
}

/// Four words from byte `at` of `piece` on, a multiple of 2: five words of which two neighbours give one.
///
/// # Safety
/// The 20 bytes from the multiple of 4 below are in shared memory; `piece` is 4-byte aligned.
#[inline(always)]
pub(super) unsafe fn four_words(piece: *const u8, at: u32) -> [u32; 4] {
    let (from, shift) = (piece.wrapping_add((at & !3) as usize).cast::<u32>(), 8 * (at & 2));
    // SAFETY: same contract.
    let [a, b, c, d, e] = core::array::from_fn(|i| unsafe { shared::load(from.add(i)) });
    [(a, b), (b, c), (c, d), (d, e)].map(|(low, high)| int::funnel_shift_r(low, high, shift))
}
