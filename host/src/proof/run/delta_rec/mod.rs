//! `delta.rec`: whole calls against the reference and the base, what bits must survive (cuts, windows, hand-overs), and
//! batches.
//!
//! Two groups of variants have lists of their own. The sequential ones (base and bitwise) are judged by the base's bits and
//! step from token to token, so their hard places are windows and staging. The chunked ones (a rounding bound) are judged by
//! their bound and by their own bits; their hard places are the ends of chunks and passes, and laws that strain the
//! triangular factor. On the emulator a chunked token costs far more, so their list there is short.

mod batch;
mod bits;
mod lists;
mod whole;

use super::Context;
use super::loaded::{Flaw, Outcome};
use super::row::Row;
use crate::ops::DeltaSizes;
use crate::ops::delta_rec::{DELTA_REC, SPLIT};
use crate::ops::dispatch::Variant;
use crate::ops::exactness::Exactness;
use crate::proof::case::RecShape;
use crate::proof::compare;
use varve_gpu::delta::RecParams;

pub(super) use lists::works;

/// Seed of the data; schedules have seeds of their own.
pub(super) const DATA: u64 = 2026;

type RecVariant = Variant<DeltaSizes, RecParams>;

/// Which variants a case is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    /// The base, and those with its bits.
    Sequential,
    /// Those with a rounding bound: chunks of 32 tokens, counted from the first of the call.
    Chunked,
}

impl Group {
    fn has(self, variant: &RecVariant) -> bool {
        is_chunked(variant) == (self == Self::Chunked)
    }

    /// The wanted variants of the group that can run for these sizes.
    fn variants(self, context: &Context<'_>, sizes: &DeltaSizes) -> Vec<&'static RecVariant> {
        context.variants(&DELTA_REC, sizes).into_iter().filter(|variant| self.has(variant)).collect()
    }

    /// Those of [`variants`](Self::variants) whose bits do not depend on how long a call is.
    fn of_any_length(self, context: &Context<'_>, sizes: &DeltaSizes) -> Vec<&'static RecVariant> {
        self.variants(context, sizes).into_iter().filter(|variant| variant.name != SPLIT).collect()
    }

    /// What the bits of `variant` are held to: the base's, or its own.
    fn model(self, variant: &RecVariant) -> &'static str {
        if self == Self::Chunked { variant.name } else { DELTA_REC.base().name }
    }
}

fn is_chunked(variant: &RecVariant) -> bool {
    matches!(variant.exactness, Exactness::Rounding { .. })
}

fn sizes(shape: &RecShape) -> DeltaSizes {
    DeltaSizes::single(shape.key_heads, shape.value_heads, shape.tokens)
}

fn new_row(context: &Context<'_>, case: &str, variant: &RecVariant, runs: usize) -> Row {
    let names = (DELTA_REC.op, variant.name, DELTA_REC.base().name);
    Row::new(names, variant.exactness, case, context.device().spec(), runs)
}

/// Rows that all fail for one reason.
fn all_fail(context: &Context<'_>, case: &str, variants: &[&'static RecVariant], why: &Flaw) -> Vec<Row> {
    let failed = |variant: &&'static RecVariant| {
        let mut row = new_row(context, case, variant, context.devices.seeds());
        row.bit_equal = false;
        row.fail("base", why);
        row
    };
    variants.iter().map(failed).collect()
}

/// Notes whether output and state have the bits of `model`.
fn same_bits(row: &mut Row, what: &str, model: &Outcome, got: &Outcome) {
    row.check_bits(&format!("{what}, output"), true, compare::bits(&model.y, &got.y));
    row.check_bits(&format!("{what}, state"), true, compare::bits(&model.state, &got.state));
}
