//! `varve quantize`: a model as one GGUF file, its weights in smaller types.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::output::{Output, thousands};
use super::{CliError, Global, progress};
use crate::model::export::{Chosen, Deviation, Existing, Plan, Rules, To, Written};
use crate::model::gguf::Entry;
use crate::model::{Checkpoint, DType, printable};

/// Names that a note lists.
const SHOWN: usize = 3;

/// Arguments of `varve quantize`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A folder of safetensors, a .safetensors file or its index, or a .gguf file (of a split set: any of its files)
    input: PathBuf,
    /// The GGUF file to write
    output: PathBuf,
    /// Type of the weight matrices: f32, f16, bf16, q8_0, q4_k, q5_k, q6_k, iq4_nl or iq4_xs
    ///
    /// Norms, convolutions, routers and other small tensors stay as they are. Embedding and output head get q6_k where
    /// the type is a smaller one. Rows that do not fill blocks of 256 values get iq4_nl instead of q4_k and iq4_xs, and
    /// q8_0 instead of q5_k and q6_k.
    #[arg(long = "type", value_name = "TYPE", value_parser = dtype)]
    dtype: DType,
    /// Lines of a pattern of GGUF tensor names and a type (or `keep`), as in `blk.*.ffn_down*.weight q6_k`
    ///
    /// The first line that matches a tensor counts; what none matches is treated as without this file.
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Replace the file if it is there
    #[arg(long)]
    force: bool,
}

fn dtype(name: &str) -> Result<DType, String> {
    match To::parse(name) {
        Some(To::Type(dtype)) => Ok(dtype),
        Some(To::Keep) | None => Err(format!("known types are {}", To::known().trim_end_matches(", keep"))),
    }
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Row<'a> {
    Tensor {
        name: &'a str,
        shape: &'a [usize],
        from: &'static str,
        to: &'static str,
        /// The type that was asked for, where the rows do not fill its blocks.
        #[serde(skip_serializing_if = "Option::is_none")]
        instead_of: Option<&'static str>,
        bytes: usize,
        relative_error: f64,
    },
    /// All tensors that went from one type to another.
    Total {
        from: &'static str,
        to: &'static str,
        #[serde(flatten)]
        sum: Sum,
        relative_error: f64,
    },
    File {
        file: String,
        bytes: u64,
        bits_per_value: f64,
    },
}

#[derive(Clone, Copy, Default, Serialize)]
struct Sum {
    tensors: u64,
    elements: u64,
    bytes: u64,
    #[serde(skip)]
    deviation: Deviation,
}

