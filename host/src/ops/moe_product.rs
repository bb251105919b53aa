//! `moe.product`: each pair of a token and an expert, `y[pair] = W[expert] x[row of the pair]`.

use varve_gpu::moe::{ExpertProductParams, TILE_WORDS, max_tiles, product_pair, product_tile};

use super::checks::{axis, count, row_stride, rows_in};
use super::dispatch::{Needs, OpError, Pick, Preferred, Table, Variant};
use super::exactness::Exactness;
use super::weights::{Kind, Stored};
use crate::backend::{Launch, Stream, View, ViewMut};

/// Sizes of a call.
#[derive(Clone, Copy, Debug)]
pub struct ExpertProductSizes {
    /// Pairs of a token and an expert.
    pub pairs: usize,
    /// Rows of an expert's matrix.
    pub n_out: usize,
    /// Experts.
    pub experts: usize,
    /// Whether `moe.plan` has made tiles.
    pub planned: bool,
    /// Storage of the matrices' values; none of blocks.
    pub kind: Option<Kind>,
}

/// The variants, most wanted first: both give the same bits.
pub static MOE_PRODUCT: Table<ExpertProductSizes, ExpertProductParams> = Table {
    op: "moe.product",
    rows: &[
        Variant {
            name: "tile",
            kernel: |ask| {
                if !ask.planned {
                    return Err("the pairs were not put together by expert".into());
                }
                let plain = |kind: Kind| {
                    kind.of([
                        &product_tile::MOE_PRODUCT_TILE_F32,
                        &product_tile::MOE_PRODUCT_TILE_F16,
                        &product_tile::MOE_PRODUCT_TILE_BF16,
                    ])
                };
                Ok(ask.kind.map_or(&product_tile::MOE_PRODUCT_TILE_BLOCKS, plain))
            },
            launch: |ask| {
                let rows = ask.n_out.div_ceil(product_tile::WARPS * product_tile::ROWS);
                let tiles = max_tiles(ask.pairs, ask.experts);
                Launch { grid: [axis(rows), axis(tiles), 1], ..Launch::new(1, product_tile::BOUNDS.threads) }
            },
            staged: None,
            needs: Needs::ANY,
            preferred: Preferred::Always,
            exactness: Exactness::Bitwise,
        },
        Variant::base(
            "pair",
            |ask| {
                let plain = |kind: Kind| {
                    kind.of([
                        &product_pair::MOE_PRODUCT_PAIR_F32,
                        &product_pair::MOE_PRODUCT_PAIR_F16,
                        &product_pair::MOE_PRODUCT_PAIR_BF16,
                    ])
                };
                Ok(ask.kind.map_or(&product_pair::MOE_PRODUCT_PAIR_BLOCKS, plain))
            },
            |ask| {
                let rows = ask.n_out.div_ceil(product_pair::WARPS * product_pair::ROWS);
                Launch { grid: [axis(rows), axis(ask.pairs), 1], ..Launch::new(1, product_pair::BOUNDS.threads) }
            },
        ),
    ],
};

/// What `moe.plan` wrote for the same ids.
#[derive(Clone, Copy, Debug)]
pub struct Tiles<'a> {
    /// u32 `[at least max_tiles, TILE_WORDS]`.
    pub tiles: View<'a, u32, 2>,
    /// u32 `[1]`.
    pub count: View<'a, u32, 1>,
}

/// Operands of [`expert_product`].
pub struct ExpertProductArgs<'a> {
    /// `[experts * n_out, n_in]`: the experts' matrices one below the other.
    pub w: Stored<'a>,
    /// Experts.
    pub experts: usize,
    /// f32 `[rows, n_in]`; the pairs are dealt to the rows in equal runs.
    pub x: View<'a, f32, 2>,
    /// u32 `[pairs]`, dense: the expert of each pair.
    pub ids: View<'a, u32, 1>,
    /// The pairs by expert, where they were planned.
    pub tiles: Option<Tiles<'a>>,
    /// f32 `[pairs, n_out]`.
    pub y: ViewMut<'a, f32, 2>,
}

/// `y[p] = W[ids[p]] x[p / (pairs / rows)]`. The bits of a pair's result do not depend on the variant or on other pairs.
///
/// # Errors
/// [`OpError::Layout`] or [`OpError::Value`] name the operand; nothing was enqueued then. [`OpError::Launch`] otherwise.
pub fn expert_product(
    pick: Pick<'_>,
    stream: &Stream,
    mut args: ExpertProductArgs<'_>,
) -> Result<&'static str, OpError> {
    let op = MOE_PRODUCT.op;
    let ([all_rows, n_in], [rows, _], [pairs]) = (args.w.dims(), args.x.dims, args.ids.dims);
    let value = |what, got: String, rule| OpError::Value { op, what, got, rule };
    if args.experts == 0 || !all_rows.is_multiple_of(args.experts) {
        let got = format!("{} of {all_rows} rows", args.experts);
        return Err(value("number of experts", got, "each must have equally many rows"));
    }
    if rows == 0 || !pairs.is_multiple_of(rows) {
        return Err(value("number of pairs", format!("{pairs} for {rows} rows"), "each row must have equally many"));
    }
    let n_out = all_rows / args.experts;
    let (address, kind, format) = args.w.expect(op, "w")?;
    args.ids.expect_dense(op, "ids")?;
    args.y.expect(op, "y", [pairs, n_out])?;
    let (tiles, n_tiles) = match &args.tiles {
        None => (std::ptr::null(), std::ptr::null()),
        Some(plan) => {
            let most = max_tiles(pairs, args.experts);
            plan.tiles.expect(op, "tiles", [plan.tiles.dims[0].max(most), TILE_WORDS])?;
            plan.tiles.expect_dense(op, "tiles")?;
            plan.count.expect(op, "count", [1])?;
            (plan.tiles.ptr(), plan.count.ptr())
        }
    };
    let params = ExpertProductParams {
        w: address,
        x_stride: rows_in(op, "x", &args.x, [rows, n_in])?,
        x: args.x.ptr(),
        y_stride: row_stride(op, "y strides", args.y.strides, 1)?,
        y: args.y.ptr_mut(),
        ids: args.ids.ptr(),
        tiles,
        n_tiles,
        n_in: count(op, "columns", n_in, i32::MAX as u32)?,
        n_out: count(op, "rows", n_out, i32::MAX as u32)?,
        experts: count(op, "experts", args.experts, i32::MAX as u32)?,
        pairs_of_row: count(op, "pairs of a row", pairs / rows, i32::MAX as u32)?,
        format,
        reserved: 0,
    };
    count(op, "pairs", pairs, 65_535)?;
    let sizes = ExpertProductSizes { pairs, n_out, experts: args.experts, planned: args.tiles.is_some(), kind };
    // SAFETY: shapes, strides and alignment were checked; ids outside are the kernel's matter, tiles are as `moe.plan`
    // writes them; views borrow their buffers, and y's exclusively.
    unsafe { MOE_PRODUCT.enqueue(pick, stream, &sizes, params) }
}
