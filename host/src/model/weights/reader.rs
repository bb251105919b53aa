//! Reads tensors by name, checks their shapes, and keeps count of what was used.
//!
//! A model's layers are built twice: first dry, which only looks tensors up, so that all missing and unknown names are
//! known before a byte is copied; then for real.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use super::matrix::{Matrix, Segment, Storage};
use super::values::{format_of, is_readable, row_bytes, to_f32};
use crate::backend::{Buffer, Device};
use crate::model::{Checkpoint, DType, Format, OpenError, Tensor};
use crate::ops::weights::Kind;

/// Values that are converted at a time.
const STEP: usize = 1 << 22;

/// A tensor's name in the two formats, behind the prefix of its layer: Hugging Face, GGUF.
pub type Names = (&'static str, &'static str);

/// A run of rows of one tensor, seen as `[rows, last dimension]`.
pub struct Part {
    name: String,
    shape: Vec<usize>,
    rows: std::ops::Range<usize>,
    row_order: Option<Vec<usize>>,
    column_order: Option<Vec<usize>>,
}

impl Part {
    /// A whole tensor of this shape.
    pub fn new(name: String, shape: &[usize]) -> Self {
        let rows = shape[..shape.len() - 1].iter().product();
        Self { name, shape: shape.to_vec(), rows: 0..rows, row_order: None, column_order: None }
    }

    /// Only these rows.
    #[must_use]
    pub fn rows(self, rows: std::ops::Range<usize>) -> Self {
        Self { rows, ..self }
    }

    /// Row i is the stored row `order[i]`.
    #[must_use]
    pub fn with_rows(self, order: Option<Vec<usize>>) -> Self {
        Self { row_order: order, ..self }
    }

    /// Column i is the stored column `order[i]`.
    #[must_use]
    pub fn with_columns(self, order: Option<Vec<usize>>) -> Self {
        Self { column_order: order, ..self }
    }

    fn columns(&self) -> usize {
        self.shape[self.shape.len() - 1]
    }

    fn values(&self) -> usize {
        self.rows.len() * self.columns()
    }
}

/// A part, its tensor, and how the device can hold it.
type Found<'a, 'p> = (&'p Part, &'a Tensor, Storage);

/// The storage that all share.
fn shared(found: &[Found<'_, '_>]) -> Option<Storage> {
    let (_, _, first) = *found.first()?;
    found.iter().all(|&(.., storage)| storage == first).then_some(first)
}

/// Says what is wrong with a matrix without rows, or with rows that are no whole number of blocks.
fn whole(rows: usize, columns: usize, dtype: DType) -> Result<(), String> {
    let block = dtype.block_len();
    if rows == 0 {
        return Err("has no rows".into());
    }
    if columns == 0 || !columns.is_multiple_of(block) {
        return Err(format!(
            "has rows of {columns} values, and {dtype} has blocks of {block}: convert the model again"
        ));
    }
    Ok(())
}

/// Sizes that products with blocks meet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Values of the longest row in blocks.
    pub columns: usize,
    /// Values of the largest segment of blocks.
    pub values: usize,
}

impl Extent {
    fn with(self, [rows, columns]: [usize; 2]) -> Self {
        Self { columns: self.columns.max(columns), values: self.values.max(rows * columns) }
    }
}

/// Reads a checkpoint's tensors onto a device.
pub struct Reader<'a> {
    checkpoint: &'a Checkpoint,
    device: &'a Device,
    dry: bool,
    used: RefCell<BTreeSet<String>>,
    missing: RefCell<Vec<String>>,
    progress: &'a dyn Fn(u64),
    /// `model.` or `model.language_model.`, or nothing for GGUF.
    prefix: &'static str,
    extent: Cell<Extent>,
    bytes: Cell<u64>,
}

impl<'a> Reader<'a> {
    /// A reader; a dry one copies nothing. `progress` is told the bytes of each tensor that was read.
    pub fn new(checkpoint: &'a Checkpoint, device: &'a Device, dry: bool, progress: &'a dyn Fn(u64)) -> Self {
        let prefix = prefix_of(checkpoint);
        let (used, missing, extent, bytes) = Default::default();
        Self { checkpoint, device, dry, used, missing, progress, prefix, extent, bytes }
    }

