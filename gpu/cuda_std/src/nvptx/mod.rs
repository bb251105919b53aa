//! Replaced by the GPU part.
