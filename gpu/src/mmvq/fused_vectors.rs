//! Quantized vectors in shared memory: what `mmvq.quantize` writes, in an order of their own, for one block.
//!
//! What a group of four chunks needs of T columns lies together, so that a lane finds all columns at one address and fixed
//! distances. With G blocks of 32 values a group: codes i8 `[T][32 G]`, steps f32 `[T][G]`, and for formats with minima their
//! steps times sums f32 `[T][4 G]` as `format::il` has them. Words of codes are permuted so that the lanes of a quarter warp,
//! which read 16 bytes each, find them in different banks.

use cuda_std::barrier::sync_threads;
use cuda_std::thread::thread_idx_x;
use cuda_std::{bulk, float, global, grid, int, shared, warp};

use super::ProductParams;
use super::codes::{codes, word};
#[cfg(not(target_arch = "nvptx64"))]
use super::fused::QUANTIZES;
use super::fused::{HEAD, bounds};
use super::fused_quads::Quad;
use crate::format::il::BLOCK_SUMS;
use crate::format::q8_1;

/// Blocks of 32 values of a group.
const fn group_blocks<F: Quad>() -> u32 {
    F::STEP_BLOCKS * (F::VALUES / q8_1::VALUES) as u32
}

/// Bytes of a group's part of the vectors: codes, steps, sums.
const fn group_bytes<F: Quad>(columns: u32) -> u32 {
    columns * group_blocks::<F>() * (q8_1::VALUES as u32 + 4 + if F::SUMS { 4 * BLOCK_SUMS as u32 } else { 0 })
}

/// Bytes of the groups of `columns` vectors of `n_in` values.
const fn groups_bytes<F: Quad>(columns: u32, n_in: u32) -> u32 {
    (n_in / q8_1::VALUES as u32).div_ceil(group_blocks::<F>()) * group_bytes::<F>(columns)
}

/// Bytes of the vectors' place: the groups, and of more columns than are quantized here a landing counter and the Q8_1 that
/// they are made from. Vectors beyond all shared memory have the 2^30 that none has.
#[cfg(not(target_arch = "nvptx64"))]
pub(super) const fn vector_bytes<F: Quad>(columns: u32, n_in: u32) -> u32 {
    let (blocks, columns) = ((n_in / q8_1::VALUES as u32) as u64, columns as u64);
    let groups = blocks.div_ceil(group_blocks::<F>() as u64) * group_bytes::<F>(columns as u32) as u64;
    let q8 = if columns > QUANTIZES as u64 { HEAD as u64 + columns * blocks * q8_1::BYTES as u64 } else { 0 };
    let bytes = groups + q8.next_multiple_of(16);
    if bytes < 1 << 30 { bytes as u32 } else { 1 << 30 }
}

/// A group of `T` vectors.
#[derive(Clone, Copy)]
pub struct Group<const T: usize> {
    start: *mut u8,
}

impl<const T: usize> Group<T> {
    /// Group `group` of the vectors at `place`.
    #[inline(always)]
    pub(super) fn of<F: Quad>(place: *mut u8, group: u32) -> Self {
        Self { start: place.wrapping_add((group * group_bytes::<F>(T as u32)) as usize) }
    }

    /// The 16 codes of column `c` from byte `at` of the group on.
    ///
    /// # Safety
    /// They are there; `at` is a multiple of 16.
    #[inline(always)]
    pub unsafe fn codes<F: Quad>(self, c: usize, at: u32) -> [i32; 4] {
        // SAFETY: same contract; 16 codes stay in their group.
        unsafe { shared::load4(self.start.add(code_off::<F>(c, at)).cast()) }
    }

    /// The step of block `block` of the group.
    ///
    /// # Safety
    /// It is there.
    #[inline(always)]
    pub unsafe fn step<F: Quad>(self, c: usize, block: u32) -> f32 {
        // SAFETY: same contract.
        unsafe { shared::load(self.start.add(step_off::<F>(T, c, block)).cast()) }
    }

