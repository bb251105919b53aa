//! `dense.embed`: rows of a table by id, as f32.

use varve_gpu::dense::{EmbedParams, embed_rows};

use super::checks::{aligned, axis, count};
use super::dispatch::{OpError, Pick, Table, Variant};
use super::weights::{Kind, Weights};
use crate::backend::{Launch, Stream, View, ViewMut};

/// Sizes of a call.
#[derive(Clone, Copy, Debug)]
pub struct EmbedSizes {
    /// Rows to write.
    pub rows: usize,
    /// Values of a row.
    pub width: usize,
    /// Storage of the table.
    pub kind: Kind,
}

/// The only variant.
pub static DENSE_EMBED: Table<EmbedSizes, EmbedParams> = Table {
    op: "dense.embed",
    rows: &[Variant::base(
        "rows",
        |ask| {
            Ok(ask.kind.of([
                &embed_rows::DENSE_EMBED_ROWS_F32,
                &embed_rows::DENSE_EMBED_ROWS_F16,
                &embed_rows::DENSE_EMBED_ROWS_BF16,
            ]))
        },
        |ask| {
            let threads =
                (ask.rows * ask.width / embed_rows::WIDTH as usize).div_ceil(embed_rows::BOUNDS.threads as usize);
            Launch::new(axis(threads), embed_rows::BOUNDS.threads)
        },
    )],
};

/// `y[r] = table[ids[r]]`; table `[rows, width]`, ids u32 `[n]`, y f32 `[n, width]`, dense. An id outside gives NaN.
///
/// # Errors
/// [`OpError::Layout`] or [`OpError::Value`] name the operand; nothing was enqueued then. [`OpError::Launch`] otherwise.
pub fn embed(
    pick: Pick<'_>,
    stream: &Stream,
    table: &Weights<'_>,
    ids: &View<'_, u32, 1>,
    y: &mut ViewMut<'_, f32, 2>,
) -> Result<&'static str, OpError> {
    let op = DENSE_EMBED.op;
    let [table_rows, width] = table.dims();
    let [rows] = ids.dims;
    table.expect_quads(op, "table")?;
    ids.expect_dense(op, "ids")?;
    y.expect(op, "y", [rows, width])?;
    y.expect_dense(op, "y")?;
    aligned(op, "y", y.is_aligned(16))?;
    let sizes = EmbedSizes { rows, width, kind: table.kind() };
    let params = EmbedParams {
        table: table.ptr(),
        ids: ids.ptr(),
        y: y.ptr_mut(),
        rows: count(op, "rows", rows, u32::MAX)?,
        width: count(op, "width", width, u32::MAX)?,
        table_rows: count(op, "rows of the table", table_rows, u32::MAX)?,
        reserved: 0,
    };
    count(op, "values", rows * width / 4, i32::MAX as u32)?;
    if rows == 0 {
        return Ok(DENSE_EMBED.base().name);
    }
    // SAFETY: shapes and alignment were checked; ids outside the table are the kernel's matter; views borrow their buffers.
    unsafe { DENSE_EMBED.enqueue(pick, stream, &sizes, params) }
}
