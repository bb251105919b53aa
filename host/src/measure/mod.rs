//! Measuring: prepared cases whose arms alternate in one process, medians and ratios, and the floor beside each figure.

pub mod attend;
pub mod case;
pub mod commit;
pub mod copy;
pub mod dequantize;
pub mod floor;
mod gap;
pub mod mmvq;
pub mod mmvq_rows;
mod operands;
pub mod out_norm;
pub mod paired;
pub mod plan;
pub mod plan_qsa;
pub mod product;
pub mod prompt;
pub mod scores;
pub mod thresholds;
pub mod topk;
pub mod window;
