//! A lane's work on one block: which words it loads, the integers they stand for, and what those add to a sum.
//!
//! A format cuts its blocks into `LPB` calls, one for each lane of the group that covers a block. Integer dots are exact
//! in 32 bits, whatever their order; the float steps of a call, which every kernel of the family shares, are
//!
//! ```text
//! Q8_0, IQ4_NL, IQ4_XS, IQ3_S, IQ2_XS   a = fma(d_w d, F(n), a)
//! Q6_K, Q3_K                            t = d_0 F(n_0); t = fma(d_i, F(n_i), t), i ascending; a = fma(d_w, t, a)
//! Q4_K, Q5_K                            t = fma(d_1, F(n_1), d_0 F(n_0));  z = fma(e_1, F(m_1), e_0 F(m_0))
//!                                       a = a + fma(d_w, t, -(dmin z))
//! ```
//!
//! with n the dot times its scale, F the exact conversion, d the activation block's step, m the minimum of a sub-block,
//! e_i = d_i times the sum of the codes (`format::il`). e_i is exact, so e_i F(m_i) rounds once, as d_i F(sum m_i) does.
//!
//! The exact conversion has two forms. A number below 2^22 added to the bits of 1.5 * 2^23 *is* the float that much above
//! it: dots start there ([`start`]), and one float operation takes it away again ([`Scaled`]). docs/src/exactness.md has
//! the bounds. Zeros of either sign may come of it: sums start at +0 and never become -0, so they do not show.

pub use super::kquants::{Q3K, Q4K, Q5K, Q6K};
pub use super::lookups::{Iq2Xs, Iq3S, Iq4Nl, Iq4Xs};
pub use super::simple::Q8Zero;

use super::Format;
use super::source::Source;
use cuda_std::{float, global};

/// How a block of a 2-byte aligned format lies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// At a multiple of 2.
    Two,
    /// At a multiple of 4.
    Four,
}

/// What a format does for one lane and one block.
pub trait Call {
    /// Name.
    const FORMAT: Format;
    /// Values of a block.
    const VALUES: usize;
    /// Bytes of a block.
    const BYTES: usize;
    /// Lanes of a block.
    const LPB: usize;
    /// Slots of a lane: 4 or 1.
    const SLOTS: usize = 4;
    /// Blocks of a chunk.
    const SUB: usize = 32 / Self::LPB;
    /// Words as they come from memory: nothing is computed before all loads of a group have been issued.
    type Raw: Copy + Default;
    /// The integers of a call.
    type Weights: Copy;
    /// What a call needs of `T` columns.
    type Acts<const T: usize>: Copy;

    /// How the blocks of chunk `v` of a group lie, where rows are an even number of them.
    #[inline(always)]
    #[must_use]
    fn lies(_v: usize) -> Align {
        Align::Two
    }

    /// Loads what call `q` of a block needs; `ORDERED` loads are issued in the order of the source. The block is `off` bytes
    /// behind `block`: where that is known when compiling it is added last, so that it becomes part of the instruction.
    ///
    /// # Safety
    /// There is a block of the format in global memory that nothing writes, aligned as the format's rows are and as `at`
    /// says; `q < LPB`.
    unsafe fn load<const ORDERED: bool>(block: *const u8, off: usize, q: usize, at: Align) -> Self::Raw;

    /// The integers of call `q`; `at` as for [`Self::load`].
    fn decode(raw: &Self::Raw, q: usize, at: Align) -> Self::Weights;

    /// Activations of call `q` of block `block`.
    ///
    /// # Safety
    /// The source has the block.
    unsafe fn gather<S: Source<T>, const T: usize>(x: &S, block: usize, q: usize) -> Self::Acts<T>;

    /// Adds the call to the sums of the columns.
    fn apply<const T: usize, const FORM: u8>(w: &Self::Weights, x: &Self::Acts<T>, a: &mut [f32; T]);
}

/// Activations: `U` words of codes, `D` steps, `M` steps times sums, each for `T` columns.
#[derive(Clone, Copy)]
pub struct Acts<const U: usize, const D: usize, const M: usize, const T: usize> {
    /// Words.
    pub u: [[i32; T]; U],
    /// Steps.
    pub d: [[f32; T]; D],
    /// Steps times sums.
    pub e: [[f32; T]; M],
}

