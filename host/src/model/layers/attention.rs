//! A gated attention layer, over all tokens or, with QSA, over the blocks that its indexer chooses.
//!
//! ```text
//! q, gate = x W_q, by head;  k = x W_k;  v = x W_v;  q = rope(norm(q)), k = rope(norm(k))
//! index:    iq = rope(norm(x W_iq)), raw keys = x W_ik;  block key = rope(norm(mean of its raw keys))
//!           score(block) = sum over index heads of max(0, iq . block key); the best are attended
//! y       = (softmax(q k^T / sqrt(dim)) v * sigmoid(gate)) W_o
//! ```

use super::{Into, project, project_all, project_into};
use crate::backend::{BackendError, Buffer, Device};
use crate::model::config::{AttentionSizes, QsaSizes};
use crate::model::rows::Rows;
use crate::model::run::{Probe, Run};
use crate::model::weights::{Matrix, Scope};
use crate::model::{ModelError, OpenError};
use crate::ops::attn_norm_rope::{Heads, norm_rope};
use crate::ops::attn_softmax::{Attend, SoftmaxArgs, softmax};
use crate::ops::conv_window::{WindowArgs, window};
use crate::ops::qsa_block_keys::{BlockKeysArgs, block_keys};
use crate::ops::qsa_scores::{STEP_WORDS, ScoresArgs, scores};
use crate::ops::qsa_select::{SelectArgs, select};
use varve_gpu::qsa::{StepRecord, WidthRule};

/// Bytes of scores at once; a long prompt's queries take turns.
const SCORE_BYTES: usize = 64 << 20;

/// Weights.
pub struct Attention {
    sizes: AttentionSizes,
    /// `[heads * 2 head_dim, hidden]`: query rows, then gate rows, head by head.
    q: Matrix,
    k: Matrix,
    v: Matrix,
    q_gain: Buffer<f32>,
    k_gain: Buffer<f32>,
    /// `[hidden, heads * head_dim]`.
    out: Matrix,
    indexer: Option<Indexer>,
}

/// Weights of the block selection.
struct Indexer {
    sizes: QsaSizes,
    /// `[(heads + 1) * dim, hidden]`: query heads, then the key.
    project: Matrix,
    q_gain: Buffer<f32>,
    k_gain: Buffer<f32>,
}

/// What a sequence keeps for a layer.
pub struct AttentionState {
    /// f32 `[context, kv heads * head_dim]`.
    pub k: Rows<f32>,
    /// As `k`.
    pub v: Rows<f32>,
    /// Of the block selection.
    pub index: Option<IndexState>,
}

/// What a sequence keeps for the block selection of a layer.
pub struct IndexState {
    /// f32 `[max_blocks of the context, dim]`: keys of complete blocks.
    pub keys: Rows<f32>,
    /// f32 `[1, dim]`: the key that stands for the block of a tail. Its score does not count, so it is zero.
    pub dead: Rows<f32>,
    /// f32 `[ratio - 1, dim]`: raw keys of the last tokens.
    pub window: Rows<f32>,
}

/// Rows of block keys and scores for a context: its blocks, the one of a tail, and rows of scores that are 16-byte aligned.
fn max_blocks(context: usize, ratio: usize) -> usize {
    (context / ratio + 1).next_multiple_of(4)
}

impl AttentionState {
    /// Room for `context` tokens.
    pub fn new(device: &Device, sizes: &AttentionSizes, context: usize) -> Result<Self, BackendError> {
        let width = sizes.kv_heads * sizes.head_dim;
        let index = sizes.qsa.as_ref().map(|qsa| -> Result<_, BackendError> {
            let keys = Rows::new(device, max_blocks(context, qsa.ratio), qsa.dim)?;
            let window = Rows::zeroed(device, qsa.ratio - 1, qsa.dim)?;
            Ok(IndexState { keys, dead: Rows::zeroed(device, 1, qsa.dim)?, window })
        });
        Ok(Self {
            k: Rows::new(device, context, width)?,
            v: Rows::new(device, context, width)?,
            index: index.transpose()?,
        })
    }
}

