//! Shared memory of a block: static arrays, the dynamic area, accessors.
//!
//! Kernels touch shared memory only through these accessors. An access of n bytes needs an address that is a multiple of
//! n. At the start of a block shared memory is undefined (the emulator fills it with NaN bytes).

use crate::{
    global::{Word, Word32},
    imp,
};

/// A static shared array of the block: `shared_array![T; N]` is a `*mut T` to N elements, 16-byte aligned.
///
/// Each place in the source where it stands is one array, whichever threads reach it and however often; two instances of
/// one generic function share it. `T` and `N` cannot name generic parameters.
#[cfg(target_arch = "nvptx64")]
#[macro_export]
macro_rules! shared_array {
    ($ty:ty; $len:expr) => {{
        #[repr(C, align(16))]
        struct Site(::core::mem::MaybeUninit<[$ty; $len]>);
        // SAFETY: the builder moves the section to address space 3, where it must not have an initial value.
        #[unsafe(link_section = ".shared")]
        static mut SITE: Site = Site(::core::mem::MaybeUninit::uninit());
        (&raw mut SITE).cast::<$ty>()
    }};
}

/// A static shared array of the block: `shared_array![T; N]` is a `*mut T` to N elements, 16-byte aligned.
///
/// Each place in the source where it stands is one array, whichever threads reach it and however often; two instances of
/// one generic function share it. `T` and `N` cannot name generic parameters.
#[cfg(not(target_arch = "nvptx64"))]
#[macro_export]
macro_rules! shared_array {
    ($ty:ty; $len:expr) => {{
        const BYTES: usize = ::core::mem::size_of::<[$ty; $len]>();
        const _: () = ::core::assert!(::core::mem::align_of::<$ty>() <= 16, "shared arrays are aligned to 16 bytes");
        static SITE: $crate::emulator::Site = $crate::emulator::Site::new(BYTES);
        SITE.place().cast::<$ty>()
    }};
}

/// Start of the block's dynamic shared area, 16-byte aligned; its length is the launch's `dynamic_shared` in bytes.
#[inline(always)]
#[must_use]
pub fn dynamic_shared<T>() -> *mut T {
    imp::shared::dynamic_shared().cast()
}

/// Reads one scalar.
///
/// # Safety
/// `p` is a multiple of `size_of::<T>()` in initialised shared memory of the block, and no other thread writes it
/// between the same two barriers.
#[inline(always)]
#[track_caller]
pub unsafe fn load<T: Word>(p: *const T) -> T {
    // SAFETY: same contract.
    unsafe { imp::shared::load(p) }
}

/// Reads two consecutive values as one access of 8 bytes.
///
/// # Safety
/// As [`load`] for all 8 bytes; `p` is a multiple of 8.
#[inline(always)]
#[track_caller]
pub unsafe fn load2<T: Word32>(p: *const T) -> [T; 2] {
    // SAFETY: same contract.
    unsafe { imp::shared::load2(p) }
}

/// Reads four consecutive values as one access of 16 bytes.
///
/// # Safety
/// As [`load`] for all 16 bytes; `p` is a multiple of 16.
#[inline(always)]
#[track_caller]
pub unsafe fn load4<T: Word32>(p: *const T) -> [T; 4] {
    // SAFETY: same contract.
    unsafe { imp::shared::load4(p) }
}

/// Writes one scalar.
///
/// # Safety
/// `p` is a multiple of `size_of::<T>()` in shared memory of the block, and no other thread accesses it between the same
/// two barriers.
#[inline(always)]
#[track_caller]
pub unsafe fn store<T: Word>(p: *mut T, v: T) {
    // SAFETY: same contract.
    unsafe { imp::shared::store(p, v) }
}

/// Writes two consecutive values as one access of 8 bytes.
///
/// # Safety
/// As [`store`] for all 8 bytes; `p` is a multiple of 8.
#[inline(always)]
#[track_caller]
pub unsafe fn store2<T: Word32>(p: *mut T, v: [T; 2]) {
    // SAFETY: same contract.
    unsafe { imp::shared::store2(p, v) }
}

/// Writes four consecutive values as one access of 16 bytes.
///
/// # Safety
/// As [`store`] for all 16 bytes; `p` is a multiple of 16.
#[inline(always)]
#[track_caller]
pub unsafe fn store4<T: Word32>(p: *mut T, v: [T; 4]) {
    // SAFETY: same contract.
    unsafe { imp::shared::store4(p, v) }
}
