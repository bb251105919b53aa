//! `dense.embed/rows`: rows of a table by id, widened to f32 or expanded from blocks.
//!
//! Math      y[r][i] = table[ids[r]][i]; NaN where the table has no such row
//! Shapes    `EmbedParams`
//! Mapping   a thread copies 4 neighbouring values, of blocks 8; threads run over the rows one after the other
//! Order     none: nothing is added
//! Barriers  none
//! Budget    40 registers, 0 B shared, 0 B local (enforced by tests/tests/ptx/)
//! Promise   Base

use cuda_std::launch::Bounds;
use cuda_std::thread::{block_idx_x, thread_idx_x};
use cuda_std::{global, kernel};

use super::EmbedParams;
use super::blocks::{OCTET, Wide, quads};
use super::weight::{Bf16, F16, F32, Weight};

/// Eight warps; no limit on blocks an SM.
pub const BOUNDS: Bounds = Bounds { threads: 256, min_blocks: 4 };
/// Values of a thread.
pub const WIDTH: u32 = 4;

/// # Safety
/// Shapes and alignment as `EmbedParams` says, the table f32; grid `rows * width / 4 / 256` rounded up, block 256.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn dense_embed_rows_f32(p: EmbedParams) {
    // SAFETY: same contract.
    unsafe { body::<F32>(p) }
}

/// # Safety
/// As [`dense_embed_rows_f32`], the table f16.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn dense_embed_rows_f16(p: EmbedParams) {
    // SAFETY: same contract.
    unsafe { body::<F16>(p) }
}

/// # Safety
/// As [`dense_embed_rows_f32`], the table bf16.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn dense_embed_rows_bf16(p: EmbedParams) {
    // SAFETY: same contract.
    unsafe { body::<Bf16>(p) }
}

/// # Safety
/// Shapes and alignment as `EmbedParams` says, the table blocks of its format; grid `rows * width / 8 / 256` rounded up,
/// block 256.
#[kernel]
#[launch_bounds(BOUNDS)]
pub unsafe fn dense_embed_rows_blocks(p: EmbedParams) {
    let at = block_idx_x() * BOUNDS.threads + thread_idx_x();
    let octets = p.width / OCTET as u32;
    let (row, here) = ((at / octets) as usize, (at % octets) as usize);
    if row >= p.rows as usize {
        return;
    }
    // SAFETY: `row < rows`.
    let id = unsafe { global::load_nc(p.ids.add(row)) };
    let mut v = [[f32::NAN; 4]; 2];
    if id < p.table_rows {
        // SAFETY: `id < table_rows`, `here < octets`, in 64 bits; rows are whole blocks.
        v = unsafe { quads::<Wide, 2>(p.format, p.table, id as usize * octets as usize + here) };
    }
    // SAFETY: `row < rows`, `8 here + 7 < width`; one writer an element.
    unsafe {
        let y = p.y.add(row * p.width as usize + OCTET * here);
        global::store4(y, v[0]);
        global::store4(y.add(4), v[1]);
    }
}

#[inline(always)]
unsafe fn body<W: Weight>(p: EmbedParams) {
    let at = block_idx_x() * BOUNDS.threads + thread_idx_x();
    let quads = p.width / WIDTH;
    let (row, column) = (at / quads, (at % quads * WIDTH) as usize);
    if row >= p.rows {
        return;
    }
    // SAFETY: `row < rows`.
    let id = unsafe { global::load_nc(p.ids.add(row as usize)) };
    let mut v = [f32::NAN; 4];
    if id < p.table_rows {
        // SAFETY: `id < table_rows`, `column + 3 < width`, both products in 64 bits; a multiple of 4 values.
        v = unsafe { W::load4(p.table, id as usize * p.width as usize + column) };
    }
    // SAFETY: `row < rows`, `column + 3 < width`; one writer an element.
    unsafe { global::store4(p.y.add(row as usize * p.width as usize + column), v) };
}
