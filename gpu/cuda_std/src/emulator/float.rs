//! Rounded operations and conversions with the GPU's bits.

use half::{bf16, f16};

/// The 16-bit NaN that `cvt` makes of every NaN.
const NAN16: u16 = 0x7fff;
/// The f32 and tf32 NaN that the GPU makes.
const NAN32: u32 = 0x7fff_ffff;

#[inline(always)]
pub(crate) fn fma(a: f32, b: f32, c: f32) -> f32 {
    a.mul_add(b, c)
}

#[inline(always)]
pub(crate) fn exp2_approx(x: f32) -> f32 {
    crate::float::exp2(x)
}

#[inline(always)]
pub(crate) fn sqrt(x: f32) -> f32 {
    x.sqrt()
}

#[inline(always)]
pub(crate) fn rint(x: f32) -> f32 {
    x.round_ties_even()
}

#[inline(always)]
pub(crate) fn floor(x: f32) -> f32 {
    x.floor()
}

#[inline(always)]
pub(crate) fn to_i32(x: f32) -> i32 {
    x as i32
}

#[inline(always)]
pub(crate) fn max(a: f32, b: f32) -> f32 {
    if a.is_nan() || b > a {
        b
    } else if a == b {
        f32::from_bits(a.to_bits() & b.to_bits()) // differ only as +0 and -0: +0
    } else {
        a
    }
}

#[inline(always)]
pub(crate) fn min(a: f32, b: f32) -> f32 {
    if a.is_nan() || b < a {
        b
    } else if a == b {
        f32::from_bits(a.to_bits() | b.to_bits()) // differ only as +0 and -0: -0
    } else {
        a
    }
}

#[inline(always)]
pub(crate) fn f32_to_f16(x: f32) -> u16 {
    if x.is_nan() { NAN16 } else { f16::from_f32(x).to_bits() }
}

#[inline(always)]
pub(crate) fn f16_to_f32(h: u16) -> f32 {
    f16::from_bits(h).to_f32()
}

#[inline(always)]
pub(crate) fn f32x2_to_f16x2(lo: f32, hi: f32) -> u32 {
    u32::from(f32_to_f16(lo)) | u32::from(f32_to_f16(hi)) << 16
}

#[inline(always)]
pub(crate) fn f32_to_bf16(x: f32) -> u16 {
    if x.is_nan() { NAN16 } else { bf16::from_f32(x).to_bits() }
}

#[inline(always)]
pub(crate) fn f32x2_to_bf16x2(lo: f32, hi: f32) -> u32 {
    u32::from(f32_to_bf16(lo)) | u32::from(f32_to_bf16(hi)) << 16
}

/// Rounds the mantissa to 10 bits, ties away from zero; the carry may run into the exponent, up to infinity.
#[inline(always)]
pub(crate) fn f32_to_tf32(x: f32) -> u32 {
    if x.is_nan() { NAN32 } else { (x.to_bits() + 0x1000) & !0x1fff }
}
