//! FP64 references: each operation computed from its f32 inputs, converted exactly, in plain loops.

pub mod delta;
pub mod out_norm;
