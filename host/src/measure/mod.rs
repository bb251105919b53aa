//! Measuring: arms that alternate in one process, medians and ratios, and the floor beside each figure.

pub mod delta;
pub mod floor;
pub mod paired;
