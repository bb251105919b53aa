//! Neighbouring values of a matrix in blocks, as `format` defines them: a quad, four of them, or two quads at once.
//!
//! Products with a scale are exact (see `format`), so no order of multiplication has to be kept.

use cuda_std::{float, global};

use super::weight::Weight;
use crate::format::{KV_WORDS, grids, iq2_xs, iq3_s, iq4_nl, iq4_xs, q3_k, q4_k, q5_k, q6_k, q8_0};
use crate::mmvq::Format;

/// Values of a quad.
pub const LEN: usize = 4;
/// Values of two quads.
pub const OCTET: usize = 2 * LEN;
/// Octets of a group of 32 values, the shortest block.
pub const OF_A_GROUP: usize = 4;

/// How bytes of a block are read.
pub trait Loads {
    /// The u16 at a multiple of 2.
    ///
    /// # Safety
    /// It is in global memory that nothing writes during the launch.
    unsafe fn half(p: *const u8) -> u32;

    /// `K` words, 1 or 2, at a multiple of `4 K`.
    ///
    /// # Safety
    /// As [`Self::half`].
    unsafe fn aligned<const K: usize>(p: *const u8) -> [u32; K];

    /// `K` words at a multiple of 2.
    ///
    /// # Safety
    /// As [`Self::half`].
    #[inline(always)]
    unsafe fn words<const K: usize>(p: *const u8) -> [u32; K] {
        // SAFETY: same contract.
        core::array::from_fn(|k| unsafe { Self::half(p.add(4 * k)) | Self::half(p.add(4 * k + 2)) << 16 })
    }
}

/// Byte by byte.
pub struct Bytes;
/// As wide as the alignment allows.
pub struct Wide;

impl Loads for Bytes {
    #[inline(always)]
    unsafe fn half(p: *const u8) -> u32 {
        // SAFETY: same contract.
        unsafe { byte(p) | byte(p.add(1)) << 8 }
    }

    #[inline(always)]
    unsafe fn aligned<const K: usize>(p: *const u8) -> [u32; K] {
        // SAFETY: same contract.
        unsafe { Self::words(p) }
    }
}

impl Loads for Wide {
    #[inline(always)]
    unsafe fn half(p: *const u8) -> u32 {
        // SAFETY: same contract.
        u32::from(unsafe { global::load_nc(p.cast::<u16>()) })
    }

    #[inline(always)]
    unsafe fn aligned<const K: usize>(p: *const u8) -> [u32; K] {
        let mut words = [0; K];
        // SAFETY: same contract.
        unsafe {
            if K == 2 {
                let pair = global::load2_nc(p.cast::<u32>());
                for k in 0..K {
                    words[k] = pair[k % 2];
                }
            } else {
                for k in 0..K {
                    words[k] = global::load_nc(p.cast::<u32>().add(k));
                }
            }
        }
        words
    }
}

/// Weights in blocks of format number `F` of [`Format::ALL`].
pub struct Blocks<const F: usize>;

impl<const F: usize> Weight for Blocks<F> {
    #[inline(always)]
    fn row_bytes(n_in: usize) -> usize {
        let (values, bytes) = Format::ALL[F].block();
        n_in / values * bytes
    }

    #[inline(always)]
    unsafe fn load4(w: *const u8, at: usize) -> [f32; 4] {
        // SAFETY: same contract; rows are whole blocks, which lie as their format's do.
        let [quad] = unsafe { quads::<Wide, 1>(Format::ALL[F], w, at / LEN) };
        quad
    }
}

/// Runs `$body::<Blocks<..>, $rest>(..)` for the format of a launch: all threads take the same branch.
macro_rules! of_format {
    ($format:expr, $blocks:ident => $call:expr) => {{
        use crate::dense::blocks::Blocks;
        use crate::mmvq::Format;
        macro_rules! of {
            ($f:literal) => {{
                type $blocks = Blocks<$f>;
                $call
            }};
        }
        const _: () = assert!(Format::ALL[0] as u32 == 0 && Format::ALL[8] as u32 == 8);
        match $format {
            Format::Q8_0 => of!(0),
            Format::IQ4_NL => of!(1),
            Format::Q3_K => of!(2),
            Format::Q4_K => of!(3),
            Format::Q5_K => of!(4),
            Format::Q6_K => of!(5),
            Format::IQ4_XS => of!(6),
            Format::IQ3_S => of!(7),
            Format::IQ2_XS => of!(8),
        }
    }};
}
pub(crate) use of_format;

