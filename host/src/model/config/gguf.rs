//! Metadata of a GGUF file, under the keys of its architecture.

use super::hf::by_interval;
use super::{
    Arch, AttentionSizes, Config, ExpertSizes, FeedForward, GdnSizes, LayerKind, PleHash, PleSizes, QsaSizes,
    StreamSizes,
};
use crate::model::{Checkpoint, FromValue, LoadError, Metadata, OpenError, Strings};
use crate::ops::delta_out_norm::OutputGate;

/// Tokens of an index block where a file says 0 for every layer, as converters do that know only the name
/// `full_attention`: the value of every released model.
const RATIO: usize = 4;

struct Keys<'a> {
    file: &'a str,
    arch: &'a str,
    metadata: &'a Metadata,
}

impl<'a> Keys<'a> {
    fn need<T: FromValue<'a>>(&self, key: &str) -> Result<T, LoadError> {
        self.metadata.need(&format!("{}.{key}", self.arch))
    }

    fn find<T: FromValue<'a>>(&self, key: &str) -> Result<Option<T>, LoadError> {
        self.metadata.find(&format!("{}.{key}", self.arch))
    }

    fn refuse<T>(&self, key: &str, got: impl std::fmt::Display, rule: impl Into<String>) -> Result<T, OpenError> {
        let key = format!("{}.{key}", self.arch);
        Err(OpenError::Config { file: self.file.into(), key, got: got.to_string(), rule: rule.into() })
    }
}

/// Reads the sizes.
pub fn read(file: &str, metadata: &Metadata, checkpoint: &Checkpoint) -> Result<Config, OpenError> {
    let name: &str = metadata.need("general.architecture")?;
    let Some(arch) = Arch::by_name(name, 2..3) else {
        return Err(OpenError::Architecture { file: file.into(), got: name.into(), known: Arch::known(2) });
    };
    let keys = Keys { file, arch: name, metadata };
    let layers = layers(&keys, checkpoint)?;
    let wide = arch == Arch::Qwen4Exp;
    let conv: usize = keys.need("ssm.conv_kernel")?;
    if conv != 4 {
        return keys.refuse("ssm.conv_kernel", conv, "only 4 is supported");
    }
    let embedding = checkpoint.tensor("token_embd.weight").and_then(|tensor| tensor.shape.first().copied());
    let tokens = metadata.find::<&Strings>("tokenizer.ggml.tokens")?.map(Strings::len);
    Ok(Config {
        arch,
        // The vocabulary's size is the embedding's; without that tensor the load fails by its name.
        vocab: embedding.or(tokens).unwrap_or(1),
        hidden: keys.need("embedding_length")?,
        context: keys.need("context_length")?,
        eps: keys.need("attention.layer_norm_rms_epsilon")?,
        attention: attention(&keys, &layers, wide)?,
        gdn: gdn(&keys, wide)?,
        feed_forward: if wide {
            FeedForward::Experts(ExpertSizes {
                count: keys.need("expert_count")?,
                used: keys.need("expert_used_count")?,
                inner: keys.need("expert_feed_forward_length")?,
                shared_inner: keys.need("expert_shared_feed_forward_length")?,
                renormalise: true,
            })
        } else {
            FeedForward::Dense { inner: keys.need("feed_forward_length")? }
        },
        streams: if wide {
            Some(StreamSizes {
                count: keys.need("hyper_connection.count")?,
                rank: keys.need("hyper_connection.low_rank")?,
            })
        } else {
            None
        },
        ple: if wide { ple(&keys)? } else { None },
        tied: checkpoint.tensor("output.weight").is_none(),
        layers,
    })
}

fn layers(keys: &Keys<'_>, checkpoint: &Checkpoint) -> Result<Vec<LayerKind>, OpenError> {
    let blocks: usize = keys.need("block_count")?;
    let drafts: usize = keys.find("nextn_predict_layers")?.unwrap_or(0);
    let tensors = checkpoint.tensors().count();
    if blocks > tensors {
        let last = checkpoint.tensors().filter_map(|tensor| block_of(&tensor.name)).max();
        let have = last.map_or("no layer".into(), |last| format!("layers up to {last}"));
        return keys.refuse("block_count", blocks, format!("the file's {tensors} tensors are of {have}"));
    }
    let Some(count) = blocks.checked_sub(drafts).filter(|&count| count > 0) else {
        return keys.refuse("block_count", blocks, format!("{drafts} of them are draft layers"));
    };
    if let Some(recurrent) = keys.find::<&[bool]>("attention.recurrent_layers")? {
        if recurrent.len() < count {
            let got = format!("{} entries", recurrent.len());
            return keys.refuse("attention.recurrent_layers", got, format!("there are {count} layers"));
        }
        let kind = |&recurrent: &bool| if recurrent { LayerKind::Gdn } else { LayerKind::Attention };
        return Ok(recurrent[..count].iter().map(kind).collect());
    }
    let interval: usize = keys.need("full_attention_interval")?;
    if interval == 0 {
        return keys.refuse("full_attention_interval", 0, "it must be at least 1");
    }
    Ok(by_interval(count, interval))
}

