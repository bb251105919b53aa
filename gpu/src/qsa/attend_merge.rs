//! `qsa.attend/chunk` and `early`, second of two launches: puts a head's chunks together and gates the output. `early` starts beside
//! the first launch and waits for its end.
//!
//! Math      M = max m_c; w_c = exp(m_c - M), L = sum l_c w_c, o = sum w_c sums_c / L; y = o sigmoid(gate); 0 where L is 0
//! Shapes    `AttendParams`, scratch as `attend_chunk.rs` left it
//! Mapping   grid (heads, rows), thread d = value d; lane l of every warp has the weight of chunk l of 32
//! Order     fma chains over the chunks, ascending; chunks without cells are left out
//! Barriers  none
//! Budget    96 registers, 0 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Base, with `attend_chunk.rs`; `early` Bitwise

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, block_idx_y, thread_idx_x};
use cuda_std::{float, global, grid, kernel, warp};

use super::HEAD_DIM;
use super::attend::{AttendParams, Attended, MASKED};

/// A thread a value of a head.
pub const BOUNDS: Bounds = Bounds { threads: 256, min_blocks: 2 };
const _: () = assert!(BOUNDS.threads as usize == HEAD_DIM);
/// Sums under way at once.
const BATCH: u32 = 16;
/// In the place of a weight: the chunk has no cells. Weights are not below 0.
const LEFT_OUT: f32 = -1.0;

/// # Safety
/// As [`body`].
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn qsa_attend_chunk_merge(p: AttendParams) {
    // SAFETY: same contract.
    unsafe { body(p, || ()) }
}

/// # Safety
/// As [`body`]; may start before the launch that writes scratch has ended, but not before what that one waited for.
#[kernel(sm = 90)]
#[launch_bounds(BOUNDS)]
pub unsafe fn qsa_attend_early_merge(p: AttendParams) {
    // SAFETY: same contract.
    unsafe { body(p, grid::wait_for_previous) }
}

/// # Safety
/// Shapes and alignment as `AttendParams` says, scratch written by `attend_chunk.rs` when `wait` returns; grid `(heads, rows)`, block
/// 256.
#[inline(always)]
unsafe fn body(p: AttendParams, wait: impl Fn()) {
    let (d, head, row) = (thread_idx_x() as usize, block_idx_x() as usize, block_idx_y() as usize);
    let lane = thread_idx_x() % 32;
    let heads = p.heads as usize;
    // SAFETY: the grid has `heads` of x, `rows` of y; `d < HEAD_DIM`.
    let (chunks, gate) = unsafe {
        let at = row * p.gate_stride as usize + head * p.gate_head_stride as usize + d;
        (Attended::of(&p, row).chunks(), global::load_nc(p.gate.add(at)))
    };
    wait();
    let part = |chunk: u32| (row * p.chunks as usize + chunk as usize) * heads + head;
    // Not through the read-only cache: the launch may be older than what is read.
    let mut top = MASKED;
    let mut c = lane;
    while c < chunks {
        // SAFETY: a chunk of the row, so it was written.
        top = float::max(top, unsafe { global::load(p.tops.add(2 * part(c))) });
        c += 32;
    }
    let top = warp::max_xor(top);
    let (mut total, mut acc) = (0.0f32, 0.0f32);
    let mut first = 0;
    while first < chunks {
        let (mut weight, mut sum) = (LEFT_OUT, 0.0);
        if first + lane < chunks {
            // SAFETY: as above.
            let [m, l] = unsafe { global::load2(p.tops.add(2 * part(first + lane))) };
            if m != MASKED {
                (weight, sum) = (float::exp(m - top), l);
            }
        }
        for batch in 0..32 / BATCH {
            let mut sums = [0.0f32; BATCH as usize];
            for i in 0..BATCH {
                let c = first + batch * BATCH + i;
                let c = if c < chunks { c } else { chunks - 1 };
                // SAFETY: as above.
                sums[i as usize] = unsafe { global::load(p.sums.add(part(c) * HEAD_DIM + d)) };
            }
            for i in 0..BATCH {
                let w = warp::shfl_idx(weight, batch * BATCH + i);
                let l = warp::shfl_idx(sum, batch * BATCH + i);
                if w != LEFT_OUT {
                    total = float::fma(l, w, total);
                    acc = float::fma(sums[i as usize], w, acc);
                }
            }
        }
        first += 32;
    }
    let y = if total == 0.0 { 0.0 } else { acc / total };
    // SAFETY: one writer an element.
    unsafe { global::store(p.y.add((row * heads + head) * HEAD_DIM + d), y * float::sigmoid(gate)) };
}
