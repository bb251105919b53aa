//! `delta.commit`: replays the accepted tokens of a decode window into the state.

use varve_gpu::delta::{CommitParams, window_commit, window_step};
use varve_gpu::geometry::{HEAD_DIM, WINDOW_TOKENS};

use super::delta_sizes::{DeltaSizes, LogGate, aligned, count, expect, row_stride};
use super::dispatch::{Dispatch, Needs, OpError, Table, Variant};
use super::exactness::Exactness;
use crate::backend::{Launch, Stream, View, ViewMut};

/// The variants; `tokens` of the sizes is the window's length.
pub static DELTA_COMMIT: Table<DeltaSizes, CommitParams> = Table {
    op: "delta.commit",
    rows: &[Variant {
        name: "window",
        kernel: |ask| {
            if ask.tokens > WINDOW_TOKENS {
                return Err(format!("{} tokens, a window holds {WINDOW_TOKENS}", ask.tokens));
            }
            Ok(&window_commit::DELTA_COMMIT_WINDOW)
        },
        launch: |ask| {
            let blocks = u32::try_from(ask.value_heads * window_step::BLOCKS).unwrap_or(u32::MAX);
            Launch::new([blocks, 1, 1], [32, 1, 1])
        },
        needs: Needs { cc: 80, one_wave: false },
        exactness: Exactness::Base,
    }],
};

/// Operands of [`commit`]; the window's rows as in [`super::delta_rec::RecArgs`].
pub struct CommitArgs<'a> {
    /// f32 `[window, (2 key_heads + value_heads) * 128]`, window <= 8.
    pub qkv: View<'a, f32, 2>,
    /// f32 `[window, value_heads]`.
    pub gate: LogGate<'a>,
    /// f32 `[window, value_heads]`; strides as `gate`.
    pub beta: View<'a, f32, 2>,
    /// f32 `[128, value_heads, 128]`, contiguous; updated in place.
    pub state: ViewMut<'a, f32, 3>,
    /// u32 `[1]` in device memory: how many tokens of the window to replay; 0 leaves the state.
    pub accepted: View<'a, u32, 1>,
    /// Key heads.
    pub key_heads: usize,
}

/// Brings the state from before the window to after its first `accepted` tokens: the bits of that many decode steps.
///
/// # Errors
/// As [`super::delta_rec::recurrence`].
pub fn commit(dispatch: &Dispatch, stream: &Stream, args: CommitArgs<'_>) -> Result<&'static str, OpError> {
    let op = DELTA_COMMIT.op;
    let [window, width] = args.qkv.dims;
    let [rows, value_heads, columns] = args.state.dims;
    let sizes = DeltaSizes { key_heads: args.key_heads, value_heads, tokens: window };
    sizes.check(op)?;
    expect(op, "state", [rows, value_heads, columns], [HEAD_DIM, value_heads, HEAD_DIM])?;
    expect(op, "state strides", args.state.strides, [value_heads * HEAD_DIM, HEAD_DIM, 1])?;
    expect(op, "qkv", [window, width], [window, sizes.qkv_width()])?;
    expect(op, "gate", args.gate.0.dims, [window, value_heads])?;
    expect(op, "beta", args.beta.dims, [window, value_heads])?;
    expect(op, "beta strides", args.beta.strides, args.gate.0.strides)?;
    expect(op, "accepted", args.accepted.dims, [1])?;
    aligned(op, "qkv", args.qkv.ptr())?;
    aligned(op, "state", args.state.ptr())?;
    if window == 0 {
        return Ok(DELTA_COMMIT.base().name);
    }
    let params = CommitParams {
        qkv: args.qkv.ptr(),
        gate: args.gate.0.ptr(),
        beta: args.beta.ptr(),
        state: args.state.ptr_mut(),
        accepted: args.accepted.ptr(),
        window: count(op, "window", window, u32::MAX)?,
        qkv_stride: row_stride(op, "qkv strides", args.qkv.strides, 4)?,
        gate_stride: row_stride(op, "gate strides", args.gate.0.strides, 1)?,
        key_heads: count(op, "key heads", args.key_heads, u32::MAX)?,
        value_heads: count(op, "value heads", value_heads, u32::MAX)?,
        reserved: 0,
    };
    let choice = DELTA_COMMIT.select(dispatch, stream.device(), &sizes)?;
    // SAFETY: the checks above and the table's `launch` are what the kernel's header asks for; views borrow their
    // buffers, which are freed in stream order.
    unsafe { stream.launch(choice.kernel, choice.launch, params)? };
    Ok(choice.variant)
}
