//! `ld.global`, `ld.global.nc`, `st.global`, `prefetch.global.L2`.

use super::vector::{V2, V4};
use crate::global::{Word, Word32};
use core::{arch::asm, mem::transmute_copy};

#[inline(always)]
pub(crate) unsafe fn load<T: Word>(p: *const T) -> T {
    // SAFETY: the caller keeps the contract of `global::load`.
    unsafe { p.read() }
}

#[inline(always)]
pub(crate) unsafe fn load2<T: Word32>(p: *const T) -> [T; 2] {
    // SAFETY: the caller keeps the contract of `global::load2`.
    unsafe { p.cast::<V2>().read() }.unpack()
}

#[inline(always)]
pub(crate) unsafe fn load4<T: Word32>(p: *const T) -> [T; 4] {
    // SAFETY: the caller keeps the contract of `global::load4`.
    unsafe { p.cast::<V4>().read() }.unpack()
}

#[inline(always)]
pub(crate) unsafe fn store<T: Word>(p: *mut T, v: T) {
    // SAFETY: the caller keeps the contract of `global::store`.
    unsafe { p.write(v) }
}

#[inline(always)]
pub(crate) unsafe fn store_named<T: Word32>(p: *mut T, v: T) {
    // SAFETY: the caller keeps the contract of `global::store_named`.
    unsafe {
        asm!(
            "{{ .reg .u64 %ga; cvta.to.global.u64 %ga, {p};",
            "st.global.b32 [%ga], {v}; }}",
            p = in(reg64) p,
            v = in(reg32) v.to_u32(),
            options(nostack),
        );
    }
}

#[inline(always)]
pub(crate) unsafe fn store2<T: Word32>(p: *mut T, v: [T; 2]) {
    // SAFETY: the caller keeps the contract of `global::store2`.
    unsafe { p.cast::<V2>().write(V2::pack(v)) }
}

#[inline(always)]
pub(crate) unsafe fn store4<T: Word32>(p: *mut T, v: [T; 4]) {
    // SAFETY: the caller keeps the contract of `global::store4`.
    unsafe { p.cast::<V4>().write(V4::pack(v)) }
}

/// One `ld.global.nc` with these options. The generic address is made a global one inside: on the GPU that is no
/// instruction.
macro_rules! ld_nc {
    ($p:expr, $form:literal, $class:ident, $ty:ty, $($option:ident),*) => {{
        let v: $ty;
        asm!(
            "{{ .reg .u64 %ga; cvta.to.global.u64 %ga, {p};",
            concat!("ld.global.nc.", $form, " {v}, [%ga]; }}"),
            p = in(reg64) $p,
            v = lateout($class) v,
            options($($option),*, nostack, preserves_flags)
        );
        v
    }};
}

/// The loads through the read-only cache, with these options: `pure` ones LLVM may move and drop, the others it may not.
macro_rules! loads_nc {
    ($load:ident $load2:ident $load4:ident $($option:ident),*) => {
        #[inline(always)]
        pub(crate) unsafe fn $load<T: Word>(p: *const T) -> T {
            // SAFETY: the caller keeps the contract of `global::load_nc`; each arm reads and copies exactly the size of
            // T, which is a plain number.
            unsafe {
                match size_of::<T>() {
                    1 => transmute_copy(&(ld_nc!(p, "u8", reg16, u16, $($option),*).to_le_bytes()[0])),
                    2 => transmute_copy(&ld_nc!(p, "u16", reg16, u16, $($option),*)),
                    4 => transmute_copy(&ld_nc!(p, "b32", reg32, u32, $($option),*)),
                    _ => transmute_copy(&ld_nc!(p, "b64", reg64, u64, $($option),*)),
                }
            }
        }

        #[inline(always)]
        pub(crate) unsafe fn $load2<T: Word32>(p: *const T) -> [T; 2] {
            let (a, b): (u32, u32);
            // SAFETY: the caller keeps the contract of `global::load2_nc`.
            unsafe {
                asm!(
                    "{{ .reg .u64 %ga; cvta.to.global.u64 %ga, {p};",
                    "ld.global.nc.v2.b32 {{{a}, {b}}}, [%ga]; }}",
                    p = in(reg64) p,
                    a = lateout(reg32) a,
                    b = lateout(reg32) b,
                    options($($option),*, nostack, preserves_flags)
                );
            }
            [T::from_u32(a), T::from_u32(b)]
        }

        #[inline(always)]
        pub(crate) unsafe fn $load4<T: Word32>(p: *const T) -> [T; 4] {
            let (a, b, c, d): (u32, u32, u32, u32);
            // SAFETY: the caller keeps the contract of `global::load4_nc`.
            unsafe {
                asm!(
                    "{{ .reg .u64 %ga; cvta.to.global.u64 %ga, {p};",
                    "ld.global.nc.v4.b32 {{{a}, {b}, {c}, {d}}}, [%ga]; }}",
                    p = in(reg64) p,
                    a = lateout(reg32) a,
                    b = lateout(reg32) b,
                    c = lateout(reg32) c,
                    d = lateout(reg32) d,
                    options($($option),*, nostack, preserves_flags)
                );
            }
            [T::from_u32(a), T::from_u32(b), T::from_u32(c), T::from_u32(d)]
        }
    };
}

loads_nc!(load_nc load2_nc load4_nc pure, readonly);
loads_nc!(load_nc_ordered load2_nc_ordered load4_nc_ordered readonly);

/// LLVM has the intrinsic for pointers to global memory only, which Rust cannot declare.
#[inline(always)]
pub(crate) unsafe fn prefetch_l2(p: *const u8) {
    // SAFETY: the caller gives an address in global memory; a prefetch changes nothing that a program can see.
    unsafe {
        asm!(
            "{{ .reg .u64 %ga; cvta.to.global.u64 %ga, {p}; prefetch.global.L2 [%ga]; }}",
            p = in(reg64) p,
            options(nomem, nostack, preserves_flags)
        );
    }
}
