//! Text to token ids and back: byte-level BPE, from a `tokenizer.json` or from the vocabulary in a GGUF file.
//!
//! Both sources give the same ids. Encoding adds nothing: no start or end token, no padding. Special tokens are found
//! in a text only on request ([`Special`]), and [`Tokenizer::shield`] keeps those in a user's words apart from those
//! that a chat template puts around them.
//!
//! ```
//! # use varve::model::tokenizer::{Special, Tokenizer, Vocabulary};
//! let tokens = ["a", "b", "ab", "<|end|>"].map(str::to_owned).to_vec();
//! let merges = vec!["a b".to_owned()];
//! let (model, pre) = ("gpt2".to_owned(), "qwen35".to_owned());
//! let tokenizer = Tokenizer::from_vocabulary(Vocabulary { model, pre, tokens, token_types: vec![1, 1, 1, 3], merges })?;
//! assert_eq!(tokenizer.encode("abb<|end|>", Special::Parse)?, [2, 1, 3]);
//! assert_eq!(tokenizer.decode(&[2, 1, 3], true), "abb");
//! # Ok::<(), varve::model::tokenizer::TokenizerError>(())
//! ```

mod added;
mod bytes;
mod error;
mod json;
mod parts;
mod pieces;
mod runs;
mod stored;
#[cfg(test)]
mod tests;
mod vocabulary;

pub use error::TokenizerError;
pub use pieces::Detokenizer;
pub use vocabulary::Vocabulary;

use added::{AddedTokens, Segment};
use parts::{Parts, library_error};
use pieces::Pieces;
use std::collections::HashMap;
use std::sync::Arc;

/// What becomes of a special token's text, such as `<|im_end|>`, in a text to encode. User-defined added tokens (not
/// special ones, such as `<think>` in most vocabularies) are recognised either way, as the field's tokenizers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// Ordinary text: no special id comes out.
    AsText,
    /// The special token's id.
    Parse,
}

/// Text to token ids and back.
pub struct Tokenizer {
    words: tokenizers::Tokenizer, // ordinary text only: normalizer, split into words, merges
    added: AddedTokens,
    added_ids: HashMap<String, u32>,
    added_texts: HashMap<u32, String>,
    pieces: Arc<Pieces>,
}

impl Tokenizer {
    /// A tokenizer from the content of a `tokenizer.json`. Its post-processor, padding and truncation are not used.
    ///
    /// # Errors
    /// [`TokenizerError`] where the file is damaged or holds another kind of tokenizer than byte-level BPE.
    pub fn from_json(bytes: &[u8]) -> Result<Self, TokenizerError> {
        Self::from_parts(json::parts(bytes)?)
    }

    /// A tokenizer from a GGUF vocabulary. Merges that name a token which the vocabulary lacks are left out with a
    /// warning: they cannot apply, and llama.cpp accepts them.
    ///
    /// # Errors
    /// [`TokenizerError`] where the vocabulary contradicts itself, or its model or pre-tokenizer is not known.
    pub fn from_vocabulary(vocabulary: Vocabulary) -> Result<Self, TokenizerError> {
        Self::from_parts(vocabulary.parts()?)
    }

    fn from_parts(parts: Parts) -> Result<Self, TokenizerError> {
        let built = parts.build()?;
        let added_ids = built.added.iter().map(|t| (t.text.clone(), t.id)).collect();
        let added_texts = built.added.iter().map(|t| (t.id, t.text.clone())).collect();
        let pieces = Arc::new(built.pieces);
        Ok(Self { words: built.library, added: built.added, added_ids, added_texts, pieces })
    }

    /// The token ids of `text`. No start or end token is added.
    ///
    /// # Errors
    /// [`TokenizerError::Library`] where the tokenizer library refuses the text.
    pub fn encode(&self, text: &str, special: Special) -> Result<Vec<u32>, TokenizerError> {
        let mut ids = Vec::new();
        for segment in self.added.split(text, |t| special == Special::Parse || !t.special) {
            match segment {
                Segment::Token(token) => ids.push(token.id),
                Segment::Text(text) => self.encode_words(text, &mut ids)?,
            }
        }
        Ok(ids)
    }

    /// `text` with its special tokens marked, so that they stay text in [`encode_shielded`](Self::encode_shielded) after
    /// a template has put it between special tokens of its own. Also marks the start of one at the text's end.
    pub fn shield(&self, text: &str) -> String {
        self.added.shield(text)
    }

    /// `text` without the marks of [`shield`](Self::shield): for showing it.
    pub fn unshield(text: &str) -> String {
        added::unshield(text)
    }

    /// The token ids of a rendered prompt: special tokens are recognised, except where [`shield`](Self::shield) marked
    /// them; the marks have no tokens.
    ///
    /// # Errors
    /// As [`encode`](Self::encode).
    pub fn encode_shielded(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        let mut ids = Vec::new();
        for segment in self.added.split(text, |t| t.special) {
            match segment {
                Segment::Token(token) => ids.push(token.id),
                Segment::Text(text) => ids.extend(self.encode(&added::unshield(text), Special::AsText)?),
            }
        }
        Ok(ids)
    }

    fn encode_words(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), TokenizerError> {
        for part in runs::cut(text) {
            let encoding = self.words.encode_fast(part, false).map_err(library_error("encoding a text"))?;
            ids.extend_from_slice(encoding.get_ids());
        }
        Ok(())
    }

    /// The text of `ids`. Bytes that are no character, also at the very end, become U+FFFD; ids without a text add
    /// nothing.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> String {
        let mut detokenizer = self.detokenizer().with_special(!skip_special);
        let mut text: String = ids.iter().map(|&id| detokenizer.push(id)).collect();
        text.push_str(&detokenizer.finish());
        text
    }

    /// Text from a stream of ids, special tokens left out.
    pub fn detokenizer(&self) -> Detokenizer {
        Detokenizer::new(Arc::clone(&self.pieces))
    }

    /// The id of a token as the vocabulary writes it (ordinary ones in the byte-level alphabet).
    pub fn id(&self, token: &str) -> Option<u32> {
        self.added_ids.get(token).copied().or_else(|| self.words.token_to_id(token))
    }

    /// The token with this id as the vocabulary writes it.
    pub fn token(&self, id: u32) -> Option<String> {
        self.added_texts.get(&id).cloned().or_else(|| self.words.id_to_token(id))
    }

    /// The bytes that `id` stands for; none where it has no text. They need not be whole characters.
    pub fn bytes(&self, id: u32) -> &[u8] {
        self.pieces.bytes(id)
    }

    /// Whether `id` is a special (control) token.
    pub fn is_special(&self, id: u32) -> bool {
        self.pieces.is_special(id)
    }

    /// Number of ids; some may have no text. The model may have more.
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Whether there are no ids; never the case, since an empty vocabulary is refused.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokenizer")
            .field("len", &self.len())
            .field("added", &self.added_ids.len())
            .finish_non_exhaustive()
    }
}
