//! What the kernels of `qsa.attend` share: parameters, and which cells a query attends to.

use cuda_std::global;

use super::cells::{NO_ROW, Pages, Rows};
use super::{HEAD_DIM, StepRecord};

/// Cells of a chunk, by their place in a row's list.
pub const CHUNK: usize = 64;
/// Most query heads of a key head.
pub const MAX_GROUP: usize = 16;
/// What `q . k` is multiplied by: `HEAD_DIM^(-1/2)`.
pub const SCALE: f32 = 0.0625;
const _: () = assert!(HEAD_DIM == 256);
/// Score of a cell that gets no weight, and largest score of a chunk of such cells. No sum of products times [`SCALE`] is it.
pub const MASKED: f32 = f32::MIN;

/// Launch parameters of `qsa.attend`. Pointers are 16-byte aligned, strides in elements and multiples of 4.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AttendParams {
    /// f32 `[rows][heads][HEAD_DIM]`, normed and rotated.
    pub q: *const f32,
    /// f32 `[rows][gate_stride]`, head h at `h * gate_head_stride`: the output gate before its sigmoid.
    pub gate: *const f32,
    /// Keys.
    pub k: Rows,
    /// Values.
    pub v: Rows,
    /// Where cells are.
    pub pages: Pages,
    /// u32 `[rows][cap]`: the `width` cells of a row; null: all `n_kv` that it sees, of which the first `cap`.
    pub ids: *const u32,
    /// `[rows]`.
    pub steps: *const StepRecord,
    /// Scratch f32 `[rows][chunks][heads][HEAD_DIM]`: weighted sums of a chunk's values.
    pub sums: *mut f32,
    /// Scratch f32 `[rows][chunks][heads][2]`: largest score of a chunk, sum of its weights.
    pub tops: *mut f32,
    /// f32 `[rows][heads][HEAD_DIM]`.
    pub y: *mut f32,
    /// Rows of the call, at least 1.
    pub rows: u32,
    /// Query heads, a multiple of the key heads, at most [`MAX_GROUP`] to one; head h reads key head `h / (heads / kv_heads)`.
    pub heads: u32,
    /// Most cells of a row, at least 1.
    pub cap: u32,
    /// Chunks of `cap` cells.
    pub chunks: u32,
    /// Elements from a row's gate to the next.
    pub gate_stride: u32,
    /// Elements from a head's gate to the next.
    pub gate_head_stride: u32,
}
const _: () = assert!(size_of::<AttendParams>() == 136);

/// What one row of queries sees.
#[derive(Clone, Copy)]
pub struct Attended {
    /// Cells that it sees.
    n_kv: u32,
    /// Length of its list.
    pub count: u32,
}

/// Cell number `i` of the list of row `row`, if it is as long as that. Known before the row's record is.
///
/// # Safety
/// Shapes as `AttendParams` says, `row` is below `rows`.
#[inline(always)]
pub unsafe fn listed(p: &AttendParams, row: usize, i: u32) -> u32 {
    if p.ids.is_null() || i >= p.cap {
        return i;
    }
    // SAFETY: `i < cap`.
    unsafe { global::load_nc(p.ids.add(row * p.cap as usize + i as usize)) }
}

impl Attended {
    /// Of row `row`.
    ///
    /// # Safety
    /// As [`listed`].
    #[inline(always)]
    pub unsafe fn of(p: &AttendParams, row: usize) -> Self {
        // SAFETY: same contract; a record is 16 bytes at a multiple of 16.
        let [_, n_kv, _, width] = unsafe { global::load4_nc(p.steps.add(row).cast::<u32>()) };
        let listed = if p.ids.is_null() { n_kv } else { width };
        Self { n_kv, count: if listed < p.cap { listed } else { p.cap } }
    }

    /// The chunks of the list.
    #[inline(always)]
    pub const fn chunks(&self) -> u32 {
        self.count.div_ceil(CHUNK as u32)
    }

    /// Row in memory of `cell`, which is number `i` of the list, for a key head. [`NO_ROW`] beyond the list, where the cell
    /// is not in memory, and where the query does not see it, whatever the list says.
    ///
    /// # Safety
    /// As [`listed`].
    #[inline(always)]
    pub unsafe fn row(&self, p: &AttendParams, (i, cell): (u32, u32), kv_head: u32) -> u32 {
        if i >= self.count || cell >= self.n_kv {
            return NO_ROW;
        }
        // SAFETY: same contract.
        unsafe { p.pages.row(cell, kv_head) }
    }
}
