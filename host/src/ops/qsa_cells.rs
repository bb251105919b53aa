//! Cells in memory as operations take them: rows in one of three formats, a table of pages, records of query rows.

use varve_gpu::qsa::cells::{F16, F32, I8, NO_ROW, Pages, Rows, RowsMut, SCALES};
use varve_gpu::qsa::{HEAD_DIM, RATIO, attend_chunk};

use super::checks::{aligned, count};
use super::dispatch::OpError;
use crate::backend::{View, ViewMut};

/// Format of the rows of cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CellKind {
    /// IEEE single, for runs that are held to an oracle.
    F32,
    /// IEEE half.
    F16,
    /// 8-bit codes with an f16 scale for each 64 values.
    I8,
}

impl CellKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::F32, Self::F16, Self::I8];

    /// Bytes of a row of 256 values with its scales.
    #[must_use]
    pub const fn row_bytes(self) -> usize {
        match self {
            Self::F32 => 4 * HEAD_DIM,
            Self::F16 => 2 * HEAD_DIM,
            Self::I8 => HEAD_DIM + 2 * SCALES,
        }
    }

    /// What belongs to this format.
    pub(super) fn of<T: Copy>(self, [f32, f16, i8]: [T; 3]) -> T {
        match self {
            Self::F32 => f32,
            Self::F16 => f16,
            Self::I8 => i8,
        }
    }

    /// Dynamic shared memory of a block of `qsa.attend/chunk`.
    pub(super) const fn chunk_bytes(self, group: usize) -> usize {
        match self {
            Self::F32 => attend_chunk::shared_bytes::<F32>(group),
            Self::F16 => attend_chunk::shared_bytes::<F16>(group),
            Self::I8 => attend_chunk::shared_bytes::<I8>(group),
        }
    }
}

/// Keys or values of all cells, `[pages, kv heads, 4, 256]`, dense.
#[derive(Clone, Copy, Debug)]
pub enum CellRows<'a> {
    /// f32.
    F32(View<'a, f32, 4>),
    /// Bits of f16.
    F16(View<'a, u16, 4>),
    /// Codes, and bits of their f16 scales `[pages, kv heads, 4, 4]`.
    I8(View<'a, i8, 4>, View<'a, u16, 4>),
}

/// As [`CellRows`], to write.
#[derive(Debug)]
pub enum CellRowsMut<'a> {
    /// f32.
    F32(ViewMut<'a, f32, 4>),
    /// Bits of f16.
    F16(ViewMut<'a, u16, 4>),
    /// Codes, and bits of their f16 scales `[pages, kv heads, 4, 4]`.
    I8(ViewMut<'a, i8, 4>, ViewMut<'a, u16, 4>),
}

impl CellRows<'_> {
    /// The format.
    #[must_use]
    pub const fn kind(&self) -> CellKind {
        match self {
            Self::F32(_) => CellKind::F32,
            Self::F16(_) => CellKind::F16,
            Self::I8(..) => CellKind::I8,
        }
    }

    /// Pages and key heads.
    pub(super) const fn sizes(&self) -> [usize; 2] {
        let dims = match self {
            Self::F32(values) => values.dims,
            Self::F16(values) => values.dims,
            Self::I8(codes, _) => codes.dims,
        };
        [dims[0], dims[1]]
    }

    /// The rows as kernels take them, if they have these pages and key heads.
    pub(super) fn expect(
        &self,
        op: &'static str,
        operand: &'static str,
        [pages, kv_heads]: [usize; 2],
    ) -> Result<Rows, OpError> {
        let dims = [pages, kv_heads, RATIO, HEAD_DIM];
        match self {
            Self::F32(values) => Ok(Rows { values: dense(op, operand, values, dims)?, scales: std::ptr::null() }),
            Self::F16(values) => Ok(Rows { values: dense(op, operand, values, dims)?, scales: std::ptr::null() }),
            Self::I8(codes, scales) => {
                let values = dense(op, operand, codes, dims)?;
                scales.expect(op, operand, [pages, kv_heads, RATIO, SCALES])?;
                scales.expect_dense(op, operand)?;
                Ok(Rows { values, scales: scales.ptr() })
            }
        }
    }
}

impl CellRowsMut<'_> {
    /// The same rows, to read.
    #[must_use]
    pub fn as_rows(&self) -> CellRows<'_> {
        match self {
            Self::F32(values) => CellRows::F32(values.as_view()),
            Self::F16(values) => CellRows::F16(values.as_view()),
            Self::I8(codes, scales) => CellRows::I8(codes.as_view(), scales.as_view()),
        }
    }

    /// As [`CellRows::expect`].
    pub(super) fn expect(
        &mut self,
        op: &'static str,
        operand: &'static str,
        sizes: [usize; 2],
    ) -> Result<RowsMut, OpError> {
        self.as_rows().expect(op, operand, sizes)?;
        let (values, scales) = match self {
            Self::F32(values) => (values.ptr_mut().cast(), std::ptr::null_mut()),
            Self::F16(values) => (values.ptr_mut().cast(), std::ptr::null_mut()),
            Self::I8(codes, scales) => (codes.ptr_mut().cast(), scales.ptr_mut()),
        };
        Ok(RowsMut { values, scales })
    }
}

fn dense<T>(
    op: &'static str,
    what: &'static str,
    view: &View<'_, T, 4>,
    dims: [usize; 4],
) -> Result<*const u8, OpError> {
    view.expect(op, what, dims)?;
    view.expect_dense(op, what)?;
    aligned(op, what, view.is_aligned(16))?;
    Ok(view.ptr().cast())
}

/// The table and the sizes as kernels take them.
pub(super) fn pages(
    op: &'static str,
    table: &View<'_, u32, 1>,
    [pages, kv_heads]: [usize; 2],
) -> Result<Pages, OpError> {
    table.expect_dense(op, "table")?;
    let rows = pages.saturating_mul(kv_heads).saturating_mul(RATIO);
    if rows == 0 || rows >= NO_ROW as usize {
        let got = format!("{pages} pages of {kv_heads} key heads");
        return Err(OpError::Value {
            op,
            what: "cells",
            got,
            rule: "there must be at least one row, fewer than 2^32 - 1",
        });
    }
    Ok(Pages {
        table: table.ptr(),
        blocks: count(op, "blocks of the table", table.dims[0], i32::MAX as u32)?,
        pages: count(op, "pages", pages, u32::MAX)?,
        kv_heads: count(op, "key heads", kv_heads, 65_535)?,
        reserved: 0,
    })
}
