//! Attention over the cells that an indexer chooses (QSA).
//!
//! ```text
//! index:    iq = rope(norm(x W_iq)), raw keys = x W_ik;  block key = rope(norm(mean of its raw keys))
//!           score(block) = sum over index heads of max(0, iq . block key); the best blocks and the tail are attended
//! y         = softmax(q k^T / sqrt(dim)) v * sigmoid(gate) over the chosen cells, read in place
//! ```
//!
//! Kernels learn positions from the pass's step records in device memory, and grids come from the context's capacity.

use varve_gpu::qsa::{INDEX_DIM, INDEX_HEADS, RATIO, WidthRule, most_cells};

use super::project;
use crate::backend::{BackendError, Buffer, Device, View, ViewMut};
use crate::model::cells::Cells;
use crate::model::config::{AttentionSizes, QsaSizes};
use crate::model::made_up::Numbers;
use crate::model::rows::Rows;
use crate::model::run::{Probe, Run};
use crate::model::weights::{Matrix, Scope};
use crate::model::{ModelError, OpenError};
use crate::ops::attn_norm_rope::{Heads, norm_rope};
use crate::ops::qsa_append::{AppendArgs, append};
use crate::ops::qsa_attend::{AttendArgs, Chosen, attend};
use crate::ops::qsa_cells::CellKind;
use crate::ops::qsa_scores::{ScoresArgs, scores};
use crate::ops::qsa_steps::{WORDS, step_records};
use crate::ops::qsa_store::{StoreArgs, store};
use crate::ops::qsa_topk::{TopkArgs, topk};

/// Bytes of scores at once; a long prompt's queries take turns.
const SCORE_BYTES: usize = 64 << 20;

/// Weights of the block selection.
pub struct Indexer {
    sizes: QsaSizes,
    /// `[(heads + 1) * dim, hidden]`: query heads, then the key.
    project: Matrix,
    q_gain: Buffer<f32>,
    k_gain: Buffer<f32>,
}

/// What a sequence keeps for a layer.
pub struct QsaState {
    cells: Cells,
    /// f32 `[max_blocks of the context, dim]`: keys of complete blocks.
    pooled: Rows<f32>,
    /// f32 `[3, dim]`: raw keys of the newest cells by position modulo 4.
    tail: Rows<f32>,
    /// f32 `[1, dim]`: the dead key.
    dead: Rows<f32>,
    /// Raw keys are rounded to f16, as keys and values are.
    round_to_f16: bool,
}

/// Rows of block keys and scores for a context: its blocks, the one of a tail, and rows of scores that are 16-byte aligned.
fn max_blocks(context: usize) -> usize {
    (context / RATIO + 1).next_multiple_of(4)
}

impl QsaState {
    /// Room for `context` tokens.
    pub fn new(device: &Device, sizes: &AttentionSizes, kind: CellKind, context: usize) -> Result<Self, BackendError> {
        Ok(Self {
            cells: Cells::new(device, kind, context, sizes.kv_heads)?,
            pooled: Rows::new(device, max_blocks(context), INDEX_DIM)?,
            tail: Rows::zeroed(device, RATIO - 1, INDEX_DIM)?,
            dead: Rows::zeroed(device, 1, INDEX_DIM)?,
            round_to_f16: kind != CellKind::F32,
        })
    }

    /// Random numbers everywhere.
    pub fn make_up(&mut self, numbers: &mut Numbers) -> Result<(), BackendError> {
        let rows = [&mut self.pooled, &mut self.tail, &mut self.dead];
        rows.into_iter().try_for_each(|rows| numbers.fill_rows(rows))?;
        self.cells.k.make_up(numbers)?;
        self.cells.v.make_up(numbers)
    }
}

/// Memory of a pass, shared by all layers.
pub struct QsaScratch {
    /// Step records of the pass.
    steps: Rows<u32>,
    budget: usize,
    qk: Rows<f32>,
    q: Rows<f32>,
    /// f32 `[queries at once, max_blocks]`.
    scores: Rows<f32>,
    ids: Rows<u32>,
    k: Rows<f32>,
    v: Rows<f32>,
}

impl QsaScratch {
    /// For passes of up to `tokens` tokens in sequences of up to `context`; `width` values in all key heads.
    pub fn new(
        device: &Device,
        sizes: &QsaSizes,
        width: usize,
        tokens: usize,
        context: usize,
    ) -> Result<Self, BackendError> {
        let blocks = max_blocks(context);
        let at_once = (SCORE_BYTES / (blocks * size_of::<f32>())).clamp(1, tokens.max(1));
        Ok(Self {
            steps: Rows::new(device, tokens, WORDS)?,
            budget: sizes.budget,
            qk: Rows::new(device, tokens, (INDEX_HEADS + 1) * INDEX_DIM)?,
            q: Rows::new(device, tokens, INDEX_HEADS * INDEX_DIM)?,
            scores: Rows::new(device, at_once, blocks)?,
            ids: Rows::new(device, tokens, most_cells(sizes.budget))?,
            k: Rows::new(device, tokens, width)?,
            v: Rows::new(device, tokens, width)?,
        })
    }

    /// Tells the layers of a pass which tokens it has: `tokens` from position `first` on.
    pub fn begin(&mut self, first: usize, tokens: usize) -> Result<(), BackendError> {
        self.steps.write(&step_records(first, tokens, self.budget, WidthRule::default()))
    }

    /// Where the pass's values go before they are stored.
    pub fn v_mut(&mut self, tokens: usize) -> Result<ViewMut<'_, f32, 2>, BackendError> {
        Ok(self.v.first_mut(tokens)?)
    }

    /// Where the pass's keys go once they are normed and rotated.
    pub fn k_mut(&mut self, tokens: usize) -> Result<ViewMut<'_, f32, 2>, BackendError> {
        Ok(self.k.first_mut(tokens)?)
    }
}

