//! The lanes' work of `fused` on Q8_0 and IQ4_XS.

use cuda_std::{float, int, shared};

use super::call::{FOLDED, Scaled, start, to_float};
use super::fused_quads::{Lane, Quad, four_words};
use super::fused_vectors::Group;
use super::lookups::low_and_high;
use crate::format::{iq4_xs, q8_0, q8_1};

/// Values of a block of activations.
const PART: u32 = q8_1::VALUES as u32;

/// Q8_0: the four calls of a block.
pub struct Q8Quad;

/// Integers of a block of [`Q8Quad`].
#[derive(Clone, Copy)]
pub struct Q8Weights {
    /// Words 0 to 3, and 4 to 7; a call has two neighbours.
    q: [[u32; 4]; 2],
    d: f32,
}

impl Quad for Q8Quad {
    const VALUES: usize = q8_0::VALUES;
    const BYTES: usize = q8_0::BYTES;
    const LPB: u32 = 4;
    const STEPS: u32 = 2;
    const SUMS: bool = false;
    type Weights = Q8Weights;

    /// Chunks of a group differ in bits 8 and 9, which join bits 4 and 6; bit 5 tells two lanes apart.
    #[inline(always)]
    fn permuted(at: u32) -> u32 {
        at ^ (at >> 8 & 1) << 4 ^ (at >> 9 & 1) << 6
    }

    #[inline(always)]
    unsafe fn load(piece: *const u8, at: u32, _lane: Lane) -> Q8Weights {
        let codes = at + q8_0::QS_OFF as u32;
        // SAFETY: eight words of codes behind the step.
        unsafe {
            Q8Weights {
                q: [four_words(piece, codes), four_words(piece, codes + 16)],
                d: float::f16_to_f32(shared::load(piece.add(at as usize + q8_0::D_OFF).cast())),
            }
        }
    }

    #[inline(always)]
    unsafe fn add<const R: usize, const T: usize>(
        w: &[Q8Weights; R],
        x: Group<T>,
        c: usize,
        lane: Lane,
        a: &mut [[[f32; 4]; T]; R],
    ) {
        let block = Self::block(lane);
        // SAFETY: a block of activations a block of weights.
        let (u, d) = unsafe {
            let at = block * PART;
            ([x.codes::<Self>(c, at), x.codes::<Self>(c, at + 16)], x.step::<Self>(c, block))
        };
        for r in 0..R {
            for q in 0..4 {
                let (half, word) = (q / 2, q % 2 * 2);
                let dot = int::dp4a(w[r].q[half][word].cast_signed(), u[half][word], 0);
                let n = int::dp4a(w[r].q[half][word + 1].cast_signed(), u[half][word + 1], dot);
                a[r][c][q] = float::fma(w[r].d * d, to_float::<FOLDED>(n), a[r][c][q]);
            }
        }
    }
}

/// IQ4_XS: calls 4 g .. 4 g + 3 of a block's eight have four sub-blocks.
pub struct Xs4Quad;

/// Numbers of four calls of [`Xs4Quad`].
#[derive(Clone, Copy)]
pub struct Xs4Weights {
    /// By call and word: numbers of the low and of the high halves of its bytes.
    q: [[[i32; 2]; 4]; 4],
    scale: [Scaled; 4],
    d: f32,
}

impl Quad for Xs4Quad {
    const VALUES: usize = iq4_xs::VALUES;
    const BYTES: usize = iq4_xs::BYTES;
    const LPB: u32 = 8;
    const STEPS: u32 = 1;
    const SUMS: bool = false;
    type Weights = Xs4Weights;

    /// Chunks of a group differ in bits 10 and 11, which join bits 5 and 6; two lanes in bit 7, which joins bit 4.
    #[inline(always)]
    fn permuted(at: u32) -> u32 {
        at ^ (at >> 10 & 3) << 5 ^ (at >> 7 & 1) << 4
    }

    #[inline(always)]
    unsafe fn load(piece: *const u8, at: u32, Lane { g, .. }: Lane) -> Xs4Weights {
        let first = 4 * (g % 2);
        // SAFETY: blocks are multiples of 8 bytes from the start of the matrix; 16 bytes of codes a sub-block.
        unsafe {
            let two = |off: u32| shared::load2::<u32>(piece.add((at + off) as usize).cast());
            let head = two(0);
            let words = |j: u32| {
                let at = iq4_xs::QS_OFF as u32 + 16 * (first + j);
                let ([a, b], [c, d]) = (two(at), two(at + 8));
                [a, b, c, d].map(low_and_high)
            };
            let scale = |j: u32| {
                let (low, high) = (head[1] >> (4 * (first + j)), head[0] >> (16 + 2 * (first + j)));
                Scaled::new(((low & 15) | (high & 3) << 4).cast_signed() - i32::from(iq4_xs::SCALE_BIAS))
            };
            Xs4Weights {
                q: [words(0), words(1), words(2), words(3)],
                scale: [scale(0), scale(1), scale(2), scale(3)],
                d: float::f16_to_f32((head[0] & 0xffff) as u16),
            }
        }
    }

    #[inline(always)]
    unsafe fn add<const R: usize, const T: usize>(
        w: &[Xs4Weights; R],
        x: Group<T>,
        c: usize,
        lane: Lane,
        a: &mut [[[f32; 4]; T]; R],
    ) {
        for j in 0..4 {
            let block = 8 * Self::block(lane) + 4 * (lane.g % 2) + j as u32;
            // SAFETY: within the lane's block's eight.
            let (u, d) = unsafe {
                let at = block * PART;
                ([x.codes::<Self>(c, at), x.codes::<Self>(c, at + 16)], x.step::<Self>(c, block))
            };
            for r in 0..R {
                let mut dot = start::<FOLDED>();
                for word in 0..4 {
                    let [low, high] = w[r].q[j][word];
                    dot = int::dp4a(high, u[1][word], int::dp4a(low, u[0][word], dot));
                }
                a[r][c][j] = float::fma(w[r].d * d, w[r].scale[j].of_wide::<FOLDED>(dot), a[r][c][j]);
            }
        }
    }
}
