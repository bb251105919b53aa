//! Sizes as the metadata of a GGUF file: what `gguf.rs` reads.

use super::hf::by_interval;
use super::{Arch, Config, FeedForward, LayerKind, PleSizes};
use crate::model::ngram::NgramHash;
use crate::model::{Array, Value};
use crate::ops::delta_out_norm::OutputGate;
use varve_gpu::delta::CONV_TAPS;

/// Keys and values in the making, under the name of an architecture.
struct Keys {
    arch: &'static str,
    entries: Vec<(String, Value)>,
}

impl Keys {
    fn put(&mut self, key: &str, value: Value) {
        self.entries.push((format!("{}.{key}", self.arch), value));
    }

    fn size(&mut self, key: &str, value: usize) {
        self.put(key, Value::U32(narrow(value)));
    }

    fn sizes(&mut self, key: &str, values: impl IntoIterator<Item = usize>) {
        let values = values.into_iter().map(|value| narrow(value).cast_signed());
        self.put(key, Value::Array(Array::I32(values.collect())));
    }
}

/// A size that was read from a file of at most 2^63 bytes, and counts far fewer things.
fn narrow(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

impl Config {
    /// The metadata that say these sizes, `general.architecture` first; `hash` has the constants of the n-gram embedding.
    ///
    /// # Errors
    /// What GGUF files of the architecture have no key for.
    pub(in crate::model) fn gguf_keys(&self, hash: Option<&NgramHash>) -> Result<Vec<(String, Value)>, &'static str> {
        self.has_keys()?;
        let names = Arch::NAMES.iter().find(|(arch, _)| *arch == self.arch).map(|(_, names)| names[2]);
        let arch = names.unwrap_or_default();
        let mut keys = Keys { arch, entries: Vec::new() };
        keys.entries.push(("general.architecture".to_owned(), Value::String(arch.to_owned())));
        keys.size("block_count", self.layers.len());
        keys.size("context_length", self.context);
        keys.size("embedding_length", self.hidden);
        keys.put("attention.layer_norm_rms_epsilon", Value::F32(self.eps));
        self.attention_keys(&mut keys);
        self.gdn_keys(&mut keys);
        match &self.feed_forward {
            FeedForward::Dense { inner } => keys.size("feed_forward_length", *inner),
            FeedForward::Experts(experts) => {
                keys.size("expert_count", experts.count);
                keys.size("expert_used_count", experts.used);
                keys.size("expert_feed_forward_length", experts.inner);
                keys.size("expert_shared_feed_forward_length", experts.shared_inner);
            }
        }
        if let Some(streams) = &self.streams {
            keys.size("hyper_connection.count", streams.count);
            keys.size("hyper_connection.low_rank", streams.rank);
        }
        if let (Some(ple), Some(hash)) = (&self.ple, hash) {
            ple_keys(&mut keys, ple, hash);
        }
        Ok(keys.entries)
    }

    /// Settings that the name of the architecture stands for.
    fn has_keys(&self) -> Result<(), &'static str> {
        let gate = if self.arch == Arch::Qwen4Exp { OutputGate::Sigmoid } else { OutputGate::Silu };
        let single = matches!(&self.feed_forward, FeedForward::Experts(experts) if !experts.renormalise);
        match self.ple.as_ref().map_or(1, |ple| ple.layers.len()) {
            _ if self.gdn.gate != gate => Err("its output gate is another than GGUF files of the architecture have"),
            _ if single => {
                Err("its expert weights are not renormalised, and GGUF files of the architecture cannot say so")
            }
            1 => Ok(()),
            _ => Err("it has n-gram embeddings on several layers, and GGUF files have one"),
        }
    }

    fn attention_keys(&self, keys: &mut Keys) {
        let sizes = &self.attention;
        keys.size("attention.head_count", sizes.heads);
        keys.size("attention.head_count_kv", sizes.kv_heads);
        keys.size("attention.key_length", sizes.head_dim);
        keys.size("attention.value_length", sizes.head_dim);
        keys.put("rope.freq_base", Value::F32(sizes.theta as f32));
        keys.size("rope.dimension_count", sizes.rotary);
        // Positions of text are the same in all three sections, so that any cut of the pairs will do.
        let pairs = sizes.rotary / 2;
        let first = pairs.div_ceil(3);
        let second = (pairs - first).div_ceil(2);
        keys.sizes("rope.dimension_sections", [first, second, pairs - first - second, 0]);
        if let Some(qsa) = &sizes.qsa {
            keys.size("attention.indexer.head_count", qsa.heads);
            keys.size("attention.indexer.key_length", qsa.dim);
            keys.size("attention.indexer.top_k", qsa.budget);
            let ratio = |kind: &LayerKind| if *kind == LayerKind::Attention { qsa.ratio } else { 0 };
            keys.sizes("attention.compress_ratios", self.layers.iter().map(ratio));
        }
    }

    fn gdn_keys(&self, keys: &mut Keys) {
        keys.size("ssm.conv_kernel", CONV_TAPS);
        keys.size("ssm.state_size", self.gdn.head_dim);
        keys.size("ssm.group_count", self.gdn.key_heads);
        keys.size("ssm.time_step_rank", self.gdn.value_heads);
        keys.size("ssm.inner_size", self.gdn.value_width());
        let recurrent: Vec<bool> = self.layers.iter().map(|kind| *kind == LayerKind::Gdn).collect();
        let count = recurrent.len();
        let interval = (1..=count).find(|&interval| by_interval(count, interval) == self.layers);
        keys.put("attention.recurrent_layers", Value::Array(Array::Bool(recurrent)));
        if let Some(interval) = interval {
            keys.size("full_attention_interval", interval);
        }
    }
}

fn ple_keys(keys: &mut Keys, ple: &PleSizes, hash: &NgramHash) {
    keys.sizes("ple.layers", ple.layers.iter().copied());
    keys.size("ple.ngram_size", ple.ngram);
    keys.size("ple.heads_per_ngram", ple.heads_per_ngram);
    keys.size("ple.conv_kernel", ple.kernel);
    keys.put("ple.eos_token_id", Value::U32(ple.eos));
    keys.size("embedding_length_per_layer_input", ple.dim / ple.heads());
    let mut constants = |key: &str, values: &[u64]| keys.put(key, Value::Array(Array::U64(values.to_vec())));
    constants("ple.layer_multipliers", &hash.multipliers);
    constants("ple.head_vocab_sizes", &hash.moduli);
    constants("ple.head_offsets", &hash.offsets);
}
