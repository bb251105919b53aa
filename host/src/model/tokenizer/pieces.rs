//! What each token id stands for, and text from a stream of ids.

use std::sync::Arc;

/// The bytes of every token, by id. Ids without a text (unused ones) have none.
#[derive(Debug)]
pub(super) struct Pieces {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    special: Vec<bool>,
}

impl Pieces {
    /// Pieces of ids `0..entries.len()`; an entry is the bytes and whether the token is special.
    pub(super) fn new(entries: Vec<(Vec<u8>, bool)>) -> Self {
        let mut pieces = Self {
            bytes: Vec::new(),
            ends: Vec::with_capacity(entries.len()),
            special: Vec::with_capacity(entries.len()),
        };
        for (bytes, special) in entries {
            pieces.bytes.extend_from_slice(&bytes);
            pieces.ends.push(pieces.bytes.len());
            pieces.special.push(special);
        }
        pieces
    }

    /// Number of ids.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The bytes of `id`; none where it has no text or is outside the vocabulary.
    pub(super) fn bytes(&self, id: u32) -> &[u8] {
        let id = id as usize;
        let Some(&end) = self.ends.get(id) else { return &[] };
        let start = if id == 0 { 0 } else { self.ends[id - 1] };
        &self.bytes[start..end]
    }

    /// Whether `id` is a special token.
    pub(super) fn is_special(&self, id: u32) -> bool {
        self.special.get(id as usize).copied().unwrap_or(false)
    }
}

/// Turns a stream of token ids into text: what [`push`](Self::push) and [`finish`](Self::finish) return is, joined,
/// what [`Tokenizer::decode`](super::Tokenizer::decode) makes of all the ids.
///
/// A character whose bytes are spread over tokens comes with the token that completes it. Bytes that cannot become a
/// character are U+FFFD as soon as that is certain. Special tokens are left out, unless
/// [`with_special`](Self::with_special) says otherwise; ids without a text add nothing.
#[derive(Clone, Debug)]
pub struct Detokenizer {
    pieces: Arc<Pieces>,
    skip_special: bool,
    pending: Vec<u8>, // the start of a character, at most 3 bytes between calls
}

impl Detokenizer {
    pub(super) fn new(pieces: Arc<Pieces>) -> Self {
        Self { pieces, skip_special: true, pending: Vec::new() }
    }

    /// The same, with special tokens' texts kept (`true`) or left out.
    #[must_use]
    pub fn with_special(mut self, keep: bool) -> Self {
        self.skip_special = !keep;
        self
    }

    /// Takes the next id and returns the text that is certain by now; often none.
    pub fn push(&mut self, id: u32) -> String {
        if self.skip_special && self.pieces.is_special(id) {
            return String::new();
        }
        self.pending.extend_from_slice(self.pieces.bytes(id));
        let mut text = String::new();
        let mut done = 0;
        loop {
            match std::str::from_utf8(&self.pending[done..]) {
                Ok(rest) => {
                    text.push_str(rest);
                    done = self.pending.len();
                    break;
                }
                Err(error) => {
                    let valid = done + error.valid_up_to();
                    text.push_str(&String::from_utf8_lossy(&self.pending[done..valid]));
                    done = valid;
                    let Some(wrong) = error.error_len() else { break }; // the start of a character: wait for the rest
                    text.push(char::REPLACEMENT_CHARACTER);
                    done += wrong;
                }
            }
        }
        self.pending.drain(..done);
        text
    }

    /// Ends the stream: the start of a character that never was completed becomes U+FFFD. Usable again afterwards.
    pub fn finish(&mut self) -> String {
        let text = String::from_utf8_lossy(&self.pending).into_owned();
        self.pending.clear();
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detokenizer(pieces: &[(&[u8], bool)]) -> Detokenizer {
        Detokenizer::new(Arc::new(Pieces::new(pieces.iter().map(|(b, s)| (b.to_vec(), *s)).collect())))
    }

    #[test]
    fn a_character_comes_whole() {
        let mut d = detokenizer(&[(b"a", false), (b"\xF0\x9F", false), (b"\x99", false), (b"\x82!", false)]);
        assert_eq!([0, 1, 2, 3].map(|id| d.push(id)), ["a", "", "", "\u{1F642}!"]);
        assert_eq!(d.finish(), "");
    }

    #[test]
    fn wrong_bytes_are_replaced_as_soon_as_certain() {
        let mut d = detokenizer(&[(b"\xE2\x82", false), (b"x", false), (b"\xFF", false)]);
        assert_eq!([0, 1, 2, 0].map(|id| d.push(id)), ["", "\u{FFFD}x", "\u{FFFD}", ""]);
        assert_eq!(d.finish(), "\u{FFFD}");
        assert_eq!(d.finish(), "");
    }

    #[test]
    fn special_tokens_are_skipped_on_request() {
        let d = detokenizer(&[(b"<s>", true), (b"a", false), (b"", false)]);
        let (mut without, mut with) = (d.clone(), d.with_special(true));
        assert_eq!([0, 1, 2, 99].map(|id| without.push(id)).concat(), "a");
        assert_eq!([0, 1, 2, 99].map(|id| with.push(id)).concat(), "<s>a");
    }
}
