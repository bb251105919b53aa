//! `varve bench`: times variants against each other in alternating rounds, with the floor beside each figure.

use std::collections::BTreeSet;

use serde::Serialize;
use varve_gpu::mmvq::Format;

use super::progress::bar;
use super::{CliError, Global};
use crate::backend::Device;
use crate::measure::case::{MeasureError, Prepared};
use crate::measure::copy::copy_bandwidth;
use crate::measure::mmvq::InL2;
use crate::measure::mmvq_rows;
use crate::measure::paired::{Times, alternate};
use crate::measure::plan::{self, Matrix, Planned};
use crate::measure::thresholds::{self, Figure};
use crate::ops;
use crate::ops::delta_rec::DELTA_REC;
use crate::ops::dispatch::Preferred;

/// Arguments of `varve bench`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Family of operations; without it that of --op, else delta
    #[arg(value_name = "FAMILY", conflicts_with = "named_family")]
    family: Option<String>,
    /// The same
    #[arg(long = "family", value_name = "FAMILY")]
    named_family: Option<String>,
    /// Only this operation
    #[arg(long)]
    op: Option<String>,
    /// Only these variants (the base is always an arm)
    #[arg(long, num_args = 1..)]
    variant: Vec<String>,
    /// Only these token counts
    #[arg(long, num_args = 1..)]
    tokens: Vec<usize>,
    /// Key heads and value heads of the family delta, the latter a multiple of the former
    #[arg(long, num_args = 2, value_names = ["KEY", "VALUE"])]
    heads: Vec<usize>,
    /// Of family mmvq only these matrices, as FORMAT:COLUMNSxROWS (q6_k:2560x10240); without --l2 cold
    #[arg(long, num_args = 1.., value_parser = matrix)]
    matrix: Vec<Matrix>,
    /// Of family mmvq what the L2 holds when a call starts: other matrices, the call's own, or what is left of it behind reads of
    /// other weights, without and with a part of the L2 set aside for it
    #[arg(long, num_args = 1.., value_parser = clap::builder::PossibleValuesParser::new(InL2::NAMES))]
    l2: Vec<String>,
    /// MB of other weights that are read between calls, for --l2 gap and persist
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u16).range(1..=4096))]
    gap_mb: u16,
    /// Rounds that count; three more come before them
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// At the end print the rows that the prompts' figures give the tuning tables, as measured at this commit and day
    #[arg(long, num_args = 2, value_names = ["COMMIT", "DATE"])]
    emit_thresholds: Vec<String>,
    /// At the end print the table of variants that the figures of quantized products give, as measured at this commit and day
    #[arg(long, num_args = 2, value_names = ["COMMIT", "DATE"])]
    emit_table: Vec<String>,
}

/// The device's copy bandwidth, the first row.
#[derive(Serialize)]
struct Copy<'a> {
    device: &'a str,
    driver: &'a str,
    copy_gb_per_s: f64,
}

/// One arm of one case.
#[derive(Serialize)]
struct Row<'a> {
    op: &'a str,
    variant: &'a str,
    exactness: &'a str,
    case: &'a str,
    tokens: usize,
    how: &'a str,
    us: f64,
    us_per_token: f64,
    min_us: f64,
    max_us: f64,
    /// Time of the base over this one's: above 1 is faster.
    ratio: f64,
    floor_bytes: u64,
    floor_flops: u64,
    /// The floor's bytes at the measured copy bandwidth.
    floor_us: f64,
    /// The floor's bytes over the time.
    gb_per_s: f64,
    /// The floor's operations over the time.
    tflop_per_s: f64,
    device: &'a str,
    driver: &'a str,
}

/// A case that this device cannot run.
#[derive(Serialize)]
struct Skipped<'a> {
    op: &'a str,
    case: &'a str,
    skipped: &'a str,
}

