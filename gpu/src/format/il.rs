//! The interleaved copy of Q8_1 vectors: one vector load gives the same four codes of every column.
//!
//! With `nb` blocks a column and room for `cp` columns (a power of two), in words, one part behind the other:
//!
//! | part | element | at |
//! |---|---|---|
//! | [`Part::BlockMajor`] | i32: word p of block b, column c: its codes 4 p .. 4 p + 3 | `(8 b + p) cp + c` |
//! | [`Part::WordMajor`] | the same words | `(p nb + b) cp + c` |
//! | [`Part::Steps`] | f32: the block's d, from f16 | `b cp + c` |
//! | [`Part::Sums`] | f32: d times the sum of the codes of words p and p + 4, p < 4 | `(4 b + p) cp + c` |
//!
//! A sum of eight codes has at most 10 bits and a sign, d has 11: their product is exact. Columns that no vector fills are
//! zero. Lanes that read neighbouring words of a block take the block-major words, lanes that read the same word of
//! neighbouring blocks the word-major ones.

/// Words of codes in a block.
pub const CODE_WORDS: usize = 8;
/// Sums of a block.
pub const BLOCK_SUMS: usize = 4;
/// Most columns.
pub const MAX_COLUMNS: usize = 8;

/// A part of the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Codes, words of a block together.
    BlockMajor,
    /// Codes, words of the same position together.
    WordMajor,
    /// Steps.
    Steps,
    /// Steps times sums of codes.
    Sums,
}

impl Part {
    /// First word of the part.
    #[inline(always)]
    #[must_use]
    pub const fn start(self, nb: usize, cp: usize) -> usize {
        nb * cp
            * match self {
                Self::BlockMajor => 0,
                Self::WordMajor => CODE_WORDS,
                Self::Steps => 2 * CODE_WORDS,
                Self::Sums => 2 * CODE_WORDS + 1,
            }
    }
}

/// Room for `columns` vectors, 1 ..= [`MAX_COLUMNS`].
#[must_use]
pub const fn padded(columns: usize) -> usize {
    columns.next_power_of_two()
}

/// Words of a copy of `columns` vectors of `n` values.
#[must_use]
pub const fn words(n: usize, columns: usize) -> usize {
    n / super::q8_1::VALUES * padded(columns) * (2 * CODE_WORDS + 1 + BLOCK_SUMS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_and_stay_aligned() {
        for cp in [1, 2, 4, 8] {
            for nb in [1, 2, 80, 192] {
                let starts =
                    [Part::BlockMajor, Part::WordMajor, Part::Steps, Part::Sums].map(|part| part.start(nb, cp));
                assert_eq!(starts, [0, 8, 16, 17].map(|words| words * nb * cp));
                assert!(starts.iter().all(|start| start % cp.min(4) == 0), "a vector load of {cp} columns");
                assert_eq!(words(32 * nb, cp), starts[3] + 4 * nb * cp);
            }
        }
        assert_eq!([1, 2, 3, 4, 5, 7, 8].map(padded), [1, 2, 4, 4, 8, 8, 8]);
    }
}