/// Memory of a pass, shared by all layers.
pub struct AttentionScratch {
    qg: Rows<f32>,
    k: Rows<f32>,
    q: Rows<f32>,
    mixed: Rows<f32>,
    index: Option<IndexScratch>,
}

struct IndexScratch {
    qk: Rows<f32>,
    q: Rows<f32>,
    /// Step records of the pass.
    steps: Rows<u32>,
    /// f32 `[queries at once, max_blocks]`.
    scores: Rows<f32>,
    chosen: Rows<u32>,
    budget: usize,
}

impl AttentionScratch {
    /// For passes of up to `tokens` tokens in sequences of up to `context`.
    pub fn new(device: &Device, sizes: &AttentionSizes, tokens: usize, context: usize) -> Result<Self, BackendError> {
        let rows = |width| Rows::new(device, tokens, width);
        let width = sizes.heads * sizes.head_dim;
        let index = sizes.qsa.as_ref().map(|qsa| -> Result<_, BackendError> {
            let blocks = max_blocks(context, qsa.ratio);
            let at_once = (SCORE_BYTES / (blocks * size_of::<f32>())).clamp(1, tokens.max(1));
            Ok(IndexScratch {
                qk: rows((qsa.heads + 1) * qsa.dim)?,
                q: rows(qsa.heads * qsa.dim)?,
                steps: Rows::new(device, tokens, STEP_WORDS)?,
                scores: Rows::new(device, at_once, blocks)?,
                chosen: Rows::new(device, tokens, qsa.blocks())?,
                budget: qsa.budget,
            })
        });
        Ok(Self {
            qg: rows(2 * width)?,
            k: rows(sizes.kv_heads * sizes.head_dim)?,
            q: rows(width)?,
            mixed: rows(width)?,
            index: index.transpose()?,
        })
    }

    /// Tells the layers of a pass which tokens it has: `tokens` from position `first` on.
    pub fn begin(&mut self, first: usize, tokens: usize) -> Result<(), ModelError> {
        if let Some(index) = &mut self.index {
            let record = |at: usize| {
                let StepRecord { pos, n_kv, n_bid, width } =
                    StepRecord::at(at as u32, index.budget as u32, WidthRule::default());
                [pos, n_kv, n_bid, width]
            };
            let words: Vec<u32> = (first..first + tokens).flat_map(record).collect();
            index.steps.write(&words)?;
        }
        Ok(())
    }
}

impl Attention {
    /// Reads the weights of a layer.
    pub fn load(scope: &Scope<'_>, sizes: &AttentionSizes, hidden: usize) -> Result<Self, OpenError> {
        let (width, kv) = (sizes.heads * sizes.head_dim, sizes.kv_heads * sizes.head_dim);
        Ok(Self {
            q: scope.matrix(("self_attn.q_proj.weight", "attn_q.weight"), [2 * width, hidden])?,
            k: scope.matrix(("self_attn.k_proj.weight", "attn_k.weight"), [kv, hidden])?,
            v: scope.matrix(("self_attn.v_proj.weight", "attn_v.weight"), [kv, hidden])?,
            q_gain: scope.gain(("self_attn.q_norm.weight", "attn_q_norm.weight"), sizes.head_dim)?,
            k_gain: scope.gain(("self_attn.k_norm.weight", "attn_k_norm.weight"), sizes.head_dim)?,
            out: scope.matrix(("self_attn.o_proj.weight", "attn_output.weight"), [hidden, width])?,
            indexer: sizes.qsa.as_ref().map(|qsa| Indexer::load(scope, qsa, hidden)).transpose()?,
            sizes: sizes.clone(),
        })
    }

