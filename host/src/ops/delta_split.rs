//! `delta.rec/wg32_split`: the launches of a call whose one sequence is walked in segments side by side.

use cuda_std::launch::Kernel;
use varve_gpu::delta::chunk::CHUNK;
use varve_gpu::delta::rec_wg32_split::{DELTA_REC_WG32_SPLIT_ENDS, segments, split_floats, walks};
use varve_gpu::delta::rec_wg32_split_join::{self, DELTA_REC_WG32_SPLIT_JOIN};
use varve_gpu::delta::{RecParams, rec_wg32_prep};

use super::checks::axis;
use super::delta_sizes::DeltaSizes;
use super::dispatch::{Staged, Step};
use crate::backend::Launch;

/// Most chunks of a call times value heads: no more scratch than two passes of `wg32` with 48 heads have, 102 MiB.
const MOST_SLOTS: usize = 2 * 128 * 48;

/// The variant's launches.
pub const WG32_SPLIT: Staged<DeltaSizes, RecParams> = Staged {
    scratch_floats: |ask| cut(ask).map_or(0, |[_, n]| split_floats(ask.value_heads, ask.tokens, n)),
    steps: |ask, outputs, scratch| cut(ask).map_or_else(|_| Vec::new(), |cut| steps(ask, cut, outputs, scratch)),
};

/// Tokens of a segment and segments, or why the call has none.
///
/// # Errors
/// The reason.
pub fn cut(ask: &DeltaSizes) -> Result<[usize; 2], String> {
    let (heads, tokens) = (ask.value_heads, ask.tokens);
    if ask.is_batch || ask.sequences != 1 {
        return Err("a batch of sequences".into());
    }
    if ask.state_kept {
        return Err("the state is kept".into());
    }
    let most = MOST_SLOTS / heads * CHUNK;
    if tokens > most {
        return Err(format!("{tokens} tokens, the scratch is for {most} of {heads} value heads"));
    }
    segments(heads, tokens)
        .ok_or_else(|| format!("{tokens} tokens and {heads} value heads make fewer than three segments"))
}

/// Preparation of all chunks, ends of segments, their join, outputs.
fn steps(
    ask: &DeltaSizes,
    [span, segments]: [usize; 2],
    outputs: &Step<RecParams>,
    scratch: *mut f32,
) -> Vec<Step<RecParams>> {
    let chunks = ask.tokens.div_ceil(CHUNK);
    let whole = RecParams { scratch, span: axis(chunks * CHUNK), ..outputs.params };
    let params = RecParams { span: axis(span), sequences: axis(segments), ..whole };
    let [x, _, z] = outputs.launch.grid;
    let step = |kernel, launch, params| Step { kernel, launch, params, early: false };
    let plain = |kernel: &'static Kernel<RecParams>, blocks: usize, params| {
        step(kernel, Launch::new(axis(blocks), kernel.bounds().threads), params)
    };
    vec![
        plain(&rec_wg32_prep::DELTA_REC_WG32_PREP, chunks * ask.key_heads, whole),
        step(&DELTA_REC_WG32_SPLIT_ENDS, Launch { grid: [x, axis(walks(segments)), z], ..outputs.launch }, params),
        plain(&DELTA_REC_WG32_SPLIT_JOIN, ask.value_heads * rec_wg32_split_join::BLOCKS, params),
        step(outputs.kernel, outputs.launch, params),
    ]
}
