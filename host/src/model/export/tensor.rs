//! A tensor of the file in the making: rows of stored tensors, in the order and with the values that GGUF wants.

use std::ops::Range;

use super::super::weights::values::{row_bytes, to_f32};
use super::super::{Checkpoint, DType, Tensor};

/// What becomes of values besides their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Map {
    /// Nothing.
    Same,
    /// One is added: the gain of a norm, of which Hugging Face stores what is beyond 1.
    PlusOne,
    /// The logarithm of a decay becomes the decay, which is negative.
    NegExp,
}

/// Rows of one stored tensor, seen as `[rows, last dimension]`.
#[derive(Debug)]
pub struct Piece<'a> {
    tensor: &'a Tensor,
    rows: Range<usize>,
    row_order: Option<Vec<usize>>,
}

impl<'a> Piece<'a> {
    /// Some rows; row i is the stored row `order[i]` where there is an order.
    pub fn new(tensor: &'a Tensor, rows: Range<usize>, row_order: Option<Vec<usize>>) -> Self {
        Self { tensor, rows, row_order }
    }
}

/// A tensor to be written.
#[derive(Debug)]
pub struct Planned<'a> {
    /// Its name in GGUF files.
    pub name: String,
    /// Outermost dimension first.
    pub shape: Vec<usize>,
    /// The type it has if nothing else is asked for.
    pub dtype: DType,
    pieces: Vec<Piece<'a>>,
    /// Column i is the stored column `order[i]`.
    column_order: Option<Vec<usize>>,
    map: Map,
}

impl<'a> Planned<'a> {
    /// A stored tensor as it is.
    pub(super) fn whole(tensor: &'a Tensor) -> Self {
        let rows = tensor.shape[..tensor.shape.len() - 1].iter().product();
        Self::new(tensor.name.clone(), tensor.shape.clone(), vec![Piece::new(tensor, 0..rows, None)])
    }

    /// Pieces, one below the other. It has their type, or f32 where they have several.
    pub(super) fn new(name: String, shape: Vec<usize>, pieces: Vec<Piece<'a>>) -> Self {
        let first = pieces.first().map_or(DType::F32, |piece| piece.tensor.dtype);
        let dtype = if pieces.iter().all(|piece| piece.tensor.dtype == first) { first } else { DType::F32 };
        Self { name, shape, dtype, pieces, column_order: None, map: Map::Same }
    }

    /// With the columns in another order.
    pub(super) fn with_columns(self, order: Vec<usize>) -> Self {
        Self { column_order: Some(order), ..self }
    }

    /// As f32, with these values: what is small stays exact.
    pub(super) fn exact(self, map: Map) -> Self {
        Self { dtype: DType::F32, map, ..self }
    }

    /// Values of a row.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.shape[self.shape.len() - 1]
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.shape[..self.shape.len() - 1].iter().product()
    }

    /// The stored types of its pieces.
    pub(super) fn stored_types(&self) -> impl Iterator<Item = DType> {
        self.pieces.iter().map(|piece| piece.tensor.dtype)
    }

    /// Whether its bytes in `dtype` are stored bytes.
    pub(super) fn is_stored_as(&self, dtype: DType) -> bool {
        self.map == Map::Same && self.column_order.is_none() && self.stored_types().all(|stored| stored == dtype)
    }

    /// Tells `each` the stored bytes of these rows, and their type.
    fn for_rows(&self, checkpoint: &Checkpoint, rows: Range<usize>, mut each: impl FnMut(DType, &[u8])) {
        let mut first = 0;
        for Piece { tensor, rows: of, row_order } in &self.pieces {
            let here = rows.start.max(first)..rows.end.min(first + of.len());
            let (bytes, len) = (checkpoint.bytes(tensor), row_bytes(tensor.dtype, self.columns()));
            for row in here {
                let row = of.start + row - first;
                let stored = row_order.as_ref().map_or(row, |order| order[row]);
                each(tensor.dtype, &bytes[stored * len..(stored + 1) * len]);
            }
            first += of.len();
        }
    }

    /// Appends stored bytes.
    pub(super) fn bytes(&self, checkpoint: &Checkpoint, rows: Range<usize>, out: &mut Vec<u8>) {
        self.for_rows(checkpoint, rows, |_, bytes| out.extend(bytes));
    }

    /// Appends values.
    pub(super) fn values(&self, checkpoint: &Checkpoint, rows: Range<usize>, out: &mut Vec<f32>) {
        let (start, mut row) = (out.len(), Vec::new());
        self.for_rows(checkpoint, rows, |dtype, bytes| match &self.column_order {
            None => to_f32(dtype, bytes, out),
            Some(order) => {
                row.clear();
                to_f32(dtype, bytes, &mut row);
                out.extend(order.iter().map(|&column| row[column]));
            }
        });
        match self.map {
            Map::Same => {}
            Map::PlusOne => out[start..].iter_mut().for_each(|x| *x += 1.0),
            Map::NegExp => out[start..].iter_mut().for_each(|x| *x = -x.exp()),
        }
    }
}
