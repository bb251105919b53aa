//! `delta.gated_norm/warp`: a warp normalises and gates one head of one token, to f32.
//!
//! Math      out = y * rsqrt(mean(y^2) + eps) * gamma * act(z), left to right; act is sigmoid or SiLU
//! Shapes    `GatedNormParams`
//! Mapping   warp number = token * value_heads + head; lane l: columns 4 l .. 4 l + 3
//! Order     squares: fma chain over the lane's four, then xor 16, 8, 4, 2, 1
//! Barriers  none
//! Budget    64 registers, 0 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Base

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, thread_idx_x};
use cuda_std::{float, global, kernel, warp};

use super::GatedNormParams;
use crate::geometry::HEAD_DIM;

/// Four warps, which share nothing.
pub const BOUNDS: Bounds = Bounds { threads: 128, min_blocks: 8 };
/// Heads of a block, a warp each.
pub const WARPS: u32 = BOUNDS.threads / 32;

/// # Safety
/// Shapes, alignment and aliasing as `GatedNormParams` says; grid `tokens * value_heads / 4` rounded up, block 128.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn delta_gated_norm_warp_sigmoid(p: GatedNormParams) {
    // SAFETY: same contract.
    unsafe { body::<false>(p) }
}

/// # Safety
/// As [`delta_gated_norm_warp_sigmoid`].
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn delta_gated_norm_warp_silu(p: GatedNormParams) {
    // SAFETY: same contract.
    unsafe { body::<true>(p) }
}

#[inline(always)]
unsafe fn body<const SILU: bool>(p: GatedNormParams) {
    let (at, lane) = (block_idx_x() * WARPS + thread_idx_x() / 32, thread_idx_x() % 32);
    let (token, head) = ((at / p.value_heads) as usize, (at % p.value_heads) as usize);
    if token >= p.tokens as usize {
        return; // a whole warp
    }
    let c = 4 * lane as usize;
    let inside = c < p.head_dim as usize;
    let mut y = [0.0f32; 4];
    if inside {
        // SAFETY: `c + 3 < head_dim <= HEAD_DIM`, `token < tokens`, `head < value_heads`.
        y = unsafe { global::load4_nc(p.y.add(token * p.y_stride as usize + head * HEAD_DIM + c)) };
    }
    let mut sum = 0.0f32;
    for v in y {
        sum = float::fma(v, v, sum);
    }
    let scale = float::rsqrt(warp::sum_xor(sum) * p.inv_dim + p.eps);
    if !inside {
        return; // no warp operation follows
    }
    let column = head * p.head_dim as usize + c;
    // SAFETY: as above; one writer an element.
    unsafe {
        let z = global::load4_nc(p.z.add(token * p.z_stride as usize + column));
        let gamma = global::load4_nc(p.gamma.add(c));
        let gate = z.map(|z| if SILU { float::silu(z) } else { float::sigmoid(z) });
        let out = [0, 1, 2, 3].map(|j| y[j] * scale * gamma[j] * gate[j]);
        global::store4(p.out.add(token * p.out_stride as usize + column), out);
    }
}
