//! `mmvq.product/ring_r1`: as `hoist`, the loads of the next group issued before this one's dots.
//!
//! Math      y[c][r] = sum over k of W[r][k] x[c][k], in the steps of `call`
//! Shapes    as `hoist.rs`
//! Mapping   as `hoist.rs`, with two groups in registers: one that is used, one under way
//! Order     the module's
//! Barriers  none
//! Budget    168 registers, 0 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Bitwise against `plain`

use cuda_std::launch::Bounds;

use super::ProductParams;
use super::call::Call;
use super::group::Warp;
use super::instance::instances;

/// Four warps, which share nothing.
pub const BOUNDS: Bounds = Bounds { threads: 128, min_blocks: 3 };

instances! {
    80, BOUNDS, body;
    mmvq_product_ring_r1_q8_0_t1 MMVQ_PRODUCT_RING_R1_Q8_0_T1 Q8Zero 1 1 1;
    mmvq_product_ring_r1_q8_0_t2 MMVQ_PRODUCT_RING_R1_Q8_0_T2 Q8Zero 1 1 2;
    mmvq_product_ring_r1_q8_0_t4 MMVQ_PRODUCT_RING_R1_Q8_0_T4 Q8Zero 1 1 4;
    mmvq_product_ring_r1_q4_k_t1 MMVQ_PRODUCT_RING_R1_Q4_K_T1 Q4K 1 1 1;
    mmvq_product_ring_r1_q4_k_t2 MMVQ_PRODUCT_RING_R1_Q4_K_T2 Q4K 1 1 2;
    mmvq_product_ring_r1_q4_k_t4 MMVQ_PRODUCT_RING_R1_Q4_K_T4 Q4K 1 1 4;
    mmvq_product_ring_r1_q5_k_t1 MMVQ_PRODUCT_RING_R1_Q5_K_T1 Q5K 1 1 1;
    mmvq_product_ring_r1_q5_k_t2 MMVQ_PRODUCT_RING_R1_Q5_K_T2 Q5K 1 1 2;
    mmvq_product_ring_r1_q5_k_t4 MMVQ_PRODUCT_RING_R1_Q5_K_T4 Q5K 1 1 4;
    mmvq_product_ring_r1_q6_k_t1 MMVQ_PRODUCT_RING_R1_Q6_K_T1 Q6K 1 1 1;
    mmvq_product_ring_r1_q6_k_t2 MMVQ_PRODUCT_RING_R1_Q6_K_T2 Q6K 1 1 2;
    mmvq_product_ring_r1_q6_k_t4 MMVQ_PRODUCT_RING_R1_Q6_K_T4 Q6K 1 1 4;
    mmvq_product_ring_r1_iq4_xs_t1 MMVQ_PRODUCT_RING_R1_IQ4_XS_T1 Iq4Xs 1 1 1;
    mmvq_product_ring_r1_iq4_xs_t2 MMVQ_PRODUCT_RING_R1_IQ4_XS_T2 Iq4Xs 1 1 2;
    mmvq_product_ring_r1_iq4_xs_t4 MMVQ_PRODUCT_RING_R1_IQ4_XS_T4 Iq4Xs 1 1 4;
}

#[inline(always)]
unsafe fn body<F: Call, const R: usize, const P: usize, const T: usize, const FORM: u8>(p: ProductParams) {
    // SAFETY: same contract.
    let mut warp = unsafe { Warp::<F, R, P, T>::here(&p) };
    let mut first = 0;
    // SAFETY: block 0 starts a group.
    let mut group = unsafe { warp.load_part(first) };
    while first < warp.blocks {
        let next = first + Warp::<F, R, P, T>::BLOCKS;
        // SAFETY: both start a group; of one behind the row nothing is there.
        unsafe {
            let after = warp.load_part(next);
            warp.add_part::<FORM, true>(&group, first);
            group = after;
        }
        first = next;
    }
    // SAFETY: all lanes are here.
    unsafe { warp.finish(&p) };
}
