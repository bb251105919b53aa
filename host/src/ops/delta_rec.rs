//! `delta.rec`: the gated delta rule over the tokens of a prompt or of a decode window.

use varve_gpu::delta::{RecParams, rec_cols, rec_keyhead, rec_lanes, window_step};
use varve_gpu::geometry::{HEAD_DIM, ROW_GROUPS, WINDOW_TOKENS};

use super::delta_sizes::{DeltaSizes, LogGate, aligned, expect, row_stride};
use super::dispatch::{Choice, Dispatch, Needs, OpError, Table, Variant};
use super::exactness::Exactness;
use crate::backend::{Launch, Stream, View, ViewMut};

/// The variants, most wanted first. Order and conditions: docs/src/dispatch.md, measured in docs/src/measured/delta.md.
pub static DELTA_REC: Table<DeltaSizes, RecParams> = Table {
    op: "delta.rec",
    rows: &[
        Variant {
            name: "window",
            kernel: |ask| {
                if ask.tokens > WINDOW_TOKENS {
                    return Err(format!("{} tokens, a window holds {WINDOW_TOKENS}", ask.tokens));
                }
                Ok(&window_step::DELTA_REC_WINDOW)
            },
            launch: |ask| Launch::new([grid(ask.value_heads * window_step::BLOCKS), 1, 1], [32, 1, 1]),
            needs: Needs { cc: 80, one_wave: false },
            exactness: Exactness::Bitwise,
        },
        Variant {
            name: "lanes",
            kernel: |ask| {
                ask.instance([
                    &rec_lanes::DELTA_REC_LANES_VPK1,
                    &rec_lanes::DELTA_REC_LANES_VPK2,
                    &rec_lanes::DELTA_REC_LANES_VPK3,
                    &rec_lanes::DELTA_REC_LANES_VPK4,
                ])
            },
            launch: |ask| Launch::new([grid(ask.key_heads * rec_lanes::BLOCKS), 1, 1], [grid(32 * ask.vpk()), 1, 1]),
            needs: Needs { cc: 80, one_wave: true },
            exactness: Exactness::Bitwise,
        },
        Variant {
            name: "keyhead",
            kernel: |ask| {
                ask.instance([
                    &rec_keyhead::DELTA_REC_KEYHEAD_VPK1,
                    &rec_keyhead::DELTA_REC_KEYHEAD_VPK2,
                    &rec_keyhead::DELTA_REC_KEYHEAD_VPK3,
                    &rec_keyhead::DELTA_REC_KEYHEAD_VPK4,
                ])
            },
            launch: |ask| Launch::new([grid(ask.key_heads * ROW_GROUPS), 1, 1], [32, 4, 1]),
            needs: Needs { cc: 80, one_wave: true },
            exactness: Exactness::Bitwise,
        },
        Variant {
            name: "cols",
            kernel: |_| Ok(&rec_cols::DELTA_REC_COLS),
            launch: |ask| Launch::new([grid(ask.value_heads * ROW_GROUPS), 1, 1], [rec_cols::COLUMNS, 4, 1]),
            needs: Needs::ANY,
            exactness: Exactness::Base,
        },
    ],
};

/// Head counts are checked before any launch: at most 8192 heads of at most 8 blocks.
fn grid(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
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
    /// f32 `[tokens, value_heads]`, in 0..=1; strides as `gate`.
    pub beta: View<'a, f32, 2>,
    /// f32 `[128, value_heads, 128]`, contiguous: row r of all heads together.
    pub state: ViewMut<'a, f32, 3>,
    /// f32 `[tokens, value_heads * 128]`: output, already times 1/sqrt(128).
    pub y: ViewMut<'a, f32, 2>,
    /// Key heads; value head h reads key head h mod key_heads.
    pub key_heads: usize,
    /// Whether the state is written.
    pub state_after: StateAfter,
}

/// The gated delta rule, token after token (Gated Delta Networks, arXiv 2412.06464), by the preferred variant.
///
/// Returns the variant's name. Any split of a call gives the same bits, and so do all variants.
///
/// # Errors
/// [`OpError::Shape`] or [`OpError::Value`] name the operand; nothing was enqueued then. [`OpError::Launch`] otherwise.
pub fn recurrence(dispatch: &Dispatch, stream: &Stream, args: RecArgs<'_>) -> Result<&'static str, OpError> {
    let (sizes, params) = check(&args)?;
    if sizes.tokens == 0 {
        return Ok(DELTA_REC.base().name);
    }
    let choice = DELTA_REC.select(dispatch, stream.device(), &sizes)?;
    enqueue(stream, &choice, params)
}

/// [`recurrence`] by the named variant, for tests and measurements.
///
/// # Errors
/// As [`recurrence`], and [`OpError::NoVariant`] or [`OpError::Unfit`].
pub fn recurrence_by(variant: &str, stream: &Stream, args: RecArgs<'_>) -> Result<&'static str, OpError> {
    let row = DELTA_REC.row(variant)?;
    let (sizes, params) = check(&args)?;
    if sizes.tokens == 0 {
        return Ok(row.name);
    }
    let choice = DELTA_REC.fit(row, stream.device(), &sizes);
    let choice = choice.map_err(|reason| OpError::Unfit { op: DELTA_REC.op, variant: row.name, reason })?;
    enqueue(stream, &choice, params)
}

fn enqueue(stream: &Stream, choice: &Choice<RecParams>, params: RecParams) -> Result<&'static str, OpError> {
    // SAFETY: `check` established the shapes, strides and alignment that `RecParams` asks for, the table's `launch` the
    // grid that the kernel's header asks for; views borrow their buffers, which are freed in stream order.
    unsafe { stream.launch(choice.kernel, choice.launch, params)? };
    Ok(choice.variant)
}

fn check(args: &RecArgs<'_>) -> Result<(DeltaSizes, RecParams), OpError> {
    let op = DELTA_REC.op;
    let [tokens, width] = args.qkv.dims;
    let [rows, value_heads, columns] = args.state.dims;
    let sizes = DeltaSizes { key_heads: args.key_heads, value_heads, tokens };
    sizes.check(op)?;
    expect(op, "state", [rows, value_heads, columns], [HEAD_DIM, value_heads, HEAD_DIM])?;
    expect(op, "state strides", args.state.strides, [value_heads * HEAD_DIM, HEAD_DIM, 1])?;
    expect(op, "qkv", [tokens, width], [tokens, sizes.qkv_width()])?;
    expect(op, "gate", args.gate.0.dims, [tokens, value_heads])?;
    expect(op, "beta", args.beta.dims, [tokens, value_heads])?;
    expect(op, "beta strides", args.beta.strides, args.gate.0.strides)?;
    expect(op, "y", args.y.dims, [tokens, sizes.y_width()])?;
    aligned(op, "qkv", args.qkv.ptr())?;
    aligned(op, "state", args.state.ptr())?;
    aligned(op, "y", args.y.ptr())?;
    let params = RecParams {
        qkv: args.qkv.ptr(),
        gate: args.gate.0.ptr(),
        beta: args.beta.ptr(),
        state: args.state.ptr_mut(),
        y: args.y.ptr_mut(),
        tokens: tokens as u64,
        qkv_stride: row_stride(op, "qkv strides", args.qkv.strides, 4)?,
        gate_stride: row_stride(op, "gate strides", args.gate.0.strides, 1)?,
        y_stride: row_stride(op, "y strides", args.y.strides, 4)?,
        key_heads: grid(args.key_heads),
        value_heads: grid(value_heads),
        keep_state: u32::from(args.state_after == StateAfter::Kept),
    };
    Ok((sizes, params))
}
