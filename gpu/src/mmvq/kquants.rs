//! The calls of Q3_K, Q4_K, Q5_K, Q6_K.

use cuda_std::{float, int};

use super::Format;
use super::call::{Acts, Align, Call, RawWord, Scaled, load, load4, minus_4, minus_32, start, to_float};
use super::source::Source;
use crate::format::{q3_k, q4_k, q5_k, q6_k, q8_1};

/// Blocks of activations in a block of weights.
const PARTS: usize = q6_k::VALUES / q8_1::VALUES;

/// Q6_K: call q of 32 has word q of the low bits, of half h = q / 16: with w = q % 16 four values of each of the sub-blocks
/// 8 h + w / 4 and 4 later.
pub struct Q6K;

/// Words of a call of [`Q6K`].
#[derive(Clone, Copy, Default)]
pub struct Q6Raw {
    low: RawWord,
    high: RawWord,
    scale: [i8; 2],
    d: u16,
}

/// Integers of a call of [`Q6K`].
#[derive(Clone, Copy)]
pub struct Q6Weights {
    q: [i32; 2],
    scale: [i32; 2],
    d: f32,
}

impl Call for Q6K {
    const FORMAT: Format = Format::Q6_K;
    const VALUES: usize = q6_k::VALUES;
    const BYTES: usize = q6_k::BYTES;
    const LPB: usize = 32;
    type Raw = Q6Raw;
    type Weights = Q6Weights;
    type Acts<const T: usize> = Acts<2, 2, 0, T>;

    /// Two blocks are 420 bytes: every other one is a multiple of 4 from the start of the row, and rows are.
    #[inline(always)]
    fn lies(v: usize) -> Align {
        if v.is_multiple_of(2) { Align::Four } else { Align::Two }
    }

    #[inline(always)]
    unsafe fn load<const ORDERED: bool>(block: *const u8, off: usize, q: usize, at: Align) -> Q6Raw {
        let (h, w) = (q / 16, q % 16);
        // SAFETY: 32 words of low bits, 16 of high ones, 16 scales; alignment by contract.
        unsafe {
            let scale = |i: usize| {
                load::<ORDERED, i8>(block.wrapping_add(q6_k::SCALES_OFF + 8 * h + w / 4 + 4 * i + off).cast())
            };
            Q6Raw {
                low: RawWord::load::<ORDERED>(block.wrapping_add(q6_k::QL_OFF + 4 * q + off), at),
                high: RawWord::load::<ORDERED>(block.wrapping_add(q6_k::QH_OFF + 4 * (8 * h + q % 8) + off), at),
                scale: [scale(0), scale(1)],
                d: load::<ORDERED, u16>(block.wrapping_add(q6_k::D_OFF + off).cast()),
            }
        }
    }

    #[inline(always)]
    fn decode(raw: &Q6Raw, q: usize, at: Align) -> Q6Weights {
        let low = raw.low.whole(at);
        let high = raw.high.whole(at) >> (2 * (q % 16 / 8));
        let code = |i: usize| {
            let code = (low >> (4 * i)) & 0x0f0f_0f0f | ((high >> (4 * i)) << 4) & 0x3030_3030;
            minus_32(code).cast_signed()
        };
        Q6Weights { q: [code(0), code(1)], scale: raw.scale.map(i32::from), d: float::f16_to_f32(raw.d) }
    }

    #[inline(always)]
    unsafe fn gather<S: Source<T>, const T: usize>(x: &S, block: usize, q: usize) -> Self::Acts<T> {
        let b = PARTS * block + 4 * (q / 16) + q % 16 / 8;
        // SAFETY: b + 2 is within the block's 8.
        unsafe { Acts { u: [x.word(b, q % 8), x.word(b + 2, q % 8)], d: [x.step(b), x.step(b + 2)], e: [] } }
    }

    #[inline(always)]
    fn apply<const T: usize, const FORM: u8>(w: &Q6Weights, x: &Self::Acts<T>, a: &mut [f32; T]) {
        let scale = w.scale.map(Scaled::new);
        for c in 0..T {
            let n = |i: usize| scale[i].of::<FORM>(int::dp4a(w.q[i], x.u[i][c], start::<FORM>()));
            let t = x.d[0][c] * n(0);
            a[c] = float::fma(w.d, float::fma(x.d[1][c], n(1), t), a[c]);
        }
    }
}

