//! The n-gram embedding: its hash constants, which GGUF files state, and the shards of its table.

use super::super::config::{Config, PleHash};
use super::super::ngram::NgramHash;
use super::super::{Checkpoint, DType, OpenError};
use super::hf::Names;

/// Where its tensors are, behind the name of the layer.
pub const TABLE: &str = "ple.ple_embedding.ngram_embedding.";

/// Names and rows of the table's shards; where there are none, the name of the first, which is missing then.
pub fn table(checkpoint: &Checkpoint, base: &str) -> Vec<(String, usize)> {
    let with_rows = |name: String| {
        let rows = checkpoint.tensor(&name).and_then(|tensor| tensor.shape.first().copied())?;
        Some((name, rows))
    };
    let shards = (0..).map(|shard| with_rows(format!("{base}shard_{shard}.weight"))).map_while(|shard| shard);
    let shards: Vec<_> = shards.collect();
    if !shards.is_empty() {
        return shards;
    }
    vec![with_rows(format!("{base}weight")).unwrap_or_else(|| (format!("{base}shard_0.weight"), 1))]
}

/// The constants of the model's one n-gram embedding; tensors that hold some must agree.
pub fn hash(names: &mut Names<'_>, config: &Config) -> Result<Option<NgramHash>, OpenError> {
    let Some(sizes) = &config.ple else { return Ok(None) };
    let (seed, base) = match &sizes.hash {
        PleHash::Derived { seed, base } => (*seed, *base),
        PleHash::Stored { multipliers, moduli, offsets } => {
            let (multipliers, moduli, offsets) = (multipliers.clone(), moduli.clone(), offsets.clone());
            return Ok(Some(NgramHash { multipliers, moduli, offsets, eos: sizes.eos }));
        }
    };
    let hash = NgramHash::derive(0, sizes.ngram, sizes.heads_per_ngram, config.vocab, (seed, base), sizes.eos);
    let layer = sizes.layers.first().copied().unwrap_or_default();
    let constants = [
        ("layer_multipliers", &hash.multipliers),
        ("ngram_heads_vocab_sizes", &hash.moduli),
        ("ngram_heads_offsets", &hash.offsets),
    ];
    for (what, derived) in constants {
        let name = format!("{}layers.{layer}.ple.ple_embedding.{what}", names.prefix);
        if names.checkpoint.tensor(&name).is_none() {
            continue;
        }
        let Some(tensor) = names.find(&name, &[derived.len()])? else { continue };
        let stored: Vec<u64> =
            names.checkpoint.bytes(tensor).as_chunks().0.iter().map(|&b| u64::from_le_bytes(b)).collect();
        if tensor.dtype != DType::I64 || stored != *derived {
            let what = format!("tensor `{name}` does not hold what seed {seed} and base {base} give: {derived:?}");
            return Err(OpenError::Contradiction { file: names.checkpoint.name(), what });
        }
    }
    Ok(Some(hash))
}
