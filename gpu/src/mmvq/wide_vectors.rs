//! The vector of `wide` in shared memory: what `mmvq.quantize` writes, by units of 64 values.
//!
//! A unit has four pieces of 16 codes; eight units lie together, their first pieces, then their second ones and so on, so that lanes
//! with neighbouring units read other banks. Behind all codes lie four numbers of each unit, its steps (of affine formats two of them
//! and these times the sums of codes), then, for formats that need them, four integers, multiples of the pieces' sums. The codebook of
//! IQ4_XS comes last, since its words, were they constants, would be moved to registers at every use.

use cuda_std::thread::{block_dim_x, thread_idx_x};
use cuda_std::{global, int, shared, warp};

use super::ProductParams;
use super::fused_vectors::{LANES, quantized};
use super::wide::{UNIT, Wide};
use super::wide_others::BOOK;
use crate::format::q8_1;

/// Units that lie together.
const TOGETHER: u32 = 8;
/// Bytes of a piece, and of a unit's steps, and of its integers.
const PIECE: u32 = 16;
/// Bytes of a unit's codes.
const CODES: u32 = 4 * PIECE;

/// Units of a vector, with those that fill them up.
const fn padded(n_in: u32) -> u32 {
    (n_in / UNIT).next_multiple_of(TOGETHER)
}

/// Bytes of the vector's place.
#[inline(always)]
pub(super) const fn vector_bytes(n_in: u32) -> u32 {
    padded(n_in) * (CODES + 2 * PIECE) + PIECE
}

/// A unit of the vector.
#[derive(Clone, Copy)]
pub(super) struct Vector {
    codes: *mut u8,
    steps: *mut u8,
    offsets: *mut u8,
    book: *mut u8,
}

impl Vector {
    /// Unit `unit` of the vector at `place`.
    #[inline(always)]
    pub(super) fn of(place: *mut u8, n_in: u32, unit: u32) -> Self {
        let (codes, of_unit) = (padded(n_in) * CODES, unit * PIECE);
        let first_code = unit / TOGETHER * (TOGETHER * CODES) + unit % TOGETHER * PIECE;
        Self {
            codes: place.wrapping_add(first_code as usize),
            steps: place.wrapping_add((codes + of_unit) as usize),
            offsets: place.wrapping_add((codes + padded(n_in) * PIECE + of_unit) as usize),
            book: place.wrapping_add((codes + padded(n_in) * 2 * PIECE) as usize),
        }
    }

    /// Where piece `i` is.
    #[inline(always)]
    fn piece(self, i: u32) -> *mut u8 {
        self.codes.wrapping_add((i * (TOGETHER * PIECE)) as usize)
    }

    /// The codes of piece `i`.
    ///
    /// # Safety
    /// The unit is there.
    #[inline(always)]
    pub(super) unsafe fn codes(self, i: u32) -> [i32; 4] {
        // SAFETY: same contract.
        unsafe { shared::load4(self.piece(i).cast()) }
    }

    /// The steps of the pieces; of affine formats those of the two blocks of 32, then these times the sums of their codes.
    ///
    /// # Safety
    /// The unit is there.
    #[inline(always)]
    pub(super) unsafe fn steps(self) -> [f32; 4] {
        // SAFETY: same contract.
        unsafe { shared::load4(self.steps.cast()) }
    }

    /// [`Wide::offset`] times the sums of the pieces.
    ///
    /// # Safety
    /// The unit is there, of a format that has them.
    #[inline(always)]
    pub(super) unsafe fn offsets(self) -> [i32; 4] {
        // SAFETY: same contract.
        unsafe { shared::load4(self.offsets.cast()) }
    }

    /// The codebook of IQ4_XS.
    ///
    /// # Safety
    /// The vector is there, for that format.
    #[inline(always)]
    pub(super) unsafe fn book(self) -> [u32; 4] {
        // SAFETY: same contract.
        unsafe { shared::load4(self.book.cast()) }
    }
}

