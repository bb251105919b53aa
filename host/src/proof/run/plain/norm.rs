//! `norm.rms`, `attn.norm_rope`, `delta.gated_norm`: rows over their root mean square.

use std::fmt;
use std::ops::Range;

use super::operand::{LAWS, Law, Layout, Loaded, Matrix, vector};
use super::{Case, Expected, Promised, Values, aligned_works, variants};
use crate::backend::{BackendError, Device};
use crate::ops::attn_norm_rope::{ATTN_NORM_ROPE, Heads, NormRopeSizes, RopeTables, norm_rope};
use crate::ops::delta_gated_norm::{DELTA_GATED_NORM, GatedNormArgs, GatedNormSizes, gated_norm};
use crate::ops::delta_out_norm::OutputGate;
use crate::ops::dispatch::Pick;
use crate::ops::norm_rms::{NORM_RMS, RmsSizes, rms};
use crate::proof::reference::near::Near;
use crate::proof::reference::norm::{Divisor, exact, norm, rope};
use crate::proof::run::loaded::Flaw;
use crate::proof::run::{Context, Operation};
use varve_gpu::geometry::HEAD_DIM;

const EPS: f32 = 1e-6;

/// Groups of a row and values of each; for heads, also the rotary pairs.
#[derive(Clone, Copy)]
pub struct Width(usize, usize, usize);

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.0, self.1)?;
        if self.2 > 0 { write!(f, "/pairs={}", self.2) } else { Ok(()) }
    }
}

const WIDTHS: &[Width] = &[Width(1, 256, 0), Width(1, 4, 0), Width(4, 64, 0), Width(3, 132, 0), Width(4, 2560, 0)];
const HEADS: &[Width] = &[Width(4, 64, 16), Width(1, 8, 4), Width(3, 132, 32), Width(2, 256, 128), Width(2, 128, 4)];
const VALUES: &[Width] = &[Width(6, 128, 0), Width(1, 4, 0), Width(3, 64, 0), Width(5, 100, 0)];

struct Rms {
    dim: usize,
    x: Matrix<f32>,
    gain: Matrix<f32>,
    layout: Layout,
}

impl Case for Rms {
    fn names(&self) -> [&'static str; 2] {
        [NORM_RMS.op, NORM_RMS.base().name]
    }

    fn variants(&self, context: &Context<'_>) -> Vec<Promised> {
        variants(context, &NORM_RMS, &RmsSizes { groups: 1 })
    }

    fn tokens(&self) -> usize {
        self.x.rows
    }

    fn run(
        &self,
        device: &Device,
        variant: &str,
        pieces: &[Range<usize>],
    ) -> Result<Vec<(&'static str, Values)>, Flaw> {
        let (stream, x, gain) = (device.stream()?, Loaded::of(device, &self.x)?, device.upload(&self.gain.values)?);
        let mut y = Loaded::blank(device, 1, self.layout, [self.x.rows, self.x.width])?;
        for piece in pieces {
            let y = &mut y.view_mut(piece)?;
            rms(Pick::Named(variant), &stream, &x.view(piece)?, &vector(&gain)?, (self.dim, EPS), y)?;
        }
        Ok(vec![("y", Values::F32(y.read()?))])
    }

    fn expected(&self) -> Vec<Expected> {
        let group = |(i, x): (usize, &[f32])| {
            let gain = &self.gain.values[i * self.dim % self.x.width..];
            norm(&exact(x), |c| f64::from(gain[c]), Divisor::MeanSquare, EPS)
        };
        vec![Expected::Near(self.x.values.chunks(self.dim).enumerate().flat_map(group).collect())]
    }
}

/// `norm.rms`.
pub const RMS: Operation = Operation {
    op: NORM_RMS.op,
    variants: || NORM_RMS.listed().1,
    works: |scale| {
        aligned_works(scale, WIDTHS, |call, Width(groups, dim, _)| Rms {
            dim,
            x: Matrix::random(0, call.layout, [call.tokens, groups * dim], call.law),
            gain: Matrix::random(9, Layout::Dense, [1, groups * dim], &LAWS[0]),
            layout: call.layout,
        })
    },
};

/// Sines and cosines need only be numbers.
pub(super) const ANGLES: Law = Law { name: "angles", scale: 0.6, zero_rows: false };
/// Position of the first token.
const FIRST: usize = 5;

struct NormRope {
    heads: Heads,
    x: Matrix<f32>,
    gain: Matrix<f32>,
    cos: Matrix<f32>,
    sin: Matrix<f32>,
    layout: Layout,
}

impl Case for NormRope {
    fn names(&self) -> [&'static str; 2] {
        [ATTN_NORM_ROPE.op, ATTN_NORM_ROPE.base().name]
    }

    fn variants(&self, context: &Context<'_>) -> Vec<Promised> {
        variants(context, &ATTN_NORM_ROPE, &NormRopeSizes { rows: 1 })
    }

    fn tokens(&self) -> usize {
        self.x.rows
    }

