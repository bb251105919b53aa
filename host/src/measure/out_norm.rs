//! `delta.out_norm`: one launch between two events.

use half::f16;

use super::case::{MeasureError, Prepared, between_events, event_or_wall, same_bits};
use super::floor::Floor;
use crate::backend::{Buffer, Device, Stream};
use crate::ops::delta_out_norm::{DELTA_OUT_NORM, OutNormArgs, OutputGate, out_norm_by};
use crate::proof::case::{NORM_INPUTS, NormCase, NormShape};

/// The norm of `tokens` tokens, sigmoid gate.
pub struct OutNorm {
    stream: Stream,
    arms: Vec<&'static str>,
    operands: Operands,
}

struct Operands {
    tokens: usize,
    value_heads: usize,
    y: Buffer<f32>,
    z: Buffer<f32>,
    gamma: Buffer<f32>,
    y16: Buffer<u16>,
}

impl OutNorm {
    /// Sets the case up and checks every arm; `wanted` names the variants, all if empty.
    ///
    /// # Errors
    /// The device's, or an arm whose bits are not the base's.
    pub fn new(device: &Device, value_heads: usize, tokens: usize, wanted: &[String]) -> Result<Self, MeasureError> {
        let inputs = NormCase::new(NormShape::dense(value_heads, tokens), &NORM_INPUTS[0], 1);
        let named = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
        let stream = device.stream()?;
        let arms: Vec<_> = DELTA_OUT_NORM.rows.iter().rev().map(|row| row.name).filter(|name| named(name)).collect();
        let mut operands = Operands {
            tokens,
            value_heads,
            y: device.upload(&inputs.y)?,
            z: device.upload(&inputs.z)?,
            gamma: device.upload(&inputs.gamma)?,
            y16: device.alloc(inputs.y.len())?,
        };
        let mut base: Option<Vec<f16>> = None;
        for &variant in &arms {
            operands.y16.poison()?;
            operands.launch(&stream, variant)?;
            stream.synchronize()?;
            let got: Vec<f16> = operands.y16.read()?.into_iter().map(f16::from_bits).collect();
            match &base {
                Some(base) => same_bits(DELTA_OUT_NORM.op, variant, &name(value_heads, tokens), "y16", [base, &got])?,
                None => base = Some(got),
            }
        }
        Ok(Self { stream, arms, operands })
    }
}

fn name(value_heads: usize, tokens: usize) -> String {
    format!("norm {value_heads}x{tokens}")
}

impl Operands {
    fn launch(&mut self, stream: &Stream, variant: &str) -> Result<(), MeasureError> {
        let dims = [self.tokens, self.value_heads * 128];
        let args = OutNormArgs {
            y: self.y.view(dims)?,
            z: self.z.view(dims)?,
            gamma: self.gamma.view([128])?,
            y16: self.y16.view_mut(dims)?,
            eps: 1e-6,
            gate: OutputGate::Sigmoid,
        };
        out_norm_by(variant, stream, args)?;
        Ok(())
    }
}

impl Prepared for OutNorm {
    fn op(&self) -> &'static str {
        DELTA_OUT_NORM.op
    }

    fn case(&self) -> String {
        name(self.operands.value_heads, self.operands.tokens)
    }

    fn tokens(&self) -> usize {
        self.operands.tokens
    }

    fn arms(&self) -> &[&'static str] {
        &self.arms
    }

    fn exactness(&self, arm: usize) -> &'static str {
        DELTA_OUT_NORM.word_of(self.arms[arm])
    }

    fn floor(&self) -> Floor {
        Floor::delta_out_norm(self.operands.tokens, self.operands.value_heads)
    }

    fn how(&self) -> &'static str {
        event_or_wall(&self.stream)
    }

    fn time(&mut self, arm: usize) -> Result<f64, MeasureError> {
        let Self { stream, arms, operands } = self;
        between_events(stream, || operands.launch(stream, arms[arm]))
    }
}
