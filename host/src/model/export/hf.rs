//! The names, orders and values of a Hugging Face checkpoint in GGUF.
//!
//! Two things differ besides names. GGUF files tile the value heads (head h reads key head h mod key heads), Hugging Face
//! groups them by key head; and GGUF files hold values as they are used: gains with their 1, decays instead of logarithms.
//! Small tensors (vectors, convolutions, routers) become f32, as converters write them.

use std::collections::BTreeSet;

use super::super::config::{Config, ExpertSizes, FeedForward, LayerKind};
use super::super::weights::{is_skipped, prefix_of, tiled_heads};
use super::super::{Checkpoint, OpenError, Tensor, Value};
use super::tensor::{Map, Piece, Planned};
use super::{Plan, ple, text};
use varve_gpu::delta::CONV_TAPS;

/// The plan of a checkpoint in the layout of Hugging Face.
pub fn plan(checkpoint: &Checkpoint) -> Result<Plan<'_>, OpenError> {
    let config = Config::read(checkpoint)?;
    let mut names = Names::new(checkpoint);
    let hash = ple::hash(&mut names, &config)?;
    let keys = config.gguf_keys(hash.as_ref());
    let mut metadata =
        keys.map_err(|what| OpenError::Contradiction { file: checkpoint.name(), what: what.to_owned() })?;
    metadata.insert(1, ("general.type".to_owned(), Value::String("model".to_owned())));
    metadata.insert(2, ("general.name".to_owned(), Value::String(checkpoint.name())));
    metadata.extend(text::keys(checkpoint, config.vocab)?);
    names.top(&config)?;
    for (layer, &kind) in config.layers.iter().enumerate() {
        let mut layer = Layer { names: &mut names, config: &config, layer };
        layer.norms()?;
        match kind {
            LayerKind::Gdn => layer.gdn()?,
            LayerKind::Attention => layer.attention()?,
        }
        match &config.feed_forward {
            FeedForward::Dense { inner } => layer.mlp("", "", *inner)?,
            FeedForward::Experts(sizes) => layer.experts(sizes)?,
        }
        layer.ple()?;
    }
    Ok(Plan { checkpoint, metadata, tensors: names.finish(config.layers.len())? })
}

/// Looks tensors up and keeps count of what was used.
pub struct Names<'a> {
    pub checkpoint: &'a Checkpoint,
    pub prefix: &'static str,
    used: BTreeSet<String>,
    missing: Vec<String>,
    planned: Vec<Planned<'a>>,
}

impl<'a> Names<'a> {
    fn new(checkpoint: &'a Checkpoint) -> Self {
        let prefix = prefix_of(checkpoint);
        Self { checkpoint, prefix, used: BTreeSet::new(), missing: Vec::new(), planned: Vec::new() }
    }

