//! f32 arithmetic beyond the operators, elementary functions, conversions.
//!
//! `+ - * /` are rounded once and never fused on both sides; [`fma`] rounds once. The elementary functions are written
//! here once, from those, from square roots and from integer work on the bits, so the GPU gives the emulator's bits.
//! Subnormal arguments and results are kept everywhere. A NaN argument gives a NaN (its bits are not specified).
//!
//! Largest errors in ulp of the exact value (an ulp of a subnormal result is 2^-149), found over *every* argument, against
//! f64 (`cargo test -p varve-tests --test primitives accuracy` repeats it on a sample, `VARVE_ULP_STRIDE=1` on all):
//!
//! | function | ulp | at |
//! |---|---|---|
//! | [`exp`] | 0.8913 | -5.848642 |
//! | [`exp2`] | 0.8784 | -126.4965, a subnormal result |
//! | [`log`] | 0.9338 | 0.6356574 |
//! | [`rsqrt`] | 1.4903 | 1.1827658e-38 |
//! | [`sigmoid`] | 2.4019 | -4.157294 |
//! | [`silu`] | 3.3442 | -5.938893 |
//! | [`softplus`] | 1.9875 | -1.0744387 |

use crate::imp;

/// Adding it rounds a small float to an integer, to nearest even, which the sum's lowest bits then hold: 1.5 * 2^23.
const ROUNDER: f32 = 12_582_912.0;
/// ln 2 in two parts; the first has 15 significant bits, so its products with exponents are exact.
const LN2_HI: f32 = f32::from_bits(0x3f31_7200);
const LN2_LO: f32 = f32::from_bits(0x35bf_be8e);

/// `a * b + c`, rounded once.
#[inline(always)]
#[must_use]
pub fn fma(a: f32, b: f32, c: f32) -> f32 {
    imp::float::fma(a, b, c)
}

/// Square root, correctly rounded; NaN below -0.
#[inline(always)]
#[must_use]
pub fn sqrt(x: f32) -> f32 {
    imp::float::sqrt(x)
}

/// Nearest integer, halves to even.
#[inline(always)]
#[must_use]
pub fn rint(x: f32) -> f32 {
    imp::float::rint(x)
}

/// Largest integer not above `x`.
#[inline(always)]
#[must_use]
pub fn floor(x: f32) -> f32 {
    imp::float::floor(x)
}

/// `x` cut to an integer, held to the range of `i32`; 0 for NaN: `x as i32` in one instruction, which the compiler surrounds with
/// comparisons.
#[inline(always)]
#[must_use]
pub fn to_i32(x: f32) -> i32 {
    imp::float::to_i32(x)
}

/// `x` without its sign.
#[inline(always)]
#[must_use]
pub const fn abs(x: f32) -> f32 {
    x.abs()
}

/// The larger value, `max.f32`: a NaN loses against a number, -0 is below +0.
#[inline(always)]
#[must_use]
pub fn max(a: f32, b: f32) -> f32 {
    imp::float::max(a, b)
}

/// The smaller value, `min.f32`: a NaN loses against a number, -0 is below +0.
#[inline(always)]
#[must_use]
pub fn min(a: f32, b: f32) -> f32 {
    imp::float::min(a, b)
}

/// `1 / sqrt(x)`, both rounded: infinity of either sign for a zero of that sign, NaN below -0, 0 for infinity.
#[inline(always)]
#[must_use]
pub fn rsqrt(x: f32) -> f32 {
    1.0 / sqrt(x)
}

/// `e^x`: infinity from 88.72284 on, subnormal from -87.33655 down, 0 from -103.97209 down.
#[inline(always)]
#[must_use]
pub fn exp(x: f32) -> f32 {
    let (p, s1, s2) = exp_parts(x);
    p * s1 * s2
}

/// `2^x`: exact for integers; infinity from 128 on, 0 from -150 down.
#[inline(always)]
#[must_use]
pub fn exp2(x: f32) -> f32 {
    let x = clamp_magnitude(x, 192.0);
    let shifted = x + ROUNDER;
    let f = x - (shifted - ROUNDER); // exact, |f| <= 1/2
    let p = fma(1.532_647_6e-4, f, 1.339_081e-3);
    let p = fma(p, f, 9.618_506e-3);
    let p = fma(p, f, 5.550_36e-2);
    let p = fma(p, f, 2.402_264_8e-1);
    let p = fma(p, f, 6.931_472e-1);
    let p = fma(p, f, 1.0);
    let (s1, s2) = power_of_two(shifted);
    p * s1 * s2
}

