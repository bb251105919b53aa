//! The text side of a Hugging Face checkpoint as metadata: vocabulary, chat template, the tokens that end a reply.

use super::super::text::Sidecars;
use super::super::tokenizer::Vocabulary;
use super::super::{Array, Checkpoint, OpenError, Strings, Value};

/// Keys of the tokens that end a reply: GGUF files have two.
const STOPS: [&str; 2] = ["tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"];

/// Keys and values for a model of `vocab` ids.
pub fn keys(checkpoint: &Checkpoint, vocab: usize) -> Result<Vec<(String, Value)>, OpenError> {
    let Sidecars { tokenizer, template, stop_ids } = Sidecars::read(checkpoint)?;
    let vocabulary = Vocabulary::from_json(&tokenizer, vocab).map_err(|error| OpenError::Tokenizer {
        file: format!("{}/tokenizer.json", checkpoint.name()),
        error: error.to_string(),
    })?;
    let strings = |items: &[String]| {
        let mut strings = Strings::with_capacity(items.len(), items.iter().map(String::len).sum());
        items.iter().for_each(|item| strings.push(item));
        Value::Array(Array::Strings(strings))
    };
    let mut keys = vec![
        ("tokenizer.ggml.model", Value::String(vocabulary.model)),
        ("tokenizer.ggml.pre", Value::String(vocabulary.pre)),
        ("tokenizer.ggml.tokens", strings(&vocabulary.tokens)),
        ("tokenizer.ggml.token_type", Value::Array(Array::I32(vocabulary.token_types))),
        ("tokenizer.ggml.merges", strings(&vocabulary.merges)),
    ];
    keys.extend(STOPS.into_iter().zip(stop_ids.iter().map(|&id| Value::U32(id))));
    if stop_ids.len() > STOPS.len() {
        let file = checkpoint.name();
        tracing::warn!("{file}: of the tokens {stop_ids:?} that end a reply, a GGUF file holds the first two");
    }
    keys.extend(template.map(|template| ("tokenizer.chat_template", Value::String(template))));
    Ok(keys.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}
