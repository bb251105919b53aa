//! Largest differences from a reference, and where they are.

use rayon::prelude::*;
use varve_gpu::geometry::HEAD_DIM;

use super::{Failure, Value, first_and_count, same_length};
use crate::proof::reference::out_norm::row_scale;

/// Largest magnitude of each head.
#[must_use]
pub fn peaks(values: &[f64], heads: usize) -> Vec<f64> {
    let mut peaks = vec![0.0f64; heads];
    for (row, values) in values.chunks(HEAD_DIM).enumerate() {
        let peak = &mut peaks[row % heads];
        *peak = values.iter().fold(*peak, |peak, x| peak.max(x.abs()));
    }
    peaks
}

/// A largest difference and where it is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Worst {
    /// The difference, in the measure's unit.
    pub error: f64,
    /// Index of the element.
    pub at: usize,
}

impl Worst {
    pub(super) fn take(&mut self, error: f64, at: usize) {
        if error > self.error {
            *self = Self { error, at };
        }
    }

    /// The larger of two; of equal ones the first.
    fn or(self, other: Self) -> Self {
        if other.error > self.error || (other.error == self.error && other.at < self.at) { other } else { self }
    }

    /// Checks the difference against a bound.
    ///
    /// # Errors
    /// [`Failure::TooFar`] under the name `measure`; a difference that is NaN fails.
    pub fn within(self, measure: &'static str, bound: f64) -> Result<(), Failure> {
        if self.error <= bound {
            return Ok(());
        }
        Err(Failure::TooFar { measure, error: self.error, bound, at: self.at })
    }
}

/// How far a result is from its reference.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Distance {
    /// Largest |difference|.
    pub absolute: Worst,
    /// Largest |difference| over the largest scale of all heads.
    pub overall: Worst,
    /// Largest |difference| of a head over the scale of that head.
    pub by_head: Worst,
}

impl Distance {
    fn or(self, other: Self) -> Self {
        Self {
            absolute: self.absolute.or(other.absolute),
            overall: self.overall.or(other.overall),
            by_head: self.by_head.or(other.by_head),
        }
    }
}

/// Differences in units of `scales`, one a head: [`peaks`] of the reference, or larger where an error is to be judged by
/// what was there when it was made. A difference from a reference whose scale is zero is infinite.
///
/// # Errors
/// [`Failure::Nan`], [`Failure::Number`], [`Failure::Length`].
pub fn distance<T: Value>(reference: &[f64], got: &[T], scales: &[f64]) -> Result<Distance, Failure> {
    same_length(got.len(), reference.len())?;
    finite_where_expected(reference, got)?;
    let largest = scales.iter().fold(0.0, |a: f64, &b| a.max(b));
    let relative = |diff: f64, scale: f64| if diff == 0.0 { 0.0 } else { diff / scale };
    let of_row = |(row, (reference, got)): (usize, (&[f64], &[T]))| {
        let mut distance = Distance::default();
        for (c, (&reference, &got)) in reference.iter().zip(got).enumerate() {
            if !reference.is_finite() {
                continue; // equal, as checked above
            }
            let (diff, at) = ((got.to_f64() - reference).abs(), row * HEAD_DIM + c);
            distance.absolute.take(diff, at);
            distance.overall.take(relative(diff, largest), at);
            distance.by_head.take(relative(diff, scales[row % scales.len()]), at);
        }
        distance
    };
    let rows = reference.par_chunks(HEAD_DIM).zip(got.par_chunks(HEAD_DIM)).enumerate();
    Ok(rows.map(of_row).reduce(Distance::default, Distance::or))
}

/// Largest `|difference| / max(|reference|, floor)` of an element: the measure for results of few bits, where `floor` is
/// the smallest normal number.
///
/// # Errors
/// As [`distance`].
pub fn elementwise<T: Value>(reference: &[f64], got: &[T], floor: f64) -> Result<Worst, Failure> {
    same_length(got.len(), reference.len())?;
    finite_where_expected(reference, got)?;
    let mut worst = Worst::default();
    for (at, (&reference, &got)) in reference.iter().zip(got).enumerate() {
        if reference.is_finite() {
            worst.take((got.to_f64() - reference).abs() / reference.abs().max(floor), at);
        }
    }
    Ok(worst)
}

/// Largest |difference| after each row of 128 is divided by its own root mean square, in f64: what the output norm makes
/// of an error in a quiet row.
///
/// # Errors
/// As [`distance`].
pub fn normed<T: Value>(reference: &[f64], got: &[T], eps: f64) -> Result<Worst, Failure> {
    same_length(got.len(), reference.len())?;
    finite_where_expected(reference, got)?;
    let of_row = |(row, (reference, got)): (usize, (&[f64], &[T]))| {
        let mut worst = Worst::default();
        let scale = row_scale(reference.iter().copied(), eps);
        let got_scale = row_scale(got.iter().map(|x| x.to_f64()), eps);
        for (c, (reference, got)) in reference.iter().zip(got).enumerate() {
            worst.take((got.to_f64() * got_scale - reference * scale).abs(), row * HEAD_DIM + c);
        }
        worst
    };
    let rows = reference.par_chunks(HEAD_DIM).zip(got.par_chunks(HEAD_DIM)).enumerate();
    Ok(rows.map(of_row).reduce(Worst::default, Worst::or))
}

