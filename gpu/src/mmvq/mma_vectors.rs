//! Vectors in the registers of a warp, as the products of `mma` take them: the codes of a unit of 128 values of eight columns, and
//! their steps.

use cuda_std::{float, global, int, warp};

use super::ProductParams;
use super::codes::{codes, word};
use super::mma::{Tile, UNIT};
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
    /// Those times the sums of their codes, for formats with minima.
    pub(super) sums: [[f32; 2]; BLOCKS],
}

/// Quantizes unit `unit` of all columns and gives the lane its part. Columns that no vector fills are zero. With few columns and `SHARED`
/// the lanes of the others take blocks off them.
///
/// # Safety
/// As the kernels; all lanes of the warp call it together.
#[inline(always)]
pub(super) unsafe fn quantize<F: Tile, const SHARED: bool>(p: &ProductParams, unit: u32, lane: u32) -> Unit {
    // SAFETY: same contract; the number of columns is the same for all lanes.
    unsafe {
        match p.columns {
            1 | 2 if SHARED => quantize_of::<F, 1>(p, unit, lane),
            3 | 4 if SHARED => quantize_of::<F, 2>(p, unit, lane),
            _ => quantize_of::<F, BLOCKS>(p, unit, lane),
        }
    }
}

/// [`quantize`] of up to `2 N` columns, of which a lane quantizes its part of `N` blocks.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn quantize_of<F: Tile, const N: usize>(p: &ProductParams, unit: u32, lane: u32) -> Unit {
    let (g, t, columns) = (lane / 4, lane % 4, 2 * N as u32);
    let (column, first) = (g % columns, g / columns * N as u32);
    let there = column < p.columns;
    let from = column as usize * p.x_stride as usize + (unit * UNIT + first * q8_1::VALUES as u32) as usize;
    // All loads before the first use.
    let x: [[[f32; 4]; 2]; N] = core::array::from_fn(|block| {
        core::array::from_fn(|r| {
            let at = block * q8_1::VALUES + 4 * F::word(t, r as u32) as usize;
            // SAFETY: the vector has the unit; a multiple of 16 bytes.
            if there { unsafe { global::load4(p.x.wrapping_add(from + at)) } } else { [0.0; 4] }
        })
    });
    let none = [[0.0; 2]; BLOCKS];
    let mut made = Unit { words: [[0; 2]; BLOCKS], steps: none, sums: none };
    for own in 0..N {
        let x: [f32; 8] = core::array::from_fn(|i| x[own][i / 4][i % 4]);
        let largest = x.iter().fold(0.0, |largest, &x| float::max(largest, float::abs(x)));
        let largest = float::max(largest, warp::shfl_xor(largest, 1));
        let largest = float::max(largest, warp::shfl_xor(largest, 2));
        let [([q0, q1, q2, q3, q4, q5, q6, q7], step)] = codes([x], [largest]);
        let words = [word([q0, q1, q2, q3]), word([q4, q5, q6, q7])];
        let step = float::f16_to_f32(float::f32_to_f16(step));
        let sum = if F::SUMS {
            let sum = words.iter().fold(0, |sum, word| int::dp4a(word.cast_signed(), 0x0101_0101, sum));
            let sum = sum + warp::shfl_xor(sum, 1);
            step * (sum + warp::shfl_xor(sum, 2)) as f32
        } else {
            0.0
        };
        // The blocks that lanes made at this turn: the lane's words are of column g, its steps and sums of columns 2 t and 2 t + 1.
        for share in 0..BLOCKS / N {
            let (block, maker) = (share * N + own, |column: u32| 4 * (column % columns + share as u32 * columns));
            made.words[block] = words.map(|word| {
                let word = if N == BLOCKS { word } else { warp::shfl_idx(word, maker(g) + t) };
                F::order(if g < columns { word } else { 0 }, unit, block, lane)
            });
            let spread = |of_column: f32| {
                [2 * t, 2 * t + 1].map(|column| {
                    let number = warp::shfl_idx(of_column, maker(column));
                    if column < columns { number } else { 0.0 }
                })
            };
            made.steps[block] = spread(step);
            if F::SUMS {
                made.sums[block] = spread(sum);
            }
        }
    }
    made
}
