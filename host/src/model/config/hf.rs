//! `config.json` of a Hugging Face checkpoint: nested in `text_config`, or flat.

use serde::Deserialize;
use serde_json::Value;

use super::{
    Arch, AttentionSizes, Config, ExpertSizes, FeedForward, GdnSizes, LayerKind, PleHash, PleSizes, QsaSizes,
    StreamSizes,
};
use crate::model::{Checkpoint, OpenError};
use crate::ops::delta_out_norm::OutputGate;

/// The fields that are read; what is missing is asked for by name when it is needed.
#[derive(Deserialize)]
struct Text {
    vocab_size: Option<usize>,
    hidden_size: Option<usize>,
    num_hidden_layers: Option<usize>,
    layer_types: Option<Vec<String>>,
    full_attention_interval: Option<usize>,
    max_position_embeddings: Option<usize>,
    rms_norm_eps: Option<f32>,
    hidden_act: Option<String>,
    output_gate_type: Option<String>,
    attention_bias: Option<bool>,
    attn_output_gate: Option<bool>,
    tie_word_embeddings: Option<bool>,
    num_attention_heads: Option<usize>,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    partial_rotary_factor: Option<f64>,
    rope_theta: Option<f64>,
    rope_parameters: Option<Rope>,
    linear_num_key_heads: Option<usize>,
    linear_num_value_heads: Option<usize>,
    linear_key_head_dim: Option<usize>,
    linear_value_head_dim: Option<usize>,
    linear_conv_kernel_dim: Option<usize>,
    intermediate_size: Option<usize>,
    num_experts: Option<usize>,
    num_experts_per_tok: Option<usize>,
    moe_intermediate_size: Option<usize>,
    shared_expert_intermediate_size: Option<usize>,
    norm_topk_prob: Option<bool>,
    hc_count: Option<usize>,
    hc_lowrank: Option<usize>,
    indexer_n_heads: Option<usize>,
    indexer_kv_heads: Option<usize>,
    indexer_head_dim: Option<usize>,
    indexer_budget: Option<usize>,
    indexer_compress_ratio: Option<usize>,
    ple_layer_ids: Option<Vec<usize>>,
    ple_embed_dim: Option<usize>,
    ple_conv_kernel_size: Option<usize>,
    ngram_size: Option<usize>,
    heads_per_ngram: Option<usize>,
    ngram_vocab_size_base: Option<u64>,
    seed: Option<u64>,
    eos_token_id: Option<Value>,
}

#[derive(Deserialize, Default)]
struct Rope {
    rope_type: Option<String>,
    rope_theta: Option<f64>,
    partial_rotary_factor: Option<f64>,
}

/// Seed of the hash multipliers where the file states none.
const DEFAULT_SEED: u64 = 1234;

struct Reader<'a> {
    file: &'a str,
}

impl Reader<'_> {
    fn need<T>(&self, key: &str, value: Option<T>) -> Result<T, OpenError> {
        value.ok_or_else(|| OpenError::MissingKey { file: self.file.into(), key: key.into() })
    }

    fn refuse<T>(&self, key: &str, got: impl std::fmt::Display, rule: impl Into<String>) -> Result<T, OpenError> {
        Err(OpenError::Config { file: self.file.into(), key: key.into(), got: got.to_string(), rule: rule.into() })
    }

    /// A setting of which only one value is built.
    fn only<T: PartialEq + std::fmt::Display>(&self, key: &str, got: Option<T>, known: T) -> Result<(), OpenError> {
        match got {
            Some(got) if got != known => self.refuse(key, got, format!("only {known} is supported")),
            _ => Ok(()),
        }
    }
}

