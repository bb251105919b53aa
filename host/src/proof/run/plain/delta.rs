//! `delta.conv`, `delta.gates`: what the recurrence reads.

use std::fmt;
use std::ops::Range;

use super::operand::{LAWS, Law, Layout, Loaded, Matrix, vector};
use super::{Case, Expected, Promised, Values, aligned_works, variants, works};
use crate::backend::Device;
use crate::ops::conv_window::{WindowArgs, window};
use crate::ops::delta_conv::{ConvArgs, ConvSizes, DELTA_CONV, conv};
use crate::ops::delta_gates::{DELTA_GATES, GatesArgs, GatesSizes, gates};
use crate::ops::dispatch::{Dispatch, Pick};
use crate::proof::reference::dense::log_decay;
use crate::proof::reference::near::Near;
use crate::proof::reference::norm::{Divisor, norm};
use crate::proof::reference::ple::convolved;
use crate::proof::run::loaded::Flaw;
use crate::proof::run::{Context, Operation};
use varve_gpu::delta::{CONV_TAPS, L2_EPS};
use varve_gpu::geometry::HEAD_DIM;

/// Key heads, value heads, channels of a head.
#[derive(Clone, Copy)]
pub struct Heads(usize, usize, usize);

impl fmt::Display for Heads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "heads={}x{}/dim={}", self.0, self.1, self.2)
    }
}

const HEADS: &[Heads] = &[Heads(2, 6, 128), Heads(1, 1, 4), Heads(2, 4, 64), Heads(3, 3, 100)];
const TAPS: Law = Law { name: "taps", scale: 0.5, zero_rows: false };

struct Conv {
    heads: Heads,
    raw: Matrix<f32>,
    window: Matrix<f32>,
    taps: Matrix<f32>,
    layout: Layout,
}

impl Conv {
    fn channel(&self, t: usize, channel: usize) -> Near {
        let row =
            |i: usize| if t + i < CONV_TAPS - 1 { self.window.row(t + i) } else { self.raw.row(t + i + 1 - CONV_TAPS) };
        let inputs: Vec<f32> = (0..CONV_TAPS).map(|i| row(i)[channel]).collect();
        convolved(self.taps.row(channel), &inputs)
    }

    fn head(&self, t: usize, head: usize) -> Vec<Near> {
        let Heads(key_heads, _, dim) = self.heads;
        let mut out: Vec<Near> = (0..dim).map(|c| self.channel(t, head * dim + c)).collect();
        if head < 2 * key_heads {
            let scale = if head < key_heads { (HEAD_DIM as f64 / dim as f64).sqrt() } else { 1.0 };
            out = norm(&out, |_| scale, Divisor::SumOfSquares, L2_EPS);
        }
        out.resize(HEAD_DIM, Near::default());
        out
    }
}

impl Case for Conv {
    fn names(&self) -> [&'static str; 2] {
        [DELTA_CONV.op, DELTA_CONV.base().name]
    }

    fn variants(&self, context: &Context<'_>) -> Vec<Promised> {
        variants(context, &DELTA_CONV, &ConvSizes { rows: 1 })
    }

    fn tokens(&self) -> usize {
        self.raw.rows
    }

    fn run(
        &self,
        device: &Device,
        variant: &str,
        pieces: &[Range<usize>],
    ) -> Result<Vec<(&'static str, Values)>, Flaw> {
        let (stream, dispatch, Heads(key_heads, value_heads, head_dim)) =
            (device.stream()?, Dispatch::default(), self.heads);
        let (raw, taps) = (Loaded::of(device, &self.raw)?, Loaded::of(device, &self.taps)?);
        let mut rows = Loaded::of(device, &self.window)?;
        let width = (2 * key_heads + value_heads) * HEAD_DIM;
        let mut out = Loaded::blank(device, 1, self.layout, [self.raw.rows, width])?;
        for piece in pieces {
            let args = ConvArgs {
                raw: raw.view(piece)?,
                window: rows.all()?,
                taps: taps.all()?,
                out: out.view_mut(piece)?,
                key_heads,
                value_heads,
                head_dim,
            };
            conv(Pick::Named(variant), &stream, args)?;
            window(Pick::Best(&dispatch), &stream, WindowArgs { window: rows.all_mut()?, x: raw.view(piece)? })?;
        }
        Ok(vec![("out", Values::F32(out.read()?))])
    }

