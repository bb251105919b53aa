//! Lines of the tables of `mmvq.product` from measured figures.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use varve_gpu::mmvq::Format;

use crate::backend::Caps;
use crate::ops::exactness::Exactness;
use crate::ops::mmvq_product::MMVQ_PRODUCT;
use crate::ops::tuning::mmvq_rows::{CLASSES, PLAIN, class};

/// A variant is taken where its time is below this share of that of `plain`.
pub const PAYS_BELOW: f64 = 0.97;

/// One measured arm, the matrix not in the L2.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Format of the matrix.
    pub format: Format,
    /// Vectors.
    pub columns: usize,
    /// Columns and rows of the matrix.
    pub shape: [usize; 2],
    /// Variant.
    pub variant: &'static str,
    /// Microseconds.
    pub us: f64,
}

/// Figures by shape of the matrix.
type Shapes<'a> = BTreeMap<[usize; 2], Vec<&'a Figure>>;

/// Whether a variant has bits of its own, which no table may choose.
fn is_rounding(variant: &str) -> bool {
    matches!(MMVQ_PRODUCT.promise_of(variant), Exactness::Rounding { .. })
}

/// The variant that a shape's figures name.
fn choice(figures: &[&Figure]) -> &'static str {
    let plain = figures.iter().filter(|f| f.variant == PLAIN).map(|f| f.us).min_by(f64::total_cmp);
    let best = figures.iter().min_by(|a, b| a.us.total_cmp(&b.us));
    match (plain, best) {
        (Some(plain), Some(best)) if best.us < PAYS_BELOW * plain => best.variant,
        _ => PLAIN,
    }
}

/// For each format and number of vectors a variant a class of rows. Where shapes of a class name different ones it is
/// `plain`; a class without a shape is as the one below it, the lowest `plain`.
#[must_use]
pub fn lines(figures: &[Figure]) -> Vec<(Format, usize, [&'static str; CLASSES])> {
    let mut shapes: BTreeMap<(Format, usize), Shapes<'_>> = BTreeMap::new();
    for figure in figures.iter().filter(|figure| !is_rounding(figure.variant)) {
        let of = shapes.entry((figure.format, figure.columns)).or_default();
        of.entry(figure.shape).or_default().push(figure);
    }
    let line = |((format, columns), shapes): ((Format, usize), Shapes<'_>)| {
        let mut choices: [BTreeSet<&'static str>; CLASSES] = Default::default();
        for ([_, n_out], figures) in shapes {
            choices[class(n_out)].insert(choice(&figures));
        }
        let mut last = PLAIN;
        let cells = choices.map(|choices| {
            last = match choices.len() {
                0 => last,
                1 => choices.into_iter().next().unwrap_or(PLAIN),
                _ => PLAIN,
            };
            last
        });
        (format, columns, cells)
    };
    shapes.into_iter().map(line).collect()
}

/// The lines as source text of a table, measured at this commit and day on the device.
#[must_use]
pub fn source(figures: &[Figure], caps: &Caps, commit: &str, date: &str) -> String {
    let mut out = format!("Rows {{\n    cc: Some({}),\n    sms: Some({}),\n    lines: &[\n", caps.cc, caps.sms);
    for (format, columns, cells) in lines(figures) {
        let _ = writeln!(out, "        line(Format::{format:?}, {columns}, {cells:?}),"); // writing to a string cannot fail
    }
    let _ = write!(
        out,
        "    ],\n    source: Source {{\n        device: {:?},\n        driver: {:?},\n        commit: {commit:?},\n        \
         date: {date:?},\n        command: \"varve bench --family mmvq --emit-table {commit} {date}\",\n        rule: \"cold \
         matrices, quantizer included: the fastest where below {PAYS_BELOW} x plain\",\n    }},\n}}",
        caps.name, caps.driver
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::known_card;

    fn figure(n_out: usize, variant: &'static str, us: f64) -> Figure {
        Figure { format: Format::Q6_K, columns: 2, shape: [2560, n_out], variant, us }
    }

    #[test]
    fn a_cell_is_the_fastest_where_it_gains_three_percent() {
        let figures = [
            figure(512, PLAIN, 1.0),
            figure(512, "il_r1", 0.98), // gains two
            figure(2560, PLAIN, 2.0),
            figure(2560, "il_r2", 1.5),
            figure(2561, PLAIN, 2.0),
            figure(2561, "il_r4", 1.5), // another one in the class of 2560
            figure(6144, PLAIN, 4.0),
            figure(6144, "il_r2", 3.0),
            figure(6144, "il_r4", 2.9),
            figure(6144, "mma", 1.0), // has bits of its own
        ];
        assert_eq!(lines(&figures), [(Format::Q6_K, 2, [PLAIN, PLAIN, "il_r4", "il_r4", "il_r4"])]);
        let text = source(&figures, &known_card("H200").expect("known"), "abc", "2026-01-02");
        for part in
            ["cc: Some(90)", "sms: Some(132)", "line(Format::Q6_K, 2, [\"plain\", \"plain\", \"il_r4\"", "\"abc\""]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
