//! Cells in memory: pages of rows, the table that leads to them, the formats of their values.
//!
//! A row is the key or the value of one cell and one key head, [`HEAD_DIM`] values. Rows lie as `[page][kv head][RATIO]`; the
//! table gives the page of a block of cells. Whatever the table says, nothing outside the pages is touched.

use cuda_std::{float, global, int, shared, warp};

use super::{HEAD_DIM, RATIO};

/// Values of a row of [`I8`] that share a scale.
pub const GROUP: usize = 64;
/// Scales of a row of [`I8`].
pub const SCALES: usize = HEAD_DIM / GROUP;
/// In the place of a row's number: the cell is not in memory.
pub const NO_ROW: u32 = u32::MAX;

/// Where the pages of blocks are.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Pages {
    /// u32 `[blocks]`: page of a block of cells; [`NO_PAGE`](super::NO_PAGE), or any number from `pages` on: not in memory.
    pub table: *const u32,
    /// Blocks of the table.
    pub blocks: u32,
    /// Pages in memory, at least 1; all their rows are fewer than [`NO_ROW`].
    pub pages: u32,
    /// Key heads.
    pub kv_heads: u32,
    /// Not read; keeps the struct free of padding.
    pub reserved: u32,
}

/// Rows to read.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    /// `[pages][kv_heads][RATIO][HEAD_DIM]` of f32, f16 or i8, 16-byte aligned.
    pub values: *const u8,
    /// f16 `[pages][kv_heads][RATIO][SCALES]` of i8 rows, else null.
    pub scales: *const u16,
}

/// Rows to write, as [`Rows`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RowsMut {
    /// See [`Rows::values`].
    pub values: *mut u8,
    /// See [`Rows::scales`].
    pub scales: *mut u16,
}

impl Pages {
    /// Row of a cell for a key head; [`NO_ROW`] where it is not in memory.
    ///
    /// # Safety
    /// `table` holds `blocks` pages, which nothing writes during the launch.
    #[inline(always)]
    pub unsafe fn row(&self, cell: u32, head: u32) -> u32 {
        let block = cell / RATIO as u32;
        if block >= self.blocks {
            return NO_ROW;
        }
        // SAFETY: the block is in the table.
        let page = unsafe { global::load_nc(self.table.add(block as usize)) };
        if page >= self.pages {
            return NO_ROW;
        }
        (page * self.kv_heads + head) * RATIO as u32 + cell % RATIO as u32
    }
}

/// The row itself, or the first one in the place of one that is not in memory: reading it does no harm.
#[inline(always)]
pub const fn readable(row: u32) -> usize {
    if row == NO_ROW { 0 } else { row as usize }
}

/// The rows of a chunk's values as the last phase of `qsa.attend/chunk` reads them.
#[derive(Clone, Copy)]
pub struct ChunkRows {
    /// Shared memory: rows of a staged format.
    pub staged: *const u8,
    /// Shared memory: f32 `[cells][SCALES]` of a format with scales.
    pub scales: *const f32,
    /// Shared memory: u32 `[cells]`, the rows.
    pub rows: *const u32,
    /// Global memory: all rows.
    pub values: *const u8,
}

/// A format of stored rows.
pub trait CellFormat {
    /// Bytes of a row's values.
    const ROW_BYTES: usize;
    /// Whether a scale belongs to each [`GROUP`] of values.
    const SCALED: bool;
    /// Whether `qsa.attend/chunk` keeps the values of its cells in shared memory.
    const STAGED: bool;
    /// Eight neighbouring values as they are stored.
    type Eight: Copy + Default;
    /// Four neighbouring values of a chunk's cell with what belongs to them.
    type Four: Copy + Default;

    /// Values `at .. at + 8` of all rows, counted in values; such loads are issued in order.
    ///
    /// # Safety
    /// They are initialised, nothing writes them during the launch; `at` is a multiple of 8.
    unsafe fn load8(values: *const u8, at: usize) -> Self::Eight;

    /// As [`load8`](Self::load8), not behind a barrier that follows: ptxas moves loads through the read-only cache to where
    /// they are used, across barriers too.
    ///
    /// # Safety
    /// As [`load8`](Self::load8).
    unsafe fn load8_here(values: *const u8, at: usize) -> Self::Eight;

