//! `mmvq.product/plain` of IQ3_S and IQ2_XS, whose sums have one slot: a warp a row.
//!
//! Math      y[c][r] = sum over k of W[r][k] x[c][k], in the steps of `call`
//! Shapes    `ProductParams`, W 2-byte aligned; 1 to T columns
//! Mapping   grid ceil(n_out / 4), block 128: warp w of block b has row 4 b + w, a call a lane and chunk; `pick` says which matrix and row
//! Order     the module's
//! Barriers  none; a warp past the last row does it again and stores nothing
//! Budget    128 registers, 0 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Base

use cuda_std::launch::Bounds;

use super::ProductParams;
use super::call::{CONVERT, Call};
use super::il::rows;
use super::instance::instances;
use super::source::Vectors;

/// Four warps, which share nothing.
pub const BOUNDS: Bounds = Bounds { threads: 128, min_blocks: 4 };

instances! {
    75, BOUNDS, body;
    mmvq_product_plain_iq3_s_t1 MMVQ_PRODUCT_PLAIN_IQ3_S_T1 Iq3S 1 1 1;
    mmvq_product_plain_iq3_s_t4 MMVQ_PRODUCT_PLAIN_IQ3_S_T4 Iq3S 1 1 4;
    mmvq_product_plain_iq3_s_t8 MMVQ_PRODUCT_PLAIN_IQ3_S_T8 Iq3S 1 2 4;
    mmvq_product_plain_iq2_xs_t1 MMVQ_PRODUCT_PLAIN_IQ2_XS_T1 Iq2Xs 1 1 1;
    mmvq_product_plain_iq2_xs_t4 MMVQ_PRODUCT_PLAIN_IQ2_XS_T4 Iq2Xs 1 1 4;
    mmvq_product_plain_iq2_xs_t8 MMVQ_PRODUCT_PLAIN_IQ2_XS_T8 Iq2Xs 1 2 4;
}

#[inline(always)]
unsafe fn body<F: Call, const R: usize, const P: usize, const T: usize, const FORM: u8>(p: ProductParams) {
    // SAFETY: same contract; nothing writes x during the launch.
    unsafe {
        let part = |i: usize| Vectors::<T>::new(p.q8, p.n_in as usize, p.columns as usize, i * T);
        rows::<F, _, R, P, T, CONVERT>(&p, &core::array::from_fn(part));
    }
}
