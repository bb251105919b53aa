//! The engine and the HTTP server over real sockets, with a model that follows a script.

#![allow(clippy::unwrap_used, missing_docs)]

mod chat;
mod client;
mod connections;
mod engine;
mod fields;
mod gate;
mod rig;
mod script;
mod shutdown;
mod turns;
