//! `norm.rms`: RMS norm of rows, or of equal groups of a row.

use varve_gpu::norm::{RmsParams, rms_warp};

use super::checks::{axis, count, positive, quads, rows_in, rows_out, vector};
use super::dispatch::{OpError, Pick, Table, Variant};
use crate::backend::{Launch, Stream, View, ViewMut};

/// Sizes of a call.
#[derive(Clone, Copy, Debug)]
pub struct RmsSizes {
    /// Rows times groups of a row.
    pub groups: usize,
}

/// The only variant.
pub static NORM_RMS: Table<RmsSizes, RmsParams> = Table {
    op: "norm.rms",
    rows: &[Variant::base(
        "warp",
        |_| Ok(&rms_warp::NORM_RMS_WARP),
        |ask| Launch::new(axis(ask.groups.div_ceil(rms_warp::WARPS as usize)), rms_warp::BOUNDS.threads),
    )],
};

/// `y = x * rsqrt(mean(x^2) + eps) * gain`, each run of `dim` values of a row by itself: x, y f32 `[rows, groups * dim]`,
/// gain f32 `[groups * dim]`.
///
/// # Errors
/// [`OpError::Layout`] or [`OpError::Value`] name the operand; nothing was enqueued then. [`OpError::Launch`] otherwise.
pub fn rms(
    pick: Pick<'_>,
    stream: &Stream,
    x: &View<'_, f32, 2>,
    gain: &View<'_, f32, 1>,
    (dim, eps): (usize, f32),
    y: &mut ViewMut<'_, f32, 2>,
) -> Result<&'static str, OpError> {
    let op = NORM_RMS.op;
    let [rows, width] = x.dims;
    let dim_u32 = quads(op, "values of a group", dim, i32::MAX as usize)?;
    if !width.is_multiple_of(dim) {
        return Err(OpError::Value {
            op,
            what: "width of x",
            got: width.to_string(),
            rule: "it must be a multiple of the group",
        });
    }
    let groups = width / dim;
    vector(op, "gain", gain, width)?;
    positive(op, "eps", eps)?;
    let params = RmsParams {
        x: x.ptr(),
        gain: gain.ptr(),
        x_stride: rows_in(op, "x", x, [rows, width])?,
        y_stride: rows_out(op, "y", y, [rows, width])?,
        y: y.ptr_mut(),
        rows: count(op, "rows", rows, i32::MAX as u32)?,
        groups: count(op, "groups", groups, 65_535)?,
        dim: dim_u32,
        eps,
        inv_dim: 1.0 / dim as f32,
        reserved: 0,
    };
    count(op, "groups of all rows", rows * groups, i32::MAX as u32)?;
    if rows == 0 {
        return Ok(NORM_RMS.base().name);
    }
    // SAFETY: shapes, strides and alignment were checked; views borrow their buffers, and y's exclusively.
    unsafe { NORM_RMS.enqueue(pick, stream, &RmsSizes { groups: rows * groups }, params) }
}
