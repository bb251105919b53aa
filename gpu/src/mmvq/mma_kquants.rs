//! The lanes' work of `mma` on Q6_K.

use cuda_std::mma::mma_m16n8k16_s8;
use cuda_std::{float, int, shared, warp};

use super::mma::Tile;
use super::mma_vectors::{BLOCKS, Unit};
use crate::format::q6_k;

/// Byte `i` < 4 of a word, signed.
#[inline(always)]
fn signed_byte(word: u32, i: u32) -> i32 {
    // A selector's fourth bit makes the byte's sign.
    int::prmt(word, 0, i | (8 | i) << 4 | (8 | i) << 8 | (8 | i) << 12).cast_signed()
}

/// Q6_K: unit n of a block is its half n, in which word 4 i + t of the low bits and of the high ones is lane t's.
///
/// Every other block lies at 2 modulo 4. Of a group of 16 bytes there lane t > 0 takes the word that starts two bytes before its
/// own, and lane 0 the two bytes at either end; the codes of the vectors are put in that order.
pub(super) struct Q6Tile;

/// Whether the block of a unit lies at 2 modulo 4.
#[inline(always)]
const fn is_odd(unit: u32) -> bool {
    !(unit / 2).is_multiple_of(2)
}

impl Tile for Q6Tile {
    const VALUES: u32 = q6_k::VALUES as u32;
    const BYTES: u32 = q6_k::BYTES as u32;

    #[inline(always)]
    fn word(t: u32, r: u32) -> u32 {
        4 * r + t
    }

    #[inline(always)]
    fn order(word: u32, unit: u32, lane: u32) -> u32 {
        let before = warp::shfl_idx(word, lane & !3 | (lane + 3) % 4);
        let selector = match (is_odd(unit), lane % 4) {
            (false, _) => 0x7654,
            (true, 0) => 0x3254,
            (true, _) => 0x5432,
        };
        int::prmt(before, word, selector)
    }

    #[inline(always)]
    unsafe fn add(rows: [*const u8; 2], unit: u32, lane: u32, x: &Unit, y: &mut [f32; 4]) {
        let (block, half, t) = (unit / 2, unit % 2, lane % 4);
        let (at, odd) = (block * Self::BYTES, if is_odd(unit) { 16 } else { 0 });
        let ends = if t == 0 { odd } else { 0 };
        // SAFETY: half a block's words and scales, its d, and at most four bytes behind it.
        let words = |row: usize, word: u32, n: u32| unsafe {
            shared::load::<u32>(rows[row].add(((at & !3) + 4 * (word + n)) as usize).cast())
        };
        let join = |low: u32, high: u32, shift: u32| int::funnel_shift_r(low, high, shift);
        let four = |row: usize, word: u32| {
            let w: [u32; 5] = core::array::from_fn(|i| words(row, word, 4 * i as u32));
            core::array::from_fn::<_, 4, _>(|i| join(w[i], w[i + 1], ends))
        };
        let two = |row: usize, word: u32, pitch: u32, shift: u32| {
            let w: [u32; 3] = core::array::from_fn(|i| words(row, word, pitch * i as u32));
            [join(w[0], w[1], shift), join(w[1], w[2], shift)]
        };
        let low = [0, 1].map(|row| four(row, q6_k::QL_OFF as u32 / 4 + 16 * half + t));
        let high = [0, 1].map(|row| two(row, q6_k::QH_OFF as u32 / 4 + 8 * half + t, 4, ends));
        let scales = [0, 1].map(|row| two(row, q6_k::SCALES_OFF as u32 / 4 + 2 * half, 1, odd));
        let d = rows.map(|row| {
            // SAFETY: as above; blocks are 2-byte aligned.
            float::f16_to_f32(unsafe { shared::load(row.add(at as usize + q6_k::D_OFF).cast()) })
        });
        let mut sums = [0.0f32; 4];
        for u in 0..BLOCKS {
            // Four times the codes less 32, which are a byte with its top bit flipped.
            let code = |row: usize, j: usize| {
                let low = low[row][2 * (u % 2) + j];
                let low = if u < 2 { low << 2 } else { low >> 2 };
                (low & 0x3c3c_3c3c) ^ 0x8080_8080 ^ (high[row][j] << (6 - 2 * u) & 0xc0c0_c0c0)
            };
            let dots = |j: usize| mma_m16n8k16_s8([code(0, j), code(1, j)], x.words[u][j], [0; 4]);
            let (first, second) = (dots(0), dots(1));
            let scale = |row: usize, j: usize| signed_byte(scales[row][u / 2], (2 * u % 4 + j) as u32);
            for i in 0..4 {
                let n = first[i] * scale(i / 2, 0) + second[i] * scale(i / 2, 1);
                sums[i] = float::fma(x.steps[u][i % 2], n as f32, sums[i]);
            }
        }
        for i in 0..4 {
            y[i] = float::fma(0.25 * d[i / 2], sums[i], y[i]);
        }
    }
}