/// `K` quads, 1 or 2: numbers `K at ..` of a matrix whose blocks start at `w`.
///
/// # Safety
/// The matrix has them, in global memory that nothing writes during the launch; blocks lie at the multiples of bytes that
/// their format says.
#[inline(always)]
pub unsafe fn quads<L: Loads, const K: usize>(format: Format, w: *const u8, at: usize) -> [[f32; LEN]; K] {
    macro_rules! of {
        ($format:ident) => {{
            let of_a_block = $format::VALUES / (LEN * K);
            // SAFETY: same contract.
            unsafe { $format::<L, K>(w.add(at / of_a_block * $format::BYTES), LEN * K * (at % of_a_block)) }
        }};
    }
    match format {
        Format::Q8_0 => of!(q8_0),
        Format::IQ4_NL => of!(iq4_nl),
        Format::Q3_K => of!(q3_k),
        Format::Q4_K => of!(q4_k),
        Format::Q5_K => of!(q5_k),
        Format::Q6_K => of!(q6_k),
        Format::IQ4_XS => of!(iq4_xs),
        Format::IQ3_S => of!(iq3_s),
        Format::IQ2_XS => of!(iq2_xs),
    }
}

/// A byte.
///
/// # Safety
/// It is in global memory that nothing writes during the launch.
#[inline(always)]
unsafe fn byte(p: *const u8) -> u32 {
    // SAFETY: same contract.
    u32::from(unsafe { global::load_nc(p) })
}

/// An f16.
///
/// # Safety
/// As [`Loads::half`].
#[inline(always)]
unsafe fn step<L: Loads>(p: *const u8) -> f32 {
    // SAFETY: same contract.
    float::f16_to_f32(unsafe { L::half(p) } as u16)
}

/// Byte `j` of a word.
#[inline(always)]
fn of_word(word: u32, j: usize) -> u32 {
    word >> (8 * j) & 0xff
}

/// `scale * code` for codes by quad and place in it.
#[inline(always)]
fn scaled<const K: usize>(scale: f32, code: impl Fn(usize, usize) -> i32) -> [[f32; LEN]; K] {
    core::array::from_fn(|k| core::array::from_fn(|j| scale * code(k, j) as f32))
}

/// Codebook number of a code of four bits.
#[inline(always)]
fn book(code: u32) -> i32 {
    let [a, b, c, d] = KV_WORDS;
    let (low, high) = (if code & 4 == 0 { a } else { b }, if code & 4 == 0 { c } else { d });
    let word = if code & 8 == 0 { low } else { high };
    i32::from((word >> (8 * (code & 3))) as i8)
}

/// Byte `j` of `magnitudes`, negative where bit `j` of the signs is set.
#[inline(always)]
fn signed(magnitudes: u32, signs: u32, j: usize) -> i32 {
    let magnitude = of_word(magnitudes, j).cast_signed();
    if signs >> j & 1 == 1 { -magnitude } else { magnitude }
}

// Below, `e` is the first value's number in its block, a multiple of 4 K.

#[inline(always)]
unsafe fn q8_0<L: Loads, const K: usize>(block: *const u8, e: usize) -> [[f32; LEN]; K] {
    // SAFETY: 32 codes.
    let (d, q) = unsafe { (step::<L>(block.add(q8_0::D_OFF)), L::words::<K>(block.add(q8_0::QS_OFF + e))) };
    scaled(d, |k, j| i32::from(of_word(q[k], j) as i8))
}

#[inline(always)]
unsafe fn iq4_nl<L: Loads, const K: usize>(block: *const u8, e: usize) -> [[f32; LEN]; K] {
    // SAFETY: 16 bytes of codes.
    let (d, q) = unsafe { (step::<L>(block.add(iq4_nl::D_OFF)), L::words::<K>(block.add(iq4_nl::QS_OFF + e % 16))) };
    scaled(d, |k, j| book(of_word(q[k], j) >> (4 * (e / 16)) & 15))
}

