//! FP64 references: each operation computed from its f32 inputs, converted exactly, in plain loops.

pub mod attn;
pub mod delta;
pub mod dense;
pub mod hyper;
pub mod mmvq;
pub mod moe;
pub mod near;
pub mod norm;
pub mod out_norm;
pub mod ple;
pub mod topk;
