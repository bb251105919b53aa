//! `attn.softmax`: attention over all visible tokens.

use std::fmt;
use std::ops::Range;

use super::operand::{Law, Layout, Loaded, Matrix};
use super::{Case, Expected, Promised, Values, aligned_works, variants};
use crate::backend::Device;
use crate::ops::attn_softmax::{ATTN_SOFTMAX, SoftmaxArgs, SoftmaxSizes, softmax};
use crate::ops::dispatch::Pick;
use crate::proof::reference::attn as reference;
use crate::proof::reference::near::Near;
use crate::proof::run::loaded::Flaw;
use crate::proof::run::{Context, Operation};

/// Query heads, key heads, values of each; position of the first token.
#[derive(Clone, Copy)]
pub struct Width(usize, usize, usize, usize);

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "heads={}x{}/dim={}/first={}", self.0, self.1, self.2, self.3)
    }
}

const WIDTHS: &[Width] =
    &[Width(4, 2, 64, 3), Width(1, 1, 4, 0), Width(3, 1, 132, 126), Width(4, 4, 256, 31), Width(2, 1, 64, 60)];

struct Softmax {
    width: Width,
    q: Matrix<f32>,
    gate: Matrix<f32>,
    k: Matrix<f32>,
    v: Matrix<f32>,
    gate_stride: usize,
}

impl Softmax {
    fn head(&self, t: usize, head: usize) -> Vec<Near> {
        let Width(heads, kv_heads, dim, _) = self.width;
        let at = head / (heads / kv_heads) * dim;
        let positions = 0..self.width.3 + t + 1;
        let rows =
            |of: &'_ Matrix<f32>| positions.clone().map(|p| of.row(p)[at..at + dim].to_vec()).collect::<Vec<_>>();
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
        let (stream, Width(.., dim, first)) = (device.stream()?, self.width);
        let (q, gate) = (Loaded::of(device, &self.q)?, Loaded::of(device, &self.gate)?);
        let (k, v) = (Loaded::of(device, &self.k)?, Loaded::of(device, &self.v)?);
        let mut y = Loaded::blank(device, 0, Layout::Dense, [self.q.rows, self.q.width])?;
        for piece in pieces {
            let args = SoftmaxArgs {
                q: q.view(piece)?,
                gate: gate.view(piece)?,
                gate_head_stride: self.gate_stride,
                k: k.all()?,
                v: v.all()?,
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
            let Width(heads, kv_heads, dim, first) = width;
            let gate_stride = if call.layout == Layout::Gaps { 2 * dim } else { dim };
            let cache = |operand| {
                let dims = [first + call.tokens, kv_heads * dim];
                let mut cache = Matrix::random(operand, Layout::Dense, dims, call.law);
                cache.values.extend(Matrix::random(operand, Layout::Dense, [3, dims[1]], &UNSEEN).values);
                cache.rows += 3;
                cache
            };
            Softmax {
                width,
                q: Matrix::random(0, Layout::Dense, [call.tokens, heads * dim], call.law),
                gate: Matrix::random(1, call.layout, [call.tokens, (heads - 1) * gate_stride + dim], call.law),
                k: cache(2),
                v: cache(3),
                gate_stride,
            }
        })
    },
};
