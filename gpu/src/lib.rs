//! Varve's GPU kernels, each an ordinary Rust function in a file of its own.
//!
//! Compiled for `nvptx64-nvidia-cuda` a kernel becomes PTX; compiled for the host the same function runs on the SIMT
//! emulator of `cuda_std`. A kernel takes one `#[repr(C)]` parameter struct that lives beside it, and its header says
//! what it computes, for which shapes, in which order of operations, and with which promise.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx))]
#![allow(clippy::needless_range_loop)] // indices over register arrays are unrolled and shared by several arrays

pub mod attn;
#[cfg(not(target_arch = "nvptx64"))]
pub mod catalog;
pub mod conv;
pub mod delta;
pub mod dense;
pub mod format;
pub mod geometry;
pub mod hyper;
pub mod mmvq;
pub mod moe;
pub mod norm;
pub mod ple;
pub mod probe;
pub mod qsa;
pub mod quad;
