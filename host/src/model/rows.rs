//! Rows of values in device memory: activations of the tokens of a call, and what a sequence keeps.

use std::ops::Range;

use bytemuck::Pod;

use crate::backend::{BackendError, Buffer, Device, ShapeError, View, ViewMut};

/// `[rows, width]`, dense.
pub struct Rows<T> {
    buffer: Buffer<T>,
    width: usize,
}

impl<T: Pod> Rows<T> {
    /// Memory for `rows` rows.
    pub fn new(device: &Device, rows: usize, width: usize) -> Result<Self, BackendError> {
        Ok(Self { buffer: device.alloc(rows * width)?, width })
    }

    /// As [`new`](Self::new), all bytes 0.
    pub fn zeroed(device: &Device, rows: usize, width: usize) -> Result<Self, BackendError> {
        let mut rows = Self::new(device, rows, width)?;
        rows.buffer.fill_bytes(0)?;
        Ok(rows)
    }

    /// All values, in rows one behind the other.
    pub fn buffer_mut(&mut self) -> &mut Buffer<T> {
        &mut self.buffer
    }

    /// How many rows.
    pub fn rows(&self) -> usize {
        self.buffer.len() / self.width
    }

    /// Values of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// All rows.
    pub fn all(&self) -> Result<View<'_, T, 2>, ShapeError> {
        self.buffer.view([self.buffer.len() / self.width, self.width])
    }

    /// All rows, to write.
    pub fn all_mut(&mut self) -> Result<ViewMut<'_, T, 2>, ShapeError> {
        self.buffer.view_mut([self.buffer.len() / self.width, self.width])
    }

    /// The first rows.
    pub fn first(&self, rows: usize) -> Result<View<'_, T, 2>, ShapeError> {
        self.columns(rows, 0..self.width)
    }

    /// The first rows, to write.
    pub fn first_mut(&mut self, rows: usize) -> Result<ViewMut<'_, T, 2>, ShapeError> {
        self.columns_mut(rows, 0..self.width)
    }

    /// Rows `range`.
    pub fn range(&self, range: Range<usize>) -> Result<View<'_, T, 2>, ShapeError> {
        self.buffer.view_strided(range.start * self.width, [range.len(), self.width], [self.width, 1])
    }

    /// Rows `range`, to write.
    pub fn range_mut(&mut self, range: Range<usize>) -> Result<ViewMut<'_, T, 2>, ShapeError> {
        let dims = [range.len(), self.width];
        self.buffer.view_strided_mut(range.start * self.width, dims, [self.width, 1])
    }

    /// Row `row` alone.
    pub fn row(&self, row: usize) -> Result<View<'_, T, 2>, ShapeError> {
        self.buffer.view_strided(row * self.width, [1, self.width], [self.width, 1])
    }

    /// Some columns of the first rows.
    pub fn columns(&self, rows: usize, columns: Range<usize>) -> Result<View<'_, T, 2>, ShapeError> {
        self.buffer.view_strided(columns.start, [rows, columns.len()], [self.width, 1])
    }

    /// Some columns of the first rows, to write.
    pub fn columns_mut(&mut self, rows: usize, columns: Range<usize>) -> Result<ViewMut<'_, T, 2>, ShapeError> {
        self.buffer.view_strided_mut(columns.start, [rows, columns.len()], [self.width, 1])
    }

    /// The first rows as `[rows * n, width / n]`.
    pub fn split(&self, rows: usize, n: usize) -> Result<View<'_, T, 2>, ShapeError> {
        let width = self.width / n;
        self.buffer.view_strided(0, [rows * n, width], [width, 1])
    }

    /// As [`split`](Self::split), to write.
    pub fn split_mut(&mut self, rows: usize, n: usize) -> Result<ViewMut<'_, T, 2>, ShapeError> {
        let width = self.width / n;
        self.buffer.view_strided_mut(0, [rows * n, width], [width, 1])
    }

    /// The first `len` values of all rows in one line.
    pub fn line(&self, len: usize) -> Result<View<'_, T, 1>, ShapeError> {
        self.buffer.view_strided(0, [len], [1])
    }

    /// As [`line`](Self::line), to write.
    pub fn line_mut(&mut self, len: usize) -> Result<ViewMut<'_, T, 1>, ShapeError> {
        self.buffer.view_strided_mut(0, [len], [1])
    }

    /// Overwrites the first values.
    pub fn write(&mut self, values: &[T]) -> Result<(), BackendError> {
        self.write_from(0, values)
    }

    /// Overwrites values from row `first` on.
    pub fn write_from(&mut self, first: usize, values: &[T]) -> Result<(), BackendError> {
        self.buffer.write_at(first * self.width, values)
    }

    /// The values of the first rows, on the host.
    pub fn read(&self, rows: usize) -> Result<Vec<T>, BackendError> {
        self.buffer.read_range(0..rows * self.width)
    }
}
