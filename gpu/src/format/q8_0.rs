//! Q8_0: 32 signed bytes and one scale, 8.5 bits a value.
//!
//! Value e = d * q[e]; blocks are 2-byte aligned.

use super::half;

/// Values of a block.
pub const VALUES: usize = 32;
/// Bytes of a block.
pub const BYTES: usize = 34;
/// f16: the scale d.
pub const D_OFF: usize = 0;
/// i8 `[32]`: the codes q.
pub const QS_OFF: usize = 2;

/// The values of a block.
pub fn dequantize(block: &[u8; BYTES], out: &mut [f32; VALUES]) {
    let d = half(block, D_OFF);
    for e in 0..VALUES {
        out[e] = d * f32::from(block[QS_OFF + e].cast_signed());
    }
}
