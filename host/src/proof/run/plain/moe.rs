//! `moe.silu_mul`, `moe.combine`: what lies between and behind the experts' products.

use std::fmt;
use std::ops::Range;

use super::operand::{Layout, Loaded, Matrix};
use super::{Case, Expected, Promised, Values, variants, works};
use crate::backend::Device;
use crate::ops::QuadSizes;
use crate::ops::dispatch::Pick;
use crate::ops::moe_combine::{CombineArgs, MOE_COMBINE, combine};
use crate::ops::moe_silu_mul::{MOE_SILU_MUL, SiluMulArgs, silu_mul};
use crate::proof::reference::moe as reference;
use crate::proof::run::loaded::Flaw;
use crate::proof::run::{Context, Operation};

/// Values of a row.
#[derive(Clone, Copy)]
pub struct Inner(usize);

impl fmt::Display for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

const INNER: &[Inner] = &[Inner(128), Inner(1), Inner(7), Inner(130), Inner(640)];

struct SiluMul {
    /// Gate and up side by side.
    both: Matrix<f32>,
    layout: Layout,
}

impl Case for SiluMul {
    fn names(&self) -> [&'static str; 2] {
        [MOE_SILU_MUL.op, MOE_SILU_MUL.base().name]
    }

    fn variants(&self, context: &Context<'_>) -> Vec<Promised> {
        variants(context, &MOE_SILU_MUL, &QuadSizes { rows: 1, width: 1, wide: false })
    }

    fn tokens(&self) -> usize {
        self.both.rows
    }

    fn run(
        &self,
        device: &Device,
        variant: &str,
        pieces: &[Range<usize>],
    ) -> Result<Vec<(&'static str, Values)>, Flaw> {
        let (stream, both, inter) = (device.stream()?, Loaded::of(device, &self.both)?, self.both.width / 2);
        let mut h = Loaded::blank(device, 1, self.layout, [self.both.rows, inter])?;
        for piece in pieces {
            let both = both.view(piece)?;
            let half = |range| both.part(1, range).map_err(crate::backend::BackendError::from);
            let args = SiluMulArgs { gate: half(0..inter)?, up: half(inter..2 * inter)?, h: h.view_mut(piece)? };
            silu_mul(Pick::Named(variant), &stream, args)?;
        }
        Ok(vec![("h", Values::F32(h.read()?))])
    }

    fn expected(&self) -> Vec<Expected> {
        let row = |t: usize| {
            let (gate, up) = self.both.row(t).split_at(self.both.width / 2);
            gate.iter().zip(up).map(|(&gate, &up)| reference::silu_mul(gate, up)).collect::<Vec<_>>()
        };
        vec![Expected::Near((0..self.both.rows).flat_map(row).collect())]
    }
}

/// `moe.silu_mul`.
pub const SILU_MUL: Operation = Operation {
    op: MOE_SILU_MUL.op,
    variants: || MOE_SILU_MUL.listed().1,
    works: |scale| {
        works(scale, INNER, |call, Inner(inter)| {
            let both = Matrix::random(0, call.layout, [call.tokens, 2 * inter], call.law);
            SiluMul { both, layout: call.layout }
        })
    },
};

/// Experts of a token, and the width.
#[derive(Clone, Copy)]
pub struct Sum(usize, usize);

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.0, self.1)
    }
}

const SUMS: &[Sum] = &[Sum(4, 64), Sum(1, 4), Sum(3, 7), Sum(10, 130), Sum(10, 2560)];

struct Combine {
    weights: Matrix<f32>,
    down: Matrix<f32>,
    shared_gate: Matrix<f32>,
    shared: Matrix<f32>,
    layout: Layout,
}

impl Case for Combine {
    fn names(&self) -> [&'static str; 2] {
        [MOE_COMBINE.op, MOE_COMBINE.base().name]
    }

    fn variants(&self, context: &Context<'_>) -> Vec<Promised> {
        variants(context, &MOE_COMBINE, &QuadSizes { rows: 1, width: 1, wide: false })
    }

    fn tokens(&self) -> usize {
        self.shared.rows
    }

    fn run(
        &self,
        device: &Device,
        variant: &str,
        pieces: &[Range<usize>],
    ) -> Result<Vec<(&'static str, Values)>, Flaw> {
        let (stream, k) = (device.stream()?, self.weights.width);
        let (weights, down) = (Loaded::of(device, &self.weights)?, Loaded::of(device, &self.down)?);
        let (shared_gate, shared) = (Loaded::of(device, &self.shared_gate)?, Loaded::of(device, &self.shared)?);
        let mut y = Loaded::blank(device, 4, self.layout, [self.shared.rows, self.shared.width])?;
        for piece in pieces {
            let args = CombineArgs {
                weights: weights.view(piece)?,
                down: down.view(&(piece.start * k..piece.end * k))?,
                shared_gate: shared_gate.view(piece)?,
                shared: shared.view(piece)?,
                y: y.view_mut(piece)?,
            };
            combine(Pick::Named(variant), &stream, args)?;
        }
        Ok(vec![("y", Values::F32(y.read()?))])
    }

    fn expected(&self) -> Vec<Expected> {
        let (k, width) = (self.weights.width, self.shared.width);
        let element = |i: usize| {
            let (t, column) = (i / width, i % width);
            let down: Vec<f32> = (0..k).map(|j| self.down.row(t * k + j)[column]).collect();
            reference::combine(self.weights.row(t), &down, self.shared_gate.row(t)[0], self.shared.row(t)[column])
        };
        vec![Expected::Near((0..self.shared.values.len()).map(element).collect())]
    }
}

/// `moe.combine`.
pub const COMBINE: Operation = Operation {
    op: MOE_COMBINE.op,
    variants: || MOE_COMBINE.listed().1,
    works: |scale| {
        works(scale, SUMS, |call, Sum(k, width)| {
            let matrix = |operand, dims| Matrix::random(operand, call.layout, dims, call.law);
            Combine {
                weights: matrix(0, [call.tokens, k]),
                down: matrix(1, [call.tokens * k, width]),
                shared_gate: matrix(2, [call.tokens, 1]),
                shared: matrix(3, [call.tokens, width]),
                layout: call.layout,
            }
        })
    },
};
