//! The calls of IQ4_NL, IQ4_XS, whose codes stand for numbers of a codebook, and IQ3_S, IQ2_XS, whose codes are rows of a grid.

use cuda_std::{float, int};

use super::Format;
use super::call::{Acts, Align, Call, RawWord, Scaled, load, load2, start, to_float};
use super::source::Source;
use crate::format::{KV_WORDS, grids, iq2_xs, iq3_s, iq4_nl, iq4_xs, q8_1};

/// Blocks of activations in a block of 256 weights.
const PARTS: usize = iq4_xs::VALUES / q8_1::VALUES;

/// Codebook numbers of the four halves of bytes that `codes`' lower 16 bits are. `prmt` takes three bits of an index and
/// reads the fourth as a sign bit to spread, so the fourth is masked, and picks between the book's halves afterwards.
#[inline(always)]
fn book(codes: u32) -> u32 {
    let index = codes & 0x7777;
    let (low, high) = (int::prmt(KV_WORDS[0], KV_WORDS[1], index), int::prmt(KV_WORDS[2], KV_WORDS[3], index));
    int::prmt(low, high, 0x3210 | (codes & 0x8888) >> 1)
}

/// Codebook numbers of the low halves of a word's bytes, and of the high ones.
#[inline(always)]
pub(super) fn low_and_high(word: u32) -> [i32; 2] {
    let (first, last) = (book(word), book(word >> 16));
    [0x6420, 0x7531].map(|selector| int::prmt(first, last, selector).cast_signed())
}

/// IQ4_NL: call q of 2 has words 2 q and 2 q + 1 of the codes.
pub struct Iq4Nl;

/// Words of a call of [`Iq4Nl`].
#[derive(Clone, Copy, Default)]
pub struct NlRaw {
    q: [RawWord; 2],
    d: u16,
}

/// Numbers of a call of [`Iq4Nl`]: low and high halves of each word.
#[derive(Clone, Copy)]
pub struct NlWeights {
    q: [[i32; 2]; 2],
    d: f32,
}

impl Call for Iq4Nl {
    const FORMAT: Format = Format::IQ4_NL;
    const VALUES: usize = iq4_nl::VALUES;
    const BYTES: usize = iq4_nl::BYTES;
    const LPB: usize = 2;
    type Raw = NlRaw;
    type Weights = NlWeights;
    type Acts<const T: usize> = Acts<4, 1, 0, T>;

    #[inline(always)]
    unsafe fn load<const ORDERED: bool>(block: *const u8, off: usize, q: usize, at: Align) -> NlRaw {
        // SAFETY: 8 q + 7 < 16 bytes of codes; alignment by contract.
        unsafe {
            let word =
                |i: usize| RawWord::load::<ORDERED>(block.wrapping_add(iq4_nl::QS_OFF + 8 * q + 4 * i + off), at);
            NlRaw { q: [word(0), word(1)], d: load::<ORDERED, u16>(block.wrapping_add(iq4_nl::D_OFF + off).cast()) }
        }
    }

    #[inline(always)]
    fn decode(raw: &NlRaw, _q: usize, at: Align) -> NlWeights {
        NlWeights { q: raw.q.map(|word| low_and_high(word.whole(at))), d: float::f16_to_f32(raw.d) }
    }

    #[inline(always)]
    unsafe fn gather<S: Source<T>, const T: usize>(x: &S, block: usize, q: usize) -> Self::Acts<T> {
        // SAFETY: same contract; one block of activations a block of weights.
        unsafe {
            let word = |i: usize| x.word(block, 2 * q + i / 2 + 4 * (i % 2));
            Acts { u: [word(0), word(1), word(2), word(3)], d: [x.step(block)], e: [] }
        }
    }

    #[inline(always)]
    fn apply<const T: usize, const FORM: u8>(w: &NlWeights, x: &Self::Acts<T>, a: &mut [f32; T]) {
        for c in 0..T {
            let mut n = 0;
            for i in 0..4 {
                n = int::dp4a(w.q[i / 2][i % 2], x.u[i][c], n);
            }
            a[c] = float::fma(w.d * x.d[0][c], to_float::<FORM>(n), a[c]);
        }
    }
}

