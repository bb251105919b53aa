//! `ple.conv/quad`: dilated depthwise convolution over tokens, its SiLU and the residuals.
//!
//! Math      s[t][i] += u[t][i] + silu(sum over k of taps[i][k] x[t - (K - 1 - k) dil][i]), x = m, before the call the
//!           window
//! Shapes    `ConvParams`; any width, number of taps and dilation
//! Mapping   a thread a quad, rows by quads one after another over the grid (`quad::Quads`)
//! Order     acc = 0; k ascending: acc = fma(tap, x, acc); then s + (u + silu(acc))
//! Barriers  none
//! Budget    64 registers, 0 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Base; both instances give the same bits, and a token's do not depend on the call's others

use cuda_std::{float, global, kernel};

use super::ConvParams;
use crate::quad;

/// # Safety
/// Shapes and aliasing as `ConvParams` says, every row a multiple of 4 elements from a multiple of 16 bytes; a thread a
/// quad, blocks of `quad::BOUNDS`.
#[kernel]
#[launch_bounds(quad::BOUNDS)]
pub unsafe fn ple_conv_quad_wide(p: ConvParams) {
    // SAFETY: same contract.
    unsafe { body::<true>(p) }
}

/// # Safety
/// As [`ple_conv_quad_wide`], but rows of any width at any multiple of 4 bytes.
#[kernel]
#[launch_bounds(quad::BOUNDS)]
pub unsafe fn ple_conv_quad_narrow(p: ConvParams) {
    // SAFETY: same contract.
    unsafe { body::<false>(p) }
}

#[inline(always)]
unsafe fn body<const WIDE: bool>(p: ConvParams) {
    let Some(quad) = p.quads.here() else { return };
    let (t, taps, dilation) = (quad.row, p.taps_len as usize, p.dilation as usize);
    let rows = (taps - 1) * dilation;
    let mut acc = [0.0f32; quad::LEN];
    for k in 0..taps {
        let back = (taps - 1 - k) * dilation;
        let row = if back <= t {
            p.m.wrapping_add((t - back) * p.m_stride as usize)
        } else {
            p.window.wrapping_add((rows + t - back) * p.window_stride as usize)
        };
        // SAFETY: `t - back` is a token of the call, else `rows + t - back < rows` a row of the window; the quad lies
        // within it; nothing writes either.
        let x = unsafe { quad::load_nc::<WIDE>(row.add(quad.at), quad.len) };
        for i in 0..quad::LEN {
            if WIDE || i < quad.len {
                // SAFETY: a channel of the width, `k < K`; nothing writes the taps.
                let tap = unsafe { global::load_nc(p.taps.add((quad.at + i) * taps + k)) };
                acc[i] = float::fma(tap, x[i], acc[i]);
            }
        }
    }
    // SAFETY: the quad lies within the rows of `u` and `s`; nothing writes `u`, this thread alone touches its part of
    // `s`.
    unsafe {
        let u = quad::load_nc::<WIDE>(p.u.add(t * p.u_stride as usize + quad.at), quad.len);
        let s = p.s.add(t * p.s_stride as usize + quad.at);
        let mut sum = quad::load::<WIDE>(s, quad.len);
        for i in 0..quad::LEN {
            sum[i] += u[i] + float::silu(acc[i]);
        }
        quad::store::<WIDE>(s, quad.len, sum);
    }
}
