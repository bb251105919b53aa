//! `moe.silu_mul/quad`: the gated activation between an expert's products.
//!
//! Math      h[r][i] = silu(gate[r][i]) up[r][i]
//! Shapes    `SiluMulParams`; any width
//! Mapping   a thread a quad, rows by quads one after another over the grid (`quad::Quads`)
//! Order     silu, then the product
//! Barriers  none
//! Budget    40 registers, 0 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Base; both instances give the same bits, and a token's do not depend on the call's others

use cuda_std::{float, kernel};

use super::SiluMulParams;
use crate::quad;

/// # Safety
/// Shapes and aliasing as `SiluMulParams` says, every row a multiple of 4 elements from a multiple of 16 bytes; a
/// thread a quad, blocks of `quad::BOUNDS`.
#[kernel]
#[launch_bounds(quad::BOUNDS)]
pub unsafe fn moe_silu_mul_quad_wide(p: SiluMulParams) {
    // SAFETY: same contract.
    unsafe { body::<true>(p) }
}

/// # Safety
/// As [`moe_silu_mul_quad_wide`], but rows of any width at any multiple of 4 bytes.
#[kernel]
#[launch_bounds(quad::BOUNDS)]
pub unsafe fn moe_silu_mul_quad_narrow(p: SiluMulParams) {
    // SAFETY: same contract.
    unsafe { body::<false>(p) }
}

#[inline(always)]
unsafe fn body<const WIDE: bool>(p: SiluMulParams) {
    let Some(quad) = p.quads.here() else { return };
    // SAFETY: the quad lies within both rows; nothing writes them.
    let (gate, up) = unsafe {
        (
            quad::load_nc::<WIDE>(p.gate.add(quad.row * p.gate_stride as usize + quad.at), quad.len),
            quad::load_nc::<WIDE>(p.up.add(quad.row * p.up_stride as usize + quad.at), quad.len),
        )
    };
    let mut h = [0.0; quad::LEN];
    for i in 0..quad::LEN {
        h[i] = float::silu(gate[i]) * up[i];
    }
    // SAFETY: the quad lies within the row; one writer an element.
    unsafe { quad::store::<WIDE>(p.h.add(quad.row * p.h_stride as usize + quad.at), quad.len, h) };
}