#[inline(always)]
unsafe fn q3_k<L: Loads, const K: usize>(block: *const u8, e: usize) -> [[f32; LEN]; K] {
    let (n, field, t, s) = (e / 128, e % 128 / 32, e % 32, e / q3_k::SUB_VALUES);
    // SAFETY: 64 bytes of codes, 32 of the mask, 12 of the scales.
    let (d, low, mask, of_scale) = unsafe {
        let scales = block.add(q3_k::SCALES_OFF);
        let low = byte(scales.add(s % 8)) >> (4 * (s / 8)) & 15;
        let high = byte(scales.add(8 + s % 4)) >> (2 * (s / 4)) & 3;
        let codes = L::words::<K>(block.add(q3_k::QS_OFF + 32 * n + t));
        (step::<L>(block.add(q3_k::D_OFF)), codes, L::words::<K>(block.add(q3_k::HMASK_OFF + t)), low | high << 4)
    };
    let scale = d * (of_scale.cast_signed() - i32::from(q3_k::SCALE_BIAS)) as f32;
    scaled(scale, |k, j| {
        let (low, kept) = (of_word(low[k], j) >> (2 * field) & 3, of_word(mask[k], j) >> (4 * n + field) & 1);
        (low | kept << 2).cast_signed() - 4
    })
}

/// Scale and minimum of sub-block `s` of Q4_K and Q5_K, as `format::scale_and_min` says.
///
/// # Safety
/// Twelve bytes of global memory that nothing writes; s < 8.
#[inline(always)]
unsafe fn scale_and_min(packed: *const u8, s: usize) -> (u32, u32) {
    // SAFETY: s % 4 + 8 < 12.
    let [a, b, c] = [0, 4, 8].map(|at| unsafe { byte(packed.add(at + s % 4)) });
    if s < 4 { (a & 63, b & 63) } else { (c & 15 | a >> 6 << 4, c >> 4 | b >> 6 << 4) }
}

/// `d scale q - dmin min` for codes of Q4_K or Q5_K.
///
/// # Safety
/// A block whose two steps and twelve bytes are where both formats have them; s < 8.
#[inline(always)]
unsafe fn affine<L: Loads, const K: usize>(
    block: *const u8,
    s: usize,
    code: impl Fn(usize, usize) -> u32,
) -> [[f32; LEN]; K] {
    // SAFETY: same contract.
    let (d, dmin, (scale, min)) = unsafe {
        let scale_and_min = scale_and_min(block.add(q4_k::SCALES_OFF), s);
        (step::<L>(block.add(q4_k::D_OFF)), step::<L>(block.add(q4_k::DMIN_OFF)), scale_and_min)
    };
    let (scale, min) = (d * scale as f32, dmin * min as f32);
    core::array::from_fn(|k| core::array::from_fn(|j| scale * code(k, j) as f32 - min))
}
const _: () = assert!(q4_k::SCALES_OFF == q5_k::SCALES_OFF && q4_k::D_OFF == q5_k::D_OFF);
const _: () = assert!(q4_k::DMIN_OFF == q5_k::DMIN_OFF);

#[inline(always)]
unsafe fn q4_k<L: Loads, const K: usize>(block: *const u8, e: usize) -> [[f32; LEN]; K] {
    let (s, t) = (e / q4_k::SUB_VALUES, e % q4_k::SUB_VALUES);
    // SAFETY: 128 bytes of codes; blocks are multiples of 16 bytes.
    let q = unsafe { L::aligned::<K>(block.add(q4_k::QS_OFF + 32 * (s / 2) + t)) };
    // SAFETY: the formats' headers are alike.
    unsafe { affine::<L, K>(block, s, |k, j| of_word(q[k], j) >> (4 * (s % 2)) & 15) }
}

#[inline(always)]
unsafe fn q5_k<L: Loads, const K: usize>(block: *const u8, e: usize) -> [[f32; LEN]; K] {
    let (s, t) = (e / q5_k::SUB_VALUES, e % q5_k::SUB_VALUES);
    // SAFETY: 128 bytes of codes, 32 of top bits; blocks are multiples of 16 bytes.
    let (q, high) = unsafe {
        let q = L::aligned::<K>(block.add(q5_k::QS_OFF + 32 * (s / 2) + t));
        (q, L::aligned::<K>(block.add(q5_k::QH_OFF + t)))
    };
    let code = |k: usize, j: usize| of_word(q[k], j) >> (4 * (s % 2)) & 15 | (of_word(high[k], j) >> s & 1) << 4;
    // SAFETY: the formats' headers are alike.
    unsafe { affine::<L, K>(block, s, code) }
}

