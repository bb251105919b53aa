//! What is added to a product, by the kernel that makes it.

use super::checks::row_stride;
use super::dispatch::OpError;
use crate::backend::{View, ViewMut};

/// What is added to a product.
#[derive(Clone, Copy, Debug)]
pub enum Add<'a> {
    /// Nothing.
    Nothing,
    /// f32 of the product's shape, another buffer than y.
    Other(View<'a, f32, 2>),
    /// What y holds.
    Itself,
}

impl Add<'_> {
    /// Address and row stride for a launch that writes `y`.
    pub(super) fn to(&self, op: &'static str, y: &ViewMut<'_, f32, 2>) -> Result<(*const f32, u32), OpError> {
        Ok(match self {
            Self::Nothing => (std::ptr::null(), 0),
            Self::Itself => (y.ptr(), row_stride(op, "y strides", y.strides, 1)?),
            Self::Other(view) => {
                view.expect(op, "add", y.dims)?;
                (view.ptr(), row_stride(op, "add strides", view.strides, 1)?)
            }
        })
    }
}
