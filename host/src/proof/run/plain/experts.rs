//! `moe.product`: the products of routed experts, by pair and by the tiles of `moe.plan`.

use std::fmt;
use std::ops::Range;

use varve_gpu::mmvq::Format;
use varve_gpu::moe::{TILE_WORDS, max_tiles};

use super::dense::{Rows, Storage};
use super::operand::{Layout, Loaded, Matrix, vector};
use super::{Call, Case, Expected, Promised, Values, aligned_works, variants};
use crate::backend::{BackendError, Device};
use crate::ops::dispatch::Pick;
use crate::ops::moe_plan::{PlanArgs, plan};
use crate::ops::moe_product::{ExpertProductArgs, ExpertProductSizes, MOE_PRODUCT, Tiles, expert_product};
use crate::ops::weights::Kind;
use crate::proof::reference::dense as reference;
use crate::proof::run::loaded::Flaw;
use crate::proof::run::{Context, Operation};

/// Experts, experts of a token, rows and columns of an expert, storage.
#[derive(Clone, Copy)]
pub struct Shape(usize, usize, usize, usize, Storage);

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(experts, used, n_out, n_in, storage) = self;
        write!(f, "{storage}/{used} of {experts}x{n_out}x{n_in}")
    }
}

/// The second has expert ids above 255, the fourth as many pairs of one expert as there are tokens.
const SHAPES: &[Shape] = &[
    Shape(8, 2, 40, 256, Storage::Plain(Kind::Bf16)),
    Shape(512, 10, 5, 64, Storage::Plain(Kind::F32)),
    Shape(3, 3, 33, 132, Storage::Plain(Kind::F16)),
    Shape(1, 1, 17, 4, Storage::Plain(Kind::F32)),
    Shape(3, 2, 5, 160, Storage::Blocks(Format::Q8_0)),
    Shape(3, 2, 5, 96, Storage::Blocks(Format::IQ4_NL)),
    Shape(3, 2, 5, 256, Storage::Blocks(Format::Q3_K)),
    Shape(3, 2, 5, 768, Storage::Blocks(Format::Q4_K)),
    Shape(3, 2, 5, 512, Storage::Blocks(Format::Q5_K)),
    Shape(3, 2, 5, 768, Storage::Blocks(Format::Q6_K)),
    Shape(3, 2, 5, 256, Storage::Blocks(Format::IQ4_XS)),
    Shape(3, 2, 5, 256, Storage::Blocks(Format::IQ3_S)),
    Shape(3, 2, 5, 256, Storage::Blocks(Format::IQ2_XS)),
];

struct Product {
    shape: Shape,
    w: Rows,
    x: Matrix<f32>,
    ids: Vec<u32>,
    layout: Layout,
}

impl Product {
    fn new(call: Call, shape: Shape) -> Self {
        let Shape(experts, used, n_out, n_in, storage) = shape;
        // Distinct for a token, and some experts get many tokens, others none.
        let id = |t: usize, j: usize| ((t / 3 * 37 + j * (experts / used)) % experts) as u32;
        Self {
            w: Rows::new([experts * n_out, n_in], storage),
            x: Matrix::random(0, call.layout, [call.tokens, n_in], call.law),
            ids: (0..call.tokens).flat_map(|t| (0..used).map(move |j| id(t, j))).collect(),
            layout: if call.layout == Layout::Gaps { Layout::Odd } else { call.layout },
            shape,
        }
    }
}

impl Case for Product {
    fn names(&self) -> [&'static str; 2] {
        [MOE_PRODUCT.op, MOE_PRODUCT.base().name]
    }

    fn variants(&self, context: &Context<'_>) -> Vec<Promised> {
        let Shape(experts, _, n_out, ..) = self.shape;
        let (pairs, kind) = (self.ids.len(), self.w.kind());
        let sizes = ExpertProductSizes { pairs, n_out, experts, planned: true, kind };
        variants(context, &MOE_PRODUCT, &sizes)
    }

    fn tokens(&self) -> usize {
        self.x.rows
    }

    fn run(
        &self,
        device: &Device,
        variant: &str,
        pieces: &[Range<usize>],
    ) -> Result<Vec<(&'static str, Values)>, Flaw> {
        let Shape(experts, used, n_out, ..) = self.shape;
        let (stream, w, x) = (device.stream()?, self.w.load(device)?, Loaded::of(device, &self.x)?);
        let ids = device.upload(&self.ids)?;
        let mut y = Loaded::blank(device, 1, self.layout, [self.ids.len(), n_out])?;
        for piece in pieces {
            let pairs = piece.start * used..piece.end * used;
            let most = max_tiles(pairs.len(), experts);
            let (mut tiles, mut n_tiles) = (device.alloc(most * TILE_WORDS)?, device.alloc(1)?);
            let dims = [piece.len(), used];
            plan(
                Pick::Named("block"),
                &stream,
                PlanArgs {
                    ids: ids.view_strided(pairs.start, dims, [used, 1]).map_err(BackendError::from)?,
                    experts,
                    tiles: tiles.view_mut([most, TILE_WORDS]).map_err(BackendError::from)?,
                    n_tiles: n_tiles.view_mut([1]).map_err(BackendError::from)?,
                },
            )?;
            let args = ExpertProductArgs {
                w: self.w.view(&w)?,
                experts,
                x: x.view(piece)?,
                ids: vector(&ids)?.part(0, pairs.clone()).map_err(BackendError::from)?,
                tiles: Some(Tiles {
                    tiles: tiles.view([most, TILE_WORDS]).map_err(BackendError::from)?,
                    count: n_tiles.view([1]).map_err(BackendError::from)?,
                }),
                y: y.view_mut(&pairs)?,
            };
            expert_product(Pick::Named(variant), &stream, args)?;
        }
        Ok(vec![("y", Values::F32(y.read()?))])
    }

    fn expected(&self) -> Vec<Expected> {
        let Shape(_, used, n_out, ..) = self.shape;
        let element = |i: usize| {
            let (pair, n) = (i / n_out, i % n_out);
            let row = self.w.row(self.ids[pair] as usize * n_out + n);
            reference::dot(row.iter().map(|&w| f64::from(w)), self.x.row(pair / used), None)
        };
        vec![Expected::Near((0..self.ids.len() * n_out).map(element).collect())]
    }
}

/// `moe.product`.
pub const PRODUCT: Operation = Operation {
    op: MOE_PRODUCT.op,
    variants: || MOE_PRODUCT.listed().1,
    works: |scale| aligned_works(scale, SHAPES, Product::new),
};
