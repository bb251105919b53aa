//! A Gated DeltaNet layer (Gated Delta Networks, arXiv 2412.06464).
//!
//! ```text
//! q, k, v = silu(conv(x W_qkv)), q and k normalised;  z = x W_z;  beta = sigmoid(x W_b)
//! g       = -exp(A_log) softplus(x W_a + dt_bias)
//! o       = delta rule over q, k, v, g, beta
//! y       = (rms(o) * gamma * act(z)) W_out
//! ```
//!
//! Value heads are tiled: value head h reads key head h mod key_heads. GGUF files store them so; those of Hugging Face,
//! which group them by key head, are reordered as they are read.

use varve_gpu::delta::CONV_TAPS;
use varve_gpu::geometry::HEAD_DIM;

use super::{Into, project_all, project_into};
use crate::backend::{BackendError, Buffer, Device};
use crate::model::config::GdnSizes;
use crate::model::rows::Rows;
use crate::model::run::{Probe, Run};
use crate::model::weights::{Matrix, Scope, tiled_heads};
use crate::model::{ModelError, OpenError};
use crate::ops::LogGate;
use crate::ops::conv_window::{WindowArgs, window};
use crate::ops::delta_conv::{ConvArgs, conv};
use crate::ops::delta_gated_norm::{GatedNormArgs, gated_norm};
use crate::ops::delta_gates::{GatesArgs, gates};
use crate::ops::delta_rec::{RecArgs, StateAfter, recurrence};

/// Weights.
pub struct Gdn {
    sizes: GdnSizes,
    /// `[channels + value width, hidden]`: q, k, v, then z.
    project: Matrix,
    /// `[2 value heads, hidden]`: b, then a.
    ba: Matrix,
    /// `[channels, 4]`.
    taps: Buffer<f32>,
    /// `-exp(A_log)`.
    neg_a: Buffer<f32>,
    dt_bias: Buffer<f32>,
    gamma: Buffer<f32>,
    /// `[hidden, value width]`.
    out: Matrix,
}

/// What a sequence keeps for a layer.
pub struct GdnState {
    /// f32 `[128][value heads][128]`: the recurrent state, 64 KiB a value head.
    pub state: Buffer<f32>,
    /// f32 `[3, channels]`: projections of the last three tokens.
    pub window: Rows<f32>,
}

impl GdnState {
    /// Before the first token: zeros.
    pub fn new(device: &Device, sizes: &GdnSizes) -> Result<Self, BackendError> {
        let mut state = device.alloc(HEAD_DIM * sizes.value_heads * HEAD_DIM)?;
        state.fill_bytes(0)?;
        Ok(Self { state, window: Rows::zeroed(device, CONV_TAPS - 1, sizes.channels())? })
    }
}

/// Memory of a pass, shared by all layers.
pub struct GdnScratch {
    raw: Rows<f32>,
    ba: Rows<f32>,
    qkv: Rows<f32>,
    gate: Rows<f32>,
    beta: Rows<f32>,
    core: Rows<f32>,
    gated: Rows<f32>,
}

impl GdnScratch {
    /// For passes of up to `tokens` tokens.
    pub fn new(device: &Device, sizes: &GdnSizes, tokens: usize) -> Result<Self, BackendError> {
        let rows = |width| Rows::new(device, tokens, width);
        let heads = sizes.value_heads;
        Ok(Self {
            raw: rows(sizes.channels() + sizes.value_width())?,
            ba: rows(2 * heads)?,
            qkv: rows((2 * sizes.key_heads + heads) * HEAD_DIM)?,
            gate: rows(heads)?,
            beta: rows(heads)?,
            core: rows(heads * HEAD_DIM)?,
            gated: rows(sizes.value_width())?,
        })
    }
}

