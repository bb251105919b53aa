//! The proof library against results from elsewhere: its FP64 reference, before kernels are held to it.
#![allow(missing_docs, clippy::unwrap_used)]

mod reference;
