//! `qsa.append`: pooled keys of completed blocks, the raw tail, the dead key.

use std::fmt;
use std::ops::Range;

use cuda_std::float::{f16_to_f32, f32_to_f16};
use varve_gpu::qsa::{INDEX_DIM, RATIO, WidthRule};

use super::norm::ANGLES;
use super::operand::{LAWS, Layout, Loaded, Matrix, rows, vector};
use super::{Call, Case, Expected, Promised, Values, aligned_works, cuts, prove, variants};
use crate::backend::Device;
use crate::ops::attn_norm_rope::RopeTables;
use crate::ops::dispatch::Pick;
use crate::ops::qsa_append::{AppendArgs, AppendSizes, QSA_APPEND, append};
use crate::ops::qsa_steps::{WORDS, step_records};
use crate::proof::reference::near::Near;
use crate::proof::reference::norm::{Divisor, norm, rope};
use crate::proof::run::loaded::Flaw;
use crate::proof::run::{Context, Operation, Scale, Work};

const EPS: f32 = 1e-6;
/// What an output holds that nobody has written.
const UNWRITTEN: Near = Near { value: f64::NAN, slack: 0.0 };

/// Where a call starts, pairs that rotate, whether raw keys are rounded to f16, rows that the pooled keys lack.
#[derive(Clone, Copy)]
struct Place {
    first: usize,
    half: usize,
    round_to_f16: bool,
    lacking: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, half, round_to_f16, lacking } = self;
        write!(f, "first={first}/half={half}/f16={round_to_f16}")?;
        if *lacking > 0 { write!(f, "/lacking={lacking}") } else { Ok(()) }
    }
}

const fn place(first: usize, half: usize, round_to_f16: bool, lacking: usize) -> Place {
    Place { first, half, round_to_f16, lacking }
}

const PLACES: &[Place] = &[
    place(6, 32, false, 0),
    place(0, 32, true, 0),
    place(0, 64, false, 1),
    place(1, 32, false, 0),
    place(7, 4, true, 0),
    place(1000, 32, true, 0),
    place(0, 32, false, 0),
];

/// Tokens of a long call: a thousand blocks, of which the call before has begun the first and the next one ends the last.
const LONG: usize = 4099;

struct Append {
    place: Place,
    raw: Matrix<f32>,
    tail: Matrix<f32>,
    gain: Matrix<f32>,
    cos: Matrix<f32>,
    sin: Matrix<f32>,
}

impl Append {
    fn new(call: Call, place: Place) -> Self {
        let table = |operand| Matrix::random(operand, Layout::Dense, [place.first + call.tokens, place.half], &ANGLES);
        Self {
            place,
            raw: Matrix::random(0, call.layout, [call.tokens, INDEX_DIM], call.law),
            tail: Matrix::random(1, Layout::Dense, [RATIO - 1, INDEX_DIM], call.law),
            gain: Matrix::random(9, Layout::Dense, [1, INDEX_DIM], &LAWS[0]),
            cos: table(7),
            sin: table(8),
        }
    }

    fn end(&self) -> usize {
        self.place.first + self.raw.rows
    }

    /// Rows of the pooled keys: one that no block of the call reaches, or fewer than there are blocks.
    fn rows(&self) -> usize {
        (self.end() / RATIO + 1).saturating_sub(2 * self.place.lacking).max(1)
    }

    /// A cell's raw key as the cache holds it.
    fn cell(&self, position: usize) -> Vec<f32> {
        let round = |&x: &f32| if self.place.round_to_f16 { f16_to_f32(f32_to_f16(x)) } else { x };
        match position.checked_sub(self.place.first) {
            Some(row) => self.raw.row(row).iter().map(round).collect(),
            None => self.tail.row(position % RATIO).to_vec(),
        }
    }

    /// The mean of four cells.
    fn mean(&self, cells: [usize; RATIO]) -> Vec<Near> {
        let cells = cells.map(|position| self.cell(position));
        let mean = |c: usize| {
            let values = cells.iter().map(|cell| f64::from(cell[c]));
            let (sum, size) = values.fold((0.0, 0.0), |(sum, size), x: f64| (sum + x, size + x.abs()));
            Near::rounded(sum / RATIO as f64, size / RATIO as f64, RATIO as f64 + 1.0)
        };
        (0..INDEX_DIM).map(mean).collect()
    }

    fn normed(&self, mean: &[Near]) -> Vec<Near> {
        norm(mean, |c| f64::from(self.gain.values[c]), Divisor::MeanSquare, EPS)
    }

    fn turned(&self, normed: &[Near], position: usize) -> Vec<Near> {
        rope(normed, self.cos.row(position), self.sin.row(position))
    }

    /// Positions of a block's cells.
    fn cells(block: usize) -> [usize; RATIO] {
        [0, 1, 2, 3].map(|j| block * RATIO + j)
    }

    fn key(&self, block: usize) -> Vec<Near> {
        self.turned(&self.normed(&self.mean(Self::cells(block))), block * RATIO)
    }

    fn dead(&self) -> Vec<Near> {
        self.turned(&self.normed(&self.mean([0; RATIO])), 0)
    }
}

impl Case for Append {
    fn names(&self) -> [&'static str; 2] {
        [QSA_APPEND.op, QSA_APPEND.base().name]
    }

