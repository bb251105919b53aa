//! A matrix in device memory, as its file stores it.

use crate::backend::{BackendError, Buffer, Device};
use crate::ops::weights::{Kind, Weights};

/// A matrix `[n_out, n_in]` on a device.
pub struct Matrix {
    n_out: usize,
    n_in: usize,
    data: Data,
}

/// Its values.
enum Data {
    F32(Buffer<f32>),
    F16(Buffer<u16>),
    Bf16(Buffer<u16>),
}

impl Matrix {
    /// Memory for a matrix, not written yet.
    pub(super) fn alloc(device: &Device, kind: Kind, [n_out, n_in]: [usize; 2]) -> Result<Self, BackendError> {
        let values = n_out * n_in;
        let data = match kind {
            Kind::F32 => Data::F32(device.alloc(values)?),
            Kind::F16 => Data::F16(device.alloc(values)?),
            Kind::Bf16 => Data::Bf16(device.alloc(values)?),
        };
        Ok(Self { n_out, n_in, data })
    }

    /// A matrix of these f32 values, row by row.
    ///
    /// # Errors
    /// Where the device has no memory left.
    pub fn from_f32(device: &Device, [n_out, n_in]: [usize; 2], values: &[f32]) -> Result<Self, BackendError> {
        let mut matrix = Self::alloc(device, Kind::F32, [n_out, n_in])?;
        matrix.write_f32(0, values)?;
        Ok(matrix)
    }

    /// Writes f32 values from element `at` on.
    pub(super) fn write_f32(&mut self, at: usize, values: &[f32]) -> Result<(), BackendError> {
        match &mut self.data {
            Data::F32(buffer) => buffer.write_at(at, values),
            Data::F16(_) | Data::Bf16(_) => unreachable!("a matrix of 16-bit values is written with `write_bits`"),
        }
    }

    /// Writes 16-bit values from element `at` on.
    pub(super) fn write_bits(&mut self, at: usize, values: &[u16]) -> Result<(), BackendError> {
        match &mut self.data {
            Data::F16(buffer) | Data::Bf16(buffer) => buffer.write_at(at, values),
            Data::F32(_) => unreachable!("a matrix of f32 values is written with `write_f32`"),
        }
    }

    /// Rows: values of a product.
    #[must_use]
    pub fn n_out(&self) -> usize {
        self.n_out
    }

    /// For an operation.
    ///
    /// # Errors
    /// None in practice: the buffer has the matrix's size.
    pub fn weights(&self) -> Result<Weights<'_>, crate::backend::ShapeError> {
        let dims = [self.n_out, self.n_in];
        Ok(match &self.data {
            Data::F32(buffer) => Weights::F32(buffer.view(dims)?),
            Data::F16(buffer) => Weights::F16(buffer.view(dims)?),
            Data::Bf16(buffer) => Weights::Bf16(buffer.view(dims)?),
        })
    }
}
