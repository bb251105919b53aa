//! `delta.commit`: a captured graph of many launches on rotating states.

use super::case::{MeasureError, Prepared, between_events, same_bits};
use super::floor::Floor;
use super::operands::Operands;
use super::window::{graph_or_wall, launches, rotation};
use crate::backend::{Buffer, Device, Graph, Stream};
use crate::ops::delta_commit::{CommitArgs, DELTA_COMMIT, commit};
use crate::ops::delta_rec::{DELTA_REC, StateAfter};
use crate::ops::dispatch::Dispatch;
use crate::ops::{DeltaSizes, LogGate};

/// All tokens of a window accepted.
pub struct Commit {
    stream: Stream,
    sizes: DeltaSizes,
    states: usize,
    arms: Vec<&'static str>,
    graph: Graph,
    launches: usize,
}

impl Commit {
    /// Sets the case up, holds it to the base recurrence's state, and captures its graph over `states` states in turn.
    ///
    /// # Errors
    /// The device's, or a state that is not the recurrence's.
    pub fn new(device: &Device, sizes: DeltaSizes, states: usize) -> Result<Self, MeasureError> {
        let (stream, mut operands) = (device.stream()?, Operands::new(device, sizes)?);
        let accepted = device.upload(&[u32::try_from(sizes.tokens).unwrap_or(u32::MAX)])?;
        let (mut replayed, mut stepped) = (operands.state(device)?, operands.state(device)?);
        launch(&stream, &operands, &accepted, &mut replayed)?;
        operands.launch(&stream, DELTA_REC.base().name, &mut stepped, StateAfter::Updated)?;
        stream.synchronize()?;
        let (arm, case) = (DELTA_COMMIT.base().name, name(&sizes, states));
        same_bits(DELTA_COMMIT.op, arm, &case, "state", [&stepped.read()?, &replayed.read()?])?;

        let mut copies = (0..states).map(|_| operands.state(device)).collect::<Result<Vec<_>, _>>()?;
        let launches = launches(device);
        let graph = stream.capture(|stream| {
            (0..launches).try_for_each(|i| launch(stream, &operands, &accepted, &mut copies[i % states]))
        })?;
        Ok(Self { stream, sizes, states, arms: vec![arm], graph, launches })
    }
}

fn name(sizes: &DeltaSizes, states: usize) -> String {
    let DeltaSizes { key_heads, value_heads, tokens, .. } = sizes;
    format!("commit {key_heads}x{value_heads}x{tokens}, {}", rotation(states))
}

fn launch(
    stream: &Stream,
    operands: &Operands,
    accepted: &Buffer<u32>,
    state: &mut Buffer<f32>,
) -> Result<(), MeasureError> {
    let DeltaSizes { key_heads, value_heads, tokens, .. } = operands.sizes;
    let args = CommitArgs {
        qkv: operands.qkv.view([tokens, operands.sizes.qkv_width()])?,
        gate: LogGate(operands.gate.view([tokens, value_heads])?),
        beta: operands.beta.view([tokens, value_heads])?,
        state: state.view_mut([128, value_heads, 128])?,
        accepted: accepted.view([1])?,
        key_heads,
    };
    commit(&Dispatch::default(), stream, args)?;
    Ok(())
}

impl Prepared for Commit {
    fn op(&self) -> &'static str {
        DELTA_COMMIT.op
    }

    fn case(&self) -> String {
        name(&self.sizes, self.states)
    }

    fn tokens(&self) -> usize {
        self.sizes.tokens
    }

    fn arms(&self) -> &[&'static str] {
        &self.arms
    }

    fn exactness(&self, arm: usize) -> &'static str {
        DELTA_COMMIT.word_of(self.arms[arm])
    }

    fn floor(&self) -> Floor {
        Floor::delta_commit(&self.sizes)
    }

    fn how(&self) -> &'static str {
        graph_or_wall(&self.stream)
    }

    fn time(&mut self, _arm: usize) -> Result<f64, MeasureError> {
        let us = between_events(&self.stream, || Ok(self.graph.launch(&self.stream)?))?;
        Ok(us / self.launches as f64)
    }
}
