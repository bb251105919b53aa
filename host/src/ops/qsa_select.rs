//! `qsa.select`: the best blocks of each token.

use varve_gpu::qsa::{SelectParams, select_search};

use super::checks::{axis, count, row_stride};
use super::dispatch::{OpError, Pick, Table, Variant};
use crate::backend::{Launch, Stream, View, ViewMut};

/// Sizes of a call.
#[derive(Clone, Copy, Debug)]
pub struct SelectSizes {
    /// Tokens.
    pub tokens: usize,
}

/// The only variant.
pub static QSA_SELECT: Table<SelectSizes, SelectParams> = Table {
    op: "qsa.select",
    rows: &[Variant::base(
        "search",
        |_| Ok(&select_search::QSA_SELECT_SEARCH),
        |ask| Launch::new(axis(ask.tokens), select_search::BOUNDS.threads),
    )],
};

/// Operands of [`select`].
pub struct SelectArgs<'a> {
    /// f32 `[tokens, at least the blocks that the last token sees]`, as `qsa.scores` writes them: >= 0.
    pub scores: View<'a, f32, 2>,
    /// u32 `[tokens, budget]`, dense: the chosen blocks, ascending. Not written for a token that sees no more than `budget`.
    pub chosen: ViewMut<'a, u32, 2>,
    /// Position of the first token.
    pub first: usize,
    /// Tokens of a block.
    pub ratio: usize,
}

/// Chooses the `budget` blocks of largest score for each token that sees more; equal scores go by lower number.
///
/// # Errors
/// [`OpError::Layout`] or [`OpError::Value`] name the operand; nothing was enqueued then. [`OpError::Launch`] otherwise.
pub fn select(pick: Pick<'_>, stream: &Stream, mut args: SelectArgs<'_>) -> Result<&'static str, OpError> {
    let op = QSA_SELECT.op;
    let [tokens, budget] = args.chosen.dims;
    if budget == 0 || args.ratio == 0 {
        let got = format!("{budget} blocks of {} tokens", args.ratio);
        return Err(OpError::Value { op, what: "budget", got, rule: "at least one block of one token" });
    }
    let blocks = (args.first + tokens) / args.ratio;
    args.scores.expect(op, "scores", [tokens, args.scores.dims[1].max(blocks)])?;
    args.chosen.expect_dense(op, "chosen")?;
    let params = SelectParams {
        scores: args.scores.ptr(),
        stride: row_stride(op, "scores strides", args.scores.strides, 1)?,
        chosen: args.chosen.ptr_mut(),
        first: count(op, "position", args.first, i32::MAX as u32)?,
        tokens: count(op, "tokens", tokens, i32::MAX as u32)?,
        ratio: count(op, "tokens of a block", args.ratio, 65_535)?,
        budget: count(op, "budget", budget, i32::MAX as u32)?,
        reserved: 0,
    };
    if tokens == 0 {
        return Ok(QSA_SELECT.base().name);
    }
    // SAFETY: shapes and strides were checked; views borrow their buffers, and chosen's exclusively.
    unsafe { QSA_SELECT.enqueue(pick, stream, &SelectSizes { tokens }, params) }
}
