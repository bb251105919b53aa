//! `dense.product`: `y = x W^T`, with weights as files store them.

use cuda_std::launch::Kernel;
use varve_gpu::dense::{
    ProductParams, parts, product_mma, product_mma_narrow, product_mma_split, product_rows, product_tile,
};

use super::add::Add;
use super::checks::{aligned, axis, count, row_stride, rows_in};
use super::dispatch::{Dispatch, Needs, OpError, Pick, Preferred, Spread, Staged, Step, Table, Target, Variant};
use super::exactness::Exactness;
use super::tuning::dense_product as measured;
use super::weights::{Kind, Weights};
use crate::backend::{Launch, Stream, View, ViewMut};

/// Sizes of a call.
#[derive(Clone, Copy, Debug)]
pub struct ProductSizes {
    /// Tokens.
    pub tokens: usize,
    /// Rows of the matrix.
    pub n_out: usize,
    /// Columns of the matrix.
    pub n_in: usize,
    /// Storage of the matrix.
    pub kind: Kind,
    /// Whether the matrix starts at a multiple of 16 bytes.
    pub aligned: bool,
}

/// The variant on tensor cores.
pub const MMA: &str = "mma";
/// Most bytes of its scratch, unless 128 tokens alone take more.
const SCRATCH: usize = 64 << 20;

