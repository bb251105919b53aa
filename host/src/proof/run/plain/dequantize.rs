//! `dense.dequantize`: blocks to plain values, to the last bit.

use std::ops::Range;

use half::{bf16, f16};
use varve_gpu::dense::Storage;
use varve_gpu::mmvq::Format;

use super::super::delta_rec::DATA;
use super::operand::{Layout, Loaded};
use super::{Case, Expected, Promised, Scale, Values, prove, variants};
use crate::backend::{BackendError, Device};
use crate::ops::dense_dequantize::{DENSE_DEQUANTIZE, DequantizeSizes, ValuesMut, dequantize};
use crate::ops::dispatch::Pick;
use crate::ops::mmvq_product::QuantizedMatrix;
use crate::proof::random::{Array, Random};
use crate::proof::run::loaded::Flaw;
use crate::proof::run::{Context, Operation, Work};

/// Some rows of a matrix.
#[derive(Clone, Copy)]
pub(super) struct Blocks {
    pub format: Format,
    pub rows: usize,
    pub n_in: usize,
    /// Between the steps of the rows' blocks, if they go through the f16 numbers; any bytes if not.
    pub sweep: Option<usize>,
}

impl Blocks {
    /// Any bytes: steps may be infinite or NaN.
    pub const fn random(format: Format, [rows, n_in]: [usize; 2]) -> Self {
        Self { format, rows, n_in, sweep: None }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let (values, bytes) = self.format.block();
        let random = Random::new(DATA + self.n_in as u64, Array::Output);
        let len = self.rows * (self.n_in / values) * bytes;
        let mut out: Vec<u8> = (0..len.div_ceil(8)).flat_map(|i| random.bits(i as u64).to_le_bytes()).collect();
        out.truncate(len);
        if let Some(between) = self.sweep {
            for (i, block) in out.chunks_exact_mut(bytes).enumerate() {
                for &at in self.format.scales() {
                    let bits = (i * between + 0x1234 * at) as u16;
                    block[at..at + 2].copy_from_slice(&bits.to_le_bytes());
                }
            }
        }
        out
    }

    pub fn values(&self) -> Vec<f32> {
        let mut values = Vec::with_capacity(self.rows * self.n_in);
        self.format.dequantize(&self.bytes(), &mut values);
        values
    }
}

struct Dequantize {
    blocks: Blocks,
    storage: Storage,
    layout: Layout,
}

/// Bits of values, of NaN always the same ones.
fn plain_bits(values: impl Iterator<Item = f32>, storage: Storage) -> Vec<u32> {
    let bits = |x: f32| match storage {
        Storage::F32 => x.to_bits(),
        Storage::F16 => u32::from(f16::from_f32(x).to_bits()),
        Storage::Bf16 => u32::from(bf16::from_f32(x).to_bits()),
    };
    values.map(|x| bits(if x.is_nan() { f32::NAN } else { x })).collect()
}

impl Case for Dequantize {
    fn names(&self) -> [&'static str; 2] {
        [DENSE_DEQUANTIZE.op, DENSE_DEQUANTIZE.base().name]
    }

    fn variants(&self, context: &Context<'_>) -> Vec<Promised> {
        let sizes = DequantizeSizes { groups: 1, aligned: self.layout != Layout::Odd };
        variants(context, &DENSE_DEQUANTIZE, &sizes)
    }

    fn tokens(&self) -> usize {
        if self.blocks.sweep.is_some() { 1 } else { self.blocks.rows }
    }