    /// Names outside the layers.
    pub fn top(&self) -> Scope<'_> {
        Scope { reader: self, prefix: self.prefix.to_owned() }
    }

    /// Names without any prefix: the output head.
    pub fn bare(&self) -> Scope<'_> {
        Scope { reader: self, prefix: String::new() }
    }

    /// Names of layer `n`.
    pub fn layer(&self, n: usize) -> Scope<'_> {
        let prefix = if self.is_gguf() { format!("blk.{n}.") } else { format!("{}layers.{n}.", self.prefix) };
        Scope { reader: self, prefix }
    }

    /// Whether the file is a GGUF: value heads tiled, gains stored as they are multiplied.
    pub fn is_gguf(&self) -> bool {
        self.checkpoint.format() == Format::Gguf
    }

    /// The checkpoint's name, for messages.
    pub fn file_name(&self) -> String {
        self.checkpoint.name()
    }

    /// The device.
    pub fn device(&self) -> &Device {
        self.device
    }

    /// Memory of the matrices and tables that were read.
    pub fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// Sizes of the blocks that were read.
    pub fn extent(&self) -> Extent {
        self.extent.get()
    }

    /// After a dry run: refuses the checkpoint if tensors are missing, or are there that no part of the model uses.
    pub fn finish(self, layers: usize) -> Result<(), OpenError> {
        let used = self.used.into_inner();
        let unknown = |tensor: &&Tensor| !used.contains(&tensor.name) && !is_skipped(&tensor.name, layers);
        let unknown: Vec<String> = self.checkpoint.tensors().filter(unknown).map(|t| t.name.clone()).collect();
        let missing = self.missing.into_inner();
        if missing.is_empty() && unknown.is_empty() {
            return Ok(());
        }
        Err(OpenError::Tensors { file: self.checkpoint.name(), missing, unknown })
    }

    fn file(&self, tensor: &Tensor) -> String {
        self.checkpoint.file_of(tensor).to_owned()
    }

    /// The tensor, its shape and type checked; `None` in a dry run that misses it.
    fn find(&self, name: &str, shape: &[usize]) -> Result<Option<&'a Tensor>, OpenError> {
        let Some(tensor) = self.checkpoint.tensor(name) else {
            self.missing.borrow_mut().push(name.to_owned());
            if self.dry {
                return Ok(None);
            }
            let (file, missing) = (self.checkpoint.name(), vec![name.to_owned()]);
            return Err(OpenError::Tensors { file, missing, unknown: Vec::new() });
        };
        self.used.borrow_mut().insert(name.to_owned());
        let significant = |shape: &[usize]| shape.iter().copied().filter(|&n| n != 1).collect::<Vec<_>>();
        if significant(&tensor.shape) != significant(shape) {
            let (got, wanted) = (tensor.shape.clone(), shape.to_vec());
            return Err(OpenError::Shape { file: self.file(tensor), tensor: name.to_owned(), got, wanted });
        }
        Ok(Some(tensor))
    }

    fn readable(&self, tensor: &Tensor) -> Result<(), OpenError> {
        if is_readable(tensor.dtype) {
            return Ok(());
        }
        let (file, dtype) = (self.file(tensor), tensor.dtype);
        Err(OpenError::Unsupported { file, tensor: tensor.name.clone(), dtype })
    }

    /// The parts one below the other as one matrix, every row as it is stored; neighbours of one storage join.
    pub fn matrix(&self, parts: &[Part]) -> Result<Matrix, OpenError> {
        let stored = self.stored(parts)?;
        if self.dry {
            return Ok(Matrix::new(Vec::new()));
        }
        let runs = stored.chunk_by(|a, b| a.2 == b.2);
        let segments = runs.map(|run| self.segment(run, run[0].2)).collect::<Result<_, _>>()?;
        Ok(Matrix::new(segments))
    }

    /// The parts one below the other as one table, in their storage if they share one, else in f32.
    pub fn table(&self, parts: &[Part]) -> Result<Segment, OpenError> {
        let stored = self.stored(parts)?;
        let storage = shared(&stored);
        if let (None, false, Some((part, tensor, _))) = (storage, self.dry, stored.first()) {
            let (file, bytes) = (self.file(tensor), 4 * stored.iter().map(|(part, ..)| part.values()).sum::<usize>());
            tracing::warn!("{file}: `{}` and what belongs to it have several types: f32, {bytes} bytes", part.name);
        }
        self.segment(&stored, storage.unwrap_or(Storage::Plain(Kind::F32)))
    }

    /// The parts' tensors, checked, and how the device can hold them: those whose columns move lose their blocks.
    fn stored<'p>(&self, parts: &'p [Part]) -> Result<Vec<Found<'a, 'p>>, OpenError> {
        let mut found = Vec::with_capacity(parts.len());
        for part in parts {
            let Some(tensor) = self.find(&part.name, &part.shape)? else { continue };
            self.readable(tensor)?;
            let what = |why: String| format!("tensor `{}` {why}", tensor.name);
            whole(part.rows.len(), part.columns(), tensor.dtype)
                .map_err(|why| OpenError::Contradiction { file: self.file(tensor), what: what(why) })?;
            let storage = match (tensor.dtype, format_of(tensor.dtype)) {
                (DType::F16, _) => Storage::Plain(Kind::F16),
                (DType::BF16, _) => Storage::Plain(Kind::Bf16),
                (_, Some(format)) if part.column_order.is_none() => Storage::Blocks(format),
                _ => Storage::Plain(Kind::F32),
            };
            found.push((part, tensor, storage));
        }
        Ok(found)
    }

    /// The parts as one segment of this storage; without rows in a dry run.
    fn segment(&self, parts: &[Found<'_, '_>], storage: Storage) -> Result<Segment, OpenError> {
        let columns = parts.first().map_or(0, |(part, ..)| part.columns());
        if self.dry {
            return Ok(Segment::alloc(self.device, Storage::Plain(Kind::F32), [0, columns])?);
        }
        let rows: usize = parts.iter().map(|(part, ..)| part.rows.len()).sum();
        let mut segment = Segment::alloc(self.device, storage, [rows, columns])?;
        self.bytes.set(self.bytes.get() + segment.bytes() as u64);
        if matches!(storage, Storage::Blocks(_)) {
            self.extent.set(self.extent.get().with([rows, columns]));
        }
        let mut first = 0;
        for (part, tensor, _) in parts {
            self.copy(part, tensor, storage, &mut segment, first)?;
            first += part.rows.len();
        }
        Ok(segment)
    }

    /// Copies a part to rows `to..` of a segment, a few rows at a time.
    fn copy(
        &self,
        part: &Part,
        tensor: &Tensor,
        storage: Storage,
        segment: &mut Segment,
        to: usize,
    ) -> Result<(), OpenError> {
        let columns = part.columns();
        let bytes = self.checkpoint.bytes(tensor);
        let row_len = row_bytes(tensor.dtype, columns);
        let step = (STEP / columns).max(1);
        let (mut singles, mut halves, mut blocks, mut row) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut first = part.rows.start;
        while first < part.rows.end {
            let end = (first + step).min(part.rows.end);
            singles.clear();
            halves.clear();
            blocks.clear();
            for r in first..end {
                let stored = part.row_order.as_ref().map_or(r, |order| order[r]);
                let stored = &bytes[stored * row_len..(stored + 1) * row_len];
                match (storage, &part.column_order) {
                    (Storage::Blocks(_), _) => blocks.extend_from_slice(stored),
                    (Storage::Plain(Kind::F32), None) => to_f32(tensor.dtype, stored, &mut singles),
                    (Storage::Plain(Kind::F32), Some(order)) => {
                        row.clear();
                        to_f32(tensor.dtype, stored, &mut row);
                        singles.extend(order.iter().map(|&c| row[c]));
                    }
                    (_, None) => halves.extend(stored.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]]))),
                    (_, Some(order)) => {
                        halves.extend(order.iter().map(|&c| u16::from_le_bytes([stored[2 * c], stored[2 * c + 1]])));
                    }
                }
            }
            let row = to + first - part.rows.start;
            match storage {
                Storage::Blocks(_) => segment.write_blocks(row * row_len, &blocks)?,
                Storage::Plain(Kind::F32) => segment.write_f32(row * columns, &singles)?,
                Storage::Plain(_) => segment.write_bits(row * columns, &halves)?,
            }
            (self.progress)(((end - first) * row_len) as u64);
            first = end;
        }
        Ok(())
    }

    /// All values of a tensor as f32, in its own order; zeros in a dry run.
    pub fn values(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, OpenError> {
        let len = shape.iter().product();
        let Some(tensor) = self.find(name, shape)? else { return Ok(vec![0.0; len]) };
        self.readable(tensor)?;
        if self.dry {
            return Ok(vec![0.0; len]);
        }
        let mut values = Vec::with_capacity(len);
        to_f32(tensor.dtype, self.checkpoint.bytes(tensor), &mut values);
        (self.progress)(tensor.n_bytes() as u64);
        Ok(values)
    }

    /// The shape of a tensor that is there.
    pub fn shape_of(&self, name: &str) -> Option<&[usize]> {
        self.checkpoint.tensor(name).map(|tensor| tensor.shape.as_slice())
    }

    /// The i64 values of a tensor, if it is there.
    pub fn integers(&self, name: &str, len: usize) -> Result<Option<Vec<u64>>, OpenError> {
        let Some(tensor) = self.checkpoint.tensor(name) else { return Ok(None) };
        self.find(name, &[len])?;
        if tensor.dtype != DType::I64 {
            let (file, dtype) = (self.file(tensor), tensor.dtype);
            return Err(OpenError::Contradiction {
                file,
                what: format!("tensor `{name}` is {dtype:?}, it must be I64"),
            });
        }
        let value = |b: &[u8]| u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]);
        Ok(Some(self.checkpoint.bytes(tensor).chunks_exact(8).map(value).collect()))
    }
}

