//! How a chunked recurrence of two kernels walks a call: passes over the tokens, and groups of sequences.
//!
//! A pass covers `span` tokens of each of some sequences: the first kernel prepares all their chunks, each in a
//! slot of the scratch, then the second walks them in order from the state in memory to the state in memory. Chunks are
//! counted from a sequence's first token and passes end at multiples of [`CUT`], so they do not change the bits.

use cuda_std::launch::Kernel;
use varve_gpu::delta::RecParams;
use varve_gpu::delta::chunk_scan::SETTLED;

use super::checks::axis;
use super::delta_sizes::DeltaSizes;
use super::dispatch::Step;
use crate::backend::Launch;

/// Tokens of a chunk, of every form.
pub use varve_gpu::delta::chunk::CHUNK;

/// Tokens after which a call may be cut without changing a bit of any chunked form.
pub const CUT: usize = SETTLED * CHUNK;

/// How a form passes over a call.
#[derive(Clone, Copy)]
pub struct Passes {
    /// Chunks that the scratch holds: `32 slots` tokens of one sequence, or `CUT` tokens of `slots / 4` sequences.
    pub slots: usize,
    /// The kernel that prepares.
    pub prep: &'static Kernel<RecParams>,
}

/// Tokens of each sequence that a pass over `sequences` of them covers.
fn span(slots: usize, sequences: usize) -> usize {
    CUT * (groups(slots) / sequences.clamp(1, groups(slots)))
}

/// Sequences that can share the slots.
const fn groups(slots: usize) -> usize {
    slots / SETTLED
}

/// Whether the call leaves the state as a second pass needs it.
pub fn fits(ask: &DeltaSizes, slots: usize) -> Result<(), String> {
    let span = span(slots, ask.sequences);
    if ask.state_kept && ask.longest > span {
        return Err(format!("the state is kept, so one pass of {span} tokens must do for {}", ask.longest));
    }
    Ok(())
}

/// The launches of a call: the kernel that prepares, whose grid's x is chunks * key heads, then `scan` with the
/// grid's x of the row.
pub fn steps(ask: &DeltaSizes, passes: Passes, scan: &Step<RecParams>, scratch: *mut f32) -> Vec<Step<RecParams>> {
    let Passes { slots, prep } = passes;
    let mut steps = Vec::new();
    for group in (0..ask.sequences).step_by(groups(slots)) {
        let sequences = groups(slots).min(ask.sequences - group);
        let span = span(slots, sequences);
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
            let launch = Launch {
                grid: [axis(chunks * ask.key_heads), axis(sequences), 1],
                ..Launch::new(1, prep.bounds().threads)
            };
            steps.push(Step { kernel: prep, launch, params });
            let [x, _, z] = scan.launch.grid;
            let launch = Launch { grid: [x, axis(sequences), z], ..scan.launch };
            steps.push(Step { kernel: scan.kernel, launch, params });
        }
    }
    steps
}
