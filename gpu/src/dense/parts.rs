//! x for tensor cores: each value as the sum of two of 16 bits, scaled by a power of two that its token has for itself.
//!
//! ```text
//! 2^E_t x[t][c] = hi[t][c] + lo[t][c] + r,   hi = round(2^E_t x), lo = round(2^E_t x - hi)
//! ```
//!
//! E_t brings the token's largest magnitude to `2^TOP .. 2^(TOP + 1)`. With f16 that is near the upper end, so that lo is normal
//! for as many values as can be: |r| is at most 2^-22 of the value or 2^-25. With bf16, whose range is that of f32, it is 1,
//! and |r| at most 2^-18 of the value. An infinite x stays so, in a token whose other values count as 0; a NaN stays one.

use cuda_std::{float, mma};

use super::weight::{Bf16, F16};

/// Values that stand for one of x.
pub const PARTS: usize = 2;

/// Bytes of scratch for `tokens` rows of `n_in` values: the parts, `[PARTS][tokens][n_in]`, hi first, then E_t as i32.
#[must_use]
pub const fn scratch_bytes(tokens: usize, n_in: usize) -> usize {
    PARTS * part_bytes(tokens, n_in) + 4 * tokens
}

/// Bytes of one part of all tokens.
#[inline(always)]
#[must_use]
pub const fn part_bytes(tokens: usize, n_in: usize) -> usize {
    2 * tokens * n_in
}

/// A weight type that tensor cores multiply with.
pub trait Half {
    /// Exponent of a token's largest scaled value.
    const TOP: i32;
    /// Two values rounded to nearest even, the first in the lower half.
    fn round(a: f32, b: f32) -> u32;
    /// The values of a pair.
    fn values(pair: u32) -> [f32; 2];
    /// `A B + C`, 16 x 16 by 16 x 8, sums in f32.
    fn product(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4];
}

impl Half for F16 {
    const TOP: i32 = 14;

    #[inline(always)]
    fn round(a: f32, b: f32) -> u32 {
        float::f32x2_to_f16x2(a, b)
    }

    #[inline(always)]
    fn values(pair: u32) -> [f32; 2] {
        float::f16x2_to_f32x2(pair)
    }

    #[inline(always)]
    #[track_caller]
    fn product(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
        mma::mma_m16n8k16_f16(a, b, c)
    }
}

impl Half for Bf16 {
    const TOP: i32 = 0;

    #[inline(always)]
    fn round(a: f32, b: f32) -> u32 {
        float::f32x2_to_bf16x2(a, b)
    }

    #[inline(always)]
    fn values(pair: u32) -> [f32; 2] {
        float::bf16x2_to_f32x2(pair)
    }

    #[inline(always)]
    #[track_caller]
    fn product(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
        mma::mma_m16n8k16_bf16(a, b, c)
    }
}

/// E of a token whose largest magnitude has these bits: from -128 + TOP (infinite) to 127 + TOP (zero or subnormal).
#[inline(always)]
#[must_use]
pub fn exponent<W: Half>(magnitude_bits: u32) -> i32 {
    W::TOP + 127 - (magnitude_bits >> 23).cast_signed()
}

/// Two powers of two, both normal, whose product is `2^e`, |e| <= 150: multiplied by one after the other no value overflows or
/// underflows between them that does not in the end.
#[inline(always)]
#[must_use]
pub fn scale(e: i32) -> [f32; 2] {
    let half = e >> 1;
    [half, e - half].map(|e| f32::from_bits(((127 + e) << 23).cast_unsigned()))
}

/// `[hi, lo]` of two scaled values.
#[inline(always)]
#[must_use]
pub fn split<W: Half>(a: f32, b: f32) -> [u32; PARTS] {
    let hi = W::round(a, b);
    let [ha, hb] = W::values(hi);
    let rest = |x: f32, hi: f32| if float::abs(hi) < f32::INFINITY { x - hi } else { 0.0 };
    [hi, W::round(rest(a, ha), rest(b, hb))]
}
