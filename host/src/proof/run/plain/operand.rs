//! Matrix operands of a case: made by law, laid out with or without gaps, guarded on a device.

use std::ops::Range;

use bytemuck::Pod;
use cuda_std::emulator::memory::POISON;

use super::super::delta_rec::DATA;
use super::super::loaded::Flaw;
use crate::backend::{BackendError, Buffer, Device, View, ViewMut};
use crate::ops::add::Add;
use crate::proof::compare::{self, Value};
use crate::proof::random::{Array, Random};

/// Rows behind the last that nobody may touch.
const GUARD_ROWS: usize = 4;

/// A law of inputs.
#[derive(Debug)]
pub struct Law {
    /// Name in case lists and results.
    pub name: &'static str,
    /// Standard deviation of an element.
    pub scale: f64,
    /// Every third row is zero.
    pub zero_rows: bool,
}

const fn law(name: &'static str, scale: f64) -> Law {
    Law { name, scale, zero_rows: false }
}

/// Laws; the first is ordinary use.
pub static LAWS: &[Law] = &[
    law("base", 1.0),
    law("x50", 50.0),
    law("x1e15", 1e15),
    law("x1e-20", 1e-20),
    law("x1e-38", 1e-38),
    Law { name: "zero_rows", scale: 1.0, zero_rows: true },
];

impl Law {
    /// Element (row, column) of the operand of that number.
    fn element(&self, operand: u64, row: usize, at: usize) -> f32 {
        if self.zero_rows && row % 3 == 1 {
            return 0.0;
        }
        (self.scale * Random::new(DATA + 1000 * operand, Array::Output).normal(at as u64)) as f32
    }
}

/// How rows lie in memory. Every operand of a case gets another gap, so that strides taken for one another show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// One behind the other.
    Dense,
    /// Starting at multiples of 16 bytes, with gaps between.
    Gaps,
    /// Starting anywhere, with gaps between.
    Odd,
}

impl Layout {
    /// How case names tell it.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Dense => "",
            Self::Gaps => "/gaps",
            Self::Odd => "/odd",
        }
    }

    /// First element and row stride.
    fn place(self, operand: u64, width: usize) -> (usize, usize) {
        let operand = operand as usize;
        match self {
            Self::Dense => (0, width),
            Self::Gaps => (4 * operand, width.next_multiple_of(4) + 4 * operand + 4),
            Self::Odd => (operand + 1, width + 2 * operand + 1),
        }
    }
}

/// What a case adds to its product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// Nothing.
    Nothing,
    /// Another buffer.
    Other,
    /// What y holds before.
    Itself,
}

impl Added {
    /// How case names tell it.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::Other => "/add",
            Self::Itself => "/add_self",
        }
    }

    /// For an operation; `other` is the other buffer.
    pub const fn of(self, other: View<'_, f32, 2>) -> Add<'_> {
        match self {
            Self::Nothing => Add::Nothing,
            Self::Other => Add::Other(other),
            Self::Itself => Add::Itself,
        }
    }
}

/// A matrix on the host, without gaps.
#[derive(Clone, Debug)]
pub struct Matrix<T> {
    /// `[rows][width]`.
    pub values: Vec<T>,
    /// Rows.
    pub rows: usize,
    /// Elements of a row.
    pub width: usize,
    layout: Layout,
    operand: u64,
}

impl Matrix<f32> {
    /// Operand number `operand` of its case.
    pub fn random(operand: u64, layout: Layout, [rows, width]: [usize; 2], law: &Law) -> Self {
        let values = (0..rows * width).map(|i| law.element(operand, i / width, i)).collect();
        Self { values, rows, width, layout, operand }
    }
}

impl<T> Matrix<T> {
    /// These values, dense, as operand number `operand` of its case.
    pub fn of(operand: u64, [rows, width]: [usize; 2], values: Vec<T>) -> Self {
        Self { values, rows, width, layout: Layout::Dense, operand }
    }
}

impl<T: Copy> Matrix<T> {
    /// A row.
    pub fn row(&self, row: usize) -> &[T] {
        &self.values[row * self.width..(row + 1) * self.width]
    }
}

/// A matrix on a device, with poison before it, between its rows and behind it.
pub struct Loaded<T> {
    buffer: Buffer<T>,
    rows: usize,
    width: usize,
    offset: usize,
    stride: usize,
}

impl<T: Pod + Value> Loaded<T> {
    /// A copy of `matrix`.
    pub fn of(device: &Device, matrix: &Matrix<T>) -> Result<Self, BackendError> {
        let mut loaded = Self::blank(device, matrix.operand, matrix.layout, [matrix.rows, matrix.width])?;
        let mut all = loaded.buffer.read()?;
        for row in 0..matrix.rows {
            all[loaded.offset + row * loaded.stride..][..matrix.width].copy_from_slice(matrix.row(row));
        }
        loaded.buffer.write(&all)?;
        Ok(loaded)
    }

