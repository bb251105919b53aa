//! `ple.*`: gate and convolution of the n-gram embedding.

use std::fmt;
use std::ops::Range;

use super::operand::{Law, Loaded, Matrix};
use super::{Call, Case, Expected, Promised, Values, variants, works};
use crate::backend::Device;
use crate::ops::QuadSizes;
use crate::ops::conv_window::{WindowArgs, window};
use crate::ops::dispatch::Pick;
use crate::ops::ple_conv::{ConvArgs, PLE_CONV, conv};
use crate::ops::ple_gate::{GateArgs, GateSizes, PLE_GATE, gate};
use crate::proof::reference::ple as reference;
use crate::proof::run::loaded::Flaw;
use crate::proof::run::{Context, Operation};

/// Streams and their width.
#[derive(Clone, Copy)]
pub struct GateWidth(usize, usize);

impl fmt::Display for GateWidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.0, self.1)
    }
}

const GATE_WIDTHS: &[GateWidth] =
    &[GateWidth(4, 64), GateWidth(1, 1), GateWidth(2, 7), GateWidth(3, 130), GateWidth(3, 257), GateWidth(4, 2560)];

struct Gate {
    streams: usize,
    key: Matrix<f32>,
    query: Matrix<f32>,
    val: Matrix<f32>,
    call: Call,
}

impl Case for Gate {
    fn names(&self) -> [&'static str; 2] {
        [PLE_GATE.op, PLE_GATE.base().name]
    }

    fn variants(&self, context: &Context<'_>) -> Vec<Promised> {
        variants(context, &PLE_GATE, &GateSizes { warps: 1, wide: false })
    }

    fn tokens(&self) -> usize {
        self.val.rows
    }

    fn run(
        &self,
        device: &Device,
        variant: &str,
        pieces: &[Range<usize>],
    ) -> Result<Vec<(&'static str, Values)>, Flaw> {
        let (stream, val) = (device.stream()?, Loaded::of(device, &self.val)?);
        let (key, query) = (Loaded::of(device, &self.key)?, Loaded::of(device, &self.query)?);
        let mut u = Loaded::blank(device, 3, self.call.layout, [self.key.rows, self.key.width])?;
        for piece in pieces {
            let (key, query, val) = (key.view(piece)?, query.view(piece)?, val.view(piece)?);
            let args = GateArgs { key, query, val, streams: self.streams, u: u.view_mut(piece)? };
            gate(Pick::Named(variant), &stream, args)?;
        }
        Ok(vec![("u", Values::F32(u.read()?))])
    }

    fn expected(&self) -> Vec<Expected> {
        let row = |t: usize| reference::gate(self.key.row(t), self.query.row(t), self.val.row(t));
        vec![Expected::Near((0..self.val.rows).flat_map(row).collect())]
    }
}

/// `ple.gate`.
pub const GATE: Operation = Operation {
    op: PLE_GATE.op,
    variants: || PLE_GATE.listed().1,
    works: |scale| {
        works(scale, GATE_WIDTHS, |call, GateWidth(streams, dim)| {
            let matrix = |operand, width| Matrix::random(operand, call.layout, [call.tokens, width], call.law);
            let (key, query) = (matrix(0, streams * dim), matrix(1, streams * dim));
            Gate { streams, key, query, val: matrix(2, dim), call }
        })
    },
};

/// Channels, taps, dilation.
#[derive(Clone, Copy)]
pub struct ConvWidth(usize, usize, usize);

impl fmt::Display for ConvWidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/taps={}x{}", self.0, self.1, self.2)
    }
}

const CONV_WIDTHS: &[ConvWidth] = &[
    ConvWidth(64, 4, 3),
    ConvWidth(7, 4, 3),
    ConvWidth(130, 2, 1),
    ConvWidth(5, 1, 1),
    ConvWidth(12, 3, 5),
    ConvWidth(10240, 4, 3),
];

const TAPS: Law = Law { name: "taps", scale: 0.5, zero_rows: false };

struct Conv {
    dilation: usize,
    m: Matrix<f32>,
    window: Matrix<f32>,
    taps: Matrix<f32>,
    u: Matrix<f32>,
    s: Matrix<f32>,
}

impl Conv {
    /// Input `back` tokens before token `t` of the call.
    fn input(&self, t: usize, back: usize, channel: usize) -> f32 {
        if back <= t { self.m.row(t - back)[channel] } else { self.window.row(self.window.rows + t - back)[channel] }
    }
}

impl Case for Conv {
    fn names(&self) -> [&'static str; 2] {
        [PLE_CONV.op, PLE_CONV.base().name]
    }

    fn variants(&self, context: &Context<'_>) -> Vec<Promised> {
        variants(context, &PLE_CONV, &QuadSizes { rows: 1, width: 1, wide: false })
    }

    fn tokens(&self) -> usize {
        self.s.rows
    }

    /// Between pieces the window moves on by `conv.window`, as it does in the model.
    fn run(
        &self,
        device: &Device,
        variant: &str,
        pieces: &[Range<usize>],
    ) -> Result<Vec<(&'static str, Values)>, Flaw> {
        let stream = device.stream()?;
        let [m, taps, u] = [&self.m, &self.taps, &self.u].map(|matrix| Loaded::of(device, matrix));
        let (m, taps, u, mut rows) = (m?, taps?, u?, Loaded::of(device, &self.window)?);
        let mut s = Loaded::of(device, &self.s)?;
        for piece in pieces {
            let args = ConvArgs {
                m: m.view(piece)?,
                window: rows.all()?,
                taps: taps.all()?,
                u: u.view(piece)?,
                s: s.view_mut(piece)?,
                dilation: self.dilation,
            };
            conv(Pick::Named(variant), &stream, args)?;
            let dispatch = crate::ops::dispatch::Dispatch::default();
            window(Pick::Best(&dispatch), &stream, WindowArgs { window: rows.all_mut()?, x: m.view(piece)? })?;
        }
        Ok(vec![("s", Values::F32(s.read()?)), ("window", Values::F32(rows.read()?))])
    }

    fn expected(&self) -> Vec<Expected> {
        let (taps, width) = (self.taps.width, self.s.width);
        let element = |i: usize| {
            let (t, channel) = (i / width, i % width);
            let inputs: Vec<f32> = (0..taps).map(|k| self.input(t, (taps - 1 - k) * self.dilation, channel)).collect();
            reference::conv(self.s.row(t)[channel], self.u.row(t)[channel], self.taps.row(channel), &inputs)
        };
        vec![Expected::Near((0..self.s.values.len()).map(element).collect()), Expected::Any]
    }
}

/// `ple.conv`.
pub const CONV: Operation = Operation {
    op: PLE_CONV.op,
    variants: || PLE_CONV.listed().1,
    works: |scale| {
        works(scale, CONV_WIDTHS, |call, ConvWidth(width, taps, dilation)| {
            let matrix = |operand, rows| Matrix::random(operand, call.layout, [rows, width], call.law);
            let dense = super::Layout::Dense;
            Conv {
                dilation,
                m: matrix(0, call.tokens),
                window: matrix(1, (taps - 1) * dilation),
                taps: Matrix::random(2, dense, [width, taps], &TAPS),
                u: matrix(3, call.tokens),
                s: matrix(4, call.tokens),
            }
        })
    },
};
