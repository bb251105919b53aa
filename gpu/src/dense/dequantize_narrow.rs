//! `dense.dequantize/narrow`: rows of blocks to f32, f16 or bf16; a thread 32 neighbouring values, byte by byte.
//!
//! Math      y[i] = value i of the blocks, as `format` defines it, rounded to the output's type
//! Shapes    `DequantizeParams`
//! Mapping   grid ceil(groups / 256), block 256: thread t of the grid has group t of all, four octets one after the other
//! Order     none: see `format`
//! Barriers  none
//! Budget    64 registers, 0 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Base

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, thread_idx_x};
use cuda_std::{float, global, kernel};

use super::blocks::{Bytes, LEN, OCTET, OF_A_GROUP, quads};
use super::{DequantizeParams, Storage};

/// Eight warps, which share nothing.
pub const BOUNDS: Bounds = Bounds { threads: 256, min_blocks: 4 };

/// # Safety
/// Shapes and alignment as `DequantizeParams` says; grid `groups / 256` rounded up, block 256.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn dense_dequantize_narrow(p: DequantizeParams) {
    let group = block_idx_x() as usize * BOUNDS.threads as usize + thread_idx_x() as usize;
    if group >= p.groups as usize {
        return;
    }
    let mut at = OF_A_GROUP * group;
    while at < OF_A_GROUP * (group + 1) {
        // SAFETY: the octet is there.
        let v = unsafe { quads::<Bytes, 2>(p.format, p.w, at) };
        for i in 0..OCTET {
            let (v, to) = (v[i / LEN][i % LEN], OCTET * at + i);
            // SAFETY: as above; one writer an element.
            unsafe {
                match p.storage {
                    Storage::F32 => global::store(p.y.cast::<f32>().add(to), v),
                    Storage::F16 => global::store(p.y.cast::<u16>().add(to), float::f32_to_f16(v)),
                    Storage::Bf16 => global::store(p.y.cast::<u16>().add(to), float::f32_to_bf16(v)),
                }
            }
        }
        at += 1;
    }
}