/// 1.5 * 2^23: between 2^23 and 2^24 the spacing of floats is 1.
const ANCHOR: f32 = 12_582_912.0;
const ANCHOR_BITS: i32 = 0x4B40_0000;

/// Form of the exact conversion: by the instruction.
pub const CONVERT: u8 = 0;
/// By the anchor, of the dot times its scale.
pub const ANCHORED: u8 = 1;
/// By the anchor, of the dot: the scale, itself a float, joins in the operation that takes the anchor away.
pub const FOLDED: u8 = 2;

/// The form that pays for so many columns: scales are made floats once for all of them.
#[must_use]
pub const fn form(columns: usize) -> u8 {
    if columns >= 3 { FOLDED } else { ANCHORED }
}

/// What a dot that [`Scaled::of`] takes starts with.
#[inline(always)]
#[must_use]
pub const fn start<const FORM: u8>() -> i32 {
    if FORM == FOLDED { ANCHOR_BITS } else { 0 }
}

/// An integer scale of a dot, in the forms that [`Self::of`] uses.
#[derive(Clone, Copy)]
pub struct Scaled {
    int: i32,
    float: f32,
    anchor: f32,
}

impl Scaled {
    /// Of `int`, below 256 in magnitude.
    #[inline(always)]
    #[must_use]
    pub fn new(int: i32) -> Self {
        let float = to_float::<ANCHORED>(int);
        Self { int, float, anchor: -ANCHOR * float }
    }

    /// `F(n)` of the dot times the scale, below 2^22 in magnitude; the dot counts from [`start`].
    #[inline(always)]
    #[must_use]
    pub fn of<const FORM: u8>(self, dot: i32) -> f32 {
        if FORM == FOLDED {
            // (anchor + dot) scale - anchor scale, rounded once: it is an integer below 2^24.
            float::fma(f32::from_bits(dot.cast_unsigned()), self.float, self.anchor)
        } else {
            to_float::<FORM>(dot.wrapping_mul(self.int))
        }
    }

    /// [`Self::of`] for a product that may reach 2^24, of a dot below 2^22.
    #[inline(always)]
    #[must_use]
    pub fn of_wide<const FORM: u8>(self, dot: i32) -> f32 {
        if FORM == ANCHORED { to_float::<FORM>(dot) * self.float } else { self.of::<FORM>(dot) }
    }
}

/// `F(n)`, for |n| <= 2^22 unless the form is [`CONVERT`].
#[inline(always)]
#[must_use]
pub fn to_float<const FORM: u8>(n: i32) -> f32 {
    if FORM == CONVERT { n as f32 } else { f32::from_bits(n.wrapping_add(ANCHOR_BITS).cast_unsigned()) - ANCHOR }
}

/// Per byte `x - 32` for bytes of 0 to 63: `x + 0x60` stays below 0x100, and flipping the top bit adds 0x80 more.
#[inline(always)]
#[must_use]
pub const fn minus_32(x: u32) -> u32 {
    x.wrapping_add(0x6060_6060) ^ 0x8080_8080
}

/// Per byte `x - 4` for bytes of 0 to 7, as [`minus_32`].
#[inline(always)]
#[must_use]
pub const fn minus_4(x: u32) -> u32 {
    x.wrapping_add(0x7C7C_7C7C) ^ 0x8080_8080
}

/// Loads one scalar.
///
/// # Safety
/// As [`global::load_nc`].
#[inline(always)]
pub unsafe fn load<const ORDERED: bool, T: global::Word>(p: *const T) -> T {
    // SAFETY: same contract.
    unsafe { if ORDERED { global::load_nc_ordered(p) } else { global::load_nc(p) } }
}

/// Loads two words.
///
/// # Safety
/// As [`global::load2_nc`].
#[inline(always)]
pub unsafe fn load2<const ORDERED: bool>(p: *const u8) -> [u32; 2] {
    // SAFETY: same contract.
    unsafe { if ORDERED { global::load2_nc_ordered(p.cast()) } else { global::load2_nc(p.cast()) } }
}

/// Loads four words.
///
/// # Safety
/// As [`global::load4_nc`].
#[inline(always)]
pub unsafe fn load4<const ORDERED: bool>(p: *const u8) -> [u32; 4] {
    // SAFETY: same contract.
    unsafe { if ORDERED { global::load4_nc_ordered(p.cast()) } else { global::load4_nc(p.cast()) } }
}

