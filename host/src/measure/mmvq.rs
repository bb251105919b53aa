//! `mmvq.product` with the quantizer of its vectors, in the same launch or before it: a captured graph of calls, over one
//! matrix, which the L2 may hold, or over as many as it cannot.

use half::f16;
use varve_gpu::mmvq::Format;

use super::case::{MeasureError, Prepared, between_events, promised_graphs};
use super::floor::Floor;
use super::window::{graph_or_wall, launches};
use crate::backend::{Buffer, Device, Graph, Stream};
use crate::ops::add::Add;
use crate::ops::dispatch::Pick;
use crate::ops::mmvq_product::{MMVQ_PRODUCT, QuantizedMatrix, QuantizedProductSizes, Vectors};
use crate::ops::mmvq_quantize::{QuantizedMut, il_words, q8_words};
use crate::proof::random::{Array, Random};

/// A measured product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MmvqCase {
    /// Format of the matrix.
    pub format: Format,
    /// Its columns.
    pub n_in: usize,
    /// Its rows.
    pub n_out: usize,
    /// Vectors.
    pub columns: usize,
    /// Whether so many matrices take turns that none is in the L2.
    pub is_cold: bool,
}

impl MmvqCase {
    /// Bytes of the matrix.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        let (values, bytes) = self.format.block();
        self.n_out * (self.n_in / values) * bytes
    }

    /// Matrices in turn: at least 24, and four times what the L2 holds, up to 4 GiB.
    fn matrices(&self, l2_bytes: u64) -> usize {
        let four_l2 = usize::try_from(4 * l2_bytes).unwrap_or(usize::MAX).div_ceil(self.bytes());
        if self.is_cold { four_l2.max(24).min(((4 << 30) / self.bytes()).max(1)) } else { 1 }
    }
}

/// A product that is set up.
pub struct Mmvq {
    stream: Stream,
    sizes: MmvqCase,
    arms: Vec<&'static str>,
    graphs: Vec<Graph>,
    launches: usize,
}

struct Operands {
    sizes: MmvqCase,
    matrices: Vec<Buffer<u8>>,
    x: Buffer<f32>,
    q8: Buffer<u32>,
    il: Buffer<u32>,
    y: Buffer<f32>,
}

/// Bytes of random blocks that a matrix repeats.
const SOME_BYTES: usize = 4 << 20;

/// At least so many bytes of random blocks, whose scales are of ordinary size.
pub(super) fn blocks(format: Format, len: usize) -> Vec<u8> {
    let random = Random::new(1, Array::Key);
    let (_, bytes) = format.block();
    let mut out: Vec<u8> =
        (0..len.next_multiple_of(bytes).div_ceil(8)).flat_map(|i| random.bits(i as u64).to_le_bytes()).collect();
    out.truncate(len.next_multiple_of(bytes));
    for (i, block) in out.chunks_exact_mut(bytes).enumerate() {
        for &at in format.scales() {
            let scale = f16::from_f64(0.002 * (0.5 + random.uniform(i as u64)));
            block[at..at + 2].copy_from_slice(&scale.to_le_bytes());
        }
    }
    out
}

impl Operands {
    fn new(device: &Device, sizes: MmvqCase) -> Result<Self, MeasureError> {
        let MmvqCase { n_in, n_out, columns, .. } = sizes;
        let activations = Random::new(1, Array::Query);
        let some = blocks(sizes.format, sizes.bytes().min(SOME_BYTES));
        let data: Vec<u8> = some.iter().copied().cycle().take(sizes.bytes()).collect();
        let x: Vec<f32> = (0..columns * n_in).map(|i| activations.normal(i as u64) as f32).collect();
        let first = device.upload(&data)?;
        let mut matrices = vec![first];
        for _ in 1..sizes.matrices(device.caps().l2_bytes) {
            let mut copy = device.alloc(data.len())?;
            copy.copy_from(&matrices[0])?;
            matrices.push(copy);
        }
        Ok(Self {
            sizes,
            matrices,
            x: device.upload(&x)?,
            q8: device.alloc(q8_words(n_in, columns))?,
            il: device.alloc(il_words(n_in, columns))?,
            y: device.alloc(columns * n_out)?,
        })
    }

