//! Proof: inputs that any element of can be recomputed, FP64 references, comparisons that do not lose a NaN, and the
//! runner behind `varve parity` that holds every variant to its declared promise.
//!
//! Nothing but `run` and `cells` knows a device: inputs, references and comparisons are plain arithmetic on slices.

pub mod bounds;
pub mod case;
pub mod cells;
pub mod compare;
pub mod inputs;
pub mod random;
pub mod reference;
pub mod run;
