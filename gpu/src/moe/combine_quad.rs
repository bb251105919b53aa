//! `moe.combine/quad`: the weighted sum of a token's experts, and its shared expert.
//!
//! Math      y[t][i] = sum over j of w[t][j] down[t k + j][i] + sigmoid(sg[t]) shared[t][i]
//! Shapes    `CombineParams`; any width and number of experts a token
//! Mapping   a thread a quad, rows by quads one after another over the grid (`quad::Quads`)
//! Order     acc = 0; j ascending: acc = fma(w, down, acc); then fma(sigmoid(sg), shared, acc)
//! Barriers  none
//! Budget    40 registers, 0 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Base; both instances give the same bits, and a token's do not depend on the call's others

use cuda_std::{float, global, kernel};

use super::CombineParams;
use crate::quad;

/// # Safety
/// Shapes and aliasing as `CombineParams` says, every row a multiple of 4 elements from a multiple of 16 bytes; a
/// thread a quad, blocks of `quad::BOUNDS`.
#[kernel]
#[launch_bounds(quad::BOUNDS)]
pub unsafe fn moe_combine_quad_wide(p: CombineParams) {
    // SAFETY: same contract.
    unsafe { body::<true>(p) }
}

/// # Safety
/// As [`moe_combine_quad_wide`], but rows of any width at any multiple of 4 bytes.
#[kernel]
#[launch_bounds(quad::BOUNDS)]
pub unsafe fn moe_combine_quad_narrow(p: CombineParams) {
    // SAFETY: same contract.
    unsafe { body::<false>(p) }
}

#[inline(always)]
unsafe fn body<const WIDE: bool>(p: CombineParams) {
    let Some(quad) = p.quads.here() else { return };
    let (t, k) = (quad.row, p.k as usize);
    let mut acc = [0.0f32; quad::LEN];
    for j in 0..k {
        // SAFETY: `t < tokens`, `j < k`, the quad lies within its row; nothing writes either array.
        let (w, down) = unsafe {
            (
                global::load_nc(p.weights.add(t * p.weights_stride as usize + j)),
                quad::load_nc::<WIDE>(p.down.add((t * k + j) * p.down_stride as usize + quad.at), quad.len),
            )
        };
        for i in 0..quad::LEN {
            acc[i] = float::fma(w, down[i], acc[i]);
        }
    }
    // SAFETY: as above; one writer an element of `y`.
    unsafe {
        let gate = float::sigmoid(global::load_nc(p.shared_gate.add(t * p.shared_gate_stride as usize)));
        let shared = quad::load_nc::<WIDE>(p.shared.add(t * p.shared_stride as usize + quad.at), quad.len);
        for i in 0..quad::LEN {
            acc[i] = float::fma(gate, shared[i], acc[i]);
        }
        quad::store::<WIDE>(p.y.add(t * p.y_stride as usize + quad.at), quad.len, acc);
    }
}
