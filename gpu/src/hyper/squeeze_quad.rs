//! `hyper.squeeze/quad`: nonlinearities of the low-rank products, in place.
//!
//! Math      v[t][i] = silu(v[t][i] / C) for i < r, 2 sigmoid(v[t][i] / C) for the C columns behind
//! Shapes    `SqueezeParams`; any width
//! Mapping   a thread a quad, rows by quads one after another over the grid (`quad::Quads`)
//! Order     the division, then the function, then the exact doubling
//! Barriers  none
//! Budget    40 registers, 0 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Base; both instances give the same bits, and a token's do not depend on the call's others

use cuda_std::{float, kernel};

use super::SqueezeParams;
use crate::quad;

/// # Safety
/// Shapes and aliasing as `SqueezeParams` says, every row a multiple of 4 elements from a multiple of 16 bytes; a
/// thread a quad, blocks of `quad::BOUNDS`.
#[kernel]
#[launch_bounds(quad::BOUNDS)]
pub unsafe fn hyper_squeeze_quad_wide(p: SqueezeParams) {
    // SAFETY: same contract.
    unsafe { body::<true>(p) }
}

/// # Safety
/// As [`hyper_squeeze_quad_wide`], but rows of any width at any multiple of 4 bytes.
#[kernel]
#[launch_bounds(quad::BOUNDS)]
pub unsafe fn hyper_squeeze_quad_narrow(p: SqueezeParams) {
    // SAFETY: same contract.
    unsafe { body::<false>(p) }
}

#[inline(always)]
unsafe fn body<const WIDE: bool>(p: SqueezeParams) {
    let Some(quad) = p.quads.here() else { return };
    // SAFETY: the quad lies within the row; this thread alone touches it.
    let v = unsafe { quad::load::<WIDE>(p.v.add(quad.row * p.stride as usize + quad.at), quad.len) };
    let mut out = [0.0; quad::LEN];
    for i in 0..quad::LEN {
        let x = v[i] / p.streams;
        out[i] = if quad.at + i < p.rank as usize { float::silu(x) } else { 2.0 * float::sigmoid(x) };
    }
    // SAFETY: as for the load.
    unsafe { quad::store::<WIDE>(p.v.add(quad.row * p.stride as usize + quad.at), quad.len, out) };
}
