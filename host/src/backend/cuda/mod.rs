//! The CUDA body: one device's primary context with its module, through the bound driver.

pub mod api;
mod context;
mod extended;
mod function;
mod graph;
mod hold;
mod l2;
mod memory;
mod stream;

pub(super) use context::{Context, count};
pub(super) use extended::is_there as launches_with_attributes;
pub(super) use graph::Graph;
pub(super) use memory::Memory;
pub(super) use stream::{Event, Stream};
