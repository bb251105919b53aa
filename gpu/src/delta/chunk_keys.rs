//! Rows of a chunk's k and q, as f16 images: prep multiplies them with each other, and leaves them in scratch for the scan.

use cuda_std::{global, shared, warp};

use super::RecParams;
use super::chunk::{KEYS, key_at, key_scale, parts, power_of_two, split};
use crate::geometry::HEAD_DIM;

/// Warps that share the rows of a chunk.
pub const SPLITTERS: usize = 4;
/// Rows of a warp.
const ROWS: usize = 16;

/// A lane's quads of its warp's rows.
pub type Rows = [[f32; 4]; ROWS];

/// Loads a warp's rows of the chunk from token `first` on, of key head `key_head`: k of its tokens 0.. (warp 0) and 16.. (1), q of
/// 0.. (2) and 16.. (3); 0 past the end.
#[inline(always)]
pub fn load(p: &RecParams, key_head: usize, warp: usize, first: usize) -> Rows {
    let key_width = if warp < 2 { p.key_heads as usize * HEAD_DIM } else { 0 };
    let column = key_width + key_head * HEAD_DIM + warp::lane_id() as usize * 4;
    let (tokens, stride) = (p.tokens as usize, p.qkv_stride as usize);
    let token = first + warp % 2 * ROWS;
    let from = p.qkv.wrapping_add(token * stride + column);
    let mut rows = [[0.0f32; 4]; ROWS];
    if token + ROWS <= tokens {
        for r in 0..ROWS {
            // SAFETY: a token of the sequence; the lane's 16 bytes of its row. Read only.
            rows[r] = unsafe { global::load4_nc(from.wrapping_add(r * stride)) };
        }
    } else {
        for r in 0..ROWS {
            if token + r < tokens {
                // SAFETY: as above.
                rows[r] = unsafe { global::load4_nc(from.wrapping_add(r * stride)) };
            }
        }
    }
    rows
}

/// Splits a warp's rows into the images at `images`, in shared memory, and `kept`, in scratch.
///
/// # Safety
/// The warp's rows of both have no reader.
#[inline(always)]
pub unsafe fn store<const PAIRS: bool>(images: *mut u8, kept: *mut u8, warp: usize, rows: &Rows) {
    let lane = warp::lane_id() as usize;
    let scale = power_of_two(key_scale(PAIRS));
    let of_warp = warp * ROWS * 128 + lane % 2 * 8;
    for r in 0..ROWS {
        let x = rows[r];
        let a = split::<PAIRS>(x[0] * scale, x[1] * scale);
        let b = split::<PAIRS>(x[2] * scale, x[3] * scale);
        for part in 0..parts(PAIRS) {
            let at = KEYS[part] + of_warp + key_at(r, lane / 2);
            // SAFETY: row < 64, unit < 16: inside the images; multiples of 8 bytes.
            unsafe {
                shared::store2(images.add(at).cast::<u32>(), [a[part], b[part]]);
                global::store2(kept.add(at).cast::<u32>(), [a[part], b[part]]);
            }
        }
    }
}
