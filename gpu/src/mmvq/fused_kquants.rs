//! The lanes' work of `fused` on Q3_K, Q4_K, Q5_K, Q6_K.

use cuda_std::{float, int, shared};

use super::call::{FOLDED, Scaled, minus_4, start, to_float};
use super::fused_quads::{Lane, Quad, four_words};
use super::fused_vectors::Group;
use super::kquants::scales_and_mins;
use crate::format::{q3_k, q4_k, q5_k, q6_k, q8_1};

/// Values of a block of activations.
const PART: u32 = q8_1::VALUES as u32;

/// Q6_K: calls 4 g .. 4 g + 3 have the low words 4 g .. and share both scales.
pub struct Q6Quad;

/// Integers of four calls of [`Q6Quad`]; codes are four times what they stand for.
#[derive(Clone, Copy)]
pub struct Q6Weights {
    q: [[i32; 4]; 2],
    scale: [Scaled; 2],
    d: f32,
}

impl Quad for Q6Quad {
    const VALUES: usize = q6_k::VALUES;
    const BYTES: usize = q6_k::BYTES;
    const LPB: u32 = 32;
    const STEPS: u32 = 3;
    const STEP_SCALE: f32 = 0.25;
    const SUMS: bool = false;
    type Weights = Q6Weights;

    /// Chunks of a group differ in bits 8 and 9, which join bits 5 and 6; bit 4 tells two lanes apart.
    #[inline(always)]
    fn permuted(at: u32) -> u32 {
        at ^ (at >> 8 & 3) << 5
    }

    #[inline(always)]
    unsafe fn load(piece: *const u8, at: u32, Lane { g, .. }: Lane) -> Q6Weights {
        let (h, third) = (g / 4, g % 4);
        // SAFETY: 32 words of low bits, 16 of high ones, 16 scales.
        unsafe {
            let low = four_words(piece, at + q6_k::QL_OFF as u32 + 16 * g);
            let high = four_words(piece, at + q6_k::QH_OFF as u32 + 32 * h + 16 * (g % 2));
            // Four times the codes less 32, which are a byte with its top bit flipped.
            let high = high.map(|word| word << (2 - 2 * (third / 2)));
            let code = |i: usize, j: usize| {
                let (low, high) = if i == 0 { (low[j] << 2, high[j] << 4) } else { (low[j] >> 2, high[j]) };
                ((low & 0x3c3c_3c3c) ^ 0x8080_8080 ^ (high & 0xc0c0_c0c0)).cast_signed()
            };
            let scale = |i: u32| {
                let at = piece.add((at + q6_k::SCALES_OFF as u32 + 8 * h + third + 4 * i) as usize);
                Scaled::new(i32::from(shared::load::<i8>(at.cast())))
            };
            Q6Weights {
                q: core::array::from_fn(|i| core::array::from_fn(|j| code(i, j))),
                scale: [scale(0), scale(1)],
                d: float::f16_to_f32(shared::load(piece.add(at as usize + q6_k::D_OFF).cast())),
            }
        }
    }

    #[inline(always)]
    unsafe fn add<const R: usize, const T: usize>(
        w: &[Q6Weights; R],
        x: Group<T>,
        c: usize,
        Lane { v, g }: Lane,
        a: &mut [[[f32; 4]; T]; R],
    ) {
        let block = 8 * v + 4 * (g / 4) + g % 4 / 2;
        let at = |i: u32| (block + 2 * i) * PART + 16 * (g % 2);
        // SAFETY: both are within the lane's block's eight.
        let (u, d) = unsafe {
            (
                [x.codes::<Self>(c, at(0)), x.codes::<Self>(c, at(1))],
                [x.step::<Self>(c, block), x.step::<Self>(c, block + 2)],
            )
        };
        for r in 0..R {
            for j in 0..4 {
                let n = |i: usize| w[r].scale[i].of::<FOLDED>(int::dp4a(w[r].q[i][j], u[i][j], start::<FOLDED>()));
                a[r][c][j] = float::fma(w[r].d, float::fma(d[1], n(1), d[0] * n(0)), a[r][c][j]);
            }
        }
    }
}

/// Q3_K: calls 4 g .. 4 g + 3 of a block's 16 have the low words 4 (g % 4) .. and share four scales.
pub struct Q3Quad;

/// Integers of four calls of [`Q3Quad`].
#[derive(Clone, Copy)]
pub struct Q3Weights {
    q: [[i32; 4]; 4],
    scale: [Scaled; 4],
    d: f32,
}

impl Quad for Q3Quad {
    const VALUES: usize = q3_k::VALUES;
    const BYTES: usize = q3_k::BYTES;
    const LPB: u32 = 16;
    const STEPS: u32 = 2;
    const SUMS: bool = false;
    type Weights = Q3Weights;

