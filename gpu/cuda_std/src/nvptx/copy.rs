//! `cp.async`: copies, groups, waits.

use super::{require_sm80, shared_address};
use core::arch::asm;

unsafe extern "C" {
    #[link_name = "llvm.nvvm.cp.async.commit.group"]
    fn commit_group();
    #[link_name = "llvm.nvvm.cp.async.wait.group"]
    fn wait_group(pending: u32);
    #[link_name = "llvm.nvvm.cp.async.wait.all"]
    fn wait_all();
}

/// One `cp.async`; the generic source is made a global address inside, which is no instruction on the GPU.
macro_rules! cp_async {
    ($copy:literal, $dst:expr, $src:expr $(, $size:expr)?) => {
        asm!(
            "{{ .reg .u64 %ga; cvta.to.global.u64 %ga, {src};",
            concat!("cp.async.", $copy, "; }}"),
            dst = in(reg32) shared_address($dst),
            src = in(reg64) $src,
            $(size = in(reg32) $size,)?
            options(nostack, preserves_flags)
        )
    };
}

#[inline(always)]
pub(crate) unsafe fn cp_async4(dst: *mut u8, src: *const u8) {
    require_sm80::<()>();
    // SAFETY: the caller keeps the contract of `copy::cp_async4`.
    unsafe { cp_async!("ca.shared.global [{dst}], [%ga], 4", dst, src) }
}

#[inline(always)]
pub(crate) unsafe fn cp_async16(dst: *mut u8, src: *const u8) {
    require_sm80::<()>();
    // SAFETY: the caller keeps the contract of `copy::cp_async16`.
    unsafe { cp_async!("cg.shared.global [{dst}], [%ga], 16", dst, src) }
}

#[inline(always)]
pub(crate) unsafe fn cp_async16_zfill(dst: *mut u8, src: *const u8, valid_bytes: u32) {
    require_sm80::<()>();
    // SAFETY: the caller keeps the contract of `copy::cp_async16_zfill`.
    unsafe { cp_async!("cg.shared.global [{dst}], [%ga], 16, {size}", dst, src, valid_bytes) }
}

#[inline(always)]
pub(crate) fn cp_async_commit() {
    require_sm80::<()>();
    // SAFETY: closing a group has no precondition.
    unsafe { commit_group() }
}

#[inline(always)]
pub(crate) fn cp_async_wait_group<const N: u32>() {
    require_sm80::<()>();
    // SAFETY: waiting has no precondition; the count is an immediate.
    unsafe { wait_group(const { N }) }
}

#[inline(always)]
pub(crate) fn cp_async_wait_all() {
    require_sm80::<()>();
    // SAFETY: waiting has no precondition.
    unsafe { wait_all() }
}