    /// The tensor, its shape checked but for dimensions of 1; a missing one is noted.
    pub fn find(&mut self, name: &str, shape: &[usize]) -> Result<Option<&'a Tensor>, OpenError> {
        let Some(tensor) = self.checkpoint.tensor(name) else {
            self.missing.push(name.to_owned());
            return Ok(None);
        };
        self.used.insert(name.to_owned());
        let significant = |shape: &[usize]| shape.iter().copied().filter(|&n| n != 1).collect::<Vec<_>>();
        if significant(&tensor.shape) != significant(shape) {
            let (file, got) = (self.checkpoint.file_of(tensor).to_owned(), tensor.shape.clone());
            return Err(OpenError::Shape { file, tensor: name.to_owned(), got, wanted: shape.to_vec() });
        }
        Ok(Some(tensor))
    }

    /// Plans tensor `to` of stored tensors, one below the other.
    fn stack(&mut self, from: &[(String, Vec<usize>)], to: String, shape: &[usize]) -> Result<(), OpenError> {
        let mut pieces = Vec::new();
        for (name, shape) in from {
            let rows = shape[..shape.len() - 1].iter().product();
            pieces.extend(self.find(name, shape)?.map(|tensor| Piece::new(tensor, 0..rows, None)));
        }
        self.planned.push(Planned::new(to, shape.to_vec(), pieces));
        Ok(())
    }

    /// Plans a tensor whose rows are in another order.
    fn reordered(
        &mut self,
        from: &str,
        to: String,
        shape: &[usize],
        order: Option<Vec<usize>>,
    ) -> Result<(), OpenError> {
        let rows = shape[..shape.len() - 1].iter().product();
        let pieces = self.find(from, shape)?.map(|tensor| Piece::new(tensor, 0..rows, order));
        self.planned.push(Planned::new(to, shape.to_vec(), pieces.into_iter().collect()));
        Ok(())
    }

    /// What was planned last becomes f32.
    fn exact(&mut self, map: Map) {
        if let Some(last) = self.planned.pop() {
            self.planned.push(last.exact(map));
        }
    }

    /// Tensors outside the layers.
    fn top(&mut self, config: &Config) -> Result<(), OpenError> {
        let (hidden, vocab) = (config.hidden, [config.vocab, config.hidden]);
        let name = |name: &str| format!("{}{name}", self.prefix);
        let (embedding, norm, mixer) =
            (name("embed_tokens.weight"), name("norm.weight"), name("hyper_connection_mixer."));
        if !config.tied {
            self.reordered("lm_head.weight", "output.weight".to_owned(), &vocab, None)?;
        }
        self.reordered(&embedding, "token_embd.weight".to_owned(), &vocab, None)?;
        match &config.streams {
            Some(streams) => self.mixer(&mixer, "output_hc_", (config.wide(), streams.rank), None),
            None => self.gain(&norm, "output_norm.weight".to_owned(), hidden),
        }
    }

    /// The gain of a norm.
    fn gain(&mut self, from: &str, to: String, len: usize) -> Result<(), OpenError> {
        self.reordered(from, to, &[len], None)?;
        self.exact(Map::PlusOne);
        Ok(())
    }

    /// A mixer of the residual streams; `inject` has the number of streams where it writes back.
    fn mixer(
        &mut self,
        from: &str,
        to: &str,
        (wide, rank): (usize, usize),
        inject: Option<usize>,
    ) -> Result<(), OpenError> {
        self.gain(&format!("{from}hc_norm.weight"), format!("{to}norm.weight"), wide)?;
        let (down, up) = (format!("{from}input_mix_weight_down.weight"), format!("{from}input_mix_weight_up.weight"));
        self.reordered(&down, format!("{to}down.weight"), &[rank, wide], None)?;
        self.reordered(&up, format!("{to}up.weight"), &[wide, rank], None)?;
        if let Some(streams) = inject {
            let from = format!("{from}block_inject_weight.weight");
            self.reordered(&from, format!("{to}inject.weight"), &[streams, wide], None)?;
        }
        Ok(())
    }

    /// Refuses the checkpoint if tensors are missing, or are there that no part of the model uses.
    fn finish(self, layers: usize) -> Result<Vec<Planned<'a>>, OpenError> {
        let unused = |tensor: &&Tensor| !self.used.contains(&tensor.name) && !is_skipped(&tensor.name, layers);
        let unknown: Vec<String> = self.checkpoint.tensors().filter(unused).map(|t| t.name.clone()).collect();
        if self.missing.is_empty() && unknown.is_empty() {
            return Ok(self.planned);
        }
        Err(OpenError::Tensors { file: self.checkpoint.name(), missing: self.missing, unknown })
    }
}

/// The tensors of one layer.
struct Layer<'n, 'a> {
    names: &'n mut Names<'a>,
    config: &'n Config,
    layer: usize,
}

impl Layer<'_, '_> {
    fn from(&self, name: &str) -> String {
        format!("{}layers.{}.{name}", self.names.prefix, self.layer)
    }

    fn to(&self, name: &str) -> String {
        format!("blk.{}.{name}", self.layer)
    }

    fn matrix(&mut self, from: &str, to: &str, shape: &[usize]) -> Result<(), OpenError> {
        self.tiled(from, to, shape, None)
    }

    fn tiled(&mut self, from: &str, to: &str, shape: &[usize], order: Option<Vec<usize>>) -> Result<(), OpenError> {
        let (from, to) = (self.from(from), self.to(to));
        self.names.reordered(&from, to, shape, order)
    }

    fn gain(&mut self, from: &str, to: &str, len: usize) -> Result<(), OpenError> {
        let (from, to) = (self.from(from), self.to(to));
        self.names.gain(&from, to, len)
    }

