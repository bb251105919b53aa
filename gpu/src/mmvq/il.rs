//! `mmvq.product/il_r1`, `il_r2`, `il_r4`: a warp has 1, 2 or 4 rows and plays all four slots, on the interleaved copy.
//!
//! Math      y[c][r] = sum over k of W[r][k] x[c][k], in the steps of `call`
//! Shapes    `ProductParams`, W 2-byte aligned where its format is; the copy has room for T columns
//! Mapping   grid ceil(n_out / 4 R), block 128: warp w of block b has rows R (4 b + w) .. + R - 1, a call a lane and chunk;
//!           what a call needs of the columns is loaded once for its rows; `pick` says which matrix and rows
//! Order     the module's
//! Barriers  none; a row past the last is the last one, done again and not stored
//! Budget    168 registers, 0 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Bitwise against `plain`

use cuda_std::int::opaque;
use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, thread_idx_x};
use cuda_std::warp;

use super::ProductParams;
use super::call::{Align, Call};
use super::group::WARPS;
use super::instance::instances;
use super::pick;
use super::source::{Interleaved, Source};
use super::sums::finish_picked;

/// Four warps, which share nothing.
pub const BOUNDS: Bounds = Bounds { threads: 128, min_blocks: 3 };

instances! {
    80, BOUNDS, body;
    mmvq_product_il_r1_q8_0_t1 MMVQ_PRODUCT_IL_R1_Q8_0_T1 Q8Zero 1 1 1;
    mmvq_product_il_r1_q8_0_t4 MMVQ_PRODUCT_IL_R1_Q8_0_T4 Q8Zero 1 1 4;
    mmvq_product_il_r1_q8_0_t8 MMVQ_PRODUCT_IL_R1_Q8_0_T8 Q8Zero 1 2 4;
    mmvq_product_il_r2_q8_0_t1 MMVQ_PRODUCT_IL_R2_Q8_0_T1 Q8Zero 2 1 1;
    mmvq_product_il_r2_q8_0_t2 MMVQ_PRODUCT_IL_R2_Q8_0_T2 Q8Zero 2 1 2;
    mmvq_product_il_r2_q8_0_t4 MMVQ_PRODUCT_IL_R2_Q8_0_T4 Q8Zero 2 1 4;
    mmvq_product_il_r2_q8_0_t8 MMVQ_PRODUCT_IL_R2_Q8_0_T8 Q8Zero 2 2 4;
    mmvq_product_il_r4_q8_0_t1 MMVQ_PRODUCT_IL_R4_Q8_0_T1 Q8Zero 4 1 1;
    mmvq_product_il_r4_q8_0_t2 MMVQ_PRODUCT_IL_R4_Q8_0_T2 Q8Zero 4 1 2;
    mmvq_product_il_r1_q3_k_t1 MMVQ_PRODUCT_IL_R1_Q3_K_T1 Q3K 1 1 1;
    mmvq_product_il_r1_q3_k_t4 MMVQ_PRODUCT_IL_R1_Q3_K_T4 Q3K 1 1 4;
    mmvq_product_il_r1_q3_k_t8 MMVQ_PRODUCT_IL_R1_Q3_K_T8 Q3K 1 2 4;
    mmvq_product_il_r2_q3_k_t1 MMVQ_PRODUCT_IL_R2_Q3_K_T1 Q3K 2 1 1;
    mmvq_product_il_r2_q3_k_t2 MMVQ_PRODUCT_IL_R2_Q3_K_T2 Q3K 2 1 2;
    mmvq_product_il_r2_q3_k_t4 MMVQ_PRODUCT_IL_R2_Q3_K_T4 Q3K 2 1 4;
    mmvq_product_il_r2_q3_k_t8 MMVQ_PRODUCT_IL_R2_Q3_K_T8 Q3K 2 2 4;
    mmvq_product_il_r4_q3_k_t1 MMVQ_PRODUCT_IL_R4_Q3_K_T1 Q3K 4 1 1;
    mmvq_product_il_r4_q3_k_t2 MMVQ_PRODUCT_IL_R4_Q3_K_T2 Q3K 4 1 2;
    mmvq_product_il_r1_q4_k_t1 MMVQ_PRODUCT_IL_R1_Q4_K_T1 Q4K 1 1 1;
    mmvq_product_il_r1_q4_k_t4 MMVQ_PRODUCT_IL_R1_Q4_K_T4 Q4K 1 1 4;
    mmvq_product_il_r1_q4_k_t8 MMVQ_PRODUCT_IL_R1_Q4_K_T8 Q4K 1 2 4;
    mmvq_product_il_r2_q4_k_t1 MMVQ_PRODUCT_IL_R2_Q4_K_T1 Q4K 2 1 1;
    mmvq_product_il_r2_q4_k_t2 MMVQ_PRODUCT_IL_R2_Q4_K_T2 Q4K 2 1 2;
    mmvq_product_il_r2_q4_k_t4 MMVQ_PRODUCT_IL_R2_Q4_K_T4 Q4K 2 1 4;
    mmvq_product_il_r2_q4_k_t8 MMVQ_PRODUCT_IL_R2_Q4_K_T8 Q4K 2 2 4;
    mmvq_product_il_r4_q4_k_t1 MMVQ_PRODUCT_IL_R4_Q4_K_T1 Q4K 4 1 1;
    mmvq_product_il_r4_q4_k_t2 MMVQ_PRODUCT_IL_R4_Q4_K_T2 Q4K 4 1 2;
    mmvq_product_il_r1_q5_k_t1 MMVQ_PRODUCT_IL_R1_Q5_K_T1 Q5K 1 1 1;
    mmvq_product_il_r1_q5_k_t4 MMVQ_PRODUCT_IL_R1_Q5_K_T4 Q5K 1 1 4;
    mmvq_product_il_r1_q5_k_t8 MMVQ_PRODUCT_IL_R1_Q5_K_T8 Q5K 1 2 4;
    mmvq_product_il_r2_q5_k_t1 MMVQ_PRODUCT_IL_R2_Q5_K_T1 Q5K 2 1 1;
    mmvq_product_il_r2_q5_k_t2 MMVQ_PRODUCT_IL_R2_Q5_K_T2 Q5K 2 1 2;
    mmvq_product_il_r2_q5_k_t4 MMVQ_PRODUCT_IL_R2_Q5_K_T4 Q5K 2 1 4;
    mmvq_product_il_r2_q5_k_t8 MMVQ_PRODUCT_IL_R2_Q5_K_T8 Q5K 2 2 4;
    mmvq_product_il_r4_q5_k_t1 MMVQ_PRODUCT_IL_R4_Q5_K_T1 Q5K 4 1 1;
    mmvq_product_il_r4_q5_k_t2 MMVQ_PRODUCT_IL_R4_Q5_K_T2 Q5K 4 1 2;
    mmvq_product_il_r1_q6_k_t1 MMVQ_PRODUCT_IL_R1_Q6_K_T1 Q6K 1 1 1;
    mmvq_product_il_r1_q6_k_t4 MMVQ_PRODUCT_IL_R1_Q6_K_T4 Q6K 1 1 4;
    mmvq_product_il_r1_q6_k_t8 MMVQ_PRODUCT_IL_R1_Q6_K_T8 Q6K 1 2 4;
    mmvq_product_il_r2_q6_k_t1 MMVQ_PRODUCT_IL_R2_Q6_K_T1 Q6K 2 1 1;
    mmvq_product_il_r2_q6_k_t2 MMVQ_PRODUCT_IL_R2_Q6_K_T2 Q6K 2 1 2;
    mmvq_product_il_r2_q6_k_t4 MMVQ_PRODUCT_IL_R2_Q6_K_T4 Q6K 2 1 4;
    mmvq_product_il_r2_q6_k_t8 MMVQ_PRODUCT_IL_R2_Q6_K_T8 Q6K 2 2 4;
    mmvq_product_il_r4_q6_k_t1 MMVQ_PRODUCT_IL_R4_Q6_K_T1 Q6K 4 1 1;
    mmvq_product_il_r4_q6_k_t2 MMVQ_PRODUCT_IL_R4_Q6_K_T2 Q6K 4 1 2;
    mmvq_product_il_r1_iq4_xs_t1 MMVQ_PRODUCT_IL_R1_IQ4_XS_T1 Iq4Xs 1 1 1;
    mmvq_product_il_r1_iq4_xs_t4 MMVQ_PRODUCT_IL_R1_IQ4_XS_T4 Iq4Xs 1 1 4;
    mmvq_product_il_r1_iq4_xs_t8 MMVQ_PRODUCT_IL_R1_IQ4_XS_T8 Iq4Xs 1 2 4;
    mmvq_product_il_r2_iq4_xs_t1 MMVQ_PRODUCT_IL_R2_IQ4_XS_T1 Iq4Xs 2 1 1;
    mmvq_product_il_r2_iq4_xs_t2 MMVQ_PRODUCT_IL_R2_IQ4_XS_T2 Iq4Xs 2 1 2;
    mmvq_product_il_r2_iq4_xs_t4 MMVQ_PRODUCT_IL_R2_IQ4_XS_T4 Iq4Xs 2 1 4;
    mmvq_product_il_r2_iq4_xs_t8 MMVQ_PRODUCT_IL_R2_IQ4_XS_T8 Iq4Xs 2 2 4;
    mmvq_product_il_r4_iq4_xs_t1 MMVQ_PRODUCT_IL_R4_IQ4_XS_T1 Iq4Xs 4 1 1;
    mmvq_product_il_r4_iq4_xs_t2 MMVQ_PRODUCT_IL_R4_IQ4_XS_T2 Iq4Xs 4 1 2;
    mmvq_product_il_r1_iq3_s_t1 MMVQ_PRODUCT_IL_R1_IQ3_S_T1 Iq3S 1 1 1;
    mmvq_product_il_r1_iq3_s_t4 MMVQ_PRODUCT_IL_R1_IQ3_S_T4 Iq3S 1 1 4;
    mmvq_product_il_r1_iq3_s_t8 MMVQ_PRODUCT_IL_R1_IQ3_S_T8 Iq3S 1 2 4;
    mmvq_product_il_r2_iq3_s_t1 MMVQ_PRODUCT_IL_R2_IQ3_S_T1 Iq3S 2 1 1;
    mmvq_product_il_r2_iq3_s_t2 MMVQ_PRODUCT_IL_R2_IQ3_S_T2 Iq3S 2 1 2;
    mmvq_product_il_r2_iq3_s_t4 MMVQ_PRODUCT_IL_R2_IQ3_S_T4 Iq3S 2 1 4;
    mmvq_product_il_r2_iq3_s_t8 MMVQ_PRODUCT_IL_R2_IQ3_S_T8 Iq3S 2 2 4;
    mmvq_product_il_r4_iq3_s_t1 MMVQ_PRODUCT_IL_R4_IQ3_S_T1 Iq3S 4 1 1;
    mmvq_product_il_r4_iq3_s_t2 MMVQ_PRODUCT_IL_R4_IQ3_S_T2 Iq3S 4 1 2;
}

