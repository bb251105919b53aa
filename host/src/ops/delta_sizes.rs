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
    /// Tokens of the call.
    pub tokens: usize,
}

impl DeltaSizes {
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

/// Checks what the recurrence and the commit share, and fills the launch parameters; `y` and the state's fate are the
/// caller's to fill.
pub(super) fn check_tokens(
    op: &'static str,
    qkv: &View<'_, f32, 2>,
    gate: &LogGate<'_>,
    beta: &View<'_, f32, 2>,
    state: &mut ViewMut<'_, f32, 3>,
    key_heads: usize,
) -> Result<(DeltaSizes, RecParams), OpError> {
    let [tokens, _] = qkv.dims;
    let [_, value_heads, _] = state.dims;
    let sizes = DeltaSizes { key_heads, value_heads, tokens };
    sizes.check(op)?;
    state.expect(op, "state", [HEAD_DIM, value_heads, HEAD_DIM])?;
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
        starts: std::ptr::null(),
        scratch: std::ptr::null_mut(),
        tokens: count(op, "tokens", tokens, i32::MAX as u32)?,
        qkv_stride: row_stride(op, "qkv strides", qkv.strides, 4)?,
        gate_stride: row_stride(op, "gate strides", gate.0.strides, 1)?,
        beta_stride: row_stride(op, "beta strides", beta.strides, 1)?,
        y_stride: 0,
        key_heads: count(op, "key heads", key_heads, u32::MAX)?,
        value_heads: count(op, "value heads", value_heads, u32::MAX)?,
        keep_state: 0,
        sequences: 1,
        first: 0,
        span: u32::MAX,
        reserved: 0,
    };
    Ok((sizes, params))
}