    /// The steps times sums of block `block` of the group, for words 0 and 4, 1 and 5, 2 and 6, 3 and 7.
    ///
    /// # Safety
    /// They are there: the format has minima.
    #[inline(always)]
    pub unsafe fn sums<F: Quad>(self, c: usize, block: u32) -> [f32; 4] {
        // SAFETY: same contract; a multiple of 16 bytes.
        unsafe { shared::load4(self.start.add(sum_off::<F>(T, c, block)).cast()) }
    }
}

/// Byte `at` of column `c`'s codes of a group, a multiple of 16.
#[inline(always)]
fn code_off<F: Quad>(c: usize, at: u32) -> usize {
    c * q8_1::VALUES * group_blocks::<F>() as usize + F::permuted(at) as usize
}

/// Column `c`'s step of a block of a group of `t` columns.
#[inline(always)]
fn step_off<F: Quad>(t: usize, c: usize, block: u32) -> usize {
    let blocks = group_blocks::<F>() as usize;
    t * q8_1::VALUES * blocks + 4 * (c * blocks + block as usize)
}

/// Column `c`'s first sum of a block of a group of `t` columns.
#[inline(always)]
fn sum_off<F: Quad>(t: usize, c: usize, block: u32) -> usize {
    let blocks = group_blocks::<F>() as usize;
    t * (q8_1::VALUES + 4) * blocks + 4 * BLOCK_SUMS * (c * blocks + block as usize)
}

/// Lanes that quantize a block of 32 values, four values each.
pub(super) const LANES: u32 = 8;

/// The lane's words of codes of `B` blocks and the blocks' steps, made an f16 and back: [`LANES`] lanes have four values of
/// each, and call it together.
#[inline(always)]
pub(super) fn quantized<const B: usize>(x: [[f32; 4]; B]) -> [(u32, f32); B] {
    let largest = [1, 2, 4].into_iter().fold(x.map(largest_of), |largest, off| {
        largest.map(|largest| float::max(largest, warp::shfl_xor(largest, off)))
    });
    codes(x, largest).map(|(codes, step)| (word(codes), float::f16_to_f32(float::f32_to_f16(step))))
}

/// The largest magnitude of four values.
#[inline(always)]
fn largest_of(x: [f32; 4]) -> f32 {
    let [x0, x1, x2, x3] = x.map(float::abs);
    float::max(float::max(x0, x1), float::max(x2, x3))
}

/// Quantizes the vectors of the call to `place`; the block's barrier must follow.
///
/// # Safety
/// As the kernels; all threads call it.
#[inline(always)]
pub(super) unsafe fn quantize<F: Quad, const T: usize>(p: &ProductParams, place: *mut u8) {
    let (blocks, part) = (p.n_in / q8_1::VALUES as u32, thread_idx_x() % LANES);
    let (mut n, all) = (thread_idx_x() / LANES, p.columns * blocks);
    // Whole warps stay while one of their blocks is there.
    while n - n % (32 / LANES) < all {
        let here = n.min(all - 1);
        let (c, block) = (here / blocks, here % blocks);
        let at = c as usize * p.x_stride as usize + (block * q8_1::VALUES as u32 + 4 * part) as usize;
        // SAFETY: the vector has the block; a multiple of 16 bytes.
        let x = unsafe { global::load4(p.x.add(at)) };
        let [(word, d)] = quantized([x]);
        // SAFETY: the lane's part of the block, if it is there.
        unsafe { put::<F, T>(place, c as usize, block, n < all, word, d) };
        n += bounds(T).threads / LANES;
    }
}