/// Q3_K: call q of 16 has word q of the low bits: four values of each of four sub-blocks of its half q / 8.
pub struct Q3K;

/// Words of a call of [`Q3K`].
#[derive(Clone, Copy, Default)]
pub struct Q3Raw {
    low: RawWord,
    high: RawWord,
    /// Bytes of the low halves of the scales, by value group; then of the high bits, of even and odd groups.
    scale: [u8; 6],
    d: u16,
}

/// Integers of a call of [`Q3K`].
#[derive(Clone, Copy)]
pub struct Q3Weights {
    q: [i32; 4],
    scale: [i32; 4],
    d: f32,
}

impl Call for Q3K {
    const FORMAT: Format = Format::Q3_K;
    const VALUES: usize = q3_k::VALUES;
    const BYTES: usize = q3_k::BYTES;
    const LPB: usize = 16;
    type Raw = Q3Raw;
    type Weights = Q3Weights;
    type Acts<const T: usize> = Acts<4, 4, 0, T>;

    #[inline(always)]
    unsafe fn load<const ORDERED: bool>(block: *const u8, off: usize, q: usize, at: Align) -> Q3Raw {
        let first = q % 8 / 4;
        // SAFETY: 16 words of low bits, 8 of high ones; bytes first + 6 < 8 and 8 + first + 2 < 12 of the scales.
        unsafe {
            let scale = |i: usize| load::<ORDERED, u8>(block.wrapping_add(q3_k::SCALES_OFF + first + i + off));
            Q3Raw {
                low: RawWord::load::<ORDERED>(block.wrapping_add(q3_k::QS_OFF + 4 * q + off), at),
                high: RawWord::load::<ORDERED>(block.wrapping_add(q3_k::HMASK_OFF + 4 * (q % 8) + off), at),
                scale: [scale(0), scale(2), scale(4), scale(6), scale(8), scale(10)],
                d: load::<ORDERED, u16>(block.wrapping_add(q3_k::D_OFF + off).cast()),
            }
        }
    }

    #[inline(always)]
    fn decode(raw: &Q3Raw, q: usize, at: Align) -> Q3Weights {
        let n = q / 8;
        let (low, high) = (raw.low.whole(at), raw.high.whole(at) >> (4 * n));
        // A set bit of the mask is 4 more: codes of 0 to 7, minus 4.
        let code = |i: usize| minus_4((low >> (2 * i)) & 0x0303_0303 | ((high >> i) << 2) & 0x0404_0404).cast_signed();
        let scale = |i: usize| {
            let (low, high) =
                (u32::from(raw.scale[i]) >> (4 * n), u32::from(raw.scale[4 + i % 2]) >> (4 * n + i / 2 * 2));
            ((low & 15) | (high & 3) << 4).cast_signed() - 32
        };
        Q3Weights { q: core::array::from_fn(code), scale: core::array::from_fn(scale), d: float::f16_to_f32(raw.d) }
    }

    #[inline(always)]
    unsafe fn gather<S: Source<T>, const T: usize>(x: &S, block: usize, q: usize) -> Self::Acts<T> {
        let b = PARTS * block + 4 * (q / 8);
        // SAFETY: b + 3 is within the block's 8.
        unsafe {
            Acts {
                u: core::array::from_fn(|i| x.word(b + i, q % 8)),
                d: core::array::from_fn(|i| x.step(b + i)),
                e: [],
            }
        }
    }

    #[inline(always)]
    fn apply<const T: usize, const FORM: u8>(w: &Q3Weights, x: &Self::Acts<T>, a: &mut [f32; T]) {
        let scale = w.scale.map(Scaled::new);
        for c in 0..T {
            let n = |i: usize| scale[i].of::<FORM>(int::dp4a(w.q[i], x.u[i][c], start::<FORM>()));
            let mut t = x.d[0][c] * n(0);
            for i in 1..4 {
                t = float::fma(x.d[i][c], n(i), t);
            }
            a[c] = float::fma(w.d, t, a[c]);
        }
    }
}

