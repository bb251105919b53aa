//! `ld.shared`, `st.shared` and the dynamic area.
//!
//! The accesses are plain ones through generic pointers: the builder moves the arrays to address space 3, and LLVM infers
//! the space of every access from there.

use super::vector::{V2, V4};
use crate::global::{Word, Word32};

unsafe extern "C" {
    /// Start of the dynamic area; the builder moves the declaration to address space 3, the launch gives the size.
    static mut __dynamic_shared: [u128; 0];
}

#[inline(always)]
pub(crate) fn dynamic_shared() -> *mut u8 {
    (&raw mut __dynamic_shared).cast()
}

#[inline(always)]
pub(crate) unsafe fn load<T: Word>(p: *const T) -> T {
    // SAFETY: the caller keeps the contract of `shared::load`.
    unsafe { p.read() }
}

#[inline(always)]
pub(crate) unsafe fn load2<T: Word32>(p: *const T) -> [T; 2] {
    // SAFETY: the caller keeps the contract of `shared::load2`.
    unsafe { p.cast::<V2>().read() }.unpack()
}

#[inline(always)]
pub(crate) unsafe fn load4<T: Word32>(p: *const T) -> [T; 4] {
    // SAFETY: the caller keeps the contract of `shared::load4`.
    unsafe { p.cast::<V4>().read() }.unpack()
}

#[inline(always)]
pub(crate) unsafe fn store<T: Word>(p: *mut T, v: T) {
    // SAFETY: the caller keeps the contract of `shared::store`.
    unsafe { p.write(v) }
}

#[inline(always)]
pub(crate) unsafe fn store2<T: Word32>(p: *mut T, v: [T; 2]) {
    // SAFETY: the caller keeps the contract of `shared::store2`.
    unsafe { p.cast::<V2>().write(V2::pack(v)) }
}

#[inline(always)]
pub(crate) unsafe fn store4<T: Word32>(p: *mut T, v: [T; 4]) {
    // SAFETY: the caller keeps the contract of `shared::store4`.
    unsafe { p.cast::<V4>().write(V4::pack(v)) }
}
