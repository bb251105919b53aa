//! Asynchronous copies from global to shared memory (sm_80).
//!
//! A copy belongs to the thread that issued it and lands at the latest at that thread's wait for its group; other threads
//! may read the bytes after a barrier that follows the wait. Nothing may read or write the destination between the issue
//! and the wait, and a thread must have waited for all its copies before it returns (the emulator names each breach
//! [`Fault::MissingWait`](crate::emulator::Fault)).

use crate::imp;

/// Starts a copy of 4 bytes, cached in L1 (`cp.async.ca`).
///
/// # Safety
/// `dst_shared` is in the block's shared memory, `src` in global memory, both multiples of 4; rules of the module.
#[inline(always)]
#[track_caller]
pub unsafe fn cp_async4<T>(dst_shared: *mut T, src: *const T) {
    // SAFETY: same contract.
    unsafe { imp::copy::cp_async4(dst_shared.cast(), src.cast()) }
}

/// Starts a copy of 16 bytes that bypasses L1 (`cp.async.cg`).
///
/// # Safety
/// `dst_shared` is in the block's shared memory, `src` in global memory, both multiples of 16; rules of the module.
#[inline(always)]
#[track_caller]
pub unsafe fn cp_async16<T>(dst_shared: *mut T, src: *const T) {
    // SAFETY: same contract.
    unsafe { imp::copy::cp_async16(dst_shared.cast(), src.cast()) }
}

/// Starts a copy of `valid_bytes` (0 to 16) bytes; the rest of the 16 at the destination becomes zero. With 0 nothing is
/// read, `src` need only be aligned.
///
/// # Safety
/// As [`cp_async16`], the source range being `valid_bytes` long.
#[inline(always)]
#[track_caller]
pub unsafe fn cp_async16_zfill<T>(dst_shared: *mut T, src: *const T, valid_bytes: u32) {
    // SAFETY: same contract.
    unsafe { imp::copy::cp_async16_zfill(dst_shared.cast(), src.cast(), valid_bytes) }
}

/// Closes the thread's current group of copies (which may be empty).
#[inline(always)]
pub fn cp_async_commit() {
    imp::copy::cp_async_commit();
}

/// Waits until all but the thread's newest `N` committed groups have landed.
#[inline(always)]
#[track_caller]
pub fn cp_async_wait_group<const N: u32>() {
    imp::copy::cp_async_wait_group::<N>();
}

/// Waits until all of the thread's copies have landed, committed or not.
#[inline(always)]
#[track_caller]
pub fn cp_async_wait_all() {
    imp::copy::cp_async_wait_all();
}
