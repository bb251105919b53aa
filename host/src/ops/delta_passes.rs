//! How a chunked recurrence of two kernels walks a call: passes over the tokens, and groups of sequences.
//!
//! A pass covers `span` tokens of each of up to [`SLOTS`] sequences: the first kernel prepares all their chunks, each in a
//! slot of the scratch, then the second walks them in order from the state in memory to the state in memory. Chunks are
//! counted from a sequence's first token, so the passes do not change the bits.

use cuda_std::launch::Kernel;
use varve_gpu::delta::RecParams;

use super::checks::axis;
use super::delta_sizes::DeltaSizes;
use super::dispatch::Step;
use crate::backend::Launch;

/// Tokens of a chunk.
pub const CHUNK: usize = 32;
/// Chunks that the scratch holds: 2,048 tokens of one sequence, or a chunk of 64 sequences.
pub const SLOTS: usize = 64;

/// Tokens of each sequence that a pass over `sequences` of them covers.
fn span(sequences: usize) -> usize {
    CHUNK * (SLOTS / sequences.clamp(1, SLOTS))
}

/// Whether the call leaves the state as a second pass needs it.
pub fn fits(ask: &DeltaSizes) -> Result<(), String> {
    let span = span(ask.sequences);
    if ask.state_kept && ask.longest > span {
        return Err(format!("the state is kept, so one pass of {span} tokens must do for {}", ask.longest));
    }
    Ok(())
}

/// The launches of a call: `prep`, whose grid's x is chunk + chunks * key head, then `scan` with the grid's x of the row.
pub fn steps(
    ask: &DeltaSizes,
    (prep, threads): (&'static Kernel<RecParams>, u32),
    scan: &Step<RecParams>,
    scratch: *mut f32,
) -> Vec<Step<RecParams>> {
    let mut steps = Vec::new();
    for group in (0..ask.sequences).step_by(SLOTS) {
        let sequences = SLOTS.min(ask.sequences - group);
        let span = span(sequences);
        let starts = scan.params.starts;
        let group_params = RecParams {
            starts: if starts.is_null() { starts } else { starts.wrapping_add(group) },
            state: scan.params.state.wrapping_add(group * ask.state_len()),
            sequences: axis(sequences),
            scratch,
            ..scan.params
        };
        for first in (0..ask.longest).step_by(span) {
            let chunks = span.min(ask.longest - first).div_ceil(CHUNK);
            let params = RecParams { first: axis(first), span: axis(CHUNK * chunks), ..group_params };
            let launch = Launch { grid: [axis(chunks * ask.key_heads), axis(sequences), 1], ..Launch::new(1, threads) };
            steps.push(Step { kernel: prep, launch, params });
            let [x, _, z] = scan.launch.grid;
            let launch = Launch { grid: [x, axis(sequences), z], ..scan.launch };
            steps.push(Step { kernel: scan.kernel, launch, params });
        }
    }
    steps
}