/// A word as it was loaded: whole, or its halves apart, which [`Self::whole`] joins.
#[derive(Clone, Copy, Default)]
pub struct RawWord {
    low: u32,
    high: u16,
}

impl RawWord {
    /// Loads four bytes.
    ///
    /// # Safety
    /// They are in global memory that nothing writes; `p` is aligned as `at` says.
    #[inline(always)]
    pub unsafe fn load<const ORDERED: bool>(p: *const u8, at: Align) -> Self {
        // SAFETY: same contract.
        unsafe {
            match at {
                Align::Four => Self { low: load::<ORDERED, u32>(p.cast()), high: 0 },
                Align::Two => {
                    Self { low: u32::from(load::<ORDERED, u16>(p.cast())), high: load::<ORDERED, u16>(p.add(2).cast()) }
                }
            }
        }
    }

    /// The word; `at` as for [`Self::load`].
    #[inline(always)]
    #[must_use]
    pub fn whole(self, at: Align) -> u32 {
        match at {
            Align::Four => self.low,
            Align::Two => self.low | u32::from(self.high) << 16,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_lose_32_or_4_without_a_carry() {
        for x in 0..64u32 {
            for (byte, other) in (0..4).flat_map(|byte| [0, 17, 63].map(|other| (byte, other))) {
                let word = (0..4).fold(0, |word, i| word | (if i == byte { x } else { other }) << (8 * i));
                let want = word.to_le_bytes().map(|b| b.wrapping_sub(32));
                assert_eq!(minus_32(word).to_le_bytes(), want);
                let word = word & 0x0707_0707;
                assert_eq!(minus_4(word).to_le_bytes(), word.to_le_bytes().map(|b| b.wrapping_sub(4)));
            }
        }
    }

    #[test]
    fn the_anchor_converts_as_the_instruction_does() {
        for n in -(1 << 22)..=1 << 22 {
            assert_eq!(to_float::<ANCHORED>(n).to_bits(), (n as f32).to_bits(), "{n}");
        }
        assert_ne!(to_float::<ANCHORED>(-(1 << 22) - 1), ((-(1 << 22) - 1) as f32), "the bound is sharp");
    }

    /// Equal numbers; zeros may differ in sign.
    fn forms_agree(scale: i32, dots: impl Iterator<Item = i32>) {
        let scaled = Scaled::new(scale);
        for dot in dots {
            let want = (dot * scale) as f32;
            let folded = scaled.of::<FOLDED>(dot + start::<FOLDED>());
            assert!(folded == want && scaled.of_wide::<ANCHORED>(dot) == want, "{dot} {scale}");
            assert!(want.abs() > 4_194_304.0 || scaled.of::<ANCHORED>(dot) == want, "{dot} {scale}");
            assert_eq!(scaled.of::<CONVERT>(dot).to_bits(), want.to_bits());
        }
    }

    /// The bounds of every format: dots of codes with activations of up to 128, times scales.
    #[test]
    fn every_form_of_a_scaled_dot_is_exact() {
        for scale in -128..=127 {
            forms_agree(scale, -16_384..=16_384); // Q6_K, and Q3_K within it
        }
        for scale in 0..64 {
            forms_agree(scale, (-31_744..=31_744).step_by(3)); // Q5_K, and Q4_K within it
        }
        for scale in -32..32 {
            forms_agree(scale, (-520_192..=520_192).step_by(7).chain([520_192])); // IQ4_XS
        }
        for scale in (1..32).step_by(2) {
            forms_agree(scale, -61_440..=61_440); // IQ3_S
        }
    }

    #[test]
    fn a_step_times_a_sum_is_exact() {
        for bits in 0..0x7c00u16 {
            let d = float::f16_to_f32(bits);
            for sum in [-1024, -1023, -7, 0, 1, 513, 1023, 1024] {
                assert_eq!(f64::from(d * sum as f32), f64::from(d) * f64::from(sum));
                for min in [0, 1, 37, 63] {
                    assert_eq!((d * sum as f32) * min as f32, d * (sum * min) as f32, "{d} {sum} {min}");
                }
            }
        }
    }
}
