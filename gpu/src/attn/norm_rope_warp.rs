//! `attn.norm_rope/warp`: a warp norms and rotates one head of one token.
//!
//! Math      n = x * rsqrt(mean(x^2) + eps) * gain; channels i and i + half, i < half: (a cos - b sin, b cos + a sin)
//! Shapes    `NormRopeParams`
//! Mapping   warp number = token * heads + head; lane l: columns 4 l .. 4 l + 3 of every 128
//! Order     sum: lane's fma chain, columns ascending, then xor 16, 8, 4, 2, 1; rotation: fma(a, cos, b * -sin)
//! Barriers  none
//! Budget    64 registers, 0 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Base

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, thread_idx_x};
use cuda_std::{global, kernel};

use super::{NormRopeParams, norm_rope_row};

/// Four warps, which share nothing.
pub const BOUNDS: Bounds = Bounds { threads: 128, min_blocks: 8 };
/// Heads of a block, a warp each.
pub const WARPS: u32 = BOUNDS.threads / 32;

/// # Safety
/// Shapes, alignment and aliasing as `NormRopeParams` says; grid `tokens * heads / 4` rounded up, block 128.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn attn_norm_rope_warp(p: NormRopeParams) {
    let (at, lane) = (block_idx_x() * WARPS + thread_idx_x() / 32, thread_idx_x() % 32);
    let (token, head) = ((at / p.heads) as usize, (at % p.heads) as usize);
    if token >= p.tokens as usize {
        return; // a whole warp
    }
    let position = p.rope.first as usize + token;
    // SAFETY: `token < tokens`, `head < heads`; columns are checked against `dim` by the row; positions by the host.
    unsafe {
        let x = p.x.add(token * p.x_stride as usize + head * p.head_stride as usize);
        let y = p.y.add(token * p.y_stride as usize + head * p.dim as usize);
        let load = |c: u32| global::load4(x.add(c as usize));
        norm_rope_row(load, p.gain, y, p.dim, (p.eps, p.inv_dim), &p.rope, position, lane);
    }
}
