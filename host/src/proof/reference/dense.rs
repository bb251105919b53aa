//! Products in f64.

use super::near::{Near, TINY, U};

/// `w . x`, in chains of a lane, seven sums of a quarter and two of the row, plus what is added.
#[must_use]
pub fn dot(w: impl Iterator<Item = f64>, x: &[f32], add: Option<f32>) -> Near {
    let (sum, size) = sums(w, x);
    let product = Near::rounded(sum, size, (4 * x.len().div_ceil(128) + 9) as f64);
    let product = Near { slack: product.slack + x.len() as f64 * TINY, ..product };
    add.map_or(product, |add| product.plus(Near::exact(add)))
}

/// Sum of the terms, and of their magnitudes.
fn sums(w: impl Iterator<Item = f64>, x: &[f32]) -> (f64, f64) {
    w.zip(x).fold((0.0, 0.0), |(sum, size), (w, &x)| {
        let term = w * f64::from(x);
        (sum + term, size + term.abs())
    })
}

/// Columns whose products a tensor core adds by itself.
const SLICE: usize = 128;
/// Roundings of a slice's sum: twice 8 steps, each within 22.
const STEPS: f64 = 16.0 * 22.0;

/// [`dot`] by tensor cores with x in two parts of 16 bits, f16 or bf16 as the weights: what the parts leave, sums of slices and
/// their sum, scaling. docs/src/exactness.md#tensor-cores derives it.
#[must_use]
pub fn dot_in_parts(w: impl Iterator<Item = f64> + Clone, x: &[f32], add: Option<f32>, is_f16: bool) -> Near {
    let (sum, size) = sums(w.clone(), x);
    // 2^-22 of the value, but not below 2^-39 of the token's largest; or 2^-18.
    let (left, least) = if is_f16 { (4.0, 0.5f64.powi(39)) } else { (64.0, 0.0) };
    let product = Near::rounded(sum, size, left + STEPS + x.len().div_ceil(SLICE) as f64 + 2.0);
    let largest = x.iter().fold(0.0f64, |a, &x| a.max(f64::from(x).abs()));
    let floor = least * largest * w.map(f64::abs).sum::<f64>() + x.len() as f64 * TINY;
    let product = Near { slack: product.slack + floor, ..product };
    add.map_or(product, |add| product.plus(Near::exact(add)))
}

/// Log decay of a head: `neg_a softplus(a + bias)`, softplus the identity above 20.
#[must_use]
pub fn log_decay(a: f32, bias: f32, neg_a: f32) -> Near {
    let x = f64::from(a) + f64::from(bias);
    let value = if x > 20.0 { x } else { x.exp().ln_1p() };
    let slope = super::out_norm::sigmoid(x);
    Near::rounded(value, 4.1 * value.abs() + x.abs() * slope, 1.0 + U).times(f64::from(neg_a))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_by_hand() {
        let near = dot([1.0, -2.0].into_iter(), &[3.0, 4.0], Some(10.0));
        assert_eq!(near.value, 5.0);
        assert!(near.slack > 100.0 * U && near.slack < 300.0 * U, "13 roundings of 11, one of 5: {near:?}");
        let parts = |is_f16| dot_in_parts([1.0, -2.0].into_iter(), &[3.0, 4.0], Some(10.0), is_f16);
        assert!(parts(true).value == 5.0 && parts(true).slack > near.slack && parts(false).slack > parts(true).slack);
        assert!((log_decay(1.0, -1.0, -2.0).value + 2.0 * 2f64.ln()).abs() < 1e-15);
        assert_eq!(log_decay(20.0, 5.0, -1.0).value, -25.0);
    }
}
