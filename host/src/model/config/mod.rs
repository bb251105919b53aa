//! Sizes of a model, checked: from the `config.json` of safetensors, or from the metadata of a GGUF file.

mod checks;
mod gguf;
mod gguf_keys;
mod hf;

use super::{Checkpoint, OpenError};
use crate::ops::delta_out_norm::OutputGate;

/// Architectures that are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arch {
    /// `qwen4_exp`: residual streams, n-gram PLE, QSA, experts. Qwen3.8-Flash-Next.
    Qwen4Exp,
    /// `qwen3_5`: one residual stream, dense feed forward.
    Qwen35,
}

impl Arch {
    /// All of them, by the names of HF (nested and text-only) and of GGUF.
    pub const NAMES: [(Self, [&'static str; 3]); 2] = [
        (Self::Qwen4Exp, ["qwen4_exp", "qwen4_exp_text", "qwen4exp"]),
        (Self::Qwen35, ["qwen3_5", "qwen3_5_text", "qwen35"]),
    ];

    fn by_name(name: &str, which: std::ops::Range<usize>) -> Option<Self> {
        Self::NAMES.iter().find(|(_, names)| names[which.clone()].contains(&name)).map(|(arch, _)| *arch)
    }

    fn known(which: usize) -> String {
        Self::NAMES.map(|(_, names)| names[which]).join(", ")
    }
}

/// What mixes tokens in a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerKind {
    /// Gated DeltaNet.
    Gdn,
    /// Gated softmax attention, with QSA where the model has it.
    Attention,
}

/// Sizes of the attention layers.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionSizes {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Values of a head.
    pub head_dim: usize,
    /// Rotating channels of a head, the first ones.
    pub rotary: usize,
    /// Base of the rotary frequencies.
    pub theta: f64,
    /// The block selection, where there is one.
    pub qsa: Option<QsaSizes>,
}

/// Sizes of the QSA indexer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QsaSizes {
    /// Index query heads.
    pub heads: usize,
    /// Values of an index key.
    pub dim: usize,
    /// Tokens of chosen blocks, in all.
    pub budget: usize,
    /// Tokens of a block.
    pub ratio: usize,
}

/// Sizes of the Gated DeltaNet layers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GdnSizes {
    /// Key heads.
    pub key_heads: usize,
    /// Value heads.
    pub value_heads: usize,
    /// Values of a head.
    pub head_dim: usize,
    /// Activation of the output gate.
    pub gate: OutputGate,
}

impl GdnSizes {
    /// Channels of the convolution: q, k and v heads.
    #[must_use]
    pub fn channels(&self) -> usize {
        (2 * self.key_heads + self.value_heads) * self.head_dim
    }

    /// Values of all value heads.
    #[must_use]
    pub fn value_width(&self) -> usize {
        self.value_heads * self.head_dim
    }
}

/// The feed-forward half of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedForward {
    /// SwiGLU.
    Dense {
        /// Its width.
        inner: usize,
    },
    /// Routed experts and a shared one.
    Experts(ExpertSizes),
}

/// Sizes of the experts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpertSizes {
    /// Experts.
    pub count: usize,
    /// Experts of a token.
    pub used: usize,
    /// Width of an expert.
    pub inner: usize,
    /// Width of the shared expert.
    pub shared_inner: usize,
    /// Whether the chosen weights are divided by their sum.
    pub renormalise: bool,
}

/// Sizes of the residual streams and their mixers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamSizes {
    /// Streams.
    pub count: usize,
    /// Low rank of the mixers.
    pub rank: usize,
}

/// The n-gram embedding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PleSizes {
    /// Layers that have it, from 0.
    pub layers: Vec<usize>,
    /// Values of a token's embedding.
    pub dim: usize,
    /// Taps of its convolution.
    pub kernel: usize,
    /// Longest n-gram; also the convolution's dilation.
    pub ngram: usize,
    /// Hash heads of each order.
    pub heads_per_ngram: usize,
    /// The token that cuts n-grams.
    pub eos: u32,
    /// Where the hash constants come from.
    pub hash: PleHash,
}

impl PleSizes {
    /// Hash heads: rows of the table for a token.
    #[must_use]
    pub fn heads(&self) -> usize {
        (self.ngram - 1) * self.heads_per_ngram
    }

    /// Rows of the convolution's window.
    #[must_use]
    pub fn window(&self) -> usize {
        (self.kernel - 1) * self.ngram
    }
}

/// Constants of the n-gram hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PleHash {
    /// As a GGUF file states them: multipliers, moduli, offsets.
    Stored {
        /// One for each token of an n-gram.
        multipliers: Vec<u64>,
        /// Table rows of each hash head.
        moduli: Vec<u64>,
        /// First table row of each hash head.
        offsets: Vec<u64>,
    },
    /// What they are derived from; safetensors may hold the constants as tensors, which are checked against it.
    Derived {
        /// `seed`.
        seed: u64,
        /// `ngram_vocab_size_base`.
        base: u64,
    },
}

/// Sizes of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Architecture.
    pub arch: Arch,
    /// Token ids.
    pub vocab: usize,
    /// Values of a token.
    pub hidden: usize,
    /// Kinds of the layers.
    pub layers: Vec<LayerKind>,
    /// Longest sequence the model was made for.
    pub context: usize,
    /// Added to mean squares.
    pub eps: f32,
    /// Attention layers.
    pub attention: AttentionSizes,
    /// Gated DeltaNet layers.
    pub gdn: GdnSizes,
    /// Feed forward.
    pub feed_forward: FeedForward,
    /// Residual streams, where there are several.
    pub streams: Option<StreamSizes>,
    /// N-gram embedding, where there is one.
    pub ple: Option<PleSizes>,
    /// Whether the head is the embedding.
    pub tied: bool,
}

impl Config {
    /// Reads and checks the sizes.
    ///
    /// # Errors
    /// [`OpenError`] names the file, the key and the value.
    pub fn read(checkpoint: &Checkpoint) -> Result<Self, OpenError> {
        let file = checkpoint.name();
        let config = match checkpoint.gguf() {
            Some(metadata) => gguf::read(&file, metadata, checkpoint)?,
            None => hf::read(&file, checkpoint)?,
        };
        checks::check(&file, &config)?;
        Ok(config)
    }

    /// Residual streams; 1 where there is no mixer.
    #[must_use]
    pub fn n_streams(&self) -> usize {
        self.streams.as_ref().map_or(1, |streams| streams.count)
    }

    /// Values of a token's residual: of all its streams.
    #[must_use]
    pub fn wide(&self) -> usize {
        self.n_streams() * self.hidden
    }
}
