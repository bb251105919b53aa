//! `delta.rec`: whole calls against the reference and the base, and what bits must survive: cuts, windows, hand-overs.

use super::loaded::{By, Flaw, Loaded, Outcome};
use super::row::Row;
use super::{Context, Scale, Work, judge};
use crate::ops::DeltaSizes;
use crate::ops::delta_rec::{DELTA_REC, StateAfter};
use crate::ops::dispatch::Variant;
use crate::proof::case::{RecCase, RecShape};
use crate::proof::inputs::{self, BASE, Inputs, REPORTED_FAULTS, STRESS};
use crate::proof::reference::delta as reference;
use crate::proof::{bounds, compare};
use varve_gpu::delta::RecParams;

/// Seed of the data; schedules have seeds of their own.
pub(super) const DATA: u64 = 2026;
/// Token counts at which a staging, a window or a chunk ends, or just does not.
const LENGTHS: [usize; 13] = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33];

type RecVariant = Variant<DeltaSizes, RecParams>;

fn sizes(shape: &RecShape) -> DeltaSizes {
    DeltaSizes::single(shape.key_heads, shape.value_heads, shape.tokens)
}

fn new_row(context: &Context<'_>, case: &str, variant: &RecVariant) -> Row {
    let names = (DELTA_REC.op, variant.name, DELTA_REC.base().name);
    Row::new(names, variant.exactness, case, context.device().spec(), context.devices.seeds())
}

/// Rows that all fail for one reason.
fn all_fail(context: &Context<'_>, case: &str, variants: &[&'static RecVariant], why: &Flaw) -> Vec<Row> {
    let failed = |variant: &&'static RecVariant| {
        let mut row = new_row(context, case, variant);
        row.bit_equal = false;
        row.fail("base", why);
        row
    };
    variants.iter().map(failed).collect()
}

/// One call over the whole case: every variant against reference and base, every seed with the same bits.
fn whole(context: &Context<'_>, name: &str, shape: RecShape, inputs: &Inputs, bound: f64) -> Vec<Row> {
    let variants = context.variants(&DELTA_REC, &sizes(&shape));
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
            let mut row = new_row(context, name, variant);
            let mut first = None;
            for seed in 0..context.devices.seeds() {
                let place = seed % loaded.len();
                let outcome = loaded[place].whole(variant.name, StateAfter::Updated, seed > 0);
                let got = match outcome {
                    Ok(got) => got,
                    Err(flaw) => {
                        row.bit_equal = false;
                        row.fail(&format!("run {seed}"), flaw);
                        continue;
                    }
                };
                let Some(first) = &first else {
                    judge::with_reference(&mut row, bound, shape.value_heads, &reference, &got);
                    judge::with_base(&mut row, variant.exactness, &base, &got);
                    if let Err(flaw) = loaded[place].inputs_untouched() {
                        row.fail("inputs", flaw);
                    }
                    first = Some(got);
                    continue;
                };
                let again: &Outcome = first;
                for (what, first, got) in [("output", &again.y, &got.y), ("state", &again.state, &got.state)] {
                    row.check_bits(&format!("run {seed}, {what}"), true, compare::bits(first, got));
                }
            }
            rows.push(row);
        }
        Ok(rows)
    };
    run().unwrap_or_else(|flaw| all_fail(context, name, &variants, &flaw))
}

