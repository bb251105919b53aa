//! The gated delta rule in f64, token after token (Gated Delta Networks, arXiv 2412.06464). For each value head:
//!
//! ```text
//! a       = exp(gate_t)
//! m[c]    = sum_r S[r][c] k_t[r]                before the decay
//! d[c]    = beta_t (v_t[c] - a m[c])
//! S[r][c] = a S[r][c] + k_t[r] d[c]
//! y_t[c]  = (sum_r S[r][c] q_t[r]) / sqrt(128)  after the update
//! ```
//!
//! Columns never interact, so (head, 16 columns) are independent tasks and the result does not depend on how many run
//! at the same time.

use std::ops::Range;

use rayon::prelude::*;
use varve_gpu::geometry::HEAD_DIM;

use crate::proof::case::RecCase;

/// What the recurrence gives in f64.
#[derive(Clone, Debug, PartialEq)]
pub struct RecReference {
    /// `[tokens][value_heads * 128]`, without gaps.
    pub y: Vec<f64>,
    /// `[128][value_heads][128]` after the last token.
    pub state: Vec<f64>,
    /// Largest |S| of each value head at any time of the call: an error that was made while the state was large is not
    /// judged by what a later decay left of it.
    pub peak: Vec<f64>,
}

const COLUMNS: usize = 16;
const BLOCKS: usize = HEAD_DIM / COLUMNS;
type Strip = [f64; COLUMNS];

/// The whole case.
#[must_use]
pub fn recurrence(case: &RecCase) -> RecReference {
    let state: Vec<f64> = case.state.iter().map(|&x| f64::from(x)).collect();
    recurrence_from(case, &state, 0..case.shape.tokens)
}

/// Tokens `tokens` of the case, from `state` in place of the case's own.
///
/// # Panics
/// If `state` has not the shape's size or the range leaves the case.
#[must_use]
pub fn recurrence_from(case: &RecCase, state: &[f64], tokens: Range<usize>) -> RecReference {
    let shape = &case.shape;
    assert_eq!(state.len(), shape.state_len(), "state of another shape");
    assert!(tokens.end <= shape.tokens, "tokens {tokens:?} of {}", shape.tokens);
    let blocks: Vec<Block> = (0..shape.value_heads * BLOCKS)
        .into_par_iter()
        .map(|i| Block::run(case, state, tokens.clone(), i / BLOCKS, i % BLOCKS * COLUMNS))
        .collect();

    let mut y = vec![0.0; tokens.len() * shape.y_width()];
    y.par_chunks_mut(shape.y_width()).enumerate().for_each(|(t, row)| {
        row.chunks_mut(COLUMNS).zip(&blocks).for_each(|(strip, block)| strip.copy_from_slice(&block.y[t]));
    });
    let mut after = vec![0.0; shape.state_len()];
    after.chunks_mut(shape.y_width()).enumerate().for_each(|(r, row)| {
        row.chunks_mut(COLUMNS).zip(&blocks).for_each(|(strip, block)| strip.copy_from_slice(&block.state[r]));
    });
    let peak = blocks.chunks(BLOCKS).map(|head| head.iter().map(|b| b.peak).fold(0.0, f64::max)).collect();
    RecReference { y, state: after, peak }
}

/// 16 columns of a value head.
struct Block {
    y: Vec<Strip>,
    state: [Strip; HEAD_DIM],
    peak: f64,
}

