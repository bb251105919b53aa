//! `moe.silu_mul`: the gated activation between an expert's products.

use varve_gpu::moe::{SiluMulParams, silu_mul_quad};

use super::dispatch::{OpError, Pick, Table, Variant};
use super::quads::{QuadSizes, Rows, all_wide};
use crate::backend::{Stream, View, ViewMut};

/// The only variant.
pub static MOE_SILU_MUL: Table<QuadSizes, SiluMulParams> = Table {
    op: "moe.silu_mul",
    rows: &[Variant::base(
        "quad",
        |ask| Ok(ask.instance(&silu_mul_quad::MOE_SILU_MUL_QUAD_WIDE, &silu_mul_quad::MOE_SILU_MUL_QUAD_NARROW)),
        QuadSizes::launch,
    )],
};

/// Operands of [`silu_mul`]. Rows may have gaps: `gate` and `up` may be halves of one matrix.
pub struct SiluMulArgs<'a> {
    /// f32 `[rows, inter]`.
    pub gate: View<'a, f32, 2>,
    /// f32 `[rows, inter]`.
    pub up: View<'a, f32, 2>,
    /// f32 `[rows, inter]`.
    pub h: ViewMut<'a, f32, 2>,
}

/// `h = silu(gate) up`, element by element.
///
/// Returns the variant's name. No operand may overlap one that is written.
///
/// # Errors
/// [`OpError::Layout`] or [`OpError::Value`] name the operand; nothing was enqueued then. Otherwise as
/// [`Table::enqueue`].
pub fn silu_mul(pick: Pick<'_>, stream: &Stream, mut args: SiluMulArgs<'_>) -> Result<&'static str, OpError> {
    let op = MOE_SILU_MUL.op;
    let [rows, width] = args.h.dims;
    args.gate.expect(op, "gate", [rows, width])?;
    args.up.expect(op, "up", [rows, width])?;
    if args.h.is_empty() {
        return Ok(MOE_SILU_MUL.base().name);
    }
    let sizes = QuadSizes { rows, width, wide: all_wide(width, &[&args.gate, &args.up, &args.h]) };
    let params = SiluMulParams {
        gate: args.gate.ptr(),
        up: args.up.ptr(),
        quads: sizes.quads(op)?,
        gate_stride: args.gate.stride(op, "gate strides")?,
        up_stride: args.up.stride(op, "up strides")?,
        h_stride: args.h.stride(op, "h strides")?,
        h: args.h.ptr_mut(),
    };
    // SAFETY: the checks above are what `SiluMulParams` asks for, `sizes.wide` what the wide instance asks for; views
    // borrow their buffers, which are freed in stream order.
    unsafe { MOE_SILU_MUL.enqueue(pick, stream, &sizes, params) }
}
