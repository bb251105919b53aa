//! A tokenizer from a vocabulary as GGUF files store it.

use super::added::AddedToken;
use super::error::TokenizerError;
use super::parts::{Parts, check_id, missing};
use crate::model::shortened;
use std::collections::HashMap;
use tokenizers::normalizers::unicode::NFC;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{PreTokenizerWrapper, SplitDelimiterBehavior};

/// A vocabulary as the `tokenizer.ggml.*` keys of a GGUF file hold it.
#[derive(Clone, Debug, Default)]
pub struct Vocabulary {
    /// `tokenizer.ggml.model`: `gpt2` is byte-level BPE.
    pub model: String,
    /// `tokenizer.ggml.pre`: how text is cut into words, `qwen2` or `qwen35`.
    pub pre: String,
    /// `tokenizer.ggml.tokens`: texts by id, ordinary ones in the byte-level alphabet.
    pub tokens: Vec<String>,
    /// `tokenizer.ggml.token_type`: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused; empty if all are normal.
    pub token_types: Vec<i32>,
    /// `tokenizer.ggml.merges`: two tokens and a space between them each.
    pub merges: Vec<String>,
}

/// Words of Qwen2 and Qwen3: a letter run, a single digit, a run of other signs, line ends, spaces.
const QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Words of Qwen3.5: as before, but combining marks belong to letters and not to other signs.
const QWEN35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

impl Vocabulary {
    /// The parts of the tokenizer. Merges that name a token which the vocabulary lacks can never apply; they are left
    /// out, and the log says how many.
    pub(super) fn parts(self) -> Result<Parts, TokenizerError> {
        if self.model != "gpt2" {
            let (what, wanted) = ("model", "gpt2 (byte-level BPE)");
            return Err(TokenizerError::Unsupported { what, got: shortened(&self.model), wanted });
        }
        let pre_tokenizer = pre_tokenizer(&self.pre)?;
        let len = self.tokens.len();
        if let Some(last) = self.tokens.last() {
            check_id(last, len as u64 - 1)?;
        }
        if !self.token_types.is_empty() && self.token_types.len() != len {
            let (what, got) = ("token types", self.token_types.len());
            return Err(TokenizerError::Length { what, got, tokens: len });
        }
        let types = self.token_types.into_iter().chain(std::iter::repeat(1));
        let (mut tokens, mut added) = (Vec::with_capacity(len), Vec::new());
        for ((id, text), token_type) in (0..).zip(self.tokens).zip(types) {
            match token_type {
                1 => tokens.push((text, id)),
                2..=4 => added.push(AddedToken { id, text, special: token_type != 4 }),
                5 => {} // fills the list up to the model's number of ids
                got => return Err(TokenizerError::TokenType { id, token: shortened(&text), got }),
            }
        }
        let merges = usable_merges(&tokens, &self.merges)?;
        let normalizer = Some(NFC.into());
        Ok(Parts { tokens, merges, ignore_merges: false, added, len, normalizer, pre_tokenizer })
    }
}

/// The merges as pairs, without those that name an unknown token.
fn usable_merges(tokens: &[(String, u32)], merges: &[String]) -> Result<Vec<(String, String)>, TokenizerError> {
    let ids: HashMap<&str, u32> = tokens.iter().map(|(token, id)| (token.as_str(), *id)).collect();
    let (mut usable, mut left_out) = (Vec::with_capacity(merges.len()), 0);
    for (index, merge) in merges.iter().enumerate() {
        let pair = merge.split_once(' ').filter(|(l, r)| !l.is_empty() && !r.is_empty() && !r.contains(' '));
        let Some((left, right)) = pair else {
            return Err(TokenizerError::MergeForm { index, merge: shortened(merge) });
        };
        match missing(&ids, left, right) {
            None => usable.push((left.to_owned(), right.to_owned())),
            Some(token) => {
                if left_out == 0 {
                    tracing::warn!(
                        index,
                        token = shortened(&token),
                        "a merge of the vocabulary names an unknown token"
                    );
                }
                left_out += 1;
            }
        }
    }
    if left_out > 0 {
        tracing::warn!(left_out, of = merges.len(), "merges that name unknown tokens are not used");
    }
    Ok(usable)
}

/// The pre-tokenizers that GGUF files name, by their names.
pub(super) fn known_pre_tokenizers() -> Result<Vec<(&'static str, PreTokenizerWrapper)>, TokenizerError> {
    ["qwen2", "qwen35"].into_iter().map(|pre| Ok((pre, pre_tokenizer(pre)?))).collect()
}

/// Cuts text into words as `pre` says, and maps their bytes.
fn pre_tokenizer(pre: &str) -> Result<PreTokenizerWrapper, TokenizerError> {
    let pattern = match pre {
        "qwen2" => QWEN2,
        "qwen35" => QWEN35,
        _ => {
            let (what, wanted) = ("pre-tokenizer", "qwen2 or qwen35");
            return Err(TokenizerError::Unsupported { what, got: shortened(pre), wanted });
        }
    };
    let split = Split::new(SplitPattern::Regex(pattern.to_owned()), SplitDelimiterBehavior::Isolated, false)
        .map_err(super::parts::library_error("compiling the split pattern"))?;
    let byte_level = ByteLevel::default().add_prefix_space(false).use_regex(false);
    Ok(Sequence::new(vec![split.into(), byte_level.into()]).into())
}
