//! The model in the box: a small one that the program contains.

use super::{Checkpoint, LoadError};

/// Its file: models/rust-15m/README.md says what it is.
static FILE: &[u8] = include_bytes!("../../../models/rust-15m/rust-15m-q8_0.gguf");

/// The model's name.
pub const BOXED: &str = "rust-15m";

/// The checkpoint of the model in the box.
///
/// # Errors
/// None but for a program that was changed after it was built.
pub fn boxed() -> Result<Checkpoint, LoadError> {
    Checkpoint::from_static(BOXED, FILE)
}
