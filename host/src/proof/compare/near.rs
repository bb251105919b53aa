//! Results against references that say for each element how far it may be.

use super::distance::finite_where_expected;
use super::{Failure, Value, Worst, same_length};
use crate::proof::reference::near::Near;

/// The largest share of its slack that an element's difference takes: above 1 is too far. Without slack any difference
/// is infinitely far.
///
/// # Errors
/// [`Failure::Nan`] and [`Failure::Number`] where one of the two is no number, [`Failure::Length`].
pub fn share<T: Value>(reference: &[Near], got: &[T]) -> Result<Worst, Failure> {
    same_length(got.len(), reference.len())?;
    // What an f32 cannot hold is infinite in both.
    let held = |x: f64| if x.abs() > f64::from(f32::MAX) { f64::INFINITY.copysign(x) } else { x };
    let values: Vec<f64> = reference.iter().map(|near| held(near.value)).collect();
    finite_where_expected(&values, got)?;
    let mut worst = Worst::default();
    for (at, (near, got)) in reference.iter().zip(got).enumerate() {
        let difference = (got.to_f64() - near.value).abs();
        if values[at].is_finite() && difference > 0.0 {
            let share = difference / near.slack;
            worst.take(if share.is_nan() { f64::INFINITY } else { share }, at);
        }
    }
    Ok(worst)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_nan_and_exact_values() {
        let near = |value: f64, slack: f64| Near { value, slack };
        let reference = [near(1.0, 0.5), near(2.0, 0.0), near(f64::NAN, 1.0), near(1e39, 1.0)];
        let good = [1.25f32, 2.0, f32::NAN, f32::INFINITY];
        assert_eq!(share(&reference, &good), Ok(Worst { error: 0.5, at: 0 }));
        let spoilt = |at: usize, x: f32| {
            let mut got = good;
            got[at] = x;
            share(&reference, &got)
        };
        assert_eq!(spoilt(1, 2.0000002), Ok(Worst { error: f64::INFINITY, at: 1 }));
        assert!(matches!(spoilt(0, f32::NAN), Err(Failure::Nan { at: 0, .. })));
        assert!(matches!(spoilt(2, 1.0), Err(Failure::Number { at: 2, .. })));
        assert!(matches!(spoilt(3, 1.0), Err(Failure::Number { at: 3, .. })));
        assert!(share(&reference, &good[1..]).is_err());
    }
}
