//! Bounds of the errors against FP64 references, each with its reason. Promises of variants against their base are in
//! their tables instead.

/// Sequential recurrence on inputs of ordinary use, relative to the largest output or |S|: a published f32 form of the
/// same order of operations stays below 3.2e-7 up to 8,192 tokens.
pub const SEQUENTIAL_BASE: f64 = 1e-6;

/// Any recurrence on stress inputs: the sequential f32 form itself reaches 1.3e-6 where nothing decays.
pub const STRESS: f64 = 5e-6;

/// Output rows after division by their root mean square, absolute: a f16 result of size 1 rounds by 2.4e-4, so this
/// stays below what the next step can see.
pub const AFTER_NORM: f64 = 1e-4;

/// Output norm, by element: half a unit in the last place of f16, and a few of f32 for root, gate and products.
pub const OUT_NORM: f64 = 1.0 / 2048.0 + 2e-6;

/// Smallest normal f16: below it an element of the norm is judged by its absolute error.
pub const F16_MIN_NORMAL: f64 = 1.0 / 16384.0;
