//! `delta.commit`: after `n` of a window's tokens are accepted, the state is that of `n` steps of `delta.rec`.

use super::delta_rec::DATA;
use super::loaded::{By, Flaw, Loaded, rows};
use super::row::Row;
use super::{Context, Scale, Work};
use crate::backend::BackendError;
use crate::ops::delta_commit::{CommitArgs, DELTA_COMMIT, commit};
use crate::ops::delta_rec::{DELTA_REC, StateAfter};
use crate::ops::dispatch::Dispatch;
use crate::ops::exactness::Exactness;
use crate::ops::{DeltaSizes, LogGate};
use crate::proof::case::{RecCase, RecShape};
use crate::proof::inputs::BASE;
use crate::proof::reference::delta as reference;
use crate::proof::{bounds, compare};
use varve_gpu::geometry::{HEAD_DIM, WINDOW_TOKENS};

/// What the state is compared with.
const BASE_NAME: &str = "delta.rec/cols";

impl Loaded<'_> {
    /// Commits the first `accepted` tokens of the case's window; returns the state.
    fn commit(&mut self, dispatch: &Dispatch, accepted: u32) -> Result<Vec<f32>, Flaw> {
        let shape = self.shape();
        let tokens = 0..shape.tokens;
        let accepted = self.stream.device().upload(&[accepted])?;
        let args = CommitArgs {
            qkv: rows(&self.qkv, &tokens, shape.qkv_width(), shape.qkv_stride)?,
            gate: LogGate(rows(&self.gate, &tokens, shape.value_heads, shape.gate_stride)?),
            beta: rows(&self.beta, &tokens, shape.value_heads, shape.beta_stride)?,
            state: self
                .state
                .view_strided_mut(0, [HEAD_DIM, shape.value_heads, HEAD_DIM], [shape.y_width(), HEAD_DIM, 1])
                .map_err(BackendError::from)?,
            accepted: accepted.view([1]).map_err(BackendError::from)?,
            key_heads: shape.key_heads,
        };
        commit(dispatch, &self.stream, args)?;
        Ok(self.state.read()?)
    }

    /// A window of drafts: looked at first, then committed. The outputs of the look are not compared here.
    fn verify_and_commit(&mut self, dispatch: &Dispatch, accepted: u32) -> Result<Vec<f32>, Flaw> {
        self.reset()?;
        self.call(By::Choice(dispatch), 0..self.shape().tokens, StateAfter::Kept)?;
        self.commit(dispatch, accepted)
    }

    /// The state after `tokens` tokens by the base of `delta.rec`.
    fn stepped(&mut self, tokens: usize) -> Result<Vec<f32>, Flaw> {
        self.reset()?;
        if tokens > 0 {
            self.call(By::Variant(DELTA_REC.base().name), 0..tokens, StateAfter::Updated)?;
        }
        Ok(self.state.read()?)
    }
}

fn accept(context: &Context<'_>, name: &str, shape: RecShape, accepted: u32) -> Vec<Row> {
    let sizes = DeltaSizes::single(shape.key_heads, shape.value_heads, shape.tokens);
    let variants = context.variants(&DELTA_COMMIT, &sizes);
    let case = RecCase::new(shape, &BASE, DATA);
    let taken = (accepted as usize).min(shape.tokens);
    let start: Vec<f64> = case.state.iter().map(|&x| f64::from(x)).collect();
    let reference = reference::recurrence_from(&case, &start, 0..taken);
    let prove = |row: &mut Row| -> Result<(), Flaw> {
        let mut loaded = context.devices.each(|device| Loaded::new(device, &case))?;
        let base = loaded[0].stepped(taken)?;
        for seed in 0..context.devices.seeds() {
            let place = seed % loaded.len();
            let state = loaded[place].verify_and_commit(&context.dispatch, accepted)?;
            row.check_bits(&format!("run {seed}, state"), true, compare::bits(&base, &state));
            if seed == 0 {
                let distance = compare::distance(&reference.state, &state, &reference.peak);
                if let Ok(distance) = &distance {
                    row.errors.state = Some(distance.overall.error);
                    row.errors.state_by_head = Some(distance.by_head.error);
                }
                row.check_distance(["state", "state by head"], bounds::SEQUENTIAL_BASE, distance);
            }
        }
        if row.bit_equal {
            row.base_differs_by(0.0);
        }
        Ok(())
    };
    let row_of = |variant: &'static str, exactness: Exactness| {
        context.row((DELTA_COMMIT.op, variant, BASE_NAME), exactness, name, prove)
    };
    variants.into_iter().map(|variant| row_of(variant.name, variant.exactness)).collect()
}

/// The cases of this operation: every count of a full window, a count beyond it, shorter windows, other head counts.
pub(super) fn works(scale: Scale) -> Vec<Work> {
    let (key_heads, value_heads) = if scale.is_small() { (2, 6) } else { (16, 48) };
    let full = RecShape::dense(key_heads, value_heads, WINDOW_TOKENS);
    let shorter = |tokens| RecShape::dense(key_heads, value_heads, tokens);
    let mut cases: Vec<(RecShape, u32)> = (0..=WINDOW_TOKENS as u32 + 1).map(|accepted| (full, accepted)).collect();
    cases.extend([(shorter(1), 1), (shorter(4), 3)]);
    cases.extend([(RecShape::dense(1, 1, 5), 4), (RecShape::dense(3, 12, 5), 5), (RecShape::gapped(2, 4, 7), 6)]);
    let work = |(shape, accepted): (RecShape, u32)| {
        let gaps = if shape.is_dense() { "" } else { "/gaps" };
        let RecShape { key_heads, value_heads, tokens, .. } = shape;
        let name = format!("accept={accepted}/window={tokens}/heads={key_heads}x{value_heads}{gaps}");
        Work::new(name, move |context, name| accept(context, name, shape, accepted))
    };
    cases.into_iter().map(work).collect()
}
