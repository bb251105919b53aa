//! `varve parity`: every variant on every case, a row each.

use std::io;

use clap::value_parser;
use indicatif::ProgressBar;

use super::output::Output;
use super::{CliError, Global, progress};
use crate::proof::run::{self, Devices, Event, Row, Scale, Selection, Summary};

/// Arguments of `varve parity`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this family of operations, as in delta
    #[arg(long, value_name = "FAMILY")]
    family: Option<String>,
    /// Only this operation, as in delta.rec
    #[arg(long, value_name = "OP")]
    op: Option<String>,
    /// Only this variant, as in keyhead
    #[arg(long, value_name = "VARIANT")]
    variant: Option<String>,
    /// Only cases whose name contains this, as in slow_gates or T=33
    #[arg(long, value_name = "PART")]
    case: Option<String>,
    /// Runs of each variant: schedules on the emulator (from VARVE_EMU_SEED on, else 0), repetitions on a GPU
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = value_parser!(u32).range(1..=10_000))]
    seeds: u32,
    /// Inputs at 20,468 and 32,768 tokens too (a GPU, minutes); on the emulator the whole list of chunked variants
    #[arg(long)]
    long: bool,
}

/// Runs the command.
pub fn run(global: &Global, args: &Args) -> Result<(), CliError> {
    let Args { family, op, variant, case, .. } = args;
    let selection = Selection {
        family: family.clone(),
        op: op.clone(),
        variant: variant.clone(),
        case: case.clone(),
        switches: global.switches()?,
    };
    let unknown = |unknown: run::Unknown| CliError::Usage(unknown.to_string());
    selection.operations().map_err(unknown)?; // before a device is opened
    let device = global.open()?;
    let scale = match (device.caps().is_emulator, args.long) {
        (true, true) => Scale::Thorough,
        (true, false) => Scale::Small,
        (false, true) => Scale::Long,
        (false, false) => Scale::Full,
    };
    let devices = Devices::new(device, args.seeds as usize, Global::environment()?.seed.unwrap_or(0));

    let output = global.output();
    let mut bar = ProgressBar::hidden();
    let mut written: io::Result<()> = Ok(());
    let summary = run::run(&selection, &devices, scale, &mut |event| match event {
        Event::Planned(cases) => bar = progress::bar(cases, output.is_json()),
        Event::Case { op, case } => {
            bar.set_message(format!("{op} {case}"));
            bar.inc(1);
        }
        Event::Row(row) => {
            if written.is_ok() {
                written = bar.suspend(|| output.row(&row, || text(&row)));
            }
        }
    });
    bar.finish_and_clear();
    let summary = summary.map_err(unknown)?;
    written?;
    finish(&output, &summary)
}

fn text(row: &Row) -> String {
    let number = |error: Option<f64>| error.map_or("-".into(), |e| format!("{e:.1e}"));
    let verdict = if row.pass { "ok  " } else { "FAIL" };
    let bits = if row.bit_equal { "bits equal".into() } else { format!("off by {}", number(row.base_difference)) };
    let name = format!("{}/{}", row.op, row.variant);
    let line = format!("{verdict} {name:20} {:52} FP64 {:>7}  {bits}", row.case, number(row.fp64_error));
    match &row.reason {
        Some(reason) => format!("{line}\n     {reason}"),
        None => line,
    }
}

fn finish(output: &Output, summary: &Summary) -> Result<(), CliError> {
    output.row(summary, || {
        let skipped = summary.skipped.iter().map(|s| format!("skipped {}/{}: {}\n", s.op, s.variant, s.reason));
        format!("{}{} rows, {} failures", skipped.collect::<String>(), summary.rows, summary.failures)
    })?;
    if summary.rows == 0 {
        return Err(CliError::Failed(
            "nothing was proved: no selected variant runs on this device and these cases".into(),
        ));
    }
    if summary.failures > 0 { Err(CliError::Reported) } else { Ok(()) }
}
