//! `mmvq.product/fused` of two columns.
//!
//! Math, Shapes, Order, Barriers as `fused.rs`
//! Mapping   as there, block 512
//! Budget    128 registers, 0 B shared beside the dynamic, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Bitwise against `plain`

use cuda_std::launch::Bounds;

use super::fused_instances::instances;
use super::fused_kquants::Q6Quad;
use super::fused_others::Q8Quad;

/// Sixteen warps, one block an SM.
pub const BOUNDS: Bounds = Bounds { threads: 512, min_blocks: 1 };

instances! {
    BOUNDS;
    mmvq_product_fused_q6_k_t2 MMVQ_PRODUCT_FUSED_Q6_K_T2 Q6Quad Q6_K 1 2;
    mmvq_product_fused_q8_0_t2 MMVQ_PRODUCT_FUSED_Q8_0_T2 Q8Quad Q8_0 1 2;
}