/// What bits must survive: `got` makes an outcome by the variant, which must be `expected` on every seed.
fn bits_only(
    context: &Context<'_>,
    name: &str,
    case: &RecCase,
    variants: &[&'static RecVariant],
    expected: impl Fn(&mut Loaded<'_>) -> Result<Outcome, Flaw>,
    got: impl Fn(&mut Loaded<'_>, &RecVariant) -> Result<Vec<(String, Outcome)>, Flaw>,
) -> Vec<Row> {
    let run = || -> Result<Vec<Row>, Flaw> {
        let mut loaded = context.devices.each(|device| Loaded::new(device, case))?;
        let expected = expected(&mut loaded[0])?;
        let mut rows = Vec::new();
        for variant in variants {
            let mut row = new_row(context, name, variant);
            for seed in 0..context.devices.seeds() {
                let place = seed % loaded.len();
                match got(&mut loaded[place], variant) {
                    Err(flaw) => {
                        row.bit_equal = false;
                        row.fail(&format!("run {seed}"), flaw);
                    }
                    Ok(outcomes) => {
                        for (what, got) in outcomes {
                            let what = |part: &str| format!("run {seed}, {what}, {part}");
                            row.check_bits(&what("output"), true, compare::bits(&expected.y, &got.y));
                            row.check_bits(&what("state"), true, compare::bits(&expected.state, &got.state));
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

/// Every cut of a call in two gives the bits of the whole call.
fn split(context: &Context<'_>, name: &str, shape: RecShape) -> Vec<Row> {
    let variants = context.variants(&DELTA_REC, &sizes(&shape));
    let (case, tokens) = (RecCase::new(shape, &BASE, DATA), shape.tokens);
    let base = |loaded: &mut Loaded<'_>| loaded.whole(DELTA_REC.base().name, StateAfter::Updated, false);
    bits_only(context, name, &case, &variants, base, |loaded, variant| {
        let cut = |cut: usize| {
            let outcome = loaded.pieces(&[(variant.name, 0..cut), (variant.name, cut..tokens)])?;
            Ok((format!("cut at {cut}"), outcome))
        };
        (1..tokens).map(cut).collect()
    })
}

/// A window that is only looked at leaves the state and gives the outputs of a call that updates it.
fn kept(context: &Context<'_>, name: &str, shape: RecShape) -> Vec<Row> {
    let variants = context.variants(&DELTA_REC, &sizes(&shape));
    let case = RecCase::new(shape, &BASE, DATA);
    let base = |loaded: &mut Loaded<'_>| {
        let y = loaded.whole(DELTA_REC.base().name, StateAfter::Updated, false)?.y;
        Ok(Outcome { y, state: case.state.clone() })
    };
    bits_only(context, name, &case, &variants, base, |loaded, variant| {
        Ok(vec![("kept".into(), loaded.whole(variant.name, StateAfter::Kept, false)?)])
    })
}

/// The last token by another variant than the tokens before it: the state is handed over as it lies in memory.
fn handover(context: &Context<'_>, name: &str, shape: RecShape) -> Vec<Row> {
    let (last, of) = (shape.tokens - 1, |tokens| DeltaSizes::single(shape.key_heads, shape.value_heads, tokens));
    let one = of(1);
    let variants = context.variants(&DELTA_REC, &of(last));
    let decode: Vec<_> = DELTA_REC
        .rows
        .iter()
        .filter(|row| DELTA_REC.launch_of(row, context.device().caps(), &one).is_ok())
        .map(|row| row.name)
        .collect();
    let case = RecCase::new(shape, &BASE, DATA);
    let base = |loaded: &mut Loaded<'_>| loaded.whole(DELTA_REC.base().name, StateAfter::Updated, false);
    bits_only(context, name, &case, &variants, base, |loaded, variant| {
        let to = |&decode: &&'static str| {
            let outcome = loaded.pieces(&[(variant.name, 0..last), (decode, last..last + 1)])?;
            Ok((format!("last token by {decode}"), outcome))
        };
        decode.iter().map(to).collect()
    })
}

/// Tokens with gate 0 and beta 0 behind the real ones leave the state of the real ones, bit for bit.
fn padding(context: &Context<'_>, name: &str, heads: (usize, usize)) -> Vec<Row> {
    let Some(padded) = inputs::named("k28_padding") else { return Vec::new() };
    let real = 50;
    let shape = RecShape::dense(heads.0, heads.1, real + padded.padding);
    let variants = context.variants(&DELTA_REC, &sizes(&shape));
    let case = RecCase::new(shape, padded, DATA);
    let base = |loaded: &mut Loaded<'_>| {
        let y = loaded.whole(DELTA_REC.base().name, StateAfter::Updated, false)?.y;
        loaded.reset()?;
        loaded.call(By::Variant(DELTA_REC.base().name), 0..real, StateAfter::Updated)?;
        Ok(Outcome { y, state: loaded.state.read()? })
    };
    bits_only(context, name, &case, &variants, base, |loaded, variant| {
        Ok(vec![("padded".into(), loaded.whole(variant.name, StateAfter::Updated, false)?)])
    })
}

/// What dispatch chooses has the base's bits too.
fn chosen(context: &Context<'_>, name: &str, shape: RecShape) -> Vec<Row> {
    let Ok(choice) = DELTA_REC.select(&context.dispatch, context.device(), &sizes(&shape)) else {
        return Vec::new();
    };
    let variants: Vec<_> =
        DELTA_REC.rows.iter().filter(|row| row.name == choice.variant && context.wants(row.name)).collect();
    let case = RecCase::new(shape, &BASE, DATA);
    let base = |loaded: &mut Loaded<'_>| loaded.whole(DELTA_REC.base().name, StateAfter::Updated, false);
    bits_only(context, name, &case, &variants, base, |loaded, _| {
        loaded.reset()?;
        let variant = loaded.call(By::Choice(&context.dispatch), 0..shape.tokens, StateAfter::Updated)?;
        Ok(vec![(variant.to_owned(), loaded.outcome(shape.tokens)?)])
    })
}

fn named(law: &str, shape: &RecShape) -> String {
    let gaps = if shape.is_dense() { "" } else { "/gaps" };
    format!("{law}/T={}/heads={}x{}{gaps}", shape.tokens, shape.key_heads, shape.value_heads)
}

fn whole_work(shape: RecShape, inputs: &'static Inputs, bound: f64) -> Work {
    Work::new(named(inputs.name, &shape), move |context, name| whole(context, name, shape, inputs, bound))
}

fn work(law: &str, shape: RecShape, run: fn(&Context<'_>, &str, RecShape) -> Vec<Row>) -> Work {
    Work::new(named(law, &shape), move |context, name| run(context, name, shape))
}

/// The cases of this operation.
pub(super) fn works(scale: Scale) -> Vec<Work> {
    let small = scale == Scale::Small;
    let (key_heads, value_heads) = if small { (2, 6) } else { (16, 48) };
    let main = |tokens: usize| RecShape::dense(key_heads, value_heads, tokens);
    let few = |tokens: usize| if small { RecShape::dense(1, 3, tokens) } else { main(tokens) };
    let on_base = |shape: RecShape| whole_work(shape, &BASE, bounds::SEQUENTIAL_BASE);
    let on_stress = |tokens: usize| {
        let laws = STRESS.iter().chain(REPORTED_FAULTS);
        laws.map(move |inputs| whole_work(few(tokens), inputs, bounds::STRESS))
    };

    let mut works: Vec<Work> = LENGTHS.iter().map(|&tokens| on_base(main(tokens))).collect();
    works.extend([32, 63, 64, 65, 127, 128, 129, 133, 257].map(|tokens| on_base(few(tokens))));
    if !small {
        works.extend([1000, 4099].map(|tokens| on_base(main(tokens))));
    }
    for (key_heads, value_heads) in [(1, 1), (2, 4), (3, 9), (1, 4), (1, 5), (16, 16), (16, 32), (16, 64)] {
        if !small || key_heads < 16 {
            works.extend([6, 19].map(|tokens| on_base(RecShape::dense(key_heads, value_heads, tokens))));
        }
    }
    works.extend([5, 19].map(|tokens| on_base(RecShape::gapped(key_heads, value_heads, tokens))));

    works.extend(on_stress(8));
    works.extend(on_stress(if small { 70 } else { 4099 }));
    if scale == Scale::Long {
        works.extend(on_stress(32_768));
        works.push(on_base(main(32_768)));
    }

    works.extend([8, 37].map(|tokens| work("split", few(tokens), split)));
    works.extend([1, 8, 19].map(|tokens| work("kept", main(tokens), kept)));
    works.extend([2, 66].map(|tokens| work("k13_handover", few(tokens), handover)));
    works.extend([1, 8, 33].map(|tokens| work("chosen", main(tokens), chosen)));
    let heads = if small { (1, 3) } else { (16, 48) };
    let name = format!("k28_padding_keeps_state/T=50+14/heads={}x{}", heads.0, heads.1);
    works.push(Work::new(name, move |context, name| padding(context, name, heads)));
    works
}
