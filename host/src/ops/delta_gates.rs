//! `delta.gates`: log decay and beta from their projections.

use varve_gpu::delta::{GatesParams, gates_elem};

use super::checks::{axis, count, row_stride};
use super::dispatch::{OpError, Pick, Table, Variant};
use crate::backend::{Launch, Stream, View, ViewMut};

/// Sizes of a call.
#[derive(Clone, Copy, Debug)]
pub struct GatesSizes {
    /// Tokens times value heads.
    pub values: usize,
}

/// The only variant.
pub static DELTA_GATES: Table<GatesSizes, GatesParams> = Table {
    op: "delta.gates",
    rows: &[Variant::base(
        "elem",
        |_| Ok(&gates_elem::DELTA_GATES_ELEM),
        |ask| Launch::new(axis(ask.values.div_ceil(gates_elem::BOUNDS.threads as usize)), gates_elem::BOUNDS.threads),
    )],
};

/// Operands of [`gates`].
pub struct GatesArgs<'a> {
    /// f32 `[tokens, 2 * value_heads]`: b projections, then a projections.
    pub ba: View<'a, f32, 2>,
    /// f32 `[value_heads]`: `-exp(A_log)`.
    pub neg_a: View<'a, f32, 1>,
    /// f32 `[value_heads]`.
    pub dt_bias: View<'a, f32, 1>,
    /// f32 `[tokens, value_heads]`, dense: log decay.
    pub gate: ViewMut<'a, f32, 2>,
    /// f32 `[tokens, value_heads]`, dense.
    pub beta: ViewMut<'a, f32, 2>,
}

/// `gate = neg_a * softplus(a + dt_bias)`, `beta = sigmoid(b)`.
///
/// # Errors
/// [`OpError::Layout`] or [`OpError::Value`] name the operand; nothing was enqueued then. [`OpError::Launch`] otherwise.
pub fn gates(pick: Pick<'_>, stream: &Stream, mut args: GatesArgs<'_>) -> Result<&'static str, OpError> {
    let op = DELTA_GATES.op;
    let [tokens, value_heads] = args.gate.dims;
    args.ba.expect(op, "ba", [tokens, 2 * value_heads])?;
    args.beta.expect(op, "beta", [tokens, value_heads])?;
    args.gate.expect_dense(op, "gate")?;
    args.beta.expect_dense(op, "beta")?;
    for (operand, view) in [("neg_a", &args.neg_a), ("dt_bias", &args.dt_bias)] {
        view.expect(op, operand, [value_heads])?;
        view.expect_dense(op, operand)?;
    }
    let params = GatesParams {
        ba: args.ba.ptr(),
        neg_a: args.neg_a.ptr(),
        dt_bias: args.dt_bias.ptr(),
        gate: args.gate.ptr_mut(),
        beta: args.beta.ptr_mut(),
        tokens: count(op, "tokens", tokens, i32::MAX as u32)?,
        value_heads: count(op, "value heads", value_heads, 8192)?,
        ba_stride: row_stride(op, "ba strides", args.ba.strides, 1)?,
        reserved: 0,
    };
    let values = tokens * value_heads;
    count(op, "values", values, i32::MAX as u32)?;
    if values == 0 {
        return Ok(DELTA_GATES.base().name);
    }
    // SAFETY: shapes and strides were checked; views borrow their buffers, and those of the results exclusively.
    unsafe { DELTA_GATES.enqueue(pick, stream, &GatesSizes { values }, params) }
}
