//! Checks of operands that operations share.

use super::dispatch::OpError;
use crate::backend::{View, ViewMut};

/// A row stride as the kernels take it: contiguous rows, a multiple of `multiple` elements, below 2^32.
pub(super) fn row_stride(
    op: &'static str,
    what: &'static str,
    strides: [usize; 2],
    multiple: usize,
) -> Result<u32, OpError> {
    let error = |rule| OpError::Value { op, what, got: format!("{strides:?}"), rule };
    if strides[1] != 1 {
        return Err(error("elements of a row must be contiguous"));
    }
    if !strides[0].is_multiple_of(multiple) {
        return Err(error("the row stride must be a multiple of 16 bytes"));
    }
    u32::try_from(strides[0]).map_err(|_| error("the row stride must be below 2^32 elements"))
}

/// A base address as the kernels take it.
pub(super) fn aligned(op: &'static str, what: &'static str, is_aligned: bool) -> Result<(), OpError> {
    if is_aligned {
        return Ok(());
    }
    Err(OpError::Value { op, what, got: "not aligned".into(), rule: "the address must be a multiple of 16 bytes" })
}

/// A count that becomes a launch parameter or a grid axis.
pub(super) fn count(op: &'static str, what: &'static str, n: usize, most: u32) -> Result<u32, OpError> {
    u32::try_from(n).ok().filter(|&n| n <= most).ok_or_else(|| OpError::Value {
        op,
        what,
        got: n.to_string(),
        rule: "that is more than one launch can cover",
    })
}

/// A size that kernels take in steps of four.
pub(super) fn quads(op: &'static str, what: &'static str, n: usize, most: usize) -> Result<u32, OpError> {
    let fits = n > 0 && n.is_multiple_of(4) && n <= most;
    u32::try_from(n).ok().filter(|_| fits).ok_or_else(|| OpError::Value {
        op,
        what,
        got: n.to_string(),
        rule: "it must be a multiple of 4 within what the kernel holds",
    })
}

/// Rows that are read four values at a time: shape, alignment, stride in elements.
pub(super) fn rows_in(
    op: &'static str,
    operand: &'static str,
    view: &View<'_, f32, 2>,
    want: [usize; 2],
) -> Result<u32, OpError> {
    view.expect(op, operand, want)?;
    aligned(op, operand, view.is_aligned(16))?;
    row_stride(op, operand, view.strides, 4)
}

/// As [`rows_in`], for rows that are written.
pub(super) fn rows_out(
    op: &'static str,
    operand: &'static str,
    view: &ViewMut<'_, f32, 2>,
    want: [usize; 2],
) -> Result<u32, OpError> {
    rows_in(op, operand, &view.as_view(), want)
}

/// A dense vector that is read four values at a time.
pub(super) fn vector(
    op: &'static str,
    operand: &'static str,
    view: &View<'_, f32, 1>,
    len: usize,
) -> Result<(), OpError> {
    view.expect(op, operand, [len])?;
    view.expect_dense(op, operand)?;
    aligned(op, operand, view.is_aligned(16))
}

/// A dense matrix that is read four values at a time.
pub(super) fn matrix(
    op: &'static str,
    operand: &'static str,
    view: &View<'_, f32, 2>,
    dims: [usize; 2],
) -> Result<(), OpError> {
    view.expect(op, operand, dims)?;
    view.expect_dense(op, operand)?;
    aligned(op, operand, view.is_aligned(16))
}

/// A number that must be finite and above 0.
pub(super) fn positive(op: &'static str, what: &'static str, v: f32) -> Result<(), OpError> {
    if v > 0.0 && v.is_finite() {
        return Ok(());
    }
    Err(OpError::Value { op, what, got: v.to_string(), rule: "finite and above 0" })
}

/// Sizes are checked before any launch; a value beyond an axis stays beyond it and is refused there.
pub(super) fn axis(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
