//! `qsa.scores`: scores of blocks of cells, at the places where what a row sees changes.

use std::ops::Range;

use varve_gpu::qsa::{INDEX_DIM, INDEX_HEADS, StepRecord, WidthRule};

use super::operand::{LAWS, Law, Layout, Loaded, Matrix, vector};
use super::replay::{self, Varied};
use super::{Case, Expected, Promised, Values, prove, selection, variants};
use crate::backend::Device;
use crate::ops::dispatch::Pick;
use crate::ops::qsa_scores::{QSA_SCORES, ScoresArgs, ScoresSizes, scores};
use crate::ops::qsa_steps::{WORDS, words};
use crate::proof::reference::attn::{SCORE_STEPS, block_score};
use crate::proof::reference::near::Near;
use crate::proof::run::loaded::Flaw;
use crate::proof::run::{Context, Operation, Scale, Work};

/// What an output holds that nobody has written.
const UNWRITTEN: Near = Near { value: f64::NAN, slack: 0.0 };
/// Cells that a row may choose; records need it, scores do not.
pub(super) const BUDGET: u32 = 2048;
/// What the tail block's score is raised by.
const TAIL: f32 = 1e9;
/// Roundings of the same size that `tf32x3` stands for, as docs/src/exactness.md derives.
const PRODUCT_STEPS: f64 = 200.0;

/// Rows at consecutive positions, and room for more blocks than they see.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub tokens: usize,
    pub first: usize,
    pub spare: usize,
    pub law: &'static Law,
    /// Blocks to score at most, 0 for all.
    pub reach: usize,
}

impl Window {
    pub(super) fn record(&self, token: usize) -> StepRecord {
        StepRecord::at((self.first + token) as u32, BUDGET, WidthRule::BlocksPlusTail)
    }

    /// The block of the last row's tail.
    pub(super) fn last(&self) -> usize {
        self.record(self.tokens - 1).n_bid as usize
    }

    fn name(&self) -> String {
        let Self { tokens, first, spare, law, reach } = self;
        format!("{}/T={tokens}/first={first}/spare={spare}/reach={reach}", law.name)
    }
}

pub(super) struct Scores {
    pub(super) window: Window,
    pub(super) max_blocks: usize,
    q: Matrix<f32>,
    /// Rows that are no complete block of any row are NaN.
    pub(super) keys: Matrix<f32>,
    dead: Matrix<f32>,
    pub(super) steps: Matrix<u32>,
}

impl Scores {
    pub(super) fn new(window: Window) -> Self {
        let (complete, max_blocks) = (window.last(), window.last() + 1 + window.spare);
        let mut keys = Matrix::random(1, Layout::Dense, [max_blocks, INDEX_DIM], window.law);
        keys.values[complete * INDEX_DIM..].fill(f32::NAN);
        let record = |token| words(window.record(token));
        Self {
            window,
            max_blocks,
            q: Matrix::random(0, Layout::Dense, [window.tokens, INDEX_HEADS * INDEX_DIM], window.law),
            keys,
            dead: Matrix::random(2, Layout::Dense, [1, INDEX_DIM], &LAWS[0]),
            steps: Matrix::of(3, [window.tokens, WORDS], (0..window.tokens).flat_map(record).collect()),
        }
    }

    /// Scores of complete blocks, the rest of a row taken for unwritten; and apart from them those of the dead key.
    fn parted<T: Copy>(&self, all: &[T], nothing: T) -> [Vec<T>; 2] {
        let (mut complete, mut tails) = (all.to_vec(), Vec::new());
        for (token, row) in complete.chunks_exact_mut(self.max_blocks).enumerate() {
            tails.push(std::mem::replace(&mut row[self.window.record(token).n_bid as usize], nothing));
        }
        [complete, tails]
    }

    /// What block `block` scores for a row.
    fn score(&self, token: usize, block: usize) -> Near {
        let (record, q) = (self.window.record(token), self.q.row(token));
        if self.window.reach > 0 && block >= self.window.reach {
            return UNWRITTEN;
        }
        match block.cmp(&(record.n_bid as usize)) {
            std::cmp::Ordering::Less => block_score(q, self.keys.row(block)),
            std::cmp::Ordering::Equal if record.tail() > 0 => block_score(q, self.dead.row(0)).plus(Near::exact(TAIL)),
            std::cmp::Ordering::Equal => block_score(q, self.dead.row(0)),
            std::cmp::Ordering::Greater => UNWRITTEN,
        }
    }

