//! Cases: sizes, row strides and data of one call, as a host holds them before an upload.

use rayon::prelude::*;
use varve_gpu::geometry::HEAD_DIM;

use super::inputs::{Inputs, Row, scaled_normals};
use super::random::{Array, Random};

/// Sizes of a recurrence call and its row strides, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecShape {
    /// Key heads.
    pub key_heads: usize,
    /// Value heads, a multiple of `key_heads`; head h reads key head h mod `key_heads`.
    pub value_heads: usize,
    /// Tokens of the call.
    pub tokens: usize,
    /// From a token's q, k, v row to the next.
    pub qkv_stride: usize,
    /// From a token's log decays to the next.
    pub gate_stride: usize,
    /// From a token's betas to the next.
    pub beta_stride: usize,
    /// From a token's output row to the next.
    pub y_stride: usize,
}

impl RecShape {
    /// Rows without gaps.
    #[must_use]
    pub const fn dense(key_heads: usize, value_heads: usize, tokens: usize) -> Self {
        let mut shape =
            Self { key_heads, value_heads, tokens, qkv_stride: 0, gate_stride: 0, beta_stride: 0, y_stride: 0 };
        shape.qkv_stride = shape.qkv_width();
        shape.gate_stride = value_heads;
        shape.beta_stride = value_heads;
        shape.y_stride = shape.y_width();
        shape
    }

    /// Rows with a gap behind each, another one in every array, so that strides taken for one another show.
    #[must_use]
    pub const fn gapped(key_heads: usize, value_heads: usize, tokens: usize) -> Self {
        let mut shape = Self::dense(key_heads, value_heads, tokens);
        shape.qkv_stride += 12;
        shape.gate_stride += 3;
        shape.beta_stride += 5;
        shape.y_stride += 20;
        shape
    }

    /// Elements of a token's q, k, v row: q heads, k heads, v heads.
    #[must_use]
    pub const fn qkv_width(&self) -> usize {
        (2 * self.key_heads + self.value_heads) * HEAD_DIM
    }

    /// Elements of a token's output row.
    #[must_use]
    pub const fn y_width(&self) -> usize {
        self.value_heads * HEAD_DIM
    }

    /// Elements of the state `[128][value_heads][128]`.
    #[must_use]
    pub const fn state_len(&self) -> usize {
        HEAD_DIM * self.value_heads * HEAD_DIM
    }

    /// True where every row follows the last without a gap.
    #[must_use]
    pub fn is_dense(&self) -> bool {
        *self == Self::dense(self.key_heads, self.value_heads, self.tokens)
    }
}

/// One call of the recurrence. Gaps between rows hold NaN: a kernel that reads one shows it.
#[derive(Clone, Debug)]
pub struct RecCase {
    /// Sizes and strides.
    pub shape: RecShape,
    /// `[tokens][qkv_stride]`.
    pub qkv: Vec<f32>,
    /// `[tokens][gate_stride]`, log decay.
    pub gate: Vec<f32>,
    /// `[tokens][beta_stride]`.
    pub beta: Vec<f32>,
    /// `[128][value_heads][128]`, before the call.
    pub state: Vec<f32>,
}

fn put(out: &mut [f32], row: &Row) {
    out.iter_mut().zip(row).for_each(|(x, &v)| *x = v as f32);
}

impl RecCase {
    /// The case of these sizes, law and seed. A longer case starts with the tokens of a shorter one (padding apart).
    #[must_use]
    pub fn new(shape: RecShape, inputs: &Inputs, seed: u64) -> Self {
        let RecShape { key_heads, value_heads, tokens, .. } = shape;
        let mut qkv = vec![f32::NAN; tokens * shape.qkv_stride];
        qkv.par_chunks_mut(shape.qkv_stride).enumerate().for_each(|(t, row)| {
            let (q, rest) = row.split_at_mut(key_heads * HEAD_DIM);
            let (k, v) = rest.split_at_mut(key_heads * HEAD_DIM);
            for head in 0..key_heads {
                let at = head * HEAD_DIM..(head + 1) * HEAD_DIM;
                put(&mut q[at.clone()], &inputs.query(seed, t, t * key_heads + head));
                put(&mut k[at], &inputs.key(seed, t, head, t * key_heads + head));
            }
            for head in 0..value_heads {
                let at = head * HEAD_DIM..(head + 1) * HEAD_DIM;
                put(&mut v[at], &inputs.value(seed, t * value_heads + head));
            }
        });
        let per_head = |stride: usize, value: &dyn Fn(usize, usize, u64) -> f64| {
            let mut out = vec![f32::NAN; tokens * stride];
            for t in 0..tokens {
                for head in 0..value_heads {
                    out[t * stride + head] = value(t, head, (t * value_heads + head) as u64) as f32;
                }
            }
            out
        };
        let gate = per_head(shape.gate_stride, &|t, head, i| inputs.gate(seed, tokens, t, head, i));
        let beta = per_head(shape.beta_stride, &|t, _, i| inputs.beta(seed, tokens, t, i));
        let mut state = vec![0.0f32; shape.state_len()];
        let random = Random::new(seed, Array::State);
        state.par_iter_mut().enumerate().for_each(|(i, x)| *x = (inputs.state * random.normal(i as u64)) as f32);
        Self { shape, qkv, gate, beta, state }
    }

