//! `dense.product` with 16-bit weights: a captured graph of launches over matrices in turn, so that none is in the L2.

use super::case::{MeasureError, Prepared, between_events, promised_graphs};
use super::floor::Floor;
use super::window::{graph_or_wall, launches};
use crate::backend::{Buffer, Device, Graph, Stream};
use crate::ops::add::Add;
use crate::ops::dense_product::{DENSE_PRODUCT, ProductSizes, product};
use crate::ops::dispatch::Pick;
use crate::ops::weights::{Kind, Weights};
use crate::proof::random::{Array, Random};
use half::{bf16, f16};

/// Sizes of a measured product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProductCase {
    /// Tokens of a launch.
    pub tokens: usize,
    /// Rows of the matrix.
    pub n_out: usize,
    /// Columns of the matrix.
    pub n_in: usize,
    /// Storage of the weights: f16 or bf16.
    pub kind: Kind,
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

/// Random values that a matrix repeats: a prime number, so that rows differ.
const SOME: usize = 1_000_003;

/// `len` values, of which the first are made and the others repeat them.
fn repeated<T: Copy>(len: usize, value: impl Fn(usize) -> T) -> Vec<T> {
    let some: Vec<T> = (0..len.min(SOME)).map(value).collect();
    some.iter().copied().cycle().take(len).collect()
}

impl Operands {
    fn new(device: &Device, sizes: ProductCase) -> Result<Self, MeasureError> {
        let ProductCase { tokens, n_out, n_in, kind, matrices } = sizes;
        let (weights, activations) = (Random::new(1, Array::Key), Random::new(1, Array::Query));
        let bits = |i: usize| {
            let w = 0.02 * weights.normal(i as u64);
            if kind == Kind::F16 { f16::from_f64(w).to_bits() } else { bf16::from_f64(w).to_bits() }
        };
        let mut all = vec![device.upload(&repeated(n_out * n_in, bits))?];
        for _ in 1..matrices {
            let mut copy = device.alloc(n_out * n_in)?;
            copy.copy_from(&all[0])?;
            all.push(copy);
        }
        let x = repeated(tokens * n_in, |i| activations.normal(i as u64) as f32);
        Ok(Self { sizes, matrices: all, x: device.upload(&x)?, y: device.alloc(tokens * n_out)? })
    }

    fn launch(&mut self, stream: &Stream, variant: &str, i: usize) -> Result<(), MeasureError> {
        let ProductCase { tokens, n_out, n_in, kind, matrices } = self.sizes;
        let w = self.matrices[i % matrices].view([n_out, n_in])?;
        let w = if kind == Kind::F16 { Weights::F16(w) } else { Weights::Bf16(w) };
        let (x, mut y) = (self.x.view([tokens, n_in])?, self.y.view_mut([tokens, n_out])?);
        product(Pick::Named(variant), stream, &w, &x, &Add::Nothing, &mut y)?;
        Ok(())
    }
}

impl Product {
    /// Sets the case up and checks every arm that can run; `wanted` names the variants, all if empty.
    ///
    /// # Errors
    /// The device's, or an arm that does not keep its promise.
    pub fn new(device: &Device, sizes: ProductCase, wanted: &[String]) -> Result<Self, MeasureError> {
        let (stream, mut operands) = (device.stream()?, Operands::new(device, sizes)?);
        let ProductCase { tokens, n_out, n_in, kind, .. } = sizes;
        let ask = ProductSizes { tokens, n_out, n_in, kind, aligned: true };
        let named = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
        let rows = DENSE_PRODUCT.rows.iter().rev().filter(|row| named(row.name));
        let arms: Vec<_> =
            rows.filter(|&row| DENSE_PRODUCT.launch_of(row, device.caps(), &ask).is_ok()).map(|row| row.name).collect();
        // A long launch needs no company against the clock's grain.
        let launches = if tokens > 64 { launches(device).min(8) } else { launches(device) };
        let mut case = Self { stream, sizes, arms, graphs: Vec::new(), launches };
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
        let ProductCase { tokens, n_out, n_in, kind, .. } = self.sizes;
        let kind = if kind == Kind::F16 { "f16" } else { "bf16" };
        format!("{kind} {n_out}x{n_in}, {tokens} tokens, rotating matrices")
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
