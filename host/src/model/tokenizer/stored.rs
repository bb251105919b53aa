//! The content of a `tokenizer.json` as the vocabulary of a GGUF file.

use super::TokenizerError;
use super::json;
use super::parts::check_id;
use super::vocabulary::{Vocabulary, known_pre_tokenizers};
use serde_json::Value;

/// Token types of GGUF.
const NORMAL: i32 = 1;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;
const UNUSED: i32 = 5;

impl Vocabulary {
    /// The vocabulary that stands for this `tokenizer.json`, with a token for each of `ids` ids, or for all that it has.
    ///
    /// # Errors
    /// [`TokenizerError`] as of [`from_json`](super::Tokenizer::from_json), and for what GGUF has no name for.
    pub fn from_json(bytes: &[u8], ids: usize) -> Result<Self, TokenizerError> {
        let parts = json::parts(bytes)?;
        parts.check()?;
        let unsupported = |what, got: &str, wanted| TokenizerError::Unsupported { what, got: got.to_owned(), wanted };
        if parts.ignore_merges {
            return Err(unsupported("ignore_merges", "on", "off: GGUF files cannot say it"));
        }
        let normalizer = serde_json::to_value(&parts.normalizer)?;
        if !matches!(normalizer.get("type").and_then(Value::as_str), None | Some("NFC")) {
            return Err(unsupported("normalizer", "another", "NFC, as readers of GGUF files have it, or none"));
        }
        let words = comparable(serde_json::to_value(&parts.pre_tokenizer)?);
        let mut pre = None;
        for (name, known) in known_pre_tokenizers()? {
            if comparable(serde_json::to_value(known)?) == words {
                pre = Some(name.to_owned());
            }
        }
        let Some(pre) = pre else {
            return Err(unsupported(
                "pre-tokenizer",
                "of another pattern",
                "that of qwen2 or qwen35, which GGUF names",
            ));
        };
        let len = ids.max(parts.len);
        check_id("", len as u64 - 1)?;
        let mut tokens: Vec<String> = (0..len).map(|id| format!("[PAD{id}]")).collect();
        let mut token_types = vec![UNUSED; len];
        for (text, id) in parts.tokens {
            (tokens[id as usize], token_types[id as usize]) = (text, NORMAL);
        }
        for token in parts.added {
            let kind = if token.special { CONTROL } else { USER_DEFINED };
            (tokens[token.id as usize], token_types[token.id as usize]) = (token.text, kind);
        }
        let merges = parts.merges.into_iter().map(|(left, right)| format!("{left} {right}")).collect();
        Ok(Self { model: "gpt2".to_owned(), pre, tokens, token_types, merges })
    }
}

/// A pre-tokenizer without the setting that only concerns positions in the text.
fn comparable(mut value: Value) -> Value {
    if let Some(steps) = value.get_mut("pretokenizers").and_then(Value::as_array_mut) {
        for step in steps.iter_mut().filter_map(Value::as_object_mut) {
            step.shift_remove("trim_offsets");
        }
    }
    value
}
