//! `delta.out_norm/block`: a block of 128 threads normalises one head of one token; the base.
//!
//! Math      y16[c] = f16(y[c] * s * gamma[c] * gate(z[c])), s = rsqrt(sum y[c]^2 / 128 + eps), products from left to
//!           right; gate = sigmoid (Qwen3.8-Flash-Next) or SiLU (Qwen3-Next, Qwen3.5); magnitudes beyond f16 are clamped
//! Shapes    `OutNormParams`; any token and head count
//! Mapping   block (x: token, y: head); thread c = column c
//! Order     squares rounded on their own; warp of 32 columns: xor 16, 8, 4, 2, 1; block: ((w0 + w1) + w2) + w3
//! Barriers  one, by all 128 threads: warp sums are written before it and read after it
//! Budget    24 registers, 16 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Base

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, block_idx_y, sync_threads, thread_idx_x};
use cuda_std::{float, global, kernel, shared, shared_array, warp};

use super::{OutNormParams, group_sum, norm_scale, normed};
use crate::geometry::HEAD_DIM;

/// A thread a column.
pub const BOUNDS: Bounds = Bounds { threads: HEAD_DIM as u32, min_blocks: 12 };

/// # Safety
/// Shapes, alignment and aliasing as `OutNormParams` says; grid `(tokens, value_heads)`, block 128.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn delta_out_norm_block_sigmoid(p: OutNormParams) {
    // SAFETY: same contract.
    unsafe { body::<false>(p) }
}

/// # Safety
/// As [`delta_out_norm_block_sigmoid`].
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn delta_out_norm_block_silu(p: OutNormParams) {
    // SAFETY: same contract.
    unsafe { body::<true>(p) }
}

#[inline(always)]
unsafe fn body<const SILU: bool>(p: OutNormParams) {
    let c = thread_idx_x() as usize;
    let (token, at) = (block_idx_x() as usize, block_idx_y() as usize * HEAD_DIM + c);
    let sums = shared_array![f32; 4];
    // SAFETY: the grid has one block a token and head, so every index is inside its row; read only.
    let (y, z, gamma) = unsafe {
        (
            global::load(p.y.add(token * p.y_stride as usize + at)),
            global::load(p.z.add(token * p.z_stride as usize + at)),
            global::load(p.gamma.add(c)),
        )
    };
    let sum = warp::sum_xor(y * y);
    if c.is_multiple_of(32) {
        // SAFETY: `c / 32 < 4`; each slot has one writer and no reader before the barrier.
        unsafe { shared::store(sums.add(c / 32), sum) };
    }
    sync_threads();
    // SAFETY: all four slots were written before the barrier and are not written again.
    let ss = group_sum(unsafe { shared::load4(sums) });
    let out = float::f32_to_f16(normed::<SILU>(y, norm_scale(ss, p.eps), gamma, z));
    // SAFETY: as for the loads; one writer an element.
    unsafe { global::store(p.y16.add(token * p.y16_stride as usize + at), out) };
}
