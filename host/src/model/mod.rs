//! Models: files and tokenizers, weights on a device, the layer graph, and the state of a sequence.

mod boxed;
mod cells;
pub mod config;
mod dtype;
mod error;
pub mod export;
mod from_value;
pub mod gguf;
mod graph;
mod layers;
mod layout;
mod load_error;
mod loaded;
mod made_up;
mod metadata;
pub mod ngram;
mod open_error;
mod products;
mod profiled;
pub mod quant;
mod ranges;
mod rope;
mod rows;
mod run;
pub mod safetensors;
mod sequence;
mod shown;
mod source;
pub mod template;
mod text;
pub mod tokenizer;
mod weights;

pub use boxed::{BOXED, boxed};
pub use dtype::DType;
pub use error::ModelError;
pub use from_value::FromValue;
pub use load_error::LoadError;
pub use loaded::{DEFAULT_CHUNK, DEFAULT_CONTEXT, LoadOptions, MAX_CHUNK, Model};
pub use metadata::{Array, Metadata, Strings, Value};
pub use open_error::OpenError;
pub use profiled::{PassCosts, Profiled};
pub use ranges::TensorInfo;
pub use run::Probe;
pub use sequence::Sequence;
pub use shown::{printable, shortened};
pub use source::{Checkpoint, Format, Tensor};
pub use text::Text;
pub use weights::values::{is_readable, to_f32};

/// What the engine needs of a model: sequences, and logits for the tokens they grow by.
pub trait LanguageModel: Send {
    /// The state of one sequence.
    type Sequence: Send;

    /// Most tokens a sequence can hold.
    fn context(&self) -> usize;

    /// Number of token ids, and of logits.
    fn vocab(&self) -> usize;

    /// A sequence without tokens.
    ///
    /// # Errors
    /// Where the device has no memory left for it.
    fn sequence(&self) -> Result<Self::Sequence, ModelError>;

    /// Appends `tokens` (at least one) to the sequence and returns the logits after the last, `[vocab]`. The bits do not
    /// depend on how a prompt is cut into calls.
    ///
    /// # Errors
    /// [`ModelError::Context`] and [`ModelError::Token`] leave the sequence as it was; after any other error it must not
    /// be used again.
    fn forward(&mut self, sequence: &mut Self::Sequence, tokens: &[u32]) -> Result<Vec<f32>, ModelError>;
}
