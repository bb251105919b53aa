//! What a measured case is: arms of one operation on one set of inputs, each checked before it is timed.

use varve_gpu::mmvq::Format;

use super::floor::Floor;
use crate::backend::{BackendError, Buffer, Event, Graph, ShapeError, Stream};
use crate::ops::dispatch::OpError;
use crate::ops::exactness::Exactness;
use crate::proof::compare::{self, Failure, Value};

/// A case that is set up on a device. An arm is a variant; every arm has kept its promise against the base once (a commit:
/// against the recurrence's state).
pub trait Prepared {
    /// Operation.
    fn op(&self) -> &'static str;
    /// Sizes and conditions, as rows and bench names show them.
    fn case(&self) -> String;
    /// Tokens of a launch.
    fn tokens(&self) -> usize;
    /// Variant names, the base among them where it can run.
    fn arms(&self) -> &[&'static str];
    /// In one word what an arm promises against the base.
    fn exactness(&self, arm: usize) -> &'static str;
    /// Of a prompt case: tokens of the longest sequence, and sequences.
    fn prompt(&self) -> Option<[usize; 2]> {
        None
    }
    /// Of a product with a matrix that is not in the L2: its format, and its columns and rows.
    fn cold_matrix(&self) -> Option<(Format, [usize; 2])> {
        None
    }
    /// What a launch must move and compute.
    fn floor(&self) -> Floor;
    /// How a launch is timed: `event`, `graph`, or `wall` on the emulator.
    fn how(&self) -> &'static str;
    /// Runs one arm once and returns microseconds a launch.
    ///
    /// # Errors
    /// What the device or the operation said.
    fn time(&mut self, arm: usize) -> Result<f64, MeasureError>;
}

/// Why a case gives no figure.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// The device.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The operation.
    #[error(transparent)]
    Op(#[from] OpError),
    /// A view.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// A wrong kernel has no speed.
    #[error("{op}/{variant}, {case}: {what} differs from the base ({failure}); a wrong kernel has no speed")]
    Wrong {
        /// Operation.
        op: &'static str,
        /// Variant.
        variant: &'static str,
        /// Case.
        case: String,
        /// Operand.
        what: &'static str,
        /// First difference.
        failure: Failure,
    },
}

impl MeasureError {
    /// Whether the device lacks what the case needs: other cases have figures all the same.
    #[must_use]
    pub fn is_of_device(&self) -> bool {
        matches!(self, Self::Backend(BackendError::NeedsCuda { .. } | BackendError::Lacks { .. }))
    }
}

/// Runs `work` between two events and returns the microseconds between them.
///
/// # Errors
/// What `work` or the device said.
pub fn between_events(stream: &Stream, work: impl FnOnce() -> Result<(), MeasureError>) -> Result<f64, MeasureError> {
    let (start, end) = (Event::new(stream.device())?, Event::new(stream.device())?);
    stream.record(&start)?;
    work()?;
    stream.record(&end)?;
    end.synchronize()?;
    Ok(Event::elapsed_us(&start, &end)?)
}

/// `event`, or `wall` where the emulator runs the launch.
pub fn event_or_wall(stream: &Stream) -> &'static str {
    if stream.device().caps().is_emulator { "wall" } else { "event" }
}

