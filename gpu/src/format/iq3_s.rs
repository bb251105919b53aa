//! IQ3_S: eight sub-blocks of 32 values, each with an odd scale of four bits; four values at a time come from a grid of
//! 512 rows, signs are stored apart; 3.4375 bits a value.
//!
//! Value e = (d * (1 + 2 nib)) * sign * grid. With i = e / 4 the grid row is code byte i plus 256 where bit i % 8 of high
//! byte i / 8 is set; the sign is bit e % 8 of sign byte e / 8, 1 for negative. Blocks are 2-byte aligned.

use super::grids::IQ3_S as GRID;
use super::{half, nibble};

/// Values of a block.
pub const VALUES: usize = 256;
/// Bytes of a block.
pub const BYTES: usize = 110;
/// Values of a sub-block.
pub const SUB_VALUES: usize = 32;
/// f16: d, the step of the scales.
pub const D_OFF: usize = 0;
/// u8 `[64]`: the low eight bits of the grid rows.
pub const QS_OFF: usize = 2;
/// u8 `[8]`: their ninth bits.
pub const QH_OFF: usize = 66;
/// u8 `[32]`: a bit for each value, set where it is negative.
pub const SIGNS_OFF: usize = 74;
/// u8 `[4]`: four bits for the scale of each sub-block.
pub const SCALES_OFF: usize = 106;

/// Scale of sub-block `s` < 8: odd, 1..=31.
#[inline(always)]
#[must_use]
pub const fn scale(block: &[u8; BYTES], s: usize) -> u8 {
    1 + 2 * nibble(block[SCALES_OFF + s / 2], s % 2)
}

/// Grid row of the values `4 i .. 4 i + 4`, below 512.
#[inline(always)]
#[must_use]
pub const fn grid_row(block: &[u8; BYTES], i: usize) -> usize {
    block[QS_OFF + i] as usize | ((block[QH_OFF + i / 8] >> (i % 8) & 1) as usize) << 8
}

/// The values of a block.
pub fn dequantize(block: &[u8; BYTES], out: &mut [f32; VALUES]) {
    let d = half(block, D_OFF);
    for e in 0..VALUES {
        let magnitude = GRID[grid_row(block, e / 4)].to_le_bytes()[e % 4].cast_signed();
        let negative = block[SIGNS_OFF + e / 8] >> (e % 8) & 1 == 1;
        let scale = d * f32::from(scale(block, e / SUB_VALUES));
        out[e] = scale * f32::from(if negative { -magnitude } else { magnitude });
    }
}
