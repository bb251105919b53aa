//! `bar.sync`, `bar.arrive`, `membar`, `fence.proxy`.

use super::require_sm90a;

unsafe extern "C" {
    #[link_name = "llvm.nvvm.barrier.cta.sync.aligned.all"]
    fn barrier_sync_all(id: u32);
    #[link_name = "llvm.nvvm.barrier.cta.sync.aligned.count"]
    fn barrier_sync_count(id: u32, threads: u32);
    #[link_name = "llvm.nvvm.barrier.cta.arrive.aligned.count"]
    fn barrier_arrive_count(id: u32, threads: u32);
    #[link_name = "llvm.nvvm.membar.cta"]
    fn membar_cta();
    #[link_name = "llvm.nvvm.membar.gl"]
    fn membar_gl();
}

#[inline(always)]
pub(crate) fn sync_threads() {
    // SAFETY: barrier 0 always exists.
    unsafe { barrier_sync_all(0) }
}

#[inline(always)]
pub(crate) unsafe fn sync_named(id: u32, threads: u32) {
    // SAFETY: the caller keeps the contract of `barrier::sync_named`.
    unsafe { barrier_sync_count(id, threads) }
}

#[inline(always)]
pub(crate) unsafe fn arrive_named(id: u32, threads: u32) {
    // SAFETY: the caller keeps the contract of `barrier::arrive_named`.
    unsafe { barrier_arrive_count(id, threads) }
}

#[inline(always)]
pub(crate) fn fence_block() {
    // SAFETY: a fence has no precondition.
    unsafe { membar_cta() }
}

#[inline(always)]
pub(crate) fn fence_device() {
    // SAFETY: a fence has no precondition.
    unsafe { membar_gl() }
}

#[inline(always)]
pub(crate) fn fence_async_shared() {
    require_sm90a::<()>();
    // SAFETY: a fence has no precondition; it may not be `nomem`, as stores must stay before it.
    unsafe { core::arch::asm!("fence.proxy.async.shared::cta;", options(nostack, preserves_flags)) }
}
