//! The lanes' work of `mma` on Q8_0 and IQ4_XS.

use cuda_std::mma::mma_m16n8k32_s8;
use cuda_std::{float, int, shared};

use super::lookups::low_and_high;
use super::mma::Tile;
use super::mma_kquants::{ends_apart, natural};
use super::mma_vectors::{BLOCKS, Unit};
use crate::format::{iq4_xs, q8_0};

/// Q8_0: a unit is four blocks, the codes of every other of which, the first and the third, start at 2 modulo 4.
pub(super) struct Q8Tile;

impl Tile for Q8Tile {
    const VALUES: u32 = q8_0::VALUES as u32;
    const BYTES: u32 = q8_0::BYTES as u32;
    const SUMS: bool = false;

    #[inline(always)]
    fn word(t: u32, r: u32) -> u32 {
        natural(t, r)
    }

    #[inline(always)]
    fn order(word: u32, _unit: u32, block: usize, lane: u32) -> u32 {
        if block.is_multiple_of(2) { ends_apart(word, true, lane) } else { word }
    }

    #[inline(always)]
    unsafe fn add(rows: [*const u8; 2], unit: u32, lane: u32, x: &Unit, y: &mut [f32; 4]) {
        let t = lane % 4;
        let ends = if t == 0 { 16 } else { 0 };
        for block in 0..BLOCKS {
            let at = (BLOCKS as u32 * unit + block as u32) * Self::BYTES;
            let codes = (at + q8_0::QS_OFF as u32) & !3;
            // SAFETY: a block's eight words of codes, and at most two bytes behind them.
            let word = |row: usize, i: u32| unsafe {
                shared::load::<u32>(rows[row].add((codes + 16 * i + 4 * t) as usize).cast())
            };
            let two = |row: usize| {
                let w = [word(row, 0), word(row, 1)];
                if block.is_multiple_of(2) {
                    [int::funnel_shift_r(w[0], w[1], ends), int::funnel_shift_r(w[1], word(row, 2), ends)]
                } else {
                    w
                }
            };
            let [first, second] = [two(0), two(1)];
            let dots = mma_m16n8k32_s8([first[0], second[0], first[1], second[1]], x.words[block], [0; 4]);
            // SAFETY: the block's d, 2-byte aligned.
            let d =
                rows.map(|row| float::f16_to_f32(unsafe { shared::load(row.add(at as usize + q8_0::D_OFF).cast()) }));
            for i in 0..4 {
                y[i] = float::fma(d[i / 2] * x.steps[block][i % 2], dots[i] as f32, y[i]);
            }
        }
    }
}

/// IQ4_XS: unit n of a block has sub-blocks 4 n to 4 n + 3, of which lane t has word t, its low and its high halves.
pub(super) struct Xs4Tile;

impl Tile for Xs4Tile {
    const VALUES: u32 = iq4_xs::VALUES as u32;
    const BYTES: u32 = iq4_xs::BYTES as u32;
    const SUMS: bool = false;

    #[inline(always)]
    fn word(t: u32, r: u32) -> u32 {
        natural(t, r)
    }

    #[inline(always)]
    unsafe fn add(rows: [*const u8; 2], unit: u32, lane: u32, x: &Unit, y: &mut [f32; 4]) {
        let (block, n, t) = (unit / 2, unit % 2, lane % 4);
        let at = (block * Self::BYTES) as usize;
        // SAFETY: blocks are multiples of 8 bytes; 16 bytes of codes a sub-block.
        let heads = rows.map(|row| unsafe { shared::load2::<u32>(row.add(at).cast()) });
        let codes = |row: usize, s: usize| {
            let off = iq4_xs::QS_OFF + 64 * n as usize + 16 * s + 4 * t as usize;
            // SAFETY: as above.
            low_and_high(unsafe { shared::load(rows[row].add(at + off).cast()) }).map(i32::cast_unsigned)
        };
        // The four sub-blocks' bits of the scales, low and high.
        let bits = heads.map(|head| [head[1] >> (16 * n), head[0] >> (16 + 8 * n)]);
        let mut sums = [0.0f32; 4];
        for s in 0..BLOCKS {
            let [first, second] = [codes(0, s), codes(1, s)];
            let dots = mma_m16n8k32_s8([first[0], second[0], first[1], second[1]], x.words[s], [0; 4]);
            let scale = bits.map(|[low, high]| {
                let six = (low >> (4 * s)) & 15 | (high >> (2 * s) & 3) << 4;
                six.cast_signed() - i32::from(iq4_xs::SCALE_BIAS)
            });
            for i in 0..4 {
                sums[i] = float::fma(x.steps[s][i % 2], (dots[i] * scale[i / 2]) as f32, sums[i]);
            }
        }
        let d = heads.map(|head| float::f16_to_f32((head[0] & 0xffff) as u16));
        for i in 0..4 {
            y[i] = float::fma(d[i / 2], sums[i], y[i]);
        }
    }
}
