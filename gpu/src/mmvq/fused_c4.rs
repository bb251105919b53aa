//! `mmvq.product/fused` of four columns.
//!
//! Math, Shapes, Order, Barriers as `fused.rs`
//! Mapping   as there, block 384; a warp has two rows side by side
//! Budget    168 registers, 0 B shared beside the dynamic, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Bitwise against `plain`

use cuda_std::launch::Bounds;

use super::fused_instances::instances;
use super::fused_kquants::Q6Quad;

/// Twelve warps, one block an SM.
pub const BOUNDS: Bounds = Bounds { threads: 384, min_blocks: 1 };

instances! {
    BOUNDS;
    mmvq_product_fused_q6_k_t4 MMVQ_PRODUCT_FUSED_Q6_K_T4 Q6Quad Q6_K 2 4;
}
