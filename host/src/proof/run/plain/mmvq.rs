//! `mmvq.*`: vectors quantized, and their products with quantized matrices, to the last bit.

use std::ops::Range;

use varve_gpu::format::{il, q8_1};
use varve_gpu::mmvq::Format;

use super::super::delta_rec::DATA;
use super::operand::{Added, LAWS, Layout, Loaded, Matrix};
use super::{Case, Expected, Promised, Scale, Values, mmvq_picked, prove, variants};
use crate::backend::{BackendError, Device};
use crate::ops::dispatch::Pick;
use crate::ops::mmvq_product::{MMVQ_PRODUCT, QuantizedMatrix, QuantizedProductSizes, product, quantizes_itself};
use crate::ops::mmvq_quantize::{MMVQ_QUANTIZE, QuantizeSizes, Quantized, QuantizedMut, il_words, q8_words, quantize};
use crate::proof::random::{Array, Random};
use crate::proof::reference::mmvq as reference;
use crate::proof::reference::near::Near;
use crate::proof::run::loaded::Flaw;
use crate::proof::run::{Context, Operation, Work};

/// The bits of a float, of NaN always the same ones: a GPU and a CPU make different ones.
fn plain_bits(x: f32) -> u32 {
    if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() }
}

/// Words of Q8_1 with the same NaN everywhere.
fn plain_blocks(mut words: Vec<u32>) -> Vec<u32> {
    let half = |bits: u32| if bits & 0x7fff > 0x7c00 { 0x7e00 } else { bits };
    for head in words.iter_mut().step_by(q8_1::WORDS) {
        *head = half(*head & 0xffff) | half(*head >> 16) << 16;
    }
    words
}

/// Words of an interleaved copy with the same NaN everywhere.
fn plain_copy(mut words: Vec<u32>, blocks: usize, room: usize) -> Vec<u32> {
    for word in &mut words[il::Part::Steps.start(blocks, room)..] {
        *word = plain_bits(f32::from_bits(*word));
    }
    words
}

/// `mmvq.quantize` of some vectors, with or without the copy.
struct Quantizing {
    x: Matrix<f32>,
    interleaved: bool,
}

impl Quantizing {
    fn columns(&self) -> Vec<Vec<u8>> {
        (0..self.x.rows).map(|c| reference::quantize(self.x.row(c))).collect()
    }

    /// Blocks with numbers that quantizers stumble over.
    fn hostile(interleaved: bool) -> Self {
        let mut x = Matrix::random(0, Layout::Gaps, [3, 512], &LAWS[0]);
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        let mut block = |b: usize, value: &dyn Fn(usize, f32) -> f32| {
            for (i, x) in x.values[32 * b..32 * (b + 1)].iter_mut().enumerate() {
                *x = value(i, *x);
            }
        };
        block(1, &|i, x| if i == 7 { nan } else { x });
        block(2, &|_, _| nan);
        block(3, &|i, x| if i == 31 { inf } else { x });
        block(4, &|_, x| x * 1e38);
        block(5, &|i, _| (i as f32 - 16.0) * f32::from_bits(3));
        block(6, &|i, _| if i == 0 { 127.0 } else { i as f32 - 15.5 }); // ties, D = 1
        block(7, &|i, _| if i == 0 { 127.0 } else { 0.499_999_97 });
        block(8, &|i, _| if i % 2 == 0 { -0.0 } else { 0.0 });
        block(9, &|i, _| if i % 2 == 0 { inf } else { -inf });
        block(16, &|_, x| x * 1e7);
        Self { x, interleaved }
    }
}

impl Case for Quantizing {
    fn names(&self) -> [&'static str; 2] {
        [MMVQ_QUANTIZE.op, MMVQ_QUANTIZE.base().name]
    }

    fn variants(&self, context: &Context<'_>) -> Vec<Promised> {
        variants(context, &MMVQ_QUANTIZE, &QuantizeSizes { blocks: 1, interleaved: self.interleaved })
    }

    /// The copy is one of all vectors.
    fn tokens(&self) -> usize {
        1
    }

    fn run(&self, device: &Device, variant: &str, _: &[Range<usize>]) -> Result<Vec<(&'static str, Values)>, Flaw> {
        let [columns, n_in] = [self.x.rows, self.x.width];
        let (stream, x) = (device.stream()?, Loaded::of(device, &self.x)?);
        let mut q8 = Loaded::<u32>::blank(device, 0, Layout::Dense, [1, q8_words(n_in, columns)])?;
        let mut copy = Loaded::<u32>::blank(device, 0, Layout::Dense, [1, il_words(n_in, columns)])?;
        let il = if self.interleaved { Some(copy.first_mut()?) } else { None };
        quantize(Pick::Named(variant), &stream, &x.all()?, &mut QuantizedMut { q8: q8.first_mut()?, il })?;
        let mut out = vec![("q8", Values::U32(plain_blocks(q8.read()?)))];
        if self.interleaved {
            let words = plain_copy(copy.read()?, n_in / q8_1::VALUES, il::padded(columns));
            out.push(("il", Values::U32(words)));
        }
        Ok(out)
    }

