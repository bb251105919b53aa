//! `moe.router`, `moe.plan`: which experts a token has, and in which order their products run.

use std::fmt;
use std::ops::Range;

use super::operand::{Law, Layout, Loaded, Matrix};
use super::{Call, Case, Expected, Promised, Values, prove, variants, works};
use crate::backend::Device;
use crate::ops::dispatch::Pick;
use crate::ops::moe_plan::{MOE_PLAN, PlanArgs, PlanSizes, plan};
use crate::ops::moe_router::{MOE_ROUTER, RouterArgs, RouterSizes, router};
use crate::proof::random::{Array, Random};
use crate::proof::reference::moe as reference;
use crate::proof::run::loaded::Flaw;
use crate::proof::run::{Context, Operation, Work};
use varve_gpu::moe::{TILE_WORDS, max_tiles};

/// Experts chosen, of how many.
#[derive(Clone, Copy)]
pub struct Chosen(usize, usize);

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}of{}", self.0, self.1)
    }
}

const CHOSEN: &[Chosen] = &[
    Chosen(10, 512),
    Chosen(1, 1),
    Chosen(4, 7),
    Chosen(2, 128),
    Chosen(8, 129),
    Chosen(8, 256),
    Chosen(32, 257),
    Chosen(10, 513),
    Chosen(32, 1024),
];

struct Router {
    k: usize,
    renormalise: bool,
    logits: Matrix<f32>,
    layout: Layout,
}

impl Router {
    fn new(call: Call, Chosen(k, experts): Chosen) -> Self {
        let logits = Matrix::random(0, call.layout, [call.tokens, experts], call.law);
        Self { k, renormalise: !call.tokens.is_multiple_of(2), logits, layout: call.layout }
    }

    /// Rows that routers have stumbled over, each beside an ordinary one.
    fn hostile(renormalise: bool) -> Self {
        const LAW: Law = Law { name: "hostile", scale: 1.0, zero_rows: false };
        let mut logits = Matrix::random(0, Layout::Gaps, [14, 512], &LAW);
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        let mut row = |t: usize, value: &dyn Fn(usize, f32) -> f32| {
            for (e, x) in logits.values[t * 512..(t + 1) * 512].iter_mut().enumerate() {
                *x = value(e, *x);
            }
        };
        row(0, &|e, x| if e == 300 { nan } else { x });
        row(2, &|_, _| nan);
        row(4, &|_, _| 0.25);
        row(5, &|_, _| -inf);
        row(6, &|e, x| if e % 100 == 7 { x } else { -inf });
        row(7, &|e, x| if e < 505 { -nan } else { x });
        row(8, &|e, _| if e % 2 == 0 { 0.0 } else { -0.0 });
        row(9, &|e, _| (e / 37 % 5) as f32); // many ties
        row(10, &|e, _| if (300..310).contains(&e) { 50.0 + (e % 3) as f32 } else { -50.0 });
        row(11, &|e, x| if e == 511 { inf } else { x });
        row(12, &|_, x| x * 1e38);
        Self { k: 10, renormalise, logits, layout: Layout::Gaps }
    }
}

impl Case for Router {
    fn names(&self) -> [&'static str; 2] {
        [MOE_ROUTER.op, MOE_ROUTER.base().name]
    }

    fn variants(&self, context: &Context<'_>) -> Vec<Promised> {
        variants(context, &MOE_ROUTER, &RouterSizes { tokens: self.logits.rows, experts: self.logits.width })
    }

    fn tokens(&self) -> usize {
        self.logits.rows
    }

    fn run(
        &self,
        device: &Device,
        variant: &str,
        pieces: &[Range<usize>],
    ) -> Result<Vec<(&'static str, Values)>, Flaw> {
        let (stream, logits) = (device.stream()?, Loaded::of(device, &self.logits)?);
        let mut ids = Loaded::blank(device, 1, self.layout, [self.logits.rows, self.k])?;
        let mut weights = Loaded::blank(device, 2, self.layout, [self.logits.rows, self.k])?;
        for piece in pieces {
            let args = RouterArgs {
                logits: logits.view(piece)?,
                ids: ids.view_mut(piece)?,
                weights: weights.view_mut(piece)?,
                renormalise: self.renormalise,
            };
            router(Pick::Named(variant), &stream, args)?;
        }
        Ok(vec![("ids", Values::U32(ids.read()?)), ("weights", Values::F32(weights.read()?))])
    }

    fn expected(&self) -> Vec<Expected> {
        let (mut ids, mut weights) = (Vec::new(), Vec::new());
        for t in 0..self.logits.rows {
            let (row_ids, row_weights) = reference::router(self.logits.row(t), self.k, self.renormalise);
            ids.extend(row_ids);
            weights.extend(row_weights);
        }
        vec![Expected::Words(ids), Expected::Near(weights)]
    }
}