    /// The layer for x `[tokens, hidden]`; appends to the state.
    pub fn forward(
        &self,
        run: &Run<'_>,
        x: &Rows<f32>,
        state: &mut AttentionState,
        s: &mut AttentionScratch,
        (into, y): (Into, &mut Rows<f32>),
        (layer, probe): (usize, &mut Probe),
    ) -> Result<(), ModelError> {
        let (n, first, pick, stream, eps) = (run.tokens, run.rope.first, run.pick(), run.stream, run.eps);
        let AttentionSizes { heads, kv_heads, head_dim: dim, .. } = self.sizes;
        let here = first..first + n;
        let (q, k, v) = (s.qg.first_mut(n)?, s.k.first_mut(n)?, state.v.range_mut(here.clone())?);
        project_all(run, &x.first(n)?, [(&self.q, q), (&self.k, k), (&self.v, v)])?;
        let q_heads = Heads { count: heads, dim, stride: 2 * dim };
        let (qg, q_gain) = (s.qg.first(n)?, self.q_gain.view([dim])?);
        norm_rope(pick, stream, &qg, q_heads, (&q_gain, eps), &run.rope, &mut s.q.first_mut(n)?)?;
        let k_heads = Heads { count: kv_heads, dim, stride: dim };
        let (k, k_gain) = (s.k.first(n)?, self.k_gain.view([dim])?);
        norm_rope(pick, stream, &k, k_heads, (&k_gain, eps), &run.rope, &mut state.k.range_mut(here)?)?;
        let attend = match (&self.indexer, &mut state.index, &mut s.index) {
            (Some(indexer), Some(state), Some(s)) => indexer.choose(run, x, state, s, (layer, probe))?,
            _ => Attend::All,
        };
        softmax(
            pick,
            stream,
            SoftmaxArgs {
                q: s.q.first(n)?,
                gate: s.qg.columns(n, dim..2 * heads * dim)?,
                gate_head_stride: 2 * dim,
                k: state.k.all()?,
                v: state.v.all()?,
                attend,
                y: s.mixed.first_mut(n)?,
                first,
                dim,
            },
        )?;
        project_into(run, &self.out, &s.mixed.first(n)?, into, y)
    }
}

impl Indexer {
    fn load(scope: &Scope<'_>, sizes: &QsaSizes, hidden: usize) -> Result<Self, OpenError> {
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

    /// Writes the keys of the blocks that the pass completes; where a token sees more blocks than the budget, chooses.
    fn choose<'s>(
        &self,
        run: &Run<'_>,
        x: &Rows<f32>,
        state: &mut IndexState,
        s: &'s mut IndexScratch,
        (layer, probe): (usize, &mut Probe),
    ) -> Result<Attend<'s>, ModelError> {
        let (n, first, pick, stream) = (run.tokens, run.rope.first, run.pick(), run.stream);
        let (dim, ratio) = (self.sizes.dim, self.sizes.ratio);
        let queries = self.sizes.heads * dim;
        project(run, &self.project, &x.first(n)?, s.qk.first_mut(n)?)?;
        let raw = s.qk.columns(n, queries..queries + dim)?;
        block_keys(
            pick,
            stream,
            BlockKeysArgs {
                raw,
                window: state.window.all()?,
                gain: self.k_gain.view([dim])?,
                keys: state.keys.all_mut()?,
                rope: run.rope,
                ratio,
                eps: run.eps,
            },
        )?;
        window(pick, stream, WindowArgs { window: state.window.all_mut()?, x: raw })?;
        if (first + n) / ratio <= self.sizes.blocks() {
            return Ok(Attend::All);
        }
        let heads = Heads { count: self.sizes.heads, dim, stride: dim };
        let (index_q, gain) = (s.qk.columns(n, 0..queries)?, self.q_gain.view([dim])?);
        norm_rope(pick, stream, &index_q, heads, (&gain, run.eps), &run.rope, &mut s.q.first_mut(n)?)?;
        let at_once = s.scores.all()?.dims[0];
        for start in (0..n).step_by(at_once) {
            let some = start..n.min(start + at_once);
            let args = ScoresArgs {
                q: s.q.range(some.clone())?,
                keys: state.keys.all()?,
                dead: state.dead.line(dim)?,
                steps: s.steps.range(some.clone())?,
                scores: s.scores.first_mut(some.len())?,
                reach: (first + some.end) / ratio + 1,
            };
            scores(pick, stream, args)?;
            let (scored, chosen) = (s.scores.first(some.len())?, s.chosen.range_mut(some.clone())?);
            select(pick, stream, SelectArgs { scores: scored, chosen, first: first + some.start, ratio })?;
        }
        probe.note_ids(layer, "qsa.chosen", &s.chosen, n)?;
        Ok(Attend::Blocks { ratio, chosen: s.chosen.first(n)? })
    }
}