pub(super) fn finite_where_expected<T: Value>(reference: &[f64], got: &[T]) -> Result<(), Failure> {
    let is_nan = |i: usize| got[i].to_f64().is_nan() && !reference[i].is_nan();
    if let Some((at, count)) = first_and_count(got.len(), is_nan) {
        return Err(Failure::Nan { count, at, reference: reference[at] });
    }
    let wrong = |i: usize| {
        let (want, got) = (reference[i], got[i].to_f64());
        !want.is_finite() && want != got && !(want.is_nan() && got.is_nan())
    };
    match first_and_count(got.len(), wrong) {
        Some((at, _)) => Err(Failure::Number { at, got: got[at].to_f64(), reference: reference[at] }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::*;

    const QUIET: usize = 3 * HEAD_DIM + 5; // token 1, head 1 of 2

    /// Two tokens of two heads; head 1 is a thousand times quieter.
    fn reference() -> Vec<f64> {
        let size = |i: usize| if i / HEAD_DIM % 2 == 1 { 1e-3 } else { 1.0 };
        (0..4 * HEAD_DIM).map(|i| size(i) * (1.0 - (i % 7) as f64 / 8.0)).collect()
    }

    fn result() -> Vec<f32> {
        reference().iter().map(|&x| x as f32).collect()
    }

    #[test]
    fn a_quiet_head_does_not_hide() {
        let mut got = result();
        got[QUIET] += 1e-5;
        let reference = reference();
        let found = distance(&reference, &got, &peaks(&reference, 2)).expect("finite");
        assert!((found.overall.error - 1e-5).abs() < 1e-7, "{found:?}");
        assert!((found.by_head.error - 1e-2).abs() < 1e-4, "{found:?}");
        assert_eq!((found.overall.at, found.by_head.at), (QUIET, QUIET));
        assert!(found.overall.within("output", 1e-4).is_ok());
        let failure = found.by_head.within("output by head", 1e-4);
        assert!(matches!(failure, Err(Failure::TooFar { measure: "output by head", at: QUIET, .. })), "{failure:?}");
        let normed = normed(&reference, &got, 1e-6).expect("finite");
        assert!(normed.error > 1e-3 && normed.at / HEAD_DIM == 3, "{normed:?}");
    }

    #[test]
    fn nan_is_a_failure_of_its_own() {
        let mut got = result();
        (got[9], got[QUIET]) = (f32::NAN, f32::NAN);
        let reference = reference();
        let failure = Failure::Nan { count: 2, at: 9, reference: reference[9] };
        let scales = peaks(&reference, 2);
        assert_eq!(distance(&reference, &got, &scales), Err(failure.clone()));
        assert_eq!(elementwise(&reference, &got, 1e-9), Err(failure.clone()));
        assert_eq!(normed(&reference, &got, 1e-6), Err(failure));
        assert!(Worst { error: f64::NAN, at: 0 }.within("anything", 1.0).is_err());
    }

    #[test]
    fn infinities_and_expected_nans_are_compared() {
        let mut got = result();
        let scales = [1.0, 1.0];
        got[9] = f32::INFINITY;
        let found = distance(&reference(), &got, &scales).expect("not NaN");
        assert_eq!(found.overall, Worst { error: f64::INFINITY, at: 9 });
        let mut reference = reference();
        reference[9] = f64::NEG_INFINITY;
        assert!(matches!(distance(&reference, &got, &scales), Err(Failure::Number { at: 9, .. })));
        reference[9] = f64::NAN;
        assert!(matches!(distance(&reference, &got, &scales), Err(Failure::Number { at: 9, .. })));
        got[9] = f32::NAN;
        assert!(distance(&reference, &got, &scales).is_ok());
    }

    #[test]
    fn nothing_is_far_from_zero_but_itself() {
        let found = |got: f32| distance(&[0.0], &[got], &[0.0]).expect("finite").by_head.error;
        assert_eq!((found(0.0), found(1e-30)), (0.0, f64::INFINITY));
    }

    #[test]
    fn of_equal_differences_the_first_is_named() {
        let (reference, mut got) = (vec![0.0; 200_000], vec![0.0f32; 200_000]);
        (got[70_000], got[199_999]) = (1.0, 1.0);
        let found = distance(&reference, &got, &[1.0]).expect("finite");
        assert_eq!(found.overall, Worst { error: 1.0, at: 70_000 });
    }

    #[test]
    fn few_bits_are_judged_by_element() {
        let got = [f16::from_f64(0.1), f16::from_f64(1000.3), f16::from_f64(1e-7)];
        let found = elementwise(&[0.1, 1000.3, 1e-7], &got, 2f64.powi(-14)).expect("finite");
        assert!(found.error <= 2f64.powi(-11), "{found:?}");
        assert!(found.error > 2f64.powi(-13), "{found:?}");
    }
}