    /// Scores by a variant, poison where a row sees no block.
    pub(super) fn scores(&self, device: &Device, variant: &str, pieces: &[Range<usize>]) -> Result<Vec<f32>, Flaw> {
        let (stream, dead) = (device.stream()?, device.upload(&self.dead.values)?);
        let [q, keys] = [&self.q, &self.keys].map(|matrix| Loaded::of(device, matrix));
        let (q, keys, steps) = (q?, keys?, Loaded::of(device, &self.steps)?);
        let mut out = Loaded::blank(device, 0, Layout::Dense, [self.window.tokens, self.max_blocks])?;
        for piece in pieces {
            // A piece would start at a row that is not 16-byte aligned.
            let mut own = Loaded::blank(device, 0, Layout::Dense, [piece.len(), self.max_blocks])?;
            let args = ScoresArgs {
                q: q.view(piece)?,
                keys: keys.all()?,
                dead: vector(&dead)?,
                steps: steps.view(piece)?,
                scores: own.all_mut()?,
                reach: self.window.reach,
            };
            scores(Pick::Named(variant), &stream, args)?;
            stream.synchronize()?;
            out.put(piece.start, &own.read_any()?)?;
        }
        out.read_any()
    }
}

impl Case for Scores {
    fn names(&self) -> [&'static str; 2] {
        [QSA_SCORES.op, QSA_SCORES.base().name]
    }

    fn variants(&self, context: &Context<'_>) -> Vec<Promised> {
        let sizes = ScoresSizes::on(context.device().caps(), self.window.tokens, self.max_blocks);
        variants(context, &QSA_SCORES, &sizes)
    }

    fn tokens(&self) -> usize {
        self.window.tokens
    }

    fn run(
        &self,
        device: &Device,
        variant: &str,
        pieces: &[Range<usize>],
    ) -> Result<Vec<(&'static str, Values)>, Flaw> {
        let [complete, tails] = self.parted(&self.scores(device, variant, pieces)?, f32::NAN);
        Ok(vec![("scores", Values::F32(complete)), ("tails", Values::F32(tails))])
    }

    fn expected(&self) -> Vec<Expected> {
        let all: Vec<_> = (0..self.window.tokens * self.max_blocks)
            .map(|i| self.score(i / self.max_blocks, i % self.max_blocks))
            .collect();
        self.parted(&all, UNWRITTEN).map(Expected::Near).into()
    }

    fn most(&self, variant: &str) -> f64 {
        if variant == "tf32x3" { PRODUCT_STEPS / SCORE_STEPS } else { 1.0 }
    }
}

const USUAL: Window = Window { tokens: 4, first: 100, spare: 1, law: &LAWS[0], reach: 0 };

/// Positions 100 to 103 have every length of a tail, and a block that is complete for the last row only; 2,047 to 2,059
/// lie around the budget.
fn windows(scale: Scale) -> Vec<Window> {
    // With room for a multiple of four blocks, which some variants need.
    let whole = |window: Window| Window { spare: (3 - window.last() % 4) % 4, ..window };
    let mut all: Vec<Window> = (1..=8).map(|tokens| whole(Window { tokens, ..USUAL })).collect();
    all.extend([1, 4, 6].map(|tokens| whole(Window { tokens, first: 0, ..USUAL })));
    all.extend([(1, 2047), (3, 2049), (7, 2053)].map(|(tokens, first)| whole(Window { tokens, first, ..USUAL })));
    all.push(Window { spare: 63, ..Window { tokens: 2, first: 4095, ..USUAL } });
    all.extend([0, 2, 61].map(|spare| Window { spare, ..USUAL }));
    for (tokens, first) in [(33, 121), (20, 301)] {
        let window = whole(Window { tokens, first, ..USUAL });
        let all_of_them = Window { reach: window.last() + 1, ..window };
        all.extend([window, all_of_them, Window { spare: window.spare + 5, ..all_of_them }]);
    }
    all.extend([1, 4, 6].map(|tokens| whole(Window { tokens, reach: 22, ..USUAL })));
    all.extend(LAWS[1..].iter().map(|law| whole(Window { tokens: 6, law, ..USUAL })));
    if !scale.is_small() {
        let ends = [131_072, 262_141];
        all.extend(
            ends.iter()
                .flat_map(|end| (1..=4).map(move |n| (n, end - n)))
                .map(|(tokens, first)| whole(Window { tokens, first, ..USUAL })),
        );
        all.push(whole(Window { tokens: 260, first: 32_700, ..USUAL }));
        all.push(Window { tokens: 8, first: 65_536, spare: 301, ..USUAL });
    }
    all
}