/// Runs each arm once, holds what it leaves to the first arm's as its `promise` says, and captures `launches` launches of it.
/// `launch` enqueues launch `i` of an arm; `y` is its output, poisoned before.
///
/// # Errors
/// What the device or an operation said, and [`MeasureError::Wrong`].
pub(super) fn bitwise_graphs<O, T: Value + bytemuck::Pod>(
    of: (&'static str, &str),
    arms: (&Stream, &[&'static str], usize),
    operands: &mut O,
    y: impl Fn(&mut O) -> &mut Buffer<T>,
    launch: impl Fn(&mut O, &Stream, &'static str, usize) -> Result<(), MeasureError>,
) -> Result<Vec<Graph>, MeasureError> {
    promised_graphs(of, arms, |_| Exactness::Bitwise, operands, y, launch)
}

/// As [`bitwise_graphs`], each arm held to what it promises.
///
/// # Errors
/// As there.
pub(super) fn promised_graphs<O, T: Value + bytemuck::Pod>(
    (op, case): (&'static str, &str),
    (stream, arms, launches): (&Stream, &[&'static str], usize),
    promise: impl Fn(&'static str) -> Exactness,
    operands: &mut O,
    y: impl Fn(&mut O) -> &mut Buffer<T>,
    launch: impl Fn(&mut O, &Stream, &'static str, usize) -> Result<(), MeasureError>,
) -> Result<Vec<Graph>, MeasureError> {
    let (mut base, mut graphs): (Option<Vec<T>>, _) = (None, Vec::new());
    for &variant in arms {
        y(operands).poison()?;
        launch(operands, stream, variant, 0)?;
        stream.synchronize()?;
        let got = y(operands).read()?;
        match &base {
            Some(base) => within_promise((op, variant, case), "y", promise(variant), [base, &got])?,
            None => base = Some(got),
        }
        graphs.push(stream.capture(|stream| (0..launches).try_for_each(|i| launch(operands, stream, variant, i)))?);
    }
    Ok(graphs)
}

/// Holds `got` of an arm (operation, variant, case) to the base as its promise says: bits, or the bound of the largest value.
///
/// # Errors
/// [`MeasureError::Wrong`].
pub fn within_promise<T: Value>(
    (op, variant, case): (&'static str, &'static str, &str),
    what: &'static str,
    promise: Exactness,
    [base, got]: [&[T]; 2],
) -> Result<(), MeasureError> {
    let Exactness::Rounding { bound, .. } = promise else {
        return same_bits(op, variant, case, what, [base, got]);
    };
    let base: Vec<f64> = base.iter().map(|x| x.to_f64()).collect();
    let got: Vec<f32> = got.iter().map(|x| x.to_f64() as f32).collect();
    let distance = compare::distance(&base, &got, &compare::peaks(&base, 1));
    let within = distance.and_then(|distance| distance.overall.within("difference", bound));
    within.map_err(|failure| MeasureError::Wrong { op, variant, case: case.to_owned(), what, failure })
}

/// Holds `got` of an arm to the bits of the base.
///
/// # Errors
/// [`MeasureError::Wrong`].
pub fn same_bits<T: Value>(
    op: &'static str,
    variant: &'static str,
    case: &str,
    what: &'static str,
    [base, got]: [&[T]; 2],
) -> Result<(), MeasureError> {
    compare::bits(base, got).map_err(|failure| MeasureError::Wrong {
        op,
        variant,
        case: case.to_owned(),
        what,
        failure,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_arm_gets_no_figure() {
        let error = same_bits("delta.rec", "lanes", "prompt", "y", [&[1.0f32, 2.0], &[1.0, 2.5]]).expect_err("differs");
        assert!(error.to_string().starts_with("delta.rec/lanes, prompt: y differs from the base"), "{error}");
        same_bits("delta.rec", "lanes", "prompt", "y", [&[f32::NAN], &[f32::NAN]]).expect("any NaN is any NaN");
    }

    #[test]
    fn a_rounding_arm_is_held_to_its_bound() {
        let promise = Exactness::Rounding { bound: 1e-3, ordinary: 1e-3, derived: "" };
        let held = |promise, got: f32| {
            within_promise(("delta.rec", "tc32", "prompt"), "y", promise, [&[1.0f32, 2.0], &[1.0, got]])
        };
        held(promise, 2.0015).expect("within 2e-3 of 2");
        assert!(held(promise, 2.003).is_err() && held(promise, f32::NAN).is_err());
        assert!(held(Exactness::Bitwise, 2.0015).is_err());
    }
}
