//! A gated attention layer, over all tokens or, with QSA, over the cells that its indexer chooses (`qsa`).
//!
//! ```text
//! q, gate = x W_q, by head;  k = x W_k;  v = x W_v;  q = rope(norm(q)), k = rope(norm(k))
//! y       = (softmax(q k^T / sqrt(dim)) v * sigmoid(gate)) W_o
//! ```

use super::qsa::{Indexer, QsaScratch, QsaState, Queries};
use super::{Into, project_all, project_into};
use crate::backend::{BackendError, Buffer, Device};
use crate::model::config::AttentionSizes;
use crate::model::made_up::Numbers;
use crate::model::rows::Rows;
use crate::model::run::{Probe, Run};
use crate::model::weights::{Matrix, Scope};
use crate::model::{ModelError, OpenError};
use crate::ops::attn_norm_rope::{Heads, norm_rope};
use crate::ops::attn_softmax::{SoftmaxArgs, softmax};
use crate::ops::qsa_cells::CellKind;

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

/// What a sequence keeps for a layer.
pub enum AttentionState {
    /// Without a selection.
    All {
        /// f32 `[context, kv heads * head_dim]`.
        k: Rows<f32>,
        /// As `k`.
        v: Rows<f32>,
    },
    /// With one.
    Chosen(Box<QsaState>),
}

impl AttentionState {
    /// Room for `context` tokens. `kind` is the format of a selection's cells.
    pub fn new(device: &Device, sizes: &AttentionSizes, kind: CellKind, context: usize) -> Result<Self, BackendError> {
        if sizes.qsa.is_some() {
            return Ok(Self::Chosen(Box::new(QsaState::new(device, sizes, kind, context)?)));
        }
        let rows = || Rows::new(device, context, sizes.kv_heads * sizes.head_dim);
        Ok(Self::All { k: rows()?, v: rows()? })
    }

    /// Random numbers everywhere.
    pub fn make_up(&mut self, numbers: &mut Numbers) -> Result<(), BackendError> {
        match self {
            Self::All { k, v } => [k, v].into_iter().try_for_each(|rows| numbers.fill_rows(rows)),
            Self::Chosen(state) => state.make_up(numbers),
        }
    }
}

/// Memory of a pass, shared by all layers.
pub struct AttentionScratch {
    qg: Rows<f32>,
    k: Rows<f32>,
    q: Rows<f32>,
    mixed: Rows<f32>,
    qsa: Option<QsaScratch>,
}

impl AttentionScratch {
    /// For passes of up to `tokens` tokens in sequences of up to `context`.
    pub fn new(device: &Device, sizes: &AttentionSizes, tokens: usize, context: usize) -> Result<Self, BackendError> {
        let rows = |width| Rows::new(device, tokens, width);
        let (width, kv) = (sizes.heads * sizes.head_dim, sizes.kv_heads * sizes.head_dim);
        let qsa = sizes.qsa.as_ref().map(|qsa| QsaScratch::new(device, qsa, kv, tokens, context));
        Ok(Self { qg: rows(2 * width)?, k: rows(kv)?, q: rows(width)?, mixed: rows(width)?, qsa: qsa.transpose()? })
    }

    /// Tells the layers of a pass which tokens it has: `tokens` from position `first` on.
    pub fn begin(&mut self, first: usize, tokens: usize) -> Result<(), BackendError> {
        self.qsa.as_mut().map_or(Ok(()), |qsa| qsa.begin(first, tokens))
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
        let (q, k) = (s.qg.first_mut(n)?, s.k.first_mut(n)?);
        let v = match (&mut *state, &mut s.qsa) {
            (AttentionState::All { v, .. }, _) => v.range_mut(here.clone())?,
            (AttentionState::Chosen(_), Some(qsa)) => qsa.v_mut(n)?,
            (AttentionState::Chosen(_), None) => unreachable!("scratch memory was made for the same configuration"),
        };
        project_all(run, &x.first(n)?, [(&self.q, q), (&self.k, k), (&self.v, v)])?;
        let q_heads = Heads { count: heads, dim, stride: 2 * dim };
        let (qg, q_gain) = (s.qg.first(n)?, self.q_gain.view([dim])?);
        norm_rope(pick, stream, &qg, q_heads, (&q_gain, eps), &run.rope, &mut s.q.first_mut(n)?)?;
        let k_heads = Heads { count: kv_heads, dim, stride: dim };
        let (raw, k_gain) = (s.k.first(n)?, self.k_gain.view([dim])?);
        let rotate = |k| norm_rope(pick, stream, &raw, k_heads, (&k_gain, eps), &run.rope, k);
        let (q, gate) = (s.q.first(n)?, s.qg.columns(n, dim..2 * heads * dim)?);
        let (gate_head_stride, y_heads) = (2 * dim, s.mixed.first_mut(n)?);
        match (state, &self.indexer, &mut s.qsa) {
            (AttentionState::All { k, v }, ..) => {
                rotate(&mut k.range_mut(here)?)?;
                let (k, v) = (k.all()?, v.all()?);
                softmax(pick, stream, SoftmaxArgs { q, gate, gate_head_stride, k, v, y: y_heads, first, dim })?;
            }
            (AttentionState::Chosen(state), Some(indexer), Some(qsa)) => {
                rotate(&mut qsa.k_mut(n)?)?;
                let queries = Queries { q, gate, gate_head_stride, y: y_heads };
                indexer.attend(run, x, state, qsa, queries, (layer, probe))?;
            }
            _ => unreachable!("the sequence was made for the same configuration"),
        }
        project_into(run, &self.out, &s.mixed.first(n)?, into, y)
    }
}
