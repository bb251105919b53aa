//! The lanes' work of `wide` on Q8_0 and IQ4_XS.

use cuda_std::{float, int, shared};

use super::fused_quads::four_words;
use super::wide::{UNIT, Wide};
use super::wide_vectors::Vector;
use crate::format::{KV_WORDS, iq4_xs, q8_0};

/// Q8_0: a unit is two blocks.
pub struct Q8Wide;

impl Wide for Q8Wide {
    const VALUES: u32 = q8_0::VALUES as u32;
    const BYTES: u32 = q8_0::BYTES as u32;
    const SPLIT: bool = false;

    #[inline(always)]
    fn place(unit: u32) -> (u32, u32) {
        (unit * (UNIT / Self::VALUES) * Self::BYTES, 0)
    }

    #[inline(always)]
    unsafe fn add(rows: *const u8, at: u32, _: u32, x: Vector, sum: f32) -> f32 {
        // SAFETY: both blocks are there.
        unsafe {
            let block = |i: u32| {
                let at = at + i * Self::BYTES;
                let codes = at + q8_0::QS_OFF as u32;
                let n = [0, 1].into_iter().fold(0, |n, half| {
                    let (q, u) = (four_words(rows, codes + 16 * half), x.codes(2 * i + half));
                    (0..4).fold(n, |n, j| int::dp4a(q[j].cast_signed(), u[j], n))
                });
                (n as f32, float::f16_to_f32(shared::load(rows.add(at as usize + q8_0::D_OFF).cast())))
            };
            let ([(n_0, d_0), (n_1, d_1)], steps) = ([block(0), block(1)], x.steps());
            float::fma(d_1 * steps[1], n_1, float::fma(d_0 * steps[0], n_0, sum))
        }
    }
}

/// The codebook's negative numbers, codes 0 to 7, and its positive ones, each plus 1.
pub(super) const BOOK: [u32; 4] = [KV_WORDS[0], KV_WORDS[1], KV_WORDS[2] + 0x0101_0101, KV_WORDS[3] + 0x0101_0101];

/// Adds the dot of the codebook's numbers for the codes in the lower half of `word`. With the fourth bit of an index set `prmt` gives a
/// number's sign, 0 or -1: so what it takes of the negative numbers is -1 for the codes of positive ones, and of these, with that bit
/// flipped, it takes the number plus 1, or 0 for the codes of negative ones.
#[inline(always)]
fn dot(word: u32, flipped: u32, book: [u32; 4], x: i32, sum: i32) -> i32 {
    let (negative, positive) = (int::prmt(book[0], book[1], word), int::prmt(book[2], book[3], flipped));
    int::dp4a(positive.cast_signed(), x, int::dp4a(negative.cast_signed(), x, sum))
}

/// IQ4_XS: unit j of a block has sub-blocks 2 j and 2 j + 1. Codebook numbers come by four, alternately of low and of high halves of
/// bytes, and the vector's codes lie so.
pub struct Xs4Wide;

impl Wide for Xs4Wide {
    const VALUES: u32 = iq4_xs::VALUES as u32;
    const BYTES: u32 = iq4_xs::BYTES as u32;
    const SPLIT: bool = false;
    const INTERLEAVED: bool = true;

    #[inline(always)]
    unsafe fn add(rows: *const u8, at: u32, unit: u32, x: Vector, sum: f32) -> f32 {
        // SAFETY: blocks are multiples of 8 bytes from the start of the matrix; 16 bytes of codes a sub-block.
        unsafe {
            let two = |off: u32| shared::load2::<u32>(rows.add((at + off) as usize).cast());
            let (head, book) = (two(0), x.book());
            let (lows, highs) = (head[1] >> (8 * unit), head[0] >> (16 + 4 * unit));
            let sub_block = |i: u32| {
                let codes = iq4_xs::QS_OFF as u32 + 32 * unit + 16 * i;
                let ([a, b], [c, d]) = (two(codes), two(codes + 8));
                let u = [x.codes(2 * i), x.codes(2 * i + 1)];
                let n = [a, b, c, d].into_iter().enumerate().fold(0, |n, (j, word)| {
                    let (flipped, [first, last]) =
                        (word ^ 0x8888_8888, [0, 1].map(|half| u[j / 2][2 * (j % 2) + half]));
                    dot(word >> 16, flipped >> 16, book, last, dot(word, flipped, book, first, n))
                });
                let scale = (lows >> (4 * i)) & 15 | ((highs >> (2 * i)) & 3) << 4;
                (n * (scale.cast_signed() - i32::from(iq4_xs::SCALE_BIAS))) as f32
            };
            let (steps, d) = (x.steps(), float::f16_to_f32((head[0] & 0xffff) as u16));
            float::fma(d, float::fma(steps[1], sub_block(1), steps[0] * sub_block(0)), sum)
        }
    }
}
