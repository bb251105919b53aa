//! `barrier.cluster`, `mapa`, `st.shared::cluster`.

use super::{require_sm90a, shared_address};
use crate::global::Word32;
use core::arch::asm;

unsafe extern "C" {
    #[link_name = "llvm.nvvm.read.ptx.sreg.cluster.ctarank"]
    fn cluster_ctarank() -> u32;
    #[link_name = "llvm.nvvm.barrier.cluster.arrive.aligned"]
    fn barrier_cluster_arrive();
    #[link_name = "llvm.nvvm.barrier.cluster.wait.aligned"]
    fn barrier_cluster_wait();
}

#[inline(always)]
pub(crate) fn rank() -> u32 {
    require_sm90a::<()>();
    // SAFETY: reading a special register has no precondition.
    unsafe { cluster_ctarank() }
}

#[inline(always)]
pub(crate) fn sync() {
    require_sm90a::<()>();
    // SAFETY: all threads of the cluster come here, as the face asks; arriving releases, waiting acquires.
    unsafe {
        barrier_cluster_arrive();
        barrier_cluster_wait();
    }
}

#[inline(always)]
pub(crate) unsafe fn store<T: Word32>(p: *mut T, rank: u32, v: T) {
    require_sm90a::<()>();
    // SAFETY: the caller keeps the contract of `cluster::store`.
    unsafe {
        asm!(
            "{{ .reg .b32 %there; mapa.shared::cluster.u32 %there, {p}, {rank};",
            "st.shared::cluster.b32 [%there], {v}; }}",
            p = in(reg32) shared_address(p.cast_const().cast()),
            rank = in(reg32) rank,
            v = in(reg32) v.to_u32(),
            options(nostack, preserves_flags)
        );
    }
}
