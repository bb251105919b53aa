//! Hyper-connections in f64, a token at a time: see `varve_gpu::hyper` for the formulas.

use super::near::{Near, U};
use super::out_norm::sigmoid;

/// A row after the low-rank products: SiLU of the first `rank` columns over C, twice the sigmoid of the others.
#[must_use]
pub fn squeeze(v: &[f32], rank: usize, streams: usize) -> Vec<Near> {
    let of = |(i, &v): (usize, &f32)| {
        let x = f64::from(v) / streams as f64;
        if i < rank { Near::silu(x, 1.0) } else { Near::sigmoid(x, 1.0).times(2.0) }
    };
    v.iter().enumerate().map(of).collect()
}

/// The gated mean of the streams. Each gate has its own 4.9 roundings, each term one, the mean two.
#[must_use]
pub fn mix(up: &[f32], n: &[f32], streams: usize) -> Vec<Near> {
    let dim = n.len() / streams;
    let element = |i: usize| {
        let terms = (0..streams).map(|c| sigmoid(f64::from(up[c * dim + i])) * f64::from(n[c * dim + i]));
        let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), x| (sum + x, size + x.abs()));
        let count = streams as f64;
        let mean = Near::rounded(sum / count, size / count, 4.9 + count + 2.0);
        // A gate that is subnormal has an error of its own, which a large n magnifies.
        let largest = (0..streams).map(|c| f64::from(n[c * dim + i]).abs()).fold(0.0, f64::max);
        Near { slack: mean.slack + super::near::TINY * largest, ..mean }
    };
    (0..dim).map(element).collect()
}

/// The streams after a layer's output is added: one rounding.
#[must_use]
pub fn write(s: &[f32], inj: &[f32], y: &[f32]) -> Vec<Near> {
    let dim = y.len();
    let element = |(at, &s): (usize, &f32)| {
        let value = f64::from(s) + f64::from(inj[at / dim]) * f64::from(y[at % dim]);
        Near::rounded(value, value, 1.0 + U)
    };
    s.iter().enumerate().map(element).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_by_hand() {
        let mix = mix(&[0.0, 1e9, 0.0, -1e9], &[2.0, 3.0, 4.0, 5.0], 2);
        assert_eq!(mix.iter().map(|x| x.value).collect::<Vec<_>>(), [1.5, 1.5]);
        let write = write(&[1.0, 2.0, 3.0, 4.0], &[10.0, 100.0], &[0.5, 0.25]);
        assert_eq!(write.iter().map(|x| x.value).collect::<Vec<_>>(), [6.0, 4.5, 53.0, 29.0]);
        let squeeze = squeeze(&[0.0, 4.0, 0.0], 2, 4);
        let silu = 1.0 / (1.0 + (-1.0f64).exp());
        assert_eq!(squeeze.iter().map(|x| x.value).collect::<Vec<_>>(), [0.0, silu, 1.0]);
    }
}
