//! Whole calls: every variant against reference and base, every run with the same bits.

use super::super::loaded::{Flaw, Loaded, Outcome};
use super::super::row::Row;
use super::super::{Context, judge};
use super::{DATA, Group, RecVariant, all_fail, new_row, same_bits, sizes};
use crate::ops::delta_rec::{DELTA_REC, StateAfter};
use crate::ops::exactness::Exactness;
use crate::proof::bounds;
use crate::proof::case::{RecCase, RecShape};
use crate::proof::inputs::Inputs;
use crate::proof::reference::delta as reference;

/// The bound against FP64: a rounding variant declares its own.
fn bound(variant: &RecVariant, is_base_law: bool) -> f64 {
    match variant.exactness {
        Exactness::Rounding { ordinary, .. } if is_base_law => ordinary,
        Exactness::Rounding { bound, .. } => bound,
        Exactness::Base | Exactness::Bitwise if is_base_law => bounds::SEQUENTIAL_BASE,
        Exactness::Base | Exactness::Bitwise => bounds::STRESS,
    }
}

/// One call over the whole case, `runs` times; `is_base_law` says whether the inputs are those of ordinary use.
pub(super) fn whole(
    context: &Context<'_>,
    name: &str,
    (group, shape): (Group, RecShape),
    (inputs, is_base_law): (&Inputs, bool),
    runs: usize,
) -> Vec<Row> {
    let variants = group.variants(context, &sizes(&shape));
    if variants.is_empty() {
        return Vec::new();
    }
    let case = RecCase::new(shape, inputs, DATA);
    let reference = reference::recurrence(&case);
    let run = || -> Result<Vec<Row>, Flaw> {
        let mut loaded = context.devices.each(|device| Loaded::new(device, &case))?;
        let base = loaded[0].whole(DELTA_REC.base().name, StateAfter::Updated, false)?;
        let mut rows = Vec::new();
        for variant in &variants {
            let mut row = new_row(context, name, variant, runs);
            let mut first: Option<Outcome> = None;
            for run in 0..runs {
                let place = run % loaded.len();
                let got = match loaded[place].whole(variant.name, StateAfter::Updated, run > 0) {
                    Ok(got) => got,
                    Err(flaw) => {
                        row.bit_equal = false;
                        row.fail(&format!("run {run}"), flaw);
                        continue;
                    }
                };
                if let Some(first) = &first {
                    same_bits(&mut row, &format!("run {run}"), first, &got);
                    continue;
                }
                let bound = bound(variant, is_base_law);
                judge::with_reference(&mut row, bound, shape.value_heads, &reference, &got);
                judge::with_base(&mut row, variant.exactness, &reference.peak, &base, &got);
                if let Err(flaw) = loaded[place].inputs_untouched() {
                    row.fail("inputs", flaw);
                }
                first = Some(got);
            }
            rows.push(row);
        }
        Ok(rows)
    };
    run().unwrap_or_else(|flaw| all_fail(context, name, &variants, &flaw))
}
