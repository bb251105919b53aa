//! `delta.rec`: prompts from which on the chunked variants pay.

use super::Measured;

/// `wg32`.
pub const WG32: &[Measured] = &[];
/// `tc32`.
pub const TC32: &[Measured] = &[];
/// `chunk32`.
pub const CHUNK32: &[Measured] = &[];
