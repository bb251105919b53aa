//! What sizes must satisfy, whichever file they come from: each message names the key, its value and the rule.

use super::{Config, FeedForward, LayerKind};
use crate::model::OpenError;
use varve_gpu::attn::MAX_DIM;
use varve_gpu::geometry::HEAD_DIM;
use varve_gpu::qsa::{HEAD_DIM as QSA_HEAD_DIM, INDEX_DIM, INDEX_HEADS, RATIO};

/// Most layers, far beyond any model.
const MAX_LAYERS: usize = 1024;
/// Most of any other size: products of two stay far below 2^64.
const MAX_SIZE: usize = 1 << 28;

struct Checker<'a> {
    file: &'a str,
}

impl Checker<'_> {
    fn rule(&self, key: &str, got: impl std::fmt::Display, holds: bool, rule: &str) -> Result<(), OpenError> {
        if holds {
            return Ok(());
        }
        Err(OpenError::Config { file: self.file.into(), key: key.into(), got: got.to_string(), rule: rule.into() })
    }

    fn size(&self, key: &str, n: usize) -> Result<(), OpenError> {
        self.rule(key, n, (1..=MAX_SIZE).contains(&n), "it must be from 1 to 268,435,456")
    }

    /// A width that kernels read four values at a time.
    fn width(&self, key: &str, n: usize) -> Result<(), OpenError> {
        self.size(key, n)?;
        self.rule(key, n, n.is_multiple_of(4), "kernels need a multiple of 4")
    }
}

/// Checks everything that no tensor shape shows.
pub fn check(file: &str, c: &Config) -> Result<(), OpenError> {
    let check = Checker { file };
    check.rule("number of layers", c.layers.len(), (1..=MAX_LAYERS).contains(&c.layers.len()), "from 1 to 1024")?;
    check.size("vocab_size", c.vocab)?;
    check.rule("vocab_size", c.vocab, u32::try_from(c.vocab).is_ok(), "ids have 32 bits")?;
    check.width("hidden_size", c.hidden)?;
    check.size("context length", c.context)?;
    check.rule("rms_norm_eps", c.eps, c.eps > 0.0 && c.eps.is_finite(), "it must be finite and above 0")?;
    attention(&check, c)?;
    gdn(&check, c)?;
    feed_forward(&check, &c.feed_forward)?;
    if let Some(streams) = &c.streams {
        check.rule("hc_count", streams.count, (2..=64).contains(&streams.count), "from 2 to 64 streams")?;
        check.width("hc_lowrank", streams.rank)?;
    }
    ple(&check, c)
}

fn attention(check: &Checker<'_>, c: &Config) -> Result<(), OpenError> {
    let a = &c.attention;
    check.size("num_attention_heads", a.heads)?;
    check.size("num_key_value_heads", a.kv_heads)?;
    let multiple = a.heads.is_multiple_of(a.kv_heads);
    check.rule("num_attention_heads", a.heads, multiple, "it must be a multiple of num_key_value_heads")?;
    check.width("head_dim", a.head_dim)?;
    check.rule(
        "head_dim",
        a.head_dim,
        a.head_dim <= MAX_DIM,
        "the attention kernel holds heads of up to 256 values",
    )?;
    let rotary = a.rotary.is_multiple_of(8) && (8..=a.head_dim).contains(&a.rotary);
    check.rule("rotary channels", a.rotary, rotary, "they must be a multiple of 8 within the head")?;
    check.rule("rope_theta", a.theta, a.theta > 1.0 && a.theta.is_finite(), "it must be finite and above 1")?;
    let Some(qsa) = &a.qsa else { return Ok(()) };
    let fixed = [
        ("indexer_n_heads", qsa.heads, INDEX_HEADS, "the kernels are made for 4 index heads"),
        ("indexer_head_dim", qsa.dim, INDEX_DIM, "the kernels are made for index keys of 128 values"),
        ("indexer_compress_ratio", qsa.ratio, RATIO, "the kernels are made for blocks of 4 tokens"),
        ("head_dim", a.head_dim, QSA_HEAD_DIM, "the kernels of block selection are made for heads of 256 values"),
    ];
    fixed.into_iter().try_for_each(|(key, got, made_for, rule)| check.rule(key, got, got == made_for, rule))?;
    check.rule("rotary channels", a.rotary, a.rotary <= qsa.dim, "they must fit in an index key")?;
    check.size("indexer_budget", qsa.budget)?;
    let whole = qsa.budget.is_multiple_of(qsa.ratio);
    check.rule("indexer_budget", qsa.budget, whole, "it must be a multiple of indexer_compress_ratio")
}

fn gdn(check: &Checker<'_>, c: &Config) -> Result<(), OpenError> {
    let g = &c.gdn;
    check.size("linear_num_key_heads", g.key_heads)?;
    check.size("linear_num_value_heads", g.value_heads)?;
    let multiple = g.value_heads.is_multiple_of(g.key_heads);
    check.rule("linear_num_value_heads", g.value_heads, multiple, "it must be a multiple of linear_num_key_heads")?;
    check.rule("linear_num_value_heads", g.value_heads, g.value_heads <= 8192, "at most 8192")?;
    check.width("linear_key_head_dim", g.head_dim)?;
    check.rule("linear_key_head_dim", g.head_dim, g.head_dim <= HEAD_DIM, "the state has room for heads of up to 128")
}

fn feed_forward(check: &Checker<'_>, feed_forward: &FeedForward) -> Result<(), OpenError> {
    match feed_forward {
        FeedForward::Dense { inner } => check.width("intermediate_size", *inner),
        FeedForward::Experts(e) => {
            check.rule("num_experts", e.count, (1..=1024).contains(&e.count), "from 1 to 1024 experts")?;
            let used = (1..=e.count.min(31)).contains(&e.used);
            let rule = format!("from 1 to 31, and no more than the {} experts there are", e.count);
            check.rule("num_experts_per_tok", e.used, used, &rule)?;
            check.width("moe_intermediate_size", e.inner)?;
            check.width("shared_expert_intermediate_size", e.shared_inner)
        }
    }
}

fn ple(check: &Checker<'_>, c: &Config) -> Result<(), OpenError> {
    let Some(p) = &c.ple else { return Ok(()) };
    check.rule("ple_layer_ids", "a list", c.streams.is_some(), "n-gram layers need residual streams")?;
    for &layer in &p.layers {
        let linear = c.layers.get(layer) == Some(&LayerKind::Gdn);
        check.rule("ple_layer_ids", layer + 1, linear, "it must be the one-based number of a linear layer")?;
    }
    check.rule("ngram_size", p.ngram, (2..=16).contains(&p.ngram), "from 2 to 16")?;
    check.rule("heads_per_ngram", p.heads_per_ngram, (1..=64).contains(&p.heads_per_ngram), "from 1 to 64")?;
    check.rule("ple_conv_kernel_size", p.kernel, (2..=16).contains(&p.kernel), "from 2 to 16 taps")?;
    check.width("ple_embed_dim", p.dim)?;
    let whole = p.dim.is_multiple_of(4 * p.heads());
    check.rule("ple_embed_dim", p.dim, whole, "each hash head must have a multiple of 4 values")?;
    check.rule("eos_token_id", p.eos, (p.eos as usize) < c.vocab, "it must be in the vocabulary")
}