impl Block {
    fn run(case: &RecCase, state: &[f64], tokens: Range<usize>, head: usize, column: usize) -> Self {
        let shape = &case.shape;
        let mut s = [[0.0; COLUMNS]; HEAD_DIM];
        for (r, strip) in s.iter_mut().enumerate() {
            strip.copy_from_slice(&state[r * shape.y_width() + head * HEAD_DIM + column..][..COLUMNS]);
        }
        let mut peak = s.as_flattened().iter().fold(0.0, |peak: f64, x| peak.max(x.abs()));
        let mut y = Vec::with_capacity(tokens.len());
        let key_head = head % shape.key_heads;
        for t in tokens {
            let decay = f64::from(case.gate[t * shape.gate_stride + head]).exp();
            let beta = f64::from(case.beta[t * shape.beta_stride + head]);
            let (q, k) = (case.query(t, key_head), case.key(t, key_head));
            let v = &case.value(t, head)[column..];
            let mut m = [0.0; COLUMNS];
            for (strip, &k) in s.iter().zip(k) {
                let k = f64::from(k);
                for c in 0..COLUMNS {
                    m[c] += strip[c] * k;
                }
            }
            let mut d = [0.0; COLUMNS];
            for c in 0..COLUMNS {
                d[c] = beta * (f64::from(v[c]) - decay * m[c]);
            }
            let (mut o, mut largest) = ([0.0; COLUMNS], [0.0f64; COLUMNS]);
            for ((strip, &k), &q) in s.iter_mut().zip(k).zip(q) {
                let (k, q) = (f64::from(k), f64::from(q));
                for c in 0..COLUMNS {
                    strip[c] = decay * strip[c] + k * d[c];
                    o[c] += strip[c] * q;
                    largest[c] = largest[c].max(strip[c].abs());
                }
            }
            peak = largest.into_iter().fold(peak, f64::max);
            y.push(o.map(|o| o / (HEAD_DIM as f64).sqrt()));
        }
        Self { y, state: s, peak }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proof::case::RecShape;
    use crate::proof::inputs::{BASE, Gates, Inputs, named};

    fn case(shape: RecShape, inputs: &Inputs) -> RecCase {
        RecCase::new(shape, inputs, 17)
    }

    /// Two tokens with unit keys, worked out by hand.
    #[test]
    fn a_tiny_case_by_hand() {
        let shape = RecShape::dense(1, 1, 2);
        let mut case = case(shape, &BASE);
        for x in [&mut case.qkv, &mut case.state] {
            x.fill(0.0);
        }
        let (q, k, v) = (0, 128, 256);
        case.state[3 * 128 + 7] = 2.0; // S[3][7]
        // Token 0 writes along key row 3: a = 1/2, m = 2, d = 1/2 (6 - 1) = 5/2, S[3][7] = 1 + 5/2 = 7/2.
        case.gate[0] = 0.5f32.ln();
        case.beta[0] = 0.5;
        case.qkv[k + 3] = 1.0;
        case.qkv[v + 7] = 6.0;
        case.qkv[q + 3] = 1.0;
        // Token 1 writes along key row 5 and reads both rows: S[3][7] = 7/2, S[5][7] = 1 (-4 - 0) = -4.
        case.gate[1] = 0.0;
        case.beta[1] = 1.0;
        case.qkv[384 + k + 5] = 1.0;
        case.qkv[384 + v + 7] = -4.0;
        case.qkv[384 + q + 3] = 0.5;
        case.qkv[384 + q + 5] = 0.25;
        let got = recurrence(&case);
        let root = 128f64.sqrt();
        let close = |got: f64, want: f64| assert!((got - want).abs() < 1e-7, "{got}, expected {want}"); // ln in f32
        close(got.y[7], 3.5 / root);
        close(got.y[128 + 7], (0.5 * 3.5 - 0.25 * 4.0) / root);
        close(got.state[3 * 128 + 7], 3.5);
        close(got.state[5 * 128 + 7], -4.0);
        close(got.peak[0], 4.0);
        let rest = got.state.iter().filter(|&&x| x != 0.0).count() + got.y.iter().filter(|&&x| x != 0.0).count();
        assert_eq!(rest, 4, "no other element is touched");
    }

    #[test]
    fn a_split_call_is_the_whole_call() {
        let case = case(RecShape::gapped(2, 4, 11), &BASE);
        let whole = recurrence(&case);
        let start: Vec<f64> = case.state.iter().map(|&x| f64::from(x)).collect();
        for cut in 0..=11 {
            let first = recurrence_from(&case, &start, 0..cut);
            let second = recurrence_from(&case, &first.state, cut..11);
            assert_eq!([first.y, second.y].concat(), whole.y, "cut at {cut}");
            assert_eq!(second.state, whole.state, "cut at {cut}");
        }
    }

    #[test]
    fn gate_zero_and_beta_zero_change_nothing() {
        let inputs = Inputs { gates: Gates::Constant(0.0), ..*named("beta_zero").expect("a law") };
        let case = case(RecShape::dense(1, 2, 6), &inputs);
        let got = recurrence(&case);
        assert!(got.state.iter().zip(&case.state).all(|(&got, &before)| got == f64::from(before)));
        assert!(got.y.iter().any(|&y| y != 0.0), "the state is still read");
    }

    #[test]
    fn a_written_value_is_read_back() {
        // beta 1 and a unit key: the state then answers that key with the value just written.
        let inputs = named("beta_one").expect("a law");
        let mut case = case(RecShape::dense(1, 1, 9), inputs);
        for t in 0..9 {
            let key = case.key(t, 0).to_vec();
            case.qkv[t * 384..][..128].copy_from_slice(&key);
        }
        let got = recurrence(&case);
        for t in 0..9 {
            for c in 0..128 {
                let (want, got) = (f64::from(case.value(t, 0)[c]), got.y[t * 128 + c] * 128f64.sqrt());
                assert!(
                    (got - want).abs() < 1e-5 * (1.0 + want.abs()),
                    "token {t}, column {c}: {got}, expected {want}"
                );
            }
        }
    }

    #[test]
    fn value_heads_read_key_head_h_mod_key_heads() {
        let shape = RecShape::dense(2, 4, 3);
        let case = case(shape, &BASE);
        let whole = recurrence(&case);
        for head in 0..4 {
            let mut alone = RecCase::new(RecShape::dense(1, 1, 3), &BASE, 0);
            for t in 0..3 {
                let row = [case.query(t, head % 2), case.key(t, head % 2), case.value(t, head)].concat();
                alone.qkv[t * 384..][..384].copy_from_slice(&row);
                alone.gate[t] = case.gate[t * 4 + head];
                alone.beta[t] = case.beta[t * 4 + head];
            }
            for r in 0..128 {
                alone.state[r * 128..][..128].copy_from_slice(&case.state[r * 512 + head * 128..][..128]);
            }
            let got = recurrence(&alone);
            for t in 0..3 {
                assert_eq!(got.y[t * 128..][..128], whole.y[t * 512 + head * 128..][..128], "head {head}");
            }
            assert_eq!(got.peak[0], whole.peak[head]);
        }
    }

    #[test]
    fn a_zero_query_reads_zero_and_a_zero_key_writes_nothing() {
        let case = case(RecShape::dense(1, 1, 1), named("k30_zero_vectors").expect("a law"));
        let got = recurrence(&case);
        assert!(got.y.iter().all(|&y| y == 0.0));
        let decay = f64::from(case.gate[0]).exp();
        assert!(got.state.iter().zip(&case.state).all(|(&s, &before)| s == decay * f64::from(before)));
    }
}
