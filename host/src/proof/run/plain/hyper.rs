//! `hyper.*`: residual streams.

use std::fmt;
use std::ops::Range;

use super::operand::{Loaded, Matrix};
use super::{Call, Case, Expected, Promised, Values, variants, works};
use crate::backend::Device;
use crate::ops::QuadSizes;
use crate::ops::dispatch::Pick;
use crate::ops::hyper_expand::{ExpandArgs, HYPER_EXPAND, expand};
use crate::ops::hyper_mix::{HYPER_MIX, MixArgs, mix};
use crate::ops::hyper_squeeze::{HYPER_SQUEEZE, SqueezeArgs, squeeze};
use crate::ops::hyper_write::{HYPER_WRITE, WriteArgs, write};
use crate::proof::reference::hyper as reference;
use crate::proof::reference::near::Near;
use crate::proof::run::loaded::Flaw;
use crate::proof::run::{Context, Operation};

/// Streams and their width.
#[derive(Clone, Copy)]
pub struct Width {
    streams: usize,
    dim: usize,
}

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.streams, self.dim)
    }
}

const fn width(streams: usize, dim: usize) -> Width {
    Width { streams, dim }
}

const WIDTHS: &[Width] = &[width(4, 64), width(1, 4), width(2, 7), width(3, 130), width(5, 1), width(4, 2560)];

/// Columns of the low-rank product, and streams.
const RANKS: &[Width] = &[width(4, 32), width(3, 5), width(4, 0), width(2, 129)];

fn sizes() -> QuadSizes {
    QuadSizes { rows: 1, width: 1, wide: false } // every variant runs all sizes
}

struct Expand {
    streams: usize,
    h: Matrix<f32>,
    call: Call,
}

impl Case for Expand {
    fn names(&self) -> [&'static str; 2] {
        [HYPER_EXPAND.op, HYPER_EXPAND.base().name]
    }

    fn variants(&self, context: &Context<'_>) -> Vec<Promised> {
        variants(context, &HYPER_EXPAND, &sizes())
    }

    fn tokens(&self) -> usize {
        self.h.rows
    }

    fn run(
        &self,
        device: &Device,
        variant: &str,
        pieces: &[Range<usize>],
    ) -> Result<Vec<(&'static str, Values)>, Flaw> {
        let (stream, h) = (device.stream()?, Loaded::of(device, &self.h)?);
        let mut s = Loaded::blank(device, 1, self.call.layout, [self.h.rows, self.streams * self.h.width])?;
        for piece in pieces {
            let args = ExpandArgs { h: h.view(piece)?, streams: self.streams, s: s.view_mut(piece)? };
            expand(Pick::Named(variant), &stream, args)?;
        }
        Ok(vec![("s", Values::F32(s.read()?))])
    }

    fn expected(&self) -> Vec<Expected> {
        let copies = |t: usize| (0..self.streams).flat_map(move |_| self.h.row(t).iter().map(|&x| Near::exact(x)));
        vec![Expected::Near((0..self.h.rows).flat_map(copies).collect())]
    }
}

/// `hyper.expand`.
pub const EXPAND: Operation = Operation {
    op: HYPER_EXPAND.op,
    variants: || HYPER_EXPAND.listed().1,
    works: |scale| {
        works(scale, WIDTHS, |call, Width { streams, dim }| {
            let h = Matrix::random(0, call.layout, [call.tokens, dim], call.law);
            Expand { streams, h, call }
        })
    },
};

struct Squeeze {
    rank: usize,
    streams: usize,
    v: Matrix<f32>,
}

impl Case for Squeeze {
    fn names(&self) -> [&'static str; 2] {
        [HYPER_SQUEEZE.op, HYPER_SQUEEZE.base().name]
    }

    fn variants(&self, context: &Context<'_>) -> Vec<Promised> {
        variants(context, &HYPER_SQUEEZE, &sizes())
    }

    fn tokens(&self) -> usize {
        self.v.rows
    }

    fn run(
        &self,
        device: &Device,
        variant: &str,
        pieces: &[Range<usize>],
    ) -> Result<Vec<(&'static str, Values)>, Flaw> {
        let (stream, mut v) = (device.stream()?, Loaded::of(device, &self.v)?);
        for piece in pieces {
            let args = SqueezeArgs { v: v.view_mut(piece)?, rank: self.rank, streams: self.streams };
            squeeze(Pick::Named(variant), &stream, args)?;
        }
        Ok(vec![("v", Values::F32(v.read()?))])
    }

