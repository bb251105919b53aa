//! The lanes' work of `mma` on Q4_K, Q5_K, Q6_K.

use cuda_std::mma::{mma_m16n8k16_s8, mma_m16n8k32_s8};
use cuda_std::{float, int, shared, warp};

use super::mma::Tile;
use super::mma_vectors::{BLOCKS, Unit};
use crate::format::{q4_k, q5_k, q6_k};

/// The word of lane `t` in register `r` where k has its own order.
#[inline(always)]
pub(super) const fn natural(t: u32, r: u32) -> u32 {
    4 * r + t
}

/// Codes of sixteen values in the order in which weights come that start at 2 modulo 4, if those do (`off`): lane t > 0 has the
/// four from two before its own on, lane 0 the two at either end. All lanes of the warp call it together.
#[inline(always)]
pub(super) fn ends_apart(word: u32, off: bool, lane: u32) -> u32 {
    let before = warp::shfl_idx(word, lane & !3 | (lane + 3) % 4);
    let selector = match (off, lane % 4) {
        (false, _) => 0x7654,
        (true, 0) => 0x3254,
        (true, _) => 0x5432,
    };
    int::prmt(before, word, selector)
}

/// Byte `i` < 4 of a word, signed.
#[inline(always)]
fn signed_byte(word: u32, i: u32) -> i32 {
    // A selector's fourth bit makes the byte's sign.
    int::prmt(word, 0, i | (8 | i) << 4 | (8 | i) << 8 | (8 | i) << 12).cast_signed()
}

/// Q6_K: unit n of a block is its half n, in which word 4 i + t of the low bits and of the high ones is lane t's.
///
/// Every other block lies at 2 modulo 4. Of a group of 16 bytes there lane t > 0 takes the word that starts two bytes before its
/// own, and lane 0 the two bytes at either end ([`ends_apart`]).
pub(super) struct Q6Tile;

/// Whether the block of a unit lies at 2 modulo 4.
#[inline(always)]
const fn is_odd(unit: u32) -> bool {
    !(unit / 2).is_multiple_of(2)
}

impl Tile for Q6Tile {
    const VALUES: u32 = q6_k::VALUES as u32;
    const BYTES: u32 = q6_k::BYTES as u32;
    const SUMS: bool = false;

    #[inline(always)]
    fn word(t: u32, r: u32) -> u32 {
        natural(t, r)
    }

