//! Atomic operations on 32-bit words of global or shared memory, device scope.
//!
//! The plain forms are relaxed: they order nothing else. The `_acq_rel` forms also order the thread's other accesses:
//! what it wrote before is seen by whoever reads the result with an acquire. All return the value before the operation.
//!
//! On the emulator each access is checked like an accessor's, and a thread that polls ([`load_acquire_u32`], a failed
//! [`cas_u32`], an [`exch_u32`] that changed nothing) lets the others run.

use crate::imp;

macro_rules! read_modify_write {
    ($($(#[$doc:meta])* $name:ident($($arg:ident),*): $ty:ty;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// `p` is a multiple of 4 in initialised global or shared memory that others access only by atomics meanwhile.
        #[inline(always)]
        #[track_caller]
        pub unsafe fn $name(p: *mut $ty, $($arg: $ty),*) -> $ty {
            // SAFETY: same contract.
            unsafe { imp::atomic::$name(p, $($arg),*) }
        }
    )*};
}

read_modify_write! {
    /// `*p += v`, modulo 2^32.
    add_u32(v): u32;
    /// `*p += v`, rounded to nearest even; the order of several additions is not fixed.
    add_f32(v): f32;
    /// `*p = max(*p, v)`.
    max_u32(v): u32;
    /// `*p = min(*p, v)`.
    min_u32(v): u32;
    /// `*p = v`.
    exch_u32(v): u32;
    /// `if *p == expected { *p = new }`.
    cas_u32(expected, new): u32;
    /// `*p |= v`.
    or_u32(v): u32;
    /// `*p &= v`.
    and_u32(v): u32;
    /// [`add_u32`] with acquire and release.
    add_u32_acq_rel(v): u32;
    /// [`add_f32`] with acquire and release.
    add_f32_acq_rel(v): f32;
    /// [`max_u32`] with acquire and release.
    max_u32_acq_rel(v): u32;
    /// [`min_u32`] with acquire and release.
    min_u32_acq_rel(v): u32;
    /// [`exch_u32`] with acquire and release.
    exch_u32_acq_rel(v): u32;
    /// [`cas_u32`] with acquire and release.
    cas_u32_acq_rel(expected, new): u32;
    /// [`or_u32`] with acquire and release.
    or_u32_acq_rel(v): u32;
    /// [`and_u32`] with acquire and release.
    and_u32_acq_rel(v): u32;
}

/// `*p += v`, modulo 2^32, in the block's shared memory, among its own threads; relaxed. Cheaper than [`add_u32`], since
/// nothing comes back.
///
/// # Safety
/// `p` is a multiple of 4 in initialised shared memory of the block that others access only by atomics meanwhile.
#[inline(always)]
#[track_caller]
pub unsafe fn add_shared_u32(p: *mut u32, v: u32) {
    // SAFETY: same contract.
    unsafe { imp::atomic::add_shared_u32(p, v) }
}

/// Reads `*p`; accesses after it see what was written before the [`store_release_u32`] it reads from.
///
/// # Safety
/// As [`add_u32`].
#[inline(always)]
#[track_caller]
pub unsafe fn load_acquire_u32(p: *const u32) -> u32 {
    // SAFETY: same contract.
    unsafe { imp::atomic::load_acquire_u32(p) }
}

/// Writes `*p`; a [`load_acquire_u32`] that reads it also sees everything written before.
///
/// # Safety
/// As [`add_u32`].
#[inline(always)]
#[track_caller]
pub unsafe fn store_release_u32(p: *mut u32, v: u32) {
    // SAFETY: same contract.
    unsafe { imp::atomic::store_release_u32(p, v) }
}
