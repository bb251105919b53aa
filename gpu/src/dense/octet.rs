//! Eight neighbouring values of a matrix in blocks: values `8 i .. 8 i + 8` of a block, as `format` defines them.
//!
//! Which format it is, is a parameter of the launch: all threads take the same branch. Products with a scale are exact (see
//! `format`), so no order of multiplication has to be kept.

use cuda_std::{float, global};

use crate::format::{KV_WORDS, grids, iq2_xs, iq3_s, iq4_nl, iq4_xs, q3_k, q4_k, q5_k, q6_k, q8_0};
use crate::mmvq::Format;

/// Values of an octet.
pub const LEN: usize = 8;
/// Octets of a group of 32 values, the shortest block.
pub const OF_A_GROUP: usize = 4;

/// How bytes of a block are read.
pub trait Loads {
    /// The u16 at a multiple of 2.
    ///
    /// # Safety
    /// It is in global memory that nothing writes during the launch.
    unsafe fn half(p: *const u8) -> u32;

    /// Eight bytes at a multiple of 2.
    ///
    /// # Safety
    /// As [`Self::half`].
    unsafe fn eight(p: *const u8) -> [u32; 2];

    /// Eight bytes at a multiple of 8.
    ///
    /// # Safety
    /// As [`Self::half`].
    unsafe fn aligned(p: *const u8) -> [u32; 2];
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
    unsafe fn eight(p: *const u8) -> [u32; 2] {
        // SAFETY: same contract.
        [0, 4].map(|at| unsafe { Self::half(p.add(at)) | Self::half(p.add(at + 2)) << 16 })
    }

    #[inline(always)]
    unsafe fn aligned(p: *const u8) -> [u32; 2] {
        // SAFETY: same contract.
        unsafe { Self::eight(p) }
    }
}

impl Loads for Wide {
    #[inline(always)]
    unsafe fn half(p: *const u8) -> u32 {
        // SAFETY: same contract.
        u32::from(unsafe { global::load_nc(p.cast::<u16>()) })
    }

    #[inline(always)]
    unsafe fn eight(p: *const u8) -> [u32; 2] {
        // SAFETY: same contract.
        [0, 4].map(|at| unsafe { Self::half(p.add(at)) | Self::half(p.add(at + 2)) << 16 })
    }

    #[inline(always)]
    unsafe fn aligned(p: *const u8) -> [u32; 2] {
        // SAFETY: same contract.
        unsafe { global::load2_nc(p.cast()) }
    }
}

