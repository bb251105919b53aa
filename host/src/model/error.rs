//! Why a model did not run.

use crate::backend::{BackendError, LaunchError, ShapeError};
use crate::ops::dispatch::OpError;

/// A forward pass that did not happen. The sequence it was for must not be used again.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// More tokens than a sequence of this model can hold.
    #[error(
        "the context holds {limit} tokens, and {asked} were asked for; start with a larger --ctx or a shorter prompt"
    )]
    Context {
        /// Tokens the sequence would have.
        asked: usize,
        /// Tokens it can have.
        limit: usize,
    },
    /// A pass of nothing.
    #[error("there are no tokens to go on from")]
    Empty,
    /// A token id outside the vocabulary.
    #[error("token id {id} is not in the vocabulary of {vocab} ids")]
    Token {
        /// The id.
        id: u32,
        /// Ids of the model.
        vocab: usize,
    },
    /// Logits that are not numbers: broken weights, or an overflow.
    #[error("the model's output at position {position} is not finite: its weights are damaged, or a value overflowed")]
    NotFinite {
        /// Position of the token whose logits they are.
        position: usize,
    },
    /// An operation refused its operands or its launch failed.
    #[error(transparent)]
    Op(#[from] OpError),
    /// The device failed.
    #[error(transparent)]
    Backend(#[from] BackendError),
}

impl From<ShapeError> for ModelError {
    fn from(error: ShapeError) -> Self {
        Self::Op(error.into())
    }
}

impl From<LaunchError> for ModelError {
    fn from(error: LaunchError) -> Self {
        Self::Op(error.into())
    }
}
