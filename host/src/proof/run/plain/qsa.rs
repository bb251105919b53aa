//! `qsa.*`: keys of token blocks, the choice among them.

use std::fmt;
use std::ops::Range;

use super::norm::ANGLES;
use super::operand::{LAWS, Layout, Loaded, Matrix, vector};
use super::{Case, Expected, Promised, Values, aligned_works, variants, works};
use crate::backend::Device;
use crate::ops::attn_norm_rope::RopeTables;
use crate::ops::conv_window::{WindowArgs, window};
use crate::ops::dispatch::{Dispatch, Pick};
use crate::ops::qsa_block_keys::{BlockKeysArgs, BlockKeysSizes, QSA_BLOCK_KEYS, block_keys};
use crate::ops::qsa_select::{QSA_SELECT, SelectArgs, SelectSizes, select};
use crate::proof::reference::attn as reference;
use crate::proof::reference::near::Near;
use crate::proof::reference::norm::{Divisor, norm, rope};
use crate::proof::run::loaded::Flaw;
use crate::proof::run::{Context, Operation};
use cuda_std::emulator::memory::POISON;

const EPS: f32 = 1e-6;
/// What an output holds that nobody has written.
const UNWRITTEN: Near = Near { value: f64::NAN, slack: 0.0 };

/// Values of a key, tokens of a block, position of the first token, heads or budget.
#[derive(Clone, Copy)]
pub struct Width {
    dim: usize,
    ratio: usize,
    first: usize,
    count: usize,
}

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dim={}/ratio={}/first={}/n={}", self.dim, self.ratio, self.first, self.count)
    }
}

const fn width(dim: usize, ratio: usize, first: usize, count: usize) -> Width {
    Width { dim, ratio, first, count }
}

const WIDTHS: &[Width] = &[width(64, 4, 6, 4), width(128, 16, 30, 1), width(8, 2, 0, 3), width(132, 3, 1000, 2)];

struct BlockKeys {
    width: Width,
    raw: Matrix<f32>,
    window: Matrix<f32>,
    gain: Matrix<f32>,
    cos: Matrix<f32>,
    sin: Matrix<f32>,
}

impl BlockKeys {
    fn end(&self) -> usize {
        self.width.first + self.raw.rows
    }

    fn key(&self, block: usize) -> Vec<Near> {
        let Width { dim, ratio, first, .. } = self.width;
        let row = |p: usize| if p < first { self.window.row(p + ratio - 1 - first) } else { self.raw.row(p - first) };
        let mean = |c: usize| {
            let values = (block * ratio..(block + 1) * ratio).map(|p| f64::from(row(p)[c]));
            let (sum, size) = values.fold((0.0, 0.0), |(sum, size), x: f64| (sum + x, size + x.abs()));
            Near::rounded(sum / ratio as f64, size / ratio as f64, ratio as f64 + 1.0)
        };
        let means: Vec<Near> = (0..dim).map(mean).collect();
        let normed = norm(&means, |c| f64::from(self.gain.values[c]), Divisor::MeanSquare, EPS);
        rope(&normed, self.cos.row(block * ratio), self.sin.row(block * ratio))
    }
}

impl Case for BlockKeys {
    fn names(&self) -> [&'static str; 2] {
        [QSA_BLOCK_KEYS.op, QSA_BLOCK_KEYS.base().name]
    }

    fn variants(&self, context: &Context<'_>) -> Vec<Promised> {
        variants(context, &QSA_BLOCK_KEYS, &BlockKeysSizes { blocks: 1 })
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
        let (stream, dispatch, Width { dim, ratio, first, .. }) = (device.stream()?, Dispatch::default(), self.width);
        let (raw, gain) = (Loaded::of(device, &self.raw)?, device.upload(&self.gain.values)?);
        let (cos, sin, mut rows) =
            (Loaded::of(device, &self.cos)?, Loaded::of(device, &self.sin)?, Loaded::of(device, &self.window)?);
        let mut keys = Loaded::blank(device, 0, Layout::Dense, [self.end() / ratio + 1, dim])?;
        for piece in pieces {
            let args = BlockKeysArgs {
                raw: raw.view(piece)?,
                window: rows.all()?,
                gain: vector(&gain)?,
                keys: keys.all_mut()?,
                rope: RopeTables { cos: cos.all()?, sin: sin.all()?, first: first + piece.start },
                ratio,
                eps: EPS,
            };
            block_keys(Pick::Named(variant), &stream, args)?;
            window(Pick::Best(&dispatch), &stream, WindowArgs { window: rows.all_mut()?, x: raw.view(piece)? })?;
        }
        Ok(vec![("keys", Values::F32(keys.read_any()?))])
    }