/// Octet `at` of a matrix whose blocks start at `w`.
///
/// # Safety
/// The matrix has it, in global memory that nothing writes during the launch; blocks lie at the multiples of bytes that
/// their format says.
#[inline(always)]
pub unsafe fn octet<L: Loads>(format: Format, w: *const u8, at: usize) -> [f32; LEN] {
    let place = |values: usize, bytes: usize| (w.wrapping_add(at / (values / LEN) * bytes), at % (values / LEN));
    macro_rules! of {
        ($format:ident) => {{
            let (block, i) = place($format::VALUES, $format::BYTES);
            // SAFETY: same contract.
            unsafe { $format::<L>(block, i) }
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

/// Byte `j` of eight.
#[inline(always)]
fn of_eight(words: [u32; 2], j: usize) -> u32 {
    words[j / 4] >> (8 * (j % 4)) & 0xff
}

/// `scale * code` for each of eight codes.
#[inline(always)]
fn scaled(scale: f32, code: impl Fn(usize) -> i32) -> [f32; LEN] {
    core::array::from_fn(|j| scale * code(j) as f32)
}

/// Codebook number of a code of four bits.
#[inline(always)]
fn book(code: u32) -> i32 {
    let [a, b, c, d] = KV_WORDS;
    let (low, high) = (if code & 4 == 0 { a } else { b }, if code & 4 == 0 { c } else { d });
    let word = if code & 8 == 0 { low } else { high };
    i32::from((word >> (8 * (code & 3))) as i8)
}

/// `magnitude`, a byte, negative where bit `j` of the signs is set.
#[inline(always)]
fn signed(magnitude: u32, signs: u32, j: usize) -> i32 {
    let magnitude = (magnitude & 0xff).cast_signed();
    if signs >> j & 1 == 1 { -magnitude } else { magnitude }
}

#[inline(always)]
unsafe fn q8_0<L: Loads>(block: *const u8, i: usize) -> [f32; LEN] {
    // SAFETY: i < 4.
    let (d, q) = unsafe { (step::<L>(block.add(q8_0::D_OFF)), L::eight(block.add(q8_0::QS_OFF + 8 * i))) };
    scaled(d, |j| i32::from(of_eight(q, j) as i8))
}

#[inline(always)]
unsafe fn iq4_nl<L: Loads>(block: *const u8, i: usize) -> [f32; LEN] {
    // SAFETY: i < 4, 16 bytes of codes.
    let (d, q) = unsafe { (step::<L>(block.add(iq4_nl::D_OFF)), L::eight(block.add(iq4_nl::QS_OFF + 8 * (i % 2)))) };
    scaled(d, |j| book(of_eight(q, j) >> (4 * (i / 2)) & 15))
}

#[inline(always)]
unsafe fn q3_k<L: Loads>(block: *const u8, i: usize) -> [f32; LEN] {
    let (n, field, s) = (i / 16, i % 16 / 4, i / 2);
    // SAFETY: i < 32: bytes 32 n + 8 (i % 4) + 7 < 64 of the codes, 8 (i % 4) + 7 < 32 of the mask, 12 of the scales.
    let (d, low, mask, of_scale) = unsafe {
        let scales = block.add(q3_k::SCALES_OFF);
        let of_scale =
            byte(scales.add(s % 8)) >> (4 * (s / 8)) & 15 | (byte(scales.add(8 + s % 4)) >> (2 * (s / 4)) & 3) << 4;
        let low = L::eight(block.add(q3_k::QS_OFF + 32 * n + 8 * (i % 4)));
        (step::<L>(block.add(q3_k::D_OFF)), low, L::eight(block.add(q3_k::HMASK_OFF + 8 * (i % 4))), of_scale)
    };
    let scale = d * (of_scale.cast_signed() - i32::from(q3_k::SCALE_BIAS)) as f32;
    scaled(scale, |j| {
        let (low, kept) = (of_eight(low, j) >> (2 * field) & 3, of_eight(mask, j) >> (4 * n + field) & 1);
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

/// `d scale q - dmin min` for eight codes of Q4_K or Q5_K.
///
/// # Safety
/// A block whose two steps and twelve bytes are at the start, as both formats have them; s < 8.
#[inline(always)]
unsafe fn affine<L: Loads>(block: *const u8, s: usize, code: impl Fn(usize) -> u32) -> [f32; LEN] {
    // SAFETY: same contract.
    let (d, dmin, (scale, min)) = unsafe {
        let scale_and_min = scale_and_min(block.add(q4_k::SCALES_OFF), s);
        (step::<L>(block.add(q4_k::D_OFF)), step::<L>(block.add(q4_k::DMIN_OFF)), scale_and_min)
    };
    let (scale, min) = (d * scale as f32, dmin * min as f32);
    core::array::from_fn(|j| scale * code(j) as f32 - min)
}
const _: () = assert!(q4_k::SCALES_OFF == q5_k::SCALES_OFF && q4_k::D_OFF == q5_k::D_OFF);
const _: () = assert!(q4_k::DMIN_OFF == q5_k::DMIN_OFF);

#[inline(always)]
unsafe fn q4_k<L: Loads>(block: *const u8, i: usize) -> [f32; LEN] {
    let s = i / 4;
    // SAFETY: i < 32: 32 (s / 2) + 8 (i % 4) + 7 < 128.
    let q = unsafe { L::aligned(block.add(q4_k::QS_OFF + 32 * (s / 2) + 8 * (i % 4))) };
    // SAFETY: the formats' headers are alike.
    unsafe { affine::<L>(block, s, |j| of_eight(q, j) >> (4 * (s % 2)) & 15) }
}

#[inline(always)]
unsafe fn q5_k<L: Loads>(block: *const u8, i: usize) -> [f32; LEN] {
    let (s, t) = (i / 4, 8 * (i % 4));
    // SAFETY: i < 32: 32 (s / 2) + t + 7 < 128, t + 7 < 32.
    let (q, high) =
        unsafe { (L::aligned(block.add(q5_k::QS_OFF + 32 * (s / 2) + t)), L::aligned(block.add(q5_k::QH_OFF + t))) };
    let code = |j: usize| of_eight(q, j) >> (4 * (s % 2)) & 15 | (of_eight(high, j) >> s & 1) << 4;
    // SAFETY: the formats' headers are alike.
    unsafe { affine::<L>(block, s, code) }
}

#[inline(always)]
unsafe fn q6_k<L: Loads>(block: *const u8, i: usize) -> [f32; LEN] {
    let (n, u, t) = (i / 16, i % 16 / 4, 8 * (i % 4));
    // SAFETY: i < 32: 64 n + 32 (u % 2) + t + 7 < 128, 32 n + t + 7 < 64, 16 scales.
    let (d, low, high, scale) = unsafe {
        (
            step::<L>(block.add(q6_k::D_OFF)),
            L::eight(block.add(q6_k::QL_OFF + 64 * n + 32 * (u % 2) + t)),
            L::eight(block.add(q6_k::QH_OFF + 32 * n + t)),
            byte(block.add(q6_k::SCALES_OFF + i / 2)) as i8,
        )
    };
    scaled(d * f32::from(scale), |j| {
        let code = of_eight(low, j) >> (4 * (u / 2)) & 15 | (of_eight(high, j) >> (2 * u) & 3) << 4;
        code.cast_signed() - i32::from(q6_k::CODE_BIAS)
    })
}

#[inline(always)]
unsafe fn iq4_xs<L: Loads>(block: *const u8, i: usize) -> [f32; LEN] {
    let s = i / 4;
    // SAFETY: i < 32: 16 s + 8 (i % 2) + 7 < 128, four bytes of low scales, two of high ones.
    let (d, q, of_scale) = unsafe {
        let low = byte(block.add(iq4_xs::SCALES_L_OFF + s / 2)) >> (4 * (s % 2)) & 15;
        let high = L::half(block.add(iq4_xs::SCALES_H_OFF)) >> (2 * s) & 3;
        let q = L::aligned(block.add(iq4_xs::QS_OFF + 16 * s + 8 * (i % 2)));
        (step::<L>(block.add(iq4_xs::D_OFF)), q, low | high << 4)
    };
    let scale = d * (of_scale.cast_signed() - i32::from(iq4_xs::SCALE_BIAS)) as f32;
    scaled(scale, |j| book(of_eight(q, j) >> (4 * (i % 4 / 2)) & 15))
}

#[inline(always)]
unsafe fn iq3_s<L: Loads>(block: *const u8, i: usize) -> [f32; LEN] {
    let s = i / 4;
    // SAFETY: i < 32: two of 64 code bytes, one of 8 high ones, of 32 of signs, of 4 of scales.
    let (d, low, high, signs, nibble) = unsafe {
        (
            step::<L>(block.add(iq3_s::D_OFF)),
            L::half(block.add(iq3_s::QS_OFF + 2 * i)),
            byte(block.add(iq3_s::QH_OFF + s)) >> (2 * (i % 4)),
            byte(block.add(iq3_s::SIGNS_OFF + i)),
            byte(block.add(iq3_s::SCALES_OFF + s / 2)) >> (4 * (s % 2)) & 15,
        )
    };
    let rows = [0, 1].map(|k| (low >> (8 * k) & 0xff | (high >> k & 1) << 8) as usize);
    let quads = rows.map(|row| grids::IQ3_S[row % grids::ROWS]);
    scaled(d * (1 + 2 * nibble) as f32, |j| signed(quads[j / 4] >> (8 * (j % 4)), signs, j))
}

#[inline(always)]
unsafe fn iq2_xs<L: Loads>(block: *const u8, i: usize) -> [f32; LEN] {
    let h = i / 2;
    // SAFETY: i < 32: one of 32 codes of two bytes, of 8 bytes of scales.
    let (d, code, nibble) = unsafe {
        let nibble = byte(block.add(iq2_xs::SCALES_OFF + h / 2)) >> (4 * (h % 2)) & 15;
        (step::<L>(block.add(iq2_xs::D_OFF)), L::half(block.add(iq2_xs::QS_OFF + 2 * i)), nibble)
    };
    let (row, signs) = iq2_xs::grid_row_and_signs(code as u16);
    let octet = grids::IQ2_XS[row % grids::ROWS];
    let scale = d * (0.5 + nibble as f32) * 0.25;
    scaled(scale, |j| signed(octet[j / 4] >> (8 * (j % 4)), u32::from(signs), j))
}
