//! `mmvq.product/stream_r1`: as `ring`, by warps that go from row to row, so that loads are under way at a row's end too.
//!
//! Math      y[c][r] = sum over k of W[r][k] x[c][k], in the steps of `call`
//! Shapes    as `hoist.rs`
//! Mapping   grid of any size, block 128: warp w of all W has rows R w .. + R - 1, then those R W later, and so on; the last
//!           group of its rows is added while the first one of its next rows is loaded
//! Order     the module's
//! Barriers  none
//! Budget    128 registers, 0 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Bitwise against `plain`

use cuda_std::launch::Bounds;
use cuda_std::thread::grid_dim_x;

use super::ProductParams;
use super::call::Call;
use super::group::{WARPS, Warp};
use super::instance::instances;

/// Four warps, which share nothing.
pub const BOUNDS: Bounds = Bounds { threads: 128, min_blocks: 4 };

instances! {
    80, BOUNDS, body;
    mmvq_product_stream_r1_q8_0_t1 MMVQ_PRODUCT_STREAM_R1_Q8_0_T1 Q8Zero 1 1 1;
    mmvq_product_stream_r1_q8_0_t2 MMVQ_PRODUCT_STREAM_R1_Q8_0_T2 Q8Zero 1 1 2;
    mmvq_product_stream_r1_q8_0_t4 MMVQ_PRODUCT_STREAM_R1_Q8_0_T4 Q8Zero 1 1 4;
    mmvq_product_stream_r1_q4_k_t1 MMVQ_PRODUCT_STREAM_R1_Q4_K_T1 Q4K 1 1 1;
    mmvq_product_stream_r1_q4_k_t2 MMVQ_PRODUCT_STREAM_R1_Q4_K_T2 Q4K 1 1 2;
    mmvq_product_stream_r1_q5_k_t1 MMVQ_PRODUCT_STREAM_R1_Q5_K_T1 Q5K 1 1 1;
    mmvq_product_stream_r1_q6_k_t1 MMVQ_PRODUCT_STREAM_R1_Q6_K_T1 Q6K 1 1 1;
    mmvq_product_stream_r1_q6_k_t2 MMVQ_PRODUCT_STREAM_R1_Q6_K_T2 Q6K 1 1 2;
    mmvq_product_stream_r1_q6_k_t4 MMVQ_PRODUCT_STREAM_R1_Q6_K_T4 Q6K 1 1 4;
    mmvq_product_stream_r1_iq4_xs_t1 MMVQ_PRODUCT_STREAM_R1_IQ4_XS_T1 Iq4Xs 1 1 1;
}

#[inline(always)]
unsafe fn body<F: Call, const R: usize, const P: usize, const T: usize, const FORM: u8>(p: ProductParams) {
    let step = grid_dim_x() as usize * WARPS * R;
    // SAFETY: same contract.
    let mut warp = unsafe { Warp::<F, R, P, T>::here(&p) };
    let mut first = 0;
    // SAFETY: block 0 starts a group.
    let mut group = unsafe { warp.load_part(first) };
    loop {
        let (mut next, next_row) = (first + Warp::<F, R, P, T>::BLOCKS, warp.first_row() + step);
        let (last, more) = (next >= warp.blocks, next_row < p.n_out as usize);
        if last {
            warp.read_from(&p, next_row);
            // Behind the row there is nothing to load.
            next = if more { 0 } else { next };
        }
        // SAFETY: both start a group.
        unsafe {
            let after = warp.load_part(next);
            warp.add_part::<FORM, true>(&group, first);
            group = after;
        }
        if last {
            // SAFETY: all lanes are here; they agree on where rows end.
            unsafe { warp.finish(&p) };
            if !more {
                return;
            }
            warp.sum_from(next_row);
        }
        first = next;
    }
}
