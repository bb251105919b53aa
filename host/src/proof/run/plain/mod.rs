//! Operations whose results are judged element by element: one harness for all of them.
//!
//! A case says how to run itself on a device and what must come of it. The harness runs every variant once for each
//! seed, holds the result to the reference, to the base and to itself, then cuts the call's tokens into several calls:
//! a token's bits must not depend on the others'. On a card a short call must have the emulator's bits, too, or where the
//! variant promises less be as near to it as to the base.

pub(super) mod attend;
pub(super) mod attn;
pub(super) mod cells;
pub(super) mod conv;
pub(super) mod delta;
pub(super) mod dense;
pub(super) mod dequantize;
pub(super) mod experts;
pub(super) mod hyper;
pub(super) mod mmvq;
mod mmvq_picked;
pub(super) mod moe;
pub(super) mod norm;
mod operand;
pub(super) mod ple;
pub(super) mod qsa_append;
mod replay;
pub(super) mod routing;
pub(super) mod scores;
mod selection;
pub(super) mod topk;

use std::ops::Range;

use super::loaded::Flaw;
use super::row::Row;
use super::{Context, Scale, Work};
use crate::backend::{Device, EmulatorConfig};
use crate::ops::dispatch::{Table, Variant};
use crate::ops::exactness::Exactness;
use crate::proof::compare::{self, Failure};
use crate::proof::reference::near::Near;

use operand::{LAWS, Law, Layout};

/// A result, rows without gaps.
#[derive(Clone, Debug, PartialEq)]
enum Values {
    F32(Vec<f32>),
    U32(Vec<u32>),
}

/// What must come of a call.
enum Expected {
    /// Every element within its slack.
    Near(Vec<Near>),
    /// Exactly this.
    Words(Vec<u32>),
    /// These, to the last bit of a variant that promises the base's, within their slack of one that rounds in its own way.
    Rounded { exact: Vec<f32>, near: Vec<Near> },
    /// Nothing is known but that it must not change.
    Any,
}

