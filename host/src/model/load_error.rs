//! Why a file was refused: one message a fault, with file, tensor or key, field, value, and what to do.
//!
//! Every string that comes out of a file passes [`shortened`] on its way into a message.

use super::shown::{printable, reason, shortened as shown};

/// A checkpoint that cannot be read. `file` is the name the file was opened by.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are the values of the messages above them
pub enum LoadError {
    /// The system did not give the file.
    #[error("{file}: {source}")]
    Io { file: String, source: std::io::Error },
    /// Nothing to open under this name, or no way to tell what to open.
    #[error("{file}: {}", printable(.why))]
    Layout { file: String, why: String },
    /// Shorter than the fixed start of its format.
    #[error(
        "{file}: the file has {len} bytes, and a {format} file starts with {wanted}: {} bytes are missing; fetch it again",
        .wanted - .len
    )]
    Short { file: String, format: &'static str, len: u64, wanted: u64 },
    /// Not the format its name says.
    #[error("{file}: not a GGUF file: it starts with \"{}\"{}", .got.escape_ascii(), lookalike(.got))]
    Magic { file: String, got: Vec<u8> },
    /// GGUF in the other byte order.
    #[error("{file}: a big-endian GGUF file ({field} reads {got}); convert the model again as little-endian")]
    BigEndian { file: String, field: &'static str, got: String },
    /// A GGUF version that is not read.
    #[error(
        "{file}: GGUF version {got}, and versions 2 and 3 are read; convert the model again with a current converter"
    )]
    Version { file: String, got: u32 },
    /// The file ends inside something: an interrupted download, or a length that lies.
    #[error(
        "{file}: {} needs {needed} bytes at byte {at}, and the file ends at byte {len}: {} bytes are missing at least; \
         the file is cut or damaged, fetch it again",
        shown(.what), u128::from(*.at) + u128::from(*.needed) - u128::from(*.len)
    )]
    Cut { file: String, what: String, at: u64, needed: u64, len: u64 },
    /// A tensor whose data ends after the file.
    #[error(
        "{file}: the data of tensor `{}` ends at byte {end}, and the file at byte {len}: {} bytes are missing; the file \
         is cut or damaged, fetch it again",
        shown(.tensor), .end - u128::from(*.len)
    )]
    Truncated { file: String, tensor: String, end: u128, len: u64 },
    /// A count that the rest of the file cannot hold.
    #[error(
        "{file}: {} is {got}, which takes {each} bytes or more each, and {left} bytes are left in the file: {} bytes are \
         missing at least; the file is cut or damaged, fetch it again",
        shown(.what), u128::from(*.got) * u128::from(*.each) - u128::from(*.left)
    )]
    Count { file: String, what: String, got: u64, each: u64, left: u64 },
    /// More of something than is read.
    #[error("{file}: {} is {got}, and {limit} is the most that is read", shown(.what))]
    Limit { file: String, what: String, got: u64, limit: u64 },
    /// Text that is not UTF-8.
    #[error("{file}: {} is not UTF-8 from its byte {at} on; the file is damaged", shown(.what))]
    NotUtf8 { file: String, what: String, at: usize },
    /// A tensor, key or shard that is there twice.
    #[error("{file}: {what} `{}` appears twice; the file was made wrongly", shown(.name))]
    Duplicate { file: String, what: &'static str, name: String },
    /// A metadata value of a type that GGUF does not have.
    #[error("{file}: metadata key `{}` has value type {got}, and GGUF has types 0 to 12; the file is damaged", shown(.key))]
    ValueType { file: String, key: String, got: u32 },
    /// A metadata value or header field that cannot be right.
    #[error("{file}: `{}` is {}, and must be {wanted}", shown(.key), shown(.got))]
    Value { file: String, key: String, got: String, wanted: String },
    /// A metadata key that is needed.
    #[error("{file}: metadata key `{}` is missing, and has no default; the file is incomplete for this use", shown(.key))]
    KeyMissing { file: String, key: String },
    /// A metadata value of another type than its key has.
    #[error("{file}: metadata key `{}` holds {got}, and {wanted} is wanted", shown(.key))]
    KeyType { file: String, key: String, got: String, wanted: &'static str },
    /// A number of dimensions that tensors do not have.
    #[error("{file}: tensor `{}` has {got} dimensions, and {least} to {most} are read", shown(.tensor))]
    Rank { file: String, tensor: String, got: u64, least: u64, most: u64 },
    /// A dimension of 0.
    #[error("{file}: tensor `{}` has a dimension of 0 in its shape {shape:?}: it holds nothing", shown(.tensor))]
    EmptyTensor { file: String, tensor: String, shape: Vec<u64> },
    /// A shape whose product is beyond counting.
    #[error("{file}: tensor `{}` has shape {shape:?}, whose size is beyond 64 bits; the file is damaged", shown(.tensor))]
    Size { file: String, tensor: String, shape: Vec<u64> },
    /// A tensor type that the format does not have.
    #[error("{file}: tensor `{}` has the unknown type {}; a newer version may read it", shown(.tensor), shown(.got))]
    UnknownType { file: String, tensor: String, got: String },
    /// A row that is no whole number of blocks.
    #[error("{file}: tensor `{}` has rows of {row} values, and {dtype} stores {block} together", shown(.tensor))]
    Row { file: String, tensor: String, dtype: super::DType, row: u64, block: usize },
    /// Data that does not start where data may.
    #[error("{file}: tensor `{}` has data offset {offset}, no multiple of the alignment {alignment}", shown(.tensor))]
    Misaligned { file: String, tensor: String, offset: u64, alignment: u64 },
    /// Two tensors over the same bytes.
    #[error("{file}: tensors `{}` and `{}` share bytes {from} to {to} of the data", shown(.first), shown(.second))]
    Overlap { file: String, first: String, second: String, from: u64, to: u64 },
    /// Bytes of a safetensors file that no tensor owns.
    #[error("{file}: bytes {from} to {to} of the data belong to no tensor; the file is damaged or was made wrongly")]
    Gap { file: String, from: u64, to: u64 },
    /// A safetensors range that is none.
    #[error("{file}: tensor `{}` has data_offsets [{begin}, {end}]: the end is before the beginning", shown(.tensor))]
    Reversed { file: String, tensor: String, begin: u64, end: u64 },
    /// A safetensors range that does not fit the shape.
    #[error(
        "{file}: tensor `{}` of shape {shape:?} and type {dtype} takes {wanted} bytes, and data_offsets give it {got}",
        shown(.tensor)
    )]
    Range { file: String, tensor: String, shape: Vec<u64>, dtype: super::DType, got: u64, wanted: u64 },
    /// JSON that is not what the format says.
    #[error("{file}: the {what} cannot be read: {}", reason(.why))]
    Json { file: String, what: &'static str, why: String },
    /// A file of a set that is not there.
    #[error("{file}: `{}` is missing beside it; fetch that file too", shown(.shard))]
    ShardMissing { file: String, shard: String },
    /// Files of a set whose numbers contradict each other or their names.
    #[error("{file}: {}", printable(.why))]
    Shards { file: String, why: String },
    /// A tensor that is listed for a file that does not hold it.
    #[error("{file}: tensor `{}` is listed for `{}`, which does not hold it; fetch the whole set again", shown(.tensor), shown(.shard))]
    NotInShard { file: String, tensor: String, shard: String },
    /// A tensor that its set does not list.
    #[error("{file}: tensor `{}` of `{}` is not listed; fetch the whole set again", shown(.tensor), shown(.shard))]
    NotInIndex { file: String, tensor: String, shard: String },
}

/// What a file that is no model starts like, and what to do then.
fn lookalike(start: &[u8]) -> &'static str {
    let kinds: [(&[u8], &str); 6] = [
        (b"version ", ", as the pointer of a large file in Git does; fetch the file itself (git lfs pull)"),
        (b"<", ", as a web page does; the download gave an error page, fetch the file again"),
        (b"PK", ", as an archive of PyTorch does; convert the model"),
        (b"lmgg", ", as files before GGUF do; convert the model again"),
        (b"tjgg", ", as files before GGUF do; convert the model again"),
        (b"fmgg", ", as files before GGUF do; convert the model again"),
    ];
    kinds
        .iter()
        .find(|(magic, _)| start.starts_with(magic))
        .map_or("; it is damaged or another format", |(_, what)| what)
}