    fn expected(&self) -> Vec<Expected> {
        let columns = self.columns();
        let words = |bytes: &Vec<u8>| -> Vec<u32> { bytes.chunks_exact(4).map(bytemuck::pod_read_unaligned).collect() };
        let mut expected = vec![Expected::Words(plain_blocks(columns.iter().flat_map(words).collect()))];
        if self.interleaved {
            let blocks: Vec<_> = columns.iter().map(|bytes| reference::blocks(bytes)).collect();
            let room = il::padded(columns.len());
            let copy = reference::interleave(&blocks, room);
            expected.push(Expected::Words(plain_copy(copy, self.x.width / q8_1::VALUES, room)));
        }
        expected
    }
}

/// `mmvq.quantize`.
pub const QUANTIZE: Operation = Operation {
    op: MMVQ_QUANTIZE.op,
    variants: || MMVQ_QUANTIZE.listed().1,
    works: |scale| {
        let hostile = |interleaved: bool| {
            let name = if interleaved { "hostile/il" } else { "hostile" };
            Work::new(name, move |context, name| prove(context, name, &Quantizing::hostile(interleaved)))
        };
        let mut works = vec![hostile(false), hostile(true)];
        let widths: &[usize] = if scale.is_small() { &[32, 96, 544] } else { &[32, 96, 544, 2560, 6144] };
        for (i, law) in LAWS.iter().enumerate() {
            for (&width, columns) in widths.iter().zip([1 + i % 8, 3, 8 - i, 4, 8]) {
                for interleaved in [false, true] {
                    let layout = [Layout::Dense, Layout::Odd][columns % 2];
                    let name = format!("{}/T={columns}/{width}{}", law.name, if interleaved { "/il" } else { "" });
                    works.push(Work::new(name, move |context, name| {
                        let x = Matrix::random(0, layout, [columns, width], law);
                        prove(context, name, &Quantizing { x, interleaved })
                    }));
                }
            }
        }
        works
    },
};

/// What matrix and vectors of a case hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Data {
    /// Any bytes, block scales of ordinary size, normal activations.
    Random,
    /// A row full of one byte, activations all 1 or all -1: the largest integers.
    Extremes,
    /// Zero blocks of activations and vectors, zero block scales.
    Zeros,
    /// Activations whose step or sum overflows f16, or is subnormal; subnormal block scales.
    Range,
    /// One block scale of row 2 is NaN.
    OneNan,
}

impl Data {
    const ALL: [Self; 5] = [Self::Random, Self::Extremes, Self::Zeros, Self::Range, Self::OneNan];

    fn name(self) -> &'static str {
        match self {
            Self::Random => "base",
            Self::Extremes => "extremes",
            Self::Zeros => "zeros",
            Self::Range => "range",
            Self::OneNan => "one_nan",
        }
    }

    /// Bits of block scale `at` of block `block` of row `row`.
    fn scale(self, random: u64, row: usize, block: usize) -> u16 {
        let (sign, mantissa) = ((random & 1) as u16, (random >> 1 & 0x3ff) as u16);
        let exponent = match self {
            Self::Extremes => 15,
            Self::Zeros if block.is_multiple_of(2) => return sign << 15,
            Self::Range => (random >> 11 & 1) as u16,
            Self::OneNan if (row, block) == (2, 0) => return 0x7e01,
            _ => 5 + (random >> 11) as u16 % 5,
        };
        sign << 15 | exponent << 10 | mantissa
    }

    /// Byte `i` of row `row`.
    fn byte(self, random: u64, row: usize) -> u8 {
        match self {
            Self::Extremes => [0xff, 0x00, 0x80, 0x7f, 0x0f, 0xf0][row % 6],
            _ => random as u8,
        }
    }

    /// Activation `i` of column `c`.
    fn value(self, normal: f64, c: usize, i: usize) -> f32 {
        let block = i / q8_1::VALUES;
        let scale = match self {
            Self::Random | Self::OneNan => 1.0,
            Self::Extremes => return if c.is_multiple_of(2) { 1.0 } else { -1.0 },
            Self::Zeros if c % 3 == 1 || block.is_multiple_of(3) => 0.0,
            Self::Zeros => 1.0,
            Self::Range => [1e7, 1e-6, 1e3, 1e30, 1e-40][(block + c) % 5],
        };
        (scale * normal) as f32
    }
}

