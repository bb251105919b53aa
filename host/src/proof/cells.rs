//! Cells of a context on the host and on a device: what `qsa.store` leaves and `qsa.attend` reads, made without their code.

use half::f16;
use varve_gpu::qsa::cells::{GROUP, SCALES};
use varve_gpu::qsa::{HEAD_DIM, NO_PAGE, RATIO};

use crate::backend::{BackendError, Buffer, Device, ShapeError};
use crate::ops::qsa_cells::{CellKind, CellRows, CellRowsMut};

/// Rows of keys or values, `[pages][kv heads][4][256]`.
#[derive(Clone, Debug)]
pub enum CellValues {
    /// f32.
    F32(Vec<f32>),
    /// Bits of f16.
    F16(Vec<u16>),
    /// Codes and bits of their f16 scales.
    I8(Vec<i8>, Vec<u16>),
}

/// What a row holds that nobody has written: NaN in every format, and no code that is ever written.
const BLANK_SCALE: u16 = 0x7e00;

impl CellValues {
    /// `rows` rows that nobody has written.
    #[must_use]
    pub fn blank(kind: CellKind, rows: usize) -> Self {
        match kind {
            CellKind::F32 => Self::F32(vec![f32::NAN; rows * HEAD_DIM]),
            CellKind::F16 => Self::F16(vec![BLANK_SCALE; rows * HEAD_DIM]),
            CellKind::I8 => Self::I8(vec![i8::MIN; rows * HEAD_DIM], vec![BLANK_SCALE; rows * SCALES]),
        }
    }

    /// Stores a row of 256 values.
    pub fn put(&mut self, row: usize, x: &[f32]) {
        let values = row * HEAD_DIM..(row + 1) * HEAD_DIM;
        match self {
            Self::F32(all) => all[values].copy_from_slice(x),
            Self::F16(all) => all[values].iter_mut().zip(x).for_each(|(to, &x)| *to = f16::from_f32(x).to_bits()),
            Self::I8(codes, scales) => {
                let codes = codes[values].chunks_mut(GROUP);
                for ((codes, scale), x) in codes.zip(&mut scales[row * SCALES..]).zip(x.chunks(GROUP)) {
                    let largest = x.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
                    let rounded = f16::from_f32(largest / 127.0);
                    let s = rounded.to_f32();
                    let code = |x: f32| if s == 0.0 { 0.0 } else { (x / s).round_ties_even().clamp(-127.0, 127.0) };
                    codes.iter_mut().zip(x).for_each(|(to, &x)| *to = code(x) as i8);
                    *scale = rounded.to_bits();
                }
            }
        }
    }

    /// A row's values; those of a format with scales are exact in f32.
    #[must_use]
    pub fn row(&self, row: usize) -> Vec<f32> {
        let values = row * HEAD_DIM..(row + 1) * HEAD_DIM;
        match self {
            Self::F32(all) => all[values].to_vec(),
            Self::F16(all) => all[values].iter().map(|&bits| f16::from_bits(bits).to_f32()).collect(),
            Self::I8(codes, scales) => {
                let scale = |d: usize| f16::from_bits(scales[row * SCALES + d / GROUP]).to_f32();
                codes[values].iter().enumerate().map(|(d, &code)| f32::from(code) * scale(d)).collect()
            }
        }
    }

    /// The bits of all values, then of all scales.
    #[must_use]
    pub fn words(&self) -> Vec<u32> {
        match self {
            Self::F32(all) => all.iter().map(|x| x.to_bits()).collect(),
            Self::F16(all) => all.iter().map(|&bits| u32::from(bits)).collect(),
            Self::I8(codes, scales) => {
                let codes = codes.iter().map(|&code| u32::from(code.cast_unsigned()));
                codes.chain(scales.iter().map(|&bits| u32::from(bits))).collect()
            }
        }
    }

    /// A copy on a device.
    ///
    /// # Errors
    /// The device's.
    pub fn load(&self, device: &Device) -> Result<LoadedCells, BackendError> {
        Ok(match self {
            Self::F32(all) => LoadedCells::F32(device.upload(all)?),
            Self::F16(all) => LoadedCells::F16(device.upload(all)?),
            Self::I8(codes, scales) => LoadedCells::I8(device.upload(codes)?, device.upload(scales)?),
        })
    }
}

/// [`CellValues`] on a device.
#[derive(Debug)]
pub enum LoadedCells {
    /// See [`CellValues::F32`].
    F32(Buffer<f32>),
    /// See [`CellValues::F16`].
    F16(Buffer<u16>),
    /// See [`CellValues::I8`].
    I8(Buffer<i8>, Buffer<u16>),
}

