//! Quantized blocks: what they stand for, held against vectors that an independent decoder made, and how they are made.
#![allow(missing_docs, clippy::unwrap_used)]

mod exact;
mod made;
mod vectors;
