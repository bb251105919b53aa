//! Weight types that kernels read as they lie in memory: f32, f16, bf16, and blocks (`blocks`).

use cuda_std::{float, global};

/// How four neighbouring weights are read.
pub trait Weight {
    /// Bytes of a row of `n_in` weights.
    fn row_bytes(n_in: usize) -> usize;

    /// Weights `at .. at + 4` of `w`, exact.
    ///
    /// # Safety
    /// They are in initialised global memory that nothing writes during the launch; `at` is a multiple of 4 and `w` of
    /// four weights' bytes, or where a row of blocks starts.
    unsafe fn load4(w: *const u8, at: usize) -> [f32; 4];
}

/// IEEE single.
pub struct F32;
/// IEEE half.
pub struct F16;
/// bfloat16: the upper half of a single.
pub struct Bf16;

impl Weight for F32 {
    #[inline(always)]
    fn row_bytes(n_in: usize) -> usize {
        4 * n_in
    }

    #[inline(always)]
    unsafe fn load4(w: *const u8, at: usize) -> [f32; 4] {
        // SAFETY: same contract.
        unsafe { global::load4_nc(w.cast::<f32>().add(at)) }
    }
}

impl Weight for F16 {
    #[inline(always)]
    fn row_bytes(n_in: usize) -> usize {
        2 * n_in
    }

    #[inline(always)]
    unsafe fn load4(w: *const u8, at: usize) -> [f32; 4] {
        // SAFETY: same contract.
        let pairs = unsafe { global::load2_nc(w.add(2 * at).cast::<u32>()) };
        let ([a, b], [c, d]) = (float::f16x2_to_f32x2(pairs[0]), float::f16x2_to_f32x2(pairs[1]));
        [a, b, c, d]
    }
}

impl Weight for Bf16 {
    #[inline(always)]
    fn row_bytes(n_in: usize) -> usize {
        2 * n_in
    }

    #[inline(always)]
    unsafe fn load4(w: *const u8, at: usize) -> [f32; 4] {
        // SAFETY: same contract.
        let pairs = unsafe { global::load2_nc(w.add(2 * at).cast::<u32>()) };
        let ([a, b], [c, d]) = (float::bf16x2_to_f32x2(pairs[0]), float::bf16x2_to_f32x2(pairs[1]));
        [a, b, c, d]
    }
}
