//! Vectors of two and four words whose loads and stores are one instruction by construction.
//!
//! An array of four floats is four scalar accesses that LLVM's vectoriser may or may not join (with rustc 1.95.0 and LLVM
//! 22 it left 89 of them apart in one kernel). A SIMD type is one `load <4 x i32>, align 16` from the start, which address
//! space inference still turns into `ld.shared.v4.b32` or `ld.global.v4.b32`.

use crate::global::Word32;
use core::intrinsics::simd::{simd_extract, simd_insert};

#[repr(simd)]
#[derive(Clone, Copy)]
pub(super) struct V2([u32; 2]);

#[repr(simd)]
#[derive(Clone, Copy)]
pub(super) struct V4([u32; 4]);

impl V2 {
    #[inline(always)]
    pub(super) fn pack<T: Word32>(v: [T; 2]) -> Self {
        let r = Self([0; 2]);
        // SAFETY: both indices are below 2.
        unsafe { simd_insert(simd_insert(r, 0, v[0].to_u32()), 1, v[1].to_u32()) }
    }

    #[inline(always)]
    pub(super) fn unpack<T: Word32>(self) -> [T; 2] {
        // SAFETY: both indices are below 2.
        unsafe { [T::from_u32(simd_extract(self, 0)), T::from_u32(simd_extract(self, 1))] }
    }
}

impl V4 {
    #[inline(always)]
    pub(super) fn pack<T: Word32>(v: [T; 4]) -> Self {
        let r = Self([0; 4]);
        // SAFETY: the indices are below 4.
        unsafe {
            let r = simd_insert(simd_insert(r, 0, v[0].to_u32()), 1, v[1].to_u32());
            simd_insert(simd_insert(r, 2, v[2].to_u32()), 3, v[3].to_u32())
        }
    }

    #[inline(always)]
    pub(super) fn unpack<T: Word32>(self) -> [T; 4] {
        // SAFETY: the indices are below 4.
        unsafe {
            [
                T::from_u32(simd_extract(self, 0)),
                T::from_u32(simd_extract(self, 1)),
                T::from_u32(simd_extract(self, 2)),
                T::from_u32(simd_extract(self, 3)),
            ]
        }
    }
}
