//! Bulk copies from global to shared memory (sm_90a): one thread starts a copy of many bytes, a landing counter in shared
//! memory says when it is there.
//!
//! A landing counter (`mbarrier` with one arrival) goes through phases 0, 1, 2, ..; each phase is one copy. Threads that
//! want the bytes wait for the phase by its parity; they need no barrier between the copy's issuer and themselves. What
//! read the destination before must be ordered before the next copy by a barrier of the readers and the issuer. Ordinary
//! writes to the destination do not mix with copies to it: they are another proxy's.

use crate::imp;

/// A landing counter: eight bytes of shared memory that only the functions here touch.
pub type Landing = u64;

/// Makes a landing counter at phase 0, with no copy under way. A barrier must come before other threads use it.
///
/// # Safety
/// `landing` is in the block's shared memory, a multiple of 8, and not a landing counter yet.
#[inline(always)]
#[track_caller]
pub unsafe fn init(landing: *mut Landing) {
    // SAFETY: same contract.
    unsafe { imp::bulk::init(landing) }
}

/// Starts the copy of `bytes` bytes that is the current phase of `landing`.
///
/// # Safety
/// `dst_shared` is in the block's shared memory, `src` in global memory that nothing writes meanwhile, both and `bytes`
/// multiples of 16, `bytes` not 0; the phase has no copy yet, and the one before has been waited for by this thread. Nothing
/// touches the destination before the phase is waited for; threads of the block do that before the last one returns.
#[inline(always)]
#[track_caller]
pub unsafe fn copy<T>(dst_shared: *mut T, src: *const T, bytes: u32, landing: *mut Landing) {
    // SAFETY: same contract.
    unsafe { imp::bulk::copy(dst_shared.cast(), src.cast(), bytes, landing) }
}

/// Waits until the phase of this parity (0 or 1) is over: the current one, or at once the one before.
///
/// # Safety
/// `landing` was made by [`init`]; the thread is at most one phase behind.
#[inline(always)]
#[track_caller]
pub unsafe fn wait(landing: *mut Landing, parity: u32) {
    // SAFETY: same contract.
    unsafe { imp::bulk::wait(landing, parity) }
}