/// A matrix by its format, columns and rows.
fn matrix(text: &str) -> Result<Matrix, String> {
    let how = || format!("`{text}` is no matrix; write FORMAT:COLUMNSxROWS, for example q6_k:2560x10240");
    let (name, sizes) = text.split_once(':').ok_or_else(how)?;
    let (n_in, n_out) = sizes.split_once('x').ok_or_else(how)?;
    let names = || Format::ALL.map(Format::name).join(", ");
    let format = Format::ALL.into_iter().find(|format| format.name() == name);
    let format = format.ok_or_else(|| format!("`{name}` is no format; known: {}", names()))?;
    let (n_in, n_out): (usize, usize) = (n_in.parse().map_err(|_| how())?, n_out.parse().map_err(|_| how())?);
    let values = format.block().0;
    if n_in == 0 || !n_in.is_multiple_of(values) || n_out == 0 || n_in.saturating_mul(n_out) > 1 << 32 {
        return Err(format!("{name} has columns in multiples of {values}, and 2^32 values are the most here"));
    }
    Ok((format, [n_in, n_out]))
}

/// The cases that the arguments name.
fn plan(device: &Device, family: &str, heads: Option<[usize; 2]>, args: &Args) -> Result<Vec<Planned>, CliError> {
    let all = if args.matrix.is_empty() && args.l2.is_empty() {
        plan::family(family, device, &args.tokens, heads).unwrap_or_default()
    } else if family == "mmvq" {
        let states: Vec<_> = args.l2.iter().filter_map(|name| InL2::named(name, args.gap_mb)).collect();
        plan::mmvq_of(device, &args.tokens, &args.matrix, &states)
    } else {
        return Err(CliError::Usage(format!("--matrix and --l2 are for the family mmvq, not for `{family}`")));
    };
    Ok(all.into_iter().filter(|case| args.op.as_deref().is_none_or(|op| op == case.op())).collect())
}

/// Runs the command.
pub fn run(global: &Global, args: &Args) -> Result<(), CliError> {
    let all = ops::list();
    if let Some(op) = args.op.as_deref().filter(|op| !all.iter().any(|(known, _)| known == op)) {
        let known = all.iter().map(|(op, _)| *op).collect::<Vec<_>>().join(", ");
        return Err(CliError::Usage(format!("unknown operation `{op}`; known: {known}")));
    }
    let known: BTreeSet<_> = all.iter().flat_map(|(_, variants)| variants.iter().copied()).collect();
    if let Some(unknown) = args.variant.iter().find(|name| !known.contains(name.as_str())) {
        let known = known.into_iter().collect::<Vec<_>>().join(", ");
        return Err(CliError::Usage(format!("unknown variant `{unknown}`; known: {known}")));
    }
    let of_op = args.op.as_deref().and_then(|op| op.split('.').next());
    let family = args.family.as_deref().or(args.named_family.as_deref()).or(of_op).unwrap_or("delta");
    if !plan::FAMILIES.contains(&family) {
        let known = plan::FAMILIES.join(", ");
        return Err(CliError::Usage(format!("no cases for the family `{family}`; there are for {known}")));
    }
    let heads = <[usize; 2]>::try_from(args.heads.as_slice()).ok();
    if let Some([key, value]) = heads.filter(|&[key, value]| key == 0 || value == 0 || value % key != 0) {
        return Err(CliError::Usage(format!("{value} value heads are no multiple of {key} key heads")));
    }
    if heads.is_some() && family != "delta" {
        return Err(CliError::Usage(format!("--heads is for the family delta, not for {family}")));
    }
    let device = global.open()?;
    let cases = plan(&device, family, heads, args)?;
    if cases.is_empty() {
        return Err(CliError::Usage(format!("no case of the family `{family}` is of this operation and token count")));
    }
    let out = global.output();
    let bandwidth = copy_bandwidth(&device).map_err(CliError::failed)?;
    let (name, driver) = (device.caps().name.clone(), device.caps().driver.clone());
    let copy = Copy { device: &name, driver: &driver, copy_gb_per_s: bandwidth / 1e9 };
    out.row(&copy, || format!("{name}, driver {driver}: copies move {:.0} GB/s", bandwidth / 1e9))?;
    let progress = bar(cases.len(), out.is_json());
    let (mut figures, mut products) = (Vec::new(), Vec::new());
    for planned in cases {
        let (case, times) = match measure(&device, planned, args) {
            Err(error) if error.is_of_device() => {
                let (op, case, skipped) = (planned.op(), format!("{planned:?}"), error.to_string());
                let row = Skipped { op, case: &case, skipped: &skipped };
                progress.suspend(|| out.row(&row, || format!("{op}, {case}: skipped, {skipped}")))?;
                progress.inc(1);
                continue;
            }
            measured => measured.map_err(CliError::failed)?,
        };
        let floor = case.floor();
        let floor_us = floor.bytes_us(bandwidth);
        progress.suspend(|| -> Result<(), CliError> {
            if !out.is_json() {
                let bytes = floor.bytes as f64 / 1e6;
                out.line(&format!("{}, {}: at least {bytes:.2} MB = {floor_us:.2} us", case.op(), case.case()))?;
            }
            for (arm, (variant, t)) in case.arms().iter().zip(&times).enumerate() {
                let us = t.median();
                figures.extend(figure(case.as_ref(), variant, us));
                if let Some((format, shape)) = case.cold_matrix() {
                    products.push(mmvq_rows::Figure { format, columns: case.tokens(), shape, variant, us });
                }
                let row = Row {
                    op: case.op(),
                    variant,
                    exactness: case.exactness(arm),
                    case: &case.case(),
                    tokens: case.tokens(),
                    how: case.how(),
                    us,
                    us_per_token: us / case.tokens() as f64,
                    min_us: t.min(),
                    max_us: t.max(),
                    ratio: times[0].median() / us,
                    floor_bytes: floor.bytes,
                    floor_flops: floor.flops,
                    floor_us,
                    gb_per_s: floor.bytes as f64 / us / 1e3,
                    tflop_per_s: floor.flops as f64 / us / 1e6,
                    device: &name,
                    driver: &driver,
                };
                out.row(&row, || {
                    format!(
                        "  {variant:11} {us:10.2} us ({:.4} a token, {}), {:.2}x the base, {:.0} GB/s, {:.1} TFLOP/s",
                        row.us_per_token, row.how, row.ratio, row.gb_per_s, row.tflop_per_s
                    )
                })?;
            }
            Ok(())
        })?;
        progress.inc(1);
    }
    progress.finish_and_clear();
    if let [commit, date] = args.emit_thresholds.as_slice() {
        let rows = thresholds::rows(&thresholds::thresholds(&figures), device.caps(), commit, date);
        out.row(&Rows { tuning_rows: &rows }, || {
            if rows.is_empty() { "no variant pays".to_owned() } else { rows.trim_end().to_owned() }
        })?;
    }
    if let [commit, date] = args.emit_table.as_slice() {
        if products.is_empty() {
            return Err(CliError::Failed("no product with a matrix beyond the L2 was measured here".into()));
        }
        let table = mmvq_rows::source(&products, device.caps(), commit, date);
        out.row(&Rows { tuning_rows: &table }, || table.clone())?;
    }
    Ok(())
}