/// The variants, most wanted first: all but the first give the same bits. Conditions: measured in docs/src/measured/dense.md and
/// model.md.
pub static DENSE_PRODUCT: Table<ProductSizes, ProductParams> = Table {
    op: "dense.product",
    rows: &[
        Variant {
            name: MMA,
            kernel: |ask| on_tensor_cores(ask).map(|[_, products]| products),
            launch: |ask| products_launch(ask, ask.tokens),
            staged: Some(Staged { scratch_floats: |ask| of_scratch(ask, ask.tokens.min(pass(ask))), steps: mma_steps }),
            needs: Needs { cc: 80, spread: Spread::AnEighth },
            preferred: Preferred::Measured { table: measured::MMA, size: |ask| [ask.tokens, 1] },
            exactness: Exactness::Rounding { bound: 2e-5, ordinary: 2e-5, derived: "exactness.md#tensor-cores" },
        },
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

/// Most tokens of the kernel for few.
const FEW_TOKENS: usize = product_mma_narrow::TOKENS;

/// Kernels of [`MMA`] for these sizes: the parts of x, the products. All passes of a call have the same.
fn on_tensor_cores(ask: &ProductSizes) -> Result<[&'static Kernel<ProductParams>; 2], String> {
    if !ask.aligned || !ask.n_in.is_multiple_of(8) {
        return Err("rows of the matrix do not start at multiples of 16 bytes".into());
    }
    let most = 65_535 * product_mma_narrow::ROWS;
    if ask.n_out > most {
        return Err(format!("{} rows, a launch covers {most}", ask.n_out));
    }
    let few = ask.tokens <= FEW_TOKENS;
    match ask.kind {
        Kind::F32 => Err("weights are f32, tensor cores take 16 bits here".into()),
        Kind::F16 => Ok([
            &product_mma_split::DENSE_PRODUCT_MMA_SPLIT_F16,
            if few { &product_mma_narrow::DENSE_PRODUCT_MMA_NARROW_F16 } else { &product_mma::DENSE_PRODUCT_MMA_F16 },
        ]),
        Kind::Bf16 => Ok([
            &product_mma_split::DENSE_PRODUCT_MMA_SPLIT_BF16,
            if few { &product_mma_narrow::DENSE_PRODUCT_MMA_NARROW_BF16 } else { &product_mma::DENSE_PRODUCT_MMA_BF16 },
        ]),
    }
}

/// The launch of the products of `tokens` of the call's tokens.
fn products_launch(ask: &ProductSizes, tokens: usize) -> Launch {
    let [rows_of_block, tokens_of_block, shared, threads] = if ask.tokens <= FEW_TOKENS {
        use product_mma_narrow::{BOUNDS, ROWS, SHARED_BYTES, TOKENS};
        [ROWS, TOKENS, SHARED_BYTES, BOUNDS.threads as usize]
    } else {
        use product_mma::{BOUNDS, ROWS, SHARED_BYTES, TOKENS};
        [ROWS, TOKENS, SHARED_BYTES, BOUNDS.threads as usize]
    };
    let grid = [axis(tokens.div_ceil(tokens_of_block)), axis(ask.n_out.div_ceil(rows_of_block)), 1];
    Launch { grid, dynamic_shared: axis(shared), ..Launch::new(1, axis(threads)) }
}

/// f32 elements of scratch for so many tokens.
fn of_scratch(ask: &ProductSizes, tokens: usize) -> usize {
    parts::scratch_bytes(tokens, ask.n_in) / size_of::<f32>()
}

/// Tokens that share the scratch at a time: whole blocks.
fn pass(ask: &ProductSizes) -> usize {
    (SCRATCH / parts::scratch_bytes(1, ask.n_in) / product_mma::TOKENS).max(1) * product_mma::TOKENS
}

/// Launches of [`MMA`]: for each pass of tokens its parts, then its products.
fn mma_steps(ask: &ProductSizes, call: &Step<ProductParams>, scratch: *mut f32) -> Vec<Step<ProductParams>> {
    let Ok([split, products]) = on_tensor_cores(ask) else { return Vec::new() };
    let of_a_pass = |first: usize| {
        let tokens = (ask.tokens - first).min(pass(ask));
        let row = |stride: u32| first * stride as usize;
        let params = ProductParams {
            x: call.params.x.wrapping_add(row(call.params.x_stride)),
            y: call.params.y.wrapping_add(row(call.params.y_stride)),
            // What is null stays null.
            add: call.params.add.wrapping_add(if call.params.add.is_null() { 0 } else { row(call.params.add_stride) }),
            scratch: scratch.cast(),
            tokens: axis(tokens),
            ..call.params
        };
        let parts = Launch::new(axis(tokens), product_mma_split::BOUNDS.threads);
        [(split, parts), (products, products_launch(ask, tokens))].map(|(kernel, launch)| Step {
            kernel,
            launch,
            params,
            early: false,
        })
    };
    (0..ask.tokens).step_by(pass(ask)).flat_map(of_a_pass).collect()
}

/// The storage that rows of blocks are expanded to for a product of these sizes: f16 where tensor cores will multiply, else
/// f32. `[tokens, n_out, n_in]`.
#[must_use]
pub fn expanded_to(dispatch: &Dispatch, target: &impl Target, [tokens, n_out, n_in]: [usize; 3]) -> Kind {
    let ask = ProductSizes { tokens, n_out, n_in, kind: Kind::F16, aligned: true };
    match DENSE_PRODUCT.select(dispatch, target, &ask) {
        Ok(choice) if choice.variant == MMA => Kind::F16,
        _ => Kind::F32,
    }
}

/// A warp for `of_a_warp` matrix rows and one token.
fn rows(ask: &ProductSizes, of_a_warp: usize) -> Launch {
    let blocks = ask.n_out.div_ceil(product_rows::WARPS * of_a_warp);
    Launch { grid: [axis(blocks), axis(ask.tokens), 1], ..Launch::new(1, product_rows::BOUNDS.threads) }
}

/// `y[t] = W x[t]` (+ what is added): W `[n_out, n_in]`, x f32 `[tokens, n_in]`, y f32 `[tokens, n_out]`. The bits of a
/// token's result do not depend on the other tokens, nor on the variant unless that is on tensor cores.
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
    let sizes = ProductSizes { tokens, n_out, n_in, kind: w.kind(), aligned: w.ptr().addr().is_multiple_of(16) };
    let params = ProductParams {
        w: w.ptr(),
        x: x.ptr(),
        y: y.ptr_mut(),
        add: added,
        scratch: std::ptr::null_mut(),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Grids, tokens and first x of the launches of a call, from address 0 on.
    fn steps(ask: &ProductSizes) -> Vec<([u32; 3], u32, usize)> {
        let params = ProductParams {
            w: std::ptr::null(),
            x: std::ptr::null(),
            y: std::ptr::null_mut(),
            add: std::ptr::null(),
            scratch: std::ptr::null_mut(),
            n_in: axis(ask.n_in),
            n_out: axis(ask.n_out),
            tokens: axis(ask.tokens),
            x_stride: axis(ask.n_in),
            y_stride: axis(ask.n_out),
            add_stride: 0,
        };
        let [_, kernel] = on_tensor_cores(ask).expect("fits");
        let call = Step { kernel, launch: products_launch(ask, ask.tokens), params, early: false };
        let steps = mma_steps(ask, &call, std::ptr::null_mut());
        assert!(steps.iter().all(|step| step.params.add.is_null()));
        steps.iter().map(|step| (step.launch.grid, step.params.tokens, step.params.x.addr())).collect()
    }

    #[test]
    fn passes_cover_all_tokens_and_bound_the_scratch() {
        let ask = ProductSizes { tokens: 2000, n_out: 300, n_in: 10_240, kind: Kind::F16, aligned: true };
        let second = 1536 * 10_240 * 4;
        let all =
            [([1536, 1, 1], 1536, 0), ([12, 3, 1], 1536, 0), ([464, 1, 1], 464, second), ([4, 3, 1], 464, second)];
        assert_eq!(steps(&ask), all);
        assert!(4 * of_scratch(&ask, pass(&ask)) <= SCRATCH);
        let few = ProductSizes { tokens: 32, ..ask };
        assert_eq!(steps(&few), [([32, 1, 1], 32, 0), ([1, 5, 1], 32, 0)]);
        assert_eq!(pass(&ProductSizes { n_in: 1 << 20, ..ask }), 128, "a block's tokens at least");
    }

    #[test]
    fn tensor_cores_say_what_they_do_not_take() {
        let ask = ProductSizes { tokens: 64, n_out: 64, n_in: 64, kind: Kind::Bf16, aligned: true };
        let refused = |ask| on_tensor_cores(&ask).err();
        assert_eq!(refused(ask), None);
        let unaligned = Some("rows of the matrix do not start at multiples of 16 bytes".to_owned());
        assert_eq!(refused(ProductSizes { aligned: false, ..ask }), unaligned);
        assert_eq!(refused(ProductSizes { n_in: 68, ..ask }), unaligned);
        assert!(refused(ProductSizes { kind: Kind::F32, ..ask }).is_some_and(|why| why.contains("f32")));
        assert!(refused(ProductSizes { n_out: 4_194_241, ..ask }).is_some_and(|why| why.contains("4194240")));
    }
}
