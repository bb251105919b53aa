//! Writes the file: under another name first, so that what stands under the right one is whole.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::super::gguf::{ALIGNMENT, Entry, head};
use super::super::{DType, Value, printable, quant, to_f32};
use super::{Chosen, ExportError, Plan, Planned, QUANTIZATION_VERSION};

/// Values that are converted at a time.
const STEP: usize = 1 << 22;
/// Values whose errors a thread adds up at a time.
const SUMMED: usize = 1 << 16;
/// The revision of the block formats, which has been 2 since GGUF exists.
const REVISION: u32 = 2;

/// What to do where there is a file of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Leave it, and write nothing.
    Refuse,
    /// Put the new one in its place.
    Replace,
}

/// A file that was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// Its size.
    pub bytes: u64,
    /// Of each tensor, in the order of the plan.
    pub deviations: Vec<Deviation>,
}

/// What other values a tensor has now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Deviation {
    /// Sum of the squares of the values.
    pub squares: f64,
    /// Sum of the squares of their changes.
    pub changes: f64,
}

impl Deviation {
    /// Both sums.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { squares: self.squares + other.squares, changes: self.changes + other.changes }
    }

    /// Root mean square of the changes, relative to that of the values.
    #[must_use]
    pub fn relative(self) -> f64 {
        if self.squares > 0.0 { (self.changes / self.squares).sqrt() } else { 0.0 }
    }
}