    /// As numbers, exact, before their scale.
    fn numbers(eight: Self::Eight) -> [f32; 8];

    /// Values `d .. d + 4` of cell `j` of a chunk.
    ///
    /// # Safety
    /// The chunk has been staged, with a barrier since; `d` is a multiple of 4.
    unsafe fn load4(chunk: &ChunkRows, j: usize, d: usize) -> Self::Four;

    /// As numbers, with their scale; 0 of a cell that is not in memory.
    fn values(four: Self::Four) -> [f32; 4];

    /// Writes values `8 lane .. 8 lane + 8` of a row.
    ///
    /// # Safety
    /// `row` is in memory and only this warp's; all its lanes call this together.
    unsafe fn store8(rows: RowsMut, row: u32, lane: u32, x: [f32; 8]);
}

/// IEEE single, for runs that are held to an oracle.
pub struct F32;
/// IEEE half, to nearest even.
pub struct F16;
/// Codes from -127 to 127 with an f16 scale for each [`GROUP`] of values: S = f16(max |x| / 127), code = rint(x / S), 0
/// where S is 0.
pub struct I8;

impl CellFormat for F32 {
    const ROW_BYTES: usize = 4 * HEAD_DIM;
    const SCALED: bool = false;
    const STAGED: bool = false; // 64 KiB a chunk are more than some cards have
    type Eight = [[f32; 4]; 2];
    type Four = [f32; 4];

    #[inline(always)]
    unsafe fn load8(values: *const u8, at: usize) -> [[f32; 4]; 2] {
        let p = values.cast::<f32>();
        // SAFETY: same contract.
        unsafe { [global::load4_nc_ordered(p.add(at)), global::load4_nc_ordered(p.add(at + 4))] }
    }

    #[inline(always)]
    unsafe fn load8_here(values: *const u8, at: usize) -> [[f32; 4]; 2] {
        let p = values.cast::<f32>();
        // SAFETY: same contract.
        unsafe { [global::load4(p.add(at)), global::load4(p.add(at + 4))] }
    }

    #[inline(always)]
    fn numbers([a, b]: [[f32; 4]; 2]) -> [f32; 8] {
        [a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]]
    }

    #[inline(always)]
    unsafe fn load4(chunk: &ChunkRows, j: usize, d: usize) -> [f32; 4] {
        // SAFETY: the row is in memory, or there is none and the first one is read.
        unsafe {
            let row = shared::load(chunk.rows.add(j));
            let values = global::load4_nc(chunk.values.cast::<f32>().add(readable(row) * HEAD_DIM + d));
            if row == NO_ROW { [0.0; 4] } else { values }
        }
    }

    #[inline(always)]
    fn values(four: [f32; 4]) -> [f32; 4] {
        four
    }

    #[inline(always)]
    unsafe fn store8(rows: RowsMut, row: u32, lane: u32, x: [f32; 8]) {
        // SAFETY: 8 lane + 7 < HEAD_DIM, the row is in memory; multiples of 4 values.
        unsafe {
            let to = rows.values.cast::<f32>().add(row as usize * HEAD_DIM + 8 * lane as usize);
            global::store4(to, [x[0], x[1], x[2], x[3]]);
            global::store4(to.add(4), [x[4], x[5], x[6], x[7]]);
        }
    }
}

impl CellFormat for F16 {
    const ROW_BYTES: usize = 2 * HEAD_DIM;
    const SCALED: bool = false;
    const STAGED: bool = true;
    type Eight = [u32; 4];
    type Four = [u32; 2];

    #[inline(always)]
    unsafe fn load8(values: *const u8, at: usize) -> [u32; 4] {
        // SAFETY: same contract.
        unsafe { global::load4_nc_ordered(values.add(2 * at).cast::<u32>()) }
    }

    #[inline(always)]
    unsafe fn load8_here(values: *const u8, at: usize) -> [u32; 4] {
        // SAFETY: same contract.
        unsafe { global::load4(values.add(2 * at).cast::<u32>()) }
    }

    #[inline(always)]
    fn numbers(eight: [u32; 4]) -> [f32; 8] {
        let [[a, b], [c, d], [e, f], [g, h]] = eight.map(float::f16x2_to_f32x2);
        [a, b, c, d, e, f, g, h]
    }

