//! `norm.rms/warp`: a warp normalises one group of one row.
//!
//! Math      y = x * s * gain, s = rsqrt(sum of x^2 * inv_dim + eps), left to right
//! Shapes    `RmsParams`
//! Mapping   warp number = row * groups + group; lane l: columns 4 l .. 4 l + 3 of every 128
//! Order     lane: fma chain, columns ascending; warp: xor 16, 8, 4, 2, 1
//! Barriers  none
//! Budget    64 registers, 0 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Base

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, thread_idx_x};
use cuda_std::{float, global, kernel, warp};

use super::RmsParams;

/// Four warps, which share nothing.
pub const BOUNDS: Bounds = Bounds { threads: 128, min_blocks: 8 };
/// Groups of a block, a warp each.
pub const WARPS: u32 = BOUNDS.threads / 32;

/// # Safety
/// Shapes, alignment and aliasing as `RmsParams` says; grid `rows * groups / 4` rounded up, block 128.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn norm_rms_warp(p: RmsParams) {
    let (at, lane) = (block_idx_x() * WARPS + thread_idx_x() / 32, thread_idx_x() % 32);
    let (row, group) = (at / p.groups, (at % p.groups) as usize);
    if row >= p.rows {
        return; // a whole warp
    }
    let first = group * p.dim as usize;
    // SAFETY: `row < rows`, `group < groups`.
    let (x, y, gain) = unsafe {
        (
            p.x.add(row as usize * p.x_stride as usize + first),
            p.y.add(row as usize * p.y_stride as usize + first),
            p.gain.add(first),
        )
    };
    let mut sum = 0.0f32;
    let mut c = 4 * lane;
    while c < p.dim {
        // SAFETY: `c + 3 < dim`, a multiple of 4.
        let v = unsafe { global::load4(x.add(c as usize)) };
        for j in 0..4 {
            sum = float::fma(v[j], v[j], sum);
        }
        c += 128;
    }
    let scale = float::rsqrt(warp::sum_xor(sum) * p.inv_dim + p.eps);
    let mut c = 4 * lane;
    while c < p.dim {
        // SAFETY: as above; y may be x, of which only this lane reads and writes these columns.
        unsafe {
            let (v, g) = (global::load4(x.add(c as usize)), global::load4_nc(gain.add(c as usize)));
            global::store4(y.add(c as usize), [0, 1, 2, 3].map(|j| v[j] * scale * g[j]));
        }
        c += 128;
    }
}
