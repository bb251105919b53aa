//! `delta.out_norm/warp`: a warp normalises one head of two tokens with 16-byte accesses.
//!
//! Math      as `delta.out_norm/block`
//! Shapes    `OutNormParams`; any token and head count
//! Mapping   block (x: 2 tokens, y: 8 heads), warp w = head 8 y + w; lane l = columns 4 l .. 4 l + 3
//! Order     the base's butterfly, on other wires: columns 32 w .. 32 w + 31 lie in lanes 8 w .. 8 w + 7, so xor 16, 8, 4
//!           of columns are xor 4, 2, 1 of lanes, and xor 2, 1 pair values inside a lane; then ((w0 + w1) + w2) + w3
//! Barriers  none
//! Budget    40 registers, 0 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Bitwise against `delta.out_norm/block`

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, block_idx_y, thread_idx_x};
use cuda_std::{float, global, kernel, warp};

use super::{OutNormParams, group_sum, norm_scale, normed};
use crate::geometry::HEAD_DIM;

/// Eight warps; a full SM of them.
pub const BOUNDS: Bounds = Bounds { threads: 256, min_blocks: 6 };
/// Heads of a block, a warp each.
pub const HEADS: u32 = BOUNDS.threads / 32;
/// Tokens of a warp: their loads are all under way before the first sum.
pub const TOKENS: u32 = 2;

/// # Safety
/// Shapes, alignment and aliasing as `OutNormParams` says; grid `(tokens / 2, value_heads / 8)`, both rounded up, block 256.
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
    let (thread, lane) = (thread_idx_x() as usize, thread_idx_x() % 32);
    let (first, head) = (block_idx_x() * TOKENS, block_idx_y() as usize * HEADS as usize + thread / 32);
    if head >= p.value_heads as usize {
        return; // a whole warp, and no barrier follows
    }
    let c = 4 * lane as usize;
    let at = head * HEAD_DIM + c;
    // SAFETY: `c + 3 < 128`, a multiple of 4 elements. Read only.
    let gamma = unsafe { global::load4_nc(p.gamma.add(c)) };
    let mut rows = [([0.0f32; 4], [0.0f32; 4]); TOKENS as usize];
    for (i, row) in rows.iter_mut().enumerate() {
        let token = (first + i as u32).min(p.tokens - 1) as usize;
        // SAFETY: `token < tokens`, `head < value_heads`; multiples of 4 elements. Read only.
        *row = unsafe {
            let y = p.y.add(token * p.y_stride as usize + at);
            (global::load4_nc(y), global::load4_nc(p.z.add(token * p.z_stride as usize + at)))
        };
    }
    for (i, (y, z)) in rows.into_iter().enumerate() {
        let scale = norm_scale(sum_of_squares(y, lane), p.eps);
        let out = [0, 1, 2, 3].map(|j| normed::<SILU>(y[j], scale, gamma[j], z[j]));
        let packed = [float::f32x2_to_f16x2(out[0], out[1]), float::f32x2_to_f16x2(out[2], out[3])];
        let token = first + i as u32;
        if token < p.tokens {
            // SAFETY: as for the loads; the address is a multiple of 8 bytes; one writer an element.
            unsafe { global::store2(p.y16.add(token as usize * p.y16_stride as usize + at).cast::<u32>(), packed) };
        }
    }
}

/// Sum of the squares of a row, of which the lane holds columns 4 l .. 4 l + 3, in the base's order. Each step of the
/// butterfly over columns halves what a lane carries on, since every lane of a group would get the same sum.
#[inline(always)]
fn sum_of_squares(y: [f32; 4], lane: u32) -> f32 {
    let q = y.map(|v| v * v);
    // Columns xor 16: lanes xor 4. Lanes without bit 4 go on with values 0 and 1, the others with 2 and 3.
    let upper = lane & 4 != 0;
    let (keep, send) = if upper { ([q[2], q[3]], [q[0], q[1]]) } else { ([q[0], q[1]], [q[2], q[3]]) };
    let two = [keep[0] + warp::shfl_xor(send[0], 4), keep[1] + warp::shfl_xor(send[1], 4)];
    // Columns xor 8: lanes xor 2. Lanes without bit 2 go on with the even value, the others with the odd one.
    let odd = lane & 2 != 0;
    let (keep, send) = if odd { (two[1], two[0]) } else { (two[0], two[1]) };
    let one = keep + warp::shfl_xor(send, 2);
    // Columns xor 4: lanes xor 1. Then columns xor 2 and xor 1, whose values lie in lanes xor 4 and xor 2.
    let one = one + warp::shfl_xor(one, 1);
    let pair = one + warp::shfl_xor(one, 4);
    let sum = pair + warp::shfl_xor(pair, 2);
    group_sum([0, 8, 16, 24].map(|lane| warp::shfl_idx(sum, lane)))
}
