//! Placeholder until the crate's first part lands.
