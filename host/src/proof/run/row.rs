//! One result: a variant on a case, over all seeds.

use serde::Serialize;

use crate::ops::exactness::Exactness;
use crate::proof::compare::{Distance, Failure, Worst};

/// Errors against the FP64 reference, each relative to the largest magnitude it is named by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Errors {
    /// Output, over all heads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<f64>,
    /// Output, the worst head by its own magnitude.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_by_head: Option<f64>,
    /// State, by the largest |S| during the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<f64>,
    /// State, the worst head by its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_by_head: Option<f64>,
    /// Output after each row was divided by its root mean square, absolute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_norm: Option<f64>,
}

/// A result.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Operation.
    pub op: &'static str,
    /// Variant.
    pub variant: &'static str,
    /// What it is compared with bit by bit.
    pub base: &'static str,
    /// `base`, `bitwise` or `rounding`.
    pub exactness: &'static str,
    /// Law, sizes.
    pub case: String,
    /// Device, as in `cuda:0`.
    pub device: String,
    /// Runs that this row stands for.
    pub seeds: usize,
    /// Largest relative error against the FP64 reference; none where the case is about bits only.
    pub fp64_error: Option<f64>,
    /// What is allowed.
    pub fp64_bound: Option<f64>,
    /// Its parts.
    pub errors: Errors,
    /// Largest relative difference from the base; none if there was no result to compare.
    pub base_difference: Option<f64>,
    /// Whether every run had the base's bits.
    pub bit_equal: bool,
    /// Whether the promise was kept.
    pub pass: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Row {
    /// A row with nothing against it yet.
    pub(super) fn new(
        (op, variant, base): (&'static str, &'static str, &'static str),
        exactness: Exactness,
        case: &str,
        device: &str,
        seeds: usize,
    ) -> Self {
        Self {
            op,
            variant,
            base,
            exactness: exactness.word(),
            case: case.to_owned(),
            device: device.to_owned(),
            seeds,
            fp64_error: None,
            fp64_bound: None,
            errors: Errors::default(),
            base_difference: None,
            bit_equal: true,
            pass: true,
            reason: None,
        }
    }

    /// Notes a failure; the first one stays.
    pub(super) fn fail(&mut self, what: &str, why: impl std::fmt::Display) {
        self.pass = false;
        if self.reason.is_none() {
            let what = if what.is_empty() { String::new() } else { format!("{what}: ") };
            self.reason = Some(format!("{what}{why}"));
        }
    }

    /// Notes a failure if there is one.
    pub(super) fn check(&mut self, what: &str, outcome: Result<(), Failure>) {
        if let Err(failure) = outcome {
            self.fail(what, failure);
        }
    }

    /// Notes whether bits are equal, and holds the variant to it if that is its promise.
    pub(super) fn check_bits(&mut self, what: &str, promised: bool, outcome: Result<(), Failure>) {
        if let Err(failure) = outcome {
            self.bit_equal = false;
            if promised {
                self.fail(what, failure);
            }
        }
    }

    /// Notes an error against the reference and holds it to `bound`, as a whole and by head.
    pub(super) fn check_distance(&mut self, what: [&'static str; 2], bound: f64, outcome: Result<Distance, Failure>) {
        match outcome {
            Err(failure) => self.fail(what[0], failure),
            Ok(distance) => {
                self.check_worst(what[0], bound, distance.overall);
                self.check("", distance.by_head.within(what[1], bound));
            }
        }
    }

    /// Notes one error against the reference as part of `fp64_error` and holds it to `bound`.
    pub(super) fn check_worst(&mut self, what: &'static str, bound: f64, worst: Worst) {
        self.fp64_error = Some(self.fp64_error.unwrap_or(0.0).max(worst.error));
        self.fp64_bound = Some(bound);
        self.check("", worst.within(what, bound));
    }

    /// Notes a difference from the base.
    pub(super) fn base_differs_by(&mut self, difference: f64) {
        self.base_difference = Some(self.base_difference.unwrap_or(0.0).max(difference));
    }
}
