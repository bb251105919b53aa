//! The lanes' work of `wide` on Q3_K, Q4_K, Q5_K, Q6_K.
//!
//! Fields of bits are multiplied where they stand in their bytes: a field at bit b counts 2^b times. A dot is brought to the scale of
//! its largest field, which the step takes back. What the format subtracts from its codes comes of the sums of activations (`Wide::offset`).

use cuda_std::{float, int, shared};

use super::fused_quads::four_words;
use super::kquants::scales_and_mins;
use super::wide::Wide;
use super::wide_vectors::Vector;
use crate::format::{q3_k, q4_k, q5_k, q6_k};

/// Adds the dot of the bits of `words` that `mask` names in each byte.
#[inline(always)]
fn dot(words: &[u32], mask: u32, x: &[i32], sum: i32) -> i32 {
    words.iter().zip(x).fold(sum, |sum, (word, &x)| int::dp4a_us(word & (mask * 0x0101_0101), x, sum))
}

/// Q6_K: unit 2 h + t of a block has bytes 16 t .. of both halves of the low bits of half h, and of its high ones; scales 8 h + t + 2 i.
pub struct Q6Wide;

impl Wide for Q6Wide {
    const VALUES: u32 = q6_k::VALUES as u32;
    const BYTES: u32 = q6_k::BYTES as u32;
    const SPLIT: bool = true;
    const OFFSETS: bool = true;

    #[inline(always)]
    fn step_scale(i: u32) -> f32 {
        if i < 2 { 1.0 } else { 1.0 / 16.0 }
    }

    /// 32 less a code; pieces 2 and 3 count 16 times.
    #[inline(always)]
    fn offset(i: u32) -> i32 {
        if i < 2 { -32 } else { -16 * 32 }
    }

    #[inline(always)]
    unsafe fn add(rows: *const u8, at: u32, unit: u32, x: Vector, sum: f32) -> f32 {
        let (h, t) = (unit / 2, unit % 2);
        // SAFETY: the block has them.
        unsafe {
            let low = at + q6_k::QL_OFF as u32 + 64 * h + 16 * t;
            let (low, high) = (
                [four_words(rows, low), four_words(rows, low + 32)],
                four_words(rows, at + q6_k::QH_OFF as u32 + 32 * h + 16 * t),
            );
            let (steps, offsets, scales) = (x.steps(), x.offsets(), at + q6_k::SCALES_OFF as u32 + 8 * h + t);
            let piece = |i: usize, low_mask: u32, high_mask: u32, high_counts: i32| {
                let u = x.codes(i as u32);
                let (low, high) =
                    (dot(&low[i % 2], low_mask, &u, offsets[i]), dot(&high, high_mask, &u, 0) * high_counts);
                let scale = i32::from(shared::load::<i8>(rows.add(scales as usize + 2 * i).cast()));
                ((low + high) * scale) as f32
            };
            let mut of_block = steps[0] * piece(0, 0x0f, 0x03, 16);
            of_block = float::fma(steps[1], piece(1, 0x0f, 0x0c, 4), of_block);
            of_block = float::fma(steps[2], piece(2, 0xf0, 0x30, 16), of_block);
            of_block = float::fma(steps[3], piece(3, 0xf0, 0xc0, 4), of_block);
            let d = float::f16_to_f32(shared::load(rows.add(at as usize + q6_k::D_OFF).cast()));
            float::fma(d, of_block, sum)
        }
    }
}

/// Q3_K: unit 2 n + t of a block has bytes 16 t .. of half n of the low bits, and of the mask; scales 8 n + t + 2 i.
pub struct Q3Wide;

impl Wide for Q3Wide {
    const VALUES: u32 = q3_k::VALUES as u32;
    const BYTES: u32 = q3_k::BYTES as u32;
    const SPLIT: bool = true;
    const OFFSETS: bool = true;

    #[inline(always)]
    fn step_scale(i: u32) -> f32 {
        1.0 / (1 << (2 * i)) as f32
    }

    /// 4 less a code, 4^i times.
    #[inline(always)]
    fn offset(i: u32) -> i32 {
        -(4 << (2 * i))
    }

