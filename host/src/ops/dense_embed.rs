//! `dense.embed`: rows of a table by id, as f32.

use varve_gpu::dense::{EmbedParams, blocks, embed_rows};

use super::checks::{aligned, axis, count};
use super::dispatch::{OpError, Pick, Table, Variant};
use super::weights::{Kind, Stored};
use crate::backend::{Launch, Stream, View, ViewMut};

/// Sizes of a call.
#[derive(Clone, Copy, Debug)]
pub struct EmbedSizes {
    /// Rows to write.
    pub rows: usize,
    /// Values of a row.
    pub width: usize,
    /// Storage of the table's values; none of blocks.
    pub kind: Option<Kind>,
}

impl EmbedSizes {
    /// Threads of a launch.
    fn threads(&self) -> usize {
        self.rows * self.width / if self.kind.is_some() { embed_rows::WIDTH as usize } else { blocks::OCTET }
    }
}

/// The only variant.
pub static DENSE_EMBED: Table<EmbedSizes, EmbedParams> = Table {
    op: "dense.embed",
    rows: &[Variant::base(
        "rows",
        |ask| {
            let plain = |kind: Kind| {
                kind.of([
                    &embed_rows::DENSE_EMBED_ROWS_F32,
                    &embed_rows::DENSE_EMBED_ROWS_F16,
                    &embed_rows::DENSE_EMBED_ROWS_BF16,
                ])
            };
            Ok(ask.kind.map_or(&embed_rows::DENSE_EMBED_ROWS_BLOCKS, plain))
        },
        |ask| {
            let of_a_block = embed_rows::BOUNDS.threads;
            Launch::new(axis(ask.threads().div_ceil(of_a_block as usize)), of_a_block)
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
    table: &Stored<'_>,
    ids: &View<'_, u32, 1>,
    y: &mut ViewMut<'_, f32, 2>,
) -> Result<&'static str, OpError> {
    let op = DENSE_EMBED.op;
    let [table_rows, width] = table.dims();
    let [rows] = ids.dims;
    let (address, kind, format) = table.expect(op, "table")?;
    ids.expect_dense(op, "ids")?;
    y.expect(op, "y", [rows, width])?;
    y.expect_dense(op, "y")?;
    aligned(op, "y", y.is_aligned(16))?;
    let sizes = EmbedSizes { rows, width, kind };
    let params = EmbedParams {
        table: address,
        ids: ids.ptr(),
        y: y.ptr_mut(),
        rows: count(op, "rows", rows, u32::MAX)?,
        width: count(op, "width", width, u32::MAX)?,
        table_rows: count(op, "rows of the table", table_rows, u32::MAX)?,
        format,
    };
    count(op, "values", rows * width / 4, i32::MAX as u32)?;
    if rows == 0 {
        return Ok(DENSE_EMBED.base().name);
    }
    // SAFETY: shapes and alignment were checked; ids outside the table are the kernel's matter; views borrow their buffers.
    unsafe { DENSE_EMBED.enqueue(pick, stream, &sizes, params) }
}
