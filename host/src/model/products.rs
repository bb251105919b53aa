//! Products with the matrices of a model, in whichever storage their rows are.
//!
//! Plain rows are multiplied as they are. Rows of blocks are, too, by vectors that are rounded to 8 bits (`mmvq`), up to
//! eight of them; more are multiplied exactly, by slices of rows that are expanded for the time of a launch.

use super::ModelError;
use super::run::Run;
use super::weights::{Extent, Segment};
use crate::backend::{BackendError, Buffer, Device, View, ViewMut};
use crate::ops::add::Add;
use crate::ops::dense_dequantize::{ValuesMut, dequantize};
use crate::ops::dense_product;
use crate::ops::mmvq_product::{self, QuantizedMatrix};
use crate::ops::mmvq_quantize::{MAX_COLUMNS, Quantized, QuantizedMut, il_words, q8_words, quantize};
use crate::ops::weights::{Stored, Weights};

/// Most values of a slice: 64 MiB; a longer row is a slice of its own.
const SLICE: usize = 16 << 20;

/// Memory of products with blocks, shared by all of a model.
pub struct ProductScratch {
    exact: bool,
    q8: Buffer<u32>,
    il: Buffer<u32>,
    /// A slice of expanded rows.
    values: Buffer<f32>,
}

impl ProductScratch {
    /// For segments of blocks up to `extent`; vectors are never rounded if `exact`.
    pub fn new(device: &Device, extent: Extent, exact: bool) -> Result<Self, BackendError> {
        let vectors = if exact { 0 } else { extent.columns };
        Ok(Self {
            exact,
            q8: device.alloc(q8_words(vectors, MAX_COLUMNS))?,
            il: device.alloc(il_words(vectors, MAX_COLUMNS))?,
            values: device.alloc(extent.values.min(SLICE).max(extent.columns))?,
        })
    }

    /// Rounds x, one to eight vectors.
    fn round(&mut self, run: &Run<'_>, x: &View<'_, f32, 2>) -> Result<(), ModelError> {
        let [columns, n_in] = x.dims;
        let il = Some(self.il.view_strided_mut(0, [il_words(n_in, columns)], [1])?);
        let q8 = self.q8.view_strided_mut(0, [q8_words(n_in, columns)], [1])?;
        quantize(run.pick(), run.stream, x, &mut QuantizedMut { q8, il })?;
        Ok(())
    }

    /// The vectors of these dimensions that [`Self::round`] made.
    fn rounded(&self, [columns, n_in]: [usize; 2]) -> Result<Quantized<'_>, ModelError> {
        let il = Some(self.il.view_strided(0, [il_words(n_in, columns)], [1])?);
        let q8 = self.q8.view_strided(0, [q8_words(n_in, columns)], [1])?;
        Ok(Quantized { q8, il, n_in, columns })
    }

    /// The product with expanded rows, slice by slice.
    fn expanded(
        &mut self,
        run: &Run<'_>,
        w: &QuantizedMatrix<'_>,
        x: &View<'_, f32, 2>,
        add: &Add<'_>,
        y: &mut ViewMut<'_, f32, 2>,
    ) -> Result<(), ModelError> {
        let of_a_slice = self.values.len() / w.n_in;
        for first in (0..w.n_out).step_by(of_a_slice) {
            let rows = first..(first + of_a_slice).min(w.n_out);
            let dims = [rows.len(), w.n_in];
            let slice = self.values.view_strided_mut(0, dims, [w.n_in, 1])?;
            dequantize(run.pick(), run.stream, w, rows.clone(), &mut ValuesMut::F32(slice))?;
            let slice = Weights::F32(self.values.view_strided(0, dims, [w.n_in, 1])?);
            dense_product::product(run.pick(), run.stream, &slice, x, add, &mut y.part(1, rows)?)?;
        }
        Ok(())
    }
}

/// Where a product goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Into {
    /// Into a buffer of its own; in a layer of several streams the mixer writes it to them.
    Fresh,
    /// Added to what is there: the residual.
    Residual,
}

/// A product of a call: the rows of a matrix, and where the result goes.
pub type Product<'a, 'y> = (&'a [Segment], Into, ViewMut<'y, f32, 2>);

/// `y = W x` for each of some matrices of one width, x `[tokens, width]`.
///
/// # Errors
/// The device's.
pub fn products<const N: usize>(
    run: &Run<'_>,
    x: &View<'_, f32, 2>,
    all: [Product<'_, '_>; N],
) -> Result<(), ModelError> {
    let scratch = &mut *run.products.borrow_mut();
    let rounds = !scratch.exact && x.dims[0] <= MAX_COLUMNS;
    if rounds && all.iter().any(|(segments, ..)| segments.iter().any(Segment::is_blocks)) {
        scratch.round(run, x)?;
    }
    for (segments, into, mut y) in all {
        let add = if into == Into::Residual { Add::Itself } else { Add::Nothing };
        let mut first = 0;
        for segment in segments {
            let mut y = y.part(1, first..first + segment.rows())?;
            first += segment.rows();
            match segment.stored()? {
                Stored::Plain(w) => {
                    dense_product::product(run.pick(), run.stream, &w, x, &add, &mut y)?;
                }
                Stored::Blocks(w) if rounds => {
                    mmvq_product::product(run.pick(), run.stream, &w, &scratch.rounded(x.dims)?, &add, &mut y)?;
                }
                Stored::Blocks(w) => scratch.expanded(run, &w, x, &add, &mut y)?,
            }
        }
    }
    Ok(())
}