/// `qsa.scores`.
pub const SCORES: Operation = Operation {
    op: QSA_SCORES.op,
    variants: || QSA_SCORES.listed().1,
    works: |scale| {
        let work =
            |window: Window| Work::new(window.name(), move |context, name| prove(context, name, &Scores::new(window)));
        let judged = windows(scale).into_iter().map(work).chain(selection::works(scale));
        judged.chain(replay::works(scale, Varied::Scores)).collect()
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::EmulatorConfig;

    /// Share of the complete blocks' scores, in `0 .. 1`, that another reading moves by more than a hundredth of the largest.
    fn moved(case: &Scores, got: &[f32], other: impl Fn(usize, usize) -> f64) -> f64 {
        let blocks = |token: usize| (0..case.window.record(token).n_bid as usize).map(move |block| (token, block));
        let score = |(token, block)| (f64::from(got[token * case.max_blocks + block]), other(token, block));
        let pairs: Vec<_> = (0..case.window.tokens).flat_map(blocks).map(score).collect();
        let largest = pairs.iter().map(|pair| pair.0).fold(0.0, f64::max);
        let far = pairs.iter().filter(|(got, other)| (got - other).abs() > largest / 100.0);
        far.count() as f64 / pairs.len() as f64
    }

    fn base(case: &Scores) -> Vec<f32> {
        let device = Device::emulator(EmulatorConfig::default());
        let whole = 0..case.window.tokens;
        case.scores(&device, QSA_SCORES.base().name, &[whole]).unwrap_or_else(|flaw| panic!("{flaw}"))
    }

    fn dots(q: &[f32], key: &[f32]) -> Vec<f64> {
        let dot = |head: &[f32]| head.iter().zip(key).map(|(&q, &k)| f64::from(q) * f64::from(k)).sum();
        q.chunks(INDEX_DIM).map(dot).collect()
    }

    #[test]
    fn clamping_the_sum_of_the_heads_would_be_something_else() {
        let case = Scores::new(USUAL);
        let got = base(&case);
        assert_eq!(moved(&case, &got, |token, block| case.score(token, block).value), 0.0, "our own reading");
        let other = |token, block| dots(case.q.row(token), case.keys.row(block)).iter().sum::<f64>().max(0.0);
        assert!(moved(&case, &got, other) > 0.5);
    }

    #[test]
    fn a_tail_without_its_bonus_or_by_the_key_of_a_later_row_would_be_something_else() {
        // Row 0 has a whole tail block to come, which row 3 completes.
        let case = Scores::new(USUAL);
        let (got, record) = (base(&case), case.window.record(0));
        let (tail, own) = (record.n_bid as usize, case.score(0, record.n_bid as usize).value);
        assert!(record.tail() > 0 && case.window.record(3).n_bid as usize > tail);
        assert!((f64::from(got[tail]) - own).abs() <= 64.0, "{} for {own}", got[tail]);
        assert!(got[..tail].iter().all(|&score| score < TAIL / 1e6), "any other block would lose against the tail");
        // Where the row has no tail, the slot has the dead key's own score; the pooled row there is not the dead key.
        let (last, slot) = (3 * case.max_blocks, case.window.record(3).n_bid as usize);
        let dead = dots(case.q.row(3), case.dead.row(0)).iter().map(|d| d.max(0.0)).sum::<f64>();
        assert!((f64::from(got[last + slot]) - dead).abs() < 1e-4 * dead.max(1.0));
        assert!(case.keys.row(slot)[0].is_nan());
        let mut later = Scores::new(USUAL);
        later.dead.values.copy_from_slice(case.keys.row(tail));
        let other = base(&later);
        let difference = f64::from(other[last + slot]) - f64::from(got[last + slot]);
        assert!(difference.abs() > 0.1, "the completed block's key in the dead one's place: {difference}");
    }
}
