//! Floors: the least bytes and operations of an operation, whatever the kernel.

use varve_gpu::geometry::HEAD_DIM;
use varve_gpu::qsa::{INDEX_DIM, INDEX_HEADS, RATIO};

use super::dequantize::DequantizeCase;
use super::mmvq::MmvqCase;
use super::product::ProductCase;
use super::scores::ScoresCase;
use super::topk::TopkCase;
use crate::ops::DeltaSizes;

/// The least an operation must move and compute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Floor {
    /// Bytes read once plus bytes written once.
    pub bytes: u64,
    /// f32 operations, a fused multiply-add counting two.
    pub flops: u64,
}

impl Floor {
    /// `delta.rec`: rows, gates and outputs of each token, the state once in and (unless `kept`) once out; 7 operations
    /// for each state element and token (two fused multiply-adds for the sums, one product and one for the update).
    pub const fn delta_rec(sizes: &DeltaSizes, kept: bool) -> Self {
        let state = sizes.state_len();
        let token = sizes.qkv_width() + 2 * sizes.value_heads + sizes.y_width();
        let state_moves = sizes.sequences * if kept { 1 } else { 2 };
        Self {
            bytes: (4 * (sizes.tokens * token + state_moves * state)) as u64,
            flops: (7 * sizes.tokens * state) as u64,
        }
    }

    /// `delta.commit`: k, v and gates of each accepted token, the state in and out; 5 operations an element.
    pub const fn delta_commit(sizes: &DeltaSizes) -> Self {
        let state = sizes.value_heads * HEAD_DIM * HEAD_DIM;
        let token = sizes.qkv_width() - sizes.key_heads * HEAD_DIM + 2 * sizes.value_heads;
        Self { bytes: (4 * (sizes.tokens * token + 2 * state)) as u64, flops: (5 * sizes.tokens * state) as u64 }
    }

    /// `delta.out_norm`: y and z in as f32, y16 out as f16; 7 operations an element and the gate's exponential.
    pub const fn delta_out_norm(tokens: usize, value_heads: usize) -> Self {
        let elements = tokens * value_heads * HEAD_DIM;
        Self { bytes: (10 * elements) as u64, flops: (7 * elements) as u64 }
    }

    /// `dense.product` with 16-bit weights: each weight once, x in and y out; two operations a weight and token.
    pub const fn dense_product(sizes: &ProductCase) -> Self {
        let weights = sizes.n_out * sizes.n_in;
        let values = sizes.tokens * (sizes.n_in + sizes.n_out);
        Self { bytes: (2 * weights + 4 * values) as u64, flops: (2 * weights * sizes.tokens) as u64 }
    }

    /// `dense.dequantize` to f32: each block once, each value out; two operations a value.
    pub const fn dense_dequantize(sizes: &DequantizeCase) -> Self {
        let values = sizes.n_out * sizes.n_in;
        Self { bytes: (sizes.bytes() + 4 * values) as u64, flops: (2 * values) as u64 }
    }

    /// `mmvq.product`: each block once, x in and y out; two operations a weight and vector.
    pub const fn mmvq_product(sizes: &MmvqCase) -> Self {
        let values = sizes.columns * (sizes.n_in + sizes.n_out);
        Self {
            bytes: (sizes.bytes() + 4 * values) as u64,
            flops: (2 * sizes.n_in * sizes.n_out * sizes.columns) as u64,
        }
    }

    /// `qsa.topk`: each score that a row sees once, its ids out; a round is a comparison a score.
    pub const fn qsa_topk(sizes: &TopkCase) -> Self {
        let scores = sizes.rows * sizes.cells.div_ceil(4);
        Self { bytes: (4 * (scores + 2048 * sizes.rows)) as u64, flops: (4 * scores) as u64 }
    }

    /// `qsa.scores`: the key of each complete block once, queries in, scores out; two operations a term.
    pub const fn qsa_scores(sizes: &ScoresCase) -> Self {
        let blocks = sizes.cells / RATIO;
        let values = INDEX_DIM * blocks + sizes.tokens * (INDEX_HEADS * INDEX_DIM + blocks + 1);
        Self { bytes: (4 * values) as u64, flops: (2 * INDEX_HEADS * INDEX_DIM * blocks * sizes.tokens) as u64 }
    }

    /// Microseconds to move the bytes at `bytes_per_second`.
    pub fn bytes_us(&self, bytes_per_second: f64) -> f64 {
        self.bytes as f64 / bytes_per_second * 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floors_of_the_48_head_model() {
        let sizes = DeltaSizes::single(16, 48, 1);
        let token = 40_960 + 384 + 24_576;
        assert_eq!(Floor::delta_rec(&sizes, true), Floor { bytes: token + 3_145_728, flops: 7 * 128 * 128 * 48 });
        assert_eq!(Floor::delta_rec(&sizes, false).bytes, token + 2 * 3_145_728);
        let batch = DeltaSizes { sequences: 3, tokens: 3, ..sizes };
        assert_eq!(Floor::delta_rec(&batch, false).bytes, 3 * Floor::delta_rec(&sizes, false).bytes);
        assert_eq!(Floor::delta_out_norm(1, 48).bytes, 61_440);
    }
}
