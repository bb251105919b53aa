//! Integer instructions that Rust has no operator for.

unsafe extern "C" {
    #[link_name = "llvm.nvvm.idp4a.s.s"]
    fn idp4a_ss(a: i32, b: i32, c: i32) -> i32;
    #[link_name = "llvm.nvvm.idp4a.u.u"]
    fn idp4a_uu(a: u32, b: u32, c: u32) -> u32;
    #[link_name = "llvm.nvvm.idp4a.u.s"]
    fn idp4a_us(a: u32, b: i32, c: i32) -> i32;
    #[link_name = "llvm.nvvm.prmt"]
    fn nvvm_prmt(a: u32, b: u32, selector: u32) -> u32;
    #[link_name = "llvm.fshl.i32"]
    fn llvm_fshl(hi: u32, lo: u32, shift: u32) -> u32;
    #[link_name = "llvm.fshr.i32"]
    fn llvm_fshr(hi: u32, lo: u32, shift: u32) -> u32;
}

#[inline(always)]
pub(crate) fn dp4a(a: i32, b: i32, c: i32) -> i32 {
    // SAFETY: arithmetic on registers, here and below.
    unsafe { idp4a_ss(a, b, c) }
}

#[inline(always)]
pub(crate) fn dp4a_u32(a: u32, b: u32, c: u32) -> u32 {
    // SAFETY: see `dp4a`.
    unsafe { idp4a_uu(a, b, c) }
}

#[inline(always)]
pub(crate) fn dp4a_us(a: u32, b: i32, c: i32) -> i32 {
    // SAFETY: see `dp4a`.
    unsafe { idp4a_us(a, b, c) }
}

#[inline(always)]
pub(crate) fn prmt(a: u32, b: u32, selector: u32) -> u32 {
    // SAFETY: see `dp4a`.
    unsafe { nvvm_prmt(a, b, selector) }
}

#[inline(always)]
pub(crate) fn funnel_shift_l(lo: u32, hi: u32, shift: u32) -> u32 {
    // SAFETY: see `dp4a`.
    unsafe { llvm_fshl(hi, lo, shift) }
}

#[inline(always)]
pub(crate) fn funnel_shift_r(lo: u32, hi: u32, shift: u32) -> u32 {
    // SAFETY: see `dp4a`.
    unsafe { llvm_fshr(hi, lo, shift) }
}

#[inline(always)]
pub(crate) fn vabsdiffu4(a: u32, b: u32) -> u32 {
    let r: u32;
    // SAFETY: see `dp4a`.
    unsafe {
        core::arch::asm!(
            "vabsdiff4.u32.u32.u32 {r}, {a}, {b}, {zero};",
            a = in(reg32) a,
            b = in(reg32) b,
            zero = in(reg32) 0u32,
            r = lateout(reg32) r,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    r
}

#[inline(always)]
pub(crate) fn opaque(x: usize) -> usize {
    let same: usize;
    // SAFETY: copies a register. Not `pure`, so that two calls are never taken for one.
    unsafe {
        core::arch::asm!("mov.b64 {same}, {x};", same = out(reg64) same, x = in(reg64) x, options(nomem, nostack));
    }
    same
}