    fn variants(&self, context: &Context<'_>) -> Vec<Promised> {
        variants(context, &QSA_APPEND, &AppendSizes { tokens: self.raw.rows })
    }

    fn tokens(&self) -> usize {
        self.raw.rows
    }

    /// A long call token by token, too.
    fn cuts(&self) -> Vec<Vec<Range<usize>>> {
        let mut all = cuts(self.raw.rows);
        if self.raw.rows == LONG {
            all.push((0..LONG).map(|t| t..t + 1).collect());
        }
        all
    }

    fn run(
        &self,
        device: &Device,
        variant: &str,
        pieces: &[Range<usize>],
    ) -> Result<Vec<(&'static str, Values)>, Flaw> {
        let stream = device.stream()?;
        let (raw, gain) = (Loaded::of(device, &self.raw)?, device.upload(&self.gain.values)?);
        let (cos, sin, mut tail) =
            (Loaded::of(device, &self.cos)?, Loaded::of(device, &self.sin)?, Loaded::of(device, &self.tail)?);
        let mut pooled = Loaded::blank(device, 0, Layout::Dense, [self.rows(), INDEX_DIM])?;
        let mut dead = Loaded::blank(device, 0, Layout::Dense, [1, INDEX_DIM])?;
        let steps = device.upload(&step_records(self.place.first, self.raw.rows, 8, WidthRule::default()))?;
        for piece in pieces {
            let args = AppendArgs {
                raw: raw.view(piece)?,
                steps: rows(&steps, piece, WORDS)?,
                gain: vector(&gain)?,
                tail: tail.all_mut()?,
                pooled: pooled.all_mut()?,
                dead: dead.first_mut()?,
                rope: RopeTables { cos: cos.all()?, sin: sin.all()?, first: 0 },
                round_to_f16: self.place.round_to_f16,
                eps: EPS,
            };
            append(Pick::Named(variant), &stream, args)?;
        }
        Ok(vec![
            ("pooled", Values::F32(pooled.read_any()?)),
            ("tail", Values::F32(tail.read()?)),
            ("dead", Values::F32(dead.read_any()?)),
        ])
    }

    fn expected(&self) -> Vec<Expected> {
        let made = self.place.first / RATIO..self.end() / RATIO;
        let key = |block| if made.contains(&block) { self.key(block) } else { vec![UNWRITTEN; INDEX_DIM] };
        let newest = |slot: usize| {
            let ends = (0..self.end()).rev().find(|position| position % RATIO == slot);
            self.cell(ends.unwrap_or(slot)).iter().map(|&x| Near::exact(x)).collect::<Vec<_>>()
        };
        vec![
            Expected::Near((0..self.rows()).flat_map(key).collect()),
            Expected::Near((0..RATIO - 1).flat_map(newest).collect()),
            Expected::Near(if self.place.first == 0 { self.dead() } else { vec![UNWRITTEN; INDEX_DIM] }),
        ]
    }
}

fn cases(scale: Scale) -> Vec<Work> {
    let mut works = aligned_works(scale, PLACES, Append::new);
    let (call, place) = (Call { tokens: LONG, width: 0, layout: Layout::Dense, law: &LAWS[0] }, PLACES[0]);
    let name = format!("{}/T={LONG}/{place}", call.law.name);
    works.push(Work::new(name, move |context, name| prove(context, name, &Append::new(call, place))));
    works
}

/// `qsa.append`.
pub const APPEND: Operation = Operation { op: QSA_APPEND.op, variants: || QSA_APPEND.listed().1, works: cases };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proof::compare;

    /// Other ways to read the definition give other keys, and the parity rows would show each.
    #[test]
    fn rival_readings_of_a_key_differ() {
        let call = Call { tokens: 8, width: 0, layout: Layout::Dense, law: &LAWS[0] };
        let case = Append::new(call, place(0, 32, false, 0));
        let cells = Append::cells(1);
        let normed_first = cells.map(|p| case.normed(&case.mean([p; RATIO])));
        let pooled_last: Vec<Near> = (0..INDEX_DIM)
            .map(|c| Near::exact(normed_first.iter().map(|n| n[c].value).sum::<f64>() as f32 / 4.0))
            .collect();
        let rivals = [
            ("rotated at the block's last cell", case.key(1), case.turned(&case.normed(&case.mean(cells)), 7)),
            ("normed before the mean", case.key(1), case.turned(&pooled_last, 4)),
            ("dead key of the newest cell", case.dead(), case.turned(&case.normed(&case.mean([7; RATIO])), 0)),
        ];
        for (what, right, wrong) in rivals {
            let wrong: Vec<f32> = wrong.iter().map(|x| x.value as f32).collect();
            let own: Vec<f32> = right.iter().map(|x| x.value as f32).collect();
            assert!(compare::share(&right, &own).is_ok_and(|worst| worst.error <= 1.0), "{what}: the right one passes");
            let apart = own.iter().zip(&wrong).fold(0.0f32, |a, (x, y)| a.max((x - y).abs()));
            assert!(apart > 0.1, "{what}: {apart} apart");
            assert!(compare::share(&right, &wrong).map_or(true, |worst| worst.error > 1.0), "{what}: noticed");
        }
    }
}
