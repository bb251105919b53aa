//! Weights on a device: matrices and vectors, read from a checkpoint under the names of its format.

mod matrix;
mod order;
mod reader;
pub(super) mod values;

pub use matrix::{Matrix, Segment};
pub use order::tiled_heads;
pub use reader::{Extent, Names, Part, Reader, Scope, is_skipped, prefix_of};
