//! `mmvq.product/plain`: four warps share the rows of a block, one slot each.
//!
//! Math      y[c][r] = sum over k of W[r][k] x[c][k], in the steps of `call`
//! Shapes    `ProductParams`, W 2-byte aligned where its format is; 1 to T columns
//! Mapping   grid ceil(n_out / R), R = 1 or 2, block 128: warp v has slot v of each of the block's rows, a call a lane and chunk;
//!           `pick` says which matrix and rows
//! Order     the module's
//! Barriers  one: warps 1 to 3 write their lanes' sums before it, warp 0 reads them after it; nothing returns early
//! Budget    128 registers, 3,072 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Base

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, sync_threads, thread_idx_x};
use cuda_std::{shared, shared_array};

use super::ProductParams;
use super::call::{Align, CONVERT, Call};
use super::instance::instances;
use super::pick;
use super::source::Vectors;
use super::sums::finish_picked;

/// Four warps, one a slot.
pub const BOUNDS: Bounds = Bounds { threads: 128, min_blocks: 4 };
/// Most sums of a block: rows times columns.
const MAX_SUMS: usize = 8;

instances! {
    75, BOUNDS, body;
    mmvq_product_plain_q8_0_t1 MMVQ_PRODUCT_PLAIN_Q8_0_T1 Q8Zero 1 1 1;
    mmvq_product_plain_q8_0_t4 MMVQ_PRODUCT_PLAIN_Q8_0_T4 Q8Zero 2 1 4;
    mmvq_product_plain_q8_0_t8 MMVQ_PRODUCT_PLAIN_Q8_0_T8 Q8Zero 1 2 4;
    mmvq_product_plain_iq4_nl_t1 MMVQ_PRODUCT_PLAIN_IQ4_NL_T1 Iq4Nl 1 1 1;
    mmvq_product_plain_iq4_nl_t4 MMVQ_PRODUCT_PLAIN_IQ4_NL_T4 Iq4Nl 2 1 4;
    mmvq_product_plain_iq4_nl_t8 MMVQ_PRODUCT_PLAIN_IQ4_NL_T8 Iq4Nl 1 2 4;
    mmvq_product_plain_q3_k_t1 MMVQ_PRODUCT_PLAIN_Q3_K_T1 Q3K 1 1 1;
    mmvq_product_plain_q3_k_t4 MMVQ_PRODUCT_PLAIN_Q3_K_T4 Q3K 2 1 4;
    mmvq_product_plain_q3_k_t8 MMVQ_PRODUCT_PLAIN_Q3_K_T8 Q3K 1 2 4;
    mmvq_product_plain_q4_k_t1 MMVQ_PRODUCT_PLAIN_Q4_K_T1 Q4K 1 1 1;
    mmvq_product_plain_q4_k_t4 MMVQ_PRODUCT_PLAIN_Q4_K_T4 Q4K 2 1 4;
    mmvq_product_plain_q4_k_t8 MMVQ_PRODUCT_PLAIN_Q4_K_T8 Q4K 1 2 4;
    mmvq_product_plain_q5_k_t1 MMVQ_PRODUCT_PLAIN_Q5_K_T1 Q5K 1 1 1;
    mmvq_product_plain_q5_k_t4 MMVQ_PRODUCT_PLAIN_Q5_K_T4 Q5K 2 1 4;
    mmvq_product_plain_q5_k_t8 MMVQ_PRODUCT_PLAIN_Q5_K_T8 Q5K 1 2 4;
    mmvq_product_plain_q6_k_t1 MMVQ_PRODUCT_PLAIN_Q6_K_T1 Q6K 1 1 1;
    mmvq_product_plain_q6_k_t4 MMVQ_PRODUCT_PLAIN_Q6_K_T4 Q6K 2 1 4;
    mmvq_product_plain_q6_k_t8 MMVQ_PRODUCT_PLAIN_Q6_K_T8 Q6K 1 2 4;
    mmvq_product_plain_iq4_xs_t1 MMVQ_PRODUCT_PLAIN_IQ4_XS_T1 Iq4Xs 1 1 1;
    mmvq_product_plain_iq4_xs_t4 MMVQ_PRODUCT_PLAIN_IQ4_XS_T4 Iq4Xs 2 1 4;
    mmvq_product_plain_iq4_xs_t8 MMVQ_PRODUCT_PLAIN_IQ4_XS_T8 Iq4Xs 1 2 4;
}

#[inline(always)]
unsafe fn body<F: Call, const R: usize, const P: usize, const T: usize, const FORM: u8>(p: ProductParams) {
    let (v, lane) = (thread_idx_x() as usize / 32, thread_idx_x() as usize % 32);
    let first = block_idx_x() as usize * R;
    let blocks = p.n_in as usize / F::VALUES;
    // SAFETY: nothing writes x during the launch.
    let part = |i: usize| unsafe { Vectors::<T>::new(p.q8, p.n_in as usize, p.columns as usize, i * T) };
    let x: [Vectors<T>; P] = core::array::from_fn(part);
    // SAFETY: same contract.
    let w: [*const u8; R] = core::array::from_fn(|r| unsafe { pick::weights::<F>(&p, first + r) });
    let sums = shared_array![f32; 3 * MAX_SUMS * 32];
    let mut a = [[[0.0f32; T]; P]; R];
    let (q, mut block) = (lane % F::LPB, v * F::SUB + lane / F::LPB);
    while block < blocks {
        for r in 0..R {
            // SAFETY: the block exists; a row past the last is the last one, done again and not stored.
            unsafe {
                let at = w[r].add(block * F::BYTES);
                let weights = F::decode(&F::load::<false>(at, 0, q, Align::Two), q, Align::Two);
                for part in 0..P {
                    let acts = F::gather(&x[part], block, q);
                    F::apply::<T, CONVERT>(&weights, &acts, &mut a[r][part]);
                }
            }
        }
        block += 4 * F::SUB;
    }
    if v > 0 {
        for i in 0..R * P * T {
            // SAFETY: v < 4 and i < R P T are within the array; one writer an element.
            unsafe { shared::store(sums.add(((v - 1) * R * P * T + i) * 32 + lane), a[i / T / P][i / T % P][i % T]) };
        }
    }
    sync_threads();
    if v == 0 {
        let mut of_slots = [a; 4];
        for v in 1..4 {
            for i in 0..R * P * T {
                // SAFETY: written before the barrier by lane `lane` of warp v.
                let sum = unsafe { shared::load(sums.add(((v - 1) * R * P * T + i) * 32 + lane)) };
                of_slots[v][i / T / P][i / T % P][i % T] = sum;
            }
        }
        // SAFETY: this block alone has these rows; the whole warp is here.
        unsafe { finish_picked(&p, first, lane, &of_slots, 4) };
    }
}