    fn run(
        &self,
        device: &Device,
        variant: &str,
        pieces: &[Range<usize>],
    ) -> Result<Vec<(&'static str, Values)>, Flaw> {
        let (stream, x, gain) = (device.stream()?, Loaded::of(device, &self.x)?, device.upload(&self.gain.values)?);
        let (cos, sin) = (Loaded::of(device, &self.cos)?, Loaded::of(device, &self.sin)?);
        let mut y = Loaded::blank(device, 1, self.layout, [self.x.rows, self.heads.count * self.heads.dim])?;
        for piece in pieces {
            let tables = RopeTables { cos: cos.all()?, sin: sin.all()?, first: FIRST + piece.start };
            let (gain, y) = (vector(&gain)?, &mut y.view_mut(piece)?);
            norm_rope(Pick::Named(variant), &stream, &x.view(piece)?, self.heads, (&gain, EPS), &tables, y)?;
        }
        Ok(vec![("y", Values::F32(y.read()?))])
    }

    fn expected(&self) -> Vec<Expected> {
        let head = |i: usize| {
            let (t, h) = (i / self.heads.count, i % self.heads.count);
            let x = &self.x.row(t)[h * self.heads.stride..][..self.heads.dim];
            let normed = norm(&exact(x), |c| f64::from(self.gain.values[c]), Divisor::MeanSquare, EPS);
            rope(&normed, self.cos.row(FIRST + t), self.sin.row(FIRST + t))
        };
        vec![Expected::Near((0..self.x.rows * self.heads.count).flat_map(head).collect())]
    }
}

/// `attn.norm_rope`; in calls with gaps heads are twice as far apart as they are wide.
pub const NORM_ROPE: Operation = Operation {
    op: ATTN_NORM_ROPE.op,
    variants: || ATTN_NORM_ROPE.listed().1,
    works: |scale| {
        aligned_works(scale, HEADS, |call, Width(count, dim, pairs)| {
            let stride = if call.layout == Layout::Gaps { 2 * dim } else { dim };
            let table = |operand| Matrix::random(operand, Layout::Dense, [FIRST + call.tokens, pairs], &ANGLES);
            NormRope {
                heads: Heads { count, dim, stride },
                x: Matrix::random(0, call.layout, [call.tokens, count * stride], call.law),
                gain: Matrix::random(9, Layout::Dense, [1, dim], &LAWS[0]),
                cos: table(7),
                sin: table(8),
                layout: call.layout,
            }
        })
    },
};

struct GatedNorm {
    y: Matrix<f32>,
    z: Matrix<f32>,
    gamma: Matrix<f32>,
    gate: OutputGate,
    layout: Layout,
}

impl Case for GatedNorm {
    fn names(&self) -> [&'static str; 2] {
        [DELTA_GATED_NORM.op, DELTA_GATED_NORM.base().name]
    }

    fn variants(&self, context: &Context<'_>) -> Vec<Promised> {
        variants(context, &DELTA_GATED_NORM, &GatedNormSizes { rows: 1, gate: self.gate })
    }

    fn tokens(&self) -> usize {
        self.z.rows
    }

    fn run(
        &self,
        device: &Device,
        variant: &str,
        pieces: &[Range<usize>],
    ) -> Result<Vec<(&'static str, Values)>, Flaw> {
        let (stream, y, z) = (device.stream()?, Loaded::of(device, &self.y)?, Loaded::of(device, &self.z)?);
        let gamma = device.upload(&self.gamma.values)?;
        let mut out = Loaded::blank(device, 2, self.layout, [self.z.rows, self.z.width])?;
        for piece in pieces {
            let args = GatedNormArgs {
                y: y.view(piece)?,
                z: z.view(piece)?,
                gamma: gamma.view([self.gamma.width]).map_err(BackendError::from)?,
                out: out.view_mut(piece)?,
                eps: EPS,
                gate: self.gate,
            };
            gated_norm(Pick::Named(variant), &stream, args)?;
        }
        Ok(vec![("out", Values::F32(out.read()?))])
    }

    fn expected(&self) -> Vec<Expected> {
        let dim = self.gamma.width;
        let act = |z: f32| match self.gate {
            OutputGate::Sigmoid => Near::sigmoid(f64::from(z), 0.0),
            OutputGate::Silu => Near::silu(f64::from(z), 0.0),
        };
        let head = |(i, z): (usize, &[f32])| {
            let y = &self.y.values[i * HEAD_DIM..][..dim];
            let normed = norm(&exact(y), |c| f64::from(self.gamma.values[c]), Divisor::MeanSquare, EPS);
            normed.into_iter().zip(z).map(|(n, &z)| n.product(act(z))).collect::<Vec<_>>()
        };
        vec![Expected::Near(self.z.values.chunks(dim).enumerate().flat_map(head).collect())]
    }
}

/// `delta.gated_norm`; calls of an even number of tokens have the SiLU gate.
pub const GATED_NORM: Operation = Operation {
    op: DELTA_GATED_NORM.op,
    variants: || DELTA_GATED_NORM.listed().1,
    works: |scale| {
        aligned_works(scale, VALUES, |call, Width(heads, dim, _)| {
            let mut y = Matrix::random(0, call.layout, [call.tokens, heads * HEAD_DIM], call.law);
            for head in y.values.chunks_mut(HEAD_DIM) {
                head[dim..].fill(f32::NAN); // not read
            }
            GatedNorm {
                y,
                z: Matrix::random(1, call.layout, [call.tokens, heads * dim], call.law),
                gamma: Matrix::random(9, Layout::Dense, [1, dim], &LAWS[0]),
                gate: if call.tokens.is_multiple_of(2) { OutputGate::Silu } else { OutputGate::Sigmoid },
                layout: call.layout,
            }
        })
    },
};
