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
    /// Tokens of the first of several passes over one sequence; each further one has a quarter more, up to a full pass. As it is
    /// prepared on the SMs that the scan before it leaves, it must not be much longer.
    pub first: usize,
}

impl Beside {
    /// Tokens from which on a call over one sequence has several passes: nothing hides the preparation of the first.
    const LEAST: usize = 1024;

    /// Tokens of each pass over one sequence of `tokens`, where a pass may have `full`. A short last one would cost as much
    /// besides its tokens as any other, so all shrink to end together.
    fn spans(&self, tokens: usize, full: usize) -> Vec<usize> {
        let (mut ends, mut end, mut next) = (Vec::new(), 0, self.first.min(full));
        while end < tokens {
            end += next;
            ends.push(end);
            next = full.min(next + next / 4);
        }
        let cuts = ends.iter().map(|&at| (at * tokens).div_ceil(end).next_multiple_of(CUT).min(tokens));
        let mut begun = 0;
        let spans = cuts.map(|cut| cut - std::mem::replace(&mut begun, cut)).filter(|&span| span > 0);
        spans.collect()
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
        let several = !ask.state_kept && ask.sequences == 1 && ask.longest >= Beside::LEAST;
        let spans = match beside {
            Some(beside) if several => beside.spans(ask.longest, span),
            _ => vec![span; ask.longest.div_ceil(span)],
        };
        let mut first = 0;
        for span in spans {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_grow_by_a_quarter_and_end_together() {
        let of = |tokens| Beside { part: 0, first: 768 }.spans(tokens, 4096);
        assert_eq!(of(1024), [512, 512]);
        assert_eq!(of(2048), [640, 640, 768]);
        assert_eq!(of(8192), [768, 896, 1152, 1408, 1792, 2176]);
        for tokens in (Beside::LEAST..40_000).step_by(37).chain([1 << 20, i32::MAX as usize]) {
            let spans = of(tokens);
            assert_eq!(spans.iter().sum::<usize>(), tokens);
            assert!(spans.iter().all(|&span| (1..=4096).contains(&span)), "{tokens}: {spans:?}");
            assert!(spans[..spans.len() - 1].iter().all(|span| span.is_multiple_of(CUT)), "{tokens}: {spans:?}");
        }
    }
}
