//! IQ2_XS: sixteen sub-blocks of 16 values, each with a scale of four bits; eight values at a time come from a grid of 512
//! rows; 2.3125 bits a value.
//!
//! Value e = (d * (0.5 + nib) * 0.25) * sign * grid. The u16 e / 8 has the grid row in bits 0..=8 and the signs of the first
//! seven values in bits 9..=15, 1 for negative; the eighth sign makes their number even. Blocks are 2-byte aligned.

use super::grids::IQ2_XS as GRID;
use super::{half, nibble};

/// Values of a block.
pub const VALUES: usize = 256;
/// Bytes of a block.
pub const BYTES: usize = 74;
/// Values of a sub-block.
pub const SUB_VALUES: usize = 16;
/// f16: d, eight times the step of the scales.
pub const D_OFF: usize = 0;
/// u16 `[32]`: grid row and seven signs.
pub const QS_OFF: usize = 2;
/// u8 `[8]`: four bits for the scale of each sub-block.
pub const SCALES_OFF: usize = 66;

/// Grid row, below 512, and eight signs of the values that this u16 stands for.
#[inline(always)]
#[must_use]
pub const fn grid_row_and_signs(code: u16) -> (usize, u8) {
    let seven = (code >> 9) as u8;
    (code as usize & 511, seven | ((seven.count_ones() & 1) as u8) << 7)
}

/// The values of a block.
pub fn dequantize(block: &[u8; BYTES], out: &mut [f32; VALUES]) {
    let d = half(block, D_OFF);
    for i in 0..VALUES / 8 {
        let at = QS_OFF + 2 * i;
        let (row, signs) = grid_row_and_signs(u16::from_le_bytes([block[at], block[at + 1]]));
        let h = 8 * i / SUB_VALUES;
        let scale = d * (0.5 + f32::from(nibble(block[SCALES_OFF + h / 2], h % 2))) * 0.25;
        for j in 0..8 {
            let magnitude = GRID[row][j / 4].to_le_bytes()[j % 4].cast_signed();
            let negative = signs >> j & 1 == 1;
            out[8 * i + j] = scale * f32::from(if negative { -magnitude } else { magnitude });
        }
    }
}