    /// An output that nobody has written.
    pub fn blank(
        device: &Device,
        operand: u64,
        layout: Layout,
        [rows, width]: [usize; 2],
    ) -> Result<Self, BackendError> {
        let (offset, stride) = layout.place(operand, width);
        let mut buffer = device.alloc(offset + (rows + GUARD_ROWS) * stride)?;
        buffer.poison()?;
        Ok(Self { buffer, rows, width, offset, stride })
    }

    /// Some rows, to read.
    pub fn view(&self, rows: &Range<usize>) -> Result<View<'_, T, 2>, BackendError> {
        let first = self.offset + rows.start * self.stride;
        Ok(self.buffer.view_strided(first, [rows.len(), self.width], [self.stride, 1])?)
    }

    /// All rows, to read.
    pub fn all(&self) -> Result<View<'_, T, 2>, BackendError> {
        self.view(&(0..self.rows))
    }

    /// Some rows, to write.
    pub fn view_mut(&mut self, rows: &Range<usize>) -> Result<ViewMut<'_, T, 2>, BackendError> {
        let first = self.offset + rows.start * self.stride;
        Ok(self.buffer.view_strided_mut(first, [rows.len(), self.width], [self.stride, 1])?)
    }

    /// All rows, to write.
    pub fn all_mut(&mut self) -> Result<ViewMut<'_, T, 2>, BackendError> {
        self.view_mut(&(0..self.rows))
    }

    /// The first row as a vector, to write.
    pub fn first_mut(&mut self) -> Result<ViewMut<'_, T, 1>, BackendError> {
        Ok(self.buffer.view_strided_mut(self.offset, [self.width], [1])?)
    }

    /// Overwrites rows from `first` on, gaps apart: `values` are whole rows.
    pub fn put(&mut self, first: usize, values: &[T]) -> Result<(), BackendError> {
        for (row, values) in values.chunks_exact(self.width).enumerate() {
            self.buffer.write_at(self.offset + (first + row) * self.stride, values)?;
        }
        Ok(())
    }

    /// All as nobody had written it.
    pub fn poison(&mut self) -> Result<(), BackendError> {
        self.buffer.poison()
    }

    /// The rows without gaps, if they were written and nothing else was.
    pub fn read(&self) -> Result<Vec<T>, Flaw> {
        self.read_first(self.rows)
    }

    /// The rows without gaps, poison where they were not written, if nothing else was.
    pub fn read_any(&self) -> Result<Vec<T>, Flaw> {
        let mut all = self.buffer.read()?;
        compare::gaps_untouched(&all[..self.offset], 0, 0, 1, POISON)?;
        all.drain(..self.offset);
        compare::gaps_untouched(&all, self.rows, self.width, self.stride, POISON)?;
        Ok(compare::dense_rows(all, self.rows, self.width, self.stride))
    }

    /// [`Self::read`] where only the first `rows` rows were to be written.
    pub fn read_first(&self, rows: usize) -> Result<Vec<T>, Flaw> {
        let mut all = self.buffer.read()?;
        compare::gaps_untouched(&all[..self.offset], 0, 0, 1, POISON)?;
        all.drain(..self.offset);
        compare::gaps_untouched(&all, rows, self.width, self.stride, POISON)?;
        let rows = compare::dense_rows(all, rows, self.width, self.stride);
        compare::written(&rows, POISON)?;
        Ok(rows)
    }
}

/// A dense vector, to read.
pub fn vector<T: Pod>(buffer: &Buffer<T>) -> Result<View<'_, T, 1>, BackendError> {
    Ok(buffer.view([buffer.len()])?)
}

/// Some rows of a dense matrix, to read.
pub fn rows<'a, T: Pod>(
    buffer: &'a Buffer<T>,
    rows: &Range<usize>,
    width: usize,
) -> Result<View<'a, T, 2>, BackendError> {
    Ok(buffer.view_strided(rows.start * width, [rows.len(), width], [width, 1])?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::EmulatorConfig;

    #[test]
    fn what_is_loaded_is_read_back_and_strays_are_noticed() {
        let device = Device::emulator(EmulatorConfig::default());
        for layout in [Layout::Dense, Layout::Gaps, Layout::Odd] {
            let matrix = Matrix::random(2, layout, [3, 5], &LAWS[0]);
            let mut loaded = Loaded::of(&device, &matrix).expect("loads");
            assert_eq!(loaded.read().expect("nothing touched it"), matrix.values);
            let place = loaded.offset + 3 * loaded.stride;
            loaded.buffer.write_at(place, &[1.0]).expect("within");
            assert!(loaded.read().is_err(), "{layout:?}: written behind the last row");
            let blank = Loaded::<f32>::blank(&device, 2, layout, [3, 5]).expect("fits");
            assert!(blank.read().is_err(), "{layout:?}: never written");
        }
    }
}
