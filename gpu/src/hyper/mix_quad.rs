//! `hyper.mix/quad`: the gated mean of the streams.
//!
//! Math      x[t][i] = (1 / C) sum over c of sigmoid(up[t][c d + i]) n[t][c d + i]
//! Shapes    `MixParams`; any width, any number of streams
//! Mapping   a thread a quad, rows by quads one after another over the grid (`quad::Quads`)
//! Order     acc = 0; c ascending: acc = fma(sigmoid(up), n, acc); then acc * (1 / C)
//! Barriers  none
//! Budget    40 registers, 0 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Base; both instances give the same bits, and a token's do not depend on the call's others

use cuda_std::{float, kernel};

use super::MixParams;
use crate::quad;

/// # Safety
/// Shapes and aliasing as `MixParams` says, every row a multiple of 4 elements from a multiple of 16 bytes; a thread a
/// quad, blocks of `quad::BOUNDS`.
#[kernel]
#[launch_bounds(quad::BOUNDS)]
pub unsafe fn hyper_mix_quad_wide(p: MixParams) {
    // SAFETY: same contract.
    unsafe { body::<true>(p) }
}

/// # Safety
/// As [`hyper_mix_quad_wide`], but rows of any width at any multiple of 4 bytes.
#[kernel]
#[launch_bounds(quad::BOUNDS)]
pub unsafe fn hyper_mix_quad_narrow(p: MixParams) {
    // SAFETY: same contract.
    unsafe { body::<false>(p) }
}

#[inline(always)]
unsafe fn body<const WIDE: bool>(p: MixParams) {
    let Some(quad) = p.quads.here() else { return };
    let mut acc = [0.0f32; quad::LEN];
    for c in 0..p.streams as usize {
        let at = c * p.quads.width as usize + quad.at;
        // SAFETY: `c < C`, so the quad lies within both rows of width C d; nothing writes them.
        let (up, n) = unsafe {
            (
                quad::load_nc::<WIDE>(p.up.add(quad.row * p.up_stride as usize + at), quad.len),
                quad::load_nc::<WIDE>(p.n.add(quad.row * p.n_stride as usize + at), quad.len),
            )
        };
        for i in 0..quad::LEN {
            acc[i] = float::fma(float::sigmoid(up[i]), n[i], acc[i]);
        }
    }
    let x = acc.map(|v| v * p.inv_streams);
    // SAFETY: the quad lies within the row of width d; one writer an element.
    unsafe { quad::store::<WIDE>(p.x.add(quad.row * p.x_stride as usize + quad.at), quad.len, x) };
}
