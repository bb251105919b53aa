//! `delta.commit/window`: replays the accepted tokens of a window into the state; no q, no output.
//!
//! Math      the state half of the module's recurrence, for the first `accepted` tokens
//! Shapes    `CommitParams`; the count is read from device memory, since the launch sits in a captured graph
//! Mapping   as `delta.rec/window`
//! Order     as `delta.rec/window`: the state gets the bits of that many decode steps
//! Budget    168 registers, 4,608 B shared, 0 B local (tests/tests/ptx/budgets.rs)
//! Promise   Base; tested bit for bit against `delta.rec/cols` on the accepted tokens

use cuda_std::launch::Bounds;
use cuda_std::thread::block_idx_x;
use cuda_std::{copy, float, global, kernel, shared_array, warp};

use super::CommitParams;
use super::row_group::{HeadRows, Place, ROW, StatePart, kv_partial, read_row};
use super::window_step::{BLOCKS, C, COLUMNS, Token, stage_rows};
use crate::geometry::{GROUP_ROWS, WINDOW_TOKENS};

/// One warp a block, as `delta.rec/window`.
pub const BOUNDS: Bounds = Bounds { threads: 32, min_blocks: 1 };

/// # Safety
/// Shapes, alignment and aliasing as `CommitParams` says, window <= 8; grid `value_heads * 8`, block 32.
#[kernel(sm = 80)]
#[launch_bounds(BOUNDS)]
pub unsafe fn delta_commit_window(p: CommitParams) {
    // SAFETY: one u32 that nobody writes during the launch.
    let tokens = unsafe { global::load(p.accepted) }.min(p.window) as usize;
    if tokens == 0 {
        return; // the same for every thread of the launch, and no barrier follows
    }
    let place = Place::here();
    let (head, column) = (block_idx_x() as usize / BLOCKS, block_idx_x() as usize % BLOCKS * COLUMNS);
    let rows = HeadRows::new(p.key_heads, head);
    let k_rows = shared_array![f32; WINDOW_TOKENS * ROW];
    // SAFETY: `tokens <= window <= 8` rows; the destination holds 8.
    unsafe { stage_rows(k_rows, p.qkv.add(rows.k), p.qkv_stride, tokens) };
    // SAFETY: the grid has 8 blocks a head; only this lane touches its part.
    let part = unsafe { StatePart::new::<C>(p.state, p.value_heads, head, column, place) };
    let mut s = part.load::<C>();
    copy::cp_async_wait_all();
    warp::sync_warp(u32::MAX);

    for t in 0..tokens {
        // SAFETY: `t < tokens`; all addresses inside the token's rows, v a multiple of 8 bytes.
        let token = unsafe {
            let v = p.qkv.add(t * p.qkv_stride as usize + rows.v + column + C * place.place);
            let gate = p.gate.add(t * p.gate_stride as usize + head);
            Token::read(v, gate, p.beta.add(t * p.beta_stride as usize + head))
        };
        // SAFETY: `t < tokens`, staged and waited for.
        let k = unsafe { read_row(k_rows.add(t * ROW), place) };
        let d = token.corrections(place, kv_partial(&s, &k));
        for r in 0..GROUP_ROWS {
            for c in 0..C {
                s[c][r] = float::fma(token.g, s[c][r], k[r] * d[c]);
            }
        }
    }
    part.store(&s);
}
