//! A checked vocabulary, from which both file formats build the same tokenizer.

use super::added::{AddedToken, AddedTokens};
use super::bytes::append_bytes;
use super::error::TokenizerError;
use super::pieces::Pieces;
use crate::model::shortened;
use std::collections::HashMap;
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::{NormalizerWrapper, PreTokenizerWrapper, Tokenizer as Library};

/// Largest id of a token: bounds the tables that are indexed by it. The largest known vocabularies have 262,144 ids.
const MAX_ID: u32 = (1 << 22) - 1;

/// What a vocabulary consists of.
pub(super) struct Parts {
    /// Ordinary tokens in the byte-level alphabet, with their ids.
    pub(super) tokens: Vec<(String, u32)>,
    /// Pairs that are joined, first those that come first.
    pub(super) merges: Vec<(String, String)>,
    /// Take a word that is a token as it is, even if the merges do not lead to it.
    pub(super) ignore_merges: bool,
    /// Special and user-defined tokens.
    pub(super) added: Vec<AddedToken>,
    /// Ids of the vocabulary, with those that have no token; at least one more than the largest.
    pub(super) len: usize,
    /// Applied to ordinary text first.
    pub(super) normalizer: Option<NormalizerWrapper>,
    /// Cuts the text into words and maps their bytes to the byte-level alphabet.
    pub(super) pre_tokenizer: PreTokenizerWrapper,
}

/// A tokenizer's pieces: the merges, the added tokens, the bytes of each id.
pub(super) struct Built {
    pub(super) library: Library,
    pub(super) added: AddedTokens,
    pub(super) pieces: Pieces,
}

impl Parts {
    pub(super) fn build(self) -> Result<Built, TokenizerError> {
        let ids = self.check()?;
        for (index, (left, right)) in self.merges.iter().enumerate() {
            if let Some(missing) = missing(&ids, left, right) {
                let (left, right, missing) = (shortened(left), shortened(right), shortened(&missing));
                return Err(TokenizerError::MergeToken { index, left, right, missing });
            }
        }
        let mut entries = vec![(Vec::new(), false); self.len];
        for (token, id) in &self.tokens {
            append_bytes(token, &mut entries[*id as usize].0);
        }
        for token in &self.added {
            entries[token.id as usize] = (token.text.as_bytes().to_vec(), token.special);
        }
        let vocab: Vocab = self.tokens.into_iter().collect();
        let model = BPE::builder().vocab_and_merges(vocab, self.merges).ignore_merges(self.ignore_merges).build();
        let mut library = Library::new(model.map_err(library_error("building the merge table"))?);
        library.with_normalizer(self.normalizer).map_err(library_error("setting the normalizer"))?;
        library.with_pre_tokenizer(Some(self.pre_tokenizer));
        Ok(Built { library, added: AddedTokens::new(self.added), pieces: Pieces::new(entries) })
    }

    /// Checks ids and texts; returns the ids of ordinary tokens.
    pub(super) fn check(&self) -> Result<HashMap<&str, u32>, TokenizerError> {
        let all = || self.tokens.iter().map(|(t, id)| (t, *id)).chain(self.added.iter().map(|t| (&t.text, t.id)));
        if all().next().is_none() {
            return Err(TokenizerError::Empty);
        }
        let (mut ids, mut owners) = (HashMap::new(), HashMap::new());
        for (token, id) in all() {
            check_id(token, u64::from(id))?;
            if let Some(first) = ids.insert(token.as_str(), id) {
                let token = shortened(token);
                return Err(TokenizerError::DuplicateToken { token, first: first.min(id), second: first.max(id) });
            }
            if let Some(first) = owners.insert(id, token) {
                return Err(TokenizerError::DuplicateId { id, first: shortened(first), second: shortened(token) });
            }
        }
        if let Some(token) = self.added.iter().find(|t| t.text.is_empty()) {
            return Err(TokenizerError::Added { id: token.id, token: String::new(), fault: "has no text" });
        }
        Ok(self.tokens.iter().map(|(token, id)| (token.as_str(), *id)).collect())
    }
}

/// Checks an id before anything is sized by it.
pub(super) fn check_id(token: &str, id: u64) -> Result<(), TokenizerError> {
    if id <= u64::from(MAX_ID) {
        return Ok(());
    }
    Err(TokenizerError::IdOutside { token: shortened(token), id, limit: MAX_ID })
}

/// The part of a merge, or its result, that is no token.
pub(super) fn missing(ids: &HashMap<&str, u32>, left: &str, right: &str) -> Option<String> {
    let joined = format!("{left}{right}");
    [left, right, joined.as_str()].into_iter().find(|token| !ids.contains_key(token)).map(str::to_owned)
}

/// Wraps an error of the tokenizer library.
pub(super) fn library_error(what: &'static str) -> impl Fn(tokenizers::Error) -> TokenizerError {
    move |error| TokenizerError::Library { what, message: error.to_string() }
}