/// `2^x` as the GPU's own instruction gives it (`ex2.approx.ftz`): within 2 ulp, subnormal arguments and results are 0. The
/// emulator gives [`exp2`]: close, not equal. For kernels that promise no bits.
#[inline(always)]
#[must_use]
pub fn exp2_approx(x: f32) -> f32 {
    imp::float::exp2_approx(x)
}

/// `p`, `s1`, `s2` with `e^x = p * s1 * s2`, where p is in 0.7 .. 1.42 and `p * s1` is normal: the result is rounded
/// twice only by a normal product, which is exact. Arguments beyond +-128 are taken as that.
#[inline(always)]
fn exp_parts(x: f32) -> (f32, f32, f32) {
    let x = clamp_magnitude(x, 128.0);
    let shifted = fma(x, core::f32::consts::LOG2_E, ROUNDER);
    let n = shifted - ROUNDER;
    let f = fma(n, -LN2_LO, fma(n, -LN2_HI, x));
    // Minimax on |f| <= ln 2 / 2, relative error 3.1e-9.
    let p = fma(1.382_146_8e-3, f, 8.368_663e-3);
    let p = fma(p, f, 4.166_825_5e-2);
    let p = fma(p, f, 1.666_652_1e-1);
    let p = fma(p, f, 4.999_999_4e-1);
    let p = fma(p, f, 1.0);
    let p = fma(p, f, 1.0);
    let (s1, s2) = power_of_two(shifted);
    (p, s1, s2)
}

/// `x`, or +-`limit` where it is beyond; a NaN stays (a `min` would lose it).
#[inline(always)]
fn clamp_magnitude(x: f32, limit: f32) -> f32 {
    if abs(x) > limit { limit.copysign(x) } else { x }
}

/// For `shifted = n + ROUNDER`, |n| <= 252: two powers of two of the range of normal floats whose product is `2^n`.
#[inline(always)]
fn power_of_two(shifted: f32) -> (f32, f32) {
    // The bits are 0x4b400000 + n; the shift to the left drops all but n.
    let n = shifted.to_bits().cast_signed();
    let half = n >> 1;
    let scale = |e: i32| f32::from_bits((e << 23).wrapping_add(0x3f80_0000).cast_unsigned());
    (scale(half), scale(n - half))
}

/// Natural logarithm: -infinity for zeros, NaN below, infinity for infinity.
#[inline(always)]
#[must_use]
pub fn log(x: f32) -> f32 {
    let (y, bias) = if x < f32::MIN_POSITIVE { (x * 8_388_608.0, -23.0) } else { (x, 0.0) };
    let e = exponent_of(y);
    let m = f32::from_bits(y.to_bits().wrapping_sub(e)) - 1.0;
    let r = log_sum(e, bias, m);
    if x > 0.0 && x < f32::INFINITY {
        r
    } else if x == 0.0 {
        f32::NEG_INFINITY
    } else if x < 0.0 {
        f32::NAN
    } else {
        x
    }
}

/// `log(1 + x)` for x >= 0 or NaN, accurate for small x.
#[inline(always)]
fn log1p_nonnegative(x: f32) -> f32 {
    // With s = 2^-n for the exponent n of 1 + x: s (1 + x) - 1 = s x + (s - 1), rounded once.
    let e = exponent_of(1.0 + x);
    let s = f32::from_bits(0x3f80_0000u32.wrapping_sub(e));
    log_sum(e, 0.0, fma(x, s, s - 1.0))
}

/// `n << 23` such that `x * 2^-n` is in 2/3 .. 4/3.
#[inline(always)]
fn exponent_of(x: f32) -> u32 {
    x.to_bits().wrapping_sub(0x3f2a_aaab) & 0xff80_0000
}

