//! IQ4_XS: eight sub-blocks of 32 codes of a codebook, each with a signed scale of six bits, 4.25 bits a value.
//!
//! Value e = (d * (scale[s] - 32)) * KV[code] with s = e / 32; the codes of a sub-block lie in its 16 bytes as those of
//! IQ4_NL do. A block is a multiple of 8 bytes.

use super::{KV, half, nibble};

/// Values of a block.
pub const VALUES: usize = 256;
/// Bytes of a block.
pub const BYTES: usize = 136;
/// Values of a sub-block.
pub const SUB_VALUES: usize = 32;
/// f16: d, the step of the scales.
pub const D_OFF: usize = 0;
/// u16: the high two bits of the scales.
pub const SCALES_H_OFF: usize = 2;
/// u8 `[4]`: the low four bits of the scales.
pub const SCALES_L_OFF: usize = 4;
/// u8 `[128]`: the codes.
pub const QS_OFF: usize = 8;
/// What is taken from a stored scale.
pub const SCALE_BIAS: i8 = 32;

/// Signed scale of sub-block `s` < 8.
#[inline(always)]
#[must_use]
pub const fn scale(block: &[u8; BYTES], s: usize) -> i8 {
    let low = nibble(block[SCALES_L_OFF + s / 2], s % 2);
    let high = block[SCALES_H_OFF + s / 4] >> (2 * (s % 4)) & 3;
    (low | high << 4).cast_signed() - SCALE_BIAS
}

/// The values of a block.
pub fn dequantize(block: &[u8; BYTES], out: &mut [f32; VALUES]) {
    let d = half(block, D_OFF);
    for s in 0..VALUES / SUB_VALUES {
        let scale = d * f32::from(scale(block, s));
        for t in 0..SUB_VALUES {
            let code = nibble(block[QS_OFF + 16 * s + t % 16], t / 16);
            out[SUB_VALUES * s + t] = scale * f32::from(KV[usize::from(code)]);
        }
    }
}
