//! `qsa.scores`: a captured graph of launches, over as many copies of the pooled keys in turn as the L2 cannot hold.

use varve_gpu::qsa::{INDEX_DIM, INDEX_HEADS, RATIO, StepRecord, WidthRule};

use super::case::{MeasureError, Prepared, between_events, same_bits, within_promise};
use super::floor::Floor;
use super::window::{graph_or_wall, launches};
use crate::backend::{Buffer, Device, Graph, Stream};
use crate::ops::dispatch::Pick;
use crate::ops::exactness::Exactness;
use crate::ops::qsa_scores::{QSA_SCORES, ScoresArgs, ScoresSizes, scores};
use crate::ops::qsa_steps::{WORDS, words};
use crate::proof::random::{Array, Random};

/// Consecutive queries at the end of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScoresCase {
    /// Cells of the context, which the last query sees.
    pub cells: usize,
    /// Queries, at most `cells`.
    pub tokens: usize,
}

impl ScoresCase {
    /// Blocks that there is room for, a multiple of 4.
    const fn max_blocks(&self) -> usize {
        (self.cells / RATIO + 2).next_multiple_of(4)
    }

    /// Copies of the keys: at least six, and four times what the L2 holds.
    fn copies(&self, l2_bytes: u64) -> usize {
        let bytes = 4 * self.max_blocks() * INDEX_DIM;
        usize::try_from(4 * l2_bytes).unwrap_or(usize::MAX).div_ceil(bytes).max(6)
    }
}

/// A case that is set up.
pub struct Scores {
    stream: Stream,
    sizes: ScoresCase,
    arms: Vec<&'static str>,
    graphs: Vec<Graph>,
    launches: usize,
}

struct Operands {
    sizes: ScoresCase,
    records: Vec<StepRecord>,
    keys: Vec<Buffer<f32>>,
    dead: Buffer<f32>,
    q: Buffer<f32>,
    steps: Buffer<u32>,
    out: Buffer<f32>,
}

/// Cells that a query may choose.
const BUDGET: u32 = 2048;
/// Launches of a graph from so many queries on are fewer.
const MANY: usize = 16;

impl Operands {
    fn new(device: &Device, sizes: ScoresCase) -> Result<Self, MeasureError> {
        let ScoresCase { cells, tokens } = sizes;
        let [direction, noise, weights, queries] =
            [Array::Direction, Array::Key, Array::Beta, Array::Query].map(|array| Random::new(1, array));
        // As an indexer's: most blocks are much alike, some stand out.
        let key = |i: usize| {
            let shared = 0.5 * weights.normal((i / INDEX_DIM) as u64) * direction.normal((i % INDEX_DIM) as u64);
            (shared + noise.normal(i as u64)) as f32
        };
        let query = |i: usize| (direction.normal((i % INDEX_DIM) as u64) + queries.normal(i as u64)) as f32;
        let values: Vec<f32> = (0..sizes.max_blocks() * INDEX_DIM).map(key).collect();
        let q: Vec<f32> = (0..tokens * INDEX_HEADS * INDEX_DIM).map(query).collect();
        let record = |position| StepRecord::at(position as u32, BUDGET, WidthRule::default());
        let records: Vec<_> = (cells - tokens..cells).map(record).collect();
        let steps: Vec<u32> = records.iter().flat_map(|&record| words(record)).collect();
        let mut keys = vec![device.upload(&values)?];
        for _ in 1..sizes.copies(device.caps().l2_bytes) {
            let mut copy = device.alloc(values.len())?;
            copy.copy_from(&keys[0])?;
            keys.push(copy);
        }
        Ok(Self {
            sizes,
            records,
            keys,
            dead: device.upload(&values[..INDEX_DIM])?,
            q: device.upload(&q)?,
            steps: device.upload(&steps)?,
            out: device.alloc(tokens * sizes.max_blocks())?,
        })
    }

