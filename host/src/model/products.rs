//! Products with the matrices of a model, in whichever storage their rows are.
//!
//! Plain rows are multiplied as they are. Rows of blocks are, too, by vectors that are rounded to 8 bits (`mmvq`), up to
//! eight of them; more are multiplied as they are, by slices of rows that are expanded for the time of a launch: to f16 where
//! tensor cores multiply them, else to f32, which is exact.

use super::ModelError;
use super::run::Run;
use super::weights::{Extent, Segment};
use crate::backend::{BackendError, Buffer, Device, View, ViewMut};
use crate::ops::add::Add;
use crate::ops::dense_dequantize::{ValuesMut, dequantize};
use crate::ops::dense_product::{self, expanded_to};
use crate::ops::mmvq_product::{QuantizedMatrix, Vectors};
use crate::ops::mmvq_quantize::{MAX_COLUMNS, QuantizedMut, il_words, q8_words};
use crate::ops::weights::{Kind, Stored, Weights};

/// Most f32 values of a slice: 64 MiB; a longer row is a slice of its own.
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
    /// For segments of blocks up to `extent`; vectors are never rounded to 8 bits if `exact`.
    pub fn new(device: &Device, extent: Extent, exact: bool) -> Result<Self, BackendError> {
        let vectors = if exact { 0 } else { extent.columns };
        Ok(Self {
            exact,
            q8: device.alloc(q8_words(vectors, MAX_COLUMNS))?,
            il: device.alloc(il_words(vectors, MAX_COLUMNS))?,
            values: device.alloc(extent.values.min(SLICE).max(extent.columns))?,
        })
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
    let ProductScratch { exact, q8, il, values } = &mut *run.products.borrow_mut();
    let [tokens, n_in] = x.dims;
    let mut rounded = None;
    if !*exact
        && (1..=MAX_COLUMNS).contains(&tokens)
        && all.iter().any(|(segments, ..)| segments.iter().any(Segment::is_blocks))
    {
        let q8 = q8.view_strided_mut(0, [q8_words(n_in, tokens)], [1])?;
        let il = Some(il.view_strided_mut(0, [il_words(n_in, tokens)], [1])?);
        rounded = Some(Vectors::new(*x, QuantizedMut { q8, il }));
    }
    for (segments, into, mut y) in all {
        let add = if into == Into::Residual { Add::Itself } else { Add::Nothing };
        let mut first = 0;
        for segment in segments {
            let mut y = y.part(1, first..first + segment.rows())?;
            first += segment.rows();
            match (segment.stored()?, &mut rounded) {
                (Stored::Plain(w), _) => {
                    dense_product::product(run.pick(), run.stream, &w, x, &add, &mut y)?;
                }
                (Stored::Blocks(w), Some(vectors)) => {
                    vectors.product(run.pick(), run.stream, &w, &add, &mut y)?;
                }
                (Stored::Blocks(w), None) => {
                    let kind = expanded_to(run.dispatch, run.stream.device(), [tokens, w.n_out, n_in]);
                    expanded((values, kind), run, &w, x, &add, &mut y)?;
                }
            }
        }
    }
    Ok(())
}

