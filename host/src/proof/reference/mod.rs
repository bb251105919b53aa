//! FP64 references: each operation computed from its f32 inputs, converted exactly, in plain loops.

pub mod delta;
pub mod hyper;
pub mod moe;
pub mod near;
pub mod out_norm;
pub mod ple;