/// IQ4_XS: call q of 8 has sub-block q.
pub struct Iq4Xs;

/// Words of a call of [`Iq4Xs`].
#[derive(Clone, Copy, Default)]
pub struct XsRaw {
    head: [u32; 2],
    q: [[u32; 2]; 2],
}

/// Numbers of a call of [`Iq4Xs`]: low and high halves of each word.
#[derive(Clone, Copy)]
pub struct XsWeights {
    q: [[i32; 2]; 4],
    scale: i32,
    d: f32,
}

impl Call for Iq4Xs {
    const FORMAT: Format = Format::IQ4_XS;
    const VALUES: usize = iq4_xs::VALUES;
    const BYTES: usize = iq4_xs::BYTES;
    const LPB: usize = 8;
    type Raw = XsRaw;
    type Weights = XsWeights;
    type Acts<const T: usize> = Acts<8, 1, 0, T>;

    #[inline(always)]
    unsafe fn load<const ORDERED: bool>(block: *const u8, off: usize, q: usize, _at: Align) -> XsRaw {
        // SAFETY: blocks are multiples of 8 bytes from the start of the matrix; 16 bytes of codes a sub-block.
        unsafe {
            let codes = |i: usize| load2::<ORDERED>(block.wrapping_add(iq4_xs::QS_OFF + 16 * q + 8 * i + off));
            XsRaw { head: load2::<ORDERED>(block.wrapping_add(off)), q: [codes(0), codes(1)] }
        }
    }

    #[inline(always)]
    fn decode(raw: &XsRaw, q: usize, _at: Align) -> XsWeights {
        let (low, high) = (raw.head[1] >> (4 * q), raw.head[0] >> (16 + 2 * q));
        XsWeights {
            q: core::array::from_fn(|i| low_and_high(raw.q[i / 2][i % 2])),
            scale: ((low & 15) | (high & 3) << 4).cast_signed() - i32::from(iq4_xs::SCALE_BIAS),
            d: float::f16_to_f32((raw.head[0] & 0xffff) as u16),
        }
    }

    #[inline(always)]
    unsafe fn gather<S: Source<T>, const T: usize>(x: &S, block: usize, q: usize) -> Self::Acts<T> {
        let b = PARTS * block + q;
        // SAFETY: q < 8 is within the block's 8.
        unsafe { Acts { u: core::array::from_fn(|i| x.far_word(b, i / 2 + 4 * (i % 2))), d: [x.step(b)], e: [] } }
    }

    #[inline(always)]
    fn apply<const T: usize, const FORM: u8>(w: &XsWeights, x: &Self::Acts<T>, a: &mut [f32; T]) {
        let scale = Scaled::new(w.scale);
        for c in 0..T {
            let mut dot = start::<FORM>();
            for i in 0..8 {
                dot = int::dp4a(w.q[i / 2][i % 2], x.u[i][c], dot);
            }
            a[c] = float::fma(w.d * x.d[0][c], scale.of_wide::<FORM>(dot), a[c]);
        }
    }
}

/// Four magnitudes, each 1 to 127, with the signs that the low four bits of `signs` say.
#[inline(always)]
fn signed(magnitudes: u32, signs: u32) -> i32 {
    // Bit i lands on byte i's lowest: the 16 product bits are distinct. Then -x = !x + 1, which carries into no neighbour.
    let ones = (signs & 15).wrapping_mul(0x0020_4081) & 0x0101_0101;
    ((magnitudes ^ ones.wrapping_mul(255)).wrapping_add(ones)).cast_signed()
}

/// IQ3_S: call q of 8 has sub-block q.
pub struct Iq3S;

/// Words of a call of [`Iq3S`].
#[derive(Clone, Copy, Default)]
pub struct Iq3Raw {
    rows: [RawWord; 2],
    signs: RawWord,
    high: u8,
    scale: u8,
    d: u16,
}

