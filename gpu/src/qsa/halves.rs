//! Cells as f16 operands of tensor cores, straight from memory to registers.

use cuda_std::{float, global};

use super::HEAD_DIM;
use super::cells::{CellFormat, F16, I8};

/// Values of a row that a warp has, of four.
pub const SLICE: usize = HEAD_DIM / 4;

/// How a lane takes its part of a slice of keys, and f16 pairs of what it has loaded.
pub trait Halves: CellFormat {
    /// Sixteen values of a key: four for each of four steps.
    type Sixteen: Copy + Default;

    /// First of the four neighbouring values of step `s` that lane `t` of a row's four takes.
    fn first(s: usize, t: usize) -> usize;

    /// Lane `t`'s values of the slice that starts at `at`, counted in values.
    ///
    /// # Safety
    /// As [`CellFormat::load8`]; `at` is a multiple of [`SLICE`].
    unsafe fn load16(values: *const u8, at: usize, t: usize) -> Self::Sixteen;

    /// Those of step `s`, exact.
    fn step(sixteen: Self::Sixteen, s: usize) -> [u32; 2];

    /// Eight neighbouring values, exact.
    fn pairs(eight: Self::Eight) -> [u32; 4];
}

impl Halves for F16 {
    type Sixteen = [[u32; 4]; 2];

    #[inline(always)]
    fn first(s: usize, t: usize) -> usize {
        SLICE / 2 * (s / 2) + 8 * t + 4 * (s % 2)
    }

    #[inline(always)]
    unsafe fn load16(values: *const u8, at: usize, t: usize) -> [[u32; 4]; 2] {
        // SAFETY: same contract; 8 t + 7 < SLICE / 2.
        unsafe { [Self::load8(values, at + 8 * t), Self::load8(values, at + SLICE / 2 + 8 * t)] }
    }

    #[inline(always)]
    fn step(sixteen: [[u32; 4]; 2], s: usize) -> [u32; 2] {
        let half = sixteen[s / 2];
        [half[s % 2 * 2], half[s % 2 * 2 + 1]]
    }

    #[inline(always)]
    fn pairs(eight: [u32; 4]) -> [u32; 4] {
        eight
    }
}

impl Halves for I8 {
    type Sixteen = [u32; 4];

    #[inline(always)]
    fn first(s: usize, t: usize) -> usize {
        16 * t + 4 * s
    }

    #[inline(always)]
    unsafe fn load16(values: *const u8, at: usize, t: usize) -> [u32; 4] {
        // SAFETY: same contract; 16 t + 15 < SLICE.
        unsafe { global::load4_nc_ordered(values.add(at + 16 * t).cast::<u32>()) }
    }

    #[inline(always)]
    fn step(sixteen: [u32; 4], s: usize) -> [u32; 2] {
        let n = Self::numbers([sixteen[s], 0]);
        [float::f32x2_to_f16x2(n[0], n[1]), float::f32x2_to_f16x2(n[2], n[3])]
    }

    #[inline(always)]
    fn pairs(eight: [u32; 2]) -> [u32; 4] {
        let n = Self::numbers(eight);
        [0, 2, 4, 6].map(|i| float::f32x2_to_f16x2(n[i], n[i + 1]))
    }
}
