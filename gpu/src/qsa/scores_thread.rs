//! `qsa.scores/thread`: a thread scores one block for one query.
//!
//! Math      score = scale * sum over heads of max(0, q_h . key)
//! Shapes    `ScoresParams`
//! Mapping   grid (blocks / 128, tokens): a thread a block
//! Order     head: fma chain over the columns; heads ascending
//! Barriers  none
//! Budget    64 registers, 0 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Base

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, block_idx_y, thread_idx_x};
use cuda_std::{float, global, kernel};

use super::ScoresParams;

/// 128 blocks of tokens.
pub const BOUNDS: Bounds = Bounds { threads: 128, min_blocks: 8 };

/// # Safety
/// Shapes and alignment as `ScoresParams` says; grid `(blocks / 128 rounded up, tokens)`, block 128.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn qsa_scores_thread(p: ScoresParams) {
    let (block, token) = (block_idx_x() * BOUNDS.threads + thread_idx_x(), block_idx_y());
    if block >= (p.first + token + 1) / p.ratio {
        return;
    }
    let dim = p.dim as usize;
    let mut sum = 0.0f32;
    // SAFETY: the block is complete, so its key is written; `token < tokens`.
    unsafe {
        let key = p.keys.add(block as usize * dim);
        for head in 0..p.heads as usize {
            let q = p.q.add((token as usize * p.heads as usize + head) * dim);
            let mut dot = 0.0f32;
            let mut c = 0;
            while c < dim {
                let (a, b) = (global::load4_nc(q.add(c)), global::load4_nc(key.add(c)));
                for j in 0..4 {
                    dot = float::fma(a[j], b[j], dot);
                }
                c += 4;
            }
            sum += float::max(dot, 0.0);
        }
        global::store(p.scores.add(token as usize * p.stride as usize + block as usize), sum * p.scale);
    }
}