    #[inline(always)]
    unsafe fn add(rows: *const u8, at: u32, unit: u32, x: Vector, sum: f32) -> f32 {
        let (n, t) = (unit / 2, unit % 2);
        // SAFETY: the block has them; bytes t + 10 < 12 of the scales.
        unsafe {
            let low = four_words(rows, at + q3_k::QS_OFF as u32 + 32 * n + 16 * t);
            let high = four_words(rows, at + q3_k::HMASK_OFF as u32 + 16 * t).map(|word| word >> (4 * n));
            let byte =
                |i: u32| u32::from(shared::load::<u8>(rows.add((at + q3_k::SCALES_OFF as u32 + t + 2 * i) as usize)));
            let tops = [byte(4), byte(5)].map(|byte| byte >> (4 * n));
            let (steps, offsets) = (x.steps(), x.offsets());
            let piece = |i: usize| {
                let u = x.codes(i as u32);
                let (low, high) = (dot(&low, 3 << (2 * i), &u, offsets[i]), dot(&high, 1 << i, &u, 0) * (4 << i));
                let scale = (byte(i as u32) >> (4 * n)) & 15 | ((tops[i % 2] >> (i / 2 * 2)) & 3) << 4;
                ((low + high) * (scale.cast_signed() - i32::from(q3_k::SCALE_BIAS))) as f32
            };
            let mut of_block = steps[0] * piece(0);
            of_block = float::fma(steps[1], piece(1), of_block);
            of_block = float::fma(steps[2], piece(2), of_block);
            of_block = float::fma(steps[3], piece(3), of_block);
            let d = float::f16_to_f32(shared::load(rows.add(at as usize + q3_k::D_OFF).cast()));
            float::fma(d, of_block, sum)
        }
    }
}

/// Four words from byte `at` on, a multiple of 16.
///
/// # Safety
/// They are in shared memory.
#[inline(always)]
unsafe fn four(rows: *const u8, at: u32) -> [u32; 4] {
    // SAFETY: same contract.
    unsafe { shared::load4(rows.add(at as usize).cast()) }
}

/// What Q4_K and Q5_K share: unit j of a block has sub-blocks 2 j and 2 j + 1, the low and the high halves of 32 bytes; the second
/// counts 16 times.
///
/// # Safety
/// As [`Wide::add`]; `high` gives what a fifth bit adds to both dots.
#[inline(always)]
unsafe fn add_affine(
    rows: *const u8,
    [at, codes]: [u32; 2],
    unit: u32,
    x: Vector,
    sum: f32,
    high: impl Fn([[i32; 8]; 2]) -> [i32; 2],
) -> f32 {
    // SAFETY: the block has 32 bytes for each unit.
    unsafe {
        let ([a, b], head) = ([four(rows, codes), four(rows, codes + 16)], four(rows, at));
        let words = [a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]];
        let u: [[i32; 4]; 4] = [x.codes(0), x.codes(1), x.codes(2), x.codes(3)];
        let u: [[i32; 8]; 2] = core::array::from_fn(|i| core::array::from_fn(|j| u[2 * i + j / 4][j % 4]));
        let ([step_0, step_1, sum_0, sum_1], high) = (x.steps(), high(u));
        let n = [dot(&words, 0x0f, &u[0], high[0]), dot(&words, 0xf0, &u[1], high[1])];
        let ((scale, min), [d, dmin]) = (scales_and_mins(head, unit as usize), float::f16x2_to_f32x2(head[0]));
        let of_block = float::fma(step_1, (n[1] * scale[1]) as f32, step_0 * (n[0] * scale[0]) as f32);
        let of_mins = float::fma(sum_1, min[1] as f32, sum_0 * min[0] as f32);
        float::fma(-dmin, of_mins, float::fma(d, of_block, sum))
    }
}

/// Q4_K.
pub struct Q4Wide;

impl Wide for Q4Wide {
    const VALUES: u32 = q4_k::VALUES as u32;
    const BYTES: u32 = q4_k::BYTES as u32;
    const SPLIT: bool = false;
    const SUMS: bool = true;

    #[inline(always)]
    fn step_scale(i: u32) -> f32 {
        if i == 0 { 1.0 } else { 1.0 / 16.0 }
    }

    #[inline(always)]
    unsafe fn add(rows: *const u8, at: u32, unit: u32, x: Vector, sum: f32) -> f32 {
        // SAFETY: same contract.
        unsafe { add_affine(rows, [at, at + q4_k::QS_OFF as u32 + 32 * unit], unit, x, sum, |_| [0, 0]) }
    }
}

/// Q5_K: as [`Q4Wide`], with a fifth bit.
pub struct Q5Wide;

impl Wide for Q5Wide {
    const VALUES: u32 = q5_k::VALUES as u32;
    const BYTES: u32 = q5_k::BYTES as u32;
    const SPLIT: bool = false;
    const SUMS: bool = true;

    #[inline(always)]
    fn step_scale(i: u32) -> f32 {
        Q4Wide::step_scale(i)
    }

    #[inline(always)]
    unsafe fn add(rows: *const u8, at: u32, unit: u32, x: Vector, sum: f32) -> f32 {
        // SAFETY: the block has 32 bytes of fifth bits; else the same contract.
        unsafe {
            let tops = at + q5_k::QH_OFF as u32;
            let ([a, b], shift) = ([four(rows, tops), four(rows, tops + 16)], 2 * unit);
            let bits = [a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]].map(|word| word >> shift);
            let high = |u: [[i32; 8]; 2]| [dot(&bits, 1, &u[0], 0) * 16, dot(&bits, 2, &u[1], 0) * 128];
            add_affine(rows, [at, at + q5_k::QS_OFF as u32 + 32 * unit], unit, x, sum, high)
        }
    }
}