/// A file under a passing name, which goes away unless it is finished.
struct Partial {
    path: PathBuf,
    finished: bool,
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.finished {
            // What failed before has been reported; a file that cannot be removed either adds nothing to it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Plan<'_> {
    /// Writes the file, and tells `progress` how many of how many values are done.
    ///
    /// # Errors
    /// Values that a type does not hold; a file that is there, or that the system does not take. Nothing is left behind.
    ///
    /// # Panics
    /// Where `chosen` is of another plan.
    pub fn write(
        &self,
        chosen: &Chosen,
        file: &Path,
        existing: Existing,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Written, ExportError> {
        assert_eq!(chosen.choices.len(), self.tensors.len());
        let name = printable(&file.display().to_string());
        let io = |source| ExportError::Io { file: name.clone(), source };
        self.check_place(file, &name, existing)?;
        let mut beside = file.as_os_str().to_owned();
        beside.push(format!(".{}.partial", std::process::id()));
        let mut partial = Partial { path: beside.into(), finished: false };
        let mut out = Output { to: BufWriter::new(File::create(&partial.path).map_err(io)?), bytes: 0 };
        let types = || chosen.choices.iter().map(|choice| choice.dtype);
        let entry = |(tensor, dtype): (&Planned<'_>, DType)| Entry {
            name: tensor.name.clone(),
            shape: tensor.shape.clone(),
            dtype,
        };
        let entries: Vec<Entry> = self.tensors.iter().zip(types()).map(entry).collect();
        out.put(&head(&self.metadata_of(&entries), &entries)).map_err(io)?;
        let (mut done, total) = (0, self.tensors.iter().map(|t| (t.rows() * t.columns()) as u64).sum());
        let mut deviations = Vec::with_capacity(entries.len());
        for (tensor, dtype) in self.tensors.iter().zip(types()) {
            let mut deviation = Deviation::default();
            let step = (STEP / tensor.columns()).max(1);
            for first in (0..tensor.rows()).step_by(step) {
                let rows = first..(first + step).min(tensor.rows());
                done += (rows.len() * tensor.columns()) as u64;
                let (bytes, changed) = self.rows(tensor, dtype, rows)?;
                out.put(&bytes).map_err(io)?;
                deviation = deviation.plus(changed);
                progress(done, total);
            }
            out.fill_up().map_err(io)?;
            deviations.push(deviation);
        }
        out.to.flush().and_then(|()| out.to.get_ref().sync_all()).map_err(io)?;
        self.check_place(file, &name, existing)?; // it took a while
        std::fs::rename(&partial.path, file).map_err(io)?;
        partial.finished = true;
        Ok(Written { bytes: out.bytes, deviations })
    }

    /// Refuses names of files that are there.
    fn check_place(&self, file: &Path, name: &str, existing: Existing) -> Result<(), ExportError> {
        let Ok(place) = file.canonicalize() else { return Ok(()) }; // nothing is there
        if self.checkpoint.files().any(|(input, _)| Path::new(input).canonicalize().is_ok_and(|input| input == place)) {
            return Err(ExportError::Input { file: name.to_owned() });
        }
        match existing {
            Existing::Replace => Ok(()),
            Existing::Refuse => Err(ExportError::Exists { file: name.to_owned() }),
        }
    }

    /// The metadata, with what they say of the types.
    fn metadata_of(&self, entries: &[Entry]) -> Vec<(String, Value)> {
        let values = |dtype: DType| -> usize {
            let of = entries.iter().filter(|entry| entry.dtype == dtype);
            of.map(|entry| entry.shape.iter().product::<usize>()).sum()
        };
        let most = entries.iter().map(|entry| entry.dtype).max_by_key(|&dtype| (values(dtype), dtype));
        let mut metadata = self.metadata.clone();
        let file_type = most.and_then(file_type).map(|number| ("general.file_type".to_owned(), Value::U32(number)));
        metadata.extend(file_type);
        metadata.push((QUANTIZATION_VERSION.to_owned(), Value::U32(REVISION)));
        metadata
    }

    /// The bytes of some rows, and what it changed.
    fn rows(
        &self,
        tensor: &Planned<'_>,
        dtype: DType,
        rows: Range<usize>,
    ) -> Result<(Vec<u8>, Deviation), ExportError> {
        let (mut bytes, mut values) = (Vec::new(), Vec::new());
        if tensor.is_stored_as(dtype) {
            tensor.bytes(self.checkpoint, rows, &mut bytes);
            return Ok((bytes, Deviation::default()));
        }
        let before = rows.start * tensor.columns();
        tensor.values(self.checkpoint, rows, &mut values);
        let refused = |refused: quant::Refused| ExportError::Value {
            tensor: tensor.name.clone(),
            refused: refused.behind(before),
        };
        let bytes = quant::quantize(dtype, &values).map_err(refused)?;
        let deviation = deviation(dtype, &values, &bytes);
        Ok((bytes, deviation))
    }
}

/// What the bytes' values differ from these by.
fn deviation(dtype: DType, values: &[f32], bytes: &[u8]) -> Deviation {
    let stored = SUMMED / dtype.block_len() * dtype.block_bytes();
    let parts = values.par_chunks(SUMMED).zip(bytes.par_chunks(stored)).map(|(values, bytes)| {
        let mut now = Vec::with_capacity(values.len());
        to_f32(dtype, bytes, &mut now);
        let square = |x: f32| f64::from(x) * f64::from(x);
        let changes = values.iter().zip(&now).map(|(a, b)| square(a - b)).sum();
        Deviation { squares: values.iter().map(|&x| square(x)).sum(), changes }
    });
    // Added up in their order, so that the figures do not depend on the threads.
    parts.collect::<Vec<_>>().into_iter().fold(Deviation::default(), Deviation::plus)
}

/// The number of a file of mostly this type in `general.file_type`, where there is one.
fn file_type(dtype: DType) -> Option<u32> {
    Some(match dtype {
        DType::F32 => 0,
        DType::F16 => 1,
        DType::Q8_0 => 7,
        DType::Q3_K => 11,
        DType::Q4_K => 14,
        DType::Q5_K => 16,
        DType::Q6_K => 18,
        DType::IQ2_XS => 20,
        DType::IQ4_NL => 25,
        DType::IQ3_S => 26,
        DType::IQ4_XS => 30,
        DType::BF16 => 32,
        _ => return None,
    })
}

/// A file in the making, and its size up to now.
struct Output {
    to: BufWriter<File>,
    bytes: u64,
}

impl Output {
    fn put(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.bytes += bytes.len() as u64;
        self.to.write_all(bytes)
    }

    /// Zeros up to where the next tensor may begin.
    fn fill_up(&mut self) -> std::io::Result<()> {
        let missing = self.bytes.next_multiple_of(ALIGNMENT as u64) - self.bytes;
        self.put(&[0; ALIGNMENT][..missing as usize])
    }
}
