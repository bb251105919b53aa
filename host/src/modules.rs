//! The kernels as PTX text, one module for each generation of cards, built from `gpu/` by this crate's build script.
//!
//! A module holds every kernel that its architecture can run; the driver compiles it for the card at hand.
//! Documentation builds (`DOCS_RS`) have empty texts.

/// For cards from compute capability 7.5 on: what needs no asynchronous copies.
pub const PTX_SM75: &str = include_str!(concat!(env!("OUT_DIR"), "/varve_sm_75.ptx"));
/// For cards from compute capability 8.0 on.
pub const PTX_SM80: &str = include_str!(concat!(env!("OUT_DIR"), "/varve_sm_80.ptx"));
/// For compute capability 9.0 only: with Hopper's own instructions.
pub const PTX_SM90A: &str = include_str!(concat!(env!("OUT_DIR"), "/varve_sm_90a.ptx"));