/// Reads the sizes from the sidecar `config.json`.
pub fn read(name: &str, checkpoint: &Checkpoint) -> Result<Config, OpenError> {
    let file = format!("{name}/config.json");
    let read = Reader { file: &file };
    let bytes = checkpoint.sidecar("config.json").map_err(OpenError::File)?;
    let Some(bytes) = bytes else { return Err(OpenError::NoConfig { file }) };
    let json = |error: serde_json::Error| OpenError::Json { file: file.clone(), error: error.to_string() };
    let root: Value = serde_json::from_slice(&bytes).map_err(json)?;
    let text = root.get("text_config").unwrap_or(&root);
    let model_type = |value: &Value| value.get("model_type").and_then(Value::as_str).map(str::to_owned);
    let name = read.need("model_type", model_type(text).or_else(|| model_type(&root)))?;
    let Some(arch) = Arch::by_name(&name, 0..2) else {
        return Err(OpenError::Architecture { file, got: name, known: Arch::known(0) });
    };
    let fields: Text = serde_json::from_value(text.clone()).map_err(json)?;
    let root_tied = root.get("tie_word_embeddings").and_then(Value::as_bool);
    build(&read, arch, fields, root_tied)
}

fn build(read: &Reader<'_>, arch: Arch, mut t: Text, root_tied: Option<bool>) -> Result<Config, OpenError> {
    let layers = layers(read, &mut t)?;
    read.only("attention_bias", t.attention_bias, false)?;
    read.only("attn_output_gate", t.attn_output_gate, true)?;
    read.only("hidden_act", t.hidden_act.clone(), "silu".to_owned())?;
    read.only("linear_conv_kernel_dim", t.linear_conv_kernel_dim, 4)?;
    let wide = arch == Arch::Qwen4Exp;
    Ok(Config {
        arch,
        vocab: read.need("vocab_size", t.vocab_size)?,
        hidden: read.need("hidden_size", t.hidden_size)?,
        context: read.need("max_position_embeddings", t.max_position_embeddings)?,
        eps: read.need("rms_norm_eps", t.rms_norm_eps)?,
        attention: attention(read, &t, wide)?,
        gdn: gdn(read, &t)?,
        feed_forward: if wide {
            FeedForward::Experts(ExpertSizes {
                count: read.need("num_experts", t.num_experts)?,
                used: read.need("num_experts_per_tok", t.num_experts_per_tok)?,
                inner: read.need("moe_intermediate_size", t.moe_intermediate_size)?,
                shared_inner: read.need("shared_expert_intermediate_size", t.shared_expert_intermediate_size)?,
                renormalise: t.norm_topk_prob.unwrap_or(true),
            })
        } else {
            FeedForward::Dense { inner: read.need("intermediate_size", t.intermediate_size)? }
        },
        streams: if wide {
            Some(StreamSizes {
                count: read.need("hc_count", t.hc_count)?,
                rank: read.need("hc_lowrank", t.hc_lowrank)?,
            })
        } else {
            None
        },
        ple: if wide { ple(read, &mut t)? } else { None },
        tied: t.tie_word_embeddings.or(root_tied).unwrap_or(false),
        layers,
    })
}

fn layers(read: &Reader<'_>, t: &mut Text) -> Result<Vec<LayerKind>, OpenError> {
    let count = read.need("num_hidden_layers", t.num_hidden_layers)?;
    if count > 1024 {
        return read.refuse("num_hidden_layers", count, "at most 1024");
    }
    if let Some(types) = t.layer_types.take() {
        if types.len() != count {
            return read.refuse("layer_types", format!("{} entries", types.len()), format!("there are {count} layers"));
        }
        let kind = |name: String| match name.as_str() {
            "linear_attention" => Ok(LayerKind::Gdn),
            "full_attention" | "indexed_attention" => Ok(LayerKind::Attention),
            _ => read.refuse("layer_types", name, "known are linear_attention, full_attention, indexed_attention"),
        };
        return types.into_iter().map(kind).collect();
    }
    let interval = read.need("full_attention_interval", t.full_attention_interval)?;
    if interval == 0 {
        return read.refuse("full_attention_interval", 0, "it must be at least 1");
    }
    Ok(by_interval(count, interval))
}

/// Layer i is attention when `i + 1` is a multiple of the interval.
pub(super) fn by_interval(count: usize, interval: usize) -> Vec<LayerKind> {
    let kind = |i: usize| if (i + 1).is_multiple_of(interval) { LayerKind::Attention } else { LayerKind::Gdn };
    (0..count).map(kind).collect()
}