/// `moe.router`; calls of an odd number of tokens renormalise.
pub const ROUTER: Operation = Operation {
    op: MOE_ROUTER.op,
    variants: || MOE_ROUTER.listed().1,
    works: |scale| {
        let mut all = works(scale, CHOSEN, Router::new);
        all.extend([false, true].map(|renormalise| {
            let name = if renormalise { "hostile/renormalised" } else { "hostile" };
            Work::new(name, move |context, name| prove(context, name, &Router::hostile(renormalise)))
        }));
        all
    },
};

/// Ids of a plan's case.
#[derive(Clone, Copy, Debug)]
enum Ids {
    /// Any expert.
    Random,
    /// One expert only.
    One,
    /// Experts 300 to 309 in turn: ids that a byte does not hold.
    High,
    /// Some ids that are no expert's.
    Beyond,
}

struct Plan {
    ids: Vec<u32>,
    k: usize,
    experts: usize,
}

impl Plan {
    fn new(tokens: usize, k: usize, experts: usize, law: Ids) -> Self {
        let random = Random::new(7, Array::Pick);
        let id = |i: usize| match law {
            Ids::Random => (random.uniform(i as u64) * experts as f64) as u32,
            Ids::One => experts as u32 - 1,
            Ids::High => 300 + (i % 10) as u32,
            Ids::Beyond if i.is_multiple_of(3) => [experts as u32, u32::MAX][i % 2],
            Ids::Beyond => (i * 7 % experts) as u32,
        };
        Self { ids: (0..tokens * k).map(id).collect(), k, experts }
    }
}

impl Case for Plan {
    fn names(&self) -> [&'static str; 2] {
        [MOE_PLAN.op, MOE_PLAN.base().name]
    }

    fn variants(&self, context: &Context<'_>) -> Vec<Promised> {
        variants(context, &MOE_PLAN, &PlanSizes { pairs: self.ids.len() })
    }

    fn tokens(&self) -> usize {
        1
    }

    fn run(&self, device: &Device, variant: &str, _: &[Range<usize>]) -> Result<Vec<(&'static str, Values)>, Flaw> {
        let (stream, ids) = (device.stream()?, device.upload(&self.ids)?);
        let most = max_tiles(self.ids.len(), self.experts);
        let mut n_tiles = Loaded::<u32>::blank(device, 0, Layout::Dense, [1, 1])?;
        let mut tiles = Loaded::<u32>::blank(device, 0, Layout::Dense, [most, TILE_WORDS])?;
        let args = PlanArgs {
            ids: ids.view([self.ids.len() / self.k, self.k]).map_err(crate::backend::BackendError::from)?,
            experts: self.experts,
            tiles: tiles.all_mut()?,
            n_tiles: n_tiles.first_mut()?,
        };
        plan(Pick::Named(variant), &stream, args)?;
        let count = n_tiles.read()?[0];
        let tiles = tiles.read_first(count as usize)?;
        Ok(vec![("n_tiles", Values::U32(vec![count])), ("tiles", Values::U32(tiles))])
    }

    fn expected(&self) -> Vec<Expected> {
        let tiles = reference::plan(&self.ids, self.experts);
        vec![Expected::Words(vec![(tiles.len() / TILE_WORDS) as u32]), Expected::Words(tiles)]
    }
}

/// `moe.plan`.
pub const PLAN: Operation = Operation {
    op: MOE_PLAN.op,
    variants: || MOE_PLAN.listed().1,
    works: |scale| {
        let mut cases = vec![
            (1, 1, 1, Ids::Random),
            (1, 10, 512, Ids::Random),
            (3, 10, 512, Ids::Random),
            (4, 8, 256, Ids::Random),
            (33, 2, 7, Ids::Random),
            (64, 4, 8, Ids::Random),
            (41, 32, 1024, Ids::Random),
            (101, 10, 512, Ids::Random),
            (100, 1, 33, Ids::One),
            (31, 10, 512, Ids::High),
            (40, 5, 60, Ids::Beyond),
        ];
        if !scale.is_small() {
            cases.extend([(8192, 10, 512, Ids::Random), (8192, 10, 512, Ids::One), (4099, 8, 256, Ids::Random)]);
        }
        let work = |(tokens, k, experts, law): (usize, usize, usize, Ids)| {
            let name = format!("{law:?}/T={tokens}/{k}of{experts}").to_lowercase();
            Work::new(name, move |context, name| prove(context, name, &Plan::new(tokens, k, experts, law)))
        };
        cases.into_iter().map(work).collect()
    },
};
