//! Barriers within a block, and memory fences.
//!
//! Barrier 0 is [`sync_threads`]; named barriers have ids 1 to 15. All lanes of a warp must reach a barrier together, by
//! the same instruction. A thread that returns while others wait for it is an error on the emulator
//! ([`Fault::Deadlock`](crate::emulator::Fault)) and a hang or worse on a GPU.

use crate::imp;

/// Waits until every thread of the block is here; memory writes before it are seen by all of them after it.
#[inline(always)]
#[track_caller]
pub fn sync_threads() {
    imp::barrier::sync_threads();
}

/// Waits at barrier `id` until `threads` threads have reached it, by this function or by [`arrive_named`].
///
/// # Safety
/// `id` is 1 to 15; `threads` is a positive multiple of 32, the same for every participant, and exactly that many
/// threads, in whole warps, take part; no thread exits while others wait for it.
#[inline(always)]
#[track_caller]
pub unsafe fn sync_named(id: u32, threads: u32) {
    // SAFETY: same contract.
    unsafe { imp::barrier::sync_named(id, threads) }
}

/// Counts the thread at barrier `id` without waiting there.
///
/// # Safety
/// As [`sync_named`]; at least one warp waits at the same barrier with [`sync_named`].
#[inline(always)]
#[track_caller]
pub unsafe fn arrive_named(id: u32, threads: u32) {
    // SAFETY: same contract.
    unsafe { imp::barrier::arrive_named(id, threads) }
}

/// Orders this thread's memory accesses before and after it, as the threads of its block see them.
#[inline(always)]
pub fn fence_block() {
    imp::barrier::fence_block();
}

/// Orders this thread's memory accesses before and after it, as all threads of the device see them.
#[inline(always)]
pub fn fence_device() {
    imp::barrier::fence_device();
}

/// Makes this thread's writes to shared memory before it visible to the asynchronous proxy, through which
/// [`wgmma`](crate::wgmma) reads: write, this fence, a barrier, product. Needs sm_90a.
#[inline(always)]
pub fn fence_async_shared() {
    imp::barrier::fence_async_shared();
}