fn attention(read: &Reader<'_>, t: &Text, wide: bool) -> Result<AttentionSizes, OpenError> {
    let none = Rope::default();
    let rope = t.rope_parameters.as_ref().unwrap_or(&none);
    read.only("rope_type", rope.rope_type.clone(), "default".to_owned())?;
    let head_dim = read.need("head_dim", t.head_dim)?;
    let factor = read.need("partial_rotary_factor", rope.partial_rotary_factor.or(t.partial_rotary_factor))?;
    if !(0.0..=1.0).contains(&factor) {
        return read.refuse("partial_rotary_factor", factor, "it must be from 0 to 1");
    }
    let qsa = match (wide, t.indexer_n_heads) {
        (true, Some(heads)) => {
            read.only("indexer_kv_heads", t.indexer_kv_heads, 1)?;
            Some(QsaSizes {
                heads,
                dim: read.need("indexer_head_dim", t.indexer_head_dim)?,
                budget: read.need("indexer_budget", t.indexer_budget)?,
                ratio: read.need("indexer_compress_ratio", t.indexer_compress_ratio)?,
            })
        }
        _ => None,
    };
    Ok(AttentionSizes {
        heads: read.need("num_attention_heads", t.num_attention_heads)?,
        kv_heads: read.need("num_key_value_heads", t.num_key_value_heads)?,
        head_dim,
        rotary: (head_dim as f64 * factor) as usize,
        theta: read.need("rope_theta", rope.rope_theta.or(t.rope_theta))?,
        qsa,
    })
}

fn gdn(read: &Reader<'_>, t: &Text) -> Result<GdnSizes, OpenError> {
    let head_dim = read.need("linear_key_head_dim", t.linear_key_head_dim)?;
    let value_dim = read.need("linear_value_head_dim", t.linear_value_head_dim)?;
    if head_dim != value_dim {
        return read.refuse("linear_value_head_dim", value_dim, format!("keys have {head_dim}: they must be equal"));
    }
    let gate = match t.output_gate_type.as_deref().or(t.hidden_act.as_deref()) {
        Some("sigmoid") => OutputGate::Sigmoid,
        Some("silu" | "swish") => OutputGate::Silu,
        Some(other) => return read.refuse("output_gate_type", other, "known are sigmoid and silu"),
        None => return read.need("output_gate_type", None),
    };
    Ok(GdnSizes {
        key_heads: read.need("linear_num_key_heads", t.linear_num_key_heads)?,
        value_heads: read.need("linear_num_value_heads", t.linear_num_value_heads)?,
        head_dim,
        gate,
    })
}

fn ple(read: &Reader<'_>, t: &mut Text) -> Result<Option<PleSizes>, OpenError> {
    let ids = t.ple_layer_ids.take().unwrap_or_default();
    if ids.is_empty() {
        return Ok(None);
    }
    if ids.contains(&0) {
        return read.refuse("ple_layer_ids", 0, "layers are numbered from 1 here");
    }
    let mut layers: Vec<usize> = ids.iter().map(|id| id - 1).collect();
    layers.sort_unstable();
    layers.dedup();
    let eos = match &t.eos_token_id {
        Some(Value::Array(list)) => list.first().cloned(), // as transformers does
        other => other.clone(),
    };
    let eos = eos.as_ref().and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok());
    Ok(Some(PleSizes {
        layers,
        dim: read.need("ple_embed_dim", t.ple_embed_dim)?,
        kernel: read.need("ple_conv_kernel_size", t.ple_conv_kernel_size)?,
        ngram: read.need("ngram_size", t.ngram_size)?,
        heads_per_ngram: read.need("heads_per_ngram", t.heads_per_ngram)?,
        eos: read.need("eos_token_id", eos)?,
        hash: PleHash::Derived {
            seed: t.seed.unwrap_or(DEFAULT_SEED),
            base: read.need("ngram_vocab_size_base", t.ngram_vocab_size_base)?,
        },
    }))
}
