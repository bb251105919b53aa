//! `ldmatrix` and `mma.sync`.

use super::{require_sm80, shared_address};
use core::arch::asm;

macro_rules! ldmatrix {
    ($($name:ident = $form:literal;)*) => {$(
        #[inline(always)]
        pub(crate) unsafe fn $name(row: *const u8) -> [u32; 4] {
            let (a, b, c, d): (u32, u32, u32, u32);
            // SAFETY: the caller keeps the contract of the face.
            unsafe {
                asm!(
                    concat!("ldmatrix.sync.aligned.m8n8.", $form, ".shared.b16 {{{a}, {b}, {c}, {d}}}, [{p}];"),
                    p = in(reg32) shared_address(row),
                    a = lateout(reg32) a,
                    b = lateout(reg32) b,
                    c = lateout(reg32) c,
                    d = lateout(reg32) d,
                    options(nostack, preserves_flags)
                );
            }
            [a, b, c, d]
        }
    )*};
}

macro_rules! ldmatrix_pair {
    ($($name:ident = $form:literal;)*) => {$(
        #[inline(always)]
        pub(crate) unsafe fn $name(row: *const u8) -> [u32; 2] {
            let (a, b): (u32, u32);
            // SAFETY: the caller keeps the contract of the face.
            unsafe {
                asm!(
                    concat!("ldmatrix.sync.aligned.m8n8.", $form, ".shared.b16 {{{a}, {b}}}, [{p}];"),
                    p = in(reg32) shared_address(row),
                    a = lateout(reg32) a,
                    b = lateout(reg32) b,
                    options(nostack, preserves_flags)
                );
            }
            [a, b]
        }
    )*};
}

ldmatrix! {
    ldmatrix_x4 = "x4";
    ldmatrix_x4_trans = "x4.trans";
}

ldmatrix_pair! {
    ldmatrix_x2 = "x2";
    ldmatrix_x2_trans = "x2.trans";
}

macro_rules! mma {
    ($($name:ident = $form:literal, $acc:ty;)*) => {$(
        #[inline(always)]
        pub(crate) fn $name(a: [u32; 4], b: [u32; 2], c: [$acc; 4]) -> [$acc; 4] {
            require_sm80::<()>();
            let [mut c0, mut c1, mut c2, mut c3] = c;
            // SAFETY: registers only; the faces ask that the whole warp comes here.
            unsafe {
                asm!(
                    concat!("mma.sync.aligned.", $form),
                    "{{{c0}, {c1}, {c2}, {c3}}}, {{{a0}, {a1}, {a2}, {a3}}}, {{{b0}, {b1}}}, {{{c0}, {c1}, {c2}, {c3}}};",
                    a0 = in(reg32) a[0],
                    a1 = in(reg32) a[1],
                    a2 = in(reg32) a[2],
                    a3 = in(reg32) a[3],
                    b0 = in(reg32) b[0],
                    b1 = in(reg32) b[1],
                    c0 = inout(reg32) c0,
                    c1 = inout(reg32) c1,
                    c2 = inout(reg32) c2,
                    c3 = inout(reg32) c3,
                    options(nomem, nostack, preserves_flags)
                );
            }
            [c0, c1, c2, c3]
        }
    )*};
}

mma! {
    mma_m16n8k16_f16 = "m16n8k16.row.col.f32.f16.f16.f32", f32;
    mma_m16n8k16_bf16 = "m16n8k16.row.col.f32.bf16.bf16.f32", f32;
    mma_m16n8k8_tf32 = "m16n8k8.row.col.f32.tf32.tf32.f32", f32;
    mma_m16n8k32_s8 = "m16n8k32.row.col.s32.s8.s8.s32", i32;
}

#[inline(always)]
pub(crate) fn mma_m16n8k16_s8(a: [u32; 2], b: u32, c: [i32; 4]) -> [i32; 4] {
    require_sm80::<()>();
    let [mut c0, mut c1, mut c2, mut c3] = c;
    // SAFETY: registers only; the faces ask that the whole warp comes here.
    unsafe {
        asm!(
            "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32",
            "{{{c0}, {c1}, {c2}, {c3}}}, {{{a0}, {a1}}}, {{{b}}}, {{{c0}, {c1}, {c2}, {c3}}};",
            a0 = in(reg32) a[0],
            a1 = in(reg32) a[1],
            b = in(reg32) b,
            c0 = inout(reg32) c0,
            c1 = inout(reg32) c1,
            c2 = inout(reg32) c2,
            c3 = inout(reg32) c3,
            options(nomem, nostack, preserves_flags)
        );
    }
    [c0, c1, c2, c3]
}