    /// Chunks of a group differ in bits 9 and 10, which join bits 5 and 6; bit 4 tells two lanes apart.
    #[inline(always)]
    fn permuted(at: u32) -> u32 {
        at ^ (at >> 9 & 3) << 5
    }

    #[inline(always)]
    unsafe fn load(piece: *const u8, at: u32, Lane { g, .. }: Lane) -> Q3Weights {
        let (n, first) = (g % 4 / 2, g % 2);
        // SAFETY: 16 words of low bits, 8 of high ones; bytes first + 10 < 12 of the scales.
        unsafe {
            let low = four_words(piece, at + q3_k::QS_OFF as u32 + 16 * (g % 4));
            let high = four_words(piece, at + q3_k::HMASK_OFF as u32 + 16 * first).map(|word| word >> (4 * n));
            // A set bit of the mask is 4 more: codes of 0 to 7, minus 4.
            let code = |i: usize, j: usize| {
                minus_4((low[j] >> (2 * i)) & 0x0303_0303 | ((high[j] >> i) << 2) & 0x0404_0404).cast_signed()
            };
            let byte = |i: u32| {
                let at = piece.add((at + q3_k::SCALES_OFF as u32 + first + 2 * i) as usize);
                u32::from(shared::load::<u8>(at))
            };
            let (lows, tops) = ([byte(0), byte(1), byte(2), byte(3)], [byte(4), byte(5)]);
            let scale = |i: usize| {
                let (low, top) = (lows[i] >> (4 * n), tops[i % 2] >> (4 * n + i as u32 / 2 * 2));
                Scaled::new(((low & 15) | (top & 3) << 4).cast_signed() - i32::from(q3_k::SCALE_BIAS))
            };
            Q3Weights {
                q: core::array::from_fn(|i| core::array::from_fn(|j| code(i, j))),
                scale: core::array::from_fn(scale),
                d: float::f16_to_f32(shared::load(piece.add(at as usize + q3_k::D_OFF).cast())),
            }
        }
    }

    #[inline(always)]
    unsafe fn add<const R: usize, const T: usize>(
        w: &[Q3Weights; R],
        x: Group<T>,
        c: usize,
        lane: Lane,
        a: &mut [[[f32; 4]; T]; R],
    ) {
        let block = 8 * Self::block(lane) + 4 * (lane.g % 4 / 2);
        // SAFETY: block + 3 is within the lane's block's eight.
        let u: [_; 4] =
            core::array::from_fn(|i| unsafe { x.codes::<Self>(c, (block + i as u32) * PART + 16 * (lane.g % 2)) });
        // SAFETY: as above.
        let d: [_; 4] = core::array::from_fn(|i| unsafe { x.step::<Self>(c, block + i as u32) });
        for r in 0..R {
            for j in 0..4 {
                let n = |i: usize| w[r].scale[i].of::<FOLDED>(int::dp4a(w[r].q[i][j], u[i][j], start::<FOLDED>()));
                let mut t = d[0] * n(0);
                for i in 1..4 {
                    t = float::fma(d[i], n(i), t);
                }
                a[r][c][j] = float::fma(w[r].d, t, a[r][c][j]);
            }
        }
    }
}

/// Integers of four calls of [`Q4Quad`] and [`Q5Quad`].
#[derive(Clone, Copy)]
pub struct AffineWeights {
    /// Words of sub-block 2 j, then of 2 j + 1; a call has words p and p + 4.
    q: [[i32; 8]; 2],
    scale: [Scaled; 2],
    min: [f32; 2],
    d: f32,
    dmin: f32,
}

impl AffineWeights {
    #[inline(always)]
    fn new(head: [u32; 4], j: u32, q: impl Fn(usize, usize) -> u32) -> Self {
        let ((scale, min), [d, dmin]) = (scales_and_mins(head, j as usize), float::f16x2_to_f32x2(head[0]));
        let q = core::array::from_fn(|i| core::array::from_fn(|word| q(i, word).cast_signed()));
        Self { q, scale: scale.map(Scaled::new), min: min.map(to_float::<FOLDED>), d, dmin }
    }
}

