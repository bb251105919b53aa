//! The readers of checkpoint files against sound files, files that lie, and files that were damaged at random.
#![allow(missing_docs, clippy::unwrap_used)]

mod allocation;
mod gguf;
mod gguf_builder;
mod mutations;
mod refused;
mod safetensors;
mod safetensors_builder;
mod sets;
mod written;
