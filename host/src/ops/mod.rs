//! Operations: each checks shapes, walks its dispatch table and launches. A file an operation.

pub mod delta_commit;
pub mod delta_out_norm;
pub mod delta_rec;
mod delta_sizes;
pub mod dispatch;
pub mod exactness;

pub use delta_sizes::{DeltaSizes, LogGate};
