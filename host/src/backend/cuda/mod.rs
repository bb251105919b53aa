//! The CUDA body: one device's primary context with its module, through the bound driver.

pub mod api;
mod context;
mod early;
mod function;
mod graph;
mod hold;
mod memory;
mod stream;

pub(super) use context::{Context, count};
pub(super) use graph::Graph;
pub(super) use memory::Memory;
pub(super) use stream::{Event, Stream};
