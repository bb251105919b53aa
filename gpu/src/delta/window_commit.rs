//! `delta.commit/window`: replays the accepted tokens of a window into the state; no output.
//!
//! Math      the state half of the module's recurrence, for the first `accepted` tokens
//! Shapes    `CommitParams`; the count is read from device memory, since the launch sits in a captured graph
//! Mapping   as `delta.rec/window`
//! Order     as `delta.rec/window`: the state gets the bits of that many decode steps
//! Budget    200 registers, 9,856 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Base; tested bit for bit against `delta.rec/cols` on the accepted tokens

use cuda_std::launch::Bounds;
use cuda_std::{float, global, kernel, shared_array};

use super::CommitParams;
use super::row_group::{kv_partial, read_row};
use super::token_slots::slot_len;
use super::window_step::open;
use crate::geometry::{GROUP_ROWS, WINDOW_TOKENS};

/// One warp a block, as `delta.rec/window`.
pub const BOUNDS: Bounds = Bounds { threads: 32, min_blocks: 1 };

/// # Safety
/// Shapes, alignment and aliasing as `CommitParams` says, at most 8 tokens; grid `value_heads * 8`, block 32.
#[kernel(sm = 80)]
#[launch_bounds(BOUNDS)]
pub unsafe fn delta_commit_window(p: CommitParams) {
    // SAFETY: one u32 that nobody writes during the launch.
    let tokens = unsafe { global::load(p.accepted) }.min(p.window.tokens);
    if tokens == 0 {
        return; // the same for every thread of the launch, and no barrier follows
    }
    let slots = shared_array![f32; WINDOW_TOKENS * slot_len(1)];
    // SAFETY: same contract, and `tokens <= 8`.
    let (staged, part, mut carried) = unsafe { open(&p.window, tokens, slots) };
    for t in 0..tokens as usize {
        // SAFETY: `t < tokens`, landed.
        let (k, (g, d)) = unsafe {
            let here = staged.slot(t);
            let k = read_row(staged.k_row(here));
            (k, staged.corrections(here, kv_partial(&carried.s, &k)))
        };
        for r in 0..GROUP_ROWS {
            for c in 0..2 {
                carried.s[c][r] = float::fma(g, carried.s[c][r], k[r] * d[c]);
            }
        }
    }
    part.store(&carried.s);
}