    fn expected(&self) -> Vec<Expected> {
        let heads = 2 * self.heads.0 + self.heads.1;
        vec![Expected::Near((0..self.raw.rows * heads).flat_map(|i| self.head(i / heads, i % heads)).collect())]
    }
}

/// `delta.conv`.
pub const CONV: Operation = Operation {
    op: DELTA_CONV.op,
    variants: || DELTA_CONV.listed().1,
    works: |scale| {
        aligned_works(scale, HEADS, |call, heads| {
            let channels = (2 * heads.0 + heads.1) * heads.2;
            Conv {
                heads,
                raw: Matrix::random(0, call.layout, [call.tokens, channels], call.law),
                window: Matrix::random(1, Layout::Dense, [CONV_TAPS - 1, channels], call.law),
                taps: Matrix::random(2, Layout::Dense, [channels, CONV_TAPS], &TAPS),
                layout: call.layout,
            }
        })
    },
};

/// Value heads.
#[derive(Clone, Copy)]
pub struct ValueHeads(usize);

impl fmt::Display for ValueHeads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "heads={}", self.0)
    }
}

const VALUE_HEADS: &[ValueHeads] = &[ValueHeads(6), ValueHeads(1), ValueHeads(48), ValueHeads(65)];

struct Gates {
    ba: Matrix<f32>,
    neg_a: Vec<f32>,
    dt_bias: Matrix<f32>,
}

impl Case for Gates {
    fn names(&self) -> [&'static str; 2] {
        [DELTA_GATES.op, DELTA_GATES.base().name]
    }

    fn variants(&self, context: &Context<'_>) -> Vec<Promised> {
        variants(context, &DELTA_GATES, &GatesSizes { values: 1 })
    }

    fn tokens(&self) -> usize {
        self.ba.rows
    }

    fn run(
        &self,
        device: &Device,
        variant: &str,
        pieces: &[Range<usize>],
    ) -> Result<Vec<(&'static str, Values)>, Flaw> {
        let (stream, ba) = (device.stream()?, Loaded::of(device, &self.ba)?);
        let (neg_a, dt_bias) = (device.upload(&self.neg_a)?, device.upload(&self.dt_bias.values)?);
        let blank = || Loaded::blank(device, 1, Layout::Dense, [self.ba.rows, self.neg_a.len()]);
        let (mut gate, mut beta) = (blank()?, blank()?);
        for piece in pieces {
            let args = GatesArgs {
                ba: ba.view(piece)?,
                neg_a: vector(&neg_a)?,
                dt_bias: vector(&dt_bias)?,
                gate: gate.view_mut(piece)?,
                beta: beta.view_mut(piece)?,
            };
            gates(Pick::Named(variant), &stream, args)?;
        }
        Ok(vec![("gate", Values::F32(gate.read()?)), ("beta", Values::F32(beta.read()?))])
    }

    fn expected(&self) -> Vec<Expected> {
        let heads = self.neg_a.len();
        let (mut gate, mut beta) = (Vec::new(), Vec::new());
        for t in 0..self.ba.rows {
            let (b, a) = self.ba.row(t).split_at(heads);
            beta.extend(b.iter().map(|&b| Near::sigmoid(f64::from(b), 0.0)));
            gate.extend((0..heads).map(|h| log_decay(a[h], self.dt_bias.values[h], self.neg_a[h])));
        }
        vec![Expected::Near(gate), Expected::Near(beta)]
    }
}

/// `delta.gates`.
pub const GATES: Operation = Operation {
    op: DELTA_GATES.op,
    variants: || DELTA_GATES.listed().1,
    works: |scale| {
        works(scale, VALUE_HEADS, |call, ValueHeads(heads)| {
            let per_head = |operand| Matrix::random(operand, Layout::Dense, [1, heads], &LAWS[0]);
            Gates {
                ba: Matrix::random(0, call.layout, [call.tokens, 2 * heads], call.law),
                neg_a: per_head(8).values.iter().map(|x| -x.exp()).collect(),
                dt_bias: per_head(9),
            }
        })
    },
};
