//! `delta.rec/cols`: a thread holds 32 state rows of one column; the base of the sequential family.
//!
//! Math      the module's recurrence, one token after the other
//! Shapes    `RecParams`; any head counts with value_heads a multiple of key_heads, any token count
//! Mapping   block (head h, column block cb of 32) = 4 h + cb; thread (x, y): column 32 cb + x, rows 32 y .. + 31
//! Order     thread: fma chain, r ascending; column: ((p0 + p1) + p2) + p3 through shared memory
//! Barriers  five a token, by all 128 threads: before the staged rows are overwritten, after staging, after the kv
//!           partials, before the partials are reused, after the output partials; no thread returns early
//! Pipeline  the q, k element, v, gate and beta of token t + 1 are loaded while token t computes
//! Budget    120 registers, 1,536 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Base

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, sync_threads, thread_idx_x, thread_idx_y};
use cuda_std::{float, global, int, kernel, shared, shared_array};

use super::{RecParams, correction, group_sum, output, update_row};
use crate::geometry::{GROUP_ROWS, HEAD_DIM, ROW_GROUPS};

/// 32 columns by 4 row groups; four blocks an SM keep all 192 blocks of 48 heads on 48 SMs.
pub const BOUNDS: Bounds = Bounds { threads: 128, min_blocks: 4 };
/// Columns of a block.
pub const COLUMNS: u32 = 32;

/// What a token needs besides its shared rows, loaded one token ahead.
#[derive(Clone, Copy)]
struct Ahead {
    q: f32,
    k: f32,
    v: f32,
    gate: f32,
    beta: f32,
}

/// # Safety
/// Shapes, alignment and aliasing as `RecParams` says; grid `value_heads * 4`, block 32 x 4.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn delta_rec_cols(p: RecParams) {
    // SAFETY: the grid's y is a sequence. The same for every thread of the block, before its first barrier.
    let p = unsafe { p.of_block() };
    if p.tokens == 0 {
        return;
    }
    let (x, group) = (thread_idx_x() as usize, thread_idx_y() as usize);
    let (head, column_block) = (block_idx_x() as usize / ROW_GROUPS, block_idx_x() as usize % ROW_GROUPS);
    let column = head * HEAD_DIM + column_block * COLUMNS as usize + x;
    let thread = group * COLUMNS as usize + x;
    let key_width = p.key_heads as usize * HEAD_DIM;
    let key_head = head % p.key_heads as usize * HEAD_DIM;
    let row_pitch = p.value_heads as usize * HEAD_DIM;
    let k_row = shared_array![f32; HEAD_DIM];
    let q_row = shared_array![f32; HEAD_DIM];
    let partial = shared_array![f32; HEAD_DIM];

    // SAFETY: the grid has 4 blocks a head, so `head < value_heads`, `column < value_heads * 128` and every row index is
    // below 128; only this thread touches its (rows, column) of the state.
    let state = unsafe { p.state.add(GROUP_ROWS * group * row_pitch + column) };
    let mut s = [0.0f32; GROUP_ROWS];
    for r in 0..GROUP_ROWS {
        // SAFETY: as above.
        s[r] = unsafe { global::load(state.add(r * row_pitch)) };
    }
    let load = |t: u32| {
        let row = t as usize * p.qkv_stride as usize;
        // SAFETY: `t < tokens`; `thread < 128` stays in the key head's row, `column` in the value part. Read only.
        unsafe {
            Ahead {
                q: global::load(p.qkv.add(row + key_head + thread)),
                k: global::load(p.qkv.add(row + key_width + key_head + thread)),
                v: global::load(p.qkv.add(row + 2 * key_width + column)),
                gate: global::load(p.gate.add(t as usize * p.gate_stride as usize + head)),
                beta: global::load(p.beta.add(t as usize * p.beta_stride as usize + head)),
            }
        }
    };
    // SAFETY: `thread < 128`, the length of `partial`; see the barriers in the header for who reads when.
    let gather = || unsafe { [0, 1, 2, 3].map(|j| shared::load(partial.add(j * COLUMNS as usize + x))) };

    let mut ahead = load(0);
    for t in 0..p.tokens {
        let now = ahead;
        sync_threads();
        // SAFETY: each thread writes its own element; the previous readers passed the barrier above.
        unsafe {
            shared::store(k_row.add(thread), now.k);
            shared::store(q_row.add(thread), now.q);
        }
        sync_threads();
        if t + 1 < p.tokens {
            ahead = load(t + 1);
        }
        let g = float::exp(now.gate);
        let mut kv = 0.0;
        let mut k = [0.0f32; GROUP_ROWS];
        for r in (0..GROUP_ROWS).step_by(4) {
            // SAFETY: `32 group + r + 3 < 128`, a multiple of 4; written before the barrier above.
            let four = unsafe { shared::load4(k_row.add(GROUP_ROWS * group + r)) };
            for i in 0..4 {
                k[r + i] = four[i];
                kv = float::fma(s[r + i], four[i], kv);
            }
        }
        // SAFETY: own element; the readers of the previous token's output partials passed the first barrier.
        unsafe { shared::store(partial.add(thread), kv) };
        sync_threads();
        let d = correction(g, group_sum(gather()), now.v, now.beta);
        let mut o = 0.0;
        for r in (0..GROUP_ROWS).step_by(4) {
            // SAFETY: as for `k_row`.
            let q = unsafe { shared::load4(q_row.add(GROUP_ROWS * group + r)) };
            for i in 0..4 {
                update_row(&mut s[r + i], &mut o, g, d, k[r + i], q[i]);
            }
        }
        sync_threads();
        // SAFETY: own element; all have read the kv partials.
        unsafe { shared::store(partial.add(thread), o) };
        sync_threads();
        if group == 0 {
            // SAFETY: `t < tokens`, `column < value_heads * 128`; one writer an element.
            unsafe { global::store(p.y.add(t as usize * p.y_stride as usize + column), output(gather())) };
        }
    }
    if p.keep_state == 0 {
        let row_pitch = int::opaque(row_pitch); // else 32 addresses stay in registers from the loads on
        for r in 0..GROUP_ROWS {
            // SAFETY: as for the loads of the state.
            unsafe { global::store(state.add(r * row_pitch), s[r]) };
        }
    }
}
