//! `dense.product`: `y = x W^T`, with weights as files store them.

use varve_gpu::dense::{ProductParams, product_rows, product_tile};

use super::add::Add;
use super::checks::{aligned, axis, count, row_stride, rows_in};
use super::dispatch::{Needs, OpError, Pick, Preferred, Spread, Table, Variant};
use super::exactness::Exactness;
use super::weights::{Kind, Weights};
use crate::backend::{Launch, Stream, View, ViewMut};

/// Sizes of a call.
#[derive(Clone, Copy, Debug)]
pub struct ProductSizes {
    /// Tokens.
    pub tokens: usize,
    /// Rows of the matrix.
    pub n_out: usize,
    /// Storage of the matrix.
    pub kind: Kind,
}

/// The variants, most wanted first: all give the same bits. Conditions: measured in docs/src/measured/model.md.
pub static DENSE_PRODUCT: Table<ProductSizes, ProductParams> = Table {
    op: "dense.product",
    rows: &[
        Variant {
            name: "tile",
            kernel: |ask| {
                if ask.tokens < 2 {
                    return Err("one token: a tile would hold seven that are not there".into());
                }
                Ok(ask.kind.of([
                    &product_tile::DENSE_PRODUCT_TILE_F32,
                    &product_tile::DENSE_PRODUCT_TILE_F16,
                    &product_tile::DENSE_PRODUCT_TILE_BF16,
                ]))
            },
            launch: |ask| {
                let rows = ask.n_out.div_ceil(product_tile::WARPS * product_tile::ROWS);
                let tokens = ask.tokens.div_ceil(product_tile::TOKENS);
                Launch { grid: [axis(rows), axis(tokens), 1], ..Launch::new(1, product_tile::BOUNDS.threads) }
            },
            staged: None,
            needs: Needs { cc: 0, spread: Spread::FourAnSm },
            preferred: Preferred::Always,
            exactness: Exactness::Bitwise,
        },
        Variant {
            name: "rows8",
            kernel: |ask| {
                Ok(ask.kind.of([
                    &product_rows::DENSE_PRODUCT_ROWS8_F32,
                    &product_rows::DENSE_PRODUCT_ROWS8_F16,
                    &product_rows::DENSE_PRODUCT_ROWS8_BF16,
                ]))
            },
            launch: |ask| rows(ask, product_rows::MANY),
            staged: None,
            needs: Needs { cc: 0, spread: Spread::FourAnSm },
            preferred: Preferred::Always,
            exactness: Exactness::Bitwise,
        },
        Variant::base(
            "rows2",
            |ask| {
                Ok(ask.kind.of([
                    &product_rows::DENSE_PRODUCT_ROWS2_F32,
                    &product_rows::DENSE_PRODUCT_ROWS2_F16,
                    &product_rows::DENSE_PRODUCT_ROWS2_BF16,
                ]))
            },
            |ask| rows(ask, product_rows::FEW),
        ),
    ],
};

/// A warp for `of_a_warp` matrix rows and one token.
fn rows(ask: &ProductSizes, of_a_warp: usize) -> Launch {
    let blocks = ask.n_out.div_ceil(product_rows::WARPS * of_a_warp);
    Launch { grid: [axis(blocks), axis(ask.tokens), 1], ..Launch::new(1, product_rows::BOUNDS.threads) }
}

/// `y[t] = W x[t]` (+ what is added): W `[n_out, n_in]`, x f32 `[tokens, n_in]`, y f32 `[tokens, n_out]`. The bits of a
/// token's result do not depend on the variant or on the other tokens.
///
/// # Errors
/// [`OpError::Layout`] or [`OpError::Value`] name the operand; nothing was enqueued then. [`OpError::Launch`] otherwise.
pub fn product(
    pick: Pick<'_>,
    stream: &Stream,
    w: &Weights<'_>,
    x: &View<'_, f32, 2>,
    add: &Add<'_>,
    y: &mut ViewMut<'_, f32, 2>,
) -> Result<&'static str, OpError> {
    let op = DENSE_PRODUCT.op;
    let [n_out, n_in] = w.dims();
    let [tokens, _] = x.dims;
    w.expect_quads(op, "w")?;
    let x_stride = rows_in(op, "x", x, [tokens, n_in])?;
    y.expect(op, "y", [tokens, n_out])?;
    aligned(op, "y", y.is_aligned(4))?;
    let y_stride = row_stride(op, "y strides", y.strides, 1)?;
    let (added, add_stride) = add.to(op, y)?;
    let sizes = ProductSizes { tokens, n_out, kind: w.kind() };
    let params = ProductParams {
        w: w.ptr(),
        x: x.ptr(),
        y: y.ptr_mut(),
        add: added,
        n_in: count(op, "columns", n_in, i32::MAX as u32)?,
        n_out: count(op, "rows", n_out, i32::MAX as u32)?,
        tokens: count(op, "tokens", tokens, 65_535)?,
        x_stride,
        y_stride,
        add_stride,
    };
    if tokens == 0 || n_out == 0 {
        return Ok(DENSE_PRODUCT.base().name);
    }
    // SAFETY: shapes, strides and alignment were checked; views borrow their buffers, and y's exclusively.
    unsafe { DENSE_PRODUCT.enqueue(pick, stream, &sizes, params) }
}
