//! Holds the result of a recurrence to its base and its reference.

use super::loaded::Outcome;
use super::row::Row;
use crate::ops::exactness::Exactness;
use crate::proof::reference::delta::RecReference;
use crate::proof::{bounds, compare};

/// Compares with the base: bits, and the difference. `peaks` are the largest |S| of each head during the call.
pub(super) fn with_base(row: &mut Row, promise: Exactness, peaks: &[f64], base: &Outcome, got: &Outcome) {
    let promised = !matches!(promise, Exactness::Rounding { .. });
    row.check_bits("output", promised, compare::bits(&base.y, &got.y));
    row.check_bits("state", promised, compare::bits(&base.state, &got.state));
    if row.bit_equal {
        return row.base_differs_by(0.0);
    }
    for (what, base, got) in [("output", &base.y, &got.y), ("state", &base.state, &got.state)] {
        let base: Vec<f64> = base.iter().map(|&x| f64::from(x)).collect();
        let scales = if what == "output" { compare::peaks(&base, 1) } else { peaks.to_vec() };
        match compare::distance(&base, got, &scales) {
            Err(failure) => row.fail(what, failure),
            Ok(distance) => {
                row.base_differs_by(distance.overall.error);
                if let Exactness::Rounding { bound, .. } = promise {
                    row.check(what, distance.overall.within("difference from the base", bound));
                }
            }
        }
    }
}

/// Compares with the FP64 reference: output and state, whole and by head, and the output after the norm. A bound above what
/// the norm allows promises nothing about rows that are a thousand times quieter than the loudest; that is noted only.
pub(super) fn with_reference(row: &mut Row, bound: f64, heads: usize, reference: &RecReference, got: &Outcome) {
    let output = compare::distance(&reference.y, &got.y, &compare::peaks(&reference.y, heads));
    let state = compare::distance(&reference.state, &got.state, &reference.peak);
    if let (Ok(output), Ok(state)) = (&output, &state) {
        row.errors.output = Some(output.overall.error);
        row.errors.output_by_head = Some(output.by_head.error);
        row.errors.state = Some(state.overall.error);
        row.errors.state_by_head = Some(state.by_head.error);
    }
    row.check_distance(["output", "output by head"], bound, output);
    row.check_distance(["state", "state by head"], bound, state);
    match compare::normed(&reference.y, &got.y, 1e-6) {
        Err(failure) => row.fail("output after the norm", failure),
        Ok(worst) => {
            row.errors.after_norm = Some(worst.error);
            if bound <= bounds::AFTER_NORM {
                row.check("", worst.within("output after the norm", bounds::AFTER_NORM));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proof::case::{RecCase, RecShape};
    use crate::proof::inputs::BASE;
    use crate::proof::reference::delta::recurrence;

    const HEADS: usize = 3;

    /// The reference itself, rounded to f32: the best result there can be.
    fn best() -> (RecReference, Outcome) {
        let reference = recurrence(&RecCase::new(RecShape::dense(1, HEADS, 5), &BASE, 1));
        let rounded = |values: &[f64]| values.iter().map(|&x| x as f32).collect();
        let outcome = Outcome { y: rounded(&reference.y), state: rounded(&reference.state) };
        (reference, outcome)
    }

    /// The verdict on a result that `spoil` has changed.
    fn judged(promise: Exactness, spoil: impl Fn(&mut Outcome)) -> Row {
        let (reference, base) = best();
        let (_, mut got) = best();
        spoil(&mut got);
        let mut row = Row::new(("op", "variant", "base"), promise, "case", "device", 1);
        with_reference(&mut row, bounds::SEQUENTIAL_BASE, HEADS, &reference, &got);
        with_base(&mut row, promise, &reference.peak, &base, &got);
        row
    }

    fn loosely() -> Exactness {
        Exactness::Rounding { bound: 1e-6, ordinary: 1e-6, derived: "" }
    }

    #[test]
    fn a_right_result_passes_under_every_promise() {
        for promise in [Exactness::Base, Exactness::Bitwise, loosely()] {
            let row = judged(promise, |_| ());
            assert!(row.pass && row.bit_equal && row.base_difference == Some(0.0), "{row:?}");
            assert!(row.fp64_error.is_some_and(|error| error > 0.0 && error < 1e-7), "{row:?}");
        }
    }

    #[test]
    fn one_bit_breaks_bitwise_only() {
        let flip = |got: &mut Outcome| got.state[7] = f32::from_bits(got.state[7].to_bits() ^ 1);
        let row = judged(Exactness::Bitwise, flip);
        assert!(!row.pass && !row.bit_equal, "{row:?}");
        assert!(row.reason.is_some_and(|reason| reason.starts_with("state: 1 of")));
        let row = judged(loosely(), flip);
        assert!(row.pass && !row.bit_equal && row.base_difference.is_some_and(|d| d > 0.0 && d < 1e-7), "{row:?}");
    }

    #[test]
    fn a_wrong_value_breaks_every_promise() {
        for promise in [Exactness::Base, Exactness::Bitwise, loosely()] {
            let row = judged(promise, |got| got.y[9] += 1e-3);
            assert!(!row.pass && row.fp64_error.is_some_and(|error| error > 1e-4), "{row:?}");
            let row = judged(promise, |got| got.state[9] = f32::NAN);
            assert!(!row.pass && row.reason.is_some_and(|reason| reason.contains("NaN")));
        }
    }

    #[test]
    fn what_the_norm_would_magnify_is_noticed() {
        let (mut reference, _) = best();
        reference.y[512] = 1.0; // head 1 is loud in token 1
        reference.y[128..256].fill(1e-6); // and quiet in token 0: the norm divides that row by about 1e-3
        let mut got = Outcome { y: reference.y.iter().map(|&x| x as f32).collect(), state: best().1.state };
        let mut row = Row::new(("op", "variant", "base"), loosely(), "case", "device", 1);
        with_reference(&mut row, bounds::SEQUENTIAL_BASE, HEADS, &reference, &got);
        assert!(row.pass, "{row:?}");
        got.y[130] += 2e-7;
        with_reference(&mut row, bounds::SEQUENTIAL_BASE, HEADS, &reference, &got);
        assert!(row.reason.as_ref().is_some_and(|reason| reason.contains("after the norm")), "{row:?}");

        let mut row = Row::new(("op", "variant", "base"), loosely(), "case", "device", 1);
        with_reference(&mut row, 2e-3, HEADS, &reference, &got);
        assert!(row.pass && row.errors.after_norm.is_some_and(|error| error > bounds::AFTER_NORM), "{row:?}");
    }
}
