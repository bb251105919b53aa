//! `mmvq.product/hoist_b3_r2`: `hoist` with three blocks an SM, for many sums.
//!
//! Math, Shapes, Mapping, Order, Barriers as `hoist.rs`
//! Budget    168 registers, 0 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Bitwise against `plain`

use cuda_std::launch::Bounds;

use super::hoist::body;
use super::instance::instances;

/// Four warps, which share nothing.
pub const BOUNDS: Bounds = Bounds { threads: 128, min_blocks: 3 };

instances! {
    80, BOUNDS, body;
    mmvq_product_hoist_b3_r2_q8_0_t8 MMVQ_PRODUCT_HOIST_B3_R2_Q8_0_T8 Q8Zero 2 2 4;
    mmvq_product_hoist_b3_r2_q4_k_t4 MMVQ_PRODUCT_HOIST_B3_R2_Q4_K_T4 Q4K 2 2 2;
    mmvq_product_hoist_b3_r2_q6_k_t4 MMVQ_PRODUCT_HOIST_B3_R2_Q6_K_T4 Q6K 2 1 4;
    mmvq_product_hoist_b3_r2_iq4_xs_t4 MMVQ_PRODUCT_HOIST_B3_R2_IQ4_XS_T4 Iq4Xs 2 1 4;
}
