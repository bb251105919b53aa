//! Rounded operations and conversions. None but `exp2_approx` flushes subnormals or approximates.

use super::require_sm80;
use core::arch::asm;

unsafe extern "C" {
    #[link_name = "llvm.fma.f32"]
    fn llvm_fma(a: f32, b: f32, c: f32) -> f32;
    #[link_name = "llvm.sqrt.f32"]
    fn llvm_sqrt(x: f32) -> f32;
    #[link_name = "llvm.rint.f32"]
    fn llvm_rint(x: f32) -> f32;
    #[link_name = "llvm.floor.f32"]
    fn llvm_floor(x: f32) -> f32;
    #[link_name = "llvm.nvvm.fmax.f"]
    fn nvvm_fmax(a: f32, b: f32) -> f32;
    #[link_name = "llvm.nvvm.fmin.f"]
    fn nvvm_fmin(a: f32, b: f32) -> f32;
    #[link_name = "llvm.nvvm.f2h.rn"]
    fn nvvm_f2h(x: f32) -> u16;
    #[link_name = "llvm.nvvm.f2tf32.rna"]
    fn nvvm_f2tf32(x: f32) -> u32;
}

#[inline(always)]
pub(crate) fn fma(a: f32, b: f32, c: f32) -> f32 {
    // SAFETY: arithmetic on registers, here and below.
    unsafe { llvm_fma(a, b, c) }
}

#[inline(always)]
pub(crate) fn exp2_approx(x: f32) -> f32 {
    let y: f32;
    // SAFETY: see `fma`.
    unsafe {
        asm!("ex2.approx.ftz.f32 {y}, {x};", y = lateout(reg32) y, x = in(reg32) x, options(pure, nomem, nostack))
    }
    y
}

#[inline(always)]
pub(crate) fn sqrt(x: f32) -> f32 {
    // SAFETY: see `fma`.
    unsafe { llvm_sqrt(x) }
}

#[inline(always)]
pub(crate) fn rint(x: f32) -> f32 {
    // SAFETY: see `fma`.
    unsafe { llvm_rint(x) }
}

#[inline(always)]
pub(crate) fn floor(x: f32) -> f32 {
    // SAFETY: see `fma`.
    unsafe { llvm_floor(x) }
}

#[inline(always)]
pub(crate) fn to_i32(x: f32) -> i32 {
    let i: i32;
    // SAFETY: registers only.
    unsafe {
        asm!(
            "cvt.rzi.s32.f32 {i}, {x};",
            x = in(reg32) x,
            i = lateout(reg32) i,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    i
}

#[inline(always)]
pub(crate) fn max(a: f32, b: f32) -> f32 {
    // SAFETY: see `fma`.
    unsafe { nvvm_fmax(a, b) }
}

#[inline(always)]
pub(crate) fn min(a: f32, b: f32) -> f32 {
    // SAFETY: see `fma`.
    unsafe { nvvm_fmin(a, b) }
}

#[inline(always)]
pub(crate) fn f32_to_f16(x: f32) -> u16 {
    // SAFETY: see `fma`.
    unsafe { nvvm_f2h(x) }
}

#[inline(always)]
pub(crate) fn f16_to_f32(h: u16) -> f32 {
    let x: f32;
    // SAFETY: see `fma`.
    unsafe {
        asm!(
            "cvt.f32.f16 {x}, {h};",
            h = in(reg16) h,
            x = lateout(reg32) x,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    x
}

/// `cvt` of a pair: the instruction names the upper half first.
#[cfg(cuda_sm = "80")]
macro_rules! cvt_pair {
    ($form:literal, $lo:expr, $hi:expr) => {{
        let pair: u32;
        // SAFETY: see `fma`.
        unsafe {
            asm!(
                concat!("cvt.rn.", $form, ".f32 {pair}, {hi}, {lo};"),
                hi = in(reg32) $hi,
                lo = in(reg32) $lo,
                pair = lateout(reg32) pair,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        pair
    }};
}

#[inline(always)]
#[cfg(cuda_sm = "80")]
pub(crate) fn f32x2_to_f16x2(lo: f32, hi: f32) -> u32 {
    cvt_pair!("f16x2", lo, hi)
}

#[inline(always)]
#[cfg(not(cuda_sm = "80"))]
pub(crate) fn f32x2_to_f16x2(lo: f32, hi: f32) -> u32 {
    u32::from(f32_to_f16(lo)) | u32::from(f32_to_f16(hi)) << 16
}

#[inline(always)]
#[cfg(cuda_sm = "80")]
pub(crate) fn f32_to_bf16(x: f32) -> u16 {
    let h: u16;
    // SAFETY: see `fma`.
    unsafe {
        asm!(
            "cvt.rn.bf16.f32 {h}, {x};",
            x = in(reg32) x,
            h = lateout(reg16) h,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    h
}

/// Below sm_80 there is no such `cvt`: round to nearest even on the bits.
#[inline(always)]
#[cfg(not(cuda_sm = "80"))]
pub(crate) fn f32_to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = (bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16) as u16;
    if x.is_nan() { 0x7fff } else { rounded }
}

#[inline(always)]
#[cfg(cuda_sm = "80")]
pub(crate) fn f32x2_to_bf16x2(lo: f32, hi: f32) -> u32 {
    cvt_pair!("bf16x2", lo, hi)
}

#[inline(always)]
#[cfg(not(cuda_sm = "80"))]
pub(crate) fn f32x2_to_bf16x2(lo: f32, hi: f32) -> u32 {
    u32::from(f32_to_bf16(lo)) | u32::from(f32_to_bf16(hi)) << 16
}

#[inline(always)]
pub(crate) fn f32_to_tf32(x: f32) -> u32 {
    require_sm80::<()>();
    // SAFETY: see `fma`.
    let bits = unsafe { nvvm_f2tf32(x) };
    // The instruction drops the low bits of a NaN too: of 0x7f800001 an H200 makes infinity.
    if x.is_nan() { 0x7fff_ffff } else { bits }
}
