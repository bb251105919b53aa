//! `cp.async.bulk` and the `mbarrier` that counts its bytes.

use super::{require_sm90a, shared_address};
use crate::bulk::Landing;
use core::arch::asm;

#[inline(always)]
pub(crate) unsafe fn init(landing: *mut Landing) {
    require_sm90a::<()>();
    // SAFETY: the caller keeps the contract of `bulk::init`. The fence lets copies see it.
    unsafe {
        asm!(
            "mbarrier.init.shared::cta.b64 [{landing}], 1;",
            "fence.mbarrier_init.release.cluster;",
            landing = in(reg32) shared_address(landing.cast()),
            options(nostack, preserves_flags)
        );
    }
}

#[inline(always)]
pub(crate) unsafe fn copy(dst: *mut u8, src: *const u8, bytes: u32, landing: *mut Landing) {
    require_sm90a::<()>();
    // SAFETY: the caller keeps the contract of `bulk::copy`.
    unsafe {
        asm!(
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [{landing}], {bytes};",
            "{{ .reg .u64 %ga; cvta.to.global.u64 %ga, {src};",
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [{dst}], [%ga], {bytes}, [{landing}]; }}",
            dst = in(reg32) shared_address(dst),
            src = in(reg64) src,
            bytes = in(reg32) bytes,
            landing = in(reg32) shared_address(landing.cast()),
            options(nostack, preserves_flags)
        );
    }
}

#[inline(always)]
#[expect(named_asm_labels, reason = "a label in braces is local to them in PTX")]
pub(crate) unsafe fn wait(landing: *mut Landing, parity: u32) {
    require_sm90a::<()>();
    // SAFETY: the caller keeps the contract of `bulk::wait`. The label is the scope's own.
    unsafe {
        asm!(
            "{{ .reg .pred %over; AGAIN:",
            "mbarrier.try_wait.parity.shared::cta.b64 %over, [{landing}], {parity};",
            "@!%over bra AGAIN; }}",
            landing = in(reg32) shared_address(landing.cast()),
            parity = in(reg32) parity,
            options(nostack, preserves_flags)
        );
    }
}
