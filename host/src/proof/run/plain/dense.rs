//! `dense.*`: rows of tables, and products with weights as files store them.

use std::fmt;
use std::ops::Range;

use half::{bf16, f16};
use varve_gpu::mmvq::Format;

use super::dequantize::Blocks;
use super::operand::{Added, LAWS, Layout, Loaded, Matrix, vector};
use super::{Call, Case, Expected, Promised, Values, aligned_works, variants};
use crate::backend::{BackendError, Buffer, Device};
use crate::ops::dense_embed::{DENSE_EMBED, EmbedSizes, embed};
use crate::ops::dense_product::{DENSE_PRODUCT, ON_TENSOR_CORES, ProductSizes, product};
use crate::ops::dispatch::Pick;
use crate::ops::mmvq_product::QuantizedMatrix;
use crate::ops::weights::{self, Kind, Weights};
use crate::proof::reference::dense as reference;
use crate::proof::reference::near::Near;
use crate::proof::run::loaded::Flaw;
use crate::proof::run::{Context, Operation};

/// Weights on the host, rounded to their storage.
pub(super) struct Stored {
    matrix: Matrix<f32>,
    kind: Kind,
}

/// Weights on a device.
pub(super) enum OnDevice {
    Full(Buffer<f32>),
    Half(Buffer<u16>),
    Blocks(Buffer<u8>),
}

impl Stored {
    pub(super) fn new(operand: u64, dims: [usize; 2], kind: Kind) -> Self {
        let mut matrix = Matrix::random(operand, Layout::Dense, dims, &LAWS[0]);
        for x in &mut matrix.values {
            *x = match kind {
                Kind::F32 => *x,
                Kind::F16 => f16::from_f32(*x).to_f32(),
                Kind::Bf16 => bf16::from_f32(*x).to_f32(),
            };
        }
        Self { matrix, kind }
    }

    pub(super) fn load(&self, device: &Device) -> Result<OnDevice, BackendError> {
        let values = self.matrix.values.iter();
        Ok(match self.kind {
            Kind::F32 => OnDevice::Full(device.upload(&self.matrix.values)?),
            Kind::F16 => {
                OnDevice::Half(device.upload(&values.map(|&x| f16::from_f32(x).to_bits()).collect::<Vec<_>>())?)
            }
            Kind::Bf16 => {
                OnDevice::Half(device.upload(&values.map(|&x| bf16::from_f32(x).to_bits()).collect::<Vec<_>>())?)
            }
        })
    }

    pub(super) fn row(&self, row: usize) -> &[f32] {
        self.matrix.row(row)
    }

    pub(super) fn view<'a>(&self, on: &'a OnDevice) -> Result<Weights<'a>, BackendError> {
        let dims = [self.matrix.rows, self.matrix.width];
        Ok(match (on, self.kind) {
            (OnDevice::Full(buffer), _) => Weights::F32(buffer.view(dims)?),
            (OnDevice::Half(buffer), Kind::Bf16) => Weights::Bf16(buffer.view(dims)?),
            (OnDevice::Half(buffer), _) => Weights::F16(buffer.view(dims)?),
            (OnDevice::Blocks(_), _) => unreachable!("plain values are not loaded as blocks"),
        })
    }
}

/// Storage of a table.
#[derive(Clone, Copy, Debug)]
pub(super) enum Storage {
    Plain(Kind),
    Blocks(Format),
}

impl fmt::Display for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(kind) => write!(f, "{kind:?}"),
            Self::Blocks(format) => f.write_str(format.name()),
        }
    }
}

/// Rows and columns of a table, and its storage.
#[derive(Clone, Copy)]
pub struct Table(usize, usize, Storage);

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}x{}", self.2, self.0, self.1)
    }
}

const TABLES: &[Table] = &[
    Table(50, 64, Storage::Plain(Kind::F32)),
    Table(50, 4, Storage::Plain(Kind::F16)),
    Table(7, 132, Storage::Plain(Kind::Bf16)),
    Table(3, 2560, Storage::Plain(Kind::F16)),
    Table(9, 96, Storage::Blocks(Format::Q8_0)),
    Table(7, 768, Storage::Blocks(Format::Q6_K)),
    Table(5, 160, Storage::Blocks(Format::IQ4_NL)),
];

/// Rows on the host.
pub(super) enum Rows {
    Plain(Stored),
    /// Blocks, and the values that they stand for.
    Blocks(Blocks, Vec<f32>),
}

impl Rows {
    pub(super) fn new(dims: [usize; 2], storage: Storage) -> Self {
        match storage {
            Storage::Plain(kind) => Self::Plain(Stored::new(9, dims, kind)),
            Storage::Blocks(format) => {
                let blocks = Blocks { sweep: Some(7), ..Blocks::random(format, dims) };
                Self::Blocks(blocks, blocks.values())
            }
        }
    }

    /// Storage of plain values.
    pub(super) fn kind(&self) -> Option<Kind> {
        match self {
            Self::Plain(stored) => Some(stored.kind),
            Self::Blocks(..) => None,
        }
    }

