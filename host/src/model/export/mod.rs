//! A checkpoint as one GGUF file, its tensors in other types: names and values of the plan, types by rules, and the writing.
//!
//! ```no_run
//! use varve::model::{Checkpoint, DType, export};
//! let checkpoint = Checkpoint::open("model".as_ref())?;
//! let plan = export::Plan::new(&checkpoint)?;
//! let rules = export::Rules::defaults(DType::Q4_K);
//! let chosen = plan.choose(&[&rules])?;
//! let file = "model-q4_k.gguf".as_ref();
//! plan.write(&chosen, file, export::Existing::Refuse, &mut |_done, _total| ())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod hf;
mod ple;
mod rules;
mod tensor;
mod text;
mod types;
mod write;

use super::gguf::split;
use super::metadata::Metadata;
use super::{Checkpoint, OpenError, Value};
pub use error::ExportError;
pub use rules::{Rule, RuleError, Rules, To};
pub use tensor::Planned;
pub use types::{Choice, Chosen};
pub use write::{Deviation, Existing, Written};

/// What a GGUF file of a checkpoint holds, its tensors in the types they have.
pub struct Plan<'a> {
    checkpoint: &'a Checkpoint,
    metadata: Vec<(String, Value)>,
    tensors: Vec<Planned<'a>>,
}

/// Keys that a new file has values of its own for, or does without: data is aligned as files are that do not say how.
const OWN_KEYS: [&str; 6] =
    ["general.alignment", "general.file_type", QUANTIZATION_VERSION, split::NO, split::COUNT, split::TENSORS];
/// Says which revision of the block formats a file has.
const QUANTIZATION_VERSION: &str = "general.quantization_version";

impl<'a> Plan<'a> {
    /// Of a GGUF file its metadata and tensors as they are, in their order; of safetensors what they are in GGUF.
    ///
    /// # Errors
    /// [`OpenError`] for safetensors that are no model that can run.
    pub fn new(checkpoint: &'a Checkpoint) -> Result<Self, OpenError> {
        let Some(metadata) = checkpoint.gguf() else { return hf::plan(checkpoint) };
        let tensors = checkpoint.stored_order().map(Planned::whole).collect();
        Ok(Self { checkpoint, metadata: kept(metadata), tensors })
    }

    /// The tensors, in the order of the file.
    #[must_use]
    pub fn tensors(&self) -> &[Planned<'a>] {
        &self.tensors
    }
}

fn kept(metadata: &Metadata) -> Vec<(String, Value)> {
    let own = |key: &str| OWN_KEYS.contains(&key);
    metadata.iter().filter(|(key, _)| !own(key)).map(|(key, value)| (key.to_owned(), value.clone())).collect()
}