    /// Rows with gaps between them are dense one by one only.
    fn run(
        &self,
        device: &Device,
        variant: &str,
        pieces: &[Range<usize>],
    ) -> Result<Vec<(&'static str, Values)>, Flaw> {
        let Blocks { format, rows, n_in, sweep } = self.blocks;
        let (stream, bytes) = (device.stream()?, device.upload(&self.blocks.bytes())?);
        let w = QuantizedMatrix {
            format,
            bytes: bytes.view([bytes.len()]).map_err(BackendError::from)?,
            n_out: rows,
            n_in,
        };
        let pieces: Vec<_> = match (sweep, self.layout) {
            (Some(_), _) => std::iter::once(0..rows).collect(),
            (None, Layout::Dense) => pieces.to_vec(),
            (None, _) => pieces.iter().cloned().flatten().map(|row| row..row + 1).collect(),
        };
        let pick = Pick::Named(variant);
        let values = if self.storage == Storage::F32 {
            let mut y = Loaded::<f32>::blank(device, 2, self.layout, [rows, n_in])?;
            for piece in pieces {
                let mut to = ValuesMut::F32(y.view_mut(&piece)?);
                dequantize(pick, &stream, &w, piece, &mut to)?;
            }
            plain_bits(y.read()?.into_iter(), Storage::F32)
        } else {
            let mut y = Loaded::<u16>::blank(device, 2, self.layout, [rows, n_in])?;
            for piece in pieces {
                let to = y.view_mut(&piece)?;
                let mut to = if self.storage == Storage::F16 { ValuesMut::F16(to) } else { ValuesMut::Bf16(to) };
                dequantize(pick, &stream, &w, piece, &mut to)?;
            }
            let value = |bits: u16| match self.storage {
                Storage::F16 => f16::from_bits(bits).to_f32(),
                _ => bf16::from_bits(bits).to_f32(),
            };
            plain_bits(y.read()?.into_iter().map(value), self.storage)
        };
        Ok(vec![("y", Values::U32(values))])
    }

    fn expected(&self) -> Vec<Expected> {
        vec![Expected::Words(plain_bits(self.blocks.values().into_iter(), self.storage))]
    }
}

/// Every format to every storage, rows of a block and of many; the steps of a block go through the f16 numbers, through all
/// of them where it does not take the emulator.
fn cases(scale: Scale) -> Vec<Dequantize> {
    let mut all = Vec::new();
    for format in Format::ALL {
        let (unit, _) = format.block();
        let case =
            |rows, n_in, storage, layout| Dequantize { blocks: Blocks::random(format, [rows, n_in]), storage, layout };
        let wide = if unit == 32 { 1056 } else { 768 };
        all.push(case(1, unit, Storage::F32, Layout::Dense));
        all.push(case(5, wide, Storage::F32, Layout::Dense));
        all.push(case(3, wide, Storage::F16, Layout::Dense));
        all.push(case(3, wide, Storage::Bf16, Layout::Dense));
        all.push(case(2, unit, Storage::F32, Layout::Odd));
        all.push(case(2, unit, Storage::Bf16, Layout::Odd));
        let between = if scale == Scale::Small && unit > 32 { 61 } else { 1 };
        let blocks = Blocks { format, rows: 65_536_usize.div_ceil(between), n_in: unit, sweep: Some(between) };
        all.push(Dequantize { blocks, storage: Storage::F32, layout: Layout::Dense });
        if !scale.is_small() {
            all.push(case(2051, 2560, Storage::F16, Layout::Dense));
            all.push(Dequantize { blocks, storage: Storage::Bf16, layout: Layout::Dense });
        }
    }
    all
}

impl Dequantize {
    fn name(&self) -> String {
        let Blocks { format, rows, n_in, sweep } = self.blocks;
        let law = if sweep.is_some() { "steps" } else { "bytes" };
        format!("{law}/{}/{:?}/T={rows}/{n_in}{}", format.name(), self.storage, self.layout.suffix())
    }
}

/// `dense.dequantize`.
pub const DEQUANTIZE: Operation = Operation {
    op: DENSE_DEQUANTIZE.op,
    variants: || DENSE_DEQUANTIZE.listed().1,
    works: |scale| {
        let work = |case: Dequantize| Work::new(case.name(), move |context, name| prove(context, name, &case));
        cases(scale).into_iter().map(work).collect()
    },
};
