//! Data of tensors against the file that holds it: where each lies, and that no two share bytes.

use super::{DType, LoadError};

/// Most tensors that are read from one file or set; memory for the list stays under 64 MiB.
pub(super) const MAX_TENSORS: u64 = 1 << 18;
/// Most bytes of a tensor's name.
pub(super) const MAX_NAME: u64 = 1 << 12;

/// A tensor as its file's header describes it, before and after its data is checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// Unique in its file.
    pub name: String,
    /// Outermost dimension first.
    pub shape: Vec<usize>,
    /// Element type.
    pub dtype: DType,
    /// First byte of its data: in the data section while the header is read, in the file afterwards.
    pub(super) begin: u64,
    /// Bytes of its data.
    pub(super) len: u64,
}

impl TensorInfo {
    /// Bytes of the file that hold the data.
    #[must_use]
    pub fn range(&self) -> std::ops::Range<usize> {
        // Both fit: the range was held against the file's length, which is a usize.
        self.begin as usize..(self.begin + self.len) as usize
    }
}

/// Bytes of a tensor of this shape (outermost dimension first) and type.
///
/// # Errors
/// An empty dimension, a product beyond 64 bits, a row that is no whole number of blocks.
pub(super) fn size(file: &str, tensor: &str, shape: &[u64], dtype: DType) -> Result<u64, LoadError> {
    let (file, tensor) = (|| file.to_owned(), || tensor.to_owned());
    let row = shape.last().copied().unwrap_or(1);
    if shape.contains(&0) {
        return Err(LoadError::EmptyTensor { file: file(), tensor: tensor(), shape: shape.to_vec() });
    }
    let elements = shape.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim));
    let block = dtype.block_len();
    if elements.is_some() && !row.is_multiple_of(block as u64) {
        return Err(LoadError::Row { file: file(), tensor: tensor(), dtype, row, block });
    }
    elements
        .map(|elements| elements / block as u64)
        .and_then(|blocks| blocks.checked_mul(dtype.block_bytes() as u64))
        .ok_or_else(|| LoadError::Size { file: file(), tensor: tensor(), shape: shape.to_vec() })
}

/// Sorts the tensors by name and refuses a name that is there twice.
pub(super) fn sort(file: &str, tensors: &mut [TensorInfo]) -> Result<(), LoadError> {
    tensors.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    match tensors.windows(2).find(|pair| pair[0].name == pair[1].name) {
        Some(pair) => Err(LoadError::Duplicate { file: file.to_owned(), what: "tensor", name: pair[0].name.clone() }),
        None => Ok(()),
    }
}

/// Holds every range against the file of `len` bytes whose data starts at byte `start`, and against its neighbours.
/// Afterwards `begin` counts from the start of the file. With `dense` the ranges must fill the rest of the file.
pub(super) fn place(
    file: &str,
    tensors: &mut [TensorInfo],
    start: u64,
    len: u64,
    dense: bool,
) -> Result<(), LoadError> {
    let end = |t: &TensorInfo| u128::from(start) + u128::from(t.begin) + u128::from(t.len);
    if let Some(last) = tensors.iter().filter(|t| end(t) > u128::from(len)).max_by_key(|t| end(t)) {
        return Err(LoadError::Truncated { file: file.to_owned(), tensor: last.name.clone(), end: end(last), len });
    }
    let mut order: Vec<u32> = (0..).take(tensors.len()).collect();
    order.sort_unstable_by_key(|&i| (tensors[i as usize].begin, tensors[i as usize].len));
    let (mut at, mut before) = (0, None);
    for &i in &order {
        let tensor = &tensors[i as usize];
        if tensor.begin < at {
            let first = before.map_or("", |i: u32| &tensors[i as usize].name);
            return Err(LoadError::Overlap {
                file: file.to_owned(),
                first: first.to_owned(),
                second: tensor.name.clone(),
                from: tensor.begin,
                to: at.min(tensor.begin + tensor.len),
            });
        }
        if dense && tensor.begin > at {
            return Err(LoadError::Gap { file: file.to_owned(), from: at, to: tensor.begin });
        }
        (at, before) = (tensor.begin + tensor.len, Some(i)); // no overflow: the end lies in the file
    }
    if dense && start + at < len {
        return Err(LoadError::Gap { file: file.to_owned(), from: at, to: len - start });
    }
    for tensor in tensors {
        tensor.begin += start;
    }
    Ok(())
}
