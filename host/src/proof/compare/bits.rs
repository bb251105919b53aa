//! Bits, poison and gaps.

use super::{Failure, Value, first_and_count, same_length};

/// Equal bits, or NaN in both.
///
/// # Errors
/// [`Failure::Bits`] counts the differences, [`Failure::Length`].
pub fn bits<T: Value>(expected: &[T], got: &[T]) -> Result<(), Failure> {
    same_length(got.len(), expected.len())?;
    let same = |a: T, b: T| a.bits() == b.bits() || (a.to_f64().is_nan() && b.to_f64().is_nan());
    let Some((at, count)) = first_and_count(got.len(), |i| !same(expected[i], got[i])) else { return Ok(()) };
    Err(Failure::Bits { count, len: got.len(), at, got: got[at].bits(), expected: expected[at].bits() })
}

/// No element holds the poison pattern.
///
/// # Errors
/// [`Failure::Unwritten`].
pub fn written<T: Value>(got: &[T], poison: u32) -> Result<(), Failure> {
    match first_and_count(got.len(), |i| got[i].bits() == poison) {
        Some((at, count)) => Err(Failure::Unwritten { count, at }),
        None => Ok(()),
    }
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
    let outside = |i: usize| i >= rows * stride || i % stride >= width;
    match first_and_count(buffer.len(), |i| outside(i) && buffer[i].bits() != poison) {
        Some((at, count)) => Err(Failure::Overwritten { count, at, got: buffer[at].bits() }),
        None => Ok(()),
    }
}

/// The rows of a buffer without their gaps, and without what lies behind them.
#[must_use]
pub fn dense_rows<T: Copy>(mut buffer: Vec<T>, rows: usize, width: usize, stride: usize) -> Vec<T> {
    if stride > width {
        for row in 1..rows {
            buffer.copy_within(row * stride..row * stride + width, row * width);
        }
    }
    buffer.truncate(rows * width);
    buffer
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::*;

    #[test]
    fn equal_bits_pass_and_one_bit_is_found() {
        const AT: usize = 389;
        let base: Vec<f32> = (0..512).map(|i| 1.0 - (i % 7) as f32 / 8.0).collect();
        let mut got = base.clone();
        assert_eq!(bits(&base, &got), Ok(()));
        got[AT] = f32::from_bits(got[AT].to_bits() ^ 1);
        got[AT + 1] = -got[AT + 1];
        let (expected, found) = (base[AT].to_bits(), got[AT].to_bits());
        let failure = Failure::Bits { count: 2, len: 512, at: AT, got: found, expected };
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
    fn poison_shows_what_was_not_written_and_what_should_not_have_been() {
        const POISON: u32 = u32::MAX;
        let poison = f32::from_bits(POISON);
        let mut buffer = vec![poison; 4 * 10];
        for row in 0..3 {
            buffer[row * 10..row * 10 + 8].fill(1.0);
        }
        assert_eq!(gaps_untouched(&buffer, 3, 8, 10, POISON), Ok(()));
        assert_eq!(written(&dense_rows(buffer.clone(), 3, 8, 10), POISON), Ok(()));
        buffer[13] = poison;
        let rows = dense_rows(buffer.clone(), 3, 8, 10);
        assert_eq!(written(&rows, POISON), Err(Failure::Unwritten { count: 1, at: 11 }));
        buffer[19] = 2.0;
        buffer[30] = 2.0;
        let failure = Failure::Overwritten { count: 2, at: 19, got: 2.0f32.to_bits() };
        assert_eq!(gaps_untouched(&buffer, 3, 8, 10, POISON), Err(failure));
    }

    #[test]
    fn long_arrays_are_searched_in_chunks_and_in_order() {
        let (base, mut got) = (vec![0.0f32; 200_000], vec![0.0f32; 200_000]);
        for at in [199_999, 131_072, 65_535, 70_000] {
            got[at] = 1.0;
        }
        let failure = bits(&base, &got);
        assert!(matches!(failure, Err(Failure::Bits { count: 4, len: 200_000, at: 65_535, .. })), "{failure:?}");
    }
}
