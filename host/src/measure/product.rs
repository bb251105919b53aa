//! `dense.product` with bf16 weights: a captured graph of launches over matrices in turn, so that none is in the L2.

use super::case::{MeasureError, Prepared, between_events, promised_graphs};
use super::floor::Floor;
use super::window::{graph_or_wall, launches};
use crate::backend::{Buffer, Device, Graph, Stream};
use crate::ops::add::Add;
use crate::ops::dense_product::{DENSE_PRODUCT, ProductSizes, product};
use crate::ops::dispatch::Pick;
use crate::ops::weights::{Kind, Weights};
use crate::proof::random::{Array, Random};
use half::bf16;

/// Sizes of a measured product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProductCase {
    /// Tokens of a launch.
    pub tokens: usize,
    /// Rows of the matrix.
    pub n_out: usize,
    /// Columns of the matrix.
    pub n_in: usize,
    /// Matrices in turn.
    pub matrices: usize,
}

/// A product that is set up.
pub struct Product {
    stream: Stream,
    sizes: ProductCase,
    arms: Vec<&'static str>,
    graphs: Vec<Graph>,
    launches: usize,
}

struct Operands {
    sizes: ProductCase,
    matrices: Vec<Buffer<u16>>,
    x: Buffer<f32>,
    y: Buffer<f32>,
}

impl Operands {
    fn new(device: &Device, sizes: ProductCase) -> Result<Self, MeasureError> {
        let ProductCase { tokens, n_out, n_in, matrices } = sizes;
        let (weights, activations) = (Random::new(1, Array::Key), Random::new(1, Array::Query));
        let bits = |i: usize| bf16::from_f64(0.02 * weights.normal(i as u64)).to_bits();
        let data: Vec<u16> = (0..n_out * n_in).map(bits).collect();
        let x: Vec<f32> = (0..tokens * n_in).map(|i| activations.normal(i as u64) as f32).collect();
        Ok(Self {
            sizes,
            matrices: (0..matrices).map(|_| device.upload(&data)).collect::<Result<_, _>>()?,
            x: device.upload(&x)?,
            y: device.alloc(tokens * n_out)?,
        })
    }

    fn launch(&mut self, stream: &Stream, variant: &str, i: usize) -> Result<(), MeasureError> {
        let ProductCase { tokens, n_out, n_in, matrices } = self.sizes;
        let w = Weights::Bf16(self.matrices[i % matrices].view([n_out, n_in])?);
        let (x, mut y) = (self.x.view([tokens, n_in])?, self.y.view_mut([tokens, n_out])?);
        product(Pick::Named(variant), stream, &w, &x, &Add::Nothing, &mut y)?;
        Ok(())
    }
}

impl Product {
    /// Sets the case up and checks every arm that can run; `wanted` names the variants, all if empty.
    ///
    /// # Errors
    /// The device's, or an arm that breaks its promise.
    pub fn new(device: &Device, sizes: ProductCase, wanted: &[String]) -> Result<Self, MeasureError> {
        let (stream, mut operands) = (device.stream()?, Operands::new(device, sizes)?);
        let ask = ProductSizes { tokens: sizes.tokens, n_out: sizes.n_out, kind: Kind::Bf16 };
        let named = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
        let runs = DENSE_PRODUCT.rows.iter().rev().filter(|row| (row.kernel)(&ask).is_ok());
        let arms: Vec<_> = runs.map(|row| row.name).filter(|name| named(name)).collect();
        let mut case = Self { stream, sizes, arms, graphs: Vec::new(), launches: launches(device) };
        let name = case.case();
        let arms = (&case.stream, &case.arms[..], case.launches);
        case.graphs = promised_graphs(
            (DENSE_PRODUCT.op, &name),
            arms,
            |variant| DENSE_PRODUCT.promise_of(variant),
            &mut operands,
            |operands| &mut operands.y,
            Operands::launch,
        )?;
        Ok(case)
    }
}

impl Prepared for Product {
    fn op(&self) -> &'static str {
        DENSE_PRODUCT.op
    }

    fn case(&self) -> String {
        let ProductCase { tokens, n_out, n_in, .. } = self.sizes;
        format!("bf16 {n_out}x{n_in}, {tokens} tokens, rotating matrices")
    }

    fn tokens(&self) -> usize {
        self.sizes.tokens
    }

    fn arms(&self) -> &[&'static str] {
        &self.arms
    }

    fn exactness(&self, arm: usize) -> &'static str {
        DENSE_PRODUCT.word_of(self.arms[arm])
    }

    fn floor(&self) -> Floor {
        Floor::dense_product(&self.sizes)
    }

    fn how(&self) -> &'static str {
        graph_or_wall(&self.stream)
    }

    fn time(&mut self, arm: usize) -> Result<f64, MeasureError> {
        let us = between_events(&self.stream, || Ok(self.graphs[arm].launch(&self.stream)?))?;
        Ok(us / self.launches as f64)
    }
}
