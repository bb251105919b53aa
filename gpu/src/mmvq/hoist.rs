//! `mmvq.product/hoist_b4_r2`: as `il`, with the loads of four chunks issued together.
//!
//! Math      y[c][r] = sum over k of W[r][k] x[c][k], in the steps of `call`
//! Shapes    `ProductParams`, W 16-byte aligned, Q6_K rows of an even number of blocks; the copy has room for T columns
//! Mapping   as `il`; a group is four chunks of each row of the warp: all its weights are loaded, in registers, before the
//!           first is used. Chunks behind the last full group come after, with the same loads first, where they exist
//! Order     the module's; a lane whose block is not there keeps its old sum by a select
//! Barriers  none; a row past the last is the last one, done again and not stored
//! Budget    128 registers, 0 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Bitwise against `plain`
//!
//! `b4` has 128 registers a thread, four blocks an SM; `b5` (hoist_b5.rs) 96 and five. Loads are volatile, so that no
//! compiler moves one behind a use of another.

use cuda_std::launch::Bounds;

use super::ProductParams;
use super::call::Call;
use super::group::Warp;
use super::instance::instances;

/// Four warps, which share nothing.
pub const BOUNDS: Bounds = Bounds { threads: 128, min_blocks: 4 };

instances! {
    80, BOUNDS, body;
    mmvq_product_hoist_b4_r2_q8_0_t1 MMVQ_PRODUCT_HOIST_B4_R2_Q8_0_T1 Q8Zero 2 1 1;
    mmvq_product_hoist_b4_r2_q8_0_t2 MMVQ_PRODUCT_HOIST_B4_R2_Q8_0_T2 Q8Zero 2 1 2;
    mmvq_product_hoist_b4_r2_q8_0_t4 MMVQ_PRODUCT_HOIST_B4_R2_Q8_0_T4 Q8Zero 2 1 4;
    mmvq_product_hoist_b4_r2_q4_k_t1 MMVQ_PRODUCT_HOIST_B4_R2_Q4_K_T1 Q4K 2 1 1;
    mmvq_product_hoist_b4_r2_q4_k_t2 MMVQ_PRODUCT_HOIST_B4_R2_Q4_K_T2 Q4K 2 1 2;
    mmvq_product_hoist_b4_r2_q5_k_t1 MMVQ_PRODUCT_HOIST_B4_R2_Q5_K_T1 Q5K 2 1 1;
    mmvq_product_hoist_b4_r2_q5_k_t2 MMVQ_PRODUCT_HOIST_B4_R2_Q5_K_T2 Q5K 2 1 2;
    mmvq_product_hoist_b4_r2_q6_k_t1 MMVQ_PRODUCT_HOIST_B4_R2_Q6_K_T1 Q6K 2 1 1;
    mmvq_product_hoist_b4_r2_q6_k_t2 MMVQ_PRODUCT_HOIST_B4_R2_Q6_K_T2 Q6K 2 1 2;
    mmvq_product_hoist_b4_r2_iq4_xs_t1 MMVQ_PRODUCT_HOIST_B4_R2_IQ4_XS_T1 Iq4Xs 2 1 1;
    mmvq_product_hoist_b4_r2_iq4_xs_t2 MMVQ_PRODUCT_HOIST_B4_R2_IQ4_XS_T2 Iq4Xs 2 1 2;
}

#[inline(always)]
pub(super) unsafe fn body<F: Call, const R: usize, const P: usize, const T: usize, const FORM: u8>(p: ProductParams) {
    // SAFETY: same contract.
    unsafe { rows::<F, R, P, T, FORM, true>(&p) };
}

/// The rows of a warp. Only tests leave `SELECT` out, to see that they would notice.
///
/// # Safety
/// As the kernels.
#[inline(always)]
pub unsafe fn rows<F: Call, const R: usize, const P: usize, const T: usize, const FORM: u8, const SELECT: bool>(
    p: &ProductParams,
) {
    // SAFETY: same contract.
    let mut warp = unsafe { Warp::<F, R, P, T>::here(p) };
    let mut first = 0;
    while first + Warp::<F, R, P, T>::BLOCKS <= warp.blocks {
        // SAFETY: the whole group is there.
        unsafe {
            let group = warp.load(first);
            warp.add::<FORM>(&group, first);
        }
        first += Warp::<F, R, P, T>::BLOCKS;
    }
    // SAFETY: `first` starts a group; all lanes are here.
    unsafe {
        if first < warp.blocks {
            let group = warp.load_part(first);
            warp.add_part::<FORM, SELECT>(&group, first);
        }
        warp.finish(p);
    }
}
