//! A matrix as files store it, for operations that read it in place.

use varve_gpu::format::q8_1;
use varve_gpu::mmvq::Format;

use crate::backend::{ShapeError, View};
use crate::ops::dispatch::OpError;
use crate::ops::mmvq_product::QuantizedMatrix;

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

/// Plain values or blocks, `[rows, columns]`.
#[derive(Clone, Copy, Debug)]
pub enum Stored<'a> {
    /// Plain values.
    Plain(Weights<'a>),
    /// Blocks.
    Blocks(QuantizedMatrix<'a>),
}

impl Stored<'_> {
    /// Rows and columns.
    #[must_use]
    pub fn dims(&self) -> [usize; 2] {
        match self {
            Self::Plain(weights) => weights.dims(),
            Self::Blocks(matrix) => [matrix.n_out, matrix.n_in],
        }
    }

    /// Checks that rows lie as kernels read them; gives address, storage of plain values, and format, which is any of those.
    pub(super) fn expect(
        &self,
        op: &'static str,
        operand: &'static str,
    ) -> Result<(*const u8, Option<Kind>, Format), OpError> {
        match self {
            Self::Plain(weights) => {
                weights.expect_quads(op, operand)?;
                Ok((weights.ptr(), Some(weights.kind()), Format::Q8_0))
            }
            Self::Blocks(matrix) => {
                matrix.expect(op, operand)?;
                Ok((matrix.bytes.ptr(), None, matrix.format))
            }
        }
    }
}

impl QuantizedMatrix<'_> {
    /// Bytes of a row of whole blocks.
    #[must_use]
    pub fn row_bytes(&self) -> usize {
        let (values, bytes) = self.format.block();
        self.n_in / values * bytes
    }

    /// Checks that rows are whole blocks and lie as kernels read them.
    pub(super) fn expect(&self, op: &'static str, operand: &'static str) -> Result<(), OpError> {
        let (values, _) = self.format.block();
        if self.n_in == 0 || !self.n_in.is_multiple_of(values) {
            let rule = if values == q8_1::VALUES {
                "it must be a multiple of the 32 values of a block, above 0"
            } else {
                "it must be a multiple of the 256 values of a block, above 0"
            };
            return Err(OpError::Value { op, what: "columns of the matrix", got: self.n_in.to_string(), rule });
        }
        self.bytes.expect(op, operand, [self.n_out.saturating_mul(self.row_bytes())])?;
        self.bytes.expect_dense(op, operand)?;
        super::checks::aligned(op, operand, self.bytes.is_aligned(16))
    }
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
