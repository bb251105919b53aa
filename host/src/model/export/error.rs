//! Why no file was written.

use super::super::quant::Refused;
use super::super::{DType, shortened as shown};

/// A tensor that cannot have the type it should, or a file that cannot be written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are what the messages show
pub enum ExportError {
    /// A tensor of a type that is not read.
    #[error(
        "tensor `{}` is stored as {dtype}, which is not read: it can only stay as it is, by a rule `{} keep`",
        shown(.tensor), shown(.tensor)
    )]
    Unreadable { tensor: String, dtype: DType },
    /// A tensor of a type that GGUF does not have.
    #[error("tensor `{}` is stored as {dtype}, which GGUF files do not have", shown(.tensor))]
    NoGgml { tensor: String, dtype: DType },
    /// A value that the tensor's new type does not hold.
    #[error("tensor `{}`: {refused}", shown(.tensor))]
    Value { tensor: String, refused: Refused },
    /// There is such a file.
    #[error("{file} is there already; choose another name, or say --force to replace it")]
    Exists { file: String },
    /// The file is part of what is read.
    #[error("{file} is a file of the model that is read; choose another name")]
    Input { file: String },
    /// The system did not take the file.
    #[error("{file}: {source}")]
    Io { file: String, source: std::io::Error },
}