/// Brings the Q8_1 vectors of the call to `place`; the block's barrier must follow.
///
/// # Safety
/// As the kernels; all threads call it.
#[inline(always)]
pub(super) unsafe fn take<F: Quad, const T: usize>(p: &ProductParams, place: *mut u8) {
    let blocks = p.n_in / q8_1::VALUES as u32;
    let landing = place.wrapping_add(groups_bytes::<F>(T as u32, p.n_in) as usize).cast::<bulk::Landing>();
    let (q8, bytes) = (landing.cast::<u8>().wrapping_add(HEAD as usize), p.columns * blocks * q8_1::BYTES as u32);
    // Sixteen bytes at a time; what is behind the last of them is less than a block.
    let whole = bytes & !15;
    // SAFETY: the vectors are there once the launch ahead has ended; one thread makes the counter and starts the copy.
    unsafe {
        if thread_idx_x() == 0 {
            bulk::init(landing);
            grid::wait_for_previous();
            bulk::copy(q8, p.q8.cast(), whole, landing);
            let mut at = whole as usize;
            while at < bytes as usize {
                shared::store(q8.add(at).cast::<u32>(), global::load(p.q8.cast::<u8>().add(at).cast()));
                at += 4;
            }
        }
        sync_threads();
        bulk::wait(landing, 0);
    }
    let mut n = thread_idx_x() / LANES;
    // Whole warps stay while one of their blocks is there.
    while n - n % (32 / LANES) < p.columns * blocks {
        let there = n < p.columns * blocks;
        let from = q8.wrapping_add(if there { (n * q8_1::BYTES as u32) as usize } else { 0 });
        // SAFETY: the block has landed; its lane's part.
        unsafe {
            let word = shared::load(from.add(q8_1::QS_OFF + 4 * (thread_idx_x() % LANES) as usize).cast());
            let d = float::f16_to_f32(shared::load(from.add(q8_1::D_OFF).cast()));
            put::<F, T>(place, (n / blocks) as usize, n % blocks, there, word, d);
        }
        n += bounds(T).threads / LANES;
    }
}

/// Puts the lane's word of a block of column `c`, if it is there; its first lane puts the step, the first half of its lanes the
/// sums. All lanes of the warp call it together.
///
/// # Safety
/// `place` has the block.
#[inline(always)]
unsafe fn put<F: Quad, const T: usize>(place: *mut u8, c: usize, block: u32, there: bool, word: u32, d: f32) {
    let part = thread_idx_x() % LANES;
    let (to, own) = (Group::<T>::of::<F>(place, block / group_blocks::<F>()).start, block % group_blocks::<F>());
    // SAFETY: the block's codes, step and sums, each with one writer.
    unsafe {
        if there {
            let at = own * q8_1::VALUES as u32 + 4 * part;
            shared::store(to.add(code_off::<F>(c, at & !15) + at as usize % 16).cast(), word);
            if part == 0 {
                shared::store(to.add(step_off::<F>(T, c, own)).cast(), d * F::STEP_SCALE);
            }
        }
        if F::SUMS {
            let of_word = int::dp4a(word.cast_signed(), 0x0101_0101, 0);
            let of_two = of_word + warp::shfl_xor(of_word, BLOCK_SUMS as u32);
            if there && part < BLOCK_SUMS as u32 {
                let at = sum_off::<F>(T, c, own) + 4 * part as usize;
                shared::store(to.add(at).cast(), d * of_two as f32);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fused_kquants::{Q3Quad, Q4Quad, Q5Quad, Q6Quad};
    use super::super::fused_others::{Q8Quad, Xs4Quad};
    use super::*;

    #[test]
    fn codes_of_a_group_change_places_among_themselves() {
        fn check<F: Quad>() {
            let all = || (0..group_blocks::<F>() * q8_1::VALUES as u32).step_by(16);
            let mut seen: Vec<u32> = all().map(F::permuted).collect();
            seen.sort_unstable();
            assert_eq!(seen, all().collect::<Vec<_>>());
        }
        check::<Q3Quad>();
        check::<Q4Quad>();
        check::<Q5Quad>();
        check::<Q6Quad>();
        check::<Q8Quad>();
        check::<Xs4Quad>();
    }
}
