//! What bits must survive: cuts, windows that are only looked at, hand-overs, padding, dispatch's choice. Sequential
//! variants are held to the base's bits, chunked ones to their own.

use super::super::loaded::{By, Flaw, Loaded, Outcome};
use super::super::row::Row;
use super::super::{Context, judge};
use super::{DATA, Group, RecVariant, all_fail, is_chunked, new_row, same_bits, sizes};
use crate::ops::DeltaSizes;
use crate::ops::delta_passes::CUT;
use crate::ops::delta_rec::{DELTA_REC, StateAfter};
use crate::ops::exactness::Exactness;
use crate::proof::case::{RecCase, RecShape};
use crate::proof::inputs::{self, BASE};
use crate::proof::reference::delta as reference;

/// `got` makes outcomes by the variant, each with a name, and holds them to what `model` makes by the named one; on every
/// seed.
fn held_to(
    context: &Context<'_>,
    name: &str,
    case: &RecCase,
    (group, variants): (Group, &[&'static RecVariant]),
    model: impl Fn(&mut Loaded<'_>, &str) -> Result<Outcome, Flaw>,
    got: impl Fn(&mut Loaded<'_>, &RecVariant) -> Result<Vec<(String, Outcome)>, Flaw>,
) -> Vec<Row> {
    let run = || -> Result<Vec<Row>, Flaw> {
        let mut loaded = context.devices.each(|device| Loaded::new(device, case))?;
        let mut rows = Vec::new();
        for variant in variants {
            let model = model(&mut loaded[0], group.model(variant))?;
            let mut row = new_row(context, name, variant, context.devices.seeds());
            for seed in 0..context.devices.seeds() {
                let place = seed % loaded.len();
                match got(&mut loaded[place], variant) {
                    Err(flaw) => {
                        row.bit_equal = false;
                        row.fail(&format!("run {seed}"), flaw);
                    }
                    Ok(outcomes) => {
                        for (what, got) in outcomes {
                            same_bits(&mut row, &format!("run {seed}, {what}"), &model, &got);
                        }
                    }
                }
            }
            if row.bit_equal {
                row.base_differs_by(0.0);
            }
            rows.push(row);
        }
        Ok(rows)
    };
    run().unwrap_or_else(|flaw| all_fail(context, name, variants, &flaw))
}

fn whole_call(loaded: &mut Loaded<'_>, variant: &str) -> Result<Outcome, Flaw> {
    loaded.whole(variant, StateAfter::Updated, false)
}

/// Every cut of a call in two gives the bits of the whole call; of a chunked one, cuts at multiples of [`CUT`] tokens.
pub(super) fn split(context: &Context<'_>, name: &str, (group, shape): (Group, RecShape)) -> Vec<Row> {
    let variants = group.of_any_length(context, &sizes(&shape));
    let (case, tokens) = (RecCase::new(shape, &BASE, DATA), shape.tokens);
    let step = if group == Group::Chunked { CUT } else { 1 };
    held_to(context, name, &case, (group, &variants), whole_call, |loaded, variant| {
        let cut = |cut: usize| {
            let outcome = loaded.pieces(&[(variant.name, 0..cut), (variant.name, cut..tokens)])?;
            Ok((format!("cut at {cut}"), outcome))
        };
        (step..tokens).step_by(step).map(cut).collect()
    })
}

/// A window that is only looked at leaves the state and gives the outputs of a call that updates it.
pub(super) fn kept(context: &Context<'_>, name: &str, (group, shape): (Group, RecShape)) -> Vec<Row> {
    let variants = group.variants(context, &DeltaSizes { state_kept: true, ..sizes(&shape) });
    let case = RecCase::new(shape, &BASE, DATA);
    let model = |loaded: &mut Loaded<'_>, variant: &str| {
        Ok(Outcome { y: whole_call(loaded, variant)?.y, state: case.state.clone() })
    };
    held_to(context, name, &case, (group, &variants), model, |loaded, variant| {
        Ok(vec![("kept".into(), loaded.whole(variant.name, StateAfter::Kept, false)?)])
    })
}

/// The last token by another variant than the tokens before it: the state is handed over as it lies in memory. By the
/// base's bits where both have them, else within the looser bound of the two.
pub(super) fn handover(context: &Context<'_>, name: &str, (group, shape): (Group, RecShape)) -> Vec<Row> {
    let (last, of) = (shape.tokens - 1, |tokens| DeltaSizes::single(shape.key_heads, shape.value_heads, tokens));
    let variants = group.variants(context, &of(last));
    let runs = |row: &&'static RecVariant| DELTA_REC.launch_of(row, context.device().caps(), &of(1)).is_ok();
    let decode: Vec<_> = DELTA_REC.rows.iter().filter(runs).collect();
    let case = RecCase::new(shape, &BASE, DATA);
    let peaks = reference::recurrence(&case).peak;
    let run = || -> Result<Vec<Row>, Flaw> {
        let mut loaded = context.devices.each(|device| Loaded::new(device, &case))?;
        let base = whole_call(&mut loaded[0], DELTA_REC.base().name)?;
        let mut rows = Vec::new();
        for variant in &variants {
            let mut row = new_row(context, name, variant, context.devices.seeds());
            for seed in 0..context.devices.seeds() {
                let place = seed % loaded.len();
                let each =
                    loaded[place].handed_over(variant.name, last, &decode.iter().map(|d| d.name).collect::<Vec<_>>());
                match each {
                    Err(flaw) => row.fail(&format!("run {seed}"), flaw),
                    Ok(outcomes) => {
                        for (decode, got) in decode.iter().zip(outcomes) {
                            judge::with_base(&mut row, looser(variant, decode), &peaks, &base, &got);
                        }
                    }
                }
            }
            rows.push(row);
        }
        Ok(rows)
    };
    run().unwrap_or_else(|flaw| all_fail(context, name, &variants, &flaw))
}

/// What a result of both promises.
fn looser(a: &RecVariant, b: &RecVariant) -> Exactness {
    match (a.exactness, b.exactness) {
        (Exactness::Rounding { bound: x, .. }, Exactness::Rounding { bound: y, .. }) if y > x => b.exactness,
        (rounding @ Exactness::Rounding { .. }, _) => rounding,
        (_, other) => other,
    }
}

/// Tokens with gate 0 and beta 0 behind the real ones leave the state of the real ones, bit for bit.
pub(super) fn padding(context: &Context<'_>, name: &str, (group, heads): (Group, (usize, usize))) -> Vec<Row> {
    let Some(padded) = inputs::named("k28_padding") else { return Vec::new() };
    let real = 50;
    let shape = RecShape::dense(heads.0, heads.1, real + padded.padding);
    let variants = group.of_any_length(context, &sizes(&shape));
    let case = RecCase::new(shape, padded, DATA);
    let model = |loaded: &mut Loaded<'_>, variant: &str| {
        let y = whole_call(loaded, variant)?.y;
        loaded.reset()?;
        loaded.call(By::Variant(variant), 0..real, StateAfter::Updated)?;
        Ok(Outcome { y, state: loaded.state.read()? })
    };
    held_to(context, name, &case, (group, &variants), model, |loaded, variant| {
        Ok(vec![("padded".into(), whole_call(loaded, variant.name)?)])
    })
}

/// What dispatch chooses has the bits of the variant that it names.
pub(super) fn chosen(context: &Context<'_>, name: &str, shape: RecShape) -> Vec<Row> {
    let Ok(choice) = DELTA_REC.select(&context.dispatch, context.device(), &sizes(&shape)) else {
        return Vec::new();
    };
    let variants: Vec<_> =
        DELTA_REC.rows.iter().filter(|row| row.name == choice.variant && context.wants(row.name)).collect();
    let group = if variants.iter().any(|row| is_chunked(row)) { Group::Chunked } else { Group::Sequential };
    let case = RecCase::new(shape, &BASE, DATA);
    held_to(context, name, &case, (group, &variants), whole_call, |loaded, _| {
        loaded.reset()?;
        let variant = loaded.call(By::Choice(&context.dispatch), 0..shape.tokens, StateAfter::Updated)?;
        Ok(vec![(variant.to_owned(), loaded.outcome(shape.tokens)?)])
    })
}
