//! `delta.rec` over a prompt: one launch between two events, the state restored outside them.

use super::case::{MeasureError, Prepared, between_events, event_or_wall, same_bits};
use super::floor::Floor;
use crate::backend::{Buffer, Device, Stream};
use crate::ops::delta_rec::{DELTA_REC, RecArgs, StateAfter, recurrence_by};
use crate::ops::{DeltaSizes, LogGate};
use crate::proof::case::{RecCase, RecShape};
use crate::proof::inputs;

/// Operands of a recurrence call on the device.
pub(super) struct Operands {
    pub sizes: DeltaSizes,
    pub qkv: Buffer<f32>,
    pub gate: Buffer<f32>,
    pub beta: Buffer<f32>,
    pub y: Buffer<f32>,
    /// The state before the call.
    pub start: Buffer<f32>,
}

impl Operands {
    /// Uploads base inputs of these sizes.
    pub fn new(device: &Device, sizes: DeltaSizes) -> Result<Self, MeasureError> {
        let case = RecCase::new(RecShape::dense(sizes.key_heads, sizes.value_heads, sizes.tokens), &inputs::BASE, 1);
        Ok(Self {
            sizes,
            qkv: device.upload(&case.qkv)?,
            gate: device.upload(&case.gate)?,
            beta: device.upload(&case.beta)?,
            y: device.alloc(sizes.tokens * sizes.y_width())?,
            start: device.upload(&case.state)?,
        })
    }

    /// One call of `variant` on `state`.
    pub fn launch(
        &mut self,
        stream: &Stream,
        variant: &str,
        state: &mut Buffer<f32>,
        state_after: StateAfter,
    ) -> Result<(), MeasureError> {
        let DeltaSizes { key_heads, value_heads, tokens, .. } = self.sizes;
        let args = RecArgs {
            qkv: self.qkv.view([tokens, self.sizes.qkv_width()])?,
            gate: LogGate(self.gate.view([tokens, value_heads])?),
            beta: self.beta.view([tokens, value_heads])?,
            state: state.view_mut([128, value_heads, 128])?,
            y: self.y.view_mut([tokens, self.sizes.y_width()])?,
            key_heads,
            state_after,
            batch: None,
        };
        recurrence_by(variant, stream, args)?;
        Ok(())
    }

    /// A copy of the state before the call.
    pub fn state(&self, device: &Device) -> Result<Buffer<f32>, MeasureError> {
        let mut state = device.alloc(self.start.len())?;
        state.copy_from(&self.start)?;
        Ok(state)
    }

    /// Runs `arms` once each on poisoned outputs and holds their bits to the first one's.
    pub fn check(&mut self, stream: &Stream, case: &str, arms: &[&'static str]) -> Result<(), MeasureError> {
        let mut base: Option<(Vec<f32>, Vec<f32>)> = None;
        for &variant in arms {
            let mut state = self.state(stream.device())?;
            self.y.poison()?;
            self.launch(stream, variant, &mut state, StateAfter::Updated)?;
            stream.synchronize()?;
            let got = (self.y.read()?, state.read()?);
            if let Some(base) = &base {
                same_bits(DELTA_REC.op, variant, case, "y", [&base.0, &got.0])?;
                same_bits(DELTA_REC.op, variant, case, "state", [&base.1, &got.1])?;
            } else {
                base = Some(got);
            }
        }
        Ok(())
    }
}

/// The variants of `delta.rec` that run these sizes on this device, of those that `wanted` names (all if empty).
pub(super) fn arms(device: &Device, sizes: &DeltaSizes, wanted: &[String]) -> Vec<&'static str> {
    let named = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
    let rows = DELTA_REC.rows.iter().rev().filter(|row| named(row.name));
    rows.filter(|&row| DELTA_REC.launch_of(row, device.caps(), sizes).is_ok()).map(|row| row.name).collect()
}

/// A prompt of `sizes.tokens` tokens.
pub struct Prompt {
    stream: Stream,
    operands: Operands,
    state: Buffer<f32>,
    arms: Vec<&'static str>,
}

impl Prompt {
    /// Sets the case up and checks every arm; `wanted` names the variants, all if empty.
    ///
    /// # Errors
    /// The device's, or an arm whose bits are not the base's.
    pub fn new(device: &Device, sizes: DeltaSizes, wanted: &[String]) -> Result<Self, MeasureError> {
        let (stream, mut operands) = (device.stream()?, Operands::new(device, sizes)?);
        let arms = arms(device, &sizes, wanted);
        operands.check(&stream, &name(&sizes), &arms)?;
        let state = device.alloc(operands.start.len())?;
        Ok(Self { stream, operands, state, arms })
    }
}

fn name(sizes: &DeltaSizes) -> String {
    format!("prompt {}x{}x{}", sizes.key_heads, sizes.value_heads, sizes.tokens)
}

impl Prepared for Prompt {
    fn op(&self) -> &'static str {
        DELTA_REC.op
    }

    fn case(&self) -> String {
        name(&self.operands.sizes)
    }

    fn tokens(&self) -> usize {
        self.operands.sizes.tokens
    }

    fn arms(&self) -> &[&'static str] {
        &self.arms
    }

    fn floor(&self) -> Floor {
        Floor::delta_rec(&self.operands.sizes, false)
    }

    fn how(&self) -> &'static str {
        event_or_wall(&self.stream)
    }

    fn time(&mut self, arm: usize) -> Result<f64, MeasureError> {
        let Self { stream, operands, state, arms } = self;
        state.copy_from_on(stream, &operands.start)?;
        let variant = arms[arm];
        between_events(stream, || operands.launch(stream, variant, state, StateAfter::Updated))
    }
}
