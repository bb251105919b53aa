//! `mmvq.quantize`: vectors to Q8_1, the form in which products with quantized matrices take them.

use varve_gpu::format::{il, q8_1};
use varve_gpu::mmvq::{QuantizeParams, quantize};

use super::checks::{aligned, axis, count, row_stride};
use super::dispatch::{OpError, Pick, Table, Variant};
use crate::backend::{Launch, Stream, View, ViewMut};

/// Sizes of a call.
#[derive(Clone, Copy, Debug)]
pub struct QuantizeSizes {
    /// Blocks of 32 values, padding columns included where the copy is written.
    pub blocks: usize,
    /// Whether the interleaved copy is written.
    pub interleaved: bool,
}

/// The only variant.
pub static MMVQ_QUANTIZE: Table<QuantizeSizes, QuantizeParams> = Table {
    op: "mmvq.quantize",
    rows: &[Variant::base(
        "warp",
        |ask| Ok(if ask.interleaved { &quantize::MMVQ_QUANTIZE_WARP_IL } else { &quantize::MMVQ_QUANTIZE_WARP }),
        |ask| Launch::new(axis(ask.blocks.div_ceil(quantize::WARPS)), quantize::BOUNDS.threads),
    )],
};

/// Most vectors of a call.
pub const MAX_COLUMNS: usize = il::MAX_COLUMNS;

/// Quantized vectors on a device, for [`product`](super::mmvq_product::product).
#[derive(Clone, Copy, Debug)]
pub struct Quantized<'a> {
    /// The vectors as they were, f32 `[columns, n_in]`, if they are there: the variant that quantizes itself reads only these.
    pub x: Option<View<'a, f32, 2>>,
    /// Q8_1 `[columns, n_in / 32]`, [`q8_words`] words.
    pub q8: View<'a, u32, 1>,
    /// The interleaved copy, [`il_words`] words, if there is one: without it the base variant runs.
    pub il: Option<View<'a, u32, 1>>,
    /// Values of a vector.
    pub n_in: usize,
    /// Vectors, 1 to [`MAX_COLUMNS`].
    pub columns: usize,
}

/// Where [`quantize`] writes; the fields are those of the same name of [`Quantized`].
#[derive(Debug)]
pub struct QuantizedMut<'a> {
    /// Q8_1, [`q8_words`] words.
    pub q8: ViewMut<'a, u32, 1>,
    /// The interleaved copy, [`il_words`] words, or nothing.
    pub il: Option<ViewMut<'a, u32, 1>>,
}

/// Words of `columns` vectors of `n_in` values in Q8_1.
#[must_use]
pub const fn q8_words(n_in: usize, columns: usize) -> usize {
    columns * q8_1::vector_words(n_in)
}

/// Words of their interleaved copy, for 1 to [`MAX_COLUMNS`] columns.
#[must_use]
pub const fn il_words(n_in: usize, columns: usize) -> usize {
    il::words(n_in, columns)
}

/// The number of vectors of a call, if it is one that the kernels take.
pub(super) fn columns(op: &'static str, n: usize) -> Result<u32, OpError> {
    let fits = u32::try_from(n).ok().filter(|_| (1..=MAX_COLUMNS).contains(&n));
    fits.ok_or_else(|| OpError::Value { op, what: "vectors", got: n.to_string(), rule: "there must be 1 to 8 of them" })
}

/// The length of a vector, if it is one that the kernels take.
pub(super) fn length(op: &'static str, n: usize, multiple: usize) -> Result<u32, OpError> {
    if n == 0 || !n.is_multiple_of(multiple) {
        let rule = if multiple == q8_1::VALUES {
            "it must be a multiple of 32 above 0"
        } else {
            "it must be a multiple of the 256 values of a block, above 0"
        };
        return Err(OpError::Value { op, what: "columns of the matrix", got: n.to_string(), rule });
    }
    count(op, "columns of the matrix", n, 1 << 24)
}

/// Quantizes the rows of x, f32 `[columns, n_in]`, 1 to 8 of them, n_in a multiple of 32, and writes the interleaved copy
/// too where `to` has one.
///
/// Returns the variant's name.
///
/// # Errors
/// [`OpError::Layout`] or [`OpError::Value`] name the operand; nothing was enqueued then. Otherwise as
/// [`Table::enqueue`].
pub fn quantize(
    pick: Pick<'_>,
    stream: &Stream,
    x: &View<'_, f32, 2>,
    to: &mut QuantizedMut<'_>,
) -> Result<&'static str, OpError> {
    let op = MMVQ_QUANTIZE.op;
    let [n, n_in] = x.dims;
    let (columns, length) = (columns(op, n)?, length(op, n_in, q8_1::VALUES)?);
    to.q8.expect(op, "q8", [q8_words(n_in, n)])?;
    to.q8.expect_dense(op, "q8")?;
    aligned(op, "q8", to.q8.is_aligned(16))?;
    if let Some(il) = &to.il {
        il.expect(op, "il", [il_words(n_in, n)])?;
        il.expect_dense(op, "il")?;
        aligned(op, "il", il.is_aligned(16))?;
    }
    let (interleaved, padded) = (to.il.is_some(), il::padded(n));
    let sizes = QuantizeSizes { blocks: n_in / q8_1::VALUES * if interleaved { padded } else { n }, interleaved };
    let params = QuantizeParams {
        x: x.ptr(),
        q8: to.q8.ptr_mut(),
        il: to.il.as_mut().map_or(std::ptr::null_mut(), ViewMut::ptr_mut),
        n_in: length,
        columns,
        padded: padded as u32,
        x_stride: row_stride(op, "x strides", x.strides, 1)?,
    };
    // SAFETY: shapes, strides and alignment were checked; views borrow their buffers, and the outputs' exclusively.
    unsafe { MMVQ_QUANTIZE.enqueue(pick, stream, &sizes, params) }
}
