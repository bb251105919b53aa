//! `qsa.scores`, `qsa.select`: scores of token blocks, the choice among them.

use std::fmt;
use std::ops::Range;

use super::operand::{Layout, Loaded, Matrix};
use super::{Case, Expected, Promised, Values, variants, works};
use crate::backend::Device;
use crate::ops::dispatch::Pick;
use crate::ops::qsa_scores::{QSA_SCORES, ScoresArgs, ScoresSizes, scores};
use crate::ops::qsa_select::{QSA_SELECT, SelectArgs, SelectSizes, select};
use crate::proof::reference::attn as reference;
use crate::proof::reference::near::Near;
use crate::proof::run::loaded::Flaw;
use crate::proof::run::{Context, Operation};
use cuda_std::emulator::memory::POISON;

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

struct Scores {
    width: Width,
    q: Matrix<f32>,
    keys: Matrix<f32>,
    layout: Layout,
}

impl Case for Scores {
    fn names(&self) -> [&'static str; 2] {
        [QSA_SCORES.op, QSA_SCORES.base().name]
    }

    fn variants(&self, context: &Context<'_>) -> Vec<Promised> {
        variants(context, &QSA_SCORES, &ScoresSizes { tokens: self.q.rows, blocks: self.keys.rows })
    }

    fn tokens(&self) -> usize {
        self.q.rows
    }

    fn run(
        &self,
        device: &Device,
        variant: &str,
        pieces: &[Range<usize>],
    ) -> Result<Vec<(&'static str, Values)>, Flaw> {
        let (stream, q, keys) = (device.stream()?, Loaded::of(device, &self.q)?, Loaded::of(device, &self.keys)?);
        let mut out = Loaded::blank(device, 2, self.layout, [self.q.rows, self.keys.rows])?;
        for piece in pieces {
            let args = ScoresArgs {
                q: q.view(piece)?,
                keys: keys.all()?,
                scores: out.view_mut(piece)?,
                first: self.width.first + piece.start,
                ratio: self.width.ratio,
            };
            scores(Pick::Named(variant), &stream, args)?;
        }
        Ok(vec![("scores", Values::F32(out.read_any()?))])
    }

    fn expected(&self) -> Vec<Expected> {
        let score = |i: usize| {
            let (t, block) = (i / self.keys.rows, i % self.keys.rows);
            let sees = (self.width.first + t + 1) / self.width.ratio;
            if block < sees { reference::block_score(self.q.row(t), self.keys.row(block)) } else { UNWRITTEN }
        };
        vec![Expected::Near((0..self.q.rows * self.keys.rows).map(score).collect())]
    }
}

/// `qsa.scores`.
pub const SCORES: Operation = Operation {
    op: QSA_SCORES.op,
    variants: || QSA_SCORES.listed().1,
    works: |scale| {
        works(scale, WIDTHS, |call, width| {
            let blocks = (width.first + call.tokens) / width.ratio + 2;
            Scores {
                width,
                q: Matrix::random(0, Layout::Dense, [call.tokens, width.count * width.dim], call.law),
                keys: Matrix::random(1, Layout::Dense, [blocks, width.dim], call.law),
                layout: call.layout,
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