/// Integers of a call of [`Q4K`] and [`Q5K`].
#[derive(Clone, Copy)]
pub struct AffineWeights {
    /// Words p and p + 4 of sub-block 2 j, then those of 2 j + 1.
    q: [i32; 4],
    scale: [i32; 2],
    min: [i32; 2],
    d: f32,
    dmin: f32,
}

/// Scales and minima of sub-blocks 2 j and 2 j + 1, from the block's first 16 bytes.
///
/// Two bytes each. The first four sub-blocks have six bits of their own, in the words of scales and of minima; the others
/// have halves of the last word's bytes, below the top bits of those two words' bytes. Lanes of a warp differ in j, so
/// that what differs is selectors, masks and shifts, never the path.
#[inline(always)]
pub(super) fn scales_and_mins([_, scales, mins, halves]: [u32; 4], j: usize) -> ([i32; 2], [i32; 2]) {
    let (j, late) = (j as u32, j as u32 / 2);
    let pair = 0x10 + 0x22 * (j % 2);
    // Of the word itself or of the halves; of the word for its top bits, or of a zero.
    let (own, tops) = (pair + 0x44 * late, 0x44 - late * (0x44 - pair));
    let mask = 0x3f3f - 0x3030 * late;
    let six_bits = |word: u32, shift: u32| {
        let (low, top) = (int::prmt(word, halves, own), int::prmt(word, 0, tops));
        (low >> shift) & mask | (top >> 2) & 0x3030
    };
    let bytes = |two: u32| [(two & 0xff).cast_signed(), ((two >> 8) & 0xff).cast_signed()];
    (bytes(six_bits(scales, 0)), bytes(six_bits(mins, 4 * late)))
}

impl AffineWeights {
    #[inline(always)]
    fn new(head: [u32; 4], j: usize, q: [u32; 4]) -> Self {
        let ((scale, min), [d, dmin]) = (scales_and_mins(head, j), float::f16x2_to_f32x2(head[0]));
        Self { q: q.map(u32::cast_signed), scale, min, d, dmin }
    }

    #[inline(always)]
    fn apply<const T: usize, const FORM: u8>(&self, x: &Acts<4, 2, 2, T>, a: &mut [f32; T]) {
        let (scale, min) = (self.scale.map(Scaled::new), self.min.map(to_float::<FORM>));
        for c in 0..T {
            let n = |i: usize| {
                let dot = int::dp4a(self.q[2 * i], x.u[2 * i][c], start::<FORM>());
                scale[i].of::<FORM>(int::dp4a(self.q[2 * i + 1], x.u[2 * i + 1][c], dot))
            };
            let t = float::fma(x.d[1][c], n(1), x.d[0][c] * n(0));
            let z = float::fma(x.e[1][c], min[1], x.e[0][c] * min[0]);
            a[c] += float::fma(self.d, t, -(self.dmin * z));
        }
    }
}

/// Words p and p + 4 of activation blocks 2 j and 2 j + 1, their steps and sums.
///
/// # Safety
/// The source has the block; `q < 16`.
#[inline(always)]
unsafe fn gather_pair<S: Source<T>, const T: usize>(x: &S, block: usize, q: usize) -> Acts<4, 2, 2, T> {
    let (b, p) = (PARTS * block + 2 * (q / 4), q % 4);
    // SAFETY: b + 1 is within the block's 8.
    unsafe {
        let u = [x.word(b, p), x.word(b, p + 4), x.word(b + 1, p), x.word(b + 1, p + 4)];
        Acts { u, d: [x.step(b), x.step(b + 1)], e: [x.sum(b, p, [u[0], u[1]]), x.sum(b + 1, p, [u[2], u[3]])] }
    }
}

/// Q4_K: call q of 16 has words p = q % 4 and p + 4 of the bytes of sub-blocks 2 j and 2 j + 1, j = q / 4.
pub struct Q4K;

/// Words of a call of [`Q4K`].
#[derive(Clone, Copy, Default)]
pub struct Q4Raw {
    head: [u32; 4],
    q: [u32; 2],
}

