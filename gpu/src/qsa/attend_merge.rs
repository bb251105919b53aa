//! `qsa.attend/chunk` and `early`, second of two launches: puts a head's chunks together and gates the output. `early` starts beside
//! the first launch and waits for its end.
//!
//! Math      M = max m_c; w_c = exp(m_c - M), L = sum l_c w_c, o = sum w_c sums_c / L; y = o sigmoid(gate); 0 where L is 0
//! Shapes    `AttendParams`, scratch as `attend_chunk.rs` left it
//! Mapping   grid (heads * PARTS, rows), a quarter of a head's values, one a thread; lane l of every warp has the weights of chunks
//!           l and 32 + l of TILE; all loads of a tile are under way at once
//! Order     fma chains over the chunks, ascending; chunks without cells are left out
//! Barriers  none
//! Budget    112 registers, 0 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Base, with `attend_chunk.rs`; `early` Bitwise

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, block_idx_y, thread_idx_x};
use cuda_std::{float, global, grid, kernel, warp};

use super::HEAD_DIM;
use super::attend::{AttendParams, Attended, MASKED};

/// A thread a value of a head.
pub const BOUNDS: Bounds = Bounds { threads: 64, min_blocks: 8 };
/// Blocks of a head: with one row 96 SMs have a share of the loads.
pub const PARTS: usize = HEAD_DIM / BOUNDS.threads as usize;
/// Chunks whose sums are under way at once: no fewer than the 33 of 2,051 cells.
const TILE: u32 = 36;
const _: () = assert!(TILE > 32 && TILE <= 64);
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

/// A head's scratch.
#[derive(Clone, Copy)]
struct Scratch {
    /// Of the first chunk.
    tops: *const f32,
    /// Of the first chunk, from the thread's value on.
    sums: *const f32,
    /// Heads of a chunk.
    heads: usize,
    /// Chunks with cells, at least 1.
    chunks: u32,
}

impl Scratch {
    /// Largest score and sum of weights of chunk `c`; [`MASKED`] where there is none.
    ///
    /// # Safety
    /// Scratch has been written.
    #[inline(always)]
    unsafe fn top(&self, c: u32) -> [f32; 2] {
        let at = if c < self.chunks { c } else { self.chunks - 1 } as usize;
        // SAFETY: a chunk of the row, so it was written. Not through the read-only cache: this launch may be older than that.
        let read = unsafe { global::load2(self.tops.add(2 * at * self.heads)) };
        if c < self.chunks { read } else { [MASKED, 0.0] }
    }

    /// The thread's sums of the chunks from `first` on, which is one; the last one's again beyond it.
    ///
    /// # Safety
    /// As [`top`](Self::top).
    #[inline(always)]
    unsafe fn tile(&self, first: u32) -> [f32; TILE as usize] {
        let mut sums = [0.0; TILE as usize];
        let mut at = self.sums.wrapping_add(first as usize * self.heads * HEAD_DIM);
        for i in 0..TILE {
            // SAFETY: as in `top`.
            sums[i as usize] = unsafe { global::load(at) };
            let step = if first + i + 1 < self.chunks { self.heads * HEAD_DIM } else { 0 };
            at = at.wrapping_add(step); // one address at a time: all of them would not stay in registers
        }
        sums
    }
}

/// # Safety
/// Shapes and alignment as `AttendParams` says, scratch written by `attend_chunk.rs` when `wait` returns; grid `(heads * PARTS,
/// rows)`, block 64.
#[inline(always)]
unsafe fn body(p: AttendParams, wait: impl Fn()) {
    let (block, row) = (block_idx_x() as usize, block_idx_y() as usize);
    let (head, d) = (block / PARTS, block % PARTS * BOUNDS.threads as usize + thread_idx_x() as usize);
    let (lane, heads) = (thread_idx_x() % 32, p.heads as usize);
    // SAFETY: the grid has `heads * PARTS` of x, `rows` of y; `d < HEAD_DIM`.
    let (chunks, gate) = unsafe {
        let at = row * p.gate_stride as usize + head * p.gate_head_stride as usize + d;
        (Attended::of(&p, row).chunks(), global::load_nc(p.gate.add(at)))
    };
    wait();
    grid::let_next_start();
    let first_part = row * p.chunks as usize * heads + head;
    let tops = p.tops.wrapping_add(2 * first_part).cast_const();
    let sums = p.sums.wrapping_add(first_part * HEAD_DIM + d).cast_const();
    let scratch = Scratch { tops, sums, heads, chunks };
    let (mut total, mut acc, mut largest) = (0.0f32, 0.0f32, MASKED);
    let mut first = 0;
    while first < chunks {
        // SAFETY: the row's chunks were written.
        let (tops, sums) = unsafe { ([0, 32].map(|side| scratch.top(first + side + lane)), scratch.tile(first)) };
        if first == 0 {
            largest = float::max(tops[0][0], tops[1][0]);
            let mut c = 64 + lane;
            while c < chunks {
                // SAFETY: as above.
                largest = float::max(largest, unsafe { scratch.top(c)[0] });
                c += 32;
            }
            largest = warp::max_xor(largest);
        }
        let weights = tops.map(|[m, _]| if m == MASKED { LEFT_OUT } else { float::exp(m - largest) });
        for i in 0..TILE {
            let (side, from) = (i as usize / 32, i % 32);
            let w = warp::shfl_idx(weights[side], from);
            let l = warp::shfl_idx(tops[side][1], from);
            if w != LEFT_OUT {
                total = float::fma(l, w, total);
                acc = float::fma(sums[i as usize], w, acc);
            }
        }
        first += TILE;
    }
    let y = if total == 0.0 { 0.0 } else { acc / total };
    // SAFETY: one writer an element.
    unsafe { global::store(p.y.add((row * heads + head) * HEAD_DIM + d), y * float::sigmoid(gate)) };
}