    #[inline(always)]
    fn order(word: u32, unit: u32, _block: usize, lane: u32) -> u32 {
        ends_apart(word, is_odd(unit), lane)
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
        // A byte less 128 is one with its top bit flipped: here, once for all four fields of a word, which the compiler would put off.
        let tops = int::opaque(0xaaaa_aaaa) as u32;
        let high = [0, 1].map(|row| two(row, q6_k::QH_OFF as u32 / 4 + 8 * half + t, 4, ends).map(|word| word ^ tops));
        let scales = [0, 1].map(|row| two(row, q6_k::SCALES_OFF as u32 / 4 + 2 * half, 1, odd));
        let d = rows.map(|row| {
            // SAFETY: as above; blocks are 2-byte aligned.
            float::f16_to_f32(unsafe { shared::load(row.add(at as usize + q6_k::D_OFF).cast()) })
        });
        let mut sums = [0.0f32; 4];
        for u in 0..BLOCKS {
            // Four times the codes less 32.
            let code = |row: usize, j: usize| {
                let low = low[row][2 * (u % 2) + j];
                let low = if u < 2 { low << 2 } else { low >> 2 };
                (low & 0x3c3c_3c3c) | (high[row][j] << (6 - 2 * u) & 0xc0c0_c0c0)
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

/// Scales and minima of sub-blocks 4 n to 4 n + 3 of a block with these first 16 bytes, a byte each: the first four have six bits of
/// their own, in the words of scales and of minima; the others have halves of the last word's bytes, below those bytes' top bits.
#[inline(always)]
const fn four_scales_and_mins([_, scales, mins, halves]: [u32; 4], n: u32) -> [u32; 2] {
    if n == 0 {
        [scales & 0x3f3f_3f3f, mins & 0x3f3f_3f3f]
    } else {
        [halves & 0x0f0f_0f0f | (scales >> 2) & 0x3030_3030, (halves >> 4) & 0x0f0f_0f0f | (mins >> 2) & 0x3030_3030]
    }
}

/// [`Tile::add`] of Q4_K and, `FIFTH`, of Q5_K: unit n of a block has sub-blocks 4 n to 4 n + 3, whose words 2 t and 2 t + 1 are lane t's.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn add_affine<F: Tile, const FIFTH: bool>(
    rows: [*const u8; 2],
    unit: u32,
    lane: u32,
    x: &Unit,
    y: &mut [f32; 4],
) {
    let (block, n, t) = (unit / 2, unit % 2, lane % 4);
    let codes = if FIFTH { q5_k::QS_OFF } else { q4_k::QS_OFF };
    // SAFETY: blocks are multiples of 16 bytes; 32 words of codes, eight of fifth bits.
    let two = |row: usize, off: usize| unsafe {
        let at = (block * F::BYTES + 8 * t) as usize + off;
        shared::load2::<u32>(rows[row].add(at).cast())
    };
    // SAFETY: as above.
    let heads = rows.map(|row| unsafe { shared::load4::<u32>(row.add((block * F::BYTES) as usize).cast()) });
    let words = [0, 1].map(|row| [0, 32].map(|pair| two(row, codes + 64 * n as usize + pair)));
    let fifths = [0, 1].map(|row| if FIFTH { two(row, q5_k::QH_OFF).map(|word| word >> (4 * n)) } else { [0; 2] });
    let scales_and_mins = heads.map(|head| four_scales_and_mins(head, n));
    let (mut scaled, mut least) = ([0.0f32; 4], [0.0f32; 4]);
    for s in 0..BLOCKS {
        let code = |row: usize, r: usize| {
            let low = (words[row][s / 2][r] >> (4 * (s % 2))) & 0x0f0f_0f0f;
            low | (fifths[row][r] << (4 - s) & 0x1010_1010)
        };
        let dots = mma_m16n8k32_s8([code(0, 0), code(1, 0), code(0, 1), code(1, 1)], x.words[s], [0; 4]);
        let byte =
            |row: usize, which: usize| int::prmt(scales_and_mins[row][which], 0, 0x4440 | s as u32).cast_signed();
        let (scales, mins) = ([byte(0, 0), byte(1, 0)], [byte(0, 1), byte(1, 1)].map(|min| min as f32));
        for i in 0..4 {
            scaled[i] = float::fma(x.steps[s][i % 2], (dots[i] * scales[i / 2]) as f32, scaled[i]);
            least[i] = float::fma(x.sums[s][i % 2], mins[i / 2], least[i]);
        }
    }
    let steps = heads.map(|head| float::f16x2_to_f32x2(head[0]));
    for i in 0..4 {
        let [d, dmin] = steps[i / 2];
        y[i] = float::fma(-dmin, least[i], float::fma(d, scaled[i], y[i]));
    }
}

macro_rules! affine {
    ($($(#[$doc:meta])* $tile:ident $format:ident $fifth:literal;)*) => {$(
        $(#[$doc])*
        pub(super) struct $tile;

        impl Tile for $tile {
            const VALUES: u32 = $format::VALUES as u32;
            const BYTES: u32 = $format::BYTES as u32;
            const SUMS: bool = true;

            #[inline(always)]
            fn word(t: u32, r: u32) -> u32 {
                2 * t + r
            }

            #[inline(always)]
            unsafe fn add(rows: [*const u8; 2], unit: u32, lane: u32, x: &Unit, y: &mut [f32; 4]) {
                // SAFETY: same contract.
                unsafe { add_affine::<Self, $fifth>(rows, unit, lane, x, y) }
            }
        }
    )*};
}

affine! {
    /// Q4_K.
    Q4Tile q4_k false;
    /// Q5_K: as Q4_K, each code with a fifth bit.
    Q5Tile q5_k true;
}
