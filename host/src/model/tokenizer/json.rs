//! A tokenizer from a `tokenizer.json`.

use super::added::AddedToken;
use super::error::TokenizerError;
use super::parts::{Parts, check_id};
use crate::model::shortened;
use serde::Deserialize;
use std::collections::HashMap;
use tokenizers::{DecoderWrapper, NormalizerWrapper, PreTokenizerWrapper};

/// The parts of the file that matter here. Truncation, padding and the post-processor are not used: encoding adds no
/// tokens and leaves none out.
#[derive(Deserialize)]
struct File {
    #[serde(default)]
    added_tokens: Vec<Added>,
    normalizer: Option<NormalizerWrapper>,
    pre_tokenizer: Option<PreTokenizerWrapper>,
    decoder: Option<DecoderWrapper>,
    model: Model,
}

#[derive(Deserialize)]
struct Added {
    id: u32,
    content: String,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
    #[serde(default)]
    special: bool,
}

#[derive(Deserialize)]
struct Model {
    #[serde(rename = "type", default = "bpe")]
    kind: String,
    vocab: serde_json::Value, // a map for BPE; other models' forms must not stop their names from being reported
    #[serde(default)]
    merges: Vec<Merge>,
    dropout: Option<f32>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
    #[serde(default)]
    byte_fallback: bool,
    #[serde(default)]
    ignore_merges: bool,
}

fn bpe() -> String {
    "BPE".to_owned()
}

/// Older files hold a text with a space.
#[derive(Deserialize)]
#[serde(untagged)]
enum Merge {
    Pair((String, String)),
    Text(String),
}

/// Reads and checks the parts.
pub(super) fn parts(bytes: &[u8]) -> Result<Parts, TokenizerError> {
    let file: File = serde_json::from_slice(bytes)?;
    file.model.check()?;
    let pre_tokenizer = match (file.pre_tokenizer, &file.decoder) {
        (Some(pre_tokenizer), Some(DecoderWrapper::ByteLevel(_))) => pre_tokenizer,
        _ => return Err(unsupported("decoder", "not byte-level", "ByteLevel, with a pre_tokenizer")),
    };
    let vocab: HashMap<String, u32> = serde_json::from_value(file.model.vocab)?;
    let mut tokens: Vec<(String, u32)> = vocab.into_iter().collect();
    tokens.sort_unstable_by(|a, b| (a.1, &a.0).cmp(&(b.1, &b.0)));
    let added = added(file.added_tokens, &mut tokens)?;
    let largest = tokens.iter().map(|(token, id)| (token, *id)).chain(added.iter().map(|t| (&t.text, t.id)));
    let mut len = 0;
    for (token, id) in largest {
        check_id(token, u64::from(id))?;
        len = len.max(id as usize + 1);
    }
    let merges = file.model.merges.into_iter().enumerate().map(|(index, merge)| merge.pair(index));
    let merges = merges.collect::<Result<_, _>>()?;
    let (ignore_merges, normalizer) = (file.model.ignore_merges, file.normalizer);
    Ok(Parts { tokens, merges, ignore_merges, added, len, normalizer, pre_tokenizer })
}

/// The added tokens; those that the model's vocabulary lists too are taken out of it.
fn added(list: Vec<Added>, tokens: &mut Vec<(String, u32)>) -> Result<Vec<AddedToken>, TokenizerError> {
    let by_text: HashMap<&str, u32> = list.iter().map(|t| (t.content.as_str(), t.id)).collect();
    // The same text under another id stays, and is reported as a duplicate.
    tokens.retain(|(token, id)| by_text.get(token.as_str()) != Some(id));
    let mut added = Vec::with_capacity(list.len());
    for token in list {
        if token.single_word || token.lstrip || token.rstrip {
            let fault = "is matched by a rule (single_word, lstrip or rstrip) that is not supported";
            return Err(TokenizerError::Added { id: token.id, token: shortened(&token.content), fault });
        }
        added.push(AddedToken { id: token.id, text: token.content, special: token.special });
    }
    Ok(added)
}

impl Model {
    fn check(&self) -> Result<(), TokenizerError> {
        let set = |text: &Option<String>| text.as_ref().is_some_and(|t| !t.is_empty());
        if self.kind != "BPE" {
            return Err(unsupported("model", &self.kind, "BPE"));
        }
        if self.dropout.is_some_and(|p| p != 0.0) {
            return Err(unsupported("dropout", "on", "none: the same text must have the same tokens"));
        }
        if set(&self.continuing_subword_prefix) || set(&self.end_of_word_suffix) {
            return Err(unsupported("subword prefix or word suffix", "set", "none"));
        }
        if self.byte_fallback {
            return Err(unsupported("byte_fallback", "on", "off, with a byte-level alphabet"));
        }
        Ok(())
    }
}

impl Merge {
    fn pair(self, index: usize) -> Result<(String, String), TokenizerError> {
        match self {
            Self::Pair(pair) => Ok(pair),
            Self::Text(text) => match text.split_once(' ') {
                Some((left, right)) if !right.contains(' ') => Ok((left.to_owned(), right.to_owned())),
                _ => Err(TokenizerError::MergeForm { index, merge: shortened(&text) }),
            },
        }
    }
}

fn unsupported(what: &'static str, got: &str, wanted: &'static str) -> TokenizerError {
    TokenizerError::Unsupported { what, got: shortened(got), wanted }
}
