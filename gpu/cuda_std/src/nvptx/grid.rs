//! `griddepcontrol`.

use super::require_sm90a;

#[inline(always)]
pub(crate) fn let_next_start() {
    if cfg!(cuda_sm = "90a") {
        // SAFETY: no precondition; not `nomem`, so that it keeps its place among accesses.
        unsafe { core::arch::asm!("griddepcontrol.launch_dependents;", options(nostack, preserves_flags)) }
    }
}

#[inline(always)]
pub(crate) fn wait_for_previous() {
    require_sm90a::<()>();
    // SAFETY: no precondition; not `nomem`, since what another launch wrote is seen behind it.
    unsafe { core::arch::asm!("griddepcontrol.wait;", options(nostack, preserves_flags)) }
}
