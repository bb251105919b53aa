//! `ple.conv`: dilated depthwise convolution of the PLE, with its residuals.

use varve_gpu::ple::{ConvParams, conv_quad};

use super::checks::count;
use super::dispatch::{OpError, Pick, Table, Variant};
use super::quads::{QuadSizes, Rows, all_wide, at_least_one};
use crate::backend::{Stream, View, ViewMut};

/// The only variant.
pub static PLE_CONV: Table<QuadSizes, ConvParams> = Table {
    op: "ple.conv",
    rows: &[Variant::base(
        "quad",
        |ask| Ok(ask.instance(&conv_quad::PLE_CONV_QUAD_WIDE, &conv_quad::PLE_CONV_QUAD_NARROW)),
        QuadSizes::launch,
    )],
};

/// Operands of [`conv`]. Rows may have gaps, those of `taps` may not.
pub struct ConvArgs<'a> {
    /// f32 `[tokens, W]`: the normed input.
    pub m: View<'a, f32, 2>,
    /// f32 `[(K - 1) dilation, W]`: the input of the tokens before the call, oldest first.
    pub window: View<'a, f32, 2>,
    /// f32 `[W, K]`: the last tap is the token's own.
    pub taps: View<'a, f32, 2>,
    /// f32 `[tokens, W]`: the input before its norm.
    pub u: View<'a, f32, 2>,
    /// f32 `[tokens, W]`, changed in place.
    pub s: ViewMut<'a, f32, 2>,
    /// Tokens from a tap to the next.
    pub dilation: usize,
}

/// `s[t, i] += u[t, i] + silu(sum over k of taps[i, k] m[t - (K - 1 - k) dilation, i])`, rows before the call from
/// `window`.
///
/// Returns the variant's name. No operand may overlap one that is written.
///
/// # Errors
/// [`OpError::Layout`] or [`OpError::Value`] name the operand; nothing was enqueued then. Otherwise as
/// [`Table::enqueue`].
pub fn conv(pick: Pick<'_>, stream: &Stream, mut args: ConvArgs<'_>) -> Result<&'static str, OpError> {
    let op = PLE_CONV.op;
    let [tokens, width] = args.s.dims;
    let taps = args.taps.dims[1];
    at_least_one(op, "taps", taps)?;
    at_least_one(op, "dilation", args.dilation)?;
    let rows = (taps - 1).saturating_mul(args.dilation);
    args.m.expect(op, "m", [tokens, width])?;
    args.u.expect(op, "u", [tokens, width])?;
    args.taps.expect(op, "taps", [width, taps])?;
    args.taps.expect_dense(op, "taps")?;
    args.window.expect(op, "window", [rows, width])?;
    if args.s.is_empty() {
        return Ok(PLE_CONV.base().name);
    }
    let wide = all_wide(width, &[&args.m, &args.window, &args.u, &args.s]);
    let sizes = QuadSizes { rows: tokens, width, wide };
    count(op, "window rows", rows, i32::MAX as u32)?;
    let params = ConvParams {
        m: args.m.ptr(),
        window: args.window.ptr(),
        taps: args.taps.ptr(),
        u: args.u.ptr(),
        quads: sizes.quads(op)?,
        taps_len: count(op, "taps", taps, i32::MAX as u32)?,
        dilation: count(op, "dilation", args.dilation, i32::MAX as u32)?,
        m_stride: args.m.stride(op, "m strides")?,
        window_stride: args.window.stride(op, "window strides")?,
        u_stride: args.u.stride(op, "u strides")?,
        s_stride: args.s.stride(op, "s strides")?,
        unused: 0,
        s: args.s.ptr_mut(),
    };
    // SAFETY: the checks above are what `ConvParams` asks for, `sizes.wide` what the wide instance asks for; views
    // borrow their buffers, which are freed in stream order.
    unsafe { PLE_CONV.enqueue(pick, stream, &sizes, params) }
}
