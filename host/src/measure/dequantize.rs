//! `dense.dequantize` to f32: a captured graph of launches over matrices in turn, so that none is in the L2.

use varve_gpu::mmvq::Format;

use super::case::{MeasureError, Prepared, between_events, promised_graphs};
use super::floor::Floor;
use super::mmvq::blocks;
use super::window::{graph_or_wall, launches};
use crate::backend::{Buffer, Device, Graph, Stream};
use crate::ops::dense_dequantize::{DENSE_DEQUANTIZE, ValuesMut, dequantize};
use crate::ops::dispatch::Pick;
use crate::ops::mmvq_product::QuantizedMatrix;

/// A measured matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DequantizeCase {
    /// Format of the matrix.
    pub format: Format,
    /// Its rows.
    pub n_out: usize,
    /// Its columns.
    pub n_in: usize,
    /// Matrices in turn.
    pub matrices: usize,
}

impl DequantizeCase {
    /// Bytes of the matrix.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        let (values, bytes) = self.format.block();
        self.n_out * (self.n_in / values) * bytes
    }
}

/// A matrix that is set up.
pub struct Dequantize {
    stream: Stream,
    sizes: DequantizeCase,
    arms: Vec<&'static str>,
    graphs: Vec<Graph>,
    launches: usize,
}

struct Operands {
    sizes: DequantizeCase,
    matrices: Vec<Buffer<u8>>,
    y: Buffer<f32>,
}

impl Operands {
    fn new(device: &Device, sizes: DequantizeCase) -> Result<Self, MeasureError> {
        let data = blocks(sizes.format, sizes.bytes());
        Ok(Self {
            sizes,
            matrices: (0..sizes.matrices).map(|_| device.upload(&data)).collect::<Result<_, _>>()?,
            y: device.alloc(sizes.n_out * sizes.n_in)?,
        })
    }

    fn launch(&mut self, stream: &Stream, variant: &str, i: usize) -> Result<(), MeasureError> {
        let DequantizeCase { format, n_out, n_in, matrices } = self.sizes;
        let bytes = self.matrices[i % matrices].view([self.sizes.bytes()])?;
        let mut y = ValuesMut::F32(self.y.view_mut([n_out, n_in])?);
        let w = QuantizedMatrix { format, bytes, n_out, n_in };
        dequantize(Pick::Named(variant), stream, &w, 0..n_out, &mut y)?;
        Ok(())
    }
}

impl Dequantize {
    /// Sets the case up and checks every arm; `wanted` names the variants, all if empty.
    ///
    /// # Errors
    /// The device's, or an arm that breaks its promise.
    pub fn new(device: &Device, sizes: DequantizeCase, wanted: &[String]) -> Result<Self, MeasureError> {
        let (stream, mut operands) = (device.stream()?, Operands::new(device, sizes)?);
        let named = |name: &&str| wanted.is_empty() || wanted.iter().any(|w| w == name);
        let arms: Vec<_> = DENSE_DEQUANTIZE.rows.iter().rev().map(|row| row.name).filter(named).collect();
        let mut case = Self { stream, sizes, arms, graphs: Vec::new(), launches: launches(device) };
        let name = case.case();
        let arms = (&case.stream, &case.arms[..], case.launches);
        case.graphs = promised_graphs(
            (DENSE_DEQUANTIZE.op, &name),
            arms,
            |variant| DENSE_DEQUANTIZE.promise_of(variant),
            &mut operands,
            |operands| &mut operands.y,
            Operands::launch,
        )?;
        Ok(case)
    }
}

impl Prepared for Dequantize {
    fn op(&self) -> &'static str {
        DENSE_DEQUANTIZE.op
    }

    fn case(&self) -> String {
        let DequantizeCase { format, n_out, n_in, .. } = self.sizes;
        format!("{} {n_out}x{n_in} to f32, rotating matrices", format.name())
    }

    fn tokens(&self) -> usize {
        1
    }

    fn arms(&self) -> &[&'static str] {
        &self.arms
    }

    fn exactness(&self, arm: usize) -> &'static str {
        DENSE_DEQUANTIZE.word_of(self.arms[arm])
    }

    fn floor(&self) -> Floor {
        Floor::dense_dequantize(&self.sizes)
    }

    fn how(&self) -> &'static str {
        graph_or_wall(&self.stream)
    }

    fn time(&mut self, arm: usize) -> Result<f64, MeasureError> {
        let us = between_events(&self.stream, || Ok(self.graphs[arm].launch(&self.stream)?))?;
        Ok(us / self.launches as f64)
    }
}