/// Rows that the reference computes of a large matrix: at each end, and as many in between.
const SEEN: usize = 64;

/// One product.
#[derive(Clone)]
pub(super) struct Product {
    pub format: Format,
    pub n_in: usize,
    pub n_out: usize,
    pub columns: usize,
    pub data: Data,
    pub added: Added,
}

impl Product {
    pub fn name(&self) -> String {
        let Self { format, n_in, n_out, columns, data, added } = self;
        format!("{}/{}/T={columns}/{n_in}x{n_out}{}", data.name(), format.name(), added.suffix())
    }

    fn row_bytes(&self) -> usize {
        let (values, bytes) = self.format.block();
        self.n_in / values * bytes
    }

    pub fn weights(&self, row: usize) -> Vec<u8> {
        let random = Random::new(DATA + self.n_in as u64, Array::Output);
        let (row_bytes, (_, bytes)) = (self.row_bytes(), self.format.block());
        let word = |i: usize| random.bits(((row * row_bytes) / 8 + row + i) as u64);
        let mut out: Vec<u8> = (0..row_bytes).map(|i| self.data.byte(word(i / 8) >> (8 * (i % 8)), row)).collect();
        for (block, bytes) in out.chunks_exact_mut(bytes).enumerate() {
            for &at in self.format.scales() {
                let bits = self.data.scale(word(block + at) >> 20, row, block);
                bytes[at..at + 2].copy_from_slice(&bits.to_le_bytes());
            }
        }
        out
    }

    pub fn x(&self) -> Matrix<f32> {
        let mut x = Matrix::random(1, Layout::Dense, [self.columns, self.n_in], &LAWS[0]);
        for (at, v) in x.values.iter_mut().enumerate() {
            *v = self.data.value(f64::from(*v), at / self.n_in, at % self.n_in);
        }
        x
    }

    /// What is added to so many rows, or what y holds there before.
    pub fn other_of(&self, rows: usize) -> Matrix<f32> {
        Matrix::random(3, Layout::Odd, [self.columns, rows], &LAWS[0])
    }

    fn seen(&self) -> Vec<usize> {
        if self.n_out <= 4 * SEEN {
            return (0..self.n_out).collect();
        }
        let between = (1..=SEEN).map(|i| i * self.n_out / (SEEN + 2));
        (0..SEEN).chain(between).chain(self.n_out - SEEN..self.n_out).collect()
    }

    fn sizes(&self, device: &Device, columns: usize) -> QuantizedProductSizes {
        QuantizedProductSizes::on(device.caps(), Pick::Named(""), self.format, [self.n_in, self.n_out], columns)
    }
}

impl Case for Product {
    fn names(&self) -> [&'static str; 2] {
        [MMVQ_PRODUCT.op, MMVQ_PRODUCT.base().name]
    }

    fn variants(&self, context: &Context<'_>) -> Vec<Promised> {
        variants(context, &MMVQ_PRODUCT, &self.sizes(context.device(), self.columns))
    }

    fn tokens(&self) -> usize {
        self.columns
    }

    /// A piece that the variant cannot run is the base's, which has to give the same bits. Matrix and vectors end where
    /// their memory does: the emulator would fault on a byte beyond.
    fn run(
        &self,
        device: &Device,
        variant: &str,
        pieces: &[Range<usize>],
    ) -> Result<Vec<(&'static str, Values)>, Flaw> {
        let stream = device.stream()?;
        let bytes: Vec<u8> = (0..self.n_out).flat_map(|row| self.weights(row)).collect();
        let (w, x) = (device.upload(&bytes)?, Loaded::of(device, &self.x())?);
        let matrix = QuantizedMatrix {
            format: self.format,
            bytes: w.view([w.len()]).map_err(BackendError::from)?,
            n_out: self.n_out,
            n_in: self.n_in,
        };
        let other = Loaded::of(device, &self.other_of(self.n_out))?;
        let mut y = match self.added {
            Added::Itself => Loaded::of(device, &self.other_of(self.n_out))?,
            _ => Loaded::blank(device, 2, Layout::Odd, [self.columns, self.n_out])?,
        };
        for piece in pieces {
            let (n_in, columns) = (self.n_in, piece.len());
            let mut q8 = device.alloc::<u32>(q8_words(n_in, columns))?;
            let mut il = device.alloc::<u32>(il_words(n_in, columns))?;
            let (len, room) = (q8.len(), il.len());
            let mut to = QuantizedMut {
                q8: q8.view_mut([len]).map_err(BackendError::from)?,
                il: Some(il.view_mut([room]).map_err(BackendError::from)?),
            };
            let row = MMVQ_PRODUCT.row(variant)?;
            let fits = MMVQ_PRODUCT.launch_of(row, device.caps(), &self.sizes(device, columns)).is_ok();
            let taken = if fits { variant } else { MMVQ_PRODUCT.base().name };
            // What quantizes itself finds blocks that are not numbers.
            if !quantizes_itself(taken, columns) {
                quantize(Pick::Named(MMVQ_QUANTIZE.base().name), &stream, &x.view(piece)?, &mut to)?;
            }
            let il = to.il.as_ref().map(|il| il.as_view());
            let vectors = Quantized { x: Some(x.view(piece)?), q8: to.q8.as_view(), il, n_in, columns };
            let add = self.added.of(other.view(piece)?);
            product(Pick::Named(taken), &stream, &matrix, &vectors, &add, &mut y.view_mut(piece)?)?;
        }
        let y = y.read()?;
        let seen = self.seen();
        let some = (0..self.columns).flat_map(|c| seen.iter().map(move |row| (c, *row)));
        let some = some.map(|(c, row)| y[c * self.n_out + row]).collect();
        Ok(vec![("y", Values::F32(y)), ("rows", Values::F32(some))])
    }

