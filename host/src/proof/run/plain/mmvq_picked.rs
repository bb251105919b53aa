//! `mmvq.product` of chosen rows, and of two matrices at once: to the last bit what the rows give by themselves.

use std::ops::Range;

use super::mmvq::{Data, Product};
use super::operand::{Added, Layout, Loaded};
use super::{Case, Expected, Promised, Scale, Values, prove, variants};
use crate::backend::{BackendError, Device};
use crate::ops::dispatch::Pick;
use crate::ops::mmvq_picked::{product_pair, product_rows};
use crate::ops::mmvq_product::{MMVQ_PRODUCT, QuantizedMatrix, QuantizedProductSizes, Rows};
use crate::ops::mmvq_quantize::{MMVQ_QUANTIZE, Quantized, QuantizedMut, il_words, q8_words, quantize};
use crate::proof::reference::mmvq as reference;
use crate::proof::reference::near::Near;
use crate::proof::run::loaded::Flaw;
use crate::proof::run::{Context, Work};
use varve_gpu::mmvq::Format;

/// Rows of a product: those that `ids` names, or with none all of it and of another one.
struct Picked {
    product: Product,
    ids: Option<Vec<u32>>,
}

impl Picked {
    /// Every other row downwards, then one row again and again, with numbers of no row in between and at the end.
    fn ids(rows: usize) -> Vec<u32> {
        let rows = rows as u32;
        let down = (0..rows).rev().step_by(2);
        down.chain([rows, 1 % rows, 1 % rows, u32::MAX, 1 % rows, rows - 1, i32::MAX as u32]).collect()
    }

    fn name(&self) -> String {
        format!("{}/{}", if self.ids.is_some() { "rows" } else { "pair" }, self.product.name())
    }

    fn rows(&self) -> Rows {
        if self.ids.is_some() { Rows::Chosen } else { Rows::Pair }
    }

    /// Rows of y.
    fn n(&self) -> usize {
        self.ids.as_ref().map_or(self.product.n_out, Vec::len)
    }

    fn sizes(&self, device: &Device, columns: usize) -> QuantizedProductSizes {
        let Product { format, n_in, .. } = self.product;
        QuantizedProductSizes::on(device.caps(), Pick::Named(""), format, [n_in, self.n()], columns).of(self.rows())
    }

    /// Blocks of matrix `which`.
    fn blocks(&self, which: usize) -> Vec<u8> {
        (0..self.product.n_out).flat_map(|row| self.product.weights(which * self.product.n_out + row)).collect()
    }

    fn expected_of(&self, which: usize) -> Expected {
        let (x, other) = (self.product.x(), self.product.other_of(self.n()));
        let rows = self.product.n_out;
        let asked =
            |r: usize| self.ids.as_ref().map_or(Some(r), |ids| (ids[r] < rows as u32).then_some(ids[r] as usize));
        let (mut exact, mut near) = (Vec::new(), Vec::new());
        for c in 0..self.product.columns {
            let x = reference::blocks(&reference::quantize(x.row(c)));
            for r in 0..self.n() {
                let value = asked(r).map_or(f32::NAN, |row| {
                    let bits = reference::row(self.product.format, &self.product.weights(which * rows + row), &x);
                    if self.product.added == Added::Nothing { bits } else { bits + other.row(c)[r] }
                });
                exact.push(value);
                near.push(Near::exact(value));
            }
        }
        Expected::Rounded { exact, near }
    }
}

impl Case for Picked {
    fn names(&self) -> [&'static str; 2] {
        self.product.names()
    }

    fn variants(&self, context: &Context<'_>) -> Vec<Promised> {
        variants(context, &MMVQ_PRODUCT, &self.sizes(context.device(), self.product.columns))
    }

    fn tokens(&self) -> usize {
        self.product.columns
    }

