//! Keys and values of a sequence's cells, in pages of four, in the format that the model was loaded for.

use cuda_std::float::f32_to_f16;
use varve_gpu::qsa::cells::SCALES;
use varve_gpu::qsa::{HEAD_DIM, RATIO};

use super::made_up::Numbers;
use super::rows::Rows;
use crate::backend::{BackendError, Buffer, Device, ShapeError};
use crate::ops::qsa_cells::{CellKind, CellRows, CellRowsMut};

/// Keys and values, and the page of each block.
pub struct Cells {
    pub k: Half,
    pub v: Half,
    /// u32 `[pages]`: block to page. A sequence has its pages for itself, in order.
    pub table: Rows<u32>,
}

/// Keys, or values: `[pages, kv heads, 4, 256]`.
pub struct Half {
    sizes: [usize; 2],
    stored: Stored,
}

enum Stored {
    F32(Buffer<f32>),
    F16(Buffer<u16>),
    I8(Buffer<i8>, Buffer<u16>),
}

impl Cells {
    /// Room for `context` cells. A page's bytes are anything until its cells are stored.
    pub fn new(device: &Device, kind: CellKind, context: usize, kv_heads: usize) -> Result<Self, BackendError> {
        let pages = context.div_ceil(RATIO);
        let mut table = Rows::new(device, pages, 1)?;
        table.write(&(0..pages as u32).collect::<Vec<_>>())?;
        let half = || Half::new(device, kind, [pages, kv_heads]);
        Ok(Self { k: half()?, v: half()?, table })
    }
}

impl Half {
    fn new(device: &Device, kind: CellKind, sizes: [usize; 2]) -> Result<Self, BackendError> {
        let rows = sizes[0] * sizes[1] * RATIO;
        let stored = match kind {
            CellKind::F32 => Stored::F32(device.alloc(rows * HEAD_DIM)?),
            CellKind::F16 => Stored::F16(device.alloc(rows * HEAD_DIM)?),
            CellKind::I8 => Stored::I8(device.alloc(rows * HEAD_DIM)?, device.alloc(rows * SCALES)?),
        };
        Ok(Self { sizes, stored })
    }

    fn dims(&self, width: usize) -> [usize; 4] {
        [self.sizes[0], self.sizes[1], RATIO, width]
    }

    /// Random numbers in every cell.
    pub fn make_up(&mut self, numbers: &mut Numbers) -> Result<(), BackendError> {
        match &mut self.stored {
            Stored::F32(values) => numbers.fill(values, |x| x),
            Stored::F16(values) => numbers.fill(values, f32_to_f16),
            Stored::I8(codes, scales) => {
                numbers.fill(codes, |x| (127.0 * x) as i8)?;
                numbers.fill(scales, |x| f32_to_f16((1.0 + 0.5 * x) / 127.0))
            }
        }
    }

    /// All cells, to read.
    pub fn rows(&self) -> Result<CellRows<'_>, ShapeError> {
        let (values, scales) = (self.dims(HEAD_DIM), self.dims(SCALES));
        Ok(match &self.stored {
            Stored::F32(x) => CellRows::F32(x.view(values)?),
            Stored::F16(x) => CellRows::F16(x.view(values)?),
            Stored::I8(x, s) => CellRows::I8(x.view(values)?, s.view(scales)?),
        })
    }

    /// All cells, to write.
    pub fn rows_mut(&mut self) -> Result<CellRowsMut<'_>, ShapeError> {
        let (values, scales) = (self.dims(HEAD_DIM), self.dims(SCALES));
        Ok(match &mut self.stored {
            Stored::F32(x) => CellRowsMut::F32(x.view_mut(values)?),
            Stored::F16(x) => CellRowsMut::F16(x.view_mut(values)?),
            Stored::I8(x, s) => CellRowsMut::I8(x.view_mut(values)?, s.view_mut(scales)?),
        })
    }
}
