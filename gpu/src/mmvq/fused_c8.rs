//! `mmvq.product/fused` of eight columns.
//!
//! Math, Shapes, Order, Barriers as `fused.rs`
//! Mapping   as there, block 256; a warp has two rows side by side
//! Budget    255 registers, 0 B shared beside the dynamic, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Bitwise against `plain`

use cuda_std::launch::Bounds;

use super::fused_instances::instances;
use super::fused_kquants::Q6Quad;

/// Eight warps, one block an SM.
pub const BOUNDS: Bounds = Bounds { threads: 256, min_blocks: 1 };

instances! {
    BOUNDS;
    mmvq_product_fused_q6_k_t8 MMVQ_PRODUCT_FUSED_Q6_K_T8 Q6Quad Q6_K 2 8;
}
