//! Matrix fragments and products.

use super::{ProbeParams, put, row};
use cuda_std::{
    global, kernel,
    launch::Bounds,
    mma, shared, shared_array,
    thread::{self, sync_threads},
};

/// Bounds: one warp.
pub const WARP: Bounds = Bounds { threads: 32, min_blocks: 1 };

/// Words that [`probe_ldmatrix`] writes for each lane.
pub const LDMATRIX_RESULTS: usize = 12;
/// Words of its input: four 8 x 8 matrices of 16-bit elements.
pub const LDMATRIX_WORDS: usize = 128;

/// Row `lane` of the four matrices lies in slot `(5 lane + 3) % 32` of 16 bytes; writes x4, x4 transposed, x2 (the first two
/// matrices), x2 transposed.
///
/// # Safety
/// One warp; `input` holds [`LDMATRIX_WORDS`], 16-byte aligned, `output` `[32][LDMATRIX_RESULTS]`.
#[kernel]
#[launch_bounds(WARP)]
pub unsafe fn probe_ldmatrix(p: ProbeParams) {
    let tile = shared_array![u32; LDMATRIX_WORDS];
    let lane = thread::thread_idx_x() as usize;
    // SAFETY: slots are below 32, so every row is inside the tile and a multiple of 16 bytes; written before the barrier.
    unsafe {
        let slot = tile.add((5 * lane + 3) % 32 * 4);
        shared::store4(slot, global::load4(p.input.add(4 * lane)));
        sync_threads();
        let [a, b, c, d] = mma::ldmatrix_x4(slot);
        let [e, f, g, h] = mma::ldmatrix_x4_trans(slot);
        let [i, j] = mma::ldmatrix_x2(slot);
        let [k, l] = mma::ldmatrix_x2_trans(slot);
        put(p, lane, [a, b, c, d, e, f, g, h, i, j, k, l]);
    }
}

/// Words that the product probes read for each lane: A 4, B 2, C 4.
pub const MMA_INPUT: usize = 10;
/// Words that they write for each lane.
pub const MMA_OUTPUT: usize = 4;

#[cfg(any(not(target_arch = "nvptx64"), cuda_sm = "80"))]
#[inline(always)]
unsafe fn float_product(p: ProbeParams, product: impl Fn([u32; 4], [u32; 2], [f32; 4]) -> [f32; 4]) {
    let lane = thread::thread_idx_x() as usize;
    // SAFETY: a row for each lane, by the kernels' contracts, here and below.
    let [a0, a1, a2, a3, b0, b1, c0, c1, c2, c3] = unsafe { row::<MMA_INPUT>(p, lane) };
    let d = product([a0, a1, a2, a3], [b0, b1], [c0, c1, c2, c3].map(f32::from_bits));
    // SAFETY: see above.
    unsafe { put(p, lane, d.map(f32::to_bits)) }
}

/// m16n8k16 of f16.
///
/// # Safety
/// One warp; `input` holds `[32][MMA_INPUT]`, `output` `[32][MMA_OUTPUT]`.
#[kernel(sm = 80)]
#[launch_bounds(WARP)]
pub unsafe fn probe_mma_f16(p: ProbeParams) {
    // SAFETY: same contract.
    unsafe { float_product(p, |a, b, c| mma::mma_m16n8k16_f16(a, b, c)) }
}

/// m16n8k16 of bf16.
///
/// # Safety
/// As [`probe_mma_f16`].
#[kernel(sm = 80)]
#[launch_bounds(WARP)]
pub unsafe fn probe_mma_bf16(p: ProbeParams) {
    // SAFETY: same contract.
    unsafe { float_product(p, |a, b, c| mma::mma_m16n8k16_bf16(a, b, c)) }
}

/// m16n8k8 of tf32.
///
/// # Safety
/// As [`probe_mma_f16`].
#[kernel(sm = 80)]
#[launch_bounds(WARP)]
pub unsafe fn probe_mma_tf32(p: ProbeParams) {
    // SAFETY: same contract.
    unsafe { float_product(p, |a, b, c| mma::mma_m16n8k8_tf32(a, b, c)) }
}

/// m16n8k16 of s8, C and D of s32.
///
/// # Safety
/// As [`probe_mma_f16`].
#[kernel(sm = 80)]
#[launch_bounds(WARP)]
pub unsafe fn probe_mma_s8_k16(p: ProbeParams) {
    let lane = thread::thread_idx_x() as usize;
    // SAFETY: a row for each lane, by contract, here and below.
    let [a0, a1, _, _, b, _, c0, c1, c2, c3] = unsafe { row::<MMA_INPUT>(p, lane) };
    let d = mma::mma_m16n8k16_s8([a0, a1], b, [c0, c1, c2, c3].map(u32::cast_signed));
    // SAFETY: see above.
    unsafe { put(p, lane, d.map(i32::cast_unsigned)) }
}

/// m16n8k32 of s8, C and D of s32.
///
/// # Safety
/// As [`probe_mma_f16`].
#[kernel(sm = 80)]
#[launch_bounds(WARP)]
pub unsafe fn probe_mma_s8(p: ProbeParams) {
    let lane = thread::thread_idx_x() as usize;
    // SAFETY: a row for each lane, by contract, here and below.
    let [a0, a1, a2, a3, b0, b1, c0, c1, c2, c3] = unsafe { row::<MMA_INPUT>(p, lane) };
    let d = mma::mma_m16n8k32_s8([a0, a1, a2, a3], [b0, b1], [c0, c1, c2, c3].map(u32::cast_signed));
    // SAFETY: see above.
    unsafe { put(p, lane, d.map(i32::cast_unsigned)) }
}