impl Gdn {
    /// Reads the weights of a layer.
    pub fn load(scope: &Scope<'_>, sizes: &GdnSizes, hidden: usize) -> Result<Self, OpenError> {
        let reader = scope.reader();
        let (keys, heads, dim) = (sizes.key_heads, sizes.value_heads, sizes.head_dim);
        let (channels, values) = (sizes.channels(), sizes.value_width());
        let order = |before: usize, width: usize| (!reader.is_gguf()).then(|| tiled_heads(before, keys, heads, width));
        let tiled = |mut v: Vec<f32>, order: Option<Vec<usize>>, width: usize| {
            if let Some(order) = order {
                v = order.iter().flat_map(|&at| v[at * width..(at + 1) * width].to_vec()).collect();
            }
            v
        };
        let qkv = scope.part(("linear_attn.in_proj_qkv.weight", "attn_qkv.weight"), &[channels, hidden]);
        let z = scope.part(("linear_attn.in_proj_z.weight", "attn_gate.weight"), &[values, hidden]);
        let b = scope.part(("linear_attn.in_proj_b.weight", "ssm_beta.weight"), &[heads, hidden]);
        let a = scope.part(("linear_attn.in_proj_a.weight", "ssm_alpha.weight"), &[heads, hidden]);
        let out = scope.part(("linear_attn.out_proj.weight", "ssm_out.weight"), &[hidden, values]);
        let channel_order = order(channels - values, dim);
        let taps = scope.values(("linear_attn.conv1d.weight", "ssm_conv1d.weight"), &[channels, CONV_TAPS])?;
        let mut neg_a = tiled(scope.values(("linear_attn.A_log", "ssm_a"), &[heads])?, order(0, 1), 1);
        if !reader.is_gguf() {
            neg_a.iter_mut().for_each(|a| *a = -a.exp());
        }
        let dt_bias = tiled(scope.values(("linear_attn.dt_bias", "ssm_dt.bias"), &[heads])?, order(0, 1), 1);
        Ok(Self {
            sizes: sizes.clone(),
            project: reader.matrix(&[qkv.with_rows(channel_order.clone()), z.with_rows(order(0, dim))])?,
            ba: reader.matrix(&[b.with_rows(order(0, 1)), a.with_rows(order(0, 1))])?,
            taps: reader.device().upload(&tiled(taps, channel_order, CONV_TAPS))?,
            neg_a: reader.device().upload(&neg_a)?,
            dt_bias: reader.device().upload(&dt_bias)?,
            gamma: scope.vector(("linear_attn.norm.weight", "ssm_norm.weight"), dim)?,
            out: reader.matrix(&[out.with_columns(order(0, dim))])?,
        })
    }

    /// The layer for x `[tokens, hidden]`; moves the state on.
    pub fn forward(
        &self,
        run: &Run<'_>,
        x: &Rows<f32>,
        state: &mut GdnState,
        s: &mut GdnScratch,
        (into, y): (Into, &mut Rows<f32>),
        (layer, probe): (usize, &mut Probe),
    ) -> Result<(), ModelError> {
        let (n, pick, stream) = (run.tokens, run.pick(), run.stream);
        let GdnSizes { key_heads, value_heads, head_dim, gate } = self.sizes;
        let (channels, heads) = (self.sizes.channels(), self.sizes.value_heads);
        let z = channels..channels + self.sizes.value_width();
        let (raw, ba) = (s.raw.first_mut(n)?, s.ba.first_mut(n)?);
        project_all(run, &x.first(n)?, [(&self.project, raw), (&self.ba, ba)])?;
        let raw = s.raw.columns(n, 0..channels)?;
        let taps = self.taps.view([channels, CONV_TAPS])?;
        let out = s.qkv.first_mut(n)?;
        conv(pick, stream, ConvArgs { raw, window: state.window.all()?, taps, out, key_heads, value_heads, head_dim })?;
        window(pick, stream, WindowArgs { window: state.window.all_mut()?, x: raw })?;
        gates(
            pick,
            stream,
            GatesArgs {
                ba: s.ba.first(n)?,
                neg_a: self.neg_a.view([heads])?,
                dt_bias: self.dt_bias.view([heads])?,
                gate: s.gate.first_mut(n)?,
                beta: s.beta.first_mut(n)?,
            },
        )?;
        recurrence(
            run.dispatch,
            stream,
            RecArgs {
                qkv: s.qkv.first(n)?,
                gate: LogGate(s.gate.first(n)?),
                beta: s.beta.first(n)?,
                state: state.state.view_mut([HEAD_DIM, heads, HEAD_DIM])?,
                y: s.core.first_mut(n)?,
                key_heads,
                state_after: StateAfter::Updated,
                batch: None,
            },
        )?;
        probe.note(layer, "gdn.core", &s.core, n)?;
        gated_norm(
            pick,
            stream,
            GatedNormArgs {
                y: s.core.first(n)?,
                z: s.raw.columns(n, z)?,
                gamma: self.gamma.view([head_dim])?,
                out: s.gated.first_mut(n)?,
                eps: run.eps,
                gate,
            },
        )?;
        project_into(run, &self.out, &s.gated.first(n)?, into, y)
    }
}
