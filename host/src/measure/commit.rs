//! `delta.commit`: a captured graph of many launches on rotating states.

use super::case::{MeasureError, Prepared, between_events};
use super::floor::Floor;
use super::prompt::Operands;
use super::window::{graph_or_wall, launches};
use crate::backend::{Device, Graph, Stream};
use crate::ops::delta_commit::{CommitArgs, DELTA_COMMIT, commit};
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
    /// Sets the case up and captures its graph over `states` states in turn.
    ///
    /// # Errors
    /// The device's.
    pub fn new(device: &Device, sizes: DeltaSizes, states: usize) -> Result<Self, MeasureError> {
        let (stream, operands) = (device.stream()?, Operands::new(device, sizes)?);
        let DeltaSizes { key_heads, value_heads, tokens } = sizes;
        let accepted = device.upload(&[u32::try_from(tokens).unwrap_or(u32::MAX)])?;
        let mut copies = Vec::with_capacity(states);
        for _ in 0..states {
            let mut copy = device.alloc(operands.start.len())?;
            copy.copy_from(&operands.start)?;
            copies.push(copy);
        }
        let (dispatch, launches) = (Dispatch::default(), launches(device));
        let graph = stream.capture(|stream| {
            for i in 0..launches {
                let args = CommitArgs {
                    qkv: operands.qkv.view([tokens, sizes.qkv_width()])?,
                    gate: LogGate(operands.gate.view([tokens, value_heads])?),
                    beta: operands.beta.view([tokens, value_heads])?,
                    state: copies[i % states].view_mut([128, value_heads, 128])?,
                    accepted: accepted.view([1])?,
                    key_heads,
                };
                commit(&dispatch, stream, args)?;
            }
            Ok::<(), MeasureError>(())
        })?;
        Ok(Self { stream, sizes, states, arms: vec![DELTA_COMMIT.base().name], graph, launches })
    }
}

impl Prepared for Commit {
    fn op(&self) -> &'static str {
        DELTA_COMMIT.op
    }

    fn case(&self) -> String {
        let DeltaSizes { key_heads, value_heads, tokens } = self.sizes;
        let where_ = if self.states == 1 { "one state" } else { "rotating states" };
        format!("commit {key_heads}x{value_heads}x{tokens}, {where_}")
    }

    fn tokens(&self) -> usize {
        self.sizes.tokens
    }

    fn arms(&self) -> &[&'static str] {
        &self.arms
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
