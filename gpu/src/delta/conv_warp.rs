//! `delta.conv/warp`: a warp convolves one head of one token, and normalises it where it is a query or a key.
//!
//! Math      c = silu(sum over i = 0..3 of taps[ch][i] * raw[t - 3 + i][ch]), rows before the call from the window;
//!           q and k heads: c * rsqrt(sum of c^2 + 1e-6), q heads times q_scale
//! Shapes    `ConvParams`
//! Mapping   warp number = token * heads + head, q heads, then k, then v; lane l: channels 4 l .. 4 l + 3
//! Order     fma chain over the taps, oldest first; squares: fma chain over the lane's four, then xor 16, 8, 4, 2, 1
//! Barriers  none
//! Budget    64 registers, 0 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Base

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, thread_idx_x};
use cuda_std::{float, global, kernel, warp};

use super::{CONV_TAPS, ConvParams, L2_EPS};
use crate::geometry::HEAD_DIM;

/// Four warps, which share nothing.
pub const BOUNDS: Bounds = Bounds { threads: 128, min_blocks: 8 };
/// Heads of a block, a warp each.
pub const WARPS: u32 = BOUNDS.threads / 32;

/// # Safety
/// Shapes, alignment and aliasing as `ConvParams` says; grid `tokens * (2 key_heads + value_heads) / 4` rounded up, block 128.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn delta_conv_warp(p: ConvParams) {
    let (at, lane) = (block_idx_x() * WARPS + thread_idx_x() / 32, thread_idx_x() % 32);
    let heads = 2 * p.key_heads + p.value_heads;
    let (token, head) = (at / heads, at % heads);
    if token >= p.tokens {
        return; // a whole warp
    }
    let c = 4 * lane;
    let mut out = [0.0f32; 4];
    if c < p.head_dim {
        let channel = (head * p.head_dim + c) as usize;
        // SAFETY: `channel + 3` is within the channels, `token < tokens`.
        out = unsafe { convolved(&p, token as usize, channel, (heads * p.head_dim) as usize) };
    }
    if head < 2 * p.key_heads {
        let mut sum = 0.0f32;
        for v in out {
            sum = float::fma(v, v, sum);
        }
        let scale = float::rsqrt(warp::sum_xor(sum) + L2_EPS) * if head < p.key_heads { p.q_scale } else { 1.0 };
        out = out.map(|v| v * scale);
    }
    let to = token as usize * p.out_stride as usize + head as usize * HEAD_DIM + c as usize;
    // SAFETY: 4 * 31 + 3 < HEAD_DIM; one writer an element.
    unsafe { global::store4(p.out.add(to), out) };
}

/// Four channels of a token behind convolution and SiLU.
///
/// # Safety
/// `channel + 3 < channels`, `token < tokens`.
#[inline(always)]
unsafe fn convolved(p: &ConvParams, token: usize, channel: usize, channels: usize) -> [f32; 4] {
    let mut rows = [[0.0f32; 4]; CONV_TAPS];
    for (i, row) in rows.iter_mut().enumerate() {
        // Tap i reads token t - 3 + i; the window's row j is token j - 3.
        // SAFETY: `token + i < 3` is a row of the window, anything else a token of the call.
        *row = unsafe {
            if token + i < CONV_TAPS - 1 {
                global::load4_nc(p.window.add((token + i) * channels + channel))
            } else {
                global::load4_nc(p.raw.add((token + i + 1 - CONV_TAPS) * p.raw_stride as usize + channel))
            }
        };
    }
    let mut out = [0.0f32; 4];
    for j in 0..4 {
        // SAFETY: four taps a channel.
        let taps = unsafe { global::load4_nc(p.taps.add((channel + j) * CONV_TAPS)) };
        let mut sum = 0.0f32;
        for i in 0..CONV_TAPS {
            sum = float::fma(taps[i], rows[i][j], sum);
        }
        out[j] = float::silu(sum);
    }
    out
}
