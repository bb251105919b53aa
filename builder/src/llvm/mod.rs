//! The only unsafe code of the builder: a thin, owning layer over rustc's LLVM library.

mod address;
mod api;
mod module;
mod owned;

pub(crate) use module::{Callee, Function, Module};
pub(crate) use owned::{Context, TargetMachine};