/// The product with rows that are expanded to `values` as `kind` says, slice by slice.
fn expanded(
    (values, kind): (&mut Buffer<f32>, Kind),
    run: &Run<'_>,
    w: &QuantizedMatrix<'_>,
    x: &View<'_, f32, 2>,
    add: &Add<'_>,
    y: &mut ViewMut<'_, f32, 2>,
) -> Result<(), ModelError> {
    let room = match kind {
        Kind::F32 => values.len(),
        Kind::F16 | Kind::Bf16 => values.len_as::<u16>(),
    };
    let of_a_slice = room / w.n_in;
    for first in (0..w.n_out).step_by(of_a_slice) {
        let rows = first..(first + of_a_slice).min(w.n_out);
        let dims = [rows.len(), w.n_in];
        let mut slice = match kind {
            Kind::F32 => ValuesMut::F32(values.view_as_mut(dims)?),
            Kind::F16 => ValuesMut::F16(values.view_as_mut(dims)?),
            Kind::Bf16 => ValuesMut::Bf16(values.view_as_mut(dims)?),
        };
        dequantize(run.pick(), run.stream, w, rows.clone(), &mut slice)?;
        let slice = match kind {
            Kind::F32 => Weights::F32(values.view_as(dims)?),
            Kind::F16 => Weights::F16(values.view_as(dims)?),
            Kind::Bf16 => Weights::Bf16(values.view_as(dims)?),
        };
        dense_product::product(run.pick(), run.stream, &slice, x, add, &mut y.part(1, rows)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::backend::EmulatorConfig;
    use crate::model::weights::Matrix;
    use crate::ops::attn_norm_rope::RopeTables;
    use crate::ops::dispatch::Dispatch;
    use varve_gpu::mmvq::Format;

    const WIDTH: usize = 256;
    /// Rows of the first segment and of the second.
    const ROWS: [usize; 2] = [10, 3];

    /// Any codes, with steps of ordinary size.
    fn blocks(format: Format, rows: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..rows * format.block().1).map(|i| (i * 151 + i / 7 * 89) as u8).collect();
        for (i, block) in bytes.chunks_exact_mut(format.block().1).enumerate() {
            for &at in format.scales() {
                block[at..at + 2].copy_from_slice(&(0x1c00 + 77 * i as u16).to_le_bytes());
            }
        }
        bytes
    }

    /// Rows in blocks of two formats, and the same expanded.
    fn matrices(device: &Device) -> [Matrix; 2] {
        let formats = [Format::Q4_K, Format::Q6_K];
        let mut values = Vec::new();
        let segments = formats.into_iter().zip(ROWS).map(|(format, rows)| {
            let bytes = blocks(format, rows);
            format.dequantize(&bytes, &mut values);
            Segment::of_blocks(device, format, [rows, WIDTH], &bytes).expect("fits")
        });
        let in_blocks = Matrix::new(segments.collect());
        [in_blocks, Matrix::from_f32(device, [ROWS[0] + ROWS[1], WIDTH], &values).expect("fits")]
    }

    /// What `tokens` tokens make of a matrix, added to ones if `into` says so; slices have three rows, of f16 six.
    fn run(device: &Device, matrix: &Matrix, tokens: usize, into: Into, exact: bool) -> Vec<f32> {
        run_by("", device, matrix, tokens, into, exact)
    }

    /// [`run`] with these switches.
    fn run_by(switches: &str, device: &Device, matrix: &Matrix, tokens: usize, into: Into, exact: bool) -> Vec<f32> {
        let dispatch = Dispatch::new(switches.parse().expect("switches"));
        let stream = device.stream().expect("a stream");
        let extent = Extent { columns: WIDTH, values: 3 * WIDTH + 5 };
        let products_scratch = RefCell::new(ProductScratch::new(device, extent, exact).expect("fits"));
        let angles = device.upload(&[0.0f32; 4]).expect("fits");
        let table = || angles.view([1, 4]).expect("dense");
        let run = Run {
            stream: &stream,
            dispatch: &dispatch,
            tokens,
            rope: RopeTables { cos: table(), sin: table(), first: 0 },
            eps: 1e-6,
            products: &products_scratch,
        };
        let x: Vec<f32> = (0..tokens * WIDTH).map(|i| (i as f32 * 0.37).sin()).collect();
        let x = device.upload(&x).expect("fits");
        let mut y = device.upload(&vec![1.0f32; tokens * matrix.n_out()]).expect("fits");
        let to = y.view_mut([tokens, matrix.n_out()]).expect("dense");
        products(&run, &x.view([tokens, WIDTH]).expect("dense"), [(matrix.segments(), into, to)]).expect("runs");
        y.read().expect("reads")
    }

    #[test]
    fn slices_of_rows_give_the_bits_of_expanded_rows() {
        let device = Device::emulator(EmulatorConfig::default());
        let [in_blocks, expanded] = matrices(&device);
        for (tokens, exact) in [(9, false), (2, true)] {
            for into in [Into::Fresh, Into::Residual] {
                let got = run(&device, &in_blocks, tokens, into, exact);
                let wanted = run(&device, &expanded, tokens, into, exact);
                assert_eq!(got, wanted, "{tokens} tokens, {into:?}");
            }
        }
    }

    #[test]
    fn tensor_cores_multiply_rows_rounded_to_f16() {
        let device = Device::emulator(EmulatorConfig::default());
        let [in_blocks, expanded] = matrices(&device);
        let exact = run(&device, &expanded, 9, Into::Residual, false);
        let by = |variant: &str| {
            let switch = format!("dense.product={variant}");
            run_by(&switch, &device, &in_blocks, 9, Into::Residual, false)
        };
        let rounded = by("mma");
        assert_eq!(rounded, by("mma_narrow"), "one order, whatever the blocks");
        let size = exact.iter().fold(0.0f32, |a, x| a.max(x.abs()));
        let apart = rounded.iter().zip(&exact).fold(0.0f32, |a, (x, y)| a.max((x - y).abs()));
        assert!(apart > 1e-5 * size && apart < 1e-3 * size, "{apart} of {size}: f16 rounds by up to 4.9e-4");
    }

    #[test]
    fn few_vectors_are_rounded_and_stay_near() {
        let device = Device::emulator(EmulatorConfig::default());
        let [in_blocks, expanded] = matrices(&device);
        for into in [Into::Fresh, Into::Residual] {
            let (got, wanted) = (run(&device, &in_blocks, 8, into, false), run(&device, &expanded, 8, into, false));
            assert_ne!(got, wanted, "a rounded vector changes some sum");
            let size = wanted.iter().fold(0.0f32, |a, x| a.max(x.abs()));
            let apart = got.iter().zip(&wanted).fold(0.0f32, |a, (x, y)| a.max((x - y).abs()));
            assert!(apart < 0.02 * size, "{into:?}: {apart} of {size}");
        }
    }
}
