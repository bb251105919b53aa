//! `varve inspect`: metadata and tensors of a model's files, which are checked in full on the way.
//!
//! What the files say is printed with control characters escaped; arrays and long texts are abbreviated, with their
//! length.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use serde::Serialize;

use super::output::{Output, thousands};
use super::{CliError, Global};
use crate::model::{Checkpoint, DType, Format, Tensor, Value, printable};

/// Elements of an array that are shown.
const SHOWN: usize = 6;
/// Widest column of names; longer names push their row to the right.
const WIDEST: usize = 60;

/// Arguments of `varve inspect`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A folder of safetensors, a .safetensors file or its index, or a .gguf file (of a split set: any of its files)
    file: PathBuf,
    /// List the metadata only
    #[arg(long, conflicts_with = "tensors")]
    metadata: bool,
    /// List the tensors only
    #[arg(long)]
    tensors: bool,
    /// List only keys and tensors whose name contains this text
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Row<'a> {
    File {
        file: &'a str,
        format: &'static str,
        bytes: usize,
    },
    Metadata {
        key: &'a str,
        #[serde(rename = "type")]
        type_name: String,
        /// Elements of an array, of which `value` has the first.
        #[serde(skip_serializing_if = "Option::is_none")]
        length: Option<usize>,
        value: Value,
    },
    Tensor {
        name: &'a str,
        dtype: &'static str,
        shape: &'a [usize],
        bytes: usize,
        offset: usize,
        file: &'a str,
    },
    /// All listed tensors of one type.
    Total {
        dtype: &'static str,
        #[serde(flatten)]
        sum: Sum,
    },
}

#[derive(Clone, Copy, Default, Serialize)]
struct Sum {
    tensors: u64,
    elements: u64,
    bytes: u64,
}

impl Sum {
    fn add(&mut self, tensor: &Tensor) {
        self.tensors += 1;
        // Tensors share no bytes, so bytes add up to the files' at most; a value takes a sixteenth of a byte or more.
        self.elements += tensor.n_elements() as u64;
        self.bytes += tensor.n_bytes() as u64;
    }
}

/// Runs the command.
pub fn run(global: &Global, args: &Args) -> Result<(), CliError> {
    let checkpoint = Checkpoint::open(&args.file).map_err(CliError::failed)?;
    let format = match checkpoint.format() {
        Format::Gguf => "GGUF",
        Format::Safetensors => "safetensors",
    };
    let list = List { output: global.output(), args, checkpoint: &checkpoint };
    for (file, bytes) in checkpoint.files() {
        list.row(&Row::File { file, format, bytes }, || format!("{file}: {format}, {} B", thousands(bytes as u64)))?;
    }
    if !args.tensors {
        list.metadata()?;
    }
    if !args.metadata {
        list.tensors()?;
    }
    Ok(())
}

struct List<'a> {
    output: Output,
    args: &'a Args,
    checkpoint: &'a Checkpoint,
}

impl List<'_> {
    fn row(&self, row: &Row, text: impl FnOnce() -> String) -> Result<(), CliError> {
        let line =
            if self.output.is_json() { ascii(&serde_json::to_string(row).map_err(CliError::failed)?) } else { text() };
        Ok(self.output.line(&line)?)
    }

    /// Whether the filter lets the name through.
    fn wants(&self, name: &str) -> bool {
        name.contains(&self.args.filter)
    }

    fn metadata(&self) -> Result<(), CliError> {
        let notes = self.checkpoint.notes().iter().map(|(key, text)| (key.as_str(), Value::String(text.clone())));
        let notes: Vec<(&str, Value)> = notes.collect();
        let gguf = self.checkpoint.gguf().into_iter().flat_map(|metadata| metadata.iter());
        let pairs = gguf.chain(notes.iter().map(|(key, value)| (*key, value)));
        let pairs: Vec<(&str, &Value)> = pairs.filter(|(key, _)| self.wants(key)).collect();
        let width = width(pairs.iter().map(|(key, _)| *key));
        for (key, value) in pairs {
            let (first, length) = match value {
                Value::Array(array) => (Value::Array(array.first(SHOWN)), Some(array.len())),
                other => (other.clone(), None),
            };
            let type_name = value.type_name();
            let text = format!("  {:width$}  {type_name:12}  {value}", printable(key));
            self.row(&Row::Metadata { key, type_name, length, value: first }, || text)?;
        }
        Ok(())
    }

    fn tensors(&self) -> Result<(), CliError> {
        let tensors: Vec<&Tensor> = self.checkpoint.tensors().filter(|tensor| self.wants(&tensor.name)).collect();
        let width = width(tensors.iter().map(|tensor| tensor.name.as_str()));
        let mut sums: BTreeMap<DType, Sum> = BTreeMap::new();
        let mut all = Sum::default();
        for tensor in tensors {
            sums.entry(tensor.dtype).or_default().add(tensor);
            all.add(tensor);
            self.tensor(tensor, width)?;
        }
        let totals = sums.into_iter().map(|(dtype, sum)| (dtype.name(), sum));
        for (dtype, sum) in totals.chain([("all", all)]) {
            self.row(&Row::Total { dtype, sum }, || {
                let Sum { tensors, elements, bytes } = sum;
                let [tensors, elements, bytes] = [tensors, elements, bytes].map(thousands);
                format!("{dtype:8}  {tensors:>7} tensors  {elements:>17} values  {bytes:>17} B")
            })?;
        }
        Ok(())
    }

    fn tensor(&self, tensor: &Tensor, width: usize) -> Result<(), CliError> {
        let Tensor { name, dtype, shape, .. } = tensor;
        let (bytes, offset, file) = (tensor.n_bytes(), tensor.offset(), self.checkpoint.file_of(tensor));
        self.row(&Row::Tensor { name, dtype: dtype.name(), shape, bytes, offset, file }, || {
            let [size, at] = [bytes, offset].map(|n| thousands(n as u64));
            format!("  {:width$}  {dtype:8}  {:20}  {size:>15} B  at {at}", printable(name), format!("{shape:?}"))
        })
    }
}

fn width<'a>(names: impl Iterator<Item = &'a str>) -> usize {
    names.map(|name| name.chars().count()).max().unwrap_or(0).min(WIDEST)
}

/// JSON text with everything beyond printable ASCII as `\u` escapes: such characters lie in its strings only.
fn ascii(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if c == ' ' || c.is_ascii_graphic() {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}"); // writing to a string cannot fail
            }
        }
    }
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn json_stays_the_same_in_ascii() {
        let value = serde_json::json!({ "a\u{9b}2J": "é \u{1f600} \u{7f} \u{1b} \"q\" \\ plain" });
        let escaped = ascii(&value.to_string());
        assert!(escaped.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{escaped}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), value);
    }
}
