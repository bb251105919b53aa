//! `qsa.append`: index keys of new cells: pooled keys of the blocks that they complete, and what the next call needs.

use varve_gpu::qsa::{AppendParams, INDEX_DIM, RATIO, append_warp};

use super::attn_norm_rope::RopeTables;
use super::checks::{axis, count, matrix, positive, rows_in, vector};
use super::dispatch::{OpError, Pick, Table, Variant};
use super::qsa_steps::steps_in;
use crate::backend::{Launch, Stream, View, ViewMut};

/// Sizes of a call.
#[derive(Clone, Copy, Debug)]
pub struct AppendSizes {
    /// Tokens.
    pub tokens: usize,
}

/// The only variant.
pub static QSA_APPEND: Table<AppendSizes, AppendParams> = Table {
    op: "qsa.append",
    rows: &[Variant::base(
        "warp",
        |_| Ok(&append_warp::QSA_APPEND_WARP),
        |ask| {
            let blocks = ask.tokens.div_ceil(RATIO); // whatever the phase of the first
            Launch::new(axis(blocks.div_ceil(append_warp::WARPS as usize)), append_warp::BOUNDS.threads)
        },
    )],
};

/// Operands of [`append`].
pub struct AppendArgs<'a> {
    /// f32 `[tokens, 128]`: raw index keys of the call's tokens.
    pub raw: View<'a, f32, 2>,
    /// u32 `[tokens, 4]`: step records, positions ascending without gaps.
    pub steps: View<'a, u32, 2>,
    /// f32 `[128]`: gain of the key norm.
    pub gain: View<'a, f32, 1>,
    /// f32 `[3, 128]`: raw keys of the newest cells by position modulo 4.
    pub tail: ViewMut<'a, f32, 2>,
    /// f32 `[blocks, 128]`: pooled keys; blocks beyond are not written.
    pub pooled: ViewMut<'a, f32, 2>,
    /// f32 `[128]`: the dead key, written with position 0.
    pub dead: ViewMut<'a, f32, 1>,
    /// Angles by position; `first` is not read.
    pub rope: RopeTables<'a>,
    /// Raw keys are rounded to f16 first.
    pub round_to_f16: bool,
    /// `rms_norm_eps`.
    pub eps: f32,
}

/// Writes the pooled key of every block whose last cell is in the call, the raw tail, and with position 0 the dead key.
///
/// # Errors
/// [`OpError::Layout`] or [`OpError::Value`] name the operand; nothing was enqueued then. [`OpError::Launch`] otherwise.
pub fn append(pick: Pick<'_>, stream: &Stream, mut args: AppendArgs<'_>) -> Result<&'static str, OpError> {
    let op = QSA_APPEND.op;
    let ([tokens, _], [blocks, _]) = (args.raw.dims, args.pooled.dims);
    vector(op, "gain", &args.gain, INDEX_DIM)?;
    positive(op, "eps", args.eps)?;
    matrix(op, "tail", &args.tail.as_view(), [RATIO - 1, INDEX_DIM])?;
    matrix(op, "pooled", &args.pooled.as_view(), [blocks, INDEX_DIM])?;
    vector(op, "dead", &args.dead.as_view(), INDEX_DIM)?;
    let tables = RopeTables { first: 0, ..args.rope }.check(op, 0, INDEX_DIM)?;
    let params = AppendParams {
        raw_stride: rows_in(op, "raw", &args.raw, [tokens, INDEX_DIM])?,
        raw: args.raw.ptr(),
        gain: args.gain.ptr(),
        tail: args.tail.ptr_mut(),
        pooled: args.pooled.ptr_mut(),
        dead: args.dead.ptr_mut(),
        cos: tables.cos,
        sin: tables.sin,
        steps: steps_in(op, &args.steps, tokens)?,
        tokens: count(op, "tokens", tokens, i32::MAX as u32)?,
        max_blocks: count(op, "blocks", blocks, i32::MAX as u32)?,
        positions: count(op, "positions", args.rope.cos.dims[0], i32::MAX as u32)?,
        half: tables.half,
        round_to_f16: args.round_to_f16.into(),
        eps: args.eps,
        reserved: 0,
    };
    if tokens == 0 {
        return Ok(QSA_APPEND.base().name);
    }
    // SAFETY: shapes, strides and alignment were checked, and the kernel checks positions against what is there; views
    // borrow their buffers, and those that are written exclusively.
    unsafe { QSA_APPEND.enqueue(pick, stream, &AppendSizes { tokens }, params) }
}
