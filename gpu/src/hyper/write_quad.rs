//! `hyper.write/quad`: a layer's output back to every stream, in place.
//!
//! Math      s[t][c d + i] += inj[t][c] y[t][i]
//! Shapes    `WriteParams`; any width, any number of streams
//! Mapping   a thread a quad, rows by quads one after another over the grid (`quad::Quads`)
//! Order     s = fma(inj, y, s)
//! Barriers  none
//! Budget    40 registers, 0 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Base; both instances give the same bits, and a token's do not depend on the call's others

use cuda_std::{float, global, kernel};

use super::WriteParams;
use crate::quad;

/// # Safety
/// Shapes and aliasing as `WriteParams` says, every row a multiple of 4 elements from a multiple of 16 bytes; a thread
/// a quad, blocks of `quad::BOUNDS`.
#[kernel]
#[launch_bounds(quad::BOUNDS)]
pub unsafe fn hyper_write_quad_wide(p: WriteParams) {
    // SAFETY: same contract.
    unsafe { body::<true>(p) }
}

/// # Safety
/// As [`hyper_write_quad_wide`], but rows of any width at any multiple of 4 bytes.
#[kernel]
#[launch_bounds(quad::BOUNDS)]
pub unsafe fn hyper_write_quad_narrow(p: WriteParams) {
    // SAFETY: same contract.
    unsafe { body::<false>(p) }
}

#[inline(always)]
unsafe fn body<const WIDE: bool>(p: WriteParams) {
    let Some(quad) = p.quads.here() else { return };
    // SAFETY: the quad lies within the row of width d; nothing writes `y`.
    let y = unsafe { quad::load_nc::<WIDE>(p.y.add(quad.row * p.y_stride as usize + quad.at), quad.len) };
    for c in 0..p.streams as usize {
        // SAFETY: `c < C`, the width of the row; nothing writes `inj`.
        let inj = unsafe { global::load_nc(p.inj.add(quad.row * p.inj_stride as usize + c)) };
        let at = quad.row * p.s_stride as usize + c * p.quads.width as usize + quad.at;
        // SAFETY: the quad lies within the row of width C d; this thread alone touches it.
        unsafe {
            let mut s = quad::load::<WIDE>(p.s.add(at), quad.len);
            for i in 0..quad::LEN {
                s[i] = float::fma(inj, y[i], s[i]);
            }
            quad::store::<WIDE>(p.s.add(at), quad.len, s);
        }
    }
}
