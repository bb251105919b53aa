//! The proof library against results from elsewhere: its FP64 reference, and the kernels themselves.
#![allow(missing_docs, clippy::unwrap_used)]

mod attend;
mod call;
mod chunked;
mod kernels;
mod mmvq;
mod pieces;
mod prep;
mod reference;
