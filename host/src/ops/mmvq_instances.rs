//! Instances of the variants of `mmvq.product` for the sizes of a call, or why there is none, and their launches.

use varve_gpu::mmvq::{Format, Instance, fused, mma, plain, plain_slot, wide};

use super::checks::axis;
use super::mmvq_product::{QuantizedProductSizes, Rows};
use crate::backend::{Launch, View};

impl QuantizedProductSizes {
    /// The kernel of a list for `columns` columns and `rows` rows a warp.
    fn find(&self, list: &'static [Instance], columns: usize, rows: Option<usize>) -> Option<&'static Instance> {
        let fits = |i: &&Instance| i.format == self.format && i.columns == columns && rows.is_none_or(|r| r == i.rows);
        list.iter().find(fits)
    }
}

/// Blocks of four warps for `rows` rows a block, those of a second matrix behind those of the first.
pub(super) fn launch(ask: &QuantizedProductSizes, rows: usize) -> Launch {
    let all = if ask.rows == Rows::Pair { 2 * span(ask.n_out) } else { ask.n_out };
    Launch::new(axis(all.div_ceil(rows)), plain::BOUNDS.threads)
}

/// Number of the first row of a second matrix: every block has rows of one of them.
pub(super) const fn span(n_out: usize) -> usize {
    n_out.next_multiple_of(16)
}

type Found = Result<&'static Instance, String>;

/// The instance of a variant on the interleaved copy.
pub(super) fn interleaved(ask: &QuantizedProductSizes, list: &'static [Instance], rows: usize) -> Found {
    if !ask.interleaved {
        return Err("the vectors have no interleaved copy".into());
    }
    let room = varve_gpu::format::il::padded(ask.columns);
    let none = || format!("no instance for {} with room for {room} vectors", ask.format.name());
    ask.find(list, room, Some(rows)).ok_or_else(none)
}

/// Whether every other row of the matrix is not 4-byte aligned, and why that is refused.
fn odd_blocks(ask: &QuantizedProductSizes) -> bool {
    ask.format == Format::Q6_K && !ask.n_in.is_multiple_of(2 * Format::Q6_K.block().0)
}
const ODD_BLOCKS: &str = "rows of an odd number of blocks: every other row is not 4-byte aligned";

/// As [`interleaved`], for kernels that load words of 32 bits wherever a row of Q6_K has them.
pub(super) fn hoisted(ask: &QuantizedProductSizes, list: &'static [Instance], rows: usize) -> Found {
    if odd_blocks(ask) {
        return Err(ODD_BLOCKS.into());
    }
    interleaved(ask, list, rows)
}

/// Refused where rows come in runs or tiles of one matrix.
fn of_one_matrix(ask: &QuantizedProductSizes) -> Result<(), String> {
    let why = "brings all rows of one matrix in order, not chosen ones or those of two matrices";
    if ask.rows == Rows::All { Ok(()) } else { Err(why.into()) }
}

/// Whether `fused` can load the vectors as they are.
pub(super) fn takes_as_they_are(x: &View<'_, f32, 2>) -> bool {
    x.is_aligned(16) && (x.dims[0] == 1 || x.strides[0].is_multiple_of(4))
}

const NOT_AS_THEY_ARE: &str = "the vectors are not there in f32, 16 bytes aligned, with a stride of fours";

/// The instance of `fused`. It quantizes one or two vectors itself, and takes more as they are quantized.
pub(super) fn fusing(ask: &QuantizedProductSizes) -> Found {
    of_one_matrix(ask)?;
    if ask.columns <= fused::QUANTIZES && !ask.as_they_are {
        return Err(NOT_AS_THEY_ARE.into());
    }
    let room = varve_gpu::format::il::padded(ask.columns);
    let none = || format!("no instance for {} with room for {room} vectors", ask.format.name());
    fused::ALL.into_iter().find_map(|list| ask.find(list, room, None)).ok_or_else(none)
}

/// Shared memory of its block: pieces of rows, and the vectors, which may be too long for it.
pub(super) fn fused_shared(format: Format, columns: usize, n_in: usize) -> u32 {
    fused::shared_of(format, varve_gpu::format::il::padded(columns), u32::try_from(n_in).unwrap_or(u32::MAX))
}

/// Its launch: a block an SM, as far as there are rows for its warps.
pub(super) fn fused_launch(ask: &QuantizedProductSizes) -> Launch {
    let room = varve_gpu::format::il::padded(ask.columns);
    let blocks = ask.n_out.div_ceil(fused::warps(room) as usize).min(ask.sms as usize);
    let dynamic_shared = fused_shared(ask.format, ask.columns, ask.n_in);
    Launch { dynamic_shared, ..Launch::new(axis(blocks), fused::bounds(room).threads) }
}

/// The block of `mma`, if rows of that length fit.
fn mma_block(ask: &QuantizedProductSizes) -> Option<mma::Block> {
    let ((values, bytes), n_in) = (ask.format.block(), u32::try_from(ask.n_in).ok()?);
    mma::Block::of(n_in, u32::try_from(ask.n_in / values * bytes).ok()?)
}

/// The block of `wide`, if the format has kernels and rows of that length fit.
fn wide_block(ask: &QuantizedProductSizes) -> Option<wide::Block> {
    let of = |n: usize| u32::try_from(n).ok();
    wide::Block::of(ask.format, [of(ask.n_in)?, of(ask.n_out)?], ask.sms)
}

/// The instance of `wide`, which quantizes its one vector itself.
pub(super) fn by_64_values(ask: &QuantizedProductSizes) -> Found {
    of_one_matrix(ask)?;
    if !ask.as_they_are {
        return Err(NOT_AS_THEY_ARE.into());
    }
    let none = || format!("no instance for {} and {} vectors", ask.format.name(), ask.columns);
    if ask.columns != 1 || !wide::INSTANCES.iter().any(|i| i.format == ask.format) {
        return Err(none());
    }
    let why = || format!("rows of {} values are not whole units of 64, or are too long", ask.n_in);
    let block = wide_block(ask).ok_or_else(why)?;
    ask.find(wide::INSTANCES, ask.columns, Some(block.rows as usize)).ok_or_else(none)
}

/// Its launch: a block an SM, as far as there are rows: every SM brings its share, even where warps of it have none.
pub(super) fn wide_launch(ask: &QuantizedProductSizes) -> Launch {
    let (threads, dynamic_shared) = wide_block(ask).map_or((32, 0), |block| (block.threads, block.shared_bytes));
    let blocks = ask.n_out.min(ask.sms as usize);
    Launch { dynamic_shared, ..Launch::new(axis(blocks), threads) }
}

/// The instance of `mma`, which quantizes all vectors itself.
pub(super) fn on_tensor_cores(ask: &QuantizedProductSizes) -> Found {
    of_one_matrix(ask)?;
    if !ask.as_they_are {
        return Err(NOT_AS_THEY_ARE.into());
    }
    if odd_blocks(ask) {
        return Err(ODD_BLOCKS.into());
    }
    let why =
        || format!("rows of {} values are not one to three units of 128 for each warp, or are too long", ask.n_in);
    let block = mma_block(ask).ok_or_else(why)?;
    let none = || format!("no instance for {}", ask.format.name());
    ask.find(mma::INSTANCES, mma::COLUMNS, Some(block.own as usize)).ok_or_else(none)
}

/// Its launch: a block an SM, as far as there are tiles.
pub(super) fn mma_launch(ask: &QuantizedProductSizes) -> Launch {
    let (threads, dynamic_shared) = mma_block(ask).map_or((32, 0), |block| (block.threads, block.shared_bytes));
    let blocks = ask.n_out.div_ceil(mma::ROWS as usize).min(ask.sms as usize);
    Launch { dynamic_shared, ..Launch::new(axis(blocks), threads) }
}

/// The base's: its columns are at least the call's.
pub(super) fn based(ask: &QuantizedProductSizes) -> Found {
    let room = match ask.columns {
        1 => 1,
        2..=4 => 4,
        _ => 8,
    };
    let found = [plain::INSTANCES, plain_slot::INSTANCES].into_iter().find_map(|list| ask.find(list, room, None));
    found.ok_or_else(|| format!("no instance for {}", ask.format.name()))
}

/// Rows of a block of `plain`: its warps share a row or two, but for formats of one slot, where each has one.
pub(super) fn base_rows(ask: &QuantizedProductSizes, instance: &Instance) -> usize {
    let shared = plain::INSTANCES.iter().any(|i| i.format == ask.format);
    if shared { instance.rows } else { 4 * instance.rows }
}