/// Quantizes the vector of the call to `place`; the block's barrier must follow.
///
/// # Safety
/// As the kernels; all threads call it.
#[inline(always)]
pub(super) unsafe fn quantize<F: Wide>(p: &ProductParams, place: *mut u8) {
    if F::INTERLEAVED && thread_idx_x() == 0 {
        // SAFETY: inside the vector's place.
        unsafe { shared::store4(Vector::of(place, p.n_in, 0).book.cast(), BOOK) };
    }
    // SAFETY: same contract.
    unsafe {
        if p.n_in / q8_1::VALUES as u32 <= block_dim_x() / LANES {
            rounds::<F, 1>(p, place);
        } else {
            rounds::<F, 2>(p, place);
        }
    }
}

/// [`quantize`] with `B` blocks of a group of lanes side by side.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn rounds<F: Wide, const B: usize>(p: &ProductParams, place: *mut u8) {
    let (blocks, part) = (p.n_in / q8_1::VALUES as u32, thread_idx_x() % LANES);
    let (mut block, stride) = (thread_idx_x() / LANES, block_dim_x() / LANES);
    // Whole warps stay while one of their blocks is there.
    while block - block % (32 / LANES) < blocks {
        let own: [u32; B] = core::array::from_fn(|i| block + i as u32 * stride);
        let x = own.map(|block| {
            let at = block.min(blocks - 1) * q8_1::VALUES as u32 + 4 * part;
            // SAFETY: the vector has the block; a multiple of 16 bytes.
            unsafe { global::load4(p.x.add(at as usize)) }
        });
        let made = quantized(x);
        for i in 0..B {
            // SAFETY: the lane's part of the block, if it is there.
            unsafe { put::<F>(p.n_in, place, own[i], own[i] < blocks, made[i]) };
        }
        block += B as u32 * stride;
    }
}

/// Puts the lane's word of a block there, if the block is there; one of its lanes, or where pieces are apart one of each half, puts the
/// step and the sums. All lanes of the warp call it together.
///
/// # Safety
/// `place` has the block, if it is there.
#[inline(always)]
unsafe fn put<F: Wide>(n_in: u32, place: *mut u8, block: u32, there: bool, (word, d): (u32, f32)) {
    let part = thread_idx_x() % LANES;
    let (half, mut sum) = (part / 4, int::dp4a(word.cast_signed(), 0x0101_0101, 0));
    sum += warp::shfl_xor(sum, 1);
    sum += warp::shfl_xor(sum, 2);
    if !F::SPLIT {
        sum += warp::shfl_xor(sum, 4);
    }
    let (word, at) = if F::INTERLEAVED {
        let other = warp::shfl_xor(word, 4);
        let word = if half == 0 { int::prmt(word, other, 0x5140) } else { int::prmt(other, word, 0x7362) };
        (word, 2 * (part % 4) + half)
    } else {
        (word, part)
    };
    // Steps and sums are of a piece, or of one of two blocks.
    let (unit, piece, i) = if F::SPLIT {
        (block / 4 * 2 + half, block % 4, block % 4)
    } else {
        (block / 2, block % 2 * 2 + at / 4, block % 2)
    };
    let (to, first) = (Vector::of(place, n_in, unit), part.is_multiple_of(if F::SPLIT { 4 } else { LANES }));
    // SAFETY: the unit's codes, steps and sums, each with one writer.
    unsafe {
        if there {
            shared::store(to.piece(piece).add((at % 4 * 4) as usize).cast(), word);
        }
        if there && first {
            let steps = to.steps.cast::<f32>().add(i as usize);
            shared::store(steps, d * F::step_scale(i));
            if F::SUMS {
                shared::store(steps.add(2), d * sum as f32);
            }
            if F::OFFSETS {
                shared::store(to.offsets.cast::<i32>().add(i as usize), F::offset(i) * sum);
            }
        }
    }
}
