//! Matrices in device memory: runs of rows, each as its file stores them.

use varve_gpu::mmvq::Format;

use crate::backend::{BackendError, Buffer, Device, ShapeError};
use crate::ops::mmvq_product::QuantizedMatrix;
use crate::ops::weights::{Kind, Stored, Weights};

/// How rows are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Storage {
    /// Plain values.
    Plain(Kind),
    /// Blocks.
    Blocks(Format),
}

/// A matrix `[n_out, n_in]` on a device, from its segments one below the other.
pub struct Matrix {
    n_out: usize,
    segments: Vec<Segment>,
}

impl Matrix {
    /// Of segments of one width.
    #[must_use]
    pub fn new(segments: Vec<Segment>) -> Self {
        Self { n_out: segments.iter().map(|segment| segment.rows).sum(), segments }
    }

    /// A matrix of these f32 values, row by row.
    ///
    /// # Errors
    /// Where the device has no memory left.
    pub fn from_f32(device: &Device, dims: [usize; 2], values: &[f32]) -> Result<Self, BackendError> {
        let mut segment = Segment::alloc(device, Storage::Plain(Kind::F32), dims)?;
        segment.write_f32(0, values)?;
        Ok(Self::new(vec![segment]))
    }

    /// Rows: values of a product.
    #[must_use]
    pub fn n_out(&self) -> usize {
        self.n_out
    }

    /// Its rows, top to bottom.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }
}

/// Rows of one storage.
pub struct Segment {
    rows: usize,
    columns: usize,
    data: Data,
}

/// Their values.
enum Data {
    F32(Buffer<f32>),
    F16(Buffer<u16>),
    Bf16(Buffer<u16>),
    Blocks(Format, Buffer<u8>),
}

impl Segment {
    /// Memory for rows, not written yet; blocks fill the columns.
    pub(super) fn alloc(device: &Device, storage: Storage, [rows, columns]: [usize; 2]) -> Result<Self, BackendError> {
        let values = rows * columns;
        let data = match storage {
            Storage::Plain(Kind::F32) => Data::F32(device.alloc(values)?),
            Storage::Plain(Kind::F16) => Data::F16(device.alloc(values)?),
            Storage::Plain(Kind::Bf16) => Data::Bf16(device.alloc(values)?),
            Storage::Blocks(format) => {
                let (of_a_block, bytes) = format.block();
                Data::Blocks(format, device.alloc(values / of_a_block * bytes)?)
            }
        };
        Ok(Self { rows, columns, data })
    }

    /// Writes f32 values from element `at` on.
    pub(super) fn write_f32(&mut self, at: usize, values: &[f32]) -> Result<(), BackendError> {
        match &mut self.data {
            Data::F32(buffer) => buffer.write_at(at, values),
            _ => unreachable!("only rows of f32 values are written with `write_f32`"),
        }
    }

    /// Writes 16-bit values from element `at` on.
    pub(super) fn write_bits(&mut self, at: usize, values: &[u16]) -> Result<(), BackendError> {
        match &mut self.data {
            Data::F16(buffer) | Data::Bf16(buffer) => buffer.write_at(at, values),
            _ => unreachable!("only rows of 16-bit values are written with `write_bits`"),
        }
    }

    /// Writes whole blocks from byte `at` on.
    pub(super) fn write_blocks(&mut self, at: usize, bytes: &[u8]) -> Result<(), BackendError> {
        match &mut self.data {
            Data::Blocks(_, buffer) => buffer.write_at(at, bytes),
            _ => unreachable!("only rows of blocks are written with `write_blocks`"),
        }
    }

    /// Rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Its memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match &self.data {
            Data::F32(buffer) => 4 * buffer.len(),
            Data::F16(buffer) | Data::Bf16(buffer) => 2 * buffer.len(),
            Data::Blocks(_, buffer) => buffer.len(),
        }
    }

    /// Whether its values lie in blocks.
    #[must_use]
    pub fn is_blocks(&self) -> bool {
        matches!(self.data, Data::Blocks(..))
    }

    /// For an operation that reads plain values and blocks.
    ///
    /// # Errors
    /// None in practice: the buffer has the segment's size.
    pub fn stored(&self) -> Result<Stored<'_>, ShapeError> {
        let dims = [self.rows, self.columns];
        Ok(match &self.data {
            Data::F32(buffer) => Stored::Plain(Weights::F32(buffer.view(dims)?)),
            Data::F16(buffer) => Stored::Plain(Weights::F16(buffer.view(dims)?)),
            Data::Bf16(buffer) => Stored::Plain(Weights::Bf16(buffer.view(dims)?)),
            &Data::Blocks(format, ref buffer) => Stored::Blocks(QuantizedMatrix {
                format,
                bytes: buffer.view([buffer.len()])?,
                n_out: self.rows,
                n_in: self.columns,
            }),
        })
    }
}

#[cfg(test)]
impl Segment {
    /// Rows of these blocks.
    pub fn of_blocks(device: &Device, format: Format, dims: [usize; 2], bytes: &[u8]) -> Result<Self, BackendError> {
        let mut segment = Self::alloc(device, Storage::Blocks(format), dims)?;
        segment.write_blocks(0, bytes)?;
        Ok(segment)
    }
}
