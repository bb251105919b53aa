//! `qsa.topk`: ids around the edges of budget and capacity, with scores that tie, that are no numbers, that nobody may
//! read.

use std::fmt;
use std::ops::Range;

use cuda_std::emulator::memory::POISON;
use varve_gpu::qsa::{StepRecord, WidthRule, most_cells, topk_reg};

use super::operand::{Layout, Loaded, rows};
use super::replay::{self, Varied};
use super::{Case, Expected, Promised, Values, prove, variants};
use crate::backend::Device;
use crate::ops::dispatch::Pick;
use crate::ops::qsa_steps::{WORDS, words};
use crate::ops::qsa_topk::{QSA_TOPK, TopkArgs, TopkSizes, topk};
use crate::proof::random::{Array, Random};
use crate::proof::reference::topk as reference;
use crate::proof::run::loaded::Flaw;
use crate::proof::run::{Context, Operation, Work};

/// Scores of complete blocks.
#[derive(Clone, Copy, Debug)]
pub enum Scores {
    /// All different, or nearly so.
    Continuous,
    /// 64 different ones: many tie at the threshold.
    Levels,
    /// One.
    Equal,
    /// Not numbers every 97th, -0 every 53rd and +0 every 47th, among others below 0 for the most part.
    Zeros,
    /// Of both signs and all sizes, infinities among them: each digit of a key takes all its values.
    Sizes,
}

/// Which rows, and how they are scored.
#[derive(Clone, Copy)]
struct Sizes {
    scores: Scores,
    rule: WidthRule,
    /// Cells that may be chosen beside the tail.
    budget: usize,
    /// Cells that the first row sees; each row sees one more than the one before.
    first: usize,
    rows: usize,
    /// Scores of a row.
    max_blocks: usize,
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scores, rule, budget, first, rows, max_blocks } = self;
        write!(f, "{scores:?}/{rule:?}/{budget}of{first}/T={rows}/blocks={max_blocks}")
    }
}

struct Topk {
    sizes: Sizes,
    records: Vec<StepRecord>,
    scores: Vec<f32>,
}

impl Topk {
    fn new(sizes: Sizes) -> Self {
        let Sizes { rule, budget, first, rows, max_blocks, .. } = sizes;
        let records: Vec<_> = (0..rows).map(|r| StepRecord::at((first + r) as u32 - 1, budget as u32, rule)).collect();
        let score = |i: usize| sizes.score(i as u64, (i % max_blocks) as u32, &records[i / max_blocks]);
        let scores = (0..rows * max_blocks).map(score).collect();
        Self { sizes, records, scores }
    }

    fn cap(&self) -> usize {
        most_cells(self.sizes.budget)
    }
}

impl Sizes {
    /// Element i of the scores, for block `block` of a row.
    fn score(&self, i: u64, block: u32, record: &StepRecord) -> f32 {
        let random = Random::new(11, Array::Pick);
        if block > record.n_bid || block == record.n_bid && record.tail() == 0 {
            return f32::INFINITY; // not the row's: were it read, it would be chosen
        }
        let score = match self.scores {
            Scores::Continuous => random.normal(i) as f32,
            Scores::Levels => (64.0 * random.uniform(i)).floor() as f32 - 20.0,
            Scores::Equal => 1.5,
            Scores::Zeros if block.is_multiple_of(97) => f32::NAN,
            Scores::Zeros if block.is_multiple_of(53) => -0.0,
            Scores::Zeros if block.is_multiple_of(47) => 0.0,
            Scores::Zeros => (random.uniform(i) - 0.99) as f32,
            Scores::Sizes => f32::from_bits((random.uniform(i) * 4_294_967_296.0) as u32),
        };
        // The tail's score as the score kernels write it; among equal ones it must earn its place.
        let is_tail = block == record.n_bid && !matches!(self.scores, Scores::Equal);
        if is_tail { score.abs().min(1e3) + 1e9 } else { score }
    }
}

impl Case for Topk {
    fn names(&self) -> [&'static str; 2] {
        [QSA_TOPK.op, QSA_TOPK.base().name]
    }

    fn variants(&self, context: &Context<'_>) -> Vec<Promised> {
        let Sizes { rows, max_blocks, .. } = self.sizes;
        variants(context, &QSA_TOPK, &TopkSizes { rows, max_blocks })
    }

    fn tokens(&self) -> usize {
        self.sizes.rows
    }

