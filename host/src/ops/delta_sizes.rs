//! Sizes and operands that the DeltaNet operations share, and their checks.

use varve_gpu::delta::RecParams;
use varve_gpu::geometry::{HEAD_DIM, MAX_VPK};

use super::checks::{aligned, count, row_stride};
use super::dispatch::OpError;
use crate::backend::{View, ViewMut};

/// Sizes of a DeltaNet call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeltaSizes {
    /// Key heads.
    pub key_heads: usize,
    /// Value heads, a multiple of `key_heads`.
    pub value_heads: usize,
    /// Tokens of the call, of all sequences together.
    pub tokens: usize,
    /// Sequences of the call.
    pub sequences: usize,
    /// Whether where they start is in device memory: of one sequence, too, the call may hold but a part then.
    pub is_batch: bool,
    /// Most tokens of a sequence.
    pub longest: usize,
    /// Whether the state in memory stays as it was.
    pub state_kept: bool,
}

impl DeltaSizes {
    /// A call over one sequence that updates its state.
    #[must_use]
    pub const fn single(key_heads: usize, value_heads: usize, tokens: usize) -> Self {
        let (sequences, is_batch, state_kept) = (1, false, false);
        Self { key_heads, value_heads, tokens, sequences, is_batch, longest: tokens, state_kept }
    }

    /// Elements of a token's q, k, v row.
    pub const fn qkv_width(&self) -> usize {
        (2 * self.key_heads + self.value_heads) * HEAD_DIM
    }

    /// Elements of a token's output row.
    pub const fn y_width(&self) -> usize {
        self.value_heads * HEAD_DIM
    }

    /// Value heads of a key head.
    pub const fn vpk(&self) -> usize {
        self.value_heads / self.key_heads
    }

    /// Elements of a sequence's state.
    pub const fn state_len(&self) -> usize {
        HEAD_DIM * self.value_heads * HEAD_DIM
    }

    /// Head counts that the kernels can index.
    pub(super) fn check(&self, op: &'static str) -> Result<(), OpError> {
        let heads = format!("{} key heads, {} value heads", self.key_heads, self.value_heads);
        if self.key_heads == 0 || self.value_heads == 0 || !self.value_heads.is_multiple_of(self.key_heads) {
            return Err(OpError::Value {
                op,
                what: "head count",
                got: heads,
                rule: "value heads must be a multiple of the key heads, both at least 1",
            });
        }
        if self.value_heads > 8192 {
            return Err(OpError::Value { op, what: "head count", got: heads, rule: "at most 8192 value heads" });
        }
        Ok(())
    }

    /// The instance of a kernel for `vpk` = 1, 2, 3, 4.
    pub(super) fn instance<K: Copy>(&self, instances: [Option<K>; MAX_VPK as usize]) -> Result<K, String> {
        let vpk = self.vpk();
        let instance = vpk.checked_sub(1).and_then(|i| instances.get(i).copied().flatten());
        instance.ok_or_else(|| format!("no instance for {vpk} value heads a key head"))
    }
}

/// Log decay of each token and value head, f32 `[tokens, value_heads]`: finite and <= 0, the decay is its exponential.
/// A type of its own, so that a decay factor cannot be passed by mistake.
#[derive(Clone, Copy)]
pub struct LogGate<'a>(pub View<'a, f32, 2>);

/// Several sequences in one call, their tokens one sequence behind the other. What the device holds is clamped there: starts
/// to the tokens of the call, lengths to `longest` (to the next multiple of 32 in chunked variants); so wrong values give
/// wrong results (other ones from run to run where sequences overlap, since both write the rows), but nothing is read or
/// written outside the operands.
#[derive(Clone, Copy)]
pub struct Batch<'a> {
    /// u32 `[sequences + 1]` in device memory: the token where each sequence starts, ascending, then where the last ends.
    pub starts: View<'a, u32, 1>,
    /// Tokens of the longest sequence, at least 1.
    pub longest: usize,
}

/// Most sequences of a call: the grid's y.
const MAX_SEQUENCES: usize = 65_535;

impl Batch<'_> {
    /// The number of sequences, if the batch can be one of `tokens` tokens.
    fn check(&self, op: &'static str, tokens: usize) -> Result<usize, OpError> {
        let [starts] = self.starts.dims;
        self.starts.expect_dense(op, "starts")?;
        let sequences = starts.saturating_sub(1);
        if !(1..=MAX_SEQUENCES).contains(&sequences) {
            let got = format!("{starts} values");
            return Err(OpError::Value { op, what: "starts", got, rule: "one more than the 1 to 65535 sequences" });
        }
        if tokens > 0 && !(1..=tokens).contains(&self.longest) {
            let got = format!("{} of {tokens} tokens", self.longest);
            return Err(OpError::Value {
                op,
                what: "longest",
                got,
                rule: "at least 1, at most the tokens of the call",
            });
        }
        Ok(sequences)
    }
}

/// Operands that the recurrence and the commit share.
pub(super) struct Operands<'o, 'a> {
    pub qkv: &'o View<'a, f32, 2>,
    pub gate: &'o LogGate<'a>,
    pub beta: &'o View<'a, f32, 2>,
    pub state: &'o mut ViewMut<'a, f32, 3>,
    pub key_heads: usize,
    pub batch: Option<Batch<'a>>,
}

/// Checks what the recurrence and the commit share, and fills the launch parameters; `y` and the state's fate are the
/// caller's to fill.
pub(super) fn check_tokens(op: &'static str, operands: Operands<'_, '_>) -> Result<(DeltaSizes, RecParams), OpError> {
    let Operands { qkv, gate, beta, state, key_heads, batch } = operands;
    let [tokens, _] = qkv.dims;
    let [_, value_heads, _] = state.dims;
    let mut sizes = DeltaSizes::single(key_heads, value_heads, tokens);
    sizes.check(op)?;
    if let Some(batch) = batch {
        (sizes.sequences, sizes.longest) = (batch.check(op, tokens)?, batch.longest);
        sizes.is_batch = true;
    }
    state.expect(op, "state", [sizes.sequences * HEAD_DIM, value_heads, HEAD_DIM])?;
    state.expect_dense(op, "state")?;
    qkv.expect(op, "qkv", [tokens, sizes.qkv_width()])?;
    gate.0.expect(op, "gate", [tokens, value_heads])?;
    beta.expect(op, "beta", [tokens, value_heads])?;
    aligned(op, "qkv", qkv.is_aligned(16))?;
    aligned(op, "state", state.is_aligned(16))?;
    let params = RecParams {
        qkv: qkv.ptr(),
        gate: gate.0.ptr(),
        beta: beta.ptr(),
        state: state.ptr_mut(),
        y: std::ptr::null_mut(),
        starts: batch.map_or(std::ptr::null(), |batch| batch.starts.ptr()),
        scratch: std::ptr::null_mut(),
        tokens: count(op, "tokens", tokens, i32::MAX as u32)?,
        qkv_stride: row_stride(op, "qkv strides", qkv.strides, 4)?,
        gate_stride: row_stride(op, "gate strides", gate.0.strides, 1)?,
        beta_stride: row_stride(op, "beta strides", beta.strides, 1)?,
        y_stride: 0,
        key_heads: count(op, "key heads", key_heads, u32::MAX)?,
        value_heads: count(op, "value heads", value_heads, u32::MAX)?,
        keep_state: 0,
        sequences: count(op, "sequences", sizes.sequences, MAX_SEQUENCES as u32)?,
        first: 0,
        span: count(op, "longest", sizes.longest, i32::MAX as u32)?,
        reserved: 0,
    };
    Ok((sizes, params))
}
