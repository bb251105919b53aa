//! `qsa.topk`: a captured graph of launches over copies of the scores in turn.

use varve_gpu::qsa::{StepRecord, WidthRule, most_cells};

use super::case::{MeasureError, Prepared, between_events, bitwise_graphs};
use super::floor::Floor;
use super::window::{graph_or_wall, launches};
use crate::backend::{Buffer, Device, Graph, Stream};
use crate::ops::dispatch::Pick;
use crate::ops::qsa_steps::words;
use crate::ops::qsa_topk::{QSA_TOPK, TopkArgs, TopkSizes, topk};
use crate::proof::random::{Array, Random};

/// Cells chosen beside the tail.
const BUDGET: u32 = 2048;

/// Sizes of a measured choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopkCase {
    /// Consecutive query rows, of which the last one sees `cells`.
    pub rows: usize,
    /// Cells of the context.
    pub cells: usize,
    /// Cells that the context may have: what variants go by.
    pub capacity: usize,
    /// Copies of the scores in turn.
    pub copies: usize,
}

impl TopkCase {
    fn max_blocks(&self) -> usize {
        self.capacity / 4 + 2
    }
}

/// A choice that is set up.
pub struct Topk {
    stream: Stream,
    sizes: TopkCase,
    arms: Vec<&'static str>,
    graphs: Vec<Graph>,
    launches: usize,
}

struct Operands {
    sizes: TopkCase,
    scores: Vec<Buffer<f32>>,
    steps: Buffer<u32>,
    ids: Buffer<u32>,
}

impl Operands {
    fn new(device: &Device, sizes: TopkCase) -> Result<Self, MeasureError> {
        let TopkCase { rows, cells, copies, .. } = sizes;
        let first = (cells - rows) as u32;
        let records: Vec<_> =
            (0..rows as u32).map(|r| StepRecord::at(first + r, BUDGET, WidthRule::default())).collect();
        let steps: Vec<u32> = records.iter().flat_map(|&record| words(record)).collect();
        let scores = |copy: usize| {
            let random = Random::new(copy as u64, Array::Pick);
            let score = |i: usize| score(&random, i, sizes.max_blocks(), &records);
            device.upload(&(0..rows * sizes.max_blocks()).map(score).collect::<Vec<_>>())
        };
        Ok(Self {
            sizes,
            scores: (0..copies).map(scores).collect::<Result<_, _>>()?,
            steps: device.upload(&steps)?,
            ids: device.alloc(rows * most_cells(BUDGET as usize))?,
        })
    }

    fn launch(&mut self, stream: &Stream, variant: &str, i: usize) -> Result<(), MeasureError> {
        let TopkCase { rows, copies, .. } = self.sizes;
        let args = TopkArgs {
            scores: self.scores[i % copies].view([rows, self.sizes.max_blocks()])?,
            steps: self.steps.view([rows, 4])?,
            ids: self.ids.view_mut([rows, most_cells(BUDGET as usize)])?,
        };
        topk(Pick::Named(variant), stream, args)?;
        Ok(())
    }
}

/// Scores as an indexer's: sums over four heads of what of `amplitude * direction + noise` is above 0, so that most
/// share their top bits and many are near 0. A row scores a block nearly as the row before does.
fn score(random: &Random, i: usize, max_blocks: usize, records: &[StepRecord]) -> f32 {
    let (row, block) = (i / max_blocks, i % max_blocks);
    let record = records[row];
    let (at, n_bid) = (4 * block as u64, record.n_bid as usize);
    if block > n_bid || block == n_bid && record.tail() == 0 {
        return 0.0;
    }
    let amplitude = 5.6 * random.normal(at);
    let noise = |head: u64| 11.3 * random.normal((1 << 40) + 4 * (at + head) + row as u64 % 4);
    let sum: f64 = (0..4).map(|head| (amplitude + noise(head)).max(0.0)).sum();
    sum as f32 + if block == n_bid { 1e9 } else { 0.0 }
}

impl Topk {
    /// Sets the case up and checks every arm that can run; `wanted` names the variants, all if empty.
    ///
    /// # Errors
    /// The device's, or an arm whose ids are not the base's.
    pub fn new(device: &Device, sizes: TopkCase, wanted: &[String]) -> Result<Self, MeasureError> {
        let (stream, mut operands) = (device.stream()?, Operands::new(device, sizes)?);
        let ask = TopkSizes { rows: sizes.rows, max_blocks: sizes.max_blocks() };
        let named = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
        let runs = QSA_TOPK.rows.iter().rev().filter(|row| QSA_TOPK.launch_of(row, device.caps(), &ask).is_ok());
        let arms: Vec<_> = runs.map(|row| row.name).filter(|name| named(name)).collect();
        let mut case = Self { stream, sizes, arms, graphs: Vec::new(), launches: launches(device) };
        let (name, arms) = (case.case(), (&case.stream, &case.arms[..], case.launches));
        case.graphs =
            bitwise_graphs((QSA_TOPK.op, &name), arms, &mut operands, |operands| &mut operands.ids, Operands::launch)?;
        Ok(case)
    }
}

impl Prepared for Topk {
    fn op(&self) -> &'static str {
        QSA_TOPK.op
    }

    fn case(&self) -> String {
        let TopkCase { rows, cells, capacity, .. } = self.sizes;
        format!("{rows} rows at {cells} cells, capacity {capacity}")
    }

    fn tokens(&self) -> usize {
        self.sizes.rows
    }

    fn arms(&self) -> &[&'static str] {
        &self.arms
    }

    fn exactness(&self, arm: usize) -> &'static str {
        QSA_TOPK.word_of(self.arms[arm])
    }

    fn floor(&self) -> Floor {
        Floor::qsa_topk(&self.sizes)
    }

    fn how(&self) -> &'static str {
        graph_or_wall(&self.stream)
    }

    fn time(&mut self, arm: usize) -> Result<f64, MeasureError> {
        let us = between_events(&self.stream, || Ok(self.graphs[arm].launch(&self.stream)?))?;
        Ok(us / self.launches as f64)
    }
}
