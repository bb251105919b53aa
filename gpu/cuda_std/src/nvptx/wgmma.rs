//! `wgmma`: descriptors, products, fence, groups.

use super::{require_sm90a, shared_address};
use core::arch::asm;

unsafe extern "C" {
    #[link_name = "llvm.nvvm.wgmma.fence.sync.aligned"]
    fn wgmma_fence();
    #[link_name = "llvm.nvvm.wgmma.commit_group.sync.aligned"]
    fn commit_group();
    #[link_name = "llvm.nvvm.wgmma.wait_group.sync.aligned"]
    fn wait_group(pending: u64);
}

/// The 64 bits of a matrix descriptor in halves: only the lower one moves, so the upper one stays a constant.
///
/// Lower: start address / 16 in bits 0 to 13, leading byte offset / 16 in bits 16 to 29. Upper: stride byte offset / 16 in
/// bits 0 to 13, base offset (0: atoms are aligned) in bits 17 to 19, swizzle in bits 30 and 31 (1: 128 B, 2: 64 B).
#[derive(Clone, Copy)]
pub(crate) struct Descriptor {
    low: u32,
    high: u32,
}

/// A byte offset or an address as a field of a descriptor.
#[inline(always)]
const fn field(bytes: u32) -> u32 {
    bytes >> 4 & 0x3fff
}

impl Descriptor {
    #[inline(always)]
    pub(crate) fn k_major<const SWIZZLE: usize>(tile: *const u8, group_stride: usize) -> Self {
        let mode = const {
            match SWIZZLE {
                128 => 1,
                64 => 2,
                _ => panic!("swizzles of 128 and 64 bytes exist here"),
            }
        };
        // The leading offset is not used by swizzled K-major layouts; 1 is what the PTX ISA assumes.
        Self { low: field(shared_address(tile)) | 1 << 16, high: field(group_stride as u32) | mode << 30 }
    }

    #[inline(always)]
    pub(crate) fn mn_major_128(tile: *const u8, block_stride: usize, group_stride: usize) -> Self {
        let low = field(shared_address(tile)) | field(block_stride as u32) << 16;
        Self { low, high: field(group_stride as u32) | 1 << 30 }
    }

    #[inline(always)]
    pub(crate) fn advance(self, bytes: usize) -> Self {
        // Shared memory ends below 2^18 bytes, so nothing is carried out of the field.
        Self { low: self.low + (bytes as u32 >> 4), ..self }
    }
}

macro_rules! products {
    ($($name:ident, $n:literal, $regs:literal: $first:literal $($next:literal)*;)*) => {$(
        #[inline(always)]
        pub(crate) unsafe fn $name<const TRANS_B: bool>(
            acc: &mut [f32; $regs],
            a: [u32; 4],
            b: Descriptor,
            accumulate: bool,
        ) {
            require_sm90a::<()>();
            // SAFETY: the caller keeps the contract of the face.
            unsafe {
                asm!(
                    "{{ .reg .pred scale_d; .reg .b64 desc_b;",
                    "setp.ne.b32 scale_d, {scale}, 0;",
                    "mov.b64 desc_b, {{{low}, {high}}};",
                    concat!(
                        "wgmma.mma_async.sync.aligned.m64n", $n, "k16.f32.f16.f16 {{{", $first, "}",
                        $(", {", $next, "}",)*
                        "}}, {{{a0}, {a1}, {a2}, {a3}}}, desc_b, scale_d, 1, 1, {trans}; }}"
                    ),
                    inout(reg32) acc[$first],
                    $(inout(reg32) acc[$next],)*
                    a0 = in(reg32) a[0],
                    a1 = in(reg32) a[1],
                    a2 = in(reg32) a[2],
                    a3 = in(reg32) a[3],
                    low = in(reg32) b.low,
                    high = in(reg32) b.high,
                    scale = in(reg32) u32::from(accumulate),
                    trans = const TRANS_B as u32,
                    options(nostack, preserves_flags)
                );
            }
        }
    )*};
}

#[rustfmt::skip] // register numbers, 32 a line
products! {
    mma_m64n32k16_f16, 32, 16: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15;
    mma_m64n64k16_f16, 64, 32: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31;
    mma_m64n128k16_f16, 128, 64: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
        32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63;
}

#[inline(always)]
pub(crate) fn hold<const N: usize>(acc: &mut [f32; N]) {
    for i in 0..N {
        // SAFETY: no instruction, only a comment (an operand must be named). Assembly stays in its order, so what reads
        // the register next comes after it.
        unsafe { asm!("/* {0} */", inout(reg32) acc[i], options(nomem, nostack, preserves_flags)) }
    }
}

#[inline(always)]
pub(crate) fn fence() {
    require_sm90a::<()>();
    // SAFETY: the face asks that the whole warpgroup comes here.
    unsafe { wgmma_fence() }
}

#[inline(always)]
pub(crate) fn commit() {
    require_sm90a::<()>();
    // SAFETY: as in `fence`.
    unsafe { commit_group() }
}

#[inline(always)]
pub(crate) fn wait<const N: u32>() {
    require_sm90a::<()>();
    // SAFETY: as in `fence`; the count is an immediate.
    unsafe { wait_group(const { N as u64 }) }
}
