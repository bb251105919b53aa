//! `conv.window/quad`: keeps the last rows of a convolution's input.
//!
//! Math      window = the last `rows` rows of window ++ x, in place
//! Shapes    `WindowParams`; any number of rows and tokens, any width
//! Mapping   a thread a quad, rows by quads one after another over the grid (`quad::Quads`)
//! Order     no arithmetic; rows ascending, each from one further on, so that none is overwritten before it is read
//! Barriers  none
//! Budget    40 registers, 0 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Base; both instances give the same bits, and a token's do not depend on the call's others

use cuda_std::kernel;

use super::WindowParams;
use crate::quad;

/// # Safety
/// Shapes and aliasing as `WindowParams` says, every row a multiple of 4 elements from a multiple of 16 bytes; a thread
/// a quad, blocks of `quad::BOUNDS`.
#[kernel]
#[launch_bounds(quad::BOUNDS)]
pub unsafe fn conv_window_quad_wide(p: WindowParams) {
    // SAFETY: same contract.
    unsafe { body::<true>(p) }
}

/// # Safety
/// As [`conv_window_quad_wide`], but rows of any width at any multiple of 4 bytes.
#[kernel]
#[launch_bounds(quad::BOUNDS)]
pub unsafe fn conv_window_quad_narrow(p: WindowParams) {
    // SAFETY: same contract.
    unsafe { body::<false>(p) }
}

#[inline(always)]
unsafe fn body<const WIDE: bool>(p: WindowParams) {
    let Some(quad) = p.quads.here() else { return };
    let (rows, tokens) = (p.rows as usize, p.tokens as usize);
    for r in 0..rows {
        let from = r + tokens;
        // SAFETY: the quad lies within its row, and `from < rows` is a row of the window, else `from - rows < tokens`
        // one of `x`, which nothing writes; this thread alone touches these columns of the window.
        unsafe {
            let v = if from < rows {
                quad::load::<WIDE>(p.window.add(from * p.window_stride as usize + quad.at), quad.len)
            } else {
                quad::load_nc::<WIDE>(p.x.add((from - rows) * p.x_stride as usize + quad.at), quad.len)
            };
            quad::store::<WIDE>(p.window.add(r * p.window_stride as usize + quad.at), quad.len, v);
        }
    }
}
