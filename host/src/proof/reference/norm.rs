//! Norms and rotations of rows in f64, of values that may themselves be rounded.

use super::near::{Near, TINY, U};

/// What a row is divided by.
#[derive(Clone, Copy, Debug)]
pub enum Divisor {
    /// The root of the mean square plus eps.
    MeanSquare,
    /// The root of the sum of squares plus eps.
    SumOfSquares,
}

/// `x / divisor * gain` of a row, whose elements may have slack of their own: it reaches every element through the sum.
///
/// The sum has a lane's chain and a butterfly; then the mean, eps, the root and its reciprocal, two products.
#[must_use]
pub fn norm(x: &[Near], gain: impl Fn(usize) -> f64, divisor: Divisor, eps: f32) -> Vec<Near> {
    let (n, eps) = (x.len() as f64, f64::from(eps));
    let squares: f64 = x.iter().map(|x| x.value * x.value).sum();
    let carried: f64 = x.iter().map(|x| x.slack * (2.0 * x.value.abs() + x.slack)).sum();
    let over = match divisor {
        Divisor::MeanSquare => n,
        Divisor::SumOfSquares => 1.0,
    };
    let inside = squares / over + eps;
    let steps = (4 * x.len().div_ceil(128) + 5 + 2) as f64;
    let error = (carried + steps * U * squares + n * TINY) / over + U * inside;
    let scale = 1.0 / inside.sqrt();
    // The reciprocal root of a number that is off by `error`, and 3 roundings of its own.
    let scale = Near { value: scale, slack: scale * (0.5 * error / inside * (1.0 + error / inside) + 3.0 * U) };
    x.iter().enumerate().map(|(i, x)| x.product(scale).times(gain(i))).collect()
}

/// Rotates channels i and i + half for each of the `half` angles.
#[must_use]
pub fn rope(x: &[Near], cos: &[f32], sin: &[f32]) -> Vec<Near> {
    let half = cos.len();
    let mut out = x.to_vec();
    for i in 0..half {
        let (a, b, cos, sin) = (x[i], x[i + half], f64::from(cos[i]), f64::from(sin[i]));
        out[i] = a.times(cos).plus(b.times(-sin));
        out[i + half] = b.times(cos).plus(a.times(sin));
    }
    out
}

/// Values as they are.
#[must_use]
pub fn exact(x: &[f32]) -> Vec<Near> {
    x.iter().map(|&x| Near::exact(x)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_by_hand() {
        let row = norm(&exact(&[3.0, 4.0]), |i| [1.0, 10.0][i], Divisor::MeanSquare, 0.0);
        let root = 12.5f64.sqrt();
        assert!((row[0].value - 3.0 / root).abs() < 1e-15 && (row[1].value - 40.0 / root).abs() < 1e-14);
        assert!(row[1].slack < 20.0 * U * row[1].value, "{row:?}");
        let row = norm(&exact(&[3.0, 4.0]), |_| 1.0, Divisor::SumOfSquares, 0.0);
        assert!((row[0].value - 0.6).abs() < 1e-15);
        let turned = rope(&exact(&[1.0, 2.0, 3.0, 4.0, 9.0]), &[0.0, 1.0], &[1.0, 0.0]);
        assert_eq!(turned.iter().map(|x| x.value).collect::<Vec<_>>(), [-3.0, 2.0, 1.0, 4.0, 9.0]);
    }

    #[test]
    fn slack_of_the_elements_reaches_the_row() {
        let rough = [Near { value: 1.0, slack: 1e-3 }, Near::exact(1.0)];
        let row = norm(&rough, |_| 1.0, Divisor::SumOfSquares, 0.0);
        let moved = 1.0 / (1.001f64 * 1.001 + 1.0).sqrt();
        assert!((row[1].value - moved).abs() <= row[1].slack && row[1].slack < 1e-3, "{row:?}");
    }
}
