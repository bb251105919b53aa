//! Recurrence cases from safetensors files, with the float64 results that came with them.
//!
//! The files follow the HF conventions: q, k `[T][key heads][128]`, v `[T][value heads][columns]`, g (log decay) and beta
//! `[T][value heads]`, state0 and state_f64 `[value heads][128][columns]`, out_f64 as v. Value head h reads key head
//! h div rep, and q already carries 1/sqrt(128). An array `columns` names the columns that a file holds; all others are
//! zero, in inputs and results. Numbers are F32 or F64.
//!
//! Here value head h reads key head h mod key heads, and q is not scaled. Undoing the scale of an F32 q rounds each
//! element, a relative change of 2^-24 at most, so an output may differ from the file's by 2^-24 times the sum of
//! |S q| / sqrt(128): [`Golden::output_slack`] is that bound over the largest output, [`Golden::state`] is not touched.

use std::path::{Path, PathBuf};

use safetensors::{Dtype, SafeTensors};
use varve::proof::case::{RecCase, RecShape};
use varve::proof::reference::delta::recurrence;
use varve_gpu::geometry::HEAD_DIM;

/// A case and its results.
pub struct Golden {
    /// File name without its ending.
    pub name: String,
    /// Inputs in this project's layout, rows without gaps.
    pub case: RecCase,
    /// `[T][value heads * 128]`.
    pub y: Vec<f64>,
    /// `[128][value heads][128]`.
    pub state: Vec<f64>,
    /// What rounding q may change in an output, relative to the largest.
    pub output_slack: f64,
}

/// A file that holds no case.
#[derive(Debug, thiserror::Error)]
#[error("{}: {what}", .file.display())]
pub struct GoldenError {
    file: PathBuf,
    what: String,
}

/// The project's own file, made by tests/golden/delta_columns.py.
///
/// # Errors
/// As [`load`].
pub fn own() -> Result<Golden, GoldenError> {
    load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/delta_columns.safetensors"))
}

/// Every safetensors file in the folder that `VARVE_DELTA_CASES` names, by name; none where it is not set.
///
/// # Errors
/// As [`load`], and a folder that cannot be read.
pub fn given() -> Result<Vec<Golden>, GoldenError> {
    let Some(folder) = std::env::var_os("VARVE_DELTA_CASES").map(PathBuf::from) else { return Ok(Vec::new()) };
    let fail = |e: std::io::Error| GoldenError { file: folder.clone(), what: e.to_string() };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        if path.extension().is_some_and(|end| end == "safetensors") {
            files.push(path);
        }
    }
    files.sort();
    files.iter().map(|file| load(file)).collect()
}

/// Reads one file.
///
/// # Errors
/// Names the file and the array that is missing or has another shape or type.
pub fn load(file: &Path) -> Result<Golden, GoldenError> {
    let fail = |what: String| GoldenError { file: file.to_owned(), what };
    let bytes = std::fs::read(file).map_err(|e| fail(e.to_string()))?;
    let arrays = Arrays { tensors: SafeTensors::deserialize(&bytes).map_err(|e| fail(e.to_string()))? };
    let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    arrays.golden(name).map_err(fail)
}

struct Arrays<'a> {
    tensors: SafeTensors<'a>,
}

