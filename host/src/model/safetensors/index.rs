//! The index of a sharded checkpoint: `model.safetensors.index.json` names a file for each tensor.

use serde::de::IgnoredAny;

use super::json::Pairs;
use crate::model::LoadError;
use crate::model::ranges::MAX_TENSORS;

/// How index files end.
pub(in crate::model) const SUFFIX: &str = ".safetensors.index.json";
/// Largest index that is read, in bytes.
pub(in crate::model) const MAX_BYTES: u64 = super::MAX_HEADER;

const MAX_ENTRIES: usize = MAX_TENSORS as usize;

#[derive(serde::Deserialize)]
struct Json {
    #[serde(rename = "metadata")]
    _metadata: Option<IgnoredAny>,
    weight_map: Pairs<String, MAX_ENTRIES>,
}

/// Which shard holds which tensor.
pub(in crate::model) struct Index {
    /// File names, sorted, each once.
    pub shards: Vec<String>,
    /// Tensors with their index in `shards`, sorted by name.
    pub tensors: Vec<(String, usize)>,
}

/// Reads an index; `name` is what messages call it.
///
/// # Errors
/// JSON that is none, a tensor that is listed twice, a shard that is no plain file name.
pub(in crate::model) fn parse(name: &str, bytes: &[u8]) -> Result<Index, LoadError> {
    let json = |why: String| LoadError::Json { file: name.to_owned(), what: "index", why };
    let parsed: Json = serde_json::from_slice(bytes).map_err(|error| json(error.to_string()))?;
    let pairs = parsed.weight_map.0;
    let mut shards: Vec<String> = Vec::new();
    for (_, shard) in &pairs {
        // Shards of one index mostly come in runs: comparing with the last keeps the list short before it is sorted.
        if shards.last() != Some(shard) {
            if !is_plain(shard) {
                return Err(json(format!("`{}` is no file name beside the index", crate::model::shortened(shard))));
            }
            shards.push(shard.clone());
        }
    }
    shards.sort_unstable();
    shards.dedup();
    if shards.is_empty() {
        return Err(json("its weight_map is empty".to_owned()));
    }
    let at = |shard: &String| shards.binary_search(shard).unwrap_or_default(); // each is in the list
    let mut tensors: Vec<(String, usize)> = pairs
        .into_iter()
        .map(|(tensor, shard)| {
            let shard = at(&shard);
            (tensor, shard)
        })
        .collect();
    tensors.sort_unstable();
    Ok(Index { shards, tensors })
}

/// Whether `shard` names a safetensors file in the index's own folder.
fn is_plain(shard: &str) -> bool {
    shard.ends_with(".safetensors") && !shard.contains(['/', '\\', ':']) && !shard.contains(char::is_control)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn tensors_find_their_shard() {
        let text = r#"{"metadata":{"total_size":1},"weight_map":{"b":"y.safetensors","a":"x.safetensors","c":"y.safetensors"}}"#;
        let index = parse("i", text.as_bytes()).unwrap();
        assert_eq!(index.shards, ["x.safetensors", "y.safetensors"]);
        let tensors: Vec<_> = index.tensors.iter().map(|(name, shard)| (name.as_str(), *shard)).collect();
        assert_eq!(tensors, [("a", 0), ("b", 1), ("c", 1)]);
    }

    #[test]
    fn what_an_index_must_not_say_is_refused() {
        for (text, word) in [
            (r#"{"weight_map":{"a":"../x.safetensors"}}"#, "no file name"),
            (r#"{"weight_map":{"a":"/etc/x.safetensors"}}"#, "no file name"),
            (r#"{"weight_map":{"a":"x.bin"}}"#, "no file name"),
            (r#"{"weight_map":{"a":"x.safetensors","a":"y.safetensors"}}"#, "`a` appears twice"),
            (r#"{"weight_map":{}}"#, "empty"),
            (r#"{"weight_map":{"a":3}}"#, "`a`: invalid type"),
            (r#"{"metadata":{}}"#, "weight_map"),
            ("[1]", "index"),
            ("{", "EOF"),
        ] {
            let error = parse("i", text.as_bytes()).map(|_| ()).unwrap_err().to_string();
            assert!(error.starts_with("i: ") && error.contains(word), "{text}: {error}");
        }
    }
}