/// The layer of a tensor named `blk.N.` something.
fn block_of(name: &str) -> Option<usize> {
    name.strip_prefix("blk.")?.split('.').next()?.parse().ok()
}

fn attention(keys: &Keys<'_>, layers: &[LayerKind], wide: bool) -> Result<AttentionSizes, OpenError> {
    let head_dim: usize = keys.need("attention.key_length")?;
    let value_dim: usize = keys.need("attention.value_length")?;
    if value_dim != head_dim {
        return keys.refuse("attention.value_length", value_dim, format!("keys have {head_dim}: they must be equal"));
    }
    Ok(AttentionSizes {
        heads: keys.need("attention.head_count")?,
        kv_heads: keys.need("attention.head_count_kv")?,
        head_dim,
        rotary: keys.need("rope.dimension_count")?,
        theta: keys.need::<f32>("rope.freq_base")?.into(),
        qsa: if wide { qsa(keys, layers)? } else { None },
    })
}

fn qsa(keys: &Keys<'_>, layers: &[LayerKind]) -> Result<Option<QsaSizes>, OpenError> {
    let Some(heads) = keys.find("attention.indexer.head_count")? else { return Ok(None) };
    let ratios: Vec<usize> = keys.need("attention.compress_ratios")?;
    let attention = layers.iter().zip(&ratios).filter(|(kind, _)| **kind == LayerKind::Attention);
    let mut stated: Vec<usize> = attention.map(|(_, &ratio)| ratio).filter(|&ratio| ratio > 0).collect();
    stated.sort_unstable();
    stated.dedup();
    let ratio = match stated[..] {
        [] => {
            tracing::info!("{}: no layer states its compress ratio; index blocks have {RATIO} tokens", keys.file);
            RATIO
        }
        [ratio] => ratio,
        _ => return keys.refuse("attention.compress_ratios", format!("{stated:?}"), "they must be equal"),
    };
    Ok(Some(QsaSizes {
        heads,
        dim: keys.need("attention.indexer.key_length")?,
        budget: keys.need("attention.indexer.top_k")?,
        ratio,
    }))
}

fn gdn(keys: &Keys<'_>, wide: bool) -> Result<GdnSizes, OpenError> {
    let head_dim: usize = keys.need("ssm.state_size")?;
    let value_heads: usize = keys.need("ssm.time_step_rank")?;
    let inner: usize = keys.need("ssm.inner_size")?;
    if value_heads.checked_mul(head_dim) != Some(inner) {
        let rule = format!("it must be {value_heads} value heads of {head_dim}");
        return keys.refuse("ssm.inner_size", inner, rule);
    }
    let gate = if wide { OutputGate::Sigmoid } else { OutputGate::Silu };
    Ok(GdnSizes { key_heads: keys.need("ssm.group_count")?, value_heads, head_dim, gate })
}

fn ple(keys: &Keys<'_>) -> Result<Option<PleSizes>, OpenError> {
    let Some(layers) = keys.find::<Vec<usize>>("ple.layers")?.filter(|layers| !layers.is_empty()) else {
        return Ok(None);
    };
    let ngram: usize = keys.need("ple.ngram_size")?;
    let heads_per_ngram: usize = keys.need("ple.heads_per_ngram")?;
    let heads = ngram.saturating_sub(1).saturating_mul(heads_per_ngram);
    let width: usize = keys.need("embedding_length_per_layer_input")?;
    let constants = |key: &str, count: usize| {
        let values: Vec<u64> = keys.need(key)?;
        if values.len() != count {
            return keys.refuse(key, format!("{} values", values.len()), format!("there must be {count}"));
        }
        Ok(values)
    };
    Ok(Some(PleSizes {
        layers,
        dim: width.saturating_mul(heads),
        kernel: keys.need("ple.conv_kernel")?,
        ngram,
        heads_per_ngram,
        eos: keys.need("ple.eos_token_id")?,
        hash: PleHash::Stored {
            multipliers: constants("ple.layer_multipliers", ngram)?,
            moduli: constants("ple.head_vocab_sizes", heads)?,
            offsets: constants("ple.head_offsets", heads)?,
        },
    }))
}