    /// A small tensor, as f32.
    fn small(&mut self, from: &str, to: &str, shape: &[usize]) -> Result<(), OpenError> {
        self.matrix(from, to, shape)?;
        self.names.exact(Map::Same);
        Ok(())
    }

    /// What reads the residual and writes back to it.
    fn norms(&mut self) -> Result<(), OpenError> {
        let (hidden, wide) = (self.config.hidden, self.config.wide());
        let Some(streams) = &self.config.streams else {
            self.gain("input_layernorm.weight", "attn_norm.weight", hidden)?;
            return self.gain("post_attention_layernorm.weight", "post_attention_norm.weight", hidden);
        };
        for (from, to) in [("attn_hyper_connection.", "hc_attn_"), ("mlp_hyper_connection.", "hc_ffn_")] {
            let (from, to) = (self.from(from), self.to(to));
            self.names.mixer(&from, &to, (wide, streams.rank), Some(streams.count))?;
        }
        Ok(())
    }

    fn gdn(&mut self) -> Result<(), OpenError> {
        let (sizes, hidden) = (&self.config.gdn, self.config.hidden);
        let (keys, heads, dim) = (sizes.key_heads, sizes.value_heads, sizes.head_dim);
        let (channels, values) = (sizes.channels(), sizes.value_width());
        let order = |before: usize, width: usize| Some(tiled_heads(before, keys, heads, width));
        let channel_order = order(channels - values, dim);
        self.tiled("linear_attn.in_proj_qkv.weight", "attn_qkv.weight", &[channels, hidden], channel_order.clone())?;
        self.tiled("linear_attn.in_proj_z.weight", "attn_gate.weight", &[values, hidden], order(0, dim))?;
        self.tiled("linear_attn.in_proj_b.weight", "ssm_beta.weight", &[heads, hidden], order(0, 1))?;
        self.tiled("linear_attn.in_proj_a.weight", "ssm_alpha.weight", &[heads, hidden], order(0, 1))?;
        self.tiled("linear_attn.conv1d.weight", "ssm_conv1d.weight", &[channels, CONV_TAPS], channel_order)?;
        self.names.exact(Map::Same);
        // A vector is one row, whose columns are the heads.
        for (from, to, map) in [("A_log", "ssm_a", Map::NegExp), ("dt_bias", "ssm_dt.bias", Map::Same)] {
            self.small(&format!("linear_attn.{from}"), to, &[heads])?;
            self.columns(tiled_heads(0, keys, heads, 1));
            self.names.exact(map);
        }
        self.small("linear_attn.norm.weight", "ssm_norm.weight", &[dim])?;
        self.matrix("linear_attn.out_proj.weight", "ssm_out.weight", &[hidden, values])?;
        self.columns(tiled_heads(0, keys, heads, dim));
        Ok(())
    }

    /// The columns of what was planned last are in this order.
    fn columns(&mut self, order: Vec<usize>) {
        if let Some(last) = self.names.planned.pop() {
            self.names.planned.push(last.with_columns(order));
        }
    }

    fn attention(&mut self) -> Result<(), OpenError> {
        let (sizes, hidden) = (&self.config.attention, self.config.hidden);
        let (width, kv) = (sizes.heads * sizes.head_dim, sizes.kv_heads * sizes.head_dim);
        self.matrix("self_attn.q_proj.weight", "attn_q.weight", &[2 * width, hidden])?;
        self.matrix("self_attn.k_proj.weight", "attn_k.weight", &[kv, hidden])?;
        self.matrix("self_attn.v_proj.weight", "attn_v.weight", &[kv, hidden])?;
        self.gain("self_attn.q_norm.weight", "attn_q_norm.weight", sizes.head_dim)?;
        self.gain("self_attn.k_norm.weight", "attn_k_norm.weight", sizes.head_dim)?;
        self.matrix("self_attn.o_proj.weight", "attn_output.weight", &[hidden, width])?;
        let Some(qsa) = &sizes.qsa else { return Ok(()) };
        let (queries, rows) = (qsa.heads * qsa.dim, (qsa.heads + 1) * qsa.dim);
        let both = self.from("self_attn.indexer.index_qk_proj.weight");
        if let Some(tensor) = self.names.find(&both, &[rows, hidden])? {
            for (what, rows) in [("q", 0..queries), ("k", queries..rows)] {
                let (name, shape) = (self.to(&format!("indexer.{what}_proj.weight")), vec![rows.len(), hidden]);
                self.names.planned.push(Planned::new(name, shape, vec![Piece::new(tensor, rows, None)]));
            }
        }
        self.gain("self_attn.indexer.q_layernorm.weight", "indexer.q_norm.weight", qsa.dim)?;
        self.gain("self_attn.indexer.k_layernorm.weight", "indexer.k_norm.weight", qsa.dim)
    }

