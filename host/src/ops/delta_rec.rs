//! `delta.rec`: the gated delta rule over the tokens of a prompt or of a decode window.

use varve_gpu::delta::row_group::BLOCKS;
use varve_gpu::delta::{RecParams, rec_cols, rec_keyhead, rec_lanes, window_step};
use varve_gpu::geometry::{ROW_GROUPS, WINDOW_TOKENS};

use super::checks::{aligned, axis, row_stride};
use super::delta_sizes::{Batch, DeltaSizes, LogGate, Operands, check_tokens};
use super::dispatch::{Dispatch, Needs, OpError, Pick, Preferred, Spread, Table, Variant};
use super::exactness::Exactness;
use crate::backend::{Launch, Stream, View, ViewMut};

/// The variants, most wanted first. Order and conditions: docs/src/dispatch.md, measured in docs/src/measured/delta.md.
pub static DELTA_REC: Table<DeltaSizes, RecParams> = Table {
    op: "delta.rec",
    rows: &[
        Variant {
            name: "window",
            kernel: |ask| {
                if ask.longest > WINDOW_TOKENS {
                    return Err(format!("{} tokens, a window holds {WINDOW_TOKENS}", ask.longest));
                }
                Ok(&window_step::DELTA_REC_WINDOW)
            },
            launch: |ask| blocks(ask, ask.value_heads * BLOCKS, [32, 1, 1]),
            staged: None,
            needs: Needs { cc: 80, spread: Spread::Any },
            preferred: Preferred::Always,
            exactness: Exactness::Bitwise,
        },
        Variant {
            name: "lanes",
            kernel: |ask| {
                ask.instance([
                    None, // one warp a block leaves three schedulers idle: `keyhead` is faster
                    Some(&rec_lanes::DELTA_REC_LANES_VPK2),
                    Some(&rec_lanes::DELTA_REC_LANES_VPK3),
                    Some(&rec_lanes::DELTA_REC_LANES_VPK4),
                ])
            },
            launch: |ask| blocks(ask, ask.key_heads * BLOCKS, [axis(32 * ask.vpk()), 1, 1]),
            staged: None,
            needs: Needs { cc: 80, spread: Spread::BlockAnSm },
            preferred: Preferred::Always,
            exactness: Exactness::Bitwise,
        },
        Variant {
            name: "keyhead",
            kernel: |ask| {
                ask.instance([
                    Some(&rec_keyhead::DELTA_REC_KEYHEAD_VPK1),
                    Some(&rec_keyhead::DELTA_REC_KEYHEAD_VPK2),
                    Some(&rec_keyhead::DELTA_REC_KEYHEAD_VPK3),
                    Some(&rec_keyhead::DELTA_REC_KEYHEAD_VPK4),
                ])
            },
            launch: |ask| blocks(ask, ask.key_heads * ROW_GROUPS, [rec_cols::COLUMNS, 4, 1]),
            staged: None,
            needs: Needs { cc: 80, spread: Spread::OneWave },
            preferred: Preferred::Always,
            exactness: Exactness::Bitwise,
        },
        Variant {
            name: "cols",
            kernel: |_| Ok(&rec_cols::DELTA_REC_COLS),
            launch: |ask| blocks(ask, ask.value_heads * ROW_GROUPS, [rec_cols::COLUMNS, 4, 1]),
            staged: None,
            needs: Needs::ANY,
            preferred: Preferred::Always,
            exactness: Exactness::Base,
        },
    ],
};

/// `blocks` blocks for each sequence.
fn blocks(ask: &DeltaSizes, blocks: usize, block: [u32; 3]) -> Launch {
    Launch { grid: [axis(blocks), axis(ask.sequences), 1], block, dynamic_shared: 0 }
}

/// What becomes of the state in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateAfter {
    /// It is the state after the last token.
    Updated,
    /// It stays as it was: a window of drafts is only looked at.
    Kept,
}