    #[inline(always)]
    unsafe fn load4(chunk: &ChunkRows, j: usize, d: usize) -> [u32; 2] {
        // SAFETY: cell j's row is staged.
        unsafe { shared::load2(chunk.staged.add(2 * (j * HEAD_DIM + d)).cast::<u32>()) }
    }

    #[inline(always)]
    fn values(four: [u32; 2]) -> [f32; 4] {
        let [[a, b], [c, d]] = four.map(float::f16x2_to_f32x2);
        [a, b, c, d]
    }

    #[inline(always)]
    unsafe fn store8(rows: RowsMut, row: u32, lane: u32, x: [f32; 8]) {
        let pairs = [0, 2, 4, 6].map(|i| float::f32x2_to_f16x2(x[i], x[i + 1]));
        // SAFETY: 8 lane + 7 < HEAD_DIM, the row is in memory; multiples of 8 values.
        unsafe {
            let to = rows.values.cast::<u16>().add(row as usize * HEAD_DIM + 8 * lane as usize);
            global::store4(to.cast::<u32>(), pairs);
        }
    }
}

impl CellFormat for I8 {
    const ROW_BYTES: usize = HEAD_DIM;
    const SCALED: bool = true;
    const STAGED: bool = true;
    type Eight = [u32; 2];
    /// Codes and their scale.
    type Four = (u32, f32);

    #[inline(always)]
    unsafe fn load8(values: *const u8, at: usize) -> [u32; 2] {
        // SAFETY: same contract.
        unsafe { global::load2_nc_ordered(values.add(at).cast::<u32>()) }
    }

    #[inline(always)]
    unsafe fn load8_here(values: *const u8, at: usize) -> [u32; 2] {
        // SAFETY: same contract.
        unsafe { global::load2(values.add(at).cast::<u32>()) }
    }

    #[inline(always)]
    fn numbers(eight: [u32; 2]) -> [f32; 8] {
        // A code plus 128 as the lowest byte of 2^23, whose bits are 0x4b000000: one permutation and one exact difference.
        let biased = eight.map(|word| word ^ 0x8080_8080);
        let number = |i: u32| {
            let bits = int::prmt(biased[i as usize / 4], 0x4b00_0000, 0x7440 + i % 4);
            f32::from_bits(bits) - 8_388_736.0
        };
        [0, 1, 2, 3, 4, 5, 6, 7].map(number)
    }

    #[inline(always)]
    unsafe fn load4(chunk: &ChunkRows, j: usize, d: usize) -> (u32, f32) {
        // SAFETY: cell j's row is staged, its scales as well.
        unsafe {
            let codes = shared::load(chunk.staged.add(j * HEAD_DIM + d).cast::<u32>());
            (codes, shared::load(chunk.scales.add(j * SCALES + d / GROUP)))
        }
    }

    #[inline(always)]
    fn values((codes, scale): (u32, f32)) -> [f32; 4] {
        let [a, b, c, d, ..] = Self::numbers([codes, 0]);
        [a, b, c, d].map(|code| code * scale)
    }

    #[inline(always)]
    unsafe fn store8(rows: RowsMut, row: u32, lane: u32, x: [f32; 8]) {
        let mut largest = 0.0f32;
        for i in 0..8 {
            largest = float::max(largest, float::abs(x[i]));
        }
        for step in [4, 2, 1] {
            largest = float::max(largest, warp::shfl_xor(largest, step)); // the eight lanes of a group
        }
        let bits = float::f32_to_f16(largest / 127.0);
        let scale = float::f16_to_f32(bits);
        let code = |i: usize| {
            let rounded = float::rint(if scale == 0.0 { 0.0 } else { x[i] / scale });
            (float::min(float::max(rounded, -127.0), 127.0) as i32 as u32 & 0xff) << (8 * (i % 4))
        };
        let words = [0, 4].map(|i| code(i) | code(i + 1) | code(i + 2) | code(i + 3));
        // SAFETY: 8 lane + 7 < HEAD_DIM, lane / 8 < SCALES, the row is in memory; multiples of 8 values.
        unsafe {
            let to = rows.values.add(row as usize * HEAD_DIM + 8 * lane as usize);
            global::store2(to.cast::<u32>(), words);
            if lane.is_multiple_of(8) {
                global::store(rows.scales.add(row as usize * SCALES + lane as usize / 8), bits);
            }
        }
    }
}
