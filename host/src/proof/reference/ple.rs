//! The PLE's gate and convolution in f64: see `varve_gpu::ple` for the formulas.

use super::near::{Near, TINY, U};
use super::out_norm::{sigmoid, silu};

/// `sign(dot) sqrt(max(|dot|, 1e-6))`, ascending in `dot`.
fn root(dot: f64) -> f64 {
    if dot == 0.0 { 0.0 } else { dot.abs().max(1e-6).sqrt().copysign(dot) }
}

/// A token's gated value for every stream. The slack is what the gate makes of the product's error, which is large near
/// 0, where the root is steep and the sign turns.
#[must_use]
pub fn gate(key: &[f32], query: &[f32], val: &[f32]) -> Vec<Near> {
    let dim = val.len();
    let mut out = Vec::with_capacity(key.len());
    for (key, query) in key.chunks(dim).zip(query.chunks(dim)) {
        let terms = key.iter().zip(query).map(|(&k, &q)| f64::from(k) * f64::from(q));
        let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), x| (sum + x, size + x.abs()));
        let scale = 1.0 / (dim as f64).sqrt();
        // A lane's chain, the butterfly, the scaling; subnormal terms have an absolute error each.
        let steps = (4 * dim.div_ceil(128) + 5 + 2) as f64;
        let error = if size == 0.0 { 0.0 } else { scale * (steps * U * size + dim as f64 * TINY) };
        let (dot, value) = (sum * scale, sigmoid(root(sum * scale)));
        let [low, high] = [dot - error, dot + error].map(|dot| sigmoid(root(dot)));
        let own = Near::sigmoid(root(dot), 2.0);
        let gate = Near { value, slack: own.slack + (high - value).max(value - low) };
        out.extend(val.iter().map(|&v| gate.times(f64::from(v))));
    }
    out
}

/// SiLU of a sum of taps times inputs, oldest first.
#[must_use]
pub fn convolved(taps: &[f32], inputs: &[f32]) -> Near {
    let terms = taps.iter().zip(inputs).map(|(&tap, &x)| f64::from(tap) * f64::from(x));
    let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), x| (sum + x, size + x.abs()));
    let error = taps.len() as f64 * (U * size + TINY);
    let own = Near::silu(sum, 0.0);
    // |silu'| <= 1.1; where silu is flat, the error of the sum is not felt.
    let felt = (silu(sum + error) - own.value).abs().max((silu(sum - error) - own.value).abs()).min(1.1 * error);
    Near { value: own.value, slack: own.slack + felt }
}

/// One element after the convolution: `s + (u + silu(sum of taps times inputs))`.
#[must_use]
pub fn conv(s: f32, u: f32, taps: &[f32], inputs: &[f32]) -> Near {
    Near::exact(s).plus(Near::exact(u).plus(convolved(taps, inputs)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_by_hand() {
        let out = gate(&[2.0, 0.0, 1.0, 1.0, 0.0, 0.0], &[2.0, 7.0, -1.0, 1.0, 5.0, 5.0], &[1.0, -3.0]);
        let first = sigmoid((4.0 / 2f64.sqrt()).sqrt());
        let values: Vec<_> = out.iter().map(|x| x.value).collect();
        assert!((values[0] - first).abs() < 1e-15 && (values[1] + 3.0 * first).abs() < 1e-15, "{values:?}");
        assert_eq!(values[2..], [0.5, -1.5, 0.5, -1.5], "sign(0) = 0");
        assert!(out[2].slack > 2e-4, "the sign of a product that cancels is open: {:?}", out[2]);
        assert!(out[0].slack < 1e-6 && out[4].slack < 1e-6, "{out:?}");
    }

    #[test]
    fn a_convolution_by_hand() {
        let near = conv(1.0, 10.0, &[2.0, 3.0], &[5.0, -3.0]);
        assert!((near.value - 11.0 - silu(1.0)).abs() < 1e-15, "{near:?}");
        assert!(near.slack < 80.0 * U, "{near:?}");
    }
}
