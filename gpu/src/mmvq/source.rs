//! Where a call's activations come from: Q8_1 vectors one by one, or the interleaved copy of all of them.

use cuda_std::{float, global, int};

use crate::format::il::{BLOCK_SUMS, CODE_WORDS, Part};
use crate::format::q8_1;

/// Activations of `T` columns. Blocks are numbered from the start of a column.
pub trait Source<const T: usize> {
    /// Word `p` of block `b`, where neighbouring lanes ask for neighbouring words of a block.
    ///
    /// # Safety
    /// The columns have the block; `p < 8`.
    unsafe fn word(&self, b: usize, p: usize) -> [i32; T];

    /// The same word, where neighbouring lanes ask for the same word of neighbouring blocks.
    ///
    /// # Safety
    /// As [`Self::word`].
    unsafe fn far_word(&self, b: usize, p: usize) -> [i32; T];

    /// The steps of block `b`.
    ///
    /// # Safety
    /// The columns have the block.
    unsafe fn step(&self, b: usize) -> [f32; T];

    /// The steps of block `b` times the sums of the codes of words `p` and `p + 4`; `u` are those words.
    ///
    /// # Safety
    /// The columns have the block; `p < 4`.
    unsafe fn sum(&self, b: usize, p: usize, u: [[i32; T]; 2]) -> [f32; T];
}

/// Q8_1 vectors. Where there are fewer than `T` the last one stands in for those that are not there.
#[derive(Clone, Copy)]
pub struct Vectors<const T: usize> {
    columns: [*const u8; T],
}

impl<const T: usize> Vectors<T> {
    /// `T` vectors of `n` values from vector `first` on, of `columns`, at least one.
    ///
    /// # Safety
    /// They are in global memory that nothing writes during the launch.
    #[inline(always)]
    pub unsafe fn new(q8: *const u32, n: usize, columns: usize, first: usize) -> Self {
        let column = |c: usize| q8.wrapping_add((first + c).min(columns - 1) * q8_1::vector_words(n)).cast();
        Self { columns: core::array::from_fn(column) }
    }
}

impl<const T: usize> Source<T> for Vectors<T> {
    #[inline(always)]
    unsafe fn word(&self, b: usize, p: usize) -> [i32; T] {
        // SAFETY: within the block, 4-byte aligned.
        self.columns.map(|column| unsafe { global::load_nc(column.add(b * q8_1::BYTES + q8_1::QS_OFF + 4 * p).cast()) })
    }

    #[inline(always)]
    unsafe fn far_word(&self, b: usize, p: usize) -> [i32; T] {
        // SAFETY: same contract.
        unsafe { self.word(b, p) }
    }

    #[inline(always)]
    unsafe fn step(&self, b: usize) -> [f32; T] {
        // SAFETY: within the block, 4-byte aligned.
        let half = |column: *const u8| unsafe { global::load_nc(column.add(b * q8_1::BYTES + q8_1::D_OFF).cast()) };
        self.columns.map(|column| float::f16_to_f32(half(column)))
    }

    #[inline(always)]
    unsafe fn sum(&self, b: usize, _p: usize, u: [[i32; T]; 2]) -> [f32; T] {
        // SAFETY: same contract.
        let d = unsafe { self.step(b) };
        core::array::from_fn(|c| d[c] * code_sum(u[0][c], u[1][c]) as f32)
    }
}

/// Sum of the eight codes of two words.
#[inline(always)]
#[must_use]
pub fn code_sum(a: i32, b: i32) -> i32 {
    int::dp4a(a, 0x0101_0101, int::dp4a(b, 0x0101_0101, 0))
}

/// `T` neighbouring columns of the interleaved copy.
#[derive(Clone, Copy)]
pub struct Interleaved<const T: usize> {
    il: *const u32,
    nb: usize,
    room: usize,
    first: usize,
}

impl<const T: usize> Interleaved<T> {
    /// Of vectors of `n` values, of which the copy has room for `room`, a multiple of `T`, from vector `first` on, another.
    ///
    /// # Safety
    /// The copy is in global memory that nothing writes during the launch, 16-byte aligned.
    #[inline(always)]
    pub unsafe fn new(il: *const u32, n: usize, room: usize, first: usize) -> Self {
        Self { il, nb: n / q8_1::VALUES, room, first }
    }

    /// Element `at` of a part, for all columns.
    ///
    /// # Safety
    /// The part has it.
    #[inline(always)]
    unsafe fn columns<W: global::Word32>(&self, part: Part, at: usize) -> [W; T] {
        let mut all = [W::from_u32(0); T];
        // SAFETY: by contract within the copy; parts and elements are multiples of the vectors' bytes.
        unsafe {
            let p = self.il.add(part.start(self.nb, self.room) + at * self.room + self.first).cast::<W>();
            match T {
                1 => all[0] = global::load_nc(p),
                2 => {
                    let pair = global::load2_nc(p);
                    for c in 0..T {
                        all[c] = pair[c % 2];
                    }
                }
                _ => {
                    for quad in 0..T / 4 {
                        let four = global::load4_nc(p.add(4 * quad));
                        for c in 0..4 {
                            all[4 * quad + c] = four[c];
                        }
                    }
                }
            }
        }
        all
    }
}

impl<const T: usize> Source<T> for Interleaved<T> {
    #[inline(always)]
    unsafe fn word(&self, b: usize, p: usize) -> [i32; T] {
        // SAFETY: same contract.
        unsafe { self.columns(Part::BlockMajor, CODE_WORDS * b + p) }
    }

    #[inline(always)]
    unsafe fn far_word(&self, b: usize, p: usize) -> [i32; T] {
        // SAFETY: same contract.
        unsafe { self.columns(Part::WordMajor, p * self.nb + b) }
    }

    #[inline(always)]
    unsafe fn step(&self, b: usize) -> [f32; T] {
        // SAFETY: same contract.
        unsafe { self.columns(Part::Steps, b) }
    }

    #[inline(always)]
    unsafe fn sum(&self, b: usize, p: usize, _u: [[i32; T]; 2]) -> [f32; T] {
        // SAFETY: same contract.
        unsafe { self.columns(Part::Sums, BLOCK_SUMS * b + p) }
    }
}