/// Operands of [`recurrence`]. No two may overlap; all addresses and row strides are multiples of 16 bytes (gate and
/// beta excepted).
pub struct RecArgs<'a> {
    /// f32 `[tokens, (2 key_heads + value_heads) * 128]`: q, k (L2-normalised, |.| <= 1), v of a token.
    pub qkv: View<'a, f32, 2>,
    /// f32 `[tokens, value_heads]`.
    pub gate: LogGate<'a>,
    /// f32 `[tokens, value_heads]`, in 0..=1.
    pub beta: View<'a, f32, 2>,
    /// f32 `[sequences * 128, value_heads, 128]`, contiguous: of each sequence, row r of all heads together.
    pub state: ViewMut<'a, f32, 3>,
    /// f32 `[tokens, value_heads * 128]`: output, already times 1/sqrt(128).
    pub y: ViewMut<'a, f32, 2>,
    /// Key heads; value head h reads key head h mod key_heads.
    pub key_heads: usize,
    /// Whether the state is written.
    pub state_after: StateAfter,
    /// The sequences that the tokens belong to; none: they are one.
    pub batch: Option<Batch<'a>>,
}

/// The gated delta rule, token after token (Gated Delta Networks, arXiv 2412.06464), by the preferred variant.
///
/// Returns the variant's name. Any split of a call gives the same bits and so do all variants, but for those whose promise
/// is a rounding bound: see docs/src/exactness.md#chunked. Each sequence of a batch gets the bits of a call of its own.
///
/// # Errors
/// [`OpError::Layout`] or [`OpError::Value`] name the operand; nothing was enqueued then. [`OpError::Launch`] otherwise.
pub fn recurrence(dispatch: &Dispatch, stream: &Stream, mut args: RecArgs<'_>) -> Result<&'static str, OpError> {
    let (sizes, params) = check(&mut args)?;
    if sizes.tokens == 0 {
        return Ok(DELTA_REC.base().name);
    }
    enqueue(Pick::Best(dispatch), stream, &sizes, params)
}

/// [`recurrence`] by the named variant, for tests and measurements.
///
/// # Errors
/// As [`recurrence`], and [`OpError::NoVariant`] or [`OpError::Unfit`].
pub fn recurrence_by(variant: &str, stream: &Stream, mut args: RecArgs<'_>) -> Result<&'static str, OpError> {
    let (sizes, params) = check(&mut args)?;
    if sizes.tokens == 0 {
        return Ok(DELTA_REC.row(variant)?.name);
    }
    enqueue(Pick::Named(variant), stream, &sizes, params)
}

fn enqueue(pick: Pick<'_>, stream: &Stream, sizes: &DeltaSizes, params: RecParams) -> Result<&'static str, OpError> {
    // SAFETY: `check` established the shapes, strides and alignment that `RecParams` asks for, the table's `launch` the
    // grid that the kernel's header asks for; views borrow their buffers, which are freed in stream order.
    unsafe { DELTA_REC.enqueue(pick, stream, sizes, params) }
}

fn check(args: &mut RecArgs<'_>) -> Result<(DeltaSizes, RecParams), OpError> {
    let op = DELTA_REC.op;
    let RecArgs { qkv, gate, beta, state, key_heads, batch, .. } = args;
    let operands = Operands { qkv, gate, beta, state, key_heads: *key_heads, batch: *batch };
    let (mut sizes, params) = check_tokens(op, operands)?;
    sizes.state_kept = args.state_after == StateAfter::Kept;
    args.y.expect(op, "y", [sizes.tokens, sizes.y_width()])?;
    aligned(op, "y", args.y.is_aligned(16))?;
    let y_stride = row_stride(op, "y strides", args.y.strides, 4)?;
    let keep_state = u32::from(sizes.state_kept);
    Ok((sizes, RecParams { y: args.y.ptr_mut(), y_stride, keep_state, ..params }))
}
