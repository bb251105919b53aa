//! Rows of the tuning tables from measured figures: from how many tokens on, and for how many sequences, a variant pays.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::backend::Caps;

/// A variant pays where its time is below this share of the fastest one that needs no measurement to be taken.
pub const PAYS_BELOW: f64 = 0.97;

/// One measured arm of a prompt case.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Variant.
    pub variant: &'static str,
    /// Whether dispatch takes it only where a measurement says so.
    pub is_measured: bool,
    /// Tokens of the longest sequence.
    pub longest: usize,
    /// Sequences of the call.
    pub sequences: usize,
    /// Microseconds.
    pub us: f64,
}

/// Where a variant pays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// Variant.
    pub variant: &'static str,
    /// Least tokens of the longest sequence.
    pub from_tokens: usize,
    /// Most sequences.
    pub most_sequences: usize,
}

fn pays(figures: &[Figure], of: &Figure) -> bool {
    let same = |f: &&Figure| (f.longest, f.sequences) == (of.longest, of.sequences) && !f.is_measured;
    figures.iter().filter(same).map(|f| f.us).min_by(f64::total_cmp).is_some_and(|best| of.us < PAYS_BELOW * best)
}

/// For each variant that must pay: the least token count of one sequence from which on it does at every measured count, and
/// the most sequences with which it does. A variant that does not pay at the largest count has no row.
#[must_use]
pub fn thresholds(figures: &[Figure]) -> Vec<Threshold> {
    let variants: BTreeSet<_> = figures.iter().filter(|f| f.is_measured).map(|f| f.variant).collect();
    let threshold = |variant: &'static str| {
        let of = |one: bool| {
            let mut of: Vec<_> = figures.iter().filter(|f| f.variant == variant && (f.sequences == 1) == one).collect();
            of.sort_by_key(|f| (f.sequences, f.longest));
            of
        };
        let (single, batches) = (of(true), of(false));
        let from = single.iter().rev().take_while(|f| pays(figures, f)).last()?.longest;
        let fits = |f: &&&Figure| f.longest < from || pays(figures, f);
        let most_sequences = batches.iter().take_while(fits).last().map_or(1, |f| f.sequences);
        Some(Threshold { variant, from_tokens: from, most_sequences })
    };
    variants.into_iter().filter_map(threshold).collect()
}

/// The rows as source text for `ops/tuning`, with `commit` and `date` as their origin.
#[must_use]
pub fn rows(thresholds: &[Threshold], caps: &Caps, commit: &str, date: &str) -> String {
    let mut text = String::new();
    for Threshold { variant, from_tokens, most_sequences } in thresholds {
        let Caps { name, driver, cc, sms, .. } = caps;
        let rule = format!("below {PAYS_BELOW} x the fastest of lanes, keyhead, cols at this and all longer counts");
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "// {variant}\nMeasured {{\n    cc: {cc},\n    sms: [{sms}, {sms}],\n    from_tokens: {from_tokens},\n    \
             most_sequences: {most_sequences},\n    source: Source {{\n        device: {name:?},\n        \
             driver: {driver:?},\n        commit: {commit:?},\n        date: {date:?},\n        \
             command: \"varve bench --op delta.rec --emit-thresholds {commit} {date}\",\n        rule: {rule:?},\n    }},\n}},\n"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(variant: &'static str, longest: usize, sequences: usize, us: f64) -> Figure {
        Figure { variant, is_measured: variant == "tc32", longest, sequences, us }
    }

    /// The times of `lanes` are 10 everywhere, but for `cols` being faster at 64 tokens.
    fn figures(tc32: &[(usize, usize, f64)]) -> Vec<Figure> {
        let mut all: Vec<_> = tc32.iter().map(|&(longest, n, us)| figure("tc32", longest, n, us)).collect();
        all.extend(tc32.iter().map(|&(longest, n, _)| figure("lanes", longest, n, 10.0)));
        all.push(figure("cols", 64, 1, 5.0));
        all
    }

    #[test]
    fn a_threshold_holds_at_every_longer_count() {
        let found = thresholds(&figures(&[(32, 1, 5.0), (64, 1, 6.0), (128, 1, 9.8), (256, 1, 9.0), (512, 1, 4.0)]));
        assert_eq!(found, [Threshold { variant: "tc32", from_tokens: 256, most_sequences: 1 }], "9.8 is not below 9.7");
        assert_eq!(thresholds(&figures(&[(32, 1, 5.0), (512, 1, 9.9)])), [], "not at the longest");
    }

    #[test]
    fn sequences_count_as_far_as_batches_were_measured_to_pay() {
        let single = [(128, 1, 5.0), (512, 1, 5.0)];
        let with =
            |batches: &[(usize, usize, f64)]| thresholds(&figures(&[&single, batches].concat()))[0].most_sequences;
        assert_eq!(with(&[(512, 3, 5.0), (512, 8, 9.0)]), 8);
        assert_eq!(with(&[(512, 3, 5.0), (512, 8, 11.0)]), 3);
        assert_eq!(with(&[(64, 3, 11.0), (512, 8, 5.0)]), 8, "64 tokens are below the threshold anyway");
    }

    #[test]
    fn rows_are_source_text() {
        let caps = crate::backend::known_card("H200").expect("a known card");
        let threshold = Threshold { variant: "tc32", from_tokens: 128, most_sequences: 8 };
        let text = rows(&[threshold], &caps, "1f3c9ab", "2026-11-30");
        for part in
            ["// tc32\nMeasured {", "sms: [132, 132],", "from_tokens: 128,", "commit: \"1f3c9ab\",", "device: \"H200\""]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