    fn run(
        &self,
        device: &Device,
        variant: &str,
        pieces: &[Range<usize>],
    ) -> Result<Vec<(&'static str, Values)>, Flaw> {
        let (stream, max_blocks) = (device.stream()?, self.sizes.max_blocks);
        let steps: Vec<u32> = self.records.iter().flat_map(|&record| words(record)).collect();
        let (scores, steps) = (device.upload(&self.scores)?, device.upload(&steps)?);
        let mut ids = Loaded::<u32>::blank(device, 0, Layout::Dense, [self.sizes.rows, self.cap()])?;
        for piece in pieces {
            let args = TopkArgs {
                scores: rows(&scores, piece, max_blocks)?,
                steps: rows(&steps, piece, WORDS)?,
                ids: ids.view_mut(piece)?,
            };
            topk(Pick::Named(variant), &stream, args)?;
            stream.synchronize()?;
            stream.poison_scratch()?; // nothing in it is of use to the next call
        }
        Ok(vec![("ids", Values::U32(ids.read_any()?))])
    }

    fn expected(&self) -> Vec<Expected> {
        let row = |(scores, record): (&[f32], &StepRecord)| {
            let mut ids = reference::topk(scores, *record);
            ids.resize(self.cap(), POISON);
            ids
        };
        let rows = self.scores.chunks(self.sizes.max_blocks).zip(&self.records);
        vec![Expected::Words(rows.flat_map(row).collect())]
    }
}

/// `qsa.topk`.
pub const TOPK: Operation = Operation {
    op: QSA_TOPK.op,
    variants: || QSA_TOPK.listed().1,
    works: |scale| {
        let mut cases = cases();
        if !scale.is_small() {
            cases.extend(card_cases());
        }
        let work =
            |sizes: Sizes| Work::new(sizes.to_string(), move |context, name| prove(context, name, &Topk::new(sizes)));
        cases.into_iter().map(work).chain(replay::works(scale, Varied::Topk)).collect()
    },
};

const BUDGET: usize = 2048;
const RULES: [WidthRule; 2] = [WidthRule::BlocksPlusTail, WidthRule::FullRows];

/// A row of the whole budget.
const fn row(scores: Scores, first: usize) -> Sizes {
    let max_blocks = first / 4 + 2;
    Sizes { scores, rule: WidthRule::FullRows, budget: BUDGET, first, rows: 1, max_blocks }
}

/// Cases for the emulator too, where each thread counts: few rows, small budgets.
fn cases() -> Vec<Sizes> {
    let edge = topk_reg::MOST_BLOCKS;
    let mut cases = vec![
        row(Scores::Levels, 4097),
        Sizes { rule: WidthRule::BlocksPlusTail, ..row(Scores::Zeros, 8195) },
        Sizes { max_blocks: 9000, ..row(Scores::Equal, 4099) }, // much more capacity than cells
        // All that `reg` holds, the last one a tail; and more than it holds.
        Sizes { budget: 64, max_blocks: edge, ..row(Scores::Continuous, 4 * edge - 1) },
        Sizes { budget: 64, ..row(Scores::Levels, 4 * edge + 5) },
    ];
    for rule in RULES {
        // All cells are chosen, all but one, and so on: every length of the tail, and a block that fills up.
        cases.push(Sizes { rule, budget: 64, rows: 4, max_blocks: 20, ..row(Scores::Continuous, 66) });
    }
    // A budget of one block and tails of 1, 2 and 3 cells; none complete.
    cases.push(Sizes { budget: 4, rows: 3, ..row(Scores::Sizes, 1025) });
    cases.push(Sizes { budget: 4, rows: 3, ..row(Scores::Equal, 1) });
    cases
}

/// More of them for a card.
fn card_cases() -> Vec<Sizes> {
    use Scores::{Continuous, Equal, Levels, Zeros};
    let edge = topk_reg::MOST_BLOCKS;
    let mut cases = Vec::new();
    for rule in RULES {
        cases.push(Sizes { rule, rows: 13, max_blocks: 520, ..row(Continuous, BUDGET) });
        for scores in [Continuous, Levels, Equal, Zeros, Scores::Sizes] {
            cases.push(Sizes { rule, rows: 4, max_blocks: 65_538, ..row(scores, 131_069) });
            cases.push(Sizes { rule, rows: 8, max_blocks: edge, ..row(scores, 4 * edge - 8) });
            cases.push(Sizes { rule, rows: 16, max_blocks: edge + 4, ..row(scores, 4 * edge - 8) });
        }
        cases.push(Sizes { rule, rows: 2, ..row(Continuous, 262_144) });
        cases.push(Sizes { rule, rows: 200, max_blocks: 2000, ..row(Zeros, 7000) });
        // More keys a thread than the model's context needs.
        cases.push(Sizes { rule, rows: 2, ..row(Levels, 1_300_001) });
    }
    cases
}
