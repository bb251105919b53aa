//! Operands of a `delta.rec` call on the device, and the check of an arm before it is timed.

use super::case::{MeasureError, within_promise};
use crate::backend::{Buffer, Device, Stream};
use crate::ops::delta_rec::{DELTA_REC, RecArgs, StateAfter, recurrence_by};
use crate::ops::{Batch, DeltaSizes, LogGate};
use crate::proof::case::{RecCase, RecShape};
use crate::proof::inputs;
use varve_gpu::geometry::HEAD_DIM;

/// Operands of one call, of one sequence or several.
pub(super) struct Operands {
    pub sizes: DeltaSizes,
    pub qkv: Buffer<f32>,
    pub gate: Buffer<f32>,
    pub beta: Buffer<f32>,
    pub y: Buffer<f32>,
    /// The states before the call.
    pub start: Buffer<f32>,
    /// Where sequences start; none for a single one.
    starts: Option<Buffer<u32>>,
}

impl Operands {
    /// Uploads base inputs of these sizes, for one sequence.
    pub fn new(device: &Device, sizes: DeltaSizes) -> Result<Self, MeasureError> {
        let case = RecCase::new(RecShape::dense(sizes.key_heads, sizes.value_heads, sizes.tokens), &inputs::BASE, 1);
        Ok(Self {
            sizes,
            qkv: device.upload(&case.qkv)?,
            gate: device.upload(&case.gate)?,
            beta: device.upload(&case.beta)?,
            y: device.alloc(sizes.tokens * sizes.y_width())?,
            start: device.upload(&case.state)?,
            starts: None,
        })
    }

    /// As [`new`](Self::new) for sequences of these lengths, which start from the same state.
    pub fn batch(device: &Device, heads: [usize; 2], lengths: &[usize]) -> Result<Self, MeasureError> {
        let sizes = sizes_of(heads, lengths);
        let mut operands = Self::new(device, DeltaSizes { sequences: 1, longest: sizes.tokens, ..sizes })?;
        let start = operands.start.read()?.repeat(lengths.len());
        let starts = lengths.iter().fold(vec![0u32], |mut starts, &n| {
            starts.push(starts[starts.len() - 1] + u32::try_from(n).unwrap_or(u32::MAX));
            starts
        });
        operands.start = device.upload(&start)?;
        operands.starts = Some(device.upload(&starts)?);
        operands.sizes = sizes;
        Ok(operands)
    }

    /// One call of `variant` on `state`.
    pub fn launch(
        &mut self,
        stream: &Stream,
        variant: &str,
        state: &mut Buffer<f32>,
        state_after: StateAfter,
    ) -> Result<(), MeasureError> {
        let DeltaSizes { key_heads, value_heads, tokens, sequences, longest, .. } = self.sizes;
        let batch = match &self.starts {
            Some(starts) => Some(Batch { starts: starts.view([sequences + 1])?, longest }),
            None => None,
        };
        let args = RecArgs {
            qkv: self.qkv.view([tokens, self.sizes.qkv_width()])?,
            gate: LogGate(self.gate.view([tokens, value_heads])?),
            beta: self.beta.view([tokens, value_heads])?,
            state: state.view_mut([sequences * HEAD_DIM, value_heads, HEAD_DIM])?,
            y: self.y.view_mut([tokens, self.sizes.y_width()])?,
            key_heads,
            state_after,
            batch,
        };
        recurrence_by(variant, stream, args)?;
        Ok(())
    }

    /// A copy of the states before the call.
    pub fn state(&self, device: &Device) -> Result<Buffer<f32>, MeasureError> {
        let mut state = device.alloc(self.start.len())?;
        state.copy_from(&self.start)?;
        Ok(state)
    }

    /// Runs `arms` once each on poisoned outputs and scratch, and holds them to the first one by their promises.
    pub fn check(&mut self, stream: &Stream, case: &str, arms: &[&'static str]) -> Result<(), MeasureError> {
        let mut base: Option<(Vec<f32>, Vec<f32>)> = None;
        for &variant in arms {
            let mut state = self.state(stream.device())?;
            self.y.poison()?;
            stream.poison_scratch()?;
            self.launch(stream, variant, &mut state, StateAfter::Updated)?;
            stream.synchronize()?;
            let got = (self.y.read()?, state.read()?);
            if let Some(base) = &base {
                let (of, promise) = ((DELTA_REC.op, variant, case), DELTA_REC.row(variant)?.exactness);
                within_promise(of, "y", promise, [&base.0, &got.0])?;
                within_promise(of, "state", promise, [&base.1, &got.1])?;
            } else {
                base = Some(got);
            }
        }
        Ok(())
    }
}

/// Sizes of a call over sequences of these lengths.
pub(super) fn sizes_of([key_heads, value_heads]: [usize; 2], lengths: &[usize]) -> DeltaSizes {
    let longest = lengths.iter().copied().max().unwrap_or(0);
    let single = DeltaSizes::single(key_heads, value_heads, lengths.iter().sum());
    DeltaSizes { sequences: lengths.len(), longest, ..single }
}

/// The variants of `delta.rec` that run these sizes on this device, of those that `wanted` names (all if empty).
pub(super) fn arms(device: &Device, sizes: &DeltaSizes, wanted: &[String]) -> Vec<&'static str> {
    let named = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
    let rows = DELTA_REC.rows.iter().rev().filter(|row| named(row.name));
    rows.filter(|&row| DELTA_REC.launch_of(row, device.caps(), sizes).is_ok()).map(|row| row.name).collect()
}