    fn dims(&self) -> [usize; 2] {
        match self {
            Self::Plain(stored) => [stored.matrix.rows, stored.matrix.width],
            Self::Blocks(blocks, _) => [blocks.rows, blocks.n_in],
        }
    }

    pub(super) fn row(&self, row: usize) -> &[f32] {
        match self {
            Self::Plain(stored) => stored.row(row),
            Self::Blocks(blocks, values) => &values[row * blocks.n_in..(row + 1) * blocks.n_in],
        }
    }

    pub(super) fn load(&self, device: &Device) -> Result<OnDevice, BackendError> {
        match self {
            Self::Plain(stored) => stored.load(device),
            Self::Blocks(blocks, _) => Ok(OnDevice::Blocks(device.upload(&blocks.bytes())?)),
        }
    }

    pub(super) fn view<'a>(&self, on: &'a OnDevice) -> Result<weights::Stored<'a>, BackendError> {
        Ok(match (self, on) {
            (Self::Plain(stored), on) => weights::Stored::Plain(stored.view(on)?),
            (&Self::Blocks(Blocks { format, rows: n_out, n_in, .. }, _), OnDevice::Blocks(buffer)) => {
                let bytes = buffer.view([buffer.len()])?;
                weights::Stored::Blocks(QuantizedMatrix { format, bytes, n_out, n_in })
            }
            (Self::Blocks(..), _) => unreachable!("blocks are not loaded as plain values"),
        })
    }
}

struct Embed {
    table: Rows,
    ids: Vec<u32>,
}

impl Case for Embed {
    fn names(&self) -> [&'static str; 2] {
        [DENSE_EMBED.op, DENSE_EMBED.base().name]
    }

    fn variants(&self, context: &Context<'_>) -> Vec<Promised> {
        let sizes = EmbedSizes { rows: self.ids.len(), width: self.table.dims()[1], kind: self.table.kind() };
        variants(context, &DENSE_EMBED, &sizes)
    }

    fn tokens(&self) -> usize {
        self.ids.len()
    }

    fn run(
        &self,
        device: &Device,
        variant: &str,
        pieces: &[Range<usize>],
    ) -> Result<Vec<(&'static str, Values)>, Flaw> {
        let (stream, table, ids) = (device.stream()?, self.table.load(device)?, device.upload(&self.ids)?);
        let mut y = Loaded::blank(device, 0, Layout::Dense, [self.ids.len(), self.table.dims()[1]])?;
        for piece in pieces {
            let ids = vector(&ids)?.part(0, piece.clone()).map_err(BackendError::from)?;
            embed(Pick::Named(variant), &stream, &self.table.view(&table)?, &ids, &mut y.view_mut(piece)?)?;
        }
        Ok(vec![("y", Values::F32(y.read()?))])
    }

    fn expected(&self) -> Vec<Expected> {
        let [rows, width] = self.table.dims();
        let element = |i: usize| match self.ids[i / width] as usize {
            id if id < rows => Near::exact(self.table.row(id)[i % width]),
            _ => Near { value: f64::NAN, slack: 0.0 },
        };
        vec![Expected::Near((0..self.ids.len() * width).map(element).collect())]
    }
}

/// `dense.embed`; every fifth id is none of the table's.
pub const EMBED: Operation = Operation {
    op: DENSE_EMBED.op,
    variants: || DENSE_EMBED.listed().1,
    works: |scale| {
        aligned_works(scale, TABLES, |call, table| {
            let Table(rows, width, storage) = table;
            let id = |t: usize| if t % 5 == 3 { [rows as u32, u32::MAX][t % 2] } else { (t * 7 % rows) as u32 };
            Embed { table: Rows::new([rows, width], storage), ids: (0..call.tokens).map(id).collect() }
        })
    },
};

/// What terms of a product are like.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Terms {
    /// All of one size.
    Alike,
    /// Over 60 binades in each token.
    Wide,
    /// Every row but the first adds up to nearly nothing: neighbouring terms cancel.
    Cancelling,
}

/// Rows and columns, storage, what is added, terms.
#[derive(Clone, Copy)]
pub struct Shape(usize, usize, Kind, Added, Terms);

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let terms = match self.4 {
            Terms::Alike => "",
            Terms::Wide => "/wide",
            Terms::Cancelling => "/cancelling",
        };
        write!(f, "{:?}/{}x{}{}{terms}", self.2, self.0, self.1, self.3.suffix())
    }
}

