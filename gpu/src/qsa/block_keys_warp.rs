//! `qsa.block_keys/warp`: a warp makes the key of one block that the call completes.
//!
//! Math      rope(norm(mean of the block's raw keys, gain)) at the position of the block's first token
//! Shapes    `BlockKeysParams`
//! Mapping   warp number = block - first_block; lane l: columns 4 l .. 4 l + 3 of every 128
//! Order     mean: sum over the tokens ascending, times inv_ratio; norm and rotation as `attn.norm_rope`
//! Barriers  none
//! Budget    64 registers, 0 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Base

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, thread_idx_x};
use cuda_std::{global, kernel};

use super::BlockKeysParams;
use crate::attn::norm_rope_row;

/// Four warps, which share nothing.
pub const BOUNDS: Bounds = Bounds { threads: 128, min_blocks: 8 };
/// Keys of a block, a warp each.
pub const WARPS: u32 = BOUNDS.threads / 32;

/// # Safety
/// Shapes and alignment as `BlockKeysParams` says; grid `blocks / 4` rounded up, block 128.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn qsa_block_keys_warp(p: BlockKeysParams) {
    let (at, lane) = (block_idx_x() * WARPS + thread_idx_x() / 32, thread_idx_x() % 32);
    if at >= p.blocks {
        return; // a whole warp
    }
    let block = p.first_block + at;
    let start = block * p.ratio;
    let dim = p.dim as usize;
    let mean = |c: u32| {
        let mut sum = [0.0f32; 4];
        for j in 0..p.ratio {
            let position = start + j;
            // SAFETY: at most ratio - 1 tokens of a block that ends in the call lie before it, in the window.
            let row = unsafe {
                if position < p.rope.first {
                    p.window.add((position + p.ratio - 1 - p.rope.first) as usize * dim)
                } else {
                    p.raw.add((position - p.rope.first) as usize * p.raw_stride as usize)
                }
            };
            // SAFETY: `c + 3 < dim`.
            let v = unsafe { global::load4_nc(row.add(c as usize)) };
            sum = [0, 1, 2, 3].map(|i| sum[i] + v[i]);
        }
        sum.map(|v| v * p.inv_ratio)
    };
    // SAFETY: the context holds the block; its first position is within the tables.
    unsafe {
        let key = p.keys.add(block as usize * dim);
        norm_rope_row(mean, p.gain, key, p.dim, (p.eps, p.inv_dim), &p.rope, start as usize, lane);
    }
}
