//! Q8_1, the form in which quantized products take activations: 32 codes of 8 bits, their step and their sum.
//!
//! Value e = d * q\[e\]. A vector is a run of blocks without gaps, a matrix a run of vectors; blocks are 4-byte aligned. No
//! file stores it.

/// Values of a block.
pub const VALUES: usize = 32;
/// Bytes of a block.
pub const BYTES: usize = 36;
/// Words of a block.
pub const WORDS: usize = BYTES / 4;
/// f16: the step d.
pub const D_OFF: usize = 0;
/// f16: sum of the 32 values before they were quantized.
pub const S_OFF: usize = 2;
/// i8 `[32]`: the codes, -127..=127.
pub const QS_OFF: usize = 4;

/// Words of a vector of `n` values, a multiple of [`VALUES`].
#[must_use]
pub const fn vector_words(n: usize) -> usize {
    n / VALUES * WORDS
}
