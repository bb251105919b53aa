//! A value in f64 and how far an f32 result may lie from it, for operations that are judged element by element.
//!
//! The distance comes from the operation's own steps, by the standard model of rounding: each step adds at most [`U`]
//! of its result, or [`TINY`] where that is subnormal. docs/src/exactness.md derives the counts.

use super::out_norm::{sigmoid, silu};

/// Half a unit in the last place of 1: 2^-24.
pub const U: f64 = 1.0 / 16_777_216.0;
/// A few units of the smallest subnormal f32, 2^-149.
pub const TINY: f64 = 1.2e-44;

/// A value and the distance allowed from it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Near {
    /// The value.
    pub value: f64,
    /// Largest allowed difference.
    pub slack: f64,
}

impl Near {
    /// The value itself, bits apart.
    #[must_use]
    pub const fn exact(value: f32) -> Self {
        Self { value: value as f64, slack: 0.0 }
    }

    /// Within `steps` roundings of a magnitude of `size`.
    #[must_use]
    pub fn rounded(value: f64, size: f64, steps: f64) -> Self {
        Self { value, slack: steps * U * size.abs() + TINY }
    }

    /// `sigmoid(x)` of an x with `steps` roundings: 2.41 ulp of the function, and what the argument's error makes of
    /// it.
    #[must_use]
    pub fn sigmoid(x: f64, steps: f64) -> Self {
        let value = sigmoid(x);
        Self::rounded(value, value, 4.9 + steps * x.abs() * sigmoid(-x))
    }

    /// `silu(x)` of an x with `steps` roundings: 3.35 ulp of the function, and what the argument's error makes of it.
    #[must_use]
    pub fn silu(x: f64, steps: f64) -> Self {
        let value = silu(x);
        Self::rounded(value, value, 6.8 + steps * (1.0 + x.abs() * sigmoid(-x)))
    }

    /// The product with an exact factor, rounded.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        let value = self.value * factor;
        Self { value, slack: self.slack * factor.abs() + U * value.abs() + TINY }
    }

    /// The product, rounded.
    #[must_use]
    pub fn product(self, other: Self) -> Self {
        let value = self.value * other.value;
        let slack = self.slack * (other.value.abs() + other.slack) + other.slack * self.value.abs();
        Self { value, slack: slack + U * value.abs() + TINY }
    }

    /// The sum, rounded.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let value = self.value + other.value;
        let slack = self.slack + other.slack;
        Self { value, slack: slack + U * (value.abs() + slack) + TINY }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_std::float;

    /// The f32 functions of the kernels stay within the slack, which is not much larger than their error.
    #[test]
    fn slacks_hold_and_are_tight() {
        let mut largest = [0.0f64; 2];
        for i in -4000..4000 {
            let x = i as f32 * 0.025;
            let pairs = [
                (f64::from(float::sigmoid(x)), Near::sigmoid(f64::from(x), 0.0)),
                (f64::from(float::silu(x)), Near::silu(f64::from(x), 0.0)),
            ];
            for (largest, (got, near)) in largest.iter_mut().zip(pairs) {
                *largest = largest.max((got - near.value).abs() / near.slack);
            }
        }
        assert!(largest.iter().all(|&share| share > 0.3 && share <= 1.0), "{largest:?}");
    }

    #[test]
    fn errors_of_arguments_are_carried_on() {
        for x in [-30.0f64, -2.0, -0.5, 0.3, 4.0] {
            let moved = x * (1.0 + 8.0 * U);
            assert!((sigmoid(moved) - sigmoid(x)).abs() <= Near::sigmoid(x, 8.0).slack);
            assert!((silu(moved) - silu(x)).abs() <= Near::silu(x, 8.0).slack);
        }
        let sum = Near::rounded(1.0, 1.0, 2.0).plus(Near::exact(-1.0));
        assert_eq!(sum.value, 0.0);
        assert!(sum.slack >= 2.0 * U && sum.slack < 2.1 * U, "cancellation keeps the absolute error: {sum:?}");
        assert_eq!(Near::exact(3.0).times(0.5).value, 1.5);
        let product = Near::rounded(2.0, 2.0, 3.0).product(Near::rounded(-5.0, 5.0, 4.0));
        assert!(product.value == -10.0 && (product.slack / (10.0 * U) - 8.0).abs() < 1e-3, "{product:?}");
    }
}
