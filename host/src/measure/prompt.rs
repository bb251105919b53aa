//! `delta.rec` over a prompt, or over prompts of several sequences: a captured graph of calls, all their launches included,
//! replayed in a long series between two events. So neither the host's launch time nor a clock that has just changed is in
//! the figure. The states are restored before a series, and move on within it.

use super::case::{MeasureError, Prepared, between_events};
use super::floor::Floor;
use super::operands::{Operands, arms};
use super::window::graph_or_wall;
use crate::backend::{Buffer, Device, Graph, Stream};
use crate::ops::DeltaSizes;
use crate::ops::delta_rec::{DELTA_REC, StateAfter};

/// Tokens of a graph: shorter calls are captured several times.
const GRAPH_TOKENS: usize = 4096;
/// Tokens of a series.
const SERIES_TOKENS: usize = 65_536;

/// A prompt, or several at once.
pub struct Prompt {
    stream: Stream,
    operands: Operands,
    case: String,
    state: Buffer<f32>,
    arms: Vec<&'static str>,
    graphs: Vec<Graph>,
    /// Calls of a graph, and graphs of a series.
    calls: usize,
    replays: usize,
}

impl Prompt {
    /// Sets up a prompt of one sequence and checks every arm; `wanted` names the variants, all if empty.
    ///
    /// # Errors
    /// The device's, or an arm that breaks its promise.
    pub fn new(device: &Device, sizes: DeltaSizes, wanted: &[String]) -> Result<Self, MeasureError> {
        let DeltaSizes { key_heads, value_heads, tokens, .. } = sizes;
        let case = format!("prompt {key_heads}x{value_heads}x{tokens}");
        Self::of(device, Operands::new(device, sizes)?, case, wanted)
    }

    /// As [`new`](Self::new), for sequences of these lengths in one call.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn batch(
        device: &Device,
        heads: [usize; 2],
        lengths: &[usize],
        wanted: &[String],
    ) -> Result<Self, MeasureError> {
        let all = lengths.iter().map(usize::to_string).collect::<Vec<_>>().join("+");
        let equal = lengths.iter().all(|n| *n == lengths[0]);
        let lengths_text = if equal { format!("{} of {}", lengths.len(), lengths[0]) } else { all };
        let case = format!("batch {}x{}, {lengths_text} tokens", heads[0], heads[1]);
        Self::of(device, Operands::batch(device, heads, lengths)?, case, wanted)
    }

    fn of(device: &Device, mut operands: Operands, case: String, wanted: &[String]) -> Result<Self, MeasureError> {
        let stream = device.stream()?;
        let arms = arms(device, &operands.sizes, wanted);
        operands.check(&stream, &case, &arms)?;
        let mut state = device.alloc(operands.start.len())?;
        let tokens = operands.sizes.tokens;
        let (calls, replays) = if device.caps().is_emulator {
            (1, 1)
        } else {
            let calls = (GRAPH_TOKENS / tokens).clamp(1, 64);
            (calls, (SERIES_TOKENS / (calls * tokens)).max(2))
        };
        let mut graphs = Vec::new();
        for &variant in &arms {
            graphs.push(stream.capture(|stream| {
                (0..calls).try_for_each(|_| operands.launch(stream, variant, &mut state, StateAfter::Updated))
            })?);
        }
        Ok(Self { stream, operands, case, state, arms, graphs, calls, replays })
    }
}

impl Prepared for Prompt {
    fn op(&self) -> &'static str {
        DELTA_REC.op
    }

    fn case(&self) -> String {
        self.case.clone()
    }

    fn tokens(&self) -> usize {
        self.operands.sizes.tokens
    }

    fn arms(&self) -> &[&'static str] {
        &self.arms
    }

    fn exactness(&self, arm: usize) -> &'static str {
        DELTA_REC.word_of(self.arms[arm])
    }

    fn prompt(&self) -> Option<[usize; 2]> {
        let DeltaSizes { longest, sequences, .. } = self.operands.sizes;
        Some([longest, sequences])
    }

    fn floor(&self) -> Floor {
        Floor::delta_rec(&self.operands.sizes, false)
    }

    fn how(&self) -> &'static str {
        graph_or_wall(&self.stream)
    }

    fn time(&mut self, arm: usize) -> Result<f64, MeasureError> {
        self.state.copy_from_on(&self.stream, &self.operands.start)?;
        let series = || Ok((0..self.replays).try_for_each(|_| self.graphs[arm].launch(&self.stream))?);
        Ok(between_events(&self.stream, series)? / (self.replays * self.calls) as f64)
    }
}
