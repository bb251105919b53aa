//! `qsa.scores`: how much a query wants each complete block that it sees.

use varve_gpu::qsa::{ScoresParams, scores_thread};

use super::checks::{aligned, axis, count, matrix, quads, row_stride};
use super::dispatch::{OpError, Pick, Table, Variant};
use crate::backend::{Launch, Stream, View, ViewMut};

/// Sizes of a call.
#[derive(Clone, Copy, Debug)]
pub struct ScoresSizes {
    /// Tokens.
    pub tokens: usize,
    /// Complete blocks that the last token sees.
    pub blocks: usize,
}

/// The only variant.
pub static QSA_SCORES: Table<ScoresSizes, ScoresParams> = Table {
    op: "qsa.scores",
    rows: &[Variant::base(
        "thread",
        |_| Ok(&scores_thread::QSA_SCORES_THREAD),
        |ask| {
            let blocks = ask.blocks.div_ceil(scores_thread::BOUNDS.threads as usize);
            Launch { grid: [axis(blocks), axis(ask.tokens), 1], ..Launch::new(1, scores_thread::BOUNDS.threads) }
        },
    )],
};

/// Operands of [`scores`].
pub struct ScoresArgs<'a> {
    /// f32 `[tokens, heads * dim]`, dense: index queries, normed and rotated.
    pub q: View<'a, f32, 2>,
    /// f32 `[blocks, dim]`, dense: keys of complete blocks.
    pub keys: View<'a, f32, 2>,
    /// f32 `[tokens, at least the blocks that the last token sees]`; only blocks that a token sees are written.
    pub scores: ViewMut<'a, f32, 2>,
    /// Position of the first token.
    pub first: usize,
    /// Tokens of a block.
    pub ratio: usize,
}

/// `scores[t][b] = sum over heads of max(0, q[t, h] . keys[b]) / sqrt(dim)` for every complete block that token t sees.
///
/// # Errors
/// [`OpError::Layout`] or [`OpError::Value`] name the operand; nothing was enqueued then. [`OpError::Launch`] otherwise.
pub fn scores(pick: Pick<'_>, stream: &Stream, mut args: ScoresArgs<'_>) -> Result<&'static str, OpError> {
    let op = QSA_SCORES.op;
    let ([tokens, width], [have, dim]) = (args.q.dims, args.keys.dims);
    let dim_u32 = quads(op, "values of a key", dim, i32::MAX as usize)?;
    matrix(op, "q", &args.q, [tokens, width / dim * dim])?;
    let blocks = (args.first + tokens) / args.ratio.max(1);
    matrix(op, "keys", &args.keys, [have.max(blocks), dim])?;
    args.scores.expect(op, "scores", [tokens, args.scores.dims[1].max(blocks)])?;
    aligned(op, "scores", args.scores.is_aligned(4))?;
    let params = ScoresParams {
        q: args.q.ptr(),
        keys: args.keys.ptr(),
        stride: row_stride(op, "scores strides", args.scores.strides, 1)?,
        scores: args.scores.ptr_mut(),
        first: count(op, "position", args.first, i32::MAX as u32)?,
        tokens: count(op, "tokens", tokens, 65_535)?,
        heads: count(op, "heads", width / dim, 65_535)?,
        dim: dim_u32,
        ratio: count(op, "tokens of a block", args.ratio.max(1), 65_535)?,
        scale: 1.0 / (dim as f32).sqrt(),
        reserved: 0,
    };
    if tokens == 0 || blocks == 0 {
        return Ok(QSA_SCORES.base().name);
    }
    // SAFETY: shapes, strides and alignment were checked; views borrow their buffers, and scores' exclusively.
    unsafe { QSA_SCORES.enqueue(pick, stream, &ScoresSizes { tokens, blocks }, params) }
}
