//! `dense.dequantize/wide`: rows of blocks to f32, f16 or bf16; a thread eight neighbouring values, a warp 256.
//!
//! Math      y[i] = value i of the blocks, as `format` defines it, rounded to the output's type
//! Shapes    `DequantizeParams`, y 16-byte aligned
//! Mapping   grid ceil(groups / 64), block 256: thread t of the grid has octet t of all; loads as wide as the format allows,
//!           one store of 16 bytes, of f32 two
//! Order     none: see `format`
//! Barriers  none
//! Budget    40 registers, 0 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Bitwise against `narrow`

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, thread_idx_x};
use cuda_std::{float, global, kernel};

use super::blocks::{OCTET, OF_A_GROUP, Wide, quads};
use super::{DequantizeParams, Storage};

/// Eight warps, which share nothing.
pub const BOUNDS: Bounds = Bounds { threads: 256, min_blocks: 6 };

/// # Safety
/// Shapes and alignment as `DequantizeParams` says, y 16-byte aligned; grid `groups / 64` rounded up, block 256.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn dense_dequantize_wide(p: DequantizeParams) {
    let at = block_idx_x() as usize * BOUNDS.threads as usize + thread_idx_x() as usize;
    if at >= p.groups as usize * OF_A_GROUP {
        return;
    }
    // SAFETY: the octet is there.
    let v = unsafe { quads::<Wide, 2>(p.format, p.w, at) };
    let pairs =
        |pair: fn(f32, f32) -> u32| [0, 1, 2, 3].map(|i| pair(v[i / 2][2 * (i % 2)], v[i / 2][2 * (i % 2) + 1]));
    // SAFETY: as above; 16 or 32 bytes at a multiple of them, one writer each.
    unsafe {
        match p.storage {
            Storage::F32 => {
                let y = p.y.cast::<f32>().add(OCTET * at);
                global::store4(y, v[0]);
                global::store4(y.add(4), v[1]);
            }
            Storage::F16 => global::store4(p.y.cast::<u32>().add(OCTET / 2 * at), pairs(float::f32x2_to_f16x2)),
            Storage::Bf16 => global::store4(p.y.cast::<u32>().add(OCTET / 2 * at), pairs(float::f32x2_to_bf16x2)),
        }
    }
}