    fn launch(&mut self, stream: &Stream, variant: &str, i: usize) -> Result<(), MeasureError> {
        let MmvqCase { format, n_in, n_out, columns, .. } = self.sizes;
        let (q8_len, il_len) = (self.q8.len(), self.il.len());
        let il = if variant == MMVQ_PRODUCT.base().name { None } else { Some(self.il.view_mut([il_len])?) };
        let to = QuantizedMut { q8: self.q8.view_mut([q8_len])?, il };
        let matrix = &self.matrices[i % self.matrices.len()];
        let w = QuantizedMatrix { format, bytes: matrix.view([matrix.len()])?, n_out, n_in };
        let mut y = self.y.view_mut([columns, n_out])?;
        Vectors::new(self.x.view([columns, n_in])?, to).product(
            Pick::Named(variant),
            stream,
            &w,
            &Add::Nothing,
            &mut y,
        )?;
        Ok(())
    }
}

impl Mmvq {
    /// Sets the case up and checks every arm that can run; `wanted` names the variants, all if empty.
    ///
    /// # Errors
    /// The device's, or an arm that breaks its promise.
    pub fn new(device: &Device, sizes: MmvqCase, wanted: &[String]) -> Result<Self, MeasureError> {
        let (stream, mut operands) = (device.stream()?, Operands::new(device, sizes)?);
        let MmvqCase { format, n_in, n_out, columns, .. } = sizes;
        let ask = QuantizedProductSizes::on(device.caps(), Pick::Named(""), format, [n_in, n_out], columns);
        let named = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
        let rows = MMVQ_PRODUCT.rows.iter().rev().filter(|row| named(row.name));
        let arms: Vec<_> =
            rows.filter(|&row| MMVQ_PRODUCT.launch_of(row, device.caps(), &ask).is_ok()).map(|row| row.name).collect();
        let mut case = Self { stream, sizes, arms, graphs: Vec::new(), launches: launches(device) };
        let name = case.case();
        let arms = (&case.stream, &case.arms[..], case.launches);
        case.graphs = promised_graphs(
            (MMVQ_PRODUCT.op, &name),
            arms,
            |variant| MMVQ_PRODUCT.promise_of(variant),
            &mut operands,
            |operands| &mut operands.y,
            Operands::launch,
        )?;
        Ok(case)
    }
}

impl Prepared for Mmvq {
    fn op(&self) -> &'static str {
        MMVQ_PRODUCT.op
    }

    fn case(&self) -> String {
        let MmvqCase { format, n_in, n_out, columns, is_cold } = self.sizes;
        let state = if is_cold { "cold" } else { "warm" };
        format!("{} {n_in}x{n_out}, {columns} vectors, {state}, with the quantizer", format.name())
    }

    fn tokens(&self) -> usize {
        self.sizes.columns
    }

    fn arms(&self) -> &[&'static str] {
        &self.arms
    }

    fn exactness(&self, arm: usize) -> &'static str {
        MMVQ_PRODUCT.word_of(self.arms[arm])
    }

    fn cold_matrix(&self) -> Option<(Format, [usize; 2])> {
        let MmvqCase { format, n_in, n_out, is_cold, .. } = self.sizes;
        is_cold.then_some((format, [n_in, n_out]))
    }

    fn floor(&self) -> Floor {
        Floor::mmvq_product(&self.sizes)
    }

    fn how(&self) -> &'static str {
        graph_or_wall(&self.stream)
    }

    fn time(&mut self, arm: usize) -> Result<f64, MeasureError> {
        let us = between_events(&self.stream, || Ok(self.graphs[arm].launch(&self.stream)?))?;
        Ok(us / self.launches as f64)
    }
}
