//! `delta.rec` over a decode window: a captured graph of many launches, so that the host's launch time stays out.

use super::case::{MeasureError, Prepared, between_events};
use super::floor::Floor;
use super::operands::{Operands, arms};
use crate::backend::{Device, Graph, Stream};
use crate::ops::DeltaSizes;
use crate::ops::delta_rec::{DELTA_REC, StateAfter};
use crate::ops::exactness::Exactness;

/// Launches of a graph: on the emulator, where nothing is gained by many, a few.
pub(super) fn launches(device: &Device) -> usize {
    if device.caps().is_emulator { 3 } else { 100 }
}

/// `graph`, or `wall` where the emulator replays it.
pub(super) fn graph_or_wall(stream: &Stream) -> &'static str {
    if stream.device().caps().is_emulator { "wall" } else { "graph" }
}

/// How many states a case goes through, in words.
pub(super) fn rotation(states: usize) -> &'static str {
    if states == 1 { "one state" } else { "rotating states" }
}

/// Chunked variants run windows too, as chunks that are nearly empty; they are timed only where they are asked for.
fn is_for_windows(name: &str) -> bool {
    DELTA_REC.row(name).is_ok_and(|row| !matches!(row.exactness, Exactness::Rounding { .. }))
}

/// A window of 1 to 8 tokens on one state, or on `states` states in turn.
pub struct Window {
    stream: Stream,
    sizes: DeltaSizes,
    states: usize,
    state_after: StateAfter,
    arms: Vec<&'static str>,
    graphs: Vec<Graph>,
    launches: usize,
}

impl Window {
    /// Sets the case up, checks every arm and captures its graph. With `states` = 1 the state stays in the L2; with 40
    /// states of 48 heads none does.
    ///
    /// # Errors
    /// The device's, or an arm whose bits are not the base's.
    pub fn new(
        device: &Device,
        sizes: DeltaSizes,
        states: usize,
        state_after: StateAfter,
        wanted: &[String],
    ) -> Result<Self, MeasureError> {
        let (stream, mut operands) = (device.stream()?, Operands::new(device, sizes)?);
        let mut case = Self {
            arms: arms(device, &sizes, wanted)
                .into_iter()
                .filter(|name| !wanted.is_empty() || is_for_windows(name))
                .collect(),
            launches: launches(device),
            graphs: Vec::new(),
            stream,
            sizes,
            states,
            state_after,
        };
        operands.check(&case.stream, &case.case(), &case.arms)?;
        let mut copies = (0..states).map(|_| operands.state(device)).collect::<Result<Vec<_>, _>>()?;
        for &variant in &case.arms {
            let graph = case.stream.capture(|stream| {
                for i in 0..case.launches {
                    operands.launch(stream, variant, &mut copies[i % states], state_after)?;
                }
                Ok::<(), MeasureError>(())
            })?;
            case.graphs.push(graph);
        }
        Ok(case)
    }
}

impl Prepared for Window {
    fn op(&self) -> &'static str {
        DELTA_REC.op
    }

    fn case(&self) -> String {
        let DeltaSizes { key_heads, value_heads, tokens, .. } = self.sizes;
        let written = if self.state_after == StateAfter::Kept { "kept" } else { "written" };
        let where_ = rotation(self.states);
        format!("window {key_heads}x{value_heads}x{tokens}, {where_}, {written}")
    }

    fn tokens(&self) -> usize {
        self.sizes.tokens
    }

    fn arms(&self) -> &[&'static str] {
        &self.arms
    }

    fn exactness(&self, arm: usize) -> &'static str {
        DELTA_REC.word_of(self.arms[arm])
    }

    fn floor(&self) -> Floor {
        Floor::delta_rec(&self.sizes, self.state_after == StateAfter::Kept)
    }

    fn how(&self) -> &'static str {
        graph_or_wall(&self.stream)
    }

    fn time(&mut self, arm: usize) -> Result<f64, MeasureError> {
        let us = between_events(&self.stream, || Ok(self.graphs[arm].launch(&self.stream)?))?;
        Ok(us / self.launches as f64)
    }
}