/// A variant of an operation, and its promise.
type Promised = (&'static str, Exactness);

/// One case of an operation.
trait Case {
    /// Names of the operation and its base variant.
    fn names(&self) -> [&'static str; 2];
    /// The variants to prove.
    fn variants(&self, context: &Context<'_>) -> Vec<Promised>;
    /// Tokens that the call may be cut into; 1 where it cannot be cut.
    fn tokens(&self) -> usize;
    /// The ways in which they are cut.
    fn cuts(&self) -> Vec<Vec<Range<usize>>> {
        cuts(self.tokens())
    }
    /// Runs the pieces one after the other on fresh buffers; gives all outputs, each with its name.
    fn run(&self, device: &Device, variant: &str, pieces: &[Range<usize>])
    -> Result<Vec<(&'static str, Values)>, Flaw>;
    /// What must come of it, in the order of the outputs.
    fn expected(&self) -> Vec<Expected>;
    /// What must come of a variant that has steps of its own, hence errors of its own; none: the same.
    fn expected_by(&self, _variant: &str) -> Option<Vec<Expected>> {
        None
    }
    /// The largest share of an element's slack that a variant may take.
    fn most(&self, _variant: &str) -> f64 {
        1.0
    }
}

/// The table's variants that can run these sizes.
fn variants<A, P: Copy>(context: &Context<'_>, table: &'static Table<A, P>, ask: &A) -> Vec<Promised> {
    let promised = |row: &'static Variant<A, P>| (row.name, row.exactness);
    context.variants(table, ask).into_iter().map(promised).collect()
}

/// Sizes that every operation is put through: with one of its widths, by index, the first being the usual one.
#[derive(Clone, Copy)]
struct Call {
    tokens: usize,
    width: usize,
    layout: Layout,
    law: &'static Law,
}

/// Token counts, all widths, all layouts, all laws.
fn calls(scale: Scale, widths: usize) -> Vec<Call> {
    let usual = Call { tokens: 5, width: 0, layout: Layout::Dense, law: &LAWS[0] };
    let mut calls: Vec<Call> = [1, 2, 3, 5, 33].map(|tokens| Call { tokens, ..usual }).into();
    if !scale.is_small() {
        calls.push(Call { tokens: 1000, ..usual });
    }
    calls.extend((1..widths).map(|width| Call { width, ..usual }));
    calls.extend((0..widths).map(|width| Call { width, layout: Layout::Gaps, ..usual }));
    calls.extend((0..widths).map(|width| Call { width, layout: Layout::Odd, ..usual }));
    calls.extend(LAWS[1..].iter().map(|law| Call { tokens: 6, law, ..usual }));
    calls
}

/// The cases of an operation over `widths`, whose names are their `Display`.
fn works<W, C>(scale: Scale, widths: &'static [W], case: fn(Call, W) -> C) -> Vec<Work>
where
    W: Copy + std::fmt::Display + 'static,
    C: Case + 'static,
{
    let work = |call: Call| {
        let width = widths[call.width];
        let name = format!("{}/T={}/{width}{}", call.law.name, call.tokens, call.layout.suffix());
        Work::new(name, move |context, name| prove(context, name, &case(call, width)))
    };
    calls(scale, widths.len()).into_iter().map(work).collect()
}

/// [`works`] of an operation that takes rows at multiples of 16 bytes only.
fn aligned_works<W, C>(scale: Scale, widths: &'static [W], case: fn(Call, W) -> C) -> Vec<Work>
where
    W: Copy + std::fmt::Display + 'static,
    C: Case + 'static,
{
    let works = works(scale, widths, case).into_iter();
    works.filter(|work| !work.case.ends_with(Layout::Odd.suffix())).collect()
}

/// How a call's tokens are cut: at each place of a short call, at some of a long one, and into single tokens.
fn cuts(tokens: usize) -> Vec<Vec<Range<usize>>> {
    let places: Vec<usize> = if tokens <= 6 { (1..tokens).collect() } else { vec![1, tokens / 2, tokens - 1] };
    let mut cuts: Vec<Vec<Range<usize>>> = places.into_iter().map(|at| vec![0..at, at..tokens]).collect();
    if (3..=6).contains(&tokens) {
        cuts.push((0..tokens).map(|t| t..t + 1).collect());
    }
    cuts
}

/// Most tokens of a call that the emulator repeats beside a card.
const REPEATED: usize = 6;

fn prove(context: &Context<'_>, name: &str, case: &dyn Case) -> Vec<Row> {
    let variants = case.variants(context);
    if variants.is_empty() {
        return Vec::new();
    }
    let ([op, base], expected) = (case.names(), case.expected());
    let row_of = |(variant, exactness): Promised| {
        context.row((op, variant, base), exactness, name, |row| check(context, case, row, exactness, &expected))
    };
    variants.into_iter().map(row_of).collect()
}

fn check(
    context: &Context<'_>,
    case: &dyn Case,
    row: &mut Row,
    promise: Exactness,
    expected: &[Expected],
) -> Result<(), Flaw> {
    let whole = || std::iter::once(0..case.tokens()).collect::<Vec<_>>();
    let devices = context.devices.each(|device| Ok::<_, Flaw>(device.clone()))?;
    let base = case.run(&devices[0], case.names()[1], &whole())?;
    let first = case.run(&devices[0], row.variant, &whole())?;
    let (own, most) = (case.expected_by(row.variant), case.most(row.variant));
    for ((what, got), expected) in first.iter().zip(own.as_deref().unwrap_or(expected)) {
        with_reference(row, promise, what, got, (expected, most));
    }
    with_base(row, promise, &base, &first);
    for seed in 1..context.devices.seeds() {
        let got = case.run(&devices[seed % devices.len()], row.variant, &whole())?;
        same(row, &format!("run {seed}"), &first, &got);
    }
    for pieces in case.cuts() {
        let got = case.run(&devices[0], row.variant, &pieces)?;
        let (last, n) = (pieces[pieces.len() - 1].clone(), pieces.len());
        same(row, &format!("cut into {:?} .. {last:?}, {n} pieces", pieces[0]), &first, &got);
    }
    if !devices[0].caps().is_emulator && case.tokens() <= REPEATED {
        let emulated = case.run(&Device::emulator(EmulatorConfig::default()), row.variant, &whole())?;
        match promise {
            Exactness::Base | Exactness::Bitwise => same(row, "emulated", &emulated, &first),
            Exactness::Rounding { .. } => with_base(row, promise, &emulated, &first),
        }
    }
    Ok(())
}

fn with_reference(
    row: &mut Row,
    promise: Exactness,
    what: &'static str,
    got: &Values,
    (expected, most): (&Expected, f64),
) {
    match (expected, got) {
        (Expected::Rounded { exact, .. }, Values::F32(got)) if !matches!(promise, Exactness::Rounding { .. }) => {
            row.check(what, compare::bits(exact, got));
        }
        (Expected::Near(near) | Expected::Rounded { near, .. }, Values::F32(got)) => match compare::share(near, got) {
            Err(failure) => row.fail(what, failure),
            Ok(worst) => row.check_worst(what, most, worst),
        },
        (Expected::Words(words), Values::U32(got)) => row.check(what, compare::bits(words, got)),
        (Expected::Any, _) => {}
        _ => row.fail(what, "the reference is of another type"),
    }
}

fn bits(expected: &Values, got: &Values) -> Result<(), Failure> {
    match (expected, got) {
        (Values::F32(expected), Values::F32(got)) => compare::bits(expected, got),
        (Values::U32(expected), Values::U32(got)) => compare::bits(expected, got),
        (Values::F32(expected), Values::U32(got)) => Err(Failure::Length { got: got.len(), expected: expected.len() }),
        (Values::U32(expected), Values::F32(got)) => Err(Failure::Length { got: got.len(), expected: expected.len() }),
    }
}

/// Bits that no variant may change.
fn same(row: &mut Row, when: &str, first: &[(&'static str, Values)], got: &[(&'static str, Values)]) {
    for ((what, first), (_, got)) in first.iter().zip(got) {
        row.check_bits(&format!("{when}, {what}"), true, bits(first, got));
    }
}

/// Bits against the base, and the largest difference over the largest value.
fn with_base(row: &mut Row, promise: Exactness, base: &[(&'static str, Values)], got: &[(&'static str, Values)]) {
    let promised = !matches!(promise, Exactness::Rounding { .. });
    for ((what, base), (_, got)) in base.iter().zip(got) {
        row.check_bits(what, promised, bits(base, got));
        let (Values::F32(base), Values::F32(got)) = (base, got) else { continue };
        let largest = base.iter().fold(0.0f64, |a, &x| a.max(f64::from(x).abs()));
        let differences = base.iter().zip(got).map(|(&a, &b)| (f64::from(a) - f64::from(b)).abs());
        let difference = differences.fold(0.0, f64::max);
        let relative = if difference == 0.0 { 0.0 } else { difference / largest };
        row.base_differs_by(relative);
        if let Exactness::Rounding { bound, .. } = promise
            && relative > bound
        {
            row.fail(what, format!("difference from the base {relative:.3e} exceeds {bound:.1e}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_are_whole_calls() {
        for tokens in [1, 2, 3, 6, 7, 33] {
            for pieces in cuts(tokens) {
                assert_eq!((pieces[0].start, pieces.last().map(|p| p.end)), (0, Some(tokens)));
                assert!(pieces.windows(2).all(|two| two[0].end == two[1].start), "{pieces:?}");
                assert!(pieces.iter().all(|piece| !piece.is_empty()));
            }
        }
        assert_eq!(cuts(1).len(), 0);
        assert_eq!(cuts(4).len(), 4);
    }

    fn judged(got: f32, base: f32, promise: Exactness) -> Row {
        let mut row = Row::new(("op", "variant", "base"), promise, "case", "device", 1);
        let values = |x: f32| vec![("y", Values::F32(vec![x, 4.0]))];
        let expected = Expected::Near(vec![Near { value: 1.0, slack: 1e-3 }, Near::exact(4.0)]);
        with_reference(&mut row, promise, "y", &values(got)[0].1, (&expected, 1.0));
        with_base(&mut row, promise, &values(base), &values(got));
        row
    }

    #[test]
    fn each_rule_can_fail() {
        let loosely = Exactness::Rounding { bound: 1e-5, ordinary: 1e-5, derived: "" };
        assert!(judged(1.0005, 1.0005, Exactness::Bitwise).pass);
        assert!(!judged(1.002, 1.002, Exactness::Bitwise).pass, "too far from the reference");
        assert!(!judged(1.0, 1.0000001, Exactness::Bitwise).pass, "another bit than the base");
        assert!(judged(1.0, 1.0000001, loosely).pass);
        assert!(!judged(1.0, 1.0005, loosely).pass, "too far from the base");
        let mut row = judged(1.0, 1.0, Exactness::Base);
        with_reference(&mut row, Exactness::Base, "ids", &Values::U32(vec![3]), (&Expected::Words(vec![4]), 1.0));
        assert!(row.reason.as_ref().is_some_and(|reason| reason.starts_with("ids: 1 of 1")), "{row:?}");
        for (promise, passes) in [(Exactness::Bitwise, false), (loosely, true)] {
            let mut row = judged(1.0, 1.0, promise);
            let near = vec![Near { value: 1.0, slack: 1e-3 }];
            let expected = Expected::Rounded { exact: vec![1.0], near };
            with_reference(&mut row, promise, "y", &Values::F32(vec![1.0001]), (&expected, 1.0));
            assert_eq!(row.pass, passes, "{promise:?}");
            with_reference(&mut row, promise, "y", &Values::F32(vec![1.01]), (&expected, 1.0));
            assert!(!row.pass);
        }
        let mut row = judged(1.0, 1.0, Exactness::Base);
        same(&mut row, "run 1", &[("ids", Values::U32(vec![3]))], &[("ids", Values::U32(vec![4]))]);
        assert!(!row.pass && !row.bit_equal);
    }
}
