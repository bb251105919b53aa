//! `delta.out_norm`: gated RMS norm of the recurrence's output, to f16.

use varve_gpu::delta::{OutNormParams, out_norm_block, out_norm_warp};
use varve_gpu::geometry::HEAD_DIM;

use super::checks::{aligned, axis, count, row_stride};
use super::dispatch::{Dispatch, Needs, OpError, Pick, Preferred, Table, Variant};
use super::exactness::Exactness;
use crate::backend::{Launch, Stream, View, ViewMut};

/// What the output gate does to `z`: the model's `output_gate_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputGate {
    /// `sigmoid(z)`: Qwen3.8-Flash-Next.
    Sigmoid,
    /// `z * sigmoid(z)`: Qwen3-Next and Qwen3.5.
    Silu,
}

/// Sizes of a call.
#[derive(Clone, Copy, Debug)]
pub struct OutNormSizes {
    /// Tokens of the call.
    pub tokens: usize,
    /// Value heads.
    pub value_heads: usize,
    /// The model's gate.
    pub gate: OutputGate,
}

/// The variants, most wanted first.
pub static DELTA_OUT_NORM: Table<OutNormSizes, OutNormParams> = Table {
    op: "delta.out_norm",
    rows: &[
        Variant {
            name: "warp",
            kernel: |ask| {
                Ok(match ask.gate {
                    OutputGate::Sigmoid => &out_norm_warp::DELTA_OUT_NORM_WARP_SIGMOID,
                    OutputGate::Silu => &out_norm_warp::DELTA_OUT_NORM_WARP_SILU,
                })
            },
            launch: |ask| {
                let groups = axis(ask.value_heads.div_ceil(out_norm_warp::HEADS as usize));
                let pairs = axis(ask.tokens.div_ceil(out_norm_warp::TOKENS as usize));
                let block = [out_norm_warp::BOUNDS.threads, 1, 1];
                Launch { grid: [pairs, groups, 1], block, dynamic_shared: 0 }
            },
            staged: None,
            needs: Needs::ANY,
            preferred: Preferred::Always,
            exactness: Exactness::Bitwise,
        },
        Variant {
            name: "block",
            kernel: |ask| {
                Ok(match ask.gate {
                    OutputGate::Sigmoid => &out_norm_block::DELTA_OUT_NORM_BLOCK_SIGMOID,
                    OutputGate::Silu => &out_norm_block::DELTA_OUT_NORM_BLOCK_SILU,
                })
            },
            launch: |ask| {
                let grid = [axis(ask.tokens), axis(ask.value_heads), 1];
                Launch { grid, block: [out_norm_block::BOUNDS.threads, 1, 1], dynamic_shared: 0 }
            },
            staged: None,
            needs: Needs::ANY,
            preferred: Preferred::Always,
            exactness: Exactness::Base,
        },
    ],
};

/// Operands of [`out_norm`]. No two may overlap; all addresses and row strides are multiples of 16 bytes (of 8 for y16).
pub struct OutNormArgs<'a> {
    /// f32 `[tokens, value_heads * 128]`.
    pub y: View<'a, f32, 2>,
    /// f32 `[tokens, value_heads * 128]`: raw output of the z projection.
    pub z: View<'a, f32, 2>,
    /// f32 `[128]`: gain as stored in the file.
    pub gamma: View<'a, f32, 1>,
    /// f16 bits `[tokens, value_heads * 128]`.
    pub y16: ViewMut<'a, u16, 2>,
    /// `rms_norm_eps`, > 0.
    pub eps: f32,
    /// The model's gate.
    pub gate: OutputGate,
}

/// `y16 = f16(y * rsqrt(mean(y^2) + eps) * gamma * gate(z))`, row by row of 128, by the preferred variant.
///
/// Returns the variant's name; all variants give the same bits.
///
/// # Errors
/// [`OpError::Layout`] or [`OpError::Value`] name the operand; nothing was enqueued then. [`OpError::Launch`] otherwise.
pub fn out_norm(dispatch: &Dispatch, stream: &Stream, mut args: OutNormArgs<'_>) -> Result<&'static str, OpError> {
    let (sizes, params) = check(&mut args)?;
    if sizes.tokens == 0 {
        return Ok(DELTA_OUT_NORM.base().name);
    }
    enqueue(Pick::Best(dispatch), stream, &sizes, params)
}

/// [`out_norm`] by the named variant, for tests and measurements.
///
/// # Errors
/// As [`out_norm`], and [`OpError::NoVariant`] or [`OpError::Unfit`].
pub fn out_norm_by(variant: &str, stream: &Stream, mut args: OutNormArgs<'_>) -> Result<&'static str, OpError> {
    let (sizes, params) = check(&mut args)?;
    if sizes.tokens == 0 {
        return Ok(DELTA_OUT_NORM.row(variant)?.name);
    }
    enqueue(Pick::Named(variant), stream, &sizes, params)
}

fn enqueue(
    pick: Pick<'_>,
    stream: &Stream,
    sizes: &OutNormSizes,
    params: OutNormParams,
) -> Result<&'static str, OpError> {
    // SAFETY: `check` established the shapes, strides and alignment that `OutNormParams` asks for, the table's `launch`
    // the grid that the kernel's header asks for; views borrow their buffers, which are freed in stream order.
    unsafe { DELTA_OUT_NORM.enqueue(pick, stream, sizes, params) }
}

fn check(args: &mut OutNormArgs<'_>) -> Result<(OutNormSizes, OutNormParams), OpError> {
    let op = DELTA_OUT_NORM.op;
    let [tokens, width] = args.y.dims;
    if width == 0 || !width.is_multiple_of(HEAD_DIM) {
        return Err(OpError::Value {
            op,
            what: "width of y",
            got: width.to_string(),
            rule: "a multiple of 128 above 0",
        });
    }
    let value_heads = width / HEAD_DIM;
    args.z.expect(op, "z", [tokens, width])?;
    args.gamma.expect(op, "gamma", [HEAD_DIM])?;
    args.gamma.expect_dense(op, "gamma")?;
    args.y16.expect(op, "y16", [tokens, width])?;
    aligned(op, "y", args.y.is_aligned(16))?;
    aligned(op, "z", args.z.is_aligned(16))?;
    aligned(op, "gamma", args.gamma.is_aligned(16))?;
    aligned(op, "y16", args.y16.is_aligned(16))?;
    if !(args.eps > 0.0 && args.eps.is_finite()) {
        return Err(OpError::Value { op, what: "eps", got: args.eps.to_string(), rule: "finite and above 0" });
    }
    let params = OutNormParams {
        y: args.y.ptr(),
        z: args.z.ptr(),
        gamma: args.gamma.ptr(),
        y16: args.y16.ptr_mut(),
        tokens: count(op, "tokens", tokens, i32::MAX as u32)?,
        y_stride: row_stride(op, "y strides", args.y.strides, 4)?,
        z_stride: row_stride(op, "z strides", args.z.strides, 4)?,
        y16_stride: row_stride(op, "y16 strides", args.y16.strides, 4)?,
        value_heads: count(op, "value heads", value_heads, 65_535)?,
        eps: args.eps,
    };
    Ok((OutNormSizes { tokens, value_heads, gate: args.gate }, params))
}
