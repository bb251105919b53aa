//! `delta.commit`: replays the accepted tokens of a decode window into the state.

use varve_gpu::delta::row_group::BLOCKS;
use varve_gpu::delta::{CommitParams, window_commit};
use varve_gpu::geometry::WINDOW_TOKENS;

use super::checks::axis;
use super::delta_sizes::{DeltaSizes, LogGate, Operands, check_tokens};
use super::dispatch::{Dispatch, Needs, OpError, Pick, Preferred, Spread, Table, Variant};
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
        launch: |ask| Launch::new(axis(ask.value_heads * BLOCKS), 32),
        staged: None,
        needs: Needs { cc: 80, spread: Spread::Any },
        preferred: Preferred::Always,
        exactness: Exactness::Base,
    }],
};

/// Operands of [`commit`]; the window's rows as in [`super::delta_rec::RecArgs`].
pub struct CommitArgs<'a> {
    /// f32 `[window, (2 key_heads + value_heads) * 128]`, window <= 8.
    pub qkv: View<'a, f32, 2>,
    /// f32 `[window, value_heads]`.
    pub gate: LogGate<'a>,
    /// f32 `[window, value_heads]`.
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
pub fn commit(dispatch: &Dispatch, stream: &Stream, mut args: CommitArgs<'_>) -> Result<&'static str, OpError> {
    let op = DELTA_COMMIT.op;
    let CommitArgs { qkv, gate, beta, state, key_heads, .. } = &mut args;
    let operands = Operands { qkv, gate, beta, state, key_heads: *key_heads, batch: None };
    let (sizes, window) = check_tokens(op, operands)?;
    args.accepted.expect(op, "accepted", [1])?;
    if sizes.tokens == 0 {
        return Ok(DELTA_COMMIT.base().name);
    }
    let params = CommitParams { window, accepted: args.accepted.ptr() };
    // SAFETY: the checks above and the table's `launch` are what the kernel's header asks for: it neither writes nor reads
    // `y`; views borrow their buffers, which are freed in stream order.
    unsafe { DELTA_COMMIT.enqueue(Pick::Best(dispatch), stream, &sizes, params) }
}