    fn expected(&self) -> Vec<Expected> {
        let x = self.x();
        let columns: Vec<_> = (0..self.columns).map(|c| reference::blocks(&reference::quantize(x.row(c)))).collect();
        let weights: Vec<_> = self.seen().into_iter().map(|row| (row, self.weights(row))).collect();
        let other = self.other_of(self.n_out);
        let (mut exact, mut near) = (Vec::new(), Vec::new());
        for (c, x) in columns.iter().enumerate() {
            for (row, w) in &weights {
                let (bits, about) = (reference::row(self.format, w, x), reference::near_row(self.format, w, x));
                let add = if self.added == Added::Nothing { None } else { Some(other.row(c)[*row]) };
                exact.push(add.map_or(bits, |add| bits + add));
                near.push(add.map_or(about, |add| about.plus(Near::exact(add))));
            }
        }
        vec![Expected::Any, Expected::Rounded { exact, near }]
    }
}

/// The cases: every format with rows that end in each kind of tail, every number of vectors, every law of data; something
/// is added in two of three.
fn products(scale: Scale) -> Vec<Product> {
    let mut all = Vec::new();
    for format in Format::ALL {
        let unit = format.block().0;
        let widths: &[usize] = match (scale.is_small(), unit) {
            (true, 32) => &[32, 288, 1056, 2560],
            (true, _) => &[256, 768, 1024, 1280, 2560],
            (false, 32) => &[32, 96, 256, 512, 768, 1056, 1280, 1792, 2304, 2560, 2816, 4352],
            (false, _) => &[256, 512, 768, 1024, 1280, 1536, 1792, 2304, 2816, 4352],
        };
        let n_out = if scale.is_small() { 5 } else { 67 };
        let base = Product { format, n_in: 0, n_out, columns: 1, data: Data::Random, added: Added::Nothing };
        for (i, &n_in) in widths.iter().enumerate() {
            let counts = if scale.is_small() { vec![1 + i % 4, 8 - i % 4] } else { (1..=8).collect() };
            let added = [Added::Nothing, Added::Other, Added::Itself][i % 3];
            all.extend(counts.into_iter().map(|columns| Product { n_in, columns, added, ..base.clone() }));
        }
        let (n_in, laws) = (if unit == 32 { 1056 } else { 1536 }, &Data::ALL[1..]);
        all.extend(laws.iter().map(|&data| Product { n_in, columns: 3, n_out: 7, data, ..base.clone() }));
        if !scale.is_small() {
            let shapes = [(2560, 10240), (2560, 6144), (6144, 2560), (2560, 12288), (2560, 512), (4096, 2560)];
            let odd = [(2560, 2051), (2560, 1), (2560, 3), (2560, 13), (6144, 2563)];
            for (i, (n_in, n_out)) in shapes.into_iter().chain(odd).enumerate() {
                let counts = if i < 6 { vec![7, 8] } else { vec![1, 2, 3, 4, 8] };
                all.extend(counts.into_iter().map(|columns| Product { n_in, n_out, columns, ..base.clone() }));
            }
            if matches!(format, Format::Q5_K | Format::Q6_K) {
                all.push(Product { n_in: 2560, n_out: 248_320, columns: 8, ..base });
            }
        }
    }
    all
}

/// `mmvq.product`.
pub const PRODUCT: Operation = Operation {
    op: MMVQ_PRODUCT.op,
    variants: || MMVQ_PRODUCT.listed().1,
    works: |scale| {
        let work = |case: Product| Work::new(case.name(), move |context, name| prove(context, name, &case));
        products(scale).into_iter().map(work).chain(mmvq_picked::works(scale)).collect()
    },
};
