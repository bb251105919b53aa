//! `delta.rec/wg32_split`: one sequence in segments that are walked side by side, for calls of few heads.
//!
//! Math      as `delta.rec/wg32` within a segment. What a segment does to the state is linear: S' = M S + N, where N is the
//!           state after it from zeros, and M that from the identity with v = 0 (docs/src/chunked_delta.md#segments)
//! Shapes    `RecParams` of one sequence, `starts` null, `first` 0; `span` tokens a segment, a multiple of 32, `sequences`
//!           segments, at least 3, of which the last ends with the tokens; scratch: the slots of all chunks, then `states`
//! Mapping   as `delta.rec/wg32`, and y is a walk. Ends: segment 0, then N of segments 1 .. K - 2, then their M.
//!           Outputs: segments 1 .. K - 1
//! Order     prep of all chunks, ends, join (`rec_wg32_split_join.rs`), outputs: launches that follow each other
//! Barriers  as `delta.rec/wg32`
//! Budget    255 registers, 0 B shared but a ring of stages, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Rounding against `delta.rec/cols`: 5e-6 (docs/src/exactness.md); where segments end depends on the call's length

use cuda_std::kernel;
use cuda_std::thread::block_idx_y;

use super::RecParams;
use super::chunk::{CHUNK, scratch_floats};
use super::chunk_walk::{BOUNDS, SPLIT, Start, Task};
use super::rec_wg32_scan::{ALIGN, STAGES, Wgmma};
use crate::geometry::HEAD_DIM;

/// Least segments: the first has no M, and the last neither M nor N.
pub const LEAST_SEGMENTS: usize = 3;
/// Blocks that the segments of a call are cut for: as many as walk side by side on 132 SMs.
const BLOCKS: usize = 132;

/// Walks of the first launch of `segments` segments, as many as there are states in scratch.
pub const fn walks(segments: usize) -> usize {
    2 * segments - 3
}

/// Tokens of a segment and segments of a call, if that is 3 at least: as many as have an SM for each block of the first launch.
pub const fn segments(value_heads: usize, tokens: usize) -> Option<[usize; 2]> {
    let most = (BLOCKS / (value_heads * SPLIT) + 3) / 2;
    if most < LEAST_SEGMENTS || tokens == 0 {
        return None;
    }
    let span = tokens.div_ceil(most).next_multiple_of(CHUNK);
    let segments = tokens.div_ceil(span);
    if segments < LEAST_SEGMENTS { None } else { Some([span, segments]) }
}

/// f32 of scratch for `tokens` tokens in `segments` segments: slots, then states.
pub const fn split_floats(key_heads: usize, value_heads: usize, tokens: usize, segments: usize) -> usize {
    scratch_floats(true, key_heads, value_heads, tokens.div_ceil(CHUNK))
        + walks(segments) * HEAD_DIM * value_heads * HEAD_DIM
}

/// State `i` of the scratch, f32 `[128][value_heads][128]`: for i < K - 1 the state that segment i + 1 starts from, before the
/// join N of segment i; then M of segments 1 .. K - 2.
#[inline(always)]
pub fn state(p: &RecParams, i: usize) -> *mut f32 {
    let value_heads = p.value_heads as usize;
    let slots = scratch_floats(true, p.key_heads as usize, value_heads, (p.tokens as usize).div_ceil(CHUNK));
    p.scratch.wrapping_add(slots + i * HEAD_DIM * value_heads * HEAD_DIM)
}

/// # Safety
/// Shapes, alignment and aliasing as the header says, slots as `delta_rec_wg32_prep` left them; grid
/// `[value_heads * 2, 2 K - 3]`, block 256, dynamic shared memory `shared_bytes(true, ALIGN, STAGES)`.
#[kernel(sm = 90, cluster = 2)]
#[launch_bounds(BOUNDS)]
pub unsafe fn delta_rec_wg32_split_ends(p: RecParams) {
    let (walk, segments) = (block_idx_y() as usize, p.sequences as usize);
    let end = state(&p, walk);
    let (segment, start) = match walk {
        0 => (0, Start::Memory),
        n if n < segments - 1 => (n, Start::Zero),
        m => (m - (segments - 2), Start::Identity),
    };
    let task = Task { slot: 0, start, values: walk < segments - 1, outputs: walk == 0, end, ends: true };
    // SAFETY: the segment is one of the call's; each walk ends in a state of its own, one has outputs.
    unsafe { task.of_segment(p, segment).walk::<Wgmma, true, ALIGN, STAGES>(&tokens_of(p, segment)) }
}

/// # Safety
/// As [`delta_rec_wg32_split_ends`], states as `delta_rec_wg32_split_join` left them; grid `[value_heads * 2, K - 1]`.
#[kernel(sm = 90, cluster = 2)]
#[launch_bounds(BOUNDS)]
pub unsafe fn delta_rec_wg32_split_outputs(p: RecParams) {
    let segment = block_idx_y() as usize + 1;
    let ends = segment == p.sequences as usize - 1;
    let part = RecParams { state: state(&p, segment - 1), ..tokens_of(p, segment) };
    let task = Task { slot: 0, start: Start::Memory, values: true, outputs: true, end: p.state, ends };
    // SAFETY: the segment is one of the call's; each has its own outputs, one writes the state.
    unsafe { task.of_segment(p, segment).walk::<Wgmma, true, ALIGN, STAGES>(&part) }
}

impl Task {
    /// The task with the slots of segment `segment`.
    #[inline(always)]
    fn of_segment(self, p: RecParams, segment: usize) -> Self {
        Self { slot: segment * (p.span as usize / CHUNK), ..self }
    }
}

/// The call of segment `segment` alone: arrays start at its first token.
#[inline(always)]
fn tokens_of(p: RecParams, segment: usize) -> RecParams {
    let first = segment * p.span as usize;
    RecParams {
        qkv: p.qkv.wrapping_add(first * p.qkv_stride as usize),
        gate: p.gate.wrapping_add(first * p.gate_stride as usize),
        beta: p.beta.wrapping_add(first * p.beta_stride as usize),
        y: p.y.wrapping_add(first * p.y_stride as usize),
        tokens: (p.tokens - first as u32).min(p.span),
        ..p
    }
}
