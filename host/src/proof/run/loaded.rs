//! A case of `delta.rec` on a device: guarded buffers, calls, and what they leave.

use std::ops::Range;

use super::devices::Neighbour;
use crate::backend::{BackendError, Buffer, Device, Stream, View};
use crate::ops::LogGate;
use crate::ops::delta_rec::{RecArgs, StateAfter, recurrence, recurrence_by};
use crate::ops::dispatch::{Dispatch, OpError};
use crate::proof::case::{RecCase, RecShape};
use crate::proof::compare::{self, Failure};
use varve_gpu::geometry::HEAD_DIM;

/// Rows of NaN behind every input, and of poison behind every output.
const GUARD_ROWS: usize = 64;

/// Why a run has no result.
#[derive(Debug, thiserror::Error)]
pub(super) enum Flaw {
    #[error(transparent)]
    Backend(#[from] BackendError),
    #[error(transparent)]
    Op(#[from] OpError),
    #[error(transparent)]
    Failure(#[from] Failure),
}

/// Who says which variant runs.
#[derive(Clone, Copy)]
pub(super) enum By<'a> {
    /// The caller.
    Variant(&'a str),
    /// The operation's table.
    Choice(&'a Dispatch),
}

/// Output and state of a call, without gaps.
pub(super) struct Outcome {
    pub y: Vec<f32>,
    pub state: Vec<f32>,
}

/// A case on a device.
pub(super) struct Loaded<'a> {
    case: &'a RecCase,
    pub stream: Stream,
    pub qkv: Buffer<f32>,
    pub gate: Buffer<f32>,
    pub beta: Buffer<f32>,
    pub state: Buffer<f32>,
    pub y: Buffer<f32>,
    neighbour: Option<Neighbour>,
    poison: u32,
    resets: usize,
}

/// A row-strided view of tokens `tokens`.
pub(super) fn rows<'a>(
    buffer: &'a Buffer<f32>,
    tokens: &Range<usize>,
    width: usize,
    stride: usize,
) -> Result<View<'a, f32, 2>, BackendError> {
    Ok(buffer.view_strided(tokens.start * stride, [tokens.len(), width], [stride, 1])?)
}

impl<'a> Loaded<'a> {
    pub fn new(device: &Device, case: &'a RecCase) -> Result<Self, BackendError> {
        let guarded = |data: &[f32], stride: usize| {
            let mut rows = Vec::with_capacity(data.len() + GUARD_ROWS * stride);
            rows.extend_from_slice(data);
            rows.resize(data.len() + GUARD_ROWS * stride, f32::NAN);
            device.upload(&rows)
        };
        let shape = &case.shape;
        let mut y: Buffer<f32> = device.alloc((shape.tokens + GUARD_ROWS) * shape.y_stride)?;
        y.poison()?;
        let poison = y.read_range(0..1)?[0].to_bits();
        Ok(Self {
            case,
            stream: device.stream()?,
            qkv: guarded(&case.qkv, shape.qkv_stride)?,
            gate: guarded(&case.gate, shape.gate_stride)?,
            beta: guarded(&case.beta, shape.beta_stride)?,
            state: device.upload(&case.state)?,
            y,
            neighbour: Neighbour::new(device)?,
            poison,
            resets: 0,
        })
    }

    /// Sizes and strides of the case.
    pub fn shape(&self) -> RecShape {
        self.case.shape
    }

    /// The state before the call, and an output that nobody has written; every other time scratch that nobody has written
    /// either, else what the call before has left there.
    pub fn reset(&mut self) -> Result<(), BackendError> {
        self.state.write(&self.case.state)?;
        self.resets += 1;
        if self.resets.is_multiple_of(2) {
            self.stream.poison_scratch()?;
        }
        self.y.poison()
    }