    fn launch(&mut self, stream: &Stream, variant: &str, i: usize) -> Result<(), MeasureError> {
        let (tokens, max_blocks) = (self.sizes.tokens, self.sizes.max_blocks());
        let args = ScoresArgs {
            q: self.q.view([tokens, INDEX_HEADS * INDEX_DIM])?,
            keys: self.keys[i % self.keys.len()].view([max_blocks, INDEX_DIM])?,
            dead: self.dead.view([INDEX_DIM])?,
            steps: self.steps.view([tokens, WORDS])?,
            scores: self.out.view_mut([tokens, max_blocks])?,
            reach: 0,
        };
        scores(Pick::Named(variant), stream, args)?;
        Ok(())
    }

    /// One launch on a poisoned output: scores of complete blocks, those of the dead key, and what is not to be written.
    fn parts(&mut self, stream: &Stream, variant: &str) -> Result<[Vec<f32>; 3], MeasureError> {
        self.out.poison()?;
        self.launch(stream, variant, 0)?;
        stream.synchronize()?;
        let (all, mut parts) = (self.out.read()?, [Vec::new(), Vec::new(), Vec::new()]);
        for (row, record) in all.chunks_exact(self.sizes.max_blocks()).zip(&self.records) {
            let (complete, rest) = row.split_at(record.n_bid as usize);
            parts[0].extend(complete);
            parts[1].push(rest[0]);
            parts[2].extend(&rest[1..]);
        }
        Ok(parts)
    }
}

impl Scores {
    /// Sets the case up and checks every arm that can run; `wanted` names the variants, all if empty.
    ///
    /// # Errors
    /// The device's, or an arm that does not keep its promise.
    pub fn new(device: &Device, sizes: ScoresCase, wanted: &[String]) -> Result<Self, MeasureError> {
        let (stream, mut operands) = (device.stream()?, Operands::new(device, sizes)?);
        let ask = ScoresSizes::on(device.caps(), sizes.tokens, sizes.max_blocks());
        let named = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
        // As a matrix product, a few queries are no case for it.
        let pays = |promise: &Exactness| sizes.tokens >= MANY || !matches!(promise, Exactness::Rounding { .. });
        let rows = QSA_SCORES.rows.iter().rev().filter(|row| named(row.name) && pays(&row.exactness));
        let rows: Vec<_> = rows.filter(|&row| QSA_SCORES.launch_of(row, device.caps(), &ask).is_ok()).collect();
        let few = launches(device) / if sizes.tokens < MANY { 1 } else { 10 };
        let mut case = Self { stream, sizes, arms: Vec::new(), graphs: Vec::new(), launches: few.max(1) };
        let (name, mut base) = (case.case(), None);
        for row in rows {
            let got = operands.parts(&case.stream, row.name)?;
            let [complete, tails, rest] = base.get_or_insert_with(|| got.clone());
            let of = (QSA_SCORES.op, row.name, name.as_str());
            within_promise(of, "scores", row.exactness, [complete, &got[0]])?;
            same_bits(of.0, of.1, of.2, "tails", [tails, &got[1]])?;
            same_bits(of.0, of.1, of.2, "what is not to be written", [rest, &got[2]])?;
            case.arms.push(row.name);
            let all = 0..case.launches;
            let graph =
                case.stream.capture(|stream| all.clone().try_for_each(|i| operands.launch(stream, row.name, i)));
            case.graphs.push(graph?);
        }
        Ok(case)
    }
}

impl Prepared for Scores {
    fn op(&self) -> &'static str {
        QSA_SCORES.op
    }

    fn case(&self) -> String {
        format!("{} cells, {} queries, rotating keys", self.sizes.cells, self.sizes.tokens)
    }

    fn tokens(&self) -> usize {
        self.sizes.tokens
    }

    fn arms(&self) -> &[&'static str] {
        &self.arms
    }

    fn exactness(&self, arm: usize) -> &'static str {
        QSA_SCORES.word_of(self.arms[arm])
    }

    fn floor(&self) -> Floor {
        Floor::qsa_scores(&self.sizes)
    }

    fn how(&self) -> &'static str {
        graph_or_wall(&self.stream)
    }

    fn time(&mut self, arm: usize) -> Result<f64, MeasureError> {
        let us = between_events(&self.stream, || Ok(self.graphs[arm].launch(&self.stream)?))?;
        Ok(us / self.launches as f64)
    }
}