impl Call for Q4K {
    const FORMAT: Format = Format::Q4_K;
    const VALUES: usize = q4_k::VALUES;
    const BYTES: usize = q4_k::BYTES;
    const LPB: usize = 16;
    type Raw = Q4Raw;
    type Weights = AffineWeights;
    type Acts<const T: usize> = Acts<4, 2, 2, T>;

    #[inline(always)]
    unsafe fn load<const ORDERED: bool>(block: *const u8, off: usize, q: usize, _at: Align) -> Q4Raw {
        let at = q4_k::QS_OFF + 32 * (q / 4) + 4 * (q % 4);
        // SAFETY: blocks are multiples of 16 bytes from the start of the matrix; 32 words of codes.
        unsafe {
            let word = |i: usize| load::<ORDERED, u32>(block.wrapping_add(at + 16 * i + off).cast());
            Q4Raw { head: load4::<ORDERED>(block.wrapping_add(off)), q: [word(0), word(1)] }
        }
    }

    #[inline(always)]
    fn decode(raw: &Q4Raw, q: usize, _at: Align) -> AffineWeights {
        let code = |i: usize| (raw.q[i % 2] >> (4 * (i / 2))) & 0x0f0f_0f0f;
        AffineWeights::new(raw.head, q / 4, core::array::from_fn(code))
    }

    #[inline(always)]
    unsafe fn gather<S: Source<T>, const T: usize>(x: &S, block: usize, q: usize) -> Self::Acts<T> {
        // SAFETY: same contract.
        unsafe { gather_pair(x, block, q) }
    }

    #[inline(always)]
    fn apply<const T: usize, const FORM: u8>(w: &AffineWeights, x: &Self::Acts<T>, a: &mut [f32; T]) {
        w.apply::<T, FORM>(x, a);
    }
}

/// Q5_K: as [`Q4K`], each code with a fifth bit.
pub struct Q5K;

/// Words of a call of [`Q5K`].
#[derive(Clone, Copy, Default)]
pub struct Q5Raw {
    head: [u32; 4],
    q: [u32; 2],
    high: [u32; 2],
}

impl Call for Q5K {
    const FORMAT: Format = Format::Q5_K;
    const VALUES: usize = q5_k::VALUES;
    const BYTES: usize = q5_k::BYTES;
    const LPB: usize = 16;
    type Raw = Q5Raw;
    type Weights = AffineWeights;
    type Acts<const T: usize> = Acts<4, 2, 2, T>;

    #[inline(always)]
    unsafe fn load<const ORDERED: bool>(block: *const u8, off: usize, q: usize, _at: Align) -> Q5Raw {
        let (j, p) = (q / 4, q % 4);
        // SAFETY: blocks are multiples of 16 bytes from the start of the matrix; 32 words of codes, 8 of fifth bits.
        unsafe {
            let word = |at: usize| load::<ORDERED, u32>(block.wrapping_add(at + 4 * p + off).cast());
            Q5Raw {
                head: load4::<ORDERED>(block.wrapping_add(off)),
                q: [word(q5_k::QS_OFF + 32 * j), word(q5_k::QS_OFF + 32 * j + 16)],
                high: [word(q5_k::QH_OFF), word(q5_k::QH_OFF + 16)],
            }
        }
    }

    #[inline(always)]
    fn decode(raw: &Q5Raw, q: usize, _at: Align) -> AffineWeights {
        let j = q / 4;
        let code = |i: usize| {
            let (low, high) = (raw.q[i % 2] >> (4 * (i / 2)), raw.high[i % 2] >> (2 * j) >> (i / 2));
            low & 0x0f0f_0f0f | (high << 4) & 0x1010_1010
        };
        AffineWeights::new(raw.head, j, core::array::from_fn(code))
    }

    #[inline(always)]
    unsafe fn gather<S: Source<T>, const T: usize>(x: &S, block: usize, q: usize) -> Self::Acts<T> {
        // SAFETY: same contract.
        unsafe { gather_pair(x, block, q) }
    }

    #[inline(always)]
    fn apply<const T: usize, const FORM: u8>(w: &AffineWeights, x: &Self::Acts<T>, a: &mut [f32; T]) {
        w.apply::<T, FORM>(x, a);
    }
}
