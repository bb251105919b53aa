//! `hyper.expand/quad`: a thread copies a quad of a token's embedding to every stream.
//!
//! Math      s[t][c d + i] = h[t][i] for every stream c
//! Shapes    `ExpandParams`; any width, any number of streams
//! Mapping   a thread a quad, rows by quads one after another over the grid (`quad::Quads`)
//! Order     no arithmetic
//! Barriers  none
//! Budget    40 registers, 0 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Base; both instances give the same bits, and a token's do not depend on the call's others

use cuda_std::kernel;

use super::ExpandParams;
use crate::quad;

/// # Safety
/// Shapes and aliasing as `ExpandParams` says, every row a multiple of 4 elements from a multiple of 16 bytes; a thread
/// a quad, blocks of `quad::BOUNDS`.
#[kernel]
#[launch_bounds(quad::BOUNDS)]
pub unsafe fn hyper_expand_quad_wide(p: ExpandParams) {
    // SAFETY: same contract.
    unsafe { body::<true>(p) }
}

/// # Safety
/// As [`hyper_expand_quad_wide`], but rows of any width at any multiple of 4 bytes.
#[kernel]
#[launch_bounds(quad::BOUNDS)]
pub unsafe fn hyper_expand_quad_narrow(p: ExpandParams) {
    // SAFETY: same contract.
    unsafe { body::<false>(p) }
}

#[inline(always)]
unsafe fn body<const WIDE: bool>(p: ExpandParams) {
    let Some(quad) = p.quads.here() else { return };
    // SAFETY: the quad lies within the row of width d; nothing writes `h`.
    let v = unsafe { quad::load_nc::<WIDE>(p.h.add(quad.row * p.h_stride as usize + quad.at), quad.len) };
    for c in 0..p.streams as usize {
        let at = quad.row * p.s_stride as usize + c * p.quads.width as usize + quad.at;
        // SAFETY: `c < C`, so the quad lies within the row of width C d; one writer an element.
        unsafe { quad::store::<WIDE>(p.s.add(at), quad.len, v) };
    }
}
