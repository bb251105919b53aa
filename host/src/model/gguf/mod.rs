//! GGUF files, little-endian: reads versions 2 and 3, writes 3.
//!
//! A file is a header (magic, version, counts), key/value metadata, tensor infos, and from the next multiple of the
//! alignment on the data. All of it but the data is read and checked here; the data is only located.
//!
//! ```
//! let header = [&b"GGUF"[..], &3u32.to_le_bytes(), &0u64.to_le_bytes(), &0u64.to_le_bytes()].concat();
//! let file = varve::model::gguf::parse("empty.gguf", &header)?;
//! assert_eq!((file.version, file.tensors.len()), (3, 0));
//! # Ok::<(), varve::model::LoadError>(())
//! ```

mod cursor;
pub(super) mod split;
mod tensors;
mod values;
mod write;

use super::metadata::Metadata;
use super::ranges::{self, TensorInfo};
use super::{LoadError, metadata::Value};
use cursor::Cursor;
pub use write::{ALIGNMENT, Entry, head};

/// The first four bytes of a file.
pub const MAGIC: &[u8; 4] = b"GGUF";
/// Magic, version, two counts.
const HEADER_BYTES: u64 = 4 + 4 + 8 + 8;
/// Where data may start if the file does not say.
const DEFAULT_ALIGNMENT: u64 = 32;
/// Key that says otherwise.
const ALIGNMENT_KEY: &str = "general.alignment";

/// What a GGUF file says of its data.
#[derive(Debug)]
pub struct Gguf {
    /// Version of the format, 2 or 3.
    pub version: u32,
    /// Key/value pairs.
    pub metadata: Metadata,
    /// Sorted by name; every range lies in the file, and no two share a byte.
    pub tensors: Vec<TensorInfo>,
}

/// Reads and checks a whole file. `name` is what messages call it.
///
/// # Errors
/// The first fault found. Memory stays below the file's size and 64 MiB, whatever the file says.
pub fn parse(name: &str, bytes: &[u8]) -> Result<Gguf, LoadError> {
    let mut cursor = Cursor::new(name, bytes);
    let version = header(&mut cursor, bytes)?;
    let n_tensors = cursor.u64(&"the number of tensors")?;
    let n_entries = cursor.u64(&"the number of metadata entries")?;
    cursor.count(n_tensors, 1, &"the number of tensors")?; // a lie is told before the metadata is read
    let metadata = values::read(&mut cursor, n_entries)?;
    let alignment = alignment(name, &metadata)?;
    let mut tensors = tensors::read(&mut cursor, n_tensors, alignment)?;
    ranges::sort(name, &mut tensors)?;
    let infos_end = cursor.at() as u64;
    // A slice ends far below 2^63, and an alignment is at most 2^31.
    ranges::place(name, &mut tensors, infos_end.next_multiple_of(alignment), bytes.len() as u64, false)?;
    Ok(Gguf { version, metadata, tensors })
}

/// Reads magic and version.
fn header(cursor: &mut Cursor, bytes: &[u8]) -> Result<u32, LoadError> {
    let (file, len) = (cursor.file.to_owned(), bytes.len() as u64);
    let start = &bytes[..bytes.len().min(MAGIC.len())];
    if start == b"FUGG" {
        return Err(LoadError::BigEndian { file, field: "the magic", got: "FUGG".to_owned() });
    }
    if !MAGIC.starts_with(start) {
        return Err(LoadError::Magic { file, got: bytes[..bytes.len().min(8)].to_vec() });
    }
    if len < HEADER_BYTES {
        return Err(LoadError::Short { file, format: "GGUF", len, wanted: HEADER_BYTES });
    }
    cursor.take(MAGIC.len() as u64, &"the magic")?;
    match cursor.u32(&"the version")? {
        version @ (2 | 3) => Ok(version),
        // A version is small, so one whose low half is empty has its bytes the other way round.
        version if version != 0 && version & 0xffff == 0 => {
            Err(LoadError::BigEndian { file, field: "the version", got: format!("{version:#010x}, byte-swapped") })
        }
        got => Err(LoadError::Version { file, got }),
    }
}

fn alignment(name: &str, metadata: &Metadata) -> Result<u64, LoadError> {
    let Some(value) = metadata.value(ALIGNMENT_KEY) else { return Ok(DEFAULT_ALIGNMENT) };
    match value {
        Value::U32(alignment) if alignment.is_power_of_two() => Ok(u64::from(*alignment)),
        other => Err(LoadError::Value {
            file: name.to_owned(),
            key: ALIGNMENT_KEY.to_owned(),
            got: format!("{other} ({})", other.type_name()),
            wanted: "a power of two (u32)".to_owned(),
        }),
    }
}