    /// A dense feed forward: `within` its part of the name, and `kind` the end of its name in GGUF.
    fn mlp(&mut self, within: &str, kind: &str, inner: usize) -> Result<(), OpenError> {
        let hidden = self.config.hidden;
        for (what, shape) in [("gate", [inner, hidden]), ("up", [inner, hidden]), ("down", [hidden, inner])] {
            let (from, to) = (format!("mlp.{within}{what}_proj.weight"), format!("ffn_{what}{kind}.weight"));
            self.matrix(&from, &to, &shape)?;
        }
        Ok(())
    }

    fn experts(&mut self, sizes: &ExpertSizes) -> Result<(), OpenError> {
        let (count, inner, hidden) = (sizes.count, sizes.inner, self.config.hidden);
        self.small("mlp.gate.weight", "ffn_gate_inp.weight", &[count, hidden])?;
        self.small("mlp.shared_expert_gate.weight", "ffn_gate_inp_shexp.weight", &[1, hidden])?;
        self.mlp("shared_expert.", "_shexp", sizes.shared_inner)?;
        if self.names.checkpoint.tensor(&self.from("mlp.experts.0.gate_proj.weight")).is_some() {
            for (what, shape) in [("gate", [inner, hidden]), ("up", [inner, hidden]), ("down", [hidden, inner])] {
                let one = |e: usize| (self.from(&format!("mlp.experts.{e}.{what}_proj.weight")), shape.to_vec());
                let from: Vec<_> = (0..count).map(one).collect();
                let to = self.to(&format!("ffn_{what}_exps.weight"));
                self.names.stack(&from, to, &[count, shape[0], shape[1]])?;
            }
            return Ok(());
        }
        let both = self.from("mlp.experts.gate_up_proj");
        if let Some(tensor) = self.names.find(&both, &[count, 2 * inner, hidden])? {
            for (what, at) in [("gate", 0), ("up", inner)] {
                let rows = |e: usize| 2 * e * inner + at..2 * e * inner + at + inner;
                let pieces = (0..count).map(|e| Piece::new(tensor, rows(e), None)).collect();
                let (name, shape) = (self.to(&format!("ffn_{what}_exps.weight")), vec![count, inner, hidden]);
                self.names.planned.push(Planned::new(name, shape, pieces));
            }
        }
        self.matrix("mlp.experts.down_proj", "ffn_down_exps.weight", &[count, hidden, inner])
    }

    /// The n-gram embedding, where the layer has it.
    fn ple(&mut self) -> Result<(), OpenError> {
        let Some(sizes) = self.config.ple.as_ref().filter(|ple| ple.layers.contains(&self.layer)) else {
            return Ok(());
        };
        let (hidden, wide) = (self.config.hidden, self.config.wide());
        self.small("ple.conv1d.weight", "ple_conv1d.weight", &[wide, sizes.kernel])?;
        self.matrix("ple.key_proj.weight", "ple_key.weight", &[wide, sizes.dim])?;
        self.matrix("ple.value_proj.weight", "ple_value.weight", &[hidden, sizes.dim])?;
        for what in ["key", "query", "conv"] {
            self.gain(&format!("ple.norm_{what}.weight"), &format!("ple_norm_{what}.weight"), wide)?;
        }
        let shards = ple::table(self.names.checkpoint, &self.from(ple::TABLE));
        let from: Vec<_> =
            shards.into_iter().map(|(name, rows)| (name, vec![rows, sizes.dim / sizes.heads()])).collect();
        let rows = from.iter().map(|(_, shape)| shape[0]).sum();
        let shape = [rows, sizes.dim / sizes.heads()];
        self.names.stack(&from, "per_layer_token_embd.weight".to_owned(), &shape)
    }
}
