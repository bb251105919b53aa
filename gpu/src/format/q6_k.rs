//! Q6_K: sixteen sub-blocks of 16 values, each with a signed scale of eight bits, 6.5625 bits a value.
//!
//! Value e = (d * scales[e / 16]) * (q - 32), q in 0..=63. With n = e / 128, u = e % 128 / 32 and t = e % 32, the low four
//! bits of q are half u / 2 of low byte 64 n + 32 (u % 2) + t, the others bits 2 u and 2 u + 1 of high byte 32 n + t.
//! Blocks are 2-byte aligned.

use super::{half, nibble};

/// Values of a block.
pub const VALUES: usize = 256;
/// Bytes of a block.
pub const BYTES: usize = 210;
/// Values of a sub-block.
pub const SUB_VALUES: usize = 16;
/// u8 `[128]`: the low four bits of the codes.
pub const QL_OFF: usize = 0;
/// u8 `[64]`: the high two bits of the codes.
pub const QH_OFF: usize = 128;
/// i8 `[16]`: the scales.
pub const SCALES_OFF: usize = 192;
/// f16: d, the step of the scales.
pub const D_OFF: usize = 208;
/// What is taken from a stored code.
pub const CODE_BIAS: i8 = 32;

/// The values of a block.
pub fn dequantize(block: &[u8; BYTES], out: &mut [f32; VALUES]) {
    let d = half(block, D_OFF);
    for e in 0..VALUES {
        let (n, u, t) = (e / 128, e % 128 / 32, e % 32);
        let low = nibble(block[QL_OFF + 64 * n + 32 * (u % 2) + t], u / 2);
        let high = block[QH_OFF + 32 * n + t] >> (2 * u) & 3;
        let q = (low | high << 4).cast_signed() - CODE_BIAS;
        let scale = d * f32::from(block[SCALES_OFF + e / SUB_VALUES].cast_signed());
        out[e] = scale * f32::from(q);
    }
}