impl Arrays<'_> {
    /// Values of an array and its shape of `N` dimensions.
    fn get<const N: usize>(&self, name: &str) -> Result<(Vec<f64>, [usize; N]), String> {
        let tensor = self.tensors.tensor(name).map_err(|e| format!("`{name}`: {e}"))?;
        let shape = tensor.shape().try_into().map_err(|_| format!("`{name}` has shape {:?}", tensor.shape()))?;
        let data = tensor.data();
        let values = match tensor.dtype() {
            Dtype::F32 => data.as_chunks().0.iter().map(|&x| f64::from(f32::from_le_bytes(x))).collect(),
            Dtype::F64 => data.as_chunks().0.iter().map(|&x| f64::from_le_bytes(x)).collect(),
            other => return Err(format!("`{name}` is {other:?}")),
        };
        Ok((values, shape))
    }

    /// Values of an array that must have this shape.
    fn shaped<const N: usize>(&self, name: &str, shape: [usize; N]) -> Result<Vec<f64>, String> {
        let (values, got) = self.get::<N>(name)?;
        if got == shape { Ok(values) } else { Err(format!("`{name}` has shape {got:?}, expected {shape:?}")) }
    }

    fn columns(&self, held: usize) -> Result<Vec<usize>, String> {
        if self.tensors.tensor("columns").is_err() {
            return if held == HEAD_DIM { Ok((0..HEAD_DIM).collect()) } else { Err(format!("{held} columns unnamed")) };
        }
        let named = self.shaped("columns", [held])?;
        let index = |x: &f64| (x.fract() == 0.0 && (0.0..128.0).contains(x)).then_some(*x as usize);
        named.iter().map(|x| index(x).ok_or_else(|| format!("column {x}"))).collect()
    }

    fn golden(&self, name: String) -> Result<Golden, String> {
        let (v, [tokens, value_heads, held]) = self.get("v")?;
        let (q, [_, key_heads, _]) = self.get::<3>("q")?;
        if key_heads == 0 || value_heads % key_heads != 0 {
            return Err(format!("{key_heads} key heads, {value_heads} value heads"));
        }
        let columns = self.columns(held)?;
        self.shaped("q", [tokens, key_heads, HEAD_DIM])?;
        let k = self.shaped("k", [tokens, key_heads, HEAD_DIM])?;
        let (gate, beta) = (self.shaped("g", [tokens, value_heads])?, self.shaped("beta", [tokens, value_heads])?);
        let state = self.shaped("state0", [value_heads, HEAD_DIM, held])?;
        let (y, state_after) = (
            self.shaped("out_f64", [tokens, value_heads, held])?,
            self.shaped("state_f64", [value_heads, HEAD_DIM, held])?,
        );

        let grouped = |head: usize| head % key_heads * (value_heads / key_heads) + head / key_heads;
        let rows = |values: &[f64], t: usize, out: &mut [f64]| {
            for head in 0..value_heads {
                for (c, &column) in columns.iter().enumerate() {
                    out[head * HEAD_DIM + column] = values[(t * value_heads + grouped(head)) * held + c];
                }
            }
        };
        let states = |values: &[f64]| {
            let mut out = vec![0.0; HEAD_DIM * value_heads * HEAD_DIM];
            for r in 0..HEAD_DIM {
                for head in 0..value_heads {
                    for (c, &column) in columns.iter().enumerate() {
                        out[(r * value_heads + head) * HEAD_DIM + column] =
                            values[(grouped(head) * HEAD_DIM + r) * held + c];
                    }
                }
            }
            out
        };

        let shape = RecShape::dense(key_heads, value_heads, tokens);
        let (key_width, width) = (key_heads * HEAD_DIM, shape.y_width());
        let mut case = RecCase {
            shape,
            qkv: vec![0.0; tokens * shape.qkv_stride],
            gate: Vec::new(),
            beta: Vec::new(),
            state: states(&state).iter().map(|&x| x as f32).collect(),
        };
        let mut outputs = vec![0.0; tokens * width];
        for t in 0..tokens {
            let row = &mut case.qkv[t * shape.qkv_stride..][..shape.qkv_width()];
            for i in 0..key_width {
                row[i] = (q[t * key_width + i] * (HEAD_DIM as f64).sqrt()) as f32;
                row[key_width + i] = k[t * key_width + i] as f32;
            }
            let mut values = vec![0.0; width];
            rows(&v, t, &mut values);
            row[2 * key_width..].iter_mut().zip(values).for_each(|(x, v)| *x = v as f32);
            rows(&y, t, &mut outputs[t * width..][..width]);
            case.gate.extend((0..value_heads).map(|head| gate[t * value_heads + grouped(head)] as f32));
            case.beta.extend((0..value_heads).map(|head| beta[t * value_heads + grouped(head)] as f32));
        }
        let golden = Golden { name, case, y: outputs, state: states(&state_after), output_slack: 0.0 };
        Ok(Golden { output_slack: golden.slack(q.iter().all(|&q| f64::from(q as f32) == q)), ..golden })
    }
}

impl Golden {
    /// The sum of |S q| is at most |S column| |q| <= sqrt(128) max|S|, so the change is at most 2^-24 max|S|.
    fn slack(&self, rounded: bool) -> f64 {
        if !rounded {
            return 0.0;
        }
        let peak = recurrence(&self.case).peak.into_iter().fold(0.0, f64::max);
        let largest = self.y.iter().fold(0.0, |a: f64, y| a.max(y.abs()));
        0.5f64.powi(24) * peak / largest
    }
}