/// [`Quad::add`] of both.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn add_affine<F: Quad, const R: usize, const T: usize>(
    w: &[AffineWeights; R],
    x: Group<T>,
    c: usize,
    lane: Lane,
    a: &mut [[[f32; 4]; T]; R],
) {
    let block = 8 * F::block(lane) + 2 * (lane.g % 4);
    // SAFETY: block + 1 is within the lane's block's eight.
    unsafe {
        let codes = |i: u32, half: u32| x.codes::<F>(c, (block + i) * PART + 16 * half);
        let u = [[codes(0, 0), codes(0, 1)], [codes(1, 0), codes(1, 1)]];
        let d = [x.step::<F>(c, block), x.step::<F>(c, block + 1)];
        let e = [x.sums::<F>(c, block), x.sums::<F>(c, block + 1)];
        for r in 0..R {
            let AffineWeights { q, scale, min, d: step, dmin } = &w[r];
            for p in 0..4 {
                let n = |i: usize| {
                    let dot = int::dp4a(q[i][p], u[i][0][p], start::<FOLDED>());
                    scale[i].of::<FOLDED>(int::dp4a(q[i][p + 4], u[i][1][p], dot))
                };
                let t = float::fma(d[1], n(1), d[0] * n(0));
                let z = float::fma(e[1][p], min[1], e[0][p] * min[0]);
                a[r][c][p] += float::fma(*step, t, -(dmin * z));
            }
        }
    }
}

/// Chunks of a group of blocks of 16 calls differ in bits 9 and 10, which join bits 4 and 5; bit 6 tells two lanes apart.
#[inline(always)]
const fn permuted_affine(at: u32) -> u32 {
    at ^ (at >> 9 & 3) << 4
}

/// Q4_K: calls 4 g .. 4 g + 3 of a block's 16 have sub-blocks 2 j and 2 j + 1, j = g % 4.
pub struct Q4Quad;

impl Quad for Q4Quad {
    const VALUES: usize = q4_k::VALUES;
    const BYTES: usize = q4_k::BYTES;
    const LPB: u32 = 16;
    const STEPS: u32 = 2;
    const SUMS: bool = true;
    type Weights = AffineWeights;

    #[inline(always)]
    fn permuted(at: u32) -> u32 {
        permuted_affine(at)
    }

    #[inline(always)]
    unsafe fn load(piece: *const u8, at: u32, Lane { g, .. }: Lane) -> AffineWeights {
        let j = g % 4;
        // SAFETY: blocks are multiples of 16 bytes from the start of the matrix; 32 words of codes.
        unsafe {
            let four = |off: u32| shared::load4::<u32>(piece.add((at + off) as usize).cast());
            let codes = q4_k::QS_OFF as u32 + 32 * j;
            let words = [four(codes), four(codes + 16)];
            let code = |i: usize, word: usize| (words[word / 4][word % 4] >> (4 * i)) & 0x0f0f_0f0f;
            AffineWeights::new(four(0), j, code)
        }
    }

    #[inline(always)]
    unsafe fn add<const R: usize, const T: usize>(
        w: &[AffineWeights; R],
        x: Group<T>,
        c: usize,
        lane: Lane,
        a: &mut [[[f32; 4]; T]; R],
    ) {
        // SAFETY: same contract.
        unsafe { add_affine::<Self, R, T>(w, x, c, lane, a) }
    }
}

/// Q5_K: as [`Q4Quad`], each code with a fifth bit.
pub struct Q5Quad;

impl Quad for Q5Quad {
    const VALUES: usize = q5_k::VALUES;
    const BYTES: usize = q5_k::BYTES;
    const LPB: u32 = 16;
    const STEPS: u32 = 2;
    const SUMS: bool = true;
    type Weights = AffineWeights;

    #[inline(always)]
    fn permuted(at: u32) -> u32 {
        permuted_affine(at)
    }

    #[inline(always)]
    unsafe fn load(piece: *const u8, at: u32, Lane { g, .. }: Lane) -> AffineWeights {
        let j = g % 4;
        // SAFETY: blocks are multiples of 16 bytes from the start of the matrix; 32 words of codes, 8 of fifth bits.
        unsafe {
            let four = |off: u32| shared::load4::<u32>(piece.add((at + off) as usize).cast());
            let (codes, tops) = (q5_k::QS_OFF as u32 + 32 * j, q5_k::QH_OFF as u32);
            let (words, tops) = ([four(codes), four(codes + 16)], [four(tops), four(tops + 16)]);
            let code = |i: usize, word: usize| {
                let (low, top) = (words[word / 4][word % 4] >> (4 * i), tops[word / 4][word % 4] >> (2 * j) >> i);
                low & 0x0f0f_0f0f | (top << 4) & 0x1010_1010
            };
            AffineWeights::new(four(0), j, code)
        }
    }

    #[inline(always)]
    unsafe fn add<const R: usize, const T: usize>(
        w: &[AffineWeights; R],
        x: Group<T>,
        c: usize,
        lane: Lane,
        a: &mut [[[f32; 4]; T]; R],
    ) {
        // SAFETY: same contract.
        unsafe { add_affine::<Self, R, T>(w, x, c, lane, a) }
    }
}
