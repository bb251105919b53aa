//! `qsa.block_keys`: index keys of the token blocks that a call completes.

use varve_gpu::qsa::{BlockKeysParams, block_keys_warp};

use super::attn_norm_rope::RopeTables;
use super::checks::{axis, count, matrix, positive, quads, rows_in, vector};
use super::dispatch::{OpError, Pick, Table, Variant};
use crate::backend::{Launch, Stream, View, ViewMut};

/// Sizes of a call.
#[derive(Clone, Copy, Debug)]
pub struct BlockKeysSizes {
    /// Blocks to write.
    pub blocks: usize,
}

/// The only variant.
pub static QSA_BLOCK_KEYS: Table<BlockKeysSizes, BlockKeysParams> = Table {
    op: "qsa.block_keys",
    rows: &[Variant::base(
        "warp",
        |_| Ok(&block_keys_warp::QSA_BLOCK_KEYS_WARP),
        |ask| Launch::new(axis(ask.blocks.div_ceil(block_keys_warp::WARPS as usize)), block_keys_warp::BOUNDS.threads),
    )],
};

/// Operands of [`block_keys`].
pub struct BlockKeysArgs<'a> {
    /// f32 `[tokens, dim]`: raw index keys of the call's tokens, the first at position `rope.first`.
    pub raw: View<'a, f32, 2>,
    /// f32 `[ratio - 1, dim]`: raw keys of the tokens before, oldest first.
    pub window: View<'a, f32, 2>,
    /// f32 `[dim]`: gain of the key norm.
    pub gain: View<'a, f32, 1>,
    /// f32 `[blocks of the context, dim]`.
    pub keys: ViewMut<'a, f32, 2>,
    /// Angles.
    pub rope: RopeTables<'a>,
    /// Tokens of a block, at least 2.
    pub ratio: usize,
    /// `rms_norm_eps`.
    pub eps: f32,
}

/// Writes the key of every block whose last token is in the call: `rope(norm(mean of its raw keys))` at the position of
/// its first token. The window is not moved on: that is `conv.window`'s.
///
/// # Errors
/// [`OpError::Layout`] or [`OpError::Value`] name the operand; nothing was enqueued then. [`OpError::Launch`] otherwise.
pub fn block_keys(pick: Pick<'_>, stream: &Stream, mut args: BlockKeysArgs<'_>) -> Result<&'static str, OpError> {
    let op = QSA_BLOCK_KEYS.op;
    let ([tokens, dim], ratio, first) = (args.raw.dims, args.ratio, args.rope.first);
    if ratio < 2 {
        return Err(OpError::Value { op, what: "tokens of a block", got: ratio.to_string(), rule: "at least 2" });
    }
    let (first_block, end) = (first / ratio, (first + tokens) / ratio);
    let dim_u32 = quads(op, "values of a key", dim, i32::MAX as usize)?;
    matrix(op, "window", &args.window, [ratio - 1, dim])?;
    vector(op, "gain", &args.gain, dim)?;
    positive(op, "eps", args.eps)?;
    args.keys.expect(op, "keys", [args.keys.dims[0].max(end), dim])?;
    matrix(op, "keys", &args.keys.as_view(), args.keys.dims)?;
    let params = BlockKeysParams {
        raw_stride: rows_in(op, "raw", &args.raw, [tokens, dim])?,
        raw: args.raw.ptr(),
        window: args.window.ptr(),
        gain: args.gain.ptr(),
        keys: args.keys.ptr_mut(),
        rope: args.rope.check(op, tokens, dim)?,
        first_block: count(op, "blocks", first_block, i32::MAX as u32)?,
        blocks: count(op, "blocks", end - first_block, i32::MAX as u32)?,
        ratio: count(op, "tokens of a block", ratio, 65_535)?,
        dim: dim_u32,
        eps: args.eps,
        inv_dim: 1.0 / dim as f32,
        inv_ratio: 1.0 / ratio as f32,
    };
    if end == first_block {
        return Ok(QSA_BLOCK_KEYS.base().name);
    }
    // SAFETY: shapes, strides, alignment and positions were checked; views borrow their buffers, and keys' exclusively.
    unsafe { QSA_BLOCK_KEYS.enqueue(pick, stream, &BlockKeysSizes { blocks: end - first_block }, params) }
}
