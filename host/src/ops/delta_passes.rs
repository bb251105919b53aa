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
    /// How a pass is prepared beside the scan of the one before it; none: passes follow each other.
    pub beside: Option<Beside>,
}

/// Two passes under way. The scan lets the next launch start when all its blocks run (`cuda_std::grid`), and the kernel that
/// prepares waits for the scan before it ends. Passes grow, since nothing hides the preparation of the first one.
#[derive(Clone, Copy)]
pub struct Beside {
    /// f32 of the scratch of one pass; there are two such parts, which passes take in turn.
    pub part: usize,
    /// Tokens of the first pass over one sequence, where the call is at least twice as long; the next ones have twice as
    /// many, up to a full pass. A multiple of [`CUT`].
    pub first: usize,
}

impl Beside {
    /// Tokens of each sequence in pass `pass` of a call, `full` being what fits the scratch.
    fn span(&self, full: usize, pass: usize, ask: &DeltaSizes) -> usize {
        if ask.state_kept || ask.sequences > 1 || ask.longest < 2 * self.first {
            return full;
        }
        full.min(self.first << pass.min(16))
    }
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
    let Passes { slots, prep, beside } = passes;
    let mut steps = Vec::new();
    let mut pass = 0;
    for group in (0..ask.sequences).step_by(groups(slots)) {
        let sequences = groups(slots).min(ask.sequences - group);
        let span = span(slots, sequences);
        let starts = scan.params.starts;
        let group_params = RecParams {
            starts: if starts.is_null() { starts } else { starts.wrapping_add(group) },
            state: scan.params.state.wrapping_add(group * ask.state_len()),
            sequences: axis(sequences),
            ..scan.params
        };
        let mut first = 0;
        while first < ask.longest {
            let span = beside.map_or(span, |beside| beside.span(span, pass, ask));
            let chunks = span.min(ask.longest - first).div_ceil(CHUNK);
            let scratch = scratch.wrapping_add(beside.map_or(0, |beside| pass % 2 * beside.part));
            let params = RecParams { first: axis(first), span: axis(CHUNK * chunks), scratch, ..group_params };
            let launch = Launch {
                grid: [axis(chunks * ask.key_heads), axis(sequences), 1],
                ..Launch::new(1, prep.bounds().threads)
            };
            steps.push(Step { kernel: prep, launch, params, early: beside.is_some() && pass > 0 });
            let [x, _, z] = scan.launch.grid;
            let launch = Launch { grid: [x, axis(sequences), z], ..scan.launch };
            steps.push(Step { kernel: scan.kernel, launch, params, early: false });
            first += span;
            pass += 1;
        }
    }
    steps
}
