//! What the test binaries share.

pub mod golden;
pub mod log;
