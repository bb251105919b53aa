//! `dense.product`: calls from which on tensor cores pay.

use super::Measured;

/// `mma`.
pub const MMA: &[Measured] = &[];