    /// As of a plain product, a piece that the variant cannot run is the base's.
    fn run(
        &self,
        device: &Device,
        variant: &str,
        pieces: &[Range<usize>],
    ) -> Result<Vec<(&'static str, Values)>, Flaw> {
        let Product { format, n_in, n_out, columns, added, .. } = self.product;
        let (stream, n) = (device.stream()?, self.n());
        let (w, w2) = (device.upload(&self.blocks(0))?, device.upload(&self.blocks(1))?);
        let ids = device.upload(self.ids.as_deref().unwrap_or_default())?;
        let view = |w| QuantizedMatrix { format, bytes: w, n_out, n_in };
        let (w, w2) =
            (w.view([w.len()]).map_err(BackendError::from)?, w2.view([w2.len()]).map_err(BackendError::from)?);
        let ids = ids.view([ids.len()]).map_err(BackendError::from)?;
        let (x, other) = (Loaded::of(device, &self.product.x())?, Loaded::of(device, &self.product.other_of(n))?);
        let mut y = match added {
            Added::Itself => Loaded::of(device, &self.product.other_of(n))?,
            _ => Loaded::blank(device, 2, Layout::Odd, [columns, n])?,
        };
        // Results of a pair lie alike.
        let y_operand = if added == Added::Itself { 3 } else { 2 };
        let mut y2 = Loaded::blank(device, y_operand, Layout::Odd, [columns, n])?;
        for piece in pieces {
            let columns = piece.len();
            let (mut q8, mut il) = (device.alloc(q8_words(n_in, columns))?, device.alloc(il_words(n_in, columns))?);
            let (len, room) = (q8.len(), il.len());
            let mut to = QuantizedMut {
                q8: q8.view_mut([len]).map_err(BackendError::from)?,
                il: Some(il.view_mut([room]).map_err(BackendError::from)?),
            };
            quantize(Pick::Named(MMVQ_QUANTIZE.base().name), &stream, &x.view(piece)?, &mut to)?;
            let row = MMVQ_PRODUCT.row(variant)?;
            let fits = MMVQ_PRODUCT.launch_of(row, device.caps(), &self.sizes(device, columns)).is_ok();
            let pick = Pick::Named(if fits { variant } else { MMVQ_PRODUCT.base().name });
            let il = to.il.as_ref().map(|il| il.as_view());
            let vectors = Quantized { x: Some(x.view(piece)?), q8: to.q8.as_view(), il, n_in, columns };
            let (w, mut y) = (view(w), y.view_mut(piece)?);
            if self.ids.is_some() {
                product_rows(pick, &stream, (&w, &ids), &vectors, &added.of(other.view(piece)?), &mut y)?;
            } else {
                product_pair(pick, &stream, [&w, &view(w2)], &vectors, [&mut y, &mut y2.view_mut(piece)?])?;
            }
        }
        let mut out = vec![("y", Values::F32(y.read()?))];
        if self.ids.is_none() {
            out.push(("y2", Values::F32(y2.read()?)));
        }
        Ok(out)
    }

    fn expected(&self) -> Vec<Expected> {
        let matrices = if self.ids.is_some() { 1 } else { 2 };
        (0..matrices).map(|which| self.expected_of(which)).collect()
    }
}

/// Every format with two lengths of rows, both ways, with a tail and without, and on a card every number of vectors.
pub(super) fn works(scale: Scale) -> Vec<Work> {
    let mut works = Vec::new();
    for (i, format) in Format::ALL.into_iter().enumerate() {
        let widths = if format.block().0 == 32 { [288, 2560] } else { [768, 2560] };
        for (j, n_in) in widths.into_iter().enumerate() {
            let counts = if scale.is_small() { vec![1 + (i + 3 * j) % 8] } else { (1..=8).collect() };
            for columns in counts {
                let n_out = if scale.is_small() { 5 } else { 67 };
                let base = Product { format, n_in, n_out, columns, data: Data::Random, added: Added::Nothing };
                let added = [Added::Nothing, Added::Other, Added::Itself][(i + columns) % 3];
                let chosen = Picked { product: Product { added, ..base.clone() }, ids: Some(Picked::ids(n_out)) };
                for case in [chosen, Picked { product: base, ids: None }] {
                    works.push(Work::new(case.name(), move |context, name| prove(context, name, &case)));
                }
            }
        }
    }
    works
}
