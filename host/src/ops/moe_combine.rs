//! `moe.combine`: the weighted sum of a token's experts, and its shared expert.

use varve_gpu::moe::{CombineParams, combine_quad};

use super::checks::count;
use super::dispatch::{OpError, Pick, Table, Variant};
use super::quads::{QuadSizes, Rows, all_wide, at_least_one};
use crate::backend::{Stream, View, ViewMut};

/// The only variant.
pub static MOE_COMBINE: Table<QuadSizes, CombineParams> = Table {
    op: "moe.combine",
    rows: &[Variant::base(
        "quad",
        |ask| Ok(ask.instance(&combine_quad::MOE_COMBINE_QUAD_WIDE, &combine_quad::MOE_COMBINE_QUAD_NARROW)),
        QuadSizes::launch,
    )],
};

/// Operands of [`combine`]. Rows may have gaps.
pub struct CombineArgs<'a> {
    /// f32 `[tokens, k]`.
    pub weights: View<'a, f32, 2>,
    /// f32 `[tokens * k, d]`: the experts' outputs, row `t k + j` that of token t's j-th expert.
    pub down: View<'a, f32, 2>,
    /// f32 `[tokens, 1]`: the shared expert's gate before the sigmoid.
    pub shared_gate: View<'a, f32, 2>,
    /// f32 `[tokens, d]`: the shared expert's output.
    pub shared: View<'a, f32, 2>,
    /// f32 `[tokens, d]`.
    pub y: ViewMut<'a, f32, 2>,
}

/// `y[t, i] = sum over j of weights[t, j] down[t k + j, i] + sigmoid(shared_gate[t]) shared[t, i]`, j ascending.
///
/// Returns the variant's name. No operand may overlap one that is written.
///
/// # Errors
/// [`OpError::Layout`] or [`OpError::Value`] name the operand; nothing was enqueued then. Otherwise as
/// [`Table::enqueue`].
pub fn combine(pick: Pick<'_>, stream: &Stream, mut args: CombineArgs<'_>) -> Result<&'static str, OpError> {
    let op = MOE_COMBINE.op;
    let [tokens, dim] = args.y.dims;
    let k = args.weights.dims[1];
    at_least_one(op, "experts of a token", k)?;
    args.weights.expect(op, "weights", [tokens, k])?;
    args.down.expect(op, "down", [tokens.saturating_mul(k), dim])?;
    args.shared_gate.expect(op, "shared_gate", [tokens, 1])?;
    args.shared.expect(op, "shared", [tokens, dim])?;
    if args.y.is_empty() {
        return Ok(MOE_COMBINE.base().name);
    }
    let wide = all_wide(dim, &[&args.down, &args.shared, &args.y]);
    let sizes = QuadSizes { rows: tokens, width: dim, wide };
    let params = CombineParams {
        weights: args.weights.ptr(),
        down: args.down.ptr(),
        shared_gate: args.shared_gate.ptr(),
        shared: args.shared.ptr(),
        quads: sizes.quads(op)?,
        k: count(op, "experts of a token", k, i32::MAX as u32)?,
        weights_stride: args.weights.stride(op, "weights strides")?,
        down_stride: args.down.stride(op, "down strides")?,
        shared_gate_stride: args.shared_gate.stride(op, "shared_gate strides")?,
        shared_stride: args.shared.stride(op, "shared strides")?,
        y_stride: args.y.stride(op, "y strides")?,
        unused: 0,
        y: args.y.ptr_mut(),
    };
    // SAFETY: the checks above are what `CombineParams` asks for, `sizes.wide` what the wide instance asks for; views
    // borrow their buffers, which are freed in stream order.
    unsafe { MOE_COMBINE.enqueue(pick, stream, &sizes, params) }
}