const SHAPES: &[Shape] = &[
    Shape(40, 256, Kind::Bf16, Added::Nothing, Terms::Alike),
    Shape(1, 4, Kind::F32, Added::Nothing, Terms::Alike),
    Shape(33, 132, Kind::F32, Added::Other, Terms::Alike),
    Shape(9, 100, Kind::F16, Added::Itself, Terms::Alike),
    Shape(130, 516, Kind::F16, Added::Nothing, Terms::Alike),
    Shape(17, 1024, Kind::Bf16, Added::Itself, Terms::Alike),
    Shape(5, 2560, Kind::F32, Added::Nothing, Terms::Alike),
    Shape(130, 200, Kind::F16, Added::Other, Terms::Alike),
    Shape(24, 1152, Kind::F16, Added::Nothing, Terms::Wide),
    Shape(24, 1152, Kind::Bf16, Added::Nothing, Terms::Wide),
    Shape(24, 640, Kind::F16, Added::Nothing, Terms::Cancelling),
    Shape(24, 640, Kind::Bf16, Added::Nothing, Terms::Cancelling),
];

struct Product {
    w: Stored,
    x: Matrix<f32>,
    /// What is added, or what y holds before.
    other: Matrix<f32>,
    added: Added,
    layout: Layout,
}

impl Product {
    fn sizes(&self, tokens: usize) -> ProductSizes {
        let Matrix { rows: n_out, width: n_in, .. } = self.w.matrix;
        ProductSizes { tokens, n_out, n_in, kind: self.w.kind, aligned: true }
    }

    /// Rows of results start anywhere; only those of x must be aligned.
    fn new(call: Call, Shape(rows, columns, kind, added, terms): Shape) -> Self {
        let layout = if call.layout == Layout::Gaps { Layout::Odd } else { call.layout };
        let mut w = Stored::new(9, [rows, columns], kind);
        let mut x = Matrix::random(0, call.layout, [call.tokens, columns], call.law);
        match terms {
            Terms::Alike => {}
            Terms::Wide => {
                for (i, x) in x.values.iter_mut().enumerate() {
                    *x *= 2f32.powi((i % columns * 37 % 61) as i32 - 30);
                }
            }
            Terms::Cancelling => {
                for x in x.values.chunks_exact_mut(2) {
                    x[1] = -x[0] * (1.0 + 1e-5);
                }
                for w in w.matrix.values[columns..].chunks_exact_mut(2) {
                    w[1] = w[0];
                }
            }
        }
        let other = Matrix::random(1, layout, [call.tokens, rows], call.law);
        Self { w, x, other, added, layout }
    }

    /// Each element by `dot` of a row, x and what is added.
    fn each(&self, dot: impl Fn(std::slice::Iter<'_, f32>, &[f32], Option<f32>) -> Near) -> Vec<Expected> {
        let rows = self.w.matrix.rows;
        let element = |i: usize| {
            let (t, n) = (i / rows, i % rows);
            let add = (self.added != Added::Nothing).then(|| self.other.row(t)[n]);
            dot(self.w.matrix.row(n).iter(), self.x.row(t), add)
        };
        vec![Expected::Near((0..self.x.rows * rows).map(element).collect())]
    }
}

impl Case for Product {
    fn names(&self) -> [&'static str; 2] {
        [DENSE_PRODUCT.op, DENSE_PRODUCT.base().name]
    }

    fn variants(&self, context: &Context<'_>) -> Vec<Promised> {
        variants(context, &DENSE_PRODUCT, &self.sizes(self.x.rows))
    }

    fn tokens(&self) -> usize {
        self.x.rows
    }

    /// A piece that the variant cannot run is the base's, which has to give the same bits.
    fn run(
        &self,
        device: &Device,
        variant: &str,
        pieces: &[Range<usize>],
    ) -> Result<Vec<(&'static str, Values)>, Flaw> {
        let (stream, w, x) = (device.stream()?, self.w.load(device)?, Loaded::of(device, &self.x)?);
        let other = Loaded::of(device, &self.other)?;
        let mut y = match self.added {
            Added::Itself => Loaded::of(device, &self.other)?,
            _ => Loaded::blank(device, 2, self.layout, [self.x.rows, self.w.matrix.rows])?,
        };
        for piece in pieces {
            let row = DENSE_PRODUCT.row(variant)?;
            let fits = DENSE_PRODUCT.launch_of(row, device.caps(), &self.sizes(piece.len())).is_ok();
            let pick = Pick::Named(if fits { variant } else { DENSE_PRODUCT.base().name });
            let add = self.added.of(other.view(piece)?);
            product(pick, &stream, &self.w.view(&w)?, &x.view(piece)?, &add, &mut y.view_mut(piece)?)?;
        }
        Ok(vec![("y", Values::F32(y.read()?))])
    }

    fn expected(&self) -> Vec<Expected> {
        self.each(|w, x, add| reference::dot(w.map(|&w| f64::from(w)), x, add))
    }

    fn expected_by(&self, variant: &str) -> Option<Vec<Expected>> {
        let is_f16 = self.w.kind == Kind::F16;
        ON_TENSOR_CORES
            .contains(&variant)
            .then(|| self.each(|w, x, add| reference::dot_in_parts(w.map(|&w| f64::from(w)), x, add, is_f16)))
    }
}

/// `dense.product`.
pub const PRODUCT: Operation = Operation {
    op: DENSE_PRODUCT.op,
    variants: || DENSE_PRODUCT.listed().1,
    works: |scale| aligned_works(scale, SHAPES, Product::new),
};