/// What stands before most names of a checkpoint.
pub fn prefix_of(checkpoint: &Checkpoint) -> &'static str {
    let nested = || checkpoint.tensors().any(|tensor| tensor.name.starts_with("model.language_model."));
    match checkpoint.format() {
        Format::Gguf => "",
        Format::Safetensors if nested() => "model.language_model.",
        Format::Safetensors => "model.",
    }
}

/// Tensors that are known and left aside: the vision tower and draft layers.
pub fn is_skipped(name: &str, layers: usize) -> bool {
    let draft_block = name.strip_prefix("blk.").and_then(|rest| rest.split('.').next()?.parse::<usize>().ok());
    name.starts_with("model.visual.") || name.starts_with("mtp.") || draft_block.is_some_and(|block| block >= layers)
}

/// Names behind a prefix.
pub struct Scope<'a> {
    reader: &'a Reader<'a>,
    prefix: String,
}

impl Scope<'_> {
    /// The reader.
    pub fn reader(&self) -> &Reader<'_> {
        self.reader
    }

    /// The full name in the checkpoint's format.
    pub fn name(&self, (hf, gguf): Names) -> String {
        format!("{}{}", self.prefix, if self.reader.is_gguf() { gguf } else { hf })
    }

    /// Whether the checkpoint has the tensor.
    pub fn has(&self, names: Names) -> bool {
        self.reader.checkpoint.tensor(&self.name(names)).is_some()
    }

    /// A whole tensor as a part of a matrix.
    pub fn part(&self, names: Names, shape: &[usize]) -> Part {
        Part::new(self.name(names), shape)
    }

    /// A tensor as a matrix.
    pub fn matrix(&self, names: Names, shape: [usize; 2]) -> Result<Matrix, OpenError> {
        self.reader.matrix(&[self.part(names, &shape)])
    }

    /// A tensor as a table.
    pub fn table(&self, names: Names, shape: [usize; 2]) -> Result<Segment, OpenError> {
        self.reader.table(&[self.part(names, &shape)])
    }

    /// The values of a tensor.
    pub fn values(&self, names: Names, shape: &[usize]) -> Result<Vec<f32>, OpenError> {
        self.reader.values(&self.name(names), shape)
    }

    /// A vector as stored, on the device.
    pub fn vector(&self, names: Names, len: usize) -> Result<Buffer<f32>, OpenError> {
        Ok(self.reader.device.upload(&self.values(names, &[len])?)?)
    }

    /// The gain of a norm as it is multiplied: GGUF files store that, the others what is to be added to 1.
    pub fn gain(&self, names: Names, len: usize) -> Result<Buffer<f32>, OpenError> {
        let mut gain = self.values(names, &[len])?;
        if !self.reader.is_gguf() {
            gain.iter_mut().for_each(|w| *w += 1.0);
        }
        Ok(self.reader.device.upload(&gain)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_are_no_blocks_are_refused() {
        let error = |rows, columns, dtype| whole(rows, columns, dtype).expect_err("no matrix");
        assert_eq!(whole(1, 256, DType::Q4_K).and(whole(3, 1, DType::BF16)), Ok(()));
        assert_eq!(error(0, 256, DType::Q4_K), "has no rows");
        assert!(error(3, 320, DType::Q4_K).starts_with("has rows of 320 values, and Q4_K has blocks of 256"));
        assert!(error(3, 0, DType::F32).starts_with("has rows of 0 values"));
    }

    #[test]
    fn the_extent_holds_the_longest_row_and_the_most_values() {
        let extent = Extent::default().with([10, 64]).with([2, 256]).with([3, 32]);
        assert_eq!(extent, Extent { columns: 256, values: 640 });
    }
}
