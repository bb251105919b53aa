//! Q3_K: sixteen sub-blocks of 16 values, each with a signed scale of six bits, 3.4375 bits a value.
//!
//! Value e = (d * (scale[e / 16] - 32)) * q, q in -4..=3. With n = e / 128, j = e % 128 / 32 and t = e % 32, q is bits 2 j
//! and 2 j + 1 of code byte 32 n + t, less 4 unless bit 4 n + j of mask byte t is set. Blocks are 2-byte aligned.

use super::{half, nibble};

/// Values of a block.
pub const VALUES: usize = 256;
/// Bytes of a block.
pub const BYTES: usize = 110;
/// Values of a sub-block.
pub const SUB_VALUES: usize = 16;
/// u8 `[32]`: the bits that say that nothing is taken from a code.
pub const HMASK_OFF: usize = 0;
/// u8 `[64]`: the low two bits of the codes.
pub const QS_OFF: usize = 32;
/// u8 `[12]`: the scales, see [`scale`].
pub const SCALES_OFF: usize = 96;
/// f16: d, the step of the scales.
pub const D_OFF: usize = 108;
/// What is taken from a stored scale.
pub const SCALE_BIAS: i8 = 32;

/// Signed scale of sub-block `s` < 16: its low four bits are half s / 8 of packed byte s % 8, the others bits 2 (s / 4) and
/// 2 (s / 4) + 1 of packed byte 8 + s % 4.
#[inline(always)]
#[must_use]
pub const fn scale(block: &[u8; BYTES], s: usize) -> i8 {
    let low = nibble(block[SCALES_OFF + s % 8], s / 8);
    let high = block[SCALES_OFF + 8 + s % 4] >> (2 * (s / 4)) & 3;
    (low | high << 4).cast_signed() - SCALE_BIAS
}

/// The values of a block.
pub fn dequantize(block: &[u8; BYTES], out: &mut [f32; VALUES]) {
    let d = half(block, D_OFF);
    for e in 0..VALUES {
        let (n, j, t) = (e / 128, e % 128 / 32, e % 32);
        let low = (block[QS_OFF + 32 * n + t] >> (2 * j) & 3).cast_signed();
        let kept = block[HMASK_OFF + t] >> (4 * n + j) & 1 == 1;
        let q = if kept { low } else { low - 4 };
        let scale = d * f32::from(scale(block, e / SUB_VALUES));
        out[e] = scale * f32::from(q);
    }
}