    /// Runs tokens `tokens`; returns the variant's name.
    pub fn call(&mut self, by: By<'_>, tokens: Range<usize>, state_after: StateAfter) -> Result<&'static str, Flaw> {
        let shape = self.case.shape;
        let (heads, state_strides) = (shape.value_heads, [shape.y_width(), HEAD_DIM, 1]);
        let (y_offset, y_dims) = (tokens.start * shape.y_stride, [tokens.len(), shape.y_width()]);
        let args = RecArgs {
            qkv: rows(&self.qkv, &tokens, shape.qkv_width(), shape.qkv_stride)?,
            gate: LogGate(rows(&self.gate, &tokens, heads, shape.gate_stride)?),
            beta: rows(&self.beta, &tokens, heads, shape.beta_stride)?,
            state: self
                .state
                .view_strided_mut(0, [HEAD_DIM, heads, HEAD_DIM], state_strides)
                .map_err(BackendError::from)?,
            y: self.y.view_strided_mut(y_offset, y_dims, [shape.y_stride, 1]).map_err(BackendError::from)?,
            key_heads: shape.key_heads,
            state_after,
            batch: None,
        };
        Ok(match by {
            By::Variant(variant) => recurrence_by(variant, &self.stream, args)?,
            By::Choice(dispatch) => recurrence(dispatch, &self.stream, args)?,
        })
    }

    /// Whether nothing was written outside the outputs of the case's tokens.
    pub fn gaps_untouched(&self) -> Result<Result<(), Failure>, BackendError> {
        let shape = &self.case.shape;
        let y = self.y.read()?;
        Ok(compare::gaps_untouched(&y, shape.tokens, shape.y_width(), shape.y_stride, self.poison))
    }

    /// What the calls since the reset have left, if they wrote all outputs of `tokens` tokens and nothing else.
    pub fn outcome(&self, tokens: usize) -> Result<Outcome, Flaw> {
        let shape = &self.case.shape;
        let (state, y) = (self.state.read()?, self.y.read()?);
        compare::gaps_untouched(&y, tokens, shape.y_width(), shape.y_stride, self.poison)?;
        let y = compare::dense_rows(y, tokens, shape.y_width(), shape.y_stride);
        compare::written(&y, self.poison)?;
        Ok(Outcome { y, state })
    }

    /// One call over all tokens from the case's state.
    pub fn whole(&mut self, variant: &str, state_after: StateAfter, beside_copies: bool) -> Result<Outcome, Flaw> {
        self.reset()?;
        if beside_copies && let Some(neighbour) = &mut self.neighbour {
            neighbour.start()?;
        }
        self.call(By::Variant(variant), 0..self.case.shape.tokens, state_after)?;
        self.outcome(self.case.shape.tokens)
    }

    /// The calls that `cuts` make of the case, each by its own variant.
    pub fn pieces(&mut self, pieces: &[(&str, Range<usize>)]) -> Result<Outcome, Flaw> {
        self.reset()?;
        for (variant, tokens) in pieces {
            self.call(By::Variant(variant), tokens.clone(), StateAfter::Updated)?;
        }
        self.outcome(self.case.shape.tokens)
    }

    /// Tokens before `last` by `variant`, then the last one by each of `decode` from the state that those left.
    pub fn handed_over(&mut self, variant: &str, last: usize, decode: &[&str]) -> Result<Vec<Outcome>, Flaw> {
        self.reset()?;
        self.call(By::Variant(variant), 0..last, StateAfter::Updated)?;
        let state = self.state.read()?;
        let one = |decode: &&str| {
            self.state.write(&state)?;
            self.call(By::Variant(decode), last..last + 1, StateAfter::Updated)?;
            self.outcome(last + 1)
        };
        decode.iter().map(one).collect()
    }

    /// The inputs are what they were.
    pub fn inputs_untouched(&self) -> Result<(), Flaw> {
        for (buffer, data) in
            [(&self.qkv, &self.case.qkv), (&self.gate, &self.case.gate), (&self.beta, &self.case.beta)]
        {
            compare::bits(data, &buffer.read_range(0..data.len())?)?;
        }
        Ok(())
    }
}