#[inline(always)]
unsafe fn q6_k<L: Loads, const K: usize>(block: *const u8, e: usize) -> [[f32; LEN]; K] {
    let (n, u, t) = (e / 128, e % 128 / 32, e % 32);
    // SAFETY: 128 bytes of low bits, 64 of high ones, 16 scales.
    let (d, low, high, scale) = unsafe {
        (
            step::<L>(block.add(q6_k::D_OFF)),
            L::words::<K>(block.add(q6_k::QL_OFF + 64 * n + 32 * (u % 2) + t)),
            L::words::<K>(block.add(q6_k::QH_OFF + 32 * n + t)),
            byte(block.add(q6_k::SCALES_OFF + e / q6_k::SUB_VALUES)) as i8,
        )
    };
    scaled(d * f32::from(scale), |k, j| {
        let code = of_word(low[k], j) >> (4 * (u / 2)) & 15 | (of_word(high[k], j) >> (2 * u) & 3) << 4;
        code.cast_signed() - i32::from(q6_k::CODE_BIAS)
    })
}

#[inline(always)]
unsafe fn iq4_xs<L: Loads, const K: usize>(block: *const u8, e: usize) -> [[f32; LEN]; K] {
    let (s, t) = (e / iq4_xs::SUB_VALUES, e % iq4_xs::SUB_VALUES);
    // SAFETY: 16 bytes of codes a sub-block, four of low scales, two of high ones; blocks are multiples of 8 bytes.
    let (d, q, of_scale) = unsafe {
        let low = byte(block.add(iq4_xs::SCALES_L_OFF + s / 2)) >> (4 * (s % 2)) & 15;
        let high = L::half(block.add(iq4_xs::SCALES_H_OFF)) >> (2 * s) & 3;
        let q = L::aligned::<K>(block.add(iq4_xs::QS_OFF + 16 * s + t % 16));
        (step::<L>(block.add(iq4_xs::D_OFF)), q, low | high << 4)
    };
    let scale = d * (of_scale.cast_signed() - i32::from(iq4_xs::SCALE_BIAS)) as f32;
    scaled(scale, |k, j| book(of_word(q[k], j) >> (4 * (t / 16)) & 15))
}

#[inline(always)]
unsafe fn iq3_s<L: Loads, const K: usize>(block: *const u8, e: usize) -> [[f32; LEN]; K] {
    let (s, i) = (e / iq3_s::SUB_VALUES, e / LEN);
    // SAFETY: 64 code bytes, 8 of high bits, 32 of signs, 4 of scales.
    let (d, low, high, signs, nibble) = unsafe {
        (
            step::<L>(block.add(iq3_s::D_OFF)),
            core::array::from_fn::<_, K, _>(|k| byte(block.add(iq3_s::QS_OFF + i + k))),
            byte(block.add(iq3_s::QH_OFF + s)) >> (i % 8),
            byte(block.add(iq3_s::SIGNS_OFF + e / 8)) >> (e % 8),
            byte(block.add(iq3_s::SCALES_OFF + s / 2)) >> (4 * (s % 2)) & 15,
        )
    };
    let quad = |k: usize| grids::IQ3_S[(low[k] | (high >> k & 1) << 8) as usize % grids::ROWS];
    let quads: [u32; K] = core::array::from_fn(quad);
    scaled(d * (1 + 2 * nibble) as f32, |k, j| signed(quads[k], signs >> (LEN * k), j))
}

#[inline(always)]
unsafe fn iq2_xs<L: Loads, const K: usize>(block: *const u8, e: usize) -> [[f32; LEN]; K] {
    let h = e / iq2_xs::SUB_VALUES;
    // SAFETY: 32 codes of two bytes, 8 bytes of scales.
    let (d, code, nibble) = unsafe {
        let nibble = byte(block.add(iq2_xs::SCALES_OFF + h / 2)) >> (4 * (h % 2)) & 15;
        (step::<L>(block.add(iq2_xs::D_OFF)), L::half(block.add(iq2_xs::QS_OFF + 2 * (e / 8))), nibble)
    };
    let (row, signs) = iq2_xs::grid_row_and_signs(code as u16);
    let signs = u32::from(signs) >> (e % 8);
    let quads: [u32; K] = core::array::from_fn(|k| grids::IQ2_XS[row % grids::ROWS][(e % 8 / LEN + k) % 2]);
    scaled(d * (0.5 + nibble as f32) * 0.25, |k, j| signed(quads[k], signs >> (LEN * k), j))
}