/// Runs the command.
pub fn run(global: &Global, args: &Args) -> Result<(), CliError> {
    let rules = args.rules.as_deref().map_or_else(|| Ok(Rules::default()), rules)?;
    let checkpoint = Checkpoint::open(&args.input).map_err(CliError::failed)?;
    let plan = Plan::new(&checkpoint).map_err(CliError::failed)?;
    let chosen = plan.choose(&[&rules, &Rules::defaults(args.dtype)]).map_err(CliError::failed)?;
    notes(&plan, &chosen, &rules);
    let existing = if args.force { Existing::Replace } else { Existing::Refuse };
    let bar = progress::bar(0, global.json);
    bar.set_message("values");
    let written = plan.write(&chosen, &args.output, existing, &mut |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    report(&global.output(), (&plan, &chosen), &written.map_err(CliError::failed)?, &args.output)
}

fn rules(file: &Path) -> Result<Rules, CliError> {
    let name = printable(&file.display().to_string());
    let text = std::fs::read_to_string(file).map_err(|error| CliError::Failed(format!("{name}: {error}")))?;
    Rules::parse(&text).map_err(|error| CliError::Failed(format!("{name}: {error}")))
}

/// Says what is not as asked for, before the work starts.
fn notes(plan: &Plan<'_>, chosen: &Chosen, rules: &Rules) {
    let mut narrow: BTreeMap<(DType, DType, usize), Vec<&str>> = BTreeMap::new();
    let mut again: BTreeMap<DType, usize> = BTreeMap::new();
    for (tensor, choice) in plan.tensors().iter().zip(&chosen.choices) {
        if let Some(wanted) = choice.instead_of {
            narrow.entry((wanted, choice.dtype, tensor.columns())).or_default().push(&tensor.name);
        }
        if tensor.dtype.block_len() > 1 && tensor.dtype != choice.dtype {
            *again.entry(tensor.dtype).or_default() += 1;
        }
    }
    for ((wanted, dtype, columns), names) in narrow {
        let (count, block) = (names.len(), wanted.block_len());
        let shown = names.iter().take(SHOWN).map(|name| printable(name)).collect::<Vec<_>>().join(", ");
        let more = if count > SHOWN { ", .." } else { "" };
        let rows = format!("{} of rows of {columns} values, no multiple of {block}", tensors(count));
        eprintln!("varve: {rows}: {dtype} instead of {wanted} ({shown}{more})");
    }
    for (dtype, count) in again {
        eprintln!("varve: {} of type {dtype} get another one: the errors of both add up", tensors(count));
    }
    for rule in rules.iter().filter(|rule| chosen.idle.contains(&rule.line)) {
        let pattern = printable(&rule.pattern);
        eprintln!("varve: no tensor took the rule `{pattern}` of line {}", rule.line);
    }
}

fn tensors(count: usize) -> String {
    if count == 1 { "1 tensor".to_owned() } else { format!("{} tensors", thousands(count as u64)) }
}

fn report(
    output: &Output,
    (plan, chosen): (&Plan<'_>, &Chosen),
    written: &Written,
    file: &Path,
) -> Result<(), CliError> {
    let mut sums: BTreeMap<(DType, DType), Sum> = BTreeMap::new();
    let tensors = plan.tensors().iter().zip(&chosen.choices).zip(&written.deviations);
    for ((tensor, choice), &deviation) in tensors {
        let entry = Entry { name: tensor.name.clone(), shape: tensor.shape.clone(), dtype: choice.dtype };
        let sum = sums.entry((tensor.dtype, choice.dtype)).or_default();
        sum.tensors += 1;
        sum.elements += (tensor.rows() * tensor.columns()) as u64;
        sum.bytes += entry.data_bytes() as u64;
        sum.deviation = sum.deviation.plus(deviation);
        if output.is_json() {
            let (from, to) = (tensor.dtype.name(), choice.dtype.name());
            let (instead_of, relative_error) = (choice.instead_of.map(DType::name), deviation.relative());
            let (name, shape, bytes) = (&tensor.name, &tensor.shape, entry.data_bytes());
            output.row(&Row::Tensor { name, shape, from, to, instead_of, bytes, relative_error }, String::new)?;
        }
    }
    for ((from, to), sum) in &sums {
        let relative_error = sum.deviation.relative();
        output.row(&Row::Total { from: from.name(), to: to.name(), sum: *sum, relative_error }, || {
            let [tensors, elements, bytes] = [sum.tensors, sum.elements, sum.bytes].map(thousands);
            let size = format!("{tensors:>7} tensors  {elements:>17} values  {bytes:>17} B");
            let error = if from == to { String::new() } else { format!("  relative error {relative_error:.4}") };
            format!("{:16}  {size}{error}", if from == to { format!("{to}") } else { format!("{from} to {to}") })
        })?;
    }
    let (bytes, elements) = (written.bytes, sums.values().map(|sum| sum.elements).sum::<u64>());
    let bits_per_value = 8.0 * bytes as f64 / elements.max(1) as f64;
    let file = file.display().to_string();
    let name = printable(&file);
    output.row(&Row::File { file, bytes, bits_per_value }, || {
        format!("{name}: {} B, {bits_per_value:.2} bits a value", thousands(bytes))
    })?;
    Ok(())
}
