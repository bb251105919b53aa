//! Why a model was not loaded.

use super::{DType, LoadError};
use crate::backend::BackendError;

/// A checkpoint that was read but is no model that can run, or that the device does not hold.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are what the messages show
pub enum OpenError {
    /// The files themselves.
    #[error(transparent)]
    File(#[from] LoadError),
    /// Safetensors without their configuration.
    #[error("{file} is not there: safetensors need the config.json of their model beside them")]
    NoConfig { file: String },
    /// A configuration that is no JSON, or holds another type than the field has.
    #[error("{file}: {error}")]
    Json { file: String, error: String },
    /// An architecture that is not built.
    #[error("{file}: unknown architecture `{got}`; known are {known}")]
    Architecture { file: String, got: String, known: String },
    /// A key that the architecture needs.
    #[error("{file}: required key `{key}` is missing, and has no default")]
    MissingKey { file: String, key: String },
    /// A value that cannot be.
    #[error("{file}: {key} is {got}: {rule}")]
    Config { file: String, key: String, got: String, rule: String },
    /// Tensors that are not there, or that nothing uses.
    #[error("{file}: the tensors do not match the architecture;{}{}", list("missing", .missing), list("unknown", .unknown))]
    Tensors { file: String, missing: Vec<String>, unknown: Vec<String> },
    /// A tensor of another shape than the configuration says.
    #[error("{file}: tensor `{tensor}` has shape {got:?}, the configuration asks for {wanted:?}")]
    Shape { file: String, tensor: String, got: Vec<usize>, wanted: Vec<usize> },
    /// A storage type without kernels.
    #[error(
        "{file}: tensor `{tensor}` is stored as {dtype}, which is not read; usable are {}: convert the model to these",
        super::weights::values::readable()
    )]
    Unsupported { file: String, tensor: String, dtype: DType },
    /// Values that contradict the configuration.
    #[error("{file}: {what}")]
    Contradiction { file: String, what: String },
    /// The tokenizer.
    #[error("{file}: {error}")]
    Tokenizer { file: String, error: String },
    /// The device.
    #[error(transparent)]
    Backend(#[from] BackendError),
}

/// At most this many names are shown.
const SHOWN: usize = 12;

fn list(what: &str, names: &[String]) -> String {
    if names.is_empty() {
        return String::new();
    }
    let shown = names.iter().take(SHOWN).map(|name| super::printable(name)).collect::<Vec<_>>().join(", ");
    let more = if names.len() > SHOWN { format!(" and {} more", names.len() - SHOWN) } else { String::new() };
    format!(" {what}: {shown}{more}")
}