/// Queries of a pass and where the output goes.
pub struct Queries<'a> {
    /// f32 `[tokens, heads * 256]`, normed and rotated.
    pub q: View<'a, f32, 2>,
    /// The output gate before its sigmoid, head h at `h * gate_head_stride`.
    pub gate: View<'a, f32, 2>,
    /// Elements from a head's gate to the next.
    pub gate_head_stride: usize,
    /// f32 `[tokens, heads * 256]`.
    pub y: ViewMut<'a, f32, 2>,
}

impl Indexer {
    /// Reads the weights of a layer.
    pub fn load(scope: &Scope<'_>, sizes: &QsaSizes, hidden: usize) -> Result<Self, OpenError> {
        let (queries, dim) = (sizes.heads * sizes.dim, sizes.dim);
        let reader = scope.reader();
        let project = if reader.is_gguf() {
            let q = scope.part(("", "indexer.q_proj.weight"), &[queries, hidden]);
            let k = scope.part(("", "indexer.k_proj.weight"), &[dim, hidden]);
            reader.matrix(&[q, k])?
        } else {
            scope.matrix(("self_attn.indexer.index_qk_proj.weight", ""), [queries + dim, hidden])?
        };
        Ok(Self {
            project,
            q_gain: scope.gain(("self_attn.indexer.q_layernorm.weight", "indexer.q_norm.weight"), dim)?,
            k_gain: scope.gain(("self_attn.indexer.k_layernorm.weight", "indexer.k_norm.weight"), dim)?,
            sizes: sizes.clone(),
        })
    }

    /// Stores the pass's keys and values, chooses cells where a token sees more than the budget, and attends.
    pub fn attend(
        &self,
        run: &Run<'_>,
        x: &Rows<f32>,
        state: &mut QsaState,
        s: &mut QsaScratch,
        queries: Queries<'_>,
        (layer, probe): (usize, &mut Probe),
    ) -> Result<(), ModelError> {
        let (n, pick, stream) = (run.tokens, run.pick(), run.stream);
        let cells = &mut state.cells;
        let stored = StoreArgs {
            k: s.k.first(n)?,
            v: s.v.first(n)?,
            steps: s.steps.first(n)?,
            k_cells: cells.k.rows_mut()?,
            v_cells: cells.v.rows_mut()?,
            table: cells.table.line(cells.table.rows())?,
        };
        store(pick, stream, stored)?;
        let all = run.rope.first + n;
        self.append(run, x, state, s)?;
        let chosen = if all <= self.sizes.budget {
            Chosen::Seen(all)
        } else {
            self.choose(run, state, s)?;
            probe.note_ids(layer, "qsa.cells", &s.ids, n)?;
            Chosen::Ids(s.ids.first(n)?)
        };
        let Queries { q, gate, gate_head_stride, y } = queries;
        let cells = &state.cells;
        let args = AttendArgs {
            q,
            gate,
            gate_head_stride,
            k_cells: cells.k.rows()?,
            v_cells: cells.v.rows()?,
            table: cells.table.line(cells.table.rows())?,
            chosen,
            steps: s.steps.first(n)?,
            y,
        };
        attend(pick, stream, args)?;
        Ok(())
    }

    /// Projects the pass's tokens, and writes the keys of the blocks that they complete.
    fn append(&self, run: &Run<'_>, x: &Rows<f32>, state: &mut QsaState, s: &mut QsaScratch) -> Result<(), ModelError> {
        let (n, queries) = (run.tokens, INDEX_HEADS * INDEX_DIM);
        project(run, &self.project, &x.first(n)?, s.qk.first_mut(n)?)?;
        let args = AppendArgs {
            raw: s.qk.columns(n, queries..queries + INDEX_DIM)?,
            steps: s.steps.first(n)?,
            gain: self.k_gain.view([INDEX_DIM])?,
            tail: state.tail.all_mut()?,
            pooled: state.pooled.all_mut()?,
            dead: state.dead.line_mut(INDEX_DIM)?,
            rope: run.rope,
            round_to_f16: state.round_to_f16,
            eps: run.eps,
        };
        append(run.pick(), run.stream, args)?;
        Ok(())
    }

    /// Scores all blocks for the pass's tokens and lists the cells that each attends to.
    fn choose(&self, run: &Run<'_>, state: &QsaState, s: &mut QsaScratch) -> Result<(), ModelError> {
        let (n, pick, stream) = (run.tokens, run.pick(), run.stream);
        let heads = Heads { count: INDEX_HEADS, dim: INDEX_DIM, stride: INDEX_DIM };
        let (index_q, gain) = (s.qk.columns(n, 0..INDEX_HEADS * INDEX_DIM)?, self.q_gain.view([INDEX_DIM])?);
        norm_rope(pick, stream, &index_q, heads, (&gain, run.eps), &run.rope, &mut s.q.first_mut(n)?)?;
        let at_once = s.scores.rows();
        for first in (0..n).step_by(at_once) {
            let part = first..n.min(first + at_once);
            let args = ScoresArgs {
                q: s.q.range(part.clone())?,
                keys: state.pooled.all()?,
                dead: state.dead.line(INDEX_DIM)?,
                steps: s.steps.range(part.clone())?,
                scores: s.scores.first_mut(part.len())?,
                reach: (run.rope.first + part.end) / RATIO + 1,
            };
            scores(pick, stream, args)?;
            let (scores, steps) = (s.scores.first(part.len())?, s.steps.range(part.clone())?);
            topk(pick, stream, TopkArgs { scores, steps, ids: s.ids.range_mut(part)? })?;
        }
        Ok(())
    }
}
