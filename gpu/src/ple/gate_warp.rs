//! `ple.gate/warp`: a warp gates one stream of one token.
//!
//! Math      dot = (sum over i of key[t][c d + i] query[t][c d + i]) / sqrt(d)
//!           u[t][c d + i] = sigmoid(sign(dot) sqrt(max(|dot|, 1e-6))) val[t][i], sign(0) = 0
//! Shapes    `GateParams`; any width, any number of streams
//! Mapping   warp w of the grid = stream w mod C of token w / C; lane l holds quads l, l + 32, ..
//! Order     lane: one fma chain, quads and elements ascending; warp: xor 16, 8, 4, 2, 1; then the product with 1 /
//!           sqrt(d)
//! Barriers  none
//! Budget    64 registers, 0 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Base; both instances give the same bits, and a token's do not depend on the call's others

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, thread_idx_x};
use cuda_std::{float, kernel, warp};

use super::GateParams;
use crate::quad;

/// Four warps.
pub const BOUNDS: Bounds = Bounds { threads: 128, min_blocks: 8 };
/// Streams of a block, a warp each.
pub const WARPS: u32 = BOUNDS.threads / 32;
/// What |dot| is raised to before the root.
pub const LEAST: f32 = 1e-6;

/// # Safety
/// Shapes and aliasing as `GateParams` says, every row a multiple of 4 elements from a multiple of 16 bytes, and so is
/// d; a warp a stream of a token, blocks of `BOUNDS`.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn ple_gate_warp_wide(p: GateParams) {
    // SAFETY: same contract.
    unsafe { body::<true>(p) }
}

/// # Safety
/// As [`ple_gate_warp_wide`], but rows of any width at any multiple of 4 bytes.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn ple_gate_warp_narrow(p: GateParams) {
    // SAFETY: same contract.
    unsafe { body::<false>(p) }
}

#[inline(always)]
unsafe fn body<const WIDE: bool>(p: GateParams) {
    let warp = block_idx_x() * WARPS + thread_idx_x() / 32;
    let t = (warp / p.streams) as usize;
    if t >= p.tokens as usize {
        return; // a whole warp, and no barrier follows
    }
    let (dim, first) = (p.dim as usize, quad::LEN * warp::lane_id() as usize);
    let c = warp as usize % p.streams as usize * dim;
    let (key, query) = (p.key.wrapping_add(t * p.key_stride as usize + c), t * p.query_stride as usize + c);
    let mut acc = 0.0f32;
    let mut at = first;
    while at < dim {
        let len = quad::LEN.min(dim - at);
        // SAFETY: `at + len <= d` within stream c of a token of the call; nothing writes either.
        let (key, query) =
            unsafe { (quad::load_nc::<WIDE>(key.add(at), len), quad::load_nc::<WIDE>(p.query.add(query + at), len)) };
        for i in 0..quad::LEN {
            acc = float::fma(key[i], query[i], acc); // beyond the width: 0 * 0
        }
        at += quad::LEN * 32;
    }
    let gate = gate(warp::sum_xor(acc) * p.inv_sqrt_dim);
    let mut at = first;
    while at < dim {
        let len = quad::LEN.min(dim - at);
        // SAFETY: `at + len <= d`; nothing writes `val`, one writer an element of `u`.
        unsafe {
            let val = quad::load_nc::<WIDE>(p.val.add(t * p.val_stride as usize + at), len);
            quad::store::<WIDE>(p.u.add(t * p.u_stride as usize + c + at), len, val.map(|v| gate * v));
        }
        at += quad::LEN * 32;
    }
}

/// The gate of a scaled product; NaN for NaN.
#[inline(always)]
fn gate(dot: f32) -> f32 {
    let size = float::abs(dot);
    let root = float::sqrt(if size < LEAST { LEAST } else { size });
    float::sigmoid(if dot == 0.0 { 0.0 } else { root.copysign(dot) })
}
