//! Comparisons whose results are values: what differs, how much, where. No NaN gets lost on the way.
//!
//! Results are arrays without gaps whose element `i` belongs to head `i / 128 mod heads`, as outputs
//! `[tokens][heads][128]` and states `[128][heads][128]` both are. Largest differences go by head as well, since a quiet
//! head hides behind a loud one.

use half::f16;
use varve_gpu::geometry::HEAD_DIM;

use super::reference::out_norm::row_scale;

/// An element of a kernel's result.
pub trait Value: Copy + Sync {
    /// Its bits.
    fn bits(self) -> u32;
    /// Its value.
    fn to_f64(self) -> f64;
}

impl Value for f32 {
    fn bits(self) -> u32 {
        self.to_bits()
    }

    fn to_f64(self) -> f64 {
        f64::from(self)
    }
}

impl Value for f16 {
    fn bits(self) -> u32 {
        u32::from(self.to_bits())
    }

    fn to_f64(self) -> f64 {
        f64::from(self)
    }
}

/// How a result fails.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Failure {
    /// Two arrays of different length were compared.
    #[error("{got} values, expected {expected}")]
    Length {
        /// Of the result.
        got: usize,
        /// Of what it is compared with.
        expected: usize,
    },
    /// Bits differ. NaN equals NaN here, since a GPU makes 0x7fffffff of what x86 makes 0xffc00000.
    #[error("{count} of {len} values differ in bits, first at {at}: {got:#010x}, expected {expected:#010x}")]
    Bits {
        /// Values that differ.
        count: usize,
        /// Values compared.
        len: usize,
        /// Index of the first.
        at: usize,
        /// Bits of the result there.
        got: u32,
        /// Bits of the base there.
        expected: u32,
    },
    /// NaN where the reference is a number.
    #[error("{count} values are NaN, first at {at}, where the reference is {reference:e}")]
    Nan {
        /// Values that are NaN.
        count: usize,
        /// Index of the first.
        at: usize,
        /// The reference there.
        reference: f64,
    },
    /// A number, or infinity of the wrong sign, where the reference is NaN or infinite.
    #[error("{got:e} at {at}, where the reference is {reference}")]
    Number {
        /// Index of the first.
        at: usize,
        /// The result there.
        got: f64,
        /// The reference there.
        reference: f64,
    },
    /// Elements that still hold the poison they had before the call.
    #[error("{count} values were never written, first at {at}")]
    Unwritten {
        /// Values that hold poison.
        count: usize,
        /// Index of the first.
        at: usize,
    },
    /// Elements outside the operand that no longer hold their poison.
    #[error("{count} values outside the operand were overwritten, first at {at} with {got:#010x}")]
    Overwritten {
        /// Values that changed.
        count: usize,
        /// Index of the first, from the start of the buffer.
        at: usize,
        /// Bits found there.
        got: u32,
    },
    /// The difference exceeds its bound.
    #[error("{measure} {error:.3e} exceeds {bound:.1e} at {at}")]
    TooFar {
        /// Which difference.
        measure: &'static str,
        /// The difference.
        error: f64,
        /// What is allowed.
        bound: f64,
        /// Index of the worst element.
        at: usize,
    },
}

fn same_length(got: usize, expected: usize) -> Result<(), Failure> {
    if got == expected { Ok(()) } else { Err(Failure::Length { got, expected }) }
}

/// Equal bits, or NaN in both.
///
/// # Errors
/// [`Failure::Bits`] counts the differences, [`Failure::Length`].
pub fn bits<T: Value>(expected: &[T], got: &[T]) -> Result<(), Failure> {
    same_length(got.len(), expected.len())?;
    let same = |a: T, b: T| a.bits() == b.bits() || (a.to_f64().is_nan() && b.to_f64().is_nan());
    let differs = |&i: &usize| !same(expected[i], got[i]);
    let Some(at) = (0..got.len()).find(differs) else { return Ok(()) };
    let count = (at..got.len()).filter(differs).count();
    Err(Failure::Bits { count, len: got.len(), at, got: got[at].bits(), expected: expected[at].bits() })
}

/// No element holds the poison pattern.
///
/// # Errors
/// [`Failure::Unwritten`].
pub fn written<T: Value>(got: &[T], poison: u32) -> Result<(), Failure> {
    let holds = |&i: &usize| got[i].bits() == poison;
    let Some(at) = (0..got.len()).find(holds) else { return Ok(()) };
    Err(Failure::Unwritten { count: (at..got.len()).filter(holds).count(), at })
}

/// Every element outside the rows holds the poison pattern: gaps behind each row of `width`, and all behind the last of
/// `rows`.
///
/// # Errors
/// [`Failure::Overwritten`].
pub fn gaps_untouched<T: Value>(
    buffer: &[T],
    rows: usize,
    width: usize,
    stride: usize,
    poison: u32,
) -> Result<(), Failure> {
    let touched = |&i: &usize| (i / stride >= rows || i % stride >= width) && buffer[i].bits() != poison;
    let Some(at) = (0..buffer.len()).find(touched) else { return Ok(()) };
    let count = (at..buffer.len()).filter(touched).count();
    Err(Failure::Overwritten { count, at, got: buffer[at].bits() })
}