    fn expected(&self) -> Vec<Expected> {
        let row = |t: usize| reference::squeeze(self.v.row(t), self.rank, self.streams);
        vec![Expected::Near((0..self.v.rows).flat_map(row).collect())]
    }
}

/// `hyper.squeeze`; calls of an even number of tokens are those of the final mixer, which injects nothing.
pub const SQUEEZE: Operation = Operation {
    op: HYPER_SQUEEZE.op,
    variants: || HYPER_SQUEEZE.listed().1,
    works: |scale| {
        works(scale, RANKS, |call, Width { streams, dim: rank }| {
            let width = if call.tokens.is_multiple_of(2) { rank } else { rank + streams };
            Squeeze { rank, streams, v: Matrix::random(0, call.layout, [call.tokens, width], call.law) }
        })
    },
};

struct Mix {
    streams: usize,
    up: Matrix<f32>,
    n: Matrix<f32>,
    call: Call,
}

impl Case for Mix {
    fn names(&self) -> [&'static str; 2] {
        [HYPER_MIX.op, HYPER_MIX.base().name]
    }

    fn variants(&self, context: &Context<'_>) -> Vec<Promised> {
        variants(context, &HYPER_MIX, &sizes())
    }

    fn tokens(&self) -> usize {
        self.n.rows
    }

    fn run(
        &self,
        device: &Device,
        variant: &str,
        pieces: &[Range<usize>],
    ) -> Result<Vec<(&'static str, Values)>, Flaw> {
        let (stream, up, n) = (device.stream()?, Loaded::of(device, &self.up)?, Loaded::of(device, &self.n)?);
        let mut x = Loaded::blank(device, 2, self.call.layout, [self.n.rows, self.n.width / self.streams])?;
        for piece in pieces {
            let (up, n) = (up.view(piece)?, n.view(piece)?);
            mix(Pick::Named(variant), &stream, MixArgs { up, n, streams: self.streams, x: x.view_mut(piece)? })?;
        }
        Ok(vec![("x", Values::F32(x.read()?))])
    }

    fn expected(&self) -> Vec<Expected> {
        let row = |t: usize| reference::mix(self.up.row(t), self.n.row(t), self.streams);
        vec![Expected::Near((0..self.n.rows).flat_map(row).collect())]
    }
}

/// `hyper.mix`.
pub const MIX: Operation = Operation {
    op: HYPER_MIX.op,
    variants: || HYPER_MIX.listed().1,
    works: |scale| {
        works(scale, WIDTHS, |call, Width { streams, dim }| {
            let matrix = |operand| Matrix::random(operand, call.layout, [call.tokens, streams * dim], call.law);
            Mix { streams, up: matrix(0), n: matrix(1), call }
        })
    },
};

struct Write {
    s: Matrix<f32>,
    inj: Matrix<f32>,
    y: Matrix<f32>,
}

impl Case for Write {
    fn names(&self) -> [&'static str; 2] {
        [HYPER_WRITE.op, HYPER_WRITE.base().name]
    }

    fn variants(&self, context: &Context<'_>) -> Vec<Promised> {
        variants(context, &HYPER_WRITE, &sizes())
    }

    fn tokens(&self) -> usize {
        self.s.rows
    }

    fn run(
        &self,
        device: &Device,
        variant: &str,
        pieces: &[Range<usize>],
    ) -> Result<Vec<(&'static str, Values)>, Flaw> {
        let (stream, inj, y) = (device.stream()?, Loaded::of(device, &self.inj)?, Loaded::of(device, &self.y)?);
        let mut s = Loaded::of(device, &self.s)?;
        for piece in pieces {
            let args = WriteArgs { s: s.view_mut(piece)?, inj: inj.view(piece)?, y: y.view(piece)? };
            write(Pick::Named(variant), &stream, args)?;
        }
        Ok(vec![("s", Values::F32(s.read()?))])
    }

    fn expected(&self) -> Vec<Expected> {
        let row = |t: usize| reference::write(self.s.row(t), self.inj.row(t), self.y.row(t));
        vec![Expected::Near((0..self.s.rows).flat_map(row).collect())]
    }
}

/// `hyper.write`.
pub const WRITE: Operation = Operation {
    op: HYPER_WRITE.op,
    variants: || HYPER_WRITE.listed().1,
    works: |scale| {
        works(scale, WIDTHS, |call, Width { streams, dim }| {
            let matrix = |operand, width| Matrix::random(operand, call.layout, [call.tokens, width], call.law);
            Write { s: matrix(0, streams * dim), inj: matrix(1, streams), y: matrix(2, dim) }
        })
    },
};
