//! `mmvq.quantize/warp`: f32 vectors to Q8_1, and to the interleaved copy if asked for; a warp a block of 32 values.
//!
//! Math      D = clamp(max |x| / 127), q = max |x| = 0 ? 0 : round(x / D) to nearest, ties away from zero, within 127;
//!           d = f16(D), s = f16(clamp(sum x)); clamp holds a number within the range of f16, a NaN stays
//! Shapes    `QuantizeParams`; x f32 `[columns][x_stride]`, Q8_1 `[columns][n_in / 32]`, the copy as `format::il` has it
//! Mapping   grid ceil(columns n_in / 32 / 8), with the copy for padded columns; warp w of block b: block 8 b + w of all,
//!           column by column; lane l: value l
//! Order     max and sum: butterflies xor 16, 8, 4, 2, 1; the division is by the unrounded f32 D
//! Barriers  none; only whole warps leave early
//! Budget    40 registers, 0 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Base

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, thread_idx_x};
use cuda_std::{float, global, grid, int, kernel, warp};

use super::QuantizeParams;
use crate::format::il::{BLOCK_SUMS, CODE_WORDS, Part};
use crate::format::q8_1;

/// Eight warps, which share nothing.
pub const BOUNDS: Bounds = Bounds { threads: 256, min_blocks: 4 };
/// Warps of a block.
pub const WARPS: usize = BOUNDS.threads as usize / 32;
/// Largest f16.
const MAX_HALF: f32 = 65_504.0;

/// # Safety
/// Shapes and alignment as `QuantizeParams` says, without a copy; grid `columns * n_in / 256` rounded up, block 256.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn mmvq_quantize_warp(p: QuantizeParams) {
    // SAFETY: same contract.
    unsafe { body::<false>(p) }
}

/// # Safety
/// Shapes and alignment as `QuantizeParams` says; grid `padded * n_in / 256` rounded up, block 256.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn mmvq_quantize_warp_il(p: QuantizeParams) {
    // SAFETY: same contract.
    unsafe { body::<true>(p) }
}

/// A number within the range of f16; a NaN stays.
#[inline(always)]
pub(super) fn clamp_half(v: f32) -> f32 {
    if float::abs(v) > MAX_HALF { MAX_HALF.copysign(v) } else { v }
}

/// `v` to the nearest integer, ties away from zero, within -127 ..= 127; 0 for NaN.
#[inline(always)]
pub(super) fn code(v: f32) -> i32 {
    unlimited_code(v).clamp(-127, 127)
}

/// [`code`] of a `v` that is within the limits. What is added is the f32 below 0.5: 0.5 itself would round 0.49999997 up.
#[inline(always)]
pub(super) fn unlimited_code(v: f32) -> i32 {
    const UNDER_HALF: u32 = 0x3EFF_FFFF;
    let up = f32::from_bits(UNDER_HALF | v.to_bits() & 0x8000_0000);
    float::to_i32(v + up)
}

#[inline(always)]
unsafe fn body<const IL: bool>(p: QuantizeParams) {
    grid::let_next_start();
    let (lane, nb) = (thread_idx_x() as usize % 32, p.n_in as usize / q8_1::VALUES);
    let all = block_idx_x() as usize * WARPS + thread_idx_x() as usize / 32;
    let (column, block) = (all / nb, all % nb);
    if column >= (if IL { p.padded } else { p.columns }) as usize {
        return;
    }
    let there = column < p.columns as usize;
    let at = column * p.x_stride as usize + block * q8_1::VALUES + lane;
    // SAFETY: column and block exist.
    let x = if there { unsafe { global::load_nc(p.x.add(at)) } } else { 0.0 };
    let (largest, sum) = (warp::max_xor(float::abs(x)), warp::sum_xor(x));
    let step = clamp_half(largest / 127.0);
    let q = if largest == 0.0 { 0 } else { code(x / step) };
    let half = float::f32_to_f16(step);
    // The codes of a word come together in each of its four lanes.
    let byte = (q.cast_unsigned() & 0xff) << (8 * (lane % 4));
    let pair = byte | warp::shfl_xor(byte, 1);
    let word = pair | warp::shfl_xor(pair, 2);
    let p_word = lane / 4;
    if there {
        // SAFETY: the block's nine words, each with one writer.
        unsafe {
            let out = p.q8.add(all * q8_1::WORDS);
            if lane.is_multiple_of(4) {
                global::store(out.add(q8_1::QS_OFF / 4 + p_word), word);
            }
            if lane == 1 {
                global::store(out, u32::from(half) | u32::from(float::f32_to_f16(clamp_half(sum))) << 16);
            }
        }
    }
    if IL {
        let of_word = int::dp4a(word.cast_signed(), 0x0101_0101, 0);
        let of_two = of_word + warp::shfl_xor(of_word, 16);
        let (cp, d) = (p.padded as usize, float::f16_to_f32(half));
        // SAFETY: block and column are within the copy; each element has one writer.
        unsafe {
            let put = |part: Part, at: usize, bits: u32| {
                global::store(p.il.add(part.start(nb, cp) + at * cp + column), bits);
            };
            match lane % 4 {
                0 => put(Part::BlockMajor, CODE_WORDS * block + p_word, word),
                1 => put(Part::WordMajor, p_word * nb + block, word),
                2 if p_word < BLOCK_SUMS => put(Part::Sums, BLOCK_SUMS * block + p_word, (d * of_two as f32).to_bits()),
                3 if p_word == 0 => put(Part::Steps, block, d.to_bits()),
                _ => {}
            }
        }
    }
}
