//! Varve's host side: devices, operations and what is built on them.
//!
//! Calls go down (cli, ops, backend, gpu, cuda_std), reasons come up as error values.
//!
//! Unsafe code lives in `backend` (the driver, the emulator's memory), at the launch line of an operation, and where
//! `model` maps a file; every block says what makes it sound.

pub mod backend;
#[forbid(unsafe_code)]
pub mod cli;
#[forbid(unsafe_code)]
pub mod engine;
pub mod environment;
pub mod measure;
pub mod model;
pub mod modules;
pub mod ops;
#[forbid(unsafe_code)]
pub mod proof;
#[forbid(unsafe_code)]
pub mod server;
