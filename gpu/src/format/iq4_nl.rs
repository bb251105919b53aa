//! IQ4_NL: 32 codes of a codebook and one scale, 4.5 bits a value.
//!
//! Value e = d * KV[code]; code e is the low half of byte e for e < 16, the high half of byte e - 16 otherwise. Blocks are
//! 2-byte aligned.

use super::{KV, half, nibble};

/// Values of a block.
pub const VALUES: usize = 32;
/// Bytes of a block.
pub const BYTES: usize = 18;
/// f16: the scale d.
pub const D_OFF: usize = 0;
/// u8 `[16]`: the codes.
pub const QS_OFF: usize = 2;

/// The values of a block.
pub fn dequantize(block: &[u8; BYTES], out: &mut [f32; VALUES]) {
    let d = half(block, D_OFF);
    for e in 0..VALUES {
        let code = nibble(block[QS_OFF + e % 16], e / 16);
        out[e] = d * f32::from(KV[usize::from(code)]);
    }
}
