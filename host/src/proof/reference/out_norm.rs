//! The output norm in f64: `y * rsqrt(mean(y^2) + eps) * gamma * gate(z)` over rows of 128.

use rayon::prelude::*;
use varve_gpu::geometry::HEAD_DIM;

use crate::proof::case::NormCase;

/// The logistic function.
#[must_use]
pub fn sigmoid(z: f64) -> f64 {
    1.0 / (1.0 + (-z).exp())
}

/// `z * sigmoid(z)`.
#[must_use]
pub fn silu(z: f64) -> f64 {
    z * sigmoid(z)
}

/// Normalised rows without gaps, `[tokens][value_heads * 128]`. The magnitude is held to the largest f16, 65504, since
/// the operation stores f16 and saturates; otherwise nothing is rounded.
#[must_use]
pub fn out_norm(case: &NormCase, gate: fn(f64) -> f64) -> Vec<f64> {
    let shape = &case.shape;
    let mut out = vec![0.0; shape.tokens * shape.width()];
    out.par_chunks_mut(shape.width()).enumerate().for_each(|(t, row)| {
        for (head, out) in row.chunks_mut(HEAD_DIM).enumerate() {
            let y = case.y[t * shape.y_stride + head * HEAD_DIM..][..HEAD_DIM].iter().map(|&y| f64::from(y));
            let z = &case.z[t * shape.z_stride + head * HEAD_DIM..][..HEAD_DIM];
            let scale = row_scale(y.clone(), f64::from(case.eps));
            for (((out, y), &z), &gamma) in out.iter_mut().zip(y).zip(z).zip(&case.gamma) {
                let value = y * scale * f64::from(gamma) * gate(f64::from(z));
                *out = value.clamp(-65504.0, 65504.0);
            }
        }
    });
    out
}

/// `1 / sqrt(mean(y^2) + eps)` of a row of 128.
pub fn row_scale(y: impl Iterator<Item = f64>, eps: f64) -> f64 {
    1.0 / (y.map(|y| y * y).sum::<f64>() / HEAD_DIM as f64 + eps).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proof::case::{NORM_INPUTS, NormShape};

    #[test]
    fn a_row_by_hand() {
        let mut case = NormCase::new(NormShape::gapped(2, 2), &NORM_INPUTS[0], 1);
        // Head 1 of token 1: y = 3 in one column, 0 elsewhere, so the mean square is 9 / 128.
        let at = case.shape.y_stride + HEAD_DIM;
        case.y[at..at + HEAD_DIM].fill(0.0);
        case.y[at + 5] = 3.0;
        case.z[case.shape.z_stride + HEAD_DIM + 5] = 0.0;
        case.gamma[5] = 2.0;
        let got = out_norm(&case, sigmoid);
        let want = 3.0 / (9.0f64 / 128.0 + f64::from(1e-6f32)).sqrt() * 2.0 * 0.5;
        assert!((got[3 * HEAD_DIM + 5] - want).abs() < 1e-12, "{} {want}", got[3 * HEAD_DIM + 5]);
        assert!(got[3 * HEAD_DIM..].iter().enumerate().all(|(c, &x)| c == 5 || x == 0.0));
        assert_eq!(out_norm(&case, silu)[3 * HEAD_DIM + 5], 0.0);
    }

    #[test]
    fn rows_have_unit_size_before_gain_and_gate() {
        let mut case = NormCase::new(NormShape::dense(3, 4), &NORM_INPUTS[1], 2);
        case.gamma.fill(1.0);
        for row in out_norm(&case, |_| 1.0).chunks(HEAD_DIM) {
            let mean = row.iter().map(|x| x * x).sum::<f64>() / HEAD_DIM as f64;
            assert!((0.0..=1.0).contains(&mean), "{mean}");
        }
    }

    #[test]
    fn what_f16_cannot_hold_is_clamped() {
        let case = NormCase::new(NormShape::dense(2, 3), NORM_INPUTS.last().expect("a law"), 3);
        let got = out_norm(&case, silu);
        assert!(got.contains(&65504.0) || got.contains(&-65504.0));
        assert!(got.iter().all(|x| x.abs() <= 65504.0));
    }
}
