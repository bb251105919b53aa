//! `attn.softmax/chunks`: a block attends one query head of one token over its keys in chunks of 32.
//!
//! Math      y = sigmoid(gate) * sum over s of softmax(q . k_s * scale) v_s, s over the visible tokens
//! Shapes    `SoftmaxParams`
//! Mapping   grid (tokens, heads); warp w takes chunks w, w + 4, ..; in a chunk lane = key for the scores, lane l =
//!           channels 4 l .. 4 l + 3 of every 128 for the values
//! Order     score: fma chain over channels, ascending; chunk: sums over its keys ascending; warp: its chunks ascending,
//!           rescaled by exp(old max - new max); block: warps 0 to 3, rescaled to the common max. Nothing depends on how
//!           many tokens share the call
//! Barriers  two of the warp a chunk: scores before they are read, weights before they are read; each also says that the
//!           other array's readers are done. One of the block before the merge; no thread returns early
//! Budget    128 registers, 5,152 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Base

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, block_idx_y, sync_threads, thread_idx_x};
use cuda_std::{float, global, kernel, shared, shared_array, warp};

use super::{MAX_DIM, SoftmaxParams};

/// Four warps a head.
pub const BOUNDS: Bounds = Bounds { threads: 128, min_blocks: 4 };
const WARPS: usize = BOUNDS.threads as usize / 32;
/// Keys of a chunk, a lane each.
const KEYS: u32 = 32;
/// Groups of four channels of a lane.
const QUADS: usize = MAX_DIM / 128;

/// # Safety
/// Shapes and alignment as `SoftmaxParams` says; grid `(tokens, heads)`, block 128.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn attn_softmax_chunks(p: SoftmaxParams) {
    let scores = shared_array![f32; 32 * WARPS];
    let weights = shared_array![f32; 32 * WARPS];
    let tops = shared_array![f32; WARPS];
    let totals = shared_array![f32; WARPS];
    let sums = shared_array![f32; MAX_DIM * WARPS];
    let (thread, token, head) = (thread_idx_x(), block_idx_x() as usize, block_idx_y() as usize);
    let (warp, lane) = (thread as usize / 32, thread % 32);
    let dim = p.dim as usize;
    let visible = p.first + token as u32 + 1;
    let kv_width = p.kv_heads as usize * dim;
    let kv_head = head / (p.heads / p.kv_heads) as usize * dim;
    // SAFETY: the grid has one block a token and head; shared arrays are cut by warp.
    let (q, k, v, scores, weights) = unsafe {
        (
            p.q.add((token * p.heads as usize + head) * dim),
            p.k.add(kv_head),
            p.v.add(kv_head),
            scores.add(32 * warp),
            weights.add(32 * warp),
        )
    };
    let (mut top, mut total, mut acc) = (f32::NEG_INFINITY, 0.0f32, [[0.0f32; 4]; QUADS]);
    let mut first = KEYS * warp as u32;
    while first < visible {
        let keys = (visible - first).min(KEYS);
        // Lanes without a key score the chunk's last one again and give it no weight.
        // SAFETY: the position is visible, so it is in the cache.
        let score = unsafe { dot(q, k.add((first + lane.min(keys - 1)) as usize * kv_width), p.dim) } * p.scale;
        // SAFETY: `lane < 32`; every lane has read the scores before (it was at the weights' barrier since).
        unsafe { shared::store(scores.add(lane as usize), score) };
        warp::sync_warp(warp::FULL_MASK);
        // SAFETY: written before the barrier.
        let new_top = unsafe { highest(scores, top) };
        let weight = if lane < keys { float::exp(score - new_top) } else { 0.0 };
        // SAFETY: as for the scores.
        unsafe { shared::store(weights.add(lane as usize), weight) };
        warp::sync_warp(warp::FULL_MASK);
        let rescale = float::exp(top - new_top);
        total *= rescale;
        for g in 0..QUADS {
            for j in 0..4 {
                acc[g][j] *= rescale;
            }
        }
        for i in 0..keys {
            // SAFETY: written before the barrier; the position as above, the channels below `dim`.
            unsafe {
                let weight = shared::load(weights.add(i as usize));
                total += weight;
                add_values(&mut acc, v.add((first + i) as usize * kv_width), weight, dim, lane);
            }
        }
        top = new_top;
        first += KEYS * WARPS as u32;
    }
    // SAFETY: each element has one writer; read after the barrier.
    unsafe {
        if lane == 0 {
            shared::store(tops.add(warp), top);
            shared::store(totals.add(warp), total);
        }
        for g in 0..QUADS {
            let c = 4 * lane as usize + 128 * g;
            if c < dim {
                shared::store4(sums.add(warp * MAX_DIM + c), acc[g]);
            }
        }
    }
    sync_threads();
    // SAFETY: written before the barrier, the channels below `dim`, one writer an element.
    unsafe { merge(&p, (token, head), (tops, totals, sums), thread as usize) };
}

