//! `delta.out_norm/warp`: a warp normalises one head of one token with 16-byte accesses.
//!
//! Math      as `delta.out_norm/block`
//! Shapes    `OutNormParams`; any token and head count
//! Mapping   block (x: token, y: 8 heads), warp w = head 8 y + w; lane l = columns 4 l .. 4 l + 3
//! Order     the base's butterfly, on other wires: columns 32 w .. 32 w + 31 lie in lanes 8 w .. 8 w + 7, so xor 16, 8, 4
//!           of columns are xor 4, 2, 1 of lanes, and xor 2, 1 pair values inside a lane; then ((w0 + w1) + w2) + w3
//! Barriers  none
//! Budget    40 registers, 0 B shared, 0 B local (tests/tests/ptx/budgets.rs)
//! Promise   Bitwise against `delta.out_norm/block`

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, block_idx_y, thread_idx_x};
use cuda_std::{float, global, kernel, warp};

use super::{OutNormParams, group_sum, norm_scale, normed};
use crate::geometry::HEAD_DIM;

/// Eight warps; a full SM of them.
pub const BOUNDS: Bounds = Bounds { threads: 256, min_blocks: 6 };
/// Heads of a block.
pub const HEADS: u32 = BOUNDS.threads / 32;

/// # Safety
/// Shapes, alignment and aliasing as `OutNormParams` says; grid `(tokens, value_heads / 8 rounded up)`, block 256.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn delta_out_norm_warp_sigmoid(p: OutNormParams) {
    // SAFETY: same contract.
    unsafe { body::<false>(p) }
}

/// # Safety
/// As [`delta_out_norm_warp_sigmoid`].
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn delta_out_norm_warp_silu(p: OutNormParams) {
    // SAFETY: same contract.
    unsafe { body::<true>(p) }
}

#[inline(always)]
unsafe fn body<const SILU: bool>(p: OutNormParams) {
    let thread = thread_idx_x() as usize;
    let (token, head) = (block_idx_x() as usize, block_idx_y() as usize * HEADS as usize + thread / 32);
    if head >= p.value_heads as usize {
        return; // a whole warp, and no barrier follows
    }
    let c = 4 * (thread % 32);
    let at = head * HEAD_DIM + c;
    // SAFETY: `token < tokens` by the grid, `head < value_heads`, `c + 3 < 128`; all multiples of 4 elements. Read only.
    let (y, z, gamma) = unsafe {
        (
            global::load4_nc(p.y.add(token * p.y_stride as usize + at)),
            global::load4_nc(p.z.add(token * p.z_stride as usize + at)),
            global::load4_nc(p.gamma.add(c)),
        )
    };
    let mut sums = y.map(|v| v * v);
    for lanes in [4, 2, 1] {
        sums = sums.map(|v| v + warp::shfl_xor(v, lanes));
    }
    let sum = (sums[0] + sums[2]) + (sums[1] + sums[3]);
    let ss = group_sum([0, 8, 16, 24].map(|lane| warp::shfl_idx(sum, lane)));
    let scale = norm_scale(ss, p.eps);
    let out = [0, 1, 2, 3].map(|i| normed::<SILU>(y[i], scale, gamma[i], z[i]));
    let packed = [float::f32x2_to_f16x2(out[0], out[1]), float::f32x2_to_f16x2(out[2], out[3])];
    // SAFETY: as for the loads; the address is a multiple of 8 bytes; one writer an element.
    unsafe { global::store2(p.y16.add(token * p.y16_stride as usize + at).cast::<u32>(), packed) };
}
