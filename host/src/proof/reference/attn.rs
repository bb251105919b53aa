//! Softmax attention and block selection in f64.

use super::near::{Near, TINY, U};

/// One head of one token over the rows `keys`, `values`: `sum of softmax(q . k scale) v`, before the output gate; 0 over none.
///
/// A weight is off by the error of its score, by that of its exponential's argument, and by those of the sum it is
/// divided by; sums have as many additions as there are keys, and partial sums are rescaled at each chunk of 32.
#[must_use]
pub fn softmax(q: &[f32], keys: &[&[f32]], values: &[&[f32]]) -> Vec<Near> {
    if keys.is_empty() {
        return vec![Near::exact(0.0); q.len()];
    }
    let scale = 1.0 / (q.len() as f64).sqrt();
    let score = |key: &&[f32]| {
        let terms = q.iter().zip(*key).map(|(&q, &k)| f64::from(q) * f64::from(k));
        let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), x| (sum + x, size + x.abs()));
        (sum * scale, (q.len() as f64 + 4.0) * (U * size + TINY) * scale)
    };
    let scores: Vec<_> = keys.iter().map(score).collect();
    let max = scores.iter().map(|s| s.0).fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<_> = scores.iter().map(|s| ((s.0 - max).exp(), s.1 + U * (max - s.0))).collect();
    let total: f64 = weights.iter().map(|w| w.0).sum();
    let common: f64 = weights.iter().map(|w| w.0 * w.1).sum::<f64>() / total;
    let largest = scores.iter().map(|s| s.1).fold(0.0, f64::max);
    let steps = U * (keys.len() as f64 + 4.0 * keys.len().div_ceil(32) as f64 + 16.0);
    let channel = |c: usize| {
        let (mut sum, mut slack) = (0.0, TINY);
        for ((weight, error), value) in weights.iter().zip(values) {
            let term = weight / total * f64::from(value[c]);
            sum += term;
            // The largest score's own error moves all weights together, and cancels but for its rounding.
            slack += term.abs() * (error + common + 2.0 * largest + steps);
        }
        Near { value: sum, slack }
    };
    (0..values[0].len()).map(channel).collect()
}

/// Roundings of a score by a chain of f32: four of a lane's terms, five of the butterfly, three of the heads, one spare.
pub const SCORE_STEPS: f64 = 13.0;

/// The score of a block: `sum over heads of max(0, q . key)`.
#[must_use]
pub fn block_score(q: &[f32], key: &[f32]) -> Near {
    let (mut sum, mut size) = (0.0, 0.0);
    for head in q.chunks(key.len()) {
        let terms = head.iter().zip(key).map(|(&q, &k)| f64::from(q) * f64::from(k));
        let (dot, all) = terms.fold((0.0, 0.0), |(dot, all), x: f64| (dot + x, all + x.abs()));
        sum += dot.max(0.0);
        size += all;
    }
    let near = Near::rounded(sum, size, SCORE_STEPS);
    Near { slack: near.slack + q.len() as f64 * TINY, ..near }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_by_hand() {
        let (keys, values): ([&[f32]; 2], [&[f32]; 2]) = ([&[0.0; 4], &[0.5; 4]], [&[1.0, 0.0], &[3.0, 4.0]]);
        let y = softmax(&[2.0; 4], &keys, &values);
        let second = 1.0 / (1.0 + (-2.0f64).exp());
        assert!((y[0].value - 1.0 - 2.0 * second).abs() < 1e-14 && (y[1].value - 4.0 * second).abs() < 1e-14);
        assert!(y[0].slack < 260.0 * U, "{y:?}");
        assert_eq!(block_score(&[1.0, 1.0, 1.0, 1.0, -1.0, 0.0, 0.0, 0.0], &[2.0; 4]).value, 8.0);
    }
}