/// `q . k`, channels ascending.
///
/// # Safety
/// Both hold `dim` values, 16-byte aligned.
#[inline(always)]
unsafe fn dot(q: *const f32, k: *const f32, dim: u32) -> f32 {
    let mut sum = 0.0f32;
    let mut c = 0;
    while c < dim as usize {
        // SAFETY: `c + 3 < dim`.
        let (a, b) = unsafe { (global::load4_nc(q.add(c)), global::load4(k.add(c))) };
        for j in 0..4 {
            sum = float::fma(a[j], b[j], sum);
        }
        c += 4;
    }
    sum
}

/// The largest of a chunk's scores and `top`.
///
/// # Safety
/// `scores` holds 32 values.
#[inline(always)]
unsafe fn highest(scores: *const f32, mut top: f32) -> f32 {
    for i in 0..8 {
        // SAFETY: 4 i + 3 < 32.
        let v = unsafe { shared::load4(scores.add(4 * i)) };
        for j in 0..4 {
            top = float::max(top, v[j]);
        }
    }
    top
}

/// Adds `weight` times a token's values.
///
/// # Safety
/// `v` holds `dim` values, 16-byte aligned.
#[inline(always)]
unsafe fn add_values(acc: &mut [[f32; 4]; QUADS], v: *const f32, weight: f32, dim: usize, lane: u32) {
    for g in 0..QUADS {
        let c = 4 * lane as usize + 128 * g;
        if c < dim {
            // SAFETY: `c + 3 < dim`.
            let values = unsafe { global::load4(v.add(c)) };
            for j in 0..4 {
                acc[g][j] = float::fma(weight, values[j], acc[g][j]);
            }
        }
    }
}

/// Puts the warps' parts together and writes the gated output, channels `thread`, `thread + 128`.
///
/// # Safety
/// All parts are written; `token` and `head` are within the call.
#[inline(always)]
unsafe fn merge(
    p: &SoftmaxParams,
    (token, head): (usize, usize),
    (tops, totals, sums): (*const f32, *const f32, *const f32),
    thread: usize,
) {
    // SAFETY: WARPS is 4.
    let (tops, totals) = unsafe { (shared::load4(tops), shared::load4(totals)) };
    let top = float::max(float::max(tops[0], tops[1]), float::max(tops[2], tops[3]));
    let factors = tops.map(|t| float::exp(t - top));
    let total = ((factors[0] * totals[0] + factors[1] * totals[1]) + factors[2] * totals[2]) + factors[3] * totals[3];
    let mut c = thread;
    while c < p.dim as usize {
        // SAFETY: `c < dim`.
        unsafe {
            let part = [0, 1, 2, 3].map(|w| factors[w] * shared::load(sums.add(w * MAX_DIM + c)));
            let sum = ((part[0] + part[1]) + part[2]) + part[3];
            let at = token * p.gate_stride as usize + head * p.gate_head_stride as usize + c;
            let gate = float::sigmoid(global::load_nc(p.gate.add(at)));
            let y = p.y.add((token * p.heads as usize + head) * p.dim as usize + c);
            global::store(y, sum / total * gate);
        }
        c += BOUNDS.threads as usize;
    }
}
