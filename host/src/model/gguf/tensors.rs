//! Tensor infos of a GGUF file.

use super::cursor::Cursor;
use crate::model::ranges::{self, MAX_NAME, MAX_TENSORS, TensorInfo};
use crate::model::{DType, LoadError, shortened};

/// Name length, number of dimensions, one dimension, type, offset; and a byte of data at least.
const INFO_BYTES: u64 = 8 + 4 + 8 + 4 + 8 + 1;
/// Most dimensions of a tensor.
const MAX_DIMS: u32 = 4;

/// Reads `n` infos; offsets still count from the data section.
pub(super) fn read(cursor: &mut Cursor, n: u64, alignment: u64) -> Result<Vec<TensorInfo>, LoadError> {
    let count = cursor.count(n, INFO_BYTES, &"the number of tensors")?;
    if n > MAX_TENSORS {
        let what = "the number of tensors".to_owned();
        return Err(LoadError::Limit { file: cursor.file.to_owned(), what, got: n, limit: MAX_TENSORS });
    }
    let mut tensors = Vec::with_capacity(count);
    for index in 0..n {
        tensors.push(info(cursor, index, alignment)?);
    }
    Ok(tensors)
}

fn info(cursor: &mut Cursor, index: u64, alignment: u64) -> Result<TensorInfo, LoadError> {
    let file = cursor.file;
    let name = cursor.string(&format_args!("the name of tensor {index}"))?;
    if name.is_empty() || name.len() as u64 > MAX_NAME {
        return Err(LoadError::Value {
            file: file.to_owned(),
            key: format!("name of tensor {index}"),
            got: format!("{} bytes long", name.len()),
            wanted: format!("1 to {MAX_NAME} bytes long"),
        });
    }
    let what = |field: &str| format!("the {field} of tensor `{}`", shortened(name));
    let n_dims = cursor.u32(&what("number of dimensions"))?;
    if !(1..=MAX_DIMS).contains(&n_dims) {
        let (tensor, got) = (name.to_owned(), n_dims.into());
        return Err(LoadError::Rank { file: file.to_owned(), tensor, got, least: 1, most: MAX_DIMS.into() });
    }
    let mut shape = Vec::with_capacity(n_dims as usize);
    for _ in 0..n_dims {
        shape.push(cursor.u64(&what("shape"))?);
    }
    shape.reverse(); // the file has the innermost first
    let dtype = dtype(file, name, cursor.u32(&what("type"))?)?;
    let begin = cursor.u64(&what("data offset"))?;
    let len = ranges::size(file, name, &shape, dtype)?;
    if !begin.is_multiple_of(alignment) {
        let tensor = name.to_owned();
        return Err(LoadError::Misaligned { file: file.to_owned(), tensor, offset: begin, alignment });
    }
    let too_large = |shape| LoadError::Size { file: file.to_owned(), tensor: name.to_owned(), shape };
    let dims = shape.iter().map(|&dim| usize::try_from(dim)).collect::<Result<Vec<_>, _>>();
    let shape = dims.map_err(|_| too_large(shape))?;
    Ok(TensorInfo { name: name.to_owned(), shape, dtype, begin, len })
}

fn dtype(file: &str, tensor: &str, number: u32) -> Result<DType, LoadError> {
    DType::from_ggml(number).ok_or_else(|| LoadError::UnknownType {
        file: file.to_owned(),
        tensor: tensor.to_owned(),
        got: match DType::removed_from_ggml(number) {
            Some(name) => format!("number {number} ({name}, removed from GGUF: quantize the model again)"),
            None => format!("number {number}"),
        },
    })
}
