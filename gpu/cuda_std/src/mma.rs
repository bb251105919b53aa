//! Matrix fragments and products of a warp. All 32 lanes must execute each of these together, by the same instruction.
//!
//! Fragments, for lane `l` with `g = l / 4` and `t = l % 4`; a register holds 32 bits, its lower half (or byte) first:
//!
//! | shape | A registers | B registers | C and D |
//! |---|---|---|---|
//! | m16n8k16, 16 bit | rows g, g+8, g, g+8; columns 2t.., 2t.., 2t+8.., 2t+8.. | column g; rows 2t.., 2t+8.. | rows g, g, g+8, g+8; columns 2t, 2t+1, 2t, 2t+1 |
//! | m16n8k8, tf32 | rows g, g+8, g, g+8; columns t, t, t+4, t+4 | column g; rows t, t+4 | as above |
//! | m16n8k16, s8 | rows g, g+8; columns 4t.. | column g; rows 4t.. | as above |
//! | m16n8k32, s8 | rows g, g+8, g, g+8; columns 4t.., 4t.., 4t+16.., 4t+16.. | column g; rows 4t.., 4t+16.. | as above |
//!
//! A float product on the GPU aligns and truncates the terms of a step in an order that is not published; the emulator
//! starts from `c` and adds the products with k ascending, each rounded to f32, each sum rounded to f32. The two are close,
//! not equal. s8 products are exact (modulo 2^32) on both.

use crate::imp;

macro_rules! ldmatrix {
    ($($(#[$doc:meta])* $name:ident -> $regs:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The addresses named are multiples of 16 and start 16 initialised bytes of the block's shared memory.
        #[inline(always)]
        #[track_caller]
        #[must_use]
        pub unsafe fn $name<T>(row: *const T) -> [u32; $regs] {
            // SAFETY: same contract.
            unsafe { imp::mma::$name(row.cast()) }
        }
    )*};
}

ldmatrix! {
    /// Loads two 8 x 8 matrices of 16-bit elements from shared memory: lane 8m + r gives the address of row r of matrix m
    /// (lanes 16 to 31 give any address, it is not used); register m holds elements 2t, 2t+1 of row g of matrix m.
    ldmatrix_x2 -> 2;
    /// [`ldmatrix_x2`] of the transposed matrices: register m holds rows 2t, 2t+1 of column g of matrix m.
    ldmatrix_x2_trans -> 2;
    /// Loads four 8 x 8 matrices of 16-bit elements from shared memory: lane 8m + r gives the address of row r of matrix
    /// m; register m holds elements 2t, 2t+1 of row g of matrix m.
    ldmatrix_x4 -> 4;
    /// [`ldmatrix_x4`] of the transposed matrices: register m holds rows 2t, 2t+1 of column g of matrix m.
    ldmatrix_x4_trans -> 4;
}

/// `A * B + C`, A 16 x 16 and B 16 x 8 of f16, C 16 x 8 of f32. Needs sm_80.
#[inline(always)]
#[track_caller]
#[must_use]
pub fn mma_m16n8k16_f16(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
    imp::mma::mma_m16n8k16_f16(a, b, c)
}

/// `A * B + C`, A 16 x 16 and B 16 x 8 of bf16, C 16 x 8 of f32. Needs sm_80.
#[inline(always)]
#[track_caller]
#[must_use]
pub fn mma_m16n8k16_bf16(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
    imp::mma::mma_m16n8k16_bf16(a, b, c)
}

/// `A * B + C`, A 16 x 8 and B 8 x 8 of tf32 (f32 bits whose lowest 13 are ignored), C 16 x 8 of f32. Needs sm_80.
#[inline(always)]
#[track_caller]
#[must_use]
pub fn mma_m16n8k8_tf32(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
    imp::mma::mma_m16n8k8_tf32(a, b, c)
}

/// `A * B + C`, A 16 x 16 and B 16 x 8 of s8, C 16 x 8 of s32, modulo 2^32. Needs sm_80.
#[inline(always)]
#[track_caller]
#[must_use]
pub fn mma_m16n8k16_s8(a: [u32; 2], b: u32, c: [i32; 4]) -> [i32; 4] {
    imp::mma::mma_m16n8k16_s8(a, b, c)
}

/// `A * B + C`, A 16 x 32 and B 32 x 8 of s8, C 16 x 8 of s32, modulo 2^32. Needs sm_80.
#[inline(always)]
#[track_caller]
#[must_use]
pub fn mma_m16n8k32_s8(a: [u32; 4], b: [u32; 2], c: [i32; 4]) -> [i32; 4] {
    imp::mma::mma_m16n8k32_s8(a, b, c)
}