#[inline(always)]
unsafe fn body<F: Call, const R: usize, const P: usize, const T: usize, const FORM: u8>(p: ProductParams) {
    // SAFETY: same contract; nothing writes the copy during the launch.
    unsafe {
        let part = |i: usize| Interleaved::<T>::new(p.il, p.n_in as usize, P * T, i * T);
        rows::<F, _, R, P, T, FORM>(&p, &core::array::from_fn(part));
    }
}

/// The rows of a warp, one chunk after the other; `x` has the columns.
///
/// # Safety
/// As the kernels.
#[inline(always)]
pub(super) unsafe fn rows<F: Call, S: Source<T>, const R: usize, const P: usize, const T: usize, const FORM: u8>(
    p: &ProductParams,
    x: &[S; P],
) {
    let (own, lane) = (thread_idx_x() as usize / 32, thread_idx_x() as usize % 32);
    let first = (block_idx_x() as usize * WARPS + own) * R;
    let blocks = p.n_in as usize / F::VALUES;
    // SAFETY: same contract.
    let w: [*const u8; R] = core::array::from_fn(|r| unsafe { pick::weights::<F>(p, first + r) });
    let mut a = [[[[0.0f32; T]; P]; R]; 4];
    let (q, mut group) = (lane % F::LPB, 0);
    while group < blocks {
        let here = opaque(group);
        for v in 0..4 {
            let block = here + v * F::SUB + lane / F::LPB;
            if block < blocks {
                // SAFETY: `block < blocks`.
                unsafe {
                    let weights = w.map(|row| {
                        F::decode(&F::load::<false>(row.add(block * F::BYTES), 0, q, Align::Two), q, Align::Two)
                    });
                    for part in 0..P {
                        let acts = F::gather(&x[part], block, q);
                        for r in 0..R {
                            F::apply::<T, FORM>(&weights[r], &acts, &mut a[v % F::SLOTS][r][part]);
                        }
                    }
                }
            }
        }
        group += 4 * F::SUB;
    }
    // The lane's number is asked again: kept meanwhile, it would cost the largest kernel a spill.
    // SAFETY: this warp alone has these rows; all its lanes are here.
    unsafe { finish_picked(p, first, warp::lane_id() as usize, &a, F::SLOTS) };
}
