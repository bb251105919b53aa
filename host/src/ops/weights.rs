//! A matrix as files store it, for operations that read it in place.

use crate::backend::{ShapeError, View};
use crate::ops::dispatch::OpError;

/// Weights `[rows, columns]`, dense.
#[derive(Clone, Copy, Debug)]
pub enum Weights<'a> {
    /// IEEE single.
    F32(View<'a, f32, 2>),
    /// IEEE half, its bits.
    F16(View<'a, u16, 2>),
    /// bfloat16, its bits.
    Bf16(View<'a, u16, 2>),
}

/// Storage of weights that kernels read in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// IEEE single.
    F32,
    /// IEEE half.
    F16,
    /// bfloat16.
    Bf16,
}

impl Kind {
    /// The instance of a kernel for this storage.
    pub(super) fn of<K: Copy>(self, [f32, f16, bf16]: [K; 3]) -> K {
        match self {
            Self::F32 => f32,
            Self::F16 => f16,
            Self::Bf16 => bf16,
        }
    }
}

impl Weights<'_> {
    /// Rows and columns.
    #[must_use]
    pub fn dims(&self) -> [usize; 2] {
        match self {
            Self::F32(view) => view.dims,
            Self::F16(view) | Self::Bf16(view) => view.dims,
        }
    }

    /// How they are stored.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::F32(_) => Kind::F32,
            Self::F16(_) => Kind::F16,
            Self::Bf16(_) => Kind::Bf16,
        }
    }

    /// Address of the first value.
    pub(super) fn ptr(&self) -> *const u8 {
        match self {
            Self::F32(view) => view.ptr().cast(),
            Self::F16(view) | Self::Bf16(view) => view.ptr().cast(),
        }
    }

    /// Checks that rows lie without gaps and can be read four values at a time.
    pub(super) fn expect_quads(&self, op: &'static str, operand: &'static str) -> Result<(), OpError> {
        let (dense, aligned): (Result<(), ShapeError>, bool) = match self {
            Self::F32(view) => (view.expect_dense(op, operand), view.ptr().addr().is_multiple_of(16)),
            Self::F16(view) | Self::Bf16(view) => (view.expect_dense(op, operand), view.ptr().addr().is_multiple_of(8)),
        };
        dense?;
        let [_, columns] = self.dims();
        if columns == 0 || !columns.is_multiple_of(4) {
            return Err(OpError::Value {
                op,
                what: "number of weight columns",
                got: columns.to_string(),
                rule: "kernels read four at a time: it must be a multiple of 4 above 0",
            });
        }
        super::checks::aligned(op, operand, aligned)
    }
}
