//! Step records of QSA on the host: made from positions here, read by every kernel from device memory.

use varve_gpu::qsa::{StepRecord, WidthRule};

use super::checks::aligned;
use super::dispatch::OpError;
use crate::backend::View;

/// Words of a record.
pub const WORDS: usize = size_of::<StepRecord>() / size_of::<u32>();

/// The records of `tokens` tokens from position `first` on, as words `[tokens, 4]`, where `budget` cells may be chosen.
#[must_use]
pub fn step_records(first: usize, tokens: usize, budget: usize, rule: WidthRule) -> Vec<u32> {
    (first..first + tokens).flat_map(|at| words(StepRecord::at(at as u32, budget as u32, rule))).collect()
}

/// A record as kernels read it.
#[must_use]
pub const fn words(record: StepRecord) -> [u32; WORDS] {
    let StepRecord { pos, n_kv, n_bid, width } = record;
    [pos, n_kv, n_bid, width]
}

/// Checks the records of `tokens` rows, u32 `[tokens, 4]`, dense.
pub(super) fn steps_in(
    op: &'static str,
    steps: &View<'_, u32, 2>,
    tokens: usize,
) -> Result<*const StepRecord, OpError> {
    steps.expect(op, "steps", [tokens, WORDS])?;
    steps.expect_dense(op, "steps")?;
    aligned(op, "steps", steps.is_aligned(16))?;
    Ok(steps.ptr().cast())
}
