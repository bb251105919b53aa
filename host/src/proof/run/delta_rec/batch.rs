//! Several sequences in one call: each gets the bits of a call of its own by the same variant.

use std::ops::Range;

use super::super::Context;
use super::super::loaded::{Flaw, Loaded, Outcome, rows};
use super::super::row::Row;
use super::{DATA, Group, RecVariant, all_fail, new_row, same_bits};
use crate::backend::{BackendError, Buffer, Device, View};
use crate::ops::delta_rec::{RecArgs, StateAfter, recurrence_by};
use crate::ops::{Batch, DeltaSizes, LogGate};
use crate::proof::case::{RecCase, RecShape};
use crate::proof::inputs::BASE;
use crate::proof::random::{Array, Random};
use varve_gpu::geometry::HEAD_DIM;

/// A case whose tokens belong to several sequences, with a state each.
struct Sequences<'a> {
    loaded: Loaded<'a>,
    lengths: &'a [usize],
    /// `[sequences][128][value_heads][128]`, before the call.
    before: Vec<f32>,
    states: Buffer<f32>,
}

impl<'a> Sequences<'a> {
    fn new(device: &Device, case: &'a RecCase, lengths: &'a [usize]) -> Result<Self, BackendError> {
        let random = Random::new(DATA, Array::State);
        let len = lengths.len() * case.shape.state_len();
        let before: Vec<f32> = (0..len).map(|i| (BASE.state * random.normal(i as u64)) as f32).collect();
        Ok(Self { loaded: Loaded::new(device, case)?, lengths, states: device.upload(&before)?, before })
    }

    /// Tokens of each sequence.
    fn ranges(&self) -> Vec<Range<usize>> {
        let mut end = 0;
        let mut next = |&n: &usize| {
            end += n;
            end - n..end
        };
        self.lengths.iter().map(&mut next).collect()
    }

    fn reset(&mut self) -> Result<(), BackendError> {
        self.loaded.reset()?;
        self.states.write(&self.before)
    }

    /// Tokens `tokens` on the states of sequences `sequences`.
    fn call(
        &mut self,
        variant: &str,
        tokens: &Range<usize>,
        sequences: &Range<usize>,
        batch: Option<Batch<'_>>,
    ) -> Result<(), Flaw> {
        let shape = self.loaded.shape();
        let (heads, width) = (shape.value_heads, shape.y_width());
        let dims = [sequences.len() * HEAD_DIM, heads, HEAD_DIM];
        let Loaded { stream, qkv, gate, beta, y, .. } = &mut self.loaded;
        let args = RecArgs {
            qkv: rows(qkv, tokens, shape.qkv_width(), shape.qkv_stride)?,
            gate: LogGate(rows(gate, tokens, heads, shape.gate_stride)?),
            beta: rows(beta, tokens, heads, shape.beta_stride)?,
            state: self
                .states
                .view_strided_mut(sequences.start * shape.state_len(), dims, [width, HEAD_DIM, 1])
                .map_err(BackendError::from)?,
            y: y.view_strided_mut(tokens.start * shape.y_stride, [tokens.len(), width], [shape.y_stride, 1])
                .map_err(BackendError::from)?,
            key_heads: shape.key_heads,
            state_after: StateAfter::Updated,
            batch,
        };
        recurrence_by(variant, stream, args)?;
        Ok(())
    }

    /// A call for each sequence.
    fn one_by_one(&mut self, variant: &str) -> Result<Outcome, Flaw> {
        self.reset()?;
        for (i, tokens) in self.ranges().iter().enumerate() {
            self.call(variant, tokens, &(i..i + 1), None)?;
        }
        self.outcome()
    }

    /// One call for all, with these starts in device memory.
    fn at_once(&mut self, variant: &str, starts: &View<'_, u32, 1>) -> Result<(), Flaw> {
        self.reset()?;
        self.loaded.stream.poison_scratch()?;
        let batch = Batch { starts: *starts, longest: self.lengths.iter().copied().max().unwrap_or(0) };
        self.call(variant, &(0..self.loaded.shape().tokens), &(0..self.lengths.len()), Some(batch))
    }