/// Numbers of a call of [`Iq3S`].
#[derive(Clone, Copy)]
pub struct Iq3Weights {
    q: [i32; 8],
    scale: i32,
    d: f32,
}

impl Call for Iq3S {
    const FORMAT: Format = Format::IQ3_S;
    const VALUES: usize = iq3_s::VALUES;
    const BYTES: usize = iq3_s::BYTES;
    const LPB: usize = 8;
    const SLOTS: usize = 1;
    type Raw = Iq3Raw;
    type Weights = Iq3Weights;
    type Acts<const T: usize> = Acts<8, 1, 0, T>;

    #[inline(always)]
    unsafe fn load<const ORDERED: bool>(block: *const u8, off: usize, q: usize, at: Align) -> Iq3Raw {
        // SAFETY: eight bytes of codes and four of signs a sub-block, at multiples of 2; alignment by contract.
        unsafe {
            Iq3Raw {
                rows: [0, 4].map(|i| RawWord::load::<ORDERED>(block.wrapping_add(iq3_s::QS_OFF + 8 * q + i + off), at)),
                signs: RawWord::load::<ORDERED>(block.wrapping_add(iq3_s::SIGNS_OFF + 4 * q + off), at),
                high: load::<ORDERED, u8>(block.wrapping_add(iq3_s::QH_OFF + q + off)),
                scale: load::<ORDERED, u8>(block.wrapping_add(iq3_s::SCALES_OFF + q / 2 + off)),
                d: load::<ORDERED, u16>(block.wrapping_add(iq3_s::D_OFF + off).cast()),
            }
        }
    }

    #[inline(always)]
    fn decode(raw: &Iq3Raw, q: usize, at: Align) -> Iq3Weights {
        let (rows, signs, high) = (raw.rows.map(|word| word.whole(at)), raw.signs.whole(at), u32::from(raw.high));
        let quad = |i: usize| {
            let row = (rows[i / 4] >> (8 * (i % 4))) & 0xff | ((high >> i) & 1) << 8;
            signed(grids::IQ3_S[row as usize % grids::ROWS], signs >> (4 * i))
        };
        let nibble = (u32::from(raw.scale) >> (4 * (q % 2))) & 15;
        Iq3Weights { q: core::array::from_fn(quad), scale: (1 + 2 * nibble).cast_signed(), d: float::f16_to_f32(raw.d) }
    }

    #[inline(always)]
    unsafe fn gather<S: Source<T>, const T: usize>(x: &S, block: usize, q: usize) -> Self::Acts<T> {
        let b = PARTS * block + q;
        // SAFETY: q < 8 is within the block's 8.
        unsafe { Acts { u: core::array::from_fn(|p| x.far_word(b, p)), d: [x.step(b)], e: [] } }
    }

    #[inline(always)]
    fn apply<const T: usize, const FORM: u8>(w: &Iq3Weights, x: &Self::Acts<T>, a: &mut [f32; T]) {
        let scale = Scaled::new(w.scale);
        for c in 0..T {
            let mut dot = start::<FORM>();
            for p in 0..8 {
                dot = int::dp4a(w.q[p], x.u[p][c], dot);
            }
            a[c] = float::fma(w.d * x.d[0][c], scale.of::<FORM>(dot), a[c]);
        }
    }
}

/// IQ2_XS: call q of 8 has sub-blocks 2 q and 2 q + 1.
pub struct Iq2Xs;

/// Words of a call of [`Iq2Xs`].
#[derive(Clone, Copy, Default)]
pub struct Iq2Raw {
    codes: [u16; 4],
    scales: u8,
    d: u16,
}

/// Numbers of a call of [`Iq2Xs`].
#[derive(Clone, Copy)]
pub struct Iq2Weights {
    q: [i32; 8],
    scale: [i32; 2],
    d: f32,
}

impl Call for Iq2Xs {
    const FORMAT: Format = Format::IQ2_XS;
    const VALUES: usize = iq2_xs::VALUES;
    const BYTES: usize = iq2_xs::BYTES;
    const LPB: usize = 8;
    const SLOTS: usize = 1;
    type Raw = Iq2Raw;
    type Weights = Iq2Weights;
    type Acts<const T: usize> = Acts<8, 1, 0, T>;