/// The rows of a buffer without their gaps.
pub fn dense_rows<T: Copy>(buffer: &[T], rows: usize, width: usize, stride: usize) -> Vec<T> {
    (0..rows).flat_map(|row| buffer[row * stride..][..width].iter().copied()).collect()
}

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
    fn take(&mut self, error: f64, at: usize) {
        if error > self.error {
            *self = Self { error, at };
        }
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
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distance {
    /// Largest |difference|.
    pub absolute: Worst,
    /// Largest |difference| over the largest scale of all heads.
    pub overall: Worst,
    /// Largest |difference| of a head over the scale of that head.
    pub by_head: Worst,
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
    let (mut absolute, mut overall, mut by_head) = (Worst::default(), Worst::default(), Worst::default());
    for (row, (reference, got)) in reference.chunks(HEAD_DIM).zip(got.chunks(HEAD_DIM)).enumerate() {
        for (c, (&reference, &got)) in reference.iter().zip(got).enumerate() {
            if !reference.is_finite() {
                continue; // equal, as checked above
            }
            let (diff, at) = ((got.to_f64() - reference).abs(), row * HEAD_DIM + c);
            absolute.take(diff, at);
            overall.take(relative(diff, largest), at);
            by_head.take(relative(diff, scales[row % scales.len()]), at);
        }
    }
    Ok(Distance { absolute, overall, by_head })
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
    let mut worst = Worst::default();
    for (row, (reference, got)) in reference.chunks(HEAD_DIM).zip(got.chunks(HEAD_DIM)).enumerate() {
        let scale = row_scale(reference.iter().copied(), eps);
        let got_scale = row_scale(got.iter().map(|x| x.to_f64()), eps);
        for (c, (reference, got)) in reference.iter().zip(got).enumerate() {
            worst.take((got.to_f64() * got_scale - reference * scale).abs(), row * HEAD_DIM + c);
        }
    }
    Ok(worst)
}

fn finite_where_expected<T: Value>(reference: &[f64], got: &[T]) -> Result<(), Failure> {
    let is_nan = |&i: &usize| got[i].to_f64().is_nan() && !reference[i].is_nan();
    if let Some(at) = (0..got.len()).find(is_nan) {
        let count = (at..got.len()).filter(is_nan).count();
        return Err(Failure::Nan { count, at, reference: reference[at] });
    }
    let wrong = |&i: &usize| {
        let (want, got) = (reference[i], got[i].to_f64());
        !want.is_finite() && want != got && !(want.is_nan() && got.is_nan())
    };
    match (0..got.len()).find(wrong) {
        Some(at) => Err(Failure::Number { at, got: got[at].to_f64(), reference: reference[at] }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
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
    fn equal_bits_pass_and_one_bit_is_found() {
        let (base, mut got) = (result(), result());
        assert_eq!(bits(&base, &got), Ok(()));
        got[QUIET] = f32::from_bits(got[QUIET].to_bits() ^ 1);
        got[QUIET + 1] = -got[QUIET + 1];
        let (expected, found) = (base[QUIET].to_bits(), got[QUIET].to_bits());
        let failure = Failure::Bits { count: 2, len: 512, at: QUIET, got: found, expected };
        assert_eq!(bits(&base, &got), Err(failure));
        assert_eq!(bits(&base, &got[1..]), Err(Failure::Length { got: 511, expected: 512 }));
    }

    #[test]
    fn bits_know_nan_and_the_sign_of_zero() {
        let nans = [f32::from_bits(0x7fff_ffff), f32::from_bits(0xffc0_0000)];
        assert_eq!(bits(&[nans[0]], &[nans[1]]), Ok(()));
        assert!(bits(&[1.0], &[nans[0]]).is_err());
        assert!(bits(&[nans[0]], &[1.0]).is_err());
        assert!(bits(&[0.0f32], &[-0.0]).is_err());
        let half = |x: f32| f16::from_f32(x);
        assert_eq!(bits(&[half(f32::NAN)], &[half(-f32::NAN)]), Ok(()));
        assert!(bits(&[half(1.0)], &[half(1.001)]).is_err());
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
    fn poison_shows_what_was_not_written_and_what_should_not_have_been() {
        const POISON: u32 = u32::MAX;
        let poison = f32::from_bits(POISON);
        let mut buffer = vec![poison; 4 * 10];
        for row in 0..3 {
            buffer[row * 10..row * 10 + 8].fill(1.0);
        }
        assert_eq!(gaps_untouched(&buffer, 3, 8, 10, POISON), Ok(()));
        assert_eq!(written(&dense_rows(&buffer, 3, 8, 10), POISON), Ok(()));
        buffer[13] = poison;
        let rows = dense_rows(&buffer, 3, 8, 10);
        assert_eq!(written(&rows, POISON), Err(Failure::Unwritten { count: 1, at: 11 }));
        buffer[19] = 2.0;
        buffer[30] = 2.0;
        let failure = Failure::Overwritten { count: 2, at: 19, got: 2.0f32.to_bits() };
        assert_eq!(gaps_untouched(&buffer, 3, 8, 10, POISON), Err(failure));
    }

    #[test]
    fn few_bits_are_judged_by_element() {
        let got = [f16::from_f64(0.1), f16::from_f64(1000.3), f16::from_f64(1e-7)];
        let found = elementwise(&[0.1, 1000.3, 1e-7], &got, 2f64.powi(-14)).expect("finite");
        assert!(found.error <= 2f64.powi(-11), "{found:?}");
        assert!(found.error > 2f64.powi(-13), "{found:?}");
    }
}
