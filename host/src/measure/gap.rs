//! What neighbours of a timed product do between two calls of it: a product of other weights, which come from memory anew
//! each time. They are read, not filled, since lines that were written slow down what comes after them.

use varve_gpu::mmvq::Format;

use super::case::MeasureError;
use super::mmvq::{blocks, copies};
use crate::backend::{Buffer, Device, Stream};
use crate::ops::add::Add;
use crate::ops::dispatch::Pick;
use crate::ops::mmvq_product::{MMVQ_PRODUCT, QuantizedMatrix, product};
use crate::ops::mmvq_quantize::{MMVQ_QUANTIZE, Quantized, QuantizedMut, q8_words, quantize};
use crate::proof::random::{Array, Random};

/// Products of one vector with matrices that take turns, so many that none is in the L2.
pub(super) struct Gap {
    format: Format,
    n_in: usize,
    rows: usize,
    matrices: Vec<Buffer<u8>>,
    q8: Buffer<u32>,
    y: Buffer<f32>,
}

impl Gap {
    /// Of about `mb` megabytes of weights, in rows of `n_in` values.
    ///
    /// # Errors
    /// The device's.
    pub(super) fn new(device: &Device, (format, n_in): (Format, usize), mb: usize) -> Result<Self, MeasureError> {
        let (values, block_bytes) = format.block();
        let row_bytes = n_in / values * block_bytes;
        let rows = (mb * 1_000_000).div_ceil(row_bytes);
        let bytes = rows * row_bytes;
        let count = usize::try_from(4 * device.caps().l2_bytes).unwrap_or(usize::MAX).div_ceil(bytes).max(2);
        let matrices = copies(device, &blocks(format, bytes), bytes, count)?;
        let random = Random::new(2, Array::Query);
        let x: Vec<f32> = (0..n_in).map(|i| random.normal(i as u64) as f32).collect();
        let (x, mut q8) = (device.upload(&x)?, device.alloc(q8_words(n_in, 1))?);
        let (stream, len) = (device.stream()?, q8.len());
        let mut to = QuantizedMut { q8: q8.view_mut([len])?, il: None };
        quantize(Pick::Named(MMVQ_QUANTIZE.base().name), &stream, &x.view([1, n_in])?, &mut to)?;
        stream.synchronize()?;
        Ok(Self { format, n_in, rows, matrices, q8, y: device.alloc(rows)? })
    }

    /// Enqueues product `i`.
    ///
    /// # Errors
    /// The device's.
    pub(super) fn launch(&mut self, stream: &Stream, i: usize) -> Result<(), MeasureError> {
        let bytes = &self.matrices[i % self.matrices.len()];
        let bytes = bytes.view([bytes.len()])?;
        let w = QuantizedMatrix { format: self.format, bytes, n_out: self.rows, n_in: self.n_in };
        let q8 = self.q8.view([self.q8.len()])?;
        let x = Quantized { x: None, q8, il: None, n_in: self.n_in, columns: 1 };
        let mut y = self.y.view_mut([1, self.rows])?;
        product(Pick::Named(MMVQ_PRODUCT.base().name), stream, &w, &x, &Add::Nothing, &mut y)?;
        Ok(())
    }
}
