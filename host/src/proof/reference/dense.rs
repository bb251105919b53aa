//! Products in f64.

use super::near::{Near, U};

/// `w . x`, in chains of a lane, seven sums of a quarter and two of the row, plus what is added.
#[must_use]
pub fn dot(w: impl Iterator<Item = f64>, x: &[f32], add: Option<f32>) -> Near {
    let (mut sum, mut size) = (0.0, 0.0);
    for (w, &x) in w.zip(x) {
        let term = w * f64::from(x);
        sum += term;
        size += term.abs();
    }
    let product = Near::rounded(sum, size, (4 * x.len().div_ceil(128) + 9) as f64);
    let product = Near { slack: product.slack + x.len() as f64 * super::near::TINY, ..product };
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
        assert!((log_decay(1.0, -1.0, -2.0).value + 2.0 * 2f64.ln()).abs() < 1e-15);
        assert_eq!(log_decay(20.0, 5.0, -1.0).value, -25.0);
    }
}
