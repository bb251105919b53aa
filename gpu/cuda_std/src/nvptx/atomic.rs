//! `atom`, `ld.acquire`, `st.release`, all of device scope.
//!
//! rustc 1.95.0 makes a relaxed `atom` without a fence of `fetch_add(AcqRel)`, so the ordering is written out here.
//! Addresses are generic: the same instruction serves global and shared memory. An f32 addition in global memory takes
//! subnormal operands and results as zeros of their sign, by the definition of `atom.add.f32`; the emulator keeps them.

use core::arch::asm;

macro_rules! read_modify_write {
    ($($relaxed:ident, $ordered:ident = $op:literal($($arg:ident),+): $ty:ty;)*) => {$(
        read_modify_write!(@one $relaxed, "relaxed", $op, ($($arg),+), $ty);
        read_modify_write!(@one $ordered, "acq_rel", $op, ($($arg),+), $ty);
    )*};
    (@one $name:ident, $order:literal, $op:literal, ($v:ident), $ty:ty) => {
        #[inline(always)]
        pub(crate) unsafe fn $name(p: *mut $ty, $v: $ty) -> $ty {
            let old: $ty;
            // SAFETY: the caller keeps the contract of the face.
            unsafe {
                asm!(
                    concat!("atom.", $order, ".gpu.", $op, " {old}, [{p}], {v};"),
                    p = in(reg64) p,
                    v = in(reg32) $v,
                    old = lateout(reg32) old,
                    options(nostack, preserves_flags)
                );
            }
            old
        }
    };
    (@one $name:ident, $order:literal, $op:literal, ($expected:ident, $new:ident), $ty:ty) => {
        #[inline(always)]
        pub(crate) unsafe fn $name(p: *mut $ty, $expected: $ty, $new: $ty) -> $ty {
            let old: $ty;
            // SAFETY: the caller keeps the contract of the face.
            unsafe {
                asm!(
                    concat!("atom.", $order, ".gpu.", $op, " {old}, [{p}], {expected}, {new};"),
                    p = in(reg64) p,
                    expected = in(reg32) $expected,
                    new = in(reg32) $new,
                    old = lateout(reg32) old,
                    options(nostack, preserves_flags)
                );
            }
            old
        }
    };
}

read_modify_write! {
    add_u32, add_u32_acq_rel = "add.u32"(v): u32;
    add_f32, add_f32_acq_rel = "add.f32"(v): f32;
    max_u32, max_u32_acq_rel = "max.u32"(v): u32;
    min_u32, min_u32_acq_rel = "min.u32"(v): u32;
    exch_u32, exch_u32_acq_rel = "exch.b32"(v): u32;
    cas_u32, cas_u32_acq_rel = "cas.b32"(expected, new): u32;
    or_u32, or_u32_acq_rel = "or.b32"(v): u32;
    and_u32, and_u32_acq_rel = "and.b32"(v): u32;
}

#[inline(always)]
pub(crate) unsafe fn add_shared_u32(p: *mut u32, v: u32) {
    // SAFETY: the caller keeps the contract of `atomic::add_shared_u32`.
    unsafe {
        asm!(
            "red.relaxed.cta.shared.add.u32 [{p}], {v};",
            p = in(reg32) super::shared_address(p.cast_const().cast()),
            v = in(reg32) v,
            options(nostack, preserves_flags)
        );
    }
}

#[inline(always)]
pub(crate) unsafe fn load_acquire_u32(p: *const u32) -> u32 {
    let v: u32;
    // SAFETY: the caller keeps the contract of `atomic::load_acquire_u32`.
    unsafe {
        asm!(
            "ld.acquire.gpu.u32 {v}, [{p}];",
            p = in(reg64) p,
            v = lateout(reg32) v,
            options(nostack, preserves_flags)
        );
    }
    v
}

#[inline(always)]
pub(crate) unsafe fn store_release_u32(p: *mut u32, v: u32) {
    // SAFETY: the caller keeps the contract of `atomic::store_release_u32`.
    unsafe {
        asm!(
            "st.release.gpu.u32 [{p}], {v};",
            p = in(reg64) p,
            v = in(reg32) v,
            options(nostack, preserves_flags)
        );
    }
}