    #[inline(always)]
    unsafe fn load<const ORDERED: bool>(block: *const u8, off: usize, q: usize, _at: Align) -> Iq2Raw {
        // SAFETY: four u16 of codes and a byte of scales for two sub-blocks; blocks are 2-byte aligned.
        unsafe {
            let code = |i: usize| load::<ORDERED, u16>(block.wrapping_add(iq2_xs::QS_OFF + 8 * q + 2 * i + off).cast());
            Iq2Raw {
                codes: [code(0), code(1), code(2), code(3)],
                scales: load::<ORDERED, u8>(block.wrapping_add(iq2_xs::SCALES_OFF + q + off)),
                d: load::<ORDERED, u16>(block.wrapping_add(iq2_xs::D_OFF + off).cast()),
            }
        }
    }

    #[inline(always)]
    fn decode(raw: &Iq2Raw, _q: usize, _at: Align) -> Iq2Weights {
        let quad = |i: usize| {
            let (row, signs) = iq2_xs::grid_row_and_signs(raw.codes[i / 2]);
            signed(grids::IQ2_XS[row % grids::ROWS][i % 2], u32::from(signs) >> (4 * (i % 2)))
        };
        let scales = i32::from(raw.scales);
        Iq2Weights { q: core::array::from_fn(quad), scale: [scales & 15, scales >> 4], d: float::f16_to_f32(raw.d) }
    }

    #[inline(always)]
    unsafe fn gather<S: Source<T>, const T: usize>(x: &S, block: usize, q: usize) -> Self::Acts<T> {
        let b = PARTS * block + q;
        // SAFETY: q < 8 is within the block's 8.
        unsafe { Acts { u: core::array::from_fn(|p| x.far_word(b, p)), d: [x.step(b)], e: [] } }
    }

    /// `(s_0 n_0 + s_1 n_1 + (s_0 + s_1) / 2) / 4`, both divisions toward zero.
    #[inline(always)]
    fn apply<const T: usize, const FORM: u8>(w: &Iq2Weights, x: &Self::Acts<T>, a: &mut [f32; T]) {
        for c in 0..T {
            let mut dot = [0; 2];
            for p in 0..8 {
                dot[p / 4] = int::dp4a(w.q[p], x.u[p][c], dot[p / 4]);
            }
            let scaled = dot[0] * w.scale[0] + dot[1] * w.scale[1] + (dot[0] + dot[1]) / 2;
            a[c] = float::fma(w.d * x.d[0][c], to_float::<FORM>(scaled / 4), a[c]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::KV;

    #[test]
    fn every_pair_of_codes_finds_its_numbers() {
        for low in 0..16u32 {
            for high in 0..16u32 {
                let word = 0x0101_0101 * (low | high << 4);
                let want = [low, high].map(|code| i32::from_le_bytes([KV[code as usize].cast_unsigned(); 4]));
                assert_eq!(low_and_high(word), want, "{low} {high}");
            }
        }
        let word = 0x7654_3210u32; // low halves 0 2 4 6, high ones 1 3 5 7
        let book = |codes: [usize; 4]| i32::from_le_bytes(codes.map(|code| KV[code].cast_unsigned()));
        assert_eq!(low_and_high(word), [book([0, 2, 4, 6]), book([1, 3, 5, 7])]);
    }

    #[test]
    fn signs_reach_their_bytes_and_no_others() {
        for magnitude in 1..=127u32 {
            for signs in 0..32u32 {
                let word = (0x0100_0001 * magnitude) | (0x0001_0100 * (128 - magnitude));
                let bytes = word.to_le_bytes();
                let want: [i8; 4] = core::array::from_fn(|i| {
                    let value = bytes[i].cast_signed();
                    if signs >> i & 1 == 1 { -value } else { value }
                });
                assert_eq!(signed(word, signs).to_le_bytes().map(u8::cast_signed), want, "{magnitude} {signs:b}");
            }
        }
    }
}