impl LoadedCells {
    /// The rows, to read.
    ///
    /// # Errors
    /// [`ShapeError`] where they are not of these pages and key heads.
    pub fn rows(&self, [pages, kv_heads]: [usize; 2]) -> Result<CellRows<'_>, ShapeError> {
        let (values, scales) = ([pages, kv_heads, RATIO, HEAD_DIM], [pages, kv_heads, RATIO, SCALES]);
        Ok(match self {
            Self::F32(all) => CellRows::F32(all.view(values)?),
            Self::F16(all) => CellRows::F16(all.view(values)?),
            Self::I8(codes, all) => CellRows::I8(codes.view(values)?, all.view(scales)?),
        })
    }

    /// The rows, to write.
    ///
    /// # Errors
    /// As [`rows`](Self::rows).
    pub fn rows_mut(&mut self, [pages, kv_heads]: [usize; 2]) -> Result<CellRowsMut<'_>, ShapeError> {
        let (values, scales) = ([pages, kv_heads, RATIO, HEAD_DIM], [pages, kv_heads, RATIO, SCALES]);
        Ok(match self {
            Self::F32(all) => CellRowsMut::F32(all.view_mut(values)?),
            Self::F16(all) => CellRowsMut::F16(all.view_mut(values)?),
            Self::I8(codes, all) => CellRowsMut::I8(codes.view_mut(values)?, all.view_mut(scales)?),
        })
    }

    /// What is there.
    ///
    /// # Errors
    /// The device's.
    pub fn read(&self) -> Result<CellValues, BackendError> {
        Ok(match self {
            Self::F32(all) => CellValues::F32(all.read()?),
            Self::F16(all) => CellValues::F16(all.read()?),
            Self::I8(codes, scales) => CellValues::I8(codes.read()?, scales.read()?),
        })
    }
}

/// A table of pages in no order.
#[derive(Clone, Debug)]
pub struct PageTable {
    /// Page of each block.
    pub table: Vec<u32>,
    /// Pages in memory.
    pub pages: usize,
}

impl PageTable {
    /// A table of `blocks` blocks, pages 5 more, blocks that follow each other far apart. With `holes` every fifth block is not in
    /// memory: the table says [`NO_PAGE`] or a page that there is not.
    #[must_use]
    pub fn permuted(blocks: usize, holes: bool) -> Self {
        let pages = blocks + 5;
        let step = (pages / 2 + 1..)
            .find(|step| (2..=pages / 2).all(|d| !step.is_multiple_of(d) || !pages.is_multiple_of(d)))
            .unwrap_or(1);
        let page = |b: usize| match b % 10 {
            2 if holes => NO_PAGE,
            7 if holes => pages as u32,
            _ => ((b * step + 3) % pages) as u32,
        };
        Self { table: (0..blocks).map(page).collect(), pages }
    }

    /// Row of a cell for a key head.
    #[must_use]
    pub fn row(&self, cell: usize, head: usize, kv_heads: usize) -> Option<usize> {
        let page = *self.table.get(cell / RATIO)? as usize;
        (page < self.pages).then(|| (page * kv_heads + head) * RATIO + cell % RATIO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_lead_to_different_pages_far_apart() {
        for blocks in [1, 2, 9, 64, 1001] {
            let all = PageTable::permuted(blocks, false);
            let mut pages = all.table.clone();
            assert!(pages.windows(2).all(|two| two[0].abs_diff(two[1]) > 1), "{pages:?}");
            pages.sort_unstable();
            pages.dedup();
            assert!(pages.len() == blocks && pages.iter().all(|&page| (page as usize) < all.pages));
        }
        let holes = PageTable::permuted(20, true);
        assert_eq!((0..80).filter(|&cell| holes.row(cell, 0, 1).is_none()).count(), 16);
        assert_eq!(holes.row(80, 0, 1), None);
    }

    #[test]
    fn formats_keep_rows_as_well_as_they_can() {
        let x: Vec<f32> = (0..256).map(|i| if i < 64 { 0.0 } else { (i as f32 * 0.7).sin() * i as f32 }).collect();
        for (kind, share) in [(CellKind::F32, 0.0), (CellKind::F16, 0.0005), (CellKind::I8, 0.005)] {
            let mut cells = CellValues::blank(kind, 2);
            assert!(cells.row(0)[..].iter().all(|x| x.is_nan()));
            cells.put(1, &x);
            let furthest = cells.row(1).iter().zip(&x).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(furthest <= share * 255.0 && (furthest > 0.0) == (share > 0.0), "{kind:?}: {furthest}");
            assert!(cells.row(1)[..64].iter().all(|&x| x == 0.0), "a group of zeros");
        }
    }
}
