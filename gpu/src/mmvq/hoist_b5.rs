//! `mmvq.product/hoist_b5_r1`, `hoist_b5_r2`: `hoist` with five blocks an SM.
//!
//! Math, Shapes, Mapping, Order, Barriers as `hoist.rs`; four columns of Q4_K, Q5_K and IQ4_XS come in parts, one after the
//! other: together they would spill
//! Budget    96 registers, 0 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Bitwise against `plain`

use cuda_std::launch::Bounds;

use super::hoist::body;
use super::instance::instances;

/// Four warps, which share nothing.
pub const BOUNDS: Bounds = Bounds { threads: 128, min_blocks: 5 };

instances! {
    80, BOUNDS, body;
    mmvq_product_hoist_b5_r1_q8_0_t1 MMVQ_PRODUCT_HOIST_B5_R1_Q8_0_T1 Q8Zero 1 1 1;
    mmvq_product_hoist_b5_r1_q8_0_t2 MMVQ_PRODUCT_HOIST_B5_R1_Q8_0_T2 Q8Zero 1 1 2;
    mmvq_product_hoist_b5_r1_q8_0_t4 MMVQ_PRODUCT_HOIST_B5_R1_Q8_0_T4 Q8Zero 1 1 4;
    mmvq_product_hoist_b5_r2_q8_0_t1 MMVQ_PRODUCT_HOIST_B5_R2_Q8_0_T1 Q8Zero 2 1 1;
    mmvq_product_hoist_b5_r1_q4_k_t1 MMVQ_PRODUCT_HOIST_B5_R1_Q4_K_T1 Q4K 1 1 1;
    mmvq_product_hoist_b5_r1_q4_k_t2 MMVQ_PRODUCT_HOIST_B5_R1_Q4_K_T2 Q4K 1 1 2;
    mmvq_product_hoist_b5_r1_q4_k_t4 MMVQ_PRODUCT_HOIST_B5_R1_Q4_K_T4 Q4K 1 2 2;
    mmvq_product_hoist_b5_r2_q4_k_t1 MMVQ_PRODUCT_HOIST_B5_R2_Q4_K_T1 Q4K 2 1 1;
    mmvq_product_hoist_b5_r1_q5_k_t1 MMVQ_PRODUCT_HOIST_B5_R1_Q5_K_T1 Q5K 1 1 1;
    mmvq_product_hoist_b5_r1_q5_k_t2 MMVQ_PRODUCT_HOIST_B5_R1_Q5_K_T2 Q5K 1 1 2;
    mmvq_product_hoist_b5_r1_q5_k_t4 MMVQ_PRODUCT_HOIST_B5_R1_Q5_K_T4 Q5K 1 4 1;
    mmvq_product_hoist_b5_r2_q5_k_t1 MMVQ_PRODUCT_HOIST_B5_R2_Q5_K_T1 Q5K 2 1 1;
    mmvq_product_hoist_b5_r1_q6_k_t1 MMVQ_PRODUCT_HOIST_B5_R1_Q6_K_T1 Q6K 1 1 1;
    mmvq_product_hoist_b5_r1_q6_k_t2 MMVQ_PRODUCT_HOIST_B5_R1_Q6_K_T2 Q6K 1 1 2;
    mmvq_product_hoist_b5_r1_q6_k_t4 MMVQ_PRODUCT_HOIST_B5_R1_Q6_K_T4 Q6K 1 1 4;
    mmvq_product_hoist_b5_r2_q6_k_t1 MMVQ_PRODUCT_HOIST_B5_R2_Q6_K_T1 Q6K 2 1 1;
    mmvq_product_hoist_b5_r1_iq4_xs_t1 MMVQ_PRODUCT_HOIST_B5_R1_IQ4_XS_T1 Iq4Xs 1 1 1;
    mmvq_product_hoist_b5_r1_iq4_xs_t2 MMVQ_PRODUCT_HOIST_B5_R1_IQ4_XS_T2 Iq4Xs 1 1 2;
    mmvq_product_hoist_b5_r1_iq4_xs_t4 MMVQ_PRODUCT_HOIST_B5_R1_IQ4_XS_T4 Iq4Xs 1 2 2;
    mmvq_product_hoist_b5_r2_iq4_xs_t1 MMVQ_PRODUCT_HOIST_B5_R2_IQ4_XS_T1 Iq4Xs 2 1 1;
}
