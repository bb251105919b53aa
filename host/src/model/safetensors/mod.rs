//! Reader of safetensors files: a length, a JSON header, and data that the tensors fill without a gap.
//!
//! The header is parsed here rather than by the `safetensors` crate, so that each fault names its tensor, and no name or
//! key is silently taken twice.
//!
//! ```
//! let json = br#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
//! let file = [&(json.len() as u64).to_le_bytes(), &json[..], &[0; 8]].concat();
//! let parsed = varve::model::safetensors::parse("one.safetensors", &file)?;
//! assert_eq!(parsed.tensors[0].range(), file.len() - 8..file.len());
//! # Ok::<(), varve::model::LoadError>(())
//! ```

mod header;
pub(super) mod index;
mod json;

use super::ranges::{self, TensorInfo};
use super::{DType, LoadError, shortened};
use header::Entry;

/// The header's length before it.
const LENGTH_BYTES: u64 = 8;
/// Longest header that is read: room for the most tensors that are, at 128 bytes each.
const MAX_HEADER: u64 = 128 * ranges::MAX_TENSORS;
/// Most dimensions of a tensor. A scalar has none.
const MAX_DIMS: usize = 8;

/// What a safetensors file says of its data.
#[derive(Debug)]
pub struct Safetensors {
    /// The free texts under `__metadata__`.
    pub notes: Vec<(String, String)>,
    /// Sorted by name; together the ranges fill the file behind its header.
    pub tensors: Vec<TensorInfo>,
}

/// Reads and checks a whole file. `name` is what messages call it.
///
/// # Errors
/// The first fault found. Memory stays below the file's size and 64 MiB, whatever the file says.
pub fn parse(name: &str, bytes: &[u8]) -> Result<Safetensors, LoadError> {
    let (text, start) = header_text(name, bytes)?;
    let parsed = header::parse(text).map_err(|why| LoadError::Json {
        file: name.to_owned(),
        what: "header",
        why: why.to_string(),
    })?;
    let mut tensors = Vec::with_capacity(parsed.tensors.len());
    for (tensor, entry) in parsed.tensors {
        tensors.push(info(name, tensor, entry)?);
    }
    ranges::sort(name, &mut tensors)?;
    ranges::place(name, &mut tensors, start, bytes.len() as u64, true)?;
    Ok(Safetensors { notes: parsed.notes, tensors })
}

/// The header's text, and where the data start.
fn header_text<'a>(name: &str, bytes: &'a [u8]) -> Result<(&'a str, u64), LoadError> {
    let (file, len) = (|| name.to_owned(), bytes.len() as u64);
    let Some(length) = bytes.first_chunk::<8>() else {
        return Err(LoadError::Short { file: file(), format: "safetensors", len, wanted: LENGTH_BYTES });
    };
    let wanted = u64::from_le_bytes(*length);
    let what = || "the header".to_owned();
    if wanted == 0 {
        let (key, wanted) = ("length of the header".to_owned(), "2 bytes or more".to_owned());
        return Err(LoadError::Value { file: file(), key, got: "0".to_owned(), wanted });
    }
    let Some(json) = usize::try_from(wanted).ok().and_then(|wanted| bytes[LENGTH_BYTES as usize..].get(..wanted))
    else {
        return Err(LoadError::Cut { file: file(), what: what(), at: LENGTH_BYTES, needed: wanted, len });
    };
    if wanted > MAX_HEADER {
        let what = "the length of the header".to_owned();
        return Err(LoadError::Limit { file: file(), what, got: wanted, limit: MAX_HEADER });
    }
    let text = std::str::from_utf8(json).map_err(|error| LoadError::NotUtf8 {
        file: file(),
        what: what(),
        at: error.valid_up_to(),
    })?;
    if text.starts_with('\u{feff}') {
        let why = "it starts with a byte order mark, not with its JSON".to_owned();
        return Err(LoadError::Json { file: file(), what: "header", why });
    }
    Ok((text, LENGTH_BYTES + wanted))
}

/// Checks one entry; the range still counts from the start of the data.
fn info(file: &str, name: String, entry: Entry) -> Result<TensorInfo, LoadError> {
    let Entry { dtype, shape, data_offsets: (begin, end) } = entry;
    let dtype = DType::from_safetensors(&dtype).ok_or_else(|| LoadError::UnknownType {
        file: file.to_owned(),
        tensor: name.clone(),
        got: format!("`{}`", shortened(&dtype)),
    })?;
    let shape = shape.dims();
    let wanted = ranges::size(file, &name, shape, dtype)?;
    let Some(len) = end.checked_sub(begin) else {
        return Err(LoadError::Reversed { file: file.to_owned(), tensor: name, begin, end });
    };
    if len != wanted {
        let shape = shape.to_vec();
        return Err(LoadError::Range { file: file.to_owned(), tensor: name, shape, dtype, got: len, wanted });
    }
    let dims = shape.iter().map(|&dim| usize::try_from(dim)).collect::<Result<Vec<_>, _>>();
    let shape =
        dims.map_err(|_| LoadError::Size { file: file.to_owned(), tensor: name.clone(), shape: shape.to_vec() })?;
    Ok(TensorInfo { name, shape, dtype, begin, len })
}