/// `(e / 2^23 + bias) * ln 2 + log(1 + m)` for |m| <= 1/3.
#[inline(always)]
fn log_sum(e: u32, bias: f32, m: f32) -> f32 {
    let n = fma(e.cast_signed() as f32, 1.0 / 8_388_608.0, bias);
    // log(1 + m) = m + m^2 q(m), minimax, relative error 4.7e-9.
    let q = fma(-1.288_004e-1, m, 1.398_459_4e-1);
    let q = fma(q, m, -1.218_747_9e-1);
    let q = fma(q, m, 1.400_573_4e-1);
    let q = fma(q, m, -1.668_019_6e-1);
    let q = fma(q, m, 2.001_042_7e-1);
    let q = fma(q, m, -2.499_980_6e-1);
    let q = fma(q, m, 3.333_321_5e-1);
    let q = fma(q, m, -0.5);
    fma(n, core::f32::consts::LN_2, fma(q, m * m, m))
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
#[must_use]
pub fn sigmoid(x: f32) -> f32 {
    let e = exp(-abs(x)); // never overflows, so small results are not lost
    (if x >= 0.0 { 1.0 } else { e }) / (1.0 + e)
}

/// `x / (1 + e^-x)`, the limits at the infinities (-0 and infinity).
#[inline(always)]
#[must_use]
pub fn silu(x: f32) -> f32 {
    // Below 0: x e^x / (1 + e^x). The product with the last power of two comes at the end, so that e^x being subnormal
    // costs no bits of the larger x e^x.
    let (p, s1, s2) = exp_parts(-abs(x));
    let e = p * s1 * s2;
    let x = if x < -128.0 { -128.0 } else { x };
    let q = (if x >= 0.0 { x } else { x * (p * s1) }) / (1.0 + e);
    if x >= 0.0 { q } else { q * s2 }
}

/// `log(1 + e^x)`, and `x` itself above 20, as the models define it (the difference there is below 2.1e-9).
#[inline(always)]
#[must_use]
pub fn softplus(x: f32) -> f32 {
    if x > 20.0 { x } else { log1p_nonnegative(exp(x)) }
}

/// f16 bits of `x`, to nearest even: infinity from 65,520 on, 0x7fff for NaN.
#[inline(always)]
#[must_use]
pub fn f32_to_f16(x: f32) -> u16 {
    imp::float::f32_to_f16(x)
}

/// The value of f16 bits, exact.
#[inline(always)]
#[must_use]
pub fn f16_to_f32(h: u16) -> f32 {
    imp::float::f16_to_f32(h)
}

/// bf16 bits of `x`, to nearest even; 0x7fff for NaN.
#[inline(always)]
#[must_use]
pub fn f32_to_bf16(x: f32) -> u16 {
    imp::float::f32_to_bf16(x)
}

/// The value of bf16 bits, exact.
#[inline(always)]
#[must_use]
pub const fn bf16_to_f32(h: u16) -> f32 {
    f32::from_bits((h as u32) << 16)
}

/// [`f32_to_f16`] of a pair, `lo` in the lower half.
#[inline(always)]
#[must_use]
pub fn f32x2_to_f16x2(lo: f32, hi: f32) -> u32 {
    imp::float::f32x2_to_f16x2(lo, hi)
}

/// [`f32_to_bf16`] of a pair, `lo` in the lower half.
#[inline(always)]
#[must_use]
pub fn f32x2_to_bf16x2(lo: f32, hi: f32) -> u32 {
    imp::float::f32x2_to_bf16x2(lo, hi)
}

/// [`f16_to_f32`] of the lower and the upper half.
#[inline(always)]
#[must_use]
pub fn f16x2_to_f32x2(pair: u32) -> [f32; 2] {
    [f16_to_f32(pair as u16), f16_to_f32((pair >> 16) as u16)]
}

/// [`bf16_to_f32`] of the lower and the upper half.
#[inline(always)]
#[must_use]
pub const fn bf16x2_to_f32x2(pair: u32) -> [f32; 2] {
    [f32::from_bits(pair << 16), f32::from_bits(pair & 0xffff_0000)]
}

/// tf32 bits of `x` (an f32 whose lowest 13 bits are 0), to nearest, ties away from zero (`cvt.rna`); 0x7fffffff for NaN.
/// Needs sm_80.
#[inline(always)]
#[must_use]
pub fn f32_to_tf32(x: f32) -> u32 {
    imp::float::f32_to_tf32(x)
}