    /// q row of a token and key head.
    #[must_use]
    pub fn query(&self, token: usize, key_head: usize) -> &[f32] {
        self.head_row(token, key_head)
    }

    /// k row of a token and key head.
    #[must_use]
    pub fn key(&self, token: usize, key_head: usize) -> &[f32] {
        self.head_row(token, self.shape.key_heads + key_head)
    }

    /// v row of a token and value head.
    #[must_use]
    pub fn value(&self, token: usize, value_head: usize) -> &[f32] {
        self.head_row(token, 2 * self.shape.key_heads + value_head)
    }

    fn head_row(&self, token: usize, slot: usize) -> &[f32] {
        &self.qkv[token * self.shape.qkv_stride + slot * HEAD_DIM..][..HEAD_DIM]
    }
}

/// A law of inputs for the output norm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NormInputs {
    /// Name in case lists and results.
    pub name: &'static str,
    /// Standard deviation of y in a row of ordinary size.
    pub y: f64,
    /// Rows differ in size by `exp(spread * normal)`.
    pub spread: f64,
    /// Every third row is zero.
    pub zero_rows: bool,
    /// Standard deviation of z.
    pub z: f64,
}

const NORM_BASE: NormInputs = NormInputs { name: "base", y: 0.3, spread: 0.0, zero_rows: false, z: 1.0 };

/// Laws for the output norm; the first is ordinary use.
pub const NORM_INPUTS: &[NormInputs] = &[
    NORM_BASE,
    NormInputs { name: "spread", spread: 3.0, ..NORM_BASE },
    NormInputs { name: "zero_rows", zero_rows: true, ..NORM_BASE },
    NormInputs { name: "y_x1e-20", y: 1e-20, ..NORM_BASE },
    NormInputs { name: "y_x1e15", y: 1e15, ..NORM_BASE },
    NormInputs { name: "z_x50", z: 50.0, ..NORM_BASE },
    NormInputs { name: "z_x1e5", z: 1e5, ..NORM_BASE },
];

/// Sizes of an output norm call and its row strides, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NormShape {
    /// Tokens of the call.
    pub tokens: usize,
    /// Value heads.
    pub value_heads: usize,
    /// From a token's y row to the next.
    pub y_stride: usize,
    /// From a token's z row to the next.
    pub z_stride: usize,
    /// From a token's y16 row to the next.
    pub y16_stride: usize,
}

impl NormShape {
    /// Rows without gaps.
    #[must_use]
    pub const fn dense(value_heads: usize, tokens: usize) -> Self {
        let width = value_heads * HEAD_DIM;
        Self { tokens, value_heads, y_stride: width, z_stride: width, y16_stride: width }
    }

    /// Rows with a gap behind each, another one in every array.
    #[must_use]
    pub const fn gapped(value_heads: usize, tokens: usize) -> Self {
        let width = value_heads * HEAD_DIM;
        Self { tokens, value_heads, y_stride: width + 4, z_stride: width + 12, y16_stride: width + 24 }
    }

    /// Elements of a token's row in each array.
    #[must_use]
    pub const fn width(&self) -> usize {
        self.value_heads * HEAD_DIM
    }
}

/// One call of the output norm; gaps between rows hold NaN.
#[derive(Clone, Debug)]
pub struct NormCase {
    /// Sizes and strides.
    pub shape: NormShape,
    /// `[tokens][y_stride]`.
    pub y: Vec<f32>,
    /// `[tokens][z_stride]`.
    pub z: Vec<f32>,
    /// `[128]`: 1 + 0.1 normal.
    pub gamma: Vec<f32>,
    /// `rms_norm_eps`.
    pub eps: f32,
}

