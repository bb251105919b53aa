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

/// Most chunks of a call times value heads: as many as two passes of `wg32` with 48 heads have.
const MOST_SLOTS: usize = 2 * 128 * 48;

/// The variant's launches.
pub const WG32_SPLIT: Staged<DeltaSizes, RecParams> = Staged {
    scratch_floats: |ask| cut(ask).map_or(0, |[_, n]| split_floats(ask.key_heads, ask.value_heads, ask.tokens, n)),
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

#[cfg(test)]
mod tests {
    use varve_gpu::delta::chunk_walk::SPLIT;

    use super::*;

    #[test]
    fn segments_are_as_many_as_walk_side_by_side() {
        let of = |heads, tokens| cut(&DeltaSizes::single(1, heads, tokens));
        assert_eq!([of(6, 2048), of(12, 8192), of(16, 8192)], [Ok([320, 7]), Ok([2048, 4]), Ok([2752, 3])]);
        assert_eq!([of(1, 65), of(6, 97)], [Ok([32, 3]), Ok([32, 4])]);
        for heads in 1..=22 {
            for tokens in 193..1500 {
                let [span, n] = of(heads, tokens).expect("few heads, three segments");
                assert!(span * (n - 1) < tokens && tokens <= span * n, "{heads} heads, {tokens} tokens: {n} of {span}");
                assert!(heads * SPLIT * walks(n) <= 132, "{heads} heads, {tokens} tokens: {n} segments");
            }
        }
    }

    #[test]
    fn calls_without_segments_say_why() {
        let call = DeltaSizes::single(2, 6, 4096);
        let why = |ask: DeltaSizes| cut(&ask).expect_err("no segments");
        assert_eq!(why(DeltaSizes { is_batch: true, ..call }), "a batch of sequences");
        assert_eq!(why(DeltaSizes { sequences: 2, longest: 4000, ..call }), "a batch of sequences");
        assert_eq!(why(DeltaSizes { state_kept: true, ..call }), "the state is kept");
        let few = "64 tokens and 6 value heads make fewer than three segments";
        assert_eq!(why(DeltaSizes::single(2, 6, 64)), few);
        assert!(why(DeltaSizes::single(1, 23, 4096)).contains("23 value heads"));
        assert!(why(DeltaSizes::single(2, 6, 65_537)).contains("65536 of 6 value heads"));
    }
}
