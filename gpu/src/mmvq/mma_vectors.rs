//! Vectors in the registers of a warp, as the products of `mma` take them: the codes of a unit of 128 values of eight columns, and
//! their steps.

use cuda_std::{float, global, warp};

use super::ProductParams;
use super::fused_vectors::divide;
use super::mma::{Tile, UNIT};
use super::quantize::code;
use crate::format::q8_1;

/// Blocks of 32 values of a unit.
pub(super) const BLOCKS: usize = UNIT as usize / q8_1::VALUES;

/// What lane `4 g + t` has of a unit.
#[derive(Clone, Copy)]
pub(super) struct Unit {
    /// Codes of column g: of each block two words, in the order of [`Tile`].
    pub(super) words: [[u32; 2]; BLOCKS],
    /// Steps of the blocks of columns 2 t and 2 t + 1.
    pub(super) steps: [[f32; 2]; BLOCKS],
}

/// Quantizes the lane's part of unit `unit`. Columns that no vector fills are zero.
///
/// # Safety
/// As the kernels; all lanes of the warp call it together.
#[inline(always)]
pub(super) unsafe fn quantize<F: Tile>(p: &ProductParams, unit: u32, lane: u32) -> Unit {
    let (g, t) = (lane / 4, lane % 4);
    let there = g < p.columns;
    let from = p.x.wrapping_add(g as usize * p.x_stride as usize + (unit * UNIT) as usize);
    // All loads before the first use.
    let x: [[[f32; 4]; 2]; BLOCKS] = core::array::from_fn(|block| {
        core::array::from_fn(|r| {
            let at = block * q8_1::VALUES + 4 * F::word(t, r as u32) as usize;
            // SAFETY: the vector has the unit; a multiple of 16 bytes.
            if there { unsafe { global::load4(from.wrapping_add(at)) } } else { [0.0; 4] }
        })
    });
    let mut made = Unit { words: [[0; 2]; BLOCKS], steps: [[0.0; 2]; BLOCKS] };
    for block in 0..BLOCKS {
        let x: [f32; 8] = core::array::from_fn(|i| x[block][i / 4][i % 4]);
        let largest = x.iter().fold(0.0, |largest, &x| float::max(largest, float::abs(x)));
        let largest = float::max(largest, warp::shfl_xor(largest, 1));
        let largest = float::max(largest, warp::shfl_xor(largest, 2));
        let (step, quotients) = divide(x, largest);
        let byte = |i: usize| if largest == 0.0 { 0 } else { code(quotients[i]).cast_unsigned() & 0xff };
        for r in 0..2 {
            let word = byte(4 * r) | byte(4 * r + 1) << 8 | byte(4 * r + 2) << 16 | byte(4 * r + 3) << 24;
            made.words[block][r] = F::order(word, unit, lane);
        }
        let step = float::f16_to_f32(float::f32_to_f16(step));
        made.steps[block] = [warp::shfl_idx(step, 8 * t), warp::shfl_idx(step, 8 * t + 4)];
    }
    made
}