    fn outcome(&self) -> Result<Outcome, Flaw> {
        let y = self.loaded.outcome(self.loaded.shape().tokens)?.y;
        Ok(Outcome { y, state: self.states.read()? })
    }
}

fn shape_of(heads: (usize, usize), lengths: &[usize]) -> (RecShape, DeltaSizes) {
    let tokens = lengths.iter().sum();
    let longest = lengths.iter().copied().max().unwrap_or(0);
    let single = DeltaSizes::single(heads.0, heads.1, tokens);
    (RecShape::gapped(heads.0, heads.1, tokens), DeltaSizes { sequences: lengths.len(), longest, ..single })
}

/// Rows of the group's variants: `hold` runs one on a device and notes what is wrong.
fn each(
    context: &Context<'_>,
    name: &str,
    (group, heads, lengths): (Group, (usize, usize), &[usize]),
    hold: impl Fn(&mut Sequences<'_>, &RecVariant, &mut Row) -> Result<(), Flaw>,
) -> Vec<Row> {
    let (shape, sizes) = shape_of(heads, lengths);
    let variants = group.variants(context, &sizes);
    let case = RecCase::new(shape, &BASE, DATA);
    let run = || -> Result<Vec<Row>, Flaw> {
        let mut places = context.devices.each(|device| Sequences::new(device, &case, lengths))?;
        let mut rows = Vec::new();
        for variant in &variants {
            let mut row = new_row(context, name, variant, context.devices.seeds());
            for seed in 0..context.devices.seeds() {
                let place = seed % places.len();
                if let Err(flaw) = hold(&mut places[place], variant, &mut row) {
                    row.bit_equal = false;
                    row.fail(&format!("run {seed}"), flaw);
                }
            }
            rows.push(row);
        }
        Ok(rows)
    };
    run().unwrap_or_else(|flaw| all_fail(context, name, &variants, &flaw))
}

fn upload_starts(sequences: &Sequences<'_>, starts: &[usize]) -> Result<Buffer<u32>, BackendError> {
    let starts: Vec<u32> = starts.iter().map(|&start| u32::try_from(start).unwrap_or(u32::MAX)).collect();
    sequences.loaded.stream.device().upload(&starts)
}

/// One call for all sequences against a call for each.
pub(super) fn equal(context: &Context<'_>, name: &str, of: (Group, (usize, usize), &[usize])) -> Vec<Row> {
    each(context, name, of, |sequences, variant, row| {
        let single = sequences.one_by_one(variant.name)?;
        let mut starts: Vec<_> = sequences.ranges().iter().map(|range| range.start).collect();
        starts.push(sequences.loaded.shape().tokens);
        let starts = upload_starts(sequences, &starts)?;
        sequences.at_once(variant.name, &starts.view([of.2.len() + 1]).map_err(BackendError::from)?)?;
        same_bits(row, "batch", &single, &sequences.outcome()?);
        if row.bit_equal {
            row.base_differs_by(0.0);
        }
        Ok(())
    })
}

/// Starts that are no starts: beyond the tokens, or descending. Nothing outside the operands is touched.
pub(super) fn hostile(context: &Context<'_>, name: &str, of: (Group, (usize, usize), &[usize])) -> Vec<Row> {
    each(context, name, of, |sequences, variant, row| {
        let tokens = sequences.loaded.shape().tokens;
        let n = of.2.len() + 1;
        let cycle = |values: &[usize]| (0..n).map(|i| values[i % values.len()]).collect::<Vec<_>>();
        for starts in
            [cycle(&[usize::MAX]), cycle(&[0, usize::MAX]), cycle(&[tokens, 0]), cycle(&[tokens - 1, tokens + 1])]
        {
            let starts = upload_starts(sequences, &starts)?;
            sequences.at_once(variant.name, &starts.view([n]).map_err(BackendError::from)?)?;
            row.check("outside", sequences.loaded.gaps_untouched()?);
        }
        Ok(())
    })
}
