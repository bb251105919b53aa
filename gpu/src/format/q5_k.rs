//! Q5_K: eight sub-blocks of 32 values, each with a scale and a minimum of six bits, 5.5 bits a value.
//!
//! Value e = (d * scale[s]) * q - (dmin * min[s]) with s = e / 32; the low four bits of q in 0..=31 are half s % 2 of byte
//! 32 (s / 2) + e % 32 of the codes, its top bit is bit s of high byte e % 32. A block is a multiple of 16 bytes.

use super::{half, nibble, scale_and_min};

/// Values of a block.
pub const VALUES: usize = 256;
/// Bytes of a block.
pub const BYTES: usize = 176;
/// Values of a sub-block.
pub const SUB_VALUES: usize = 32;
/// f16: d, the step of the scales.
pub const D_OFF: usize = 0;
/// f16: dmin, the step of the minima.
pub const DMIN_OFF: usize = 2;
/// u8 `[12]`: scales and minima, see [`scale_and_min`].
pub const SCALES_OFF: usize = 4;
/// u8 `[32]`: the top bits of the codes.
pub const QH_OFF: usize = 16;
/// u8 `[128]`: the low four bits of the codes.
pub const QS_OFF: usize = 48;

/// The values of a block.
pub fn dequantize(block: &[u8; BYTES], out: &mut [f32; VALUES]) {
    let (d, dmin) = (half(block, D_OFF), half(block, DMIN_OFF));
    for s in 0..VALUES / SUB_VALUES {
        let (scale, min) = scale_and_min(block, SCALES_OFF, s);
        let (scale, min) = (d * f32::from(scale), dmin * f32::from(min));
        for t in 0..SUB_VALUES {
            let low = nibble(block[QS_OFF + 32 * (s / 2) + t], s % 2);
            let q = low | (block[QH_OFF + t] >> s & 1) << 4;
            out[SUB_VALUES * s + t] = scale * f32::from(q) - min;
        }
    }
}
