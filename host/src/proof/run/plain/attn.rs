//! `attn.softmax`: attention over all visible tokens, and over chosen blocks.

use std::fmt;
use std::ops::Range;

use super::operand::{Law, Layout, Loaded, Matrix};
use super::{Case, Expected, Promised, Values, aligned_works, variants};
use crate::backend::Device;
use crate::ops::attn_softmax::{ATTN_SOFTMAX, Attend, SoftmaxArgs, SoftmaxSizes, softmax};
use crate::ops::dispatch::Pick;
use crate::proof::reference::attn as reference;
use crate::proof::reference::near::Near;
use crate::proof::run::loaded::Flaw;
use crate::proof::run::{Context, Operation};

/// Query heads, key heads, values of each; position of the first token; tokens of a block and how many blocks are
/// chosen (0: all are attended).
#[derive(Clone, Copy)]
pub struct Width(usize, usize, usize, usize, usize, usize);

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "heads={}x{}/dim={}/first={}", self.0, self.1, self.2, self.3)?;
        if self.5 > 0 { write!(f, "/{}of{}", self.5, self.4) } else { Ok(()) }
    }
}

const WIDTHS: &[Width] = &[
    Width(4, 2, 64, 3, 1, 0),
    Width(1, 1, 4, 0, 1, 0),
    Width(3, 1, 132, 126, 1, 0),
    Width(4, 4, 256, 31, 1, 0),
    Width(2, 1, 64, 60, 4, 6),
    Width(4, 2, 32, 5, 4, 2),
];

struct Softmax {
    width: Width,
    q: Matrix<f32>,
    gate: Matrix<f32>,
    k: Matrix<f32>,
    v: Matrix<f32>,
    chosen: Vec<u32>,
    gate_stride: usize,
}

impl Softmax {
    /// Positions that a token attends, ascending.
    fn positions(&self, t: usize) -> Vec<usize> {
        let Width(.., first, ratio, budget) = self.width;
        let (seen, complete) = (first + t + 1, (first + t + 1) / ratio);
        if budget == 0 || complete <= budget {
            return (0..seen).collect();
        }
        let chosen = &self.chosen[t * budget..(t + 1) * budget];
        let blocks = chosen.iter().flat_map(|&b| b as usize * ratio..(b as usize + 1) * ratio);
        blocks.chain(complete * ratio..seen).collect()
    }

    fn head(&self, t: usize, head: usize) -> Vec<Near> {
        let Width(heads, kv_heads, dim, ..) = self.width;
        let at = head / (heads / kv_heads) * dim;
        let positions = self.positions(t);
        let rows =
            |of: &'_ Matrix<f32>| positions.iter().map(|&p| of.row(p)[at..at + dim].to_vec()).collect::<Vec<_>>();
        let (k, v) = (rows(&self.k), rows(&self.v));
        let (k, v): (Vec<&[f32]>, Vec<&[f32]>) =
            (k.iter().map(|r| &r[..]).collect(), v.iter().map(|r| &r[..]).collect());
        let y = reference::softmax(&self.q.row(t)[head * dim..][..dim], &k, &v);
        let gate = &self.gate.row(t)[head * self.gate_stride..][..dim];
        y.into_iter().zip(gate).map(|(y, &gate)| y.product(Near::sigmoid(f64::from(gate), 0.0))).collect()
    }
}

impl Case for Softmax {
    fn names(&self) -> [&'static str; 2] {
        [ATTN_SOFTMAX.op, ATTN_SOFTMAX.base().name]
    }

    fn variants(&self, context: &Context<'_>) -> Vec<Promised> {
        variants(context, &ATTN_SOFTMAX, &SoftmaxSizes { tokens: self.q.rows, heads: self.width.0 })
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
        let (stream, Width(.., dim, first, ratio, budget)) = (device.stream()?, self.width);
        let (q, gate) = (Loaded::of(device, &self.q)?, Loaded::of(device, &self.gate)?);
        let (k, v) = (Loaded::of(device, &self.k)?, Loaded::of(device, &self.v)?);
        let chosen = device.upload(&self.chosen)?;
        let mut y = Loaded::blank(device, 0, Layout::Dense, [self.q.rows, self.q.width])?;
        for piece in pieces {
            let attend = match budget {
                0 => Attend::All,
                _ => {
                    let rows = chosen.view_strided(piece.start * budget, [piece.len(), budget], [budget, 1]);
                    Attend::Blocks { ratio, chosen: rows.map_err(crate::backend::BackendError::from)? }
                }
            };
            let args = SoftmaxArgs {
                q: q.view(piece)?,
                gate: gate.view(piece)?,
                gate_head_stride: self.gate_stride,
                k: k.all()?,
                v: v.all()?,
                attend,
                y: y.view_mut(piece)?,
                first: first + piece.start,
                dim,
            };
            softmax(Pick::Named(variant), &stream, args)?;
        }
        Ok(vec![("y", Values::F32(y.read()?))])
    }

    fn expected(&self) -> Vec<Expected> {
        let heads = self.width.0;
        vec![Expected::Near((0..self.q.rows * heads).flat_map(|i| self.head(i / heads, i % heads)).collect())]
    }
}

/// What is not visible.
const UNSEEN: Law = Law { name: "unseen", scale: f64::NAN, zero_rows: false };

/// `attn.softmax`; in calls with gaps the gates of heads are twice as far apart as they are wide.
pub const SOFTMAX: Operation = Operation {
    op: ATTN_SOFTMAX.op,
    variants: || ATTN_SOFTMAX.listed().1,
    works: |scale| {
        aligned_works(scale, WIDTHS, |call, width| {
            let Width(heads, kv_heads, dim, first, ratio, budget) = width;
            let gate_stride = if call.layout == Layout::Gaps { 2 * dim } else { dim };
            let cache = |operand| {
                let dims = [first + call.tokens, kv_heads * dim];
                let mut cache = Matrix::random(operand, Layout::Dense, dims, call.law);
                cache.values.extend(Matrix::random(operand, Layout::Dense, [3, dims[1]], &UNSEEN).values);
                cache.rows += 3;
                cache
            };
            let chosen = |t: usize| {
                let complete = (first + t + 1) / ratio;
                (0..budget).map(move |i| if complete > budget { (i * complete / budget) as u32 } else { u32::MAX })
            };
            Softmax {
                width,
                q: Matrix::random(0, Layout::Dense, [call.tokens, heads * dim], call.law),
                gate: Matrix::random(1, call.layout, [call.tokens, (heads - 1) * gate_stride + dim], call.law),
                k: cache(2),
                v: cache(3),
                chosen: (0..call.tokens).flat_map(chosen).collect(),
                gate_stride,
            }
        })
    },
};