impl NormCase {
    /// The case of these sizes, law and seed.
    #[must_use]
    pub fn new(shape: NormShape, inputs: &NormInputs, seed: u64) -> Self {
        let size = |row: usize| {
            if inputs.zero_rows && row.is_multiple_of(3) {
                return 0.0;
            }
            inputs.y * (inputs.spread * Random::new(seed, Array::Pick).normal(row as u64)).exp()
        };
        let y = Self::rows(&shape, shape.y_stride, |row| scaled_normals(seed, Array::Output, row, size(row)));
        let z = Self::rows(&shape, shape.z_stride, |row| scaled_normals(seed, Array::Z, row, inputs.z));
        let gain = Random::new(seed, Array::Gamma);
        let gamma = (0..HEAD_DIM).map(|c| (1.0 + 0.1 * gain.normal(c as u64)) as f32).collect();
        Self { shape, y, z, gamma, eps: 1e-6 }
    }

    fn rows(shape: &NormShape, stride: usize, row: impl Fn(usize) -> Row + Sync) -> Vec<f32> {
        let mut out = vec![f32::NAN; shape.tokens * stride];
        out.par_chunks_mut(stride).enumerate().for_each(|(t, token)| {
            for head in 0..shape.value_heads {
                put(&mut token[head * HEAD_DIM..][..HEAD_DIM], &row(t * shape.value_heads + head));
            }
        });
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proof::inputs::BASE;

    #[test]
    fn a_case_is_the_same_every_time_and_differs_by_seed() {
        let shape = RecShape::dense(2, 6, 5);
        let (a, b, c) = (RecCase::new(shape, &BASE, 1), RecCase::new(shape, &BASE, 1), RecCase::new(shape, &BASE, 2));
        assert_eq!((&a.qkv, &a.gate, &a.beta, &a.state), (&b.qkv, &b.gate, &b.beta, &b.state));
        assert_ne!(a.qkv, c.qkv);
        assert_ne!(a.state, c.state);
    }

    #[test]
    fn strides_move_rows_and_gaps_hold_nan() {
        let dense = RecCase::new(RecShape::dense(2, 6, 4), &BASE, 3);
        let gapped = RecCase::new(RecShape::gapped(2, 6, 4), &BASE, 3);
        assert_eq!(dense.state, gapped.state);
        for t in 0..4 {
            for head in 0..6 {
                assert_eq!(dense.value(t, head), gapped.value(t, head));
                assert_eq!(dense.gate[t * 6 + head], gapped.gate[t * 9 + head]);
                assert_eq!(dense.beta[t * 6 + head], gapped.beta[t * 11 + head]);
            }
            assert_eq!((dense.query(t, 1), dense.key(t, 1)), (gapped.query(t, 1), gapped.key(t, 1)));
        }
        let nans = |values: &[f32]| values.iter().filter(|x| x.is_nan()).count();
        assert_eq!([nans(&dense.qkv), nans(&dense.gate), nans(&dense.beta), nans(&dense.state)], [0; 4]);
        assert_eq!([nans(&gapped.qkv), nans(&gapped.gate), nans(&gapped.beta)], [48, 12, 20]);
    }

    #[test]
    fn a_longer_case_starts_with_the_shorter_one() {
        let short = RecCase::new(RecShape::dense(1, 3, 3), &BASE, 9);
        let long = RecCase::new(RecShape::dense(1, 3, 7), &BASE, 9);
        assert_eq!(short.qkv, long.qkv[..short.qkv.len()]);
        assert_eq!(short.gate, long.gate[..short.gate.len()]);
        assert_eq!(short.beta, long.beta[..short.beta.len()]);
    }

    #[test]
    fn norm_cases_follow_their_law() {
        let shape = NormShape::gapped(3, 4);
        for inputs in NORM_INPUTS {
            let case = NormCase::new(shape, inputs, 1);
            assert_eq!(case.y.iter().filter(|x| x.is_nan()).count(), 16, "{}", inputs.name);
            let zero = case.y[..HEAD_DIM].iter().all(|&x| x == 0.0);
            assert_eq!(zero, inputs.zero_rows, "{}", inputs.name);
        }
    }
}