    fn expected(&self) -> Vec<Expected> {
        let Width { dim, ratio, first, .. } = self.width;
        let made = first / ratio..self.end() / ratio;
        let key = |block: usize| if made.contains(&block) { self.key(block) } else { vec![UNWRITTEN; dim] };
        vec![Expected::Near((0..=self.end() / ratio).flat_map(key).collect())]
    }
}

/// `qsa.block_keys`.
pub const BLOCK_KEYS: Operation = Operation {
    op: QSA_BLOCK_KEYS.op,
    variants: || QSA_BLOCK_KEYS.listed().1,
    works: |scale| {
        aligned_works(scale, WIDTHS, |call, width| {
            let table = |operand| {
                Matrix::random(operand, Layout::Dense, [width.first + call.tokens, width.dim / 8 * 4], &ANGLES)
            };
            BlockKeys {
                width,
                raw: Matrix::random(0, call.layout, [call.tokens, width.dim], call.law),
                window: Matrix::random(1, Layout::Dense, [width.ratio - 1, width.dim], call.law),
                gain: Matrix::random(9, Layout::Dense, [1, width.dim], &LAWS[0]),
                cos: table(7),
                sin: table(8),
            }
        })
    },
};

struct Select {
    width: Width,
    scores: Matrix<f32>,
}

impl Select {
    fn sees(&self, t: usize) -> usize {
        (self.width.first + t + 1) / self.width.ratio
    }
}

impl Case for Select {
    fn names(&self) -> [&'static str; 2] {
        [QSA_SELECT.op, QSA_SELECT.base().name]
    }

    fn variants(&self, context: &Context<'_>) -> Vec<Promised> {
        variants(context, &QSA_SELECT, &SelectSizes { tokens: self.scores.rows })
    }

    fn tokens(&self) -> usize {
        self.scores.rows
    }

    fn run(
        &self,
        device: &Device,
        variant: &str,
        pieces: &[Range<usize>],
    ) -> Result<Vec<(&'static str, Values)>, Flaw> {
        let (stream, scores) = (device.stream()?, Loaded::of(device, &self.scores)?);
        let mut chosen = Loaded::<u32>::blank(device, 0, Layout::Dense, [self.scores.rows, self.width.count])?;
        for piece in pieces {
            let args = SelectArgs {
                scores: scores.view(piece)?,
                chosen: chosen.view_mut(piece)?,
                first: self.width.first + piece.start,
                ratio: self.width.ratio,
            };
            select(Pick::Named(variant), &stream, args)?;
        }
        Ok(vec![("chosen", Values::U32(chosen.read_any()?))])
    }

    fn expected(&self) -> Vec<Expected> {
        let budget = self.width.count;
        let row = |t: usize| match self.sees(t) {
            sees if sees > budget => reference::select(&self.scores.row(t)[..sees], budget),
            _ => vec![POISON; budget],
        };
        vec![Expected::Words((0..self.scores.rows).flat_map(row).collect())]
    }
}

const BUDGETS: &[Width] = &[width(0, 4, 90, 8), width(0, 1, 0, 1), width(0, 2, 120, 33), width(0, 16, 2000, 64)];

/// `qsa.select`; every third token's scores are few different numbers, and what a token does not see is NaN.
pub const SELECT: Operation = Operation {
    op: QSA_SELECT.op,
    variants: || QSA_SELECT.listed().1,
    works: |scale| {
        works(scale, BUDGETS, |call, width| {
            let blocks = (width.first + call.tokens) / width.ratio + 3;
            let scores = Matrix::random(0, call.layout, [call.tokens, blocks], call.law);
            let mut case = Select { width, scores };
            for t in 0..call.tokens {
                let sees = case.sees(t);
                let row = &mut case.scores.values[t * blocks..(t + 1) * blocks];
                row[sees..].fill(f32::NAN);
                for x in &mut row[..sees] {
                    *x = if t % 3 == 2 { (x.abs() * 2.0).floor().min(3.0) } else { x.max(0.0) };
                }
            }
            case
        })
    },
};
