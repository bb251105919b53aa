//! `qsa.store`: keys and values of tokens into their cells.

use varve_gpu::qsa::HEAD_DIM;
use varve_gpu::qsa::store_warp::{self, StoreParams};

use super::checks::{axis, count, rows_in};
use super::dispatch::{OpError, Pick, Table, Variant};
use super::qsa_cells::{CellKind, CellRowsMut, pages};
use super::qsa_steps::steps_in;
use crate::backend::{Launch, Stream, View};

/// Sizes of a call.
#[derive(Clone, Copy, Debug)]
pub struct StoreSizes {
    /// Tokens.
    pub tokens: usize,
    /// Key heads.
    pub kv_heads: usize,
    /// Format of the cells.
    pub kind: CellKind,
}

/// The only variant.
pub static QSA_STORE: Table<StoreSizes, StoreParams> = Table {
    op: "qsa.store",
    rows: &[Variant::base(
        "warp",
        |ask| {
            Ok(ask.kind.of([
                &store_warp::QSA_STORE_WARP_F32,
                &store_warp::QSA_STORE_WARP_F16,
                &store_warp::QSA_STORE_WARP_I8,
            ]))
        },
        |ask| {
            let rows = ask.tokens * ask.kv_heads;
            Launch::new(axis(rows.div_ceil(store_warp::WARPS as usize)), store_warp::BOUNDS.threads)
        },
    )],
};

/// Operands of [`store`].
pub struct StoreArgs<'a> {
    /// f32 `[tokens, kv_heads * 256]`, normed and rotated; rows at multiples of 16 bytes.
    pub k: View<'a, f32, 2>,
    /// As `k`.
    pub v: View<'a, f32, 2>,
    /// u32 `[tokens, 4]`, dense: `StepRecord`s, whose `pos` says the cell. No position twice.
    pub steps: View<'a, u32, 2>,
    /// Keys of all cells.
    pub k_cells: CellRowsMut<'a>,
    /// Values of all cells, in the same format.
    pub v_cells: CellRowsMut<'a>,
    /// u32 `[blocks]`: the page of each block of 4 cells, or `NO_PAGE`.
    pub table: View<'a, u32, 1>,
}

/// Writes each token's keys and values into its cell; a cell whose block is not in the table, or whose page is not in memory, is
/// left out. i8: `S = f16(max |x| / 127)` of 64 values, `code = clamp(rint(x / S), -127, 127)`, 0 where S is 0.
///
/// # Errors
/// [`OpError::Layout`] or [`OpError::Value`] name the operand; nothing was enqueued then. [`OpError::Launch`] otherwise.
pub fn store(pick: Pick<'_>, stream: &Stream, mut args: StoreArgs<'_>) -> Result<&'static str, OpError> {
    let op = QSA_STORE.op;
    let [tokens, width] = args.k.dims;
    let (kind, sizes) = (args.k_cells.as_rows().kind(), args.k_cells.as_rows().sizes());
    if args.v_cells.as_rows().kind() != kind {
        let got = format!("{:?} beside keys of {kind:?}", args.v_cells.as_rows().kind());
        return Err(OpError::Value { op, what: "format of values", got, rule: "both must have one format" });
    }
    let kv_heads = sizes[1];
    if kv_heads.checked_mul(HEAD_DIM) != Some(width) {
        let got = format!("{width} values for {kv_heads} heads");
        return Err(OpError::Value { op, what: "width of k", got, rule: "256 values to a key head of the cells" });
    }
    let params = StoreParams {
        k_stride: rows_in(op, "k", &args.k, [tokens, width])?,
        v_stride: rows_in(op, "v", &args.v, [tokens, width])?,
        k: args.k.ptr(),
        v: args.v.ptr(),
        steps: steps_in(op, &args.steps, tokens)?,
        k_rows: args.k_cells.expect(op, "k_cells", sizes)?,
        v_rows: args.v_cells.expect(op, "v_cells", sizes)?,
        pages: pages(op, &args.table, sizes)?,
        tokens: count(op, "tokens", tokens, i32::MAX as u32 / 65_536)?,
        reserved: 0,
    };
    if tokens == 0 {
        return Ok(QSA_STORE.base().name);
    }
    // SAFETY: shapes, strides and alignment were checked; pages outside are the kernel's matter; views borrow their buffers, and
    // those of the cells exclusively.
    unsafe { QSA_STORE.enqueue(pick, stream, &StoreSizes { tokens, kv_heads, kind }, params) }
}
