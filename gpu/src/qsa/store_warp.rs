//! `qsa.store/warp`: a warp writes the key and the value of one token and key head into its cell.
//!
//! Math      row = x in the format of the cells (`cells.rs`)
//! Shapes    `StoreParams`
//! Mapping   warp number = token * kv heads + head; lane l: values 8 l .. 8 l + 7 of both
//! Order     i8: the largest magnitude of 64 values, exact in any order; one division and one rounding for the scale, as many
//!           for a code
//! Barriers  none; a warp leaves as a whole
//! Budget    64 registers, 0 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Base

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, thread_idx_x};
use cuda_std::{global, kernel};

use super::cells::{CellFormat, F16, F32, I8, NO_ROW, Pages, RowsMut};
use super::{HEAD_DIM, StepRecord};

/// Launch parameters of `qsa.store`. Pointers are 16-byte aligned, strides in elements and multiples of 4.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct StoreParams {
    /// f32 `[tokens][k_stride]`, head h at `h * HEAD_DIM`: normed and rotated.
    pub k: *const f32,
    /// f32 `[tokens][v_stride]`, head h at `h * HEAD_DIM`.
    pub v: *const f32,
    /// `[tokens]`: `pos` says the cell. No position twice.
    pub steps: *const StepRecord,
    /// Where keys go.
    pub k_rows: RowsMut,
    /// Where values go.
    pub v_rows: RowsMut,
    /// Where cells are; those that are not in memory are not written.
    pub pages: Pages,
    /// Tokens of the call, at least 1.
    pub tokens: u32,
    /// Elements from a token's keys to the next.
    pub k_stride: u32,
    /// Elements from a token's values to the next.
    pub v_stride: u32,
    /// Not read; keeps the struct free of padding.
    pub reserved: u32,
}
const _: () = assert!(size_of::<StoreParams>() == 96);

/// Four warps, which share nothing.
pub const BOUNDS: Bounds = Bounds { threads: 128, min_blocks: 8 };
/// Tokens and heads of a block, a warp each.
pub const WARPS: u32 = BOUNDS.threads / 32;

/// # Safety
/// As [`store`]; cells of f32.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn qsa_store_warp_f32(p: StoreParams) {
    // SAFETY: same contract.
    unsafe { store::<F32>(p) }
}

/// # Safety
/// As [`store`]; cells of f16.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn qsa_store_warp_f16(p: StoreParams) {
    // SAFETY: same contract.
    unsafe { store::<F16>(p) }
}

/// # Safety
/// As [`store`]; cells of i8.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn qsa_store_warp_i8(p: StoreParams) {
    // SAFETY: same contract.
    unsafe { store::<I8>(p) }
}

/// # Safety
/// Shapes and alignment as `StoreParams` says; grid `tokens * kv_heads / 4` rounded up, block 128.
#[inline(always)]
unsafe fn store<F: CellFormat>(p: StoreParams) {
    let (at, lane) = (block_idx_x() * WARPS + thread_idx_x() / 32, thread_idx_x() % 32);
    let (token, head) = (at / p.pages.kv_heads, at % p.pages.kv_heads);
    if token >= p.tokens {
        return; // a whole warp
    }
    // SAFETY: `token < tokens`.
    let row = unsafe {
        let pos = global::load_nc((&raw const (*p.steps.add(token as usize)).pos).cast::<u32>());
        p.pages.row(pos, head)
    };
    if row == NO_ROW {
        return; // a whole warp
    }
    // SAFETY: 8 lane + 7 < HEAD_DIM; the row is in memory, and of this token and head alone.
    let put = |from: *const f32, stride: u32, rows: RowsMut| unsafe {
        let from = from.add(token as usize * stride as usize + head as usize * HEAD_DIM + 8 * lane as usize);
        let [a, b] = [global::load4_nc(from), global::load4_nc(from.add(4))];
        F::store8(rows, row, lane, [a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]]);
    };
    put(p.k, p.k_stride, p.k_rows);
    put(p.v, p.v_stride, p.v_rows);
}