/// Tuning rows as source text, the last row.
#[derive(Serialize)]
struct Rows<'a> {
    tuning_rows: &'a str,
}

/// What an arm of a prompt case says about thresholds; an opt-in variant is never taken by measurement.
fn figure(case: &dyn Prepared, variant: &'static str, us: f64) -> Option<Figure> {
    let [longest, sequences] = case.prompt()?;
    let preferred = &DELTA_REC.row(variant).ok()?.preferred;
    let is_measured = matches!(preferred, Preferred::Measured { .. });
    let counts = is_measured || matches!(preferred, Preferred::Always);
    counts.then_some(Figure { variant, is_measured, longest, sequences, us })
}

fn measure(device: &Device, case: Planned, args: &Args) -> Result<(Box<dyn Prepared>, Vec<Times>), MeasureError> {
    let mut wanted = args.variant.clone();
    if !wanted.is_empty() {
        wanted.push(case.base().to_owned());
    }
    let mut case = case.prepare(device, &wanted)?;
    let times = alternate(case.arms().len(), 3, args.rounds.into(), |arm| case.time(arm))?;
    Ok((case, times))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_are_read_and_refused() {
        assert_eq!(matrix("q6_k:2560x10240"), Ok((Format::Q6_K, [2560, 10_240])));
        for (text, why) in [
            ("q6_k", "is no matrix"),
            ("q6_k:2560", "is no matrix"),
            ("q6_k:2560x-1", "is no matrix"),
            ("q7_k:2560x1", "is no format; known: q8_0"),
            ("q6_k:2561x1", "multiples of 256"),
            ("q6_k:2560x0", "multiples of 256"),
            ("q8_0:32x999999999999", "2^32"),
        ] {
            let error = matrix(text).expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
