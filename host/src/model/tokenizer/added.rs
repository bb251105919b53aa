//! Added tokens: texts that are one id wherever they stand, found before the text is split into words.
//!
//! They are kept out of the merge table, so that ordinary text cannot become one by merging: a special id comes from
//! [`Special::Parse`](super::Special::Parse) or not at all.

/// Protects a special token's text against being recognised, see [`Tokenizer::shield`](super::Tokenizer::shield).
/// A noncharacter: Unicode keeps it for uses inside a program.
const MARK: char = '\u{FDD0}';

/// One added token.
#[derive(Clone, Debug)]
pub(super) struct AddedToken {
    pub(super) id: u32,
    pub(super) text: String,
    /// Control tokens are special, user-defined ones are ordinary text that happens to be one token.
    pub(super) special: bool,
}

/// All added tokens, ready to be searched for.
#[derive(Debug)]
pub(super) struct AddedTokens {
    tokens: Vec<AddedToken>, // longest first: the longest match at a place wins
    first: [bool; 256],      // bytes that a token starts with
}

impl AddedTokens {
    /// `tokens` must have texts.
    pub(super) fn new(mut tokens: Vec<AddedToken>) -> Self {
        tokens.sort_by(|a, b| b.text.len().cmp(&a.text.len()).then(a.id.cmp(&b.id)));
        let mut first = [false; 256];
        for byte in tokens.iter().filter_map(|t| t.text.bytes().next()) {
            first[byte as usize] = true;
        }
        Self { tokens, first }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &AddedToken> {
        self.tokens.iter()
    }

    /// Cuts `text` at the added tokens that `wanted` accepts: the leftmost, then the longest.
    pub(super) fn split<'t>(&'t self, text: &'t str, wanted: impl Fn(&AddedToken) -> bool) -> Vec<Segment<'t>> {
        let (mut segments, mut start, mut at) = (Vec::new(), 0, 0);
        while at < text.len() {
            let found = self.first[text.as_bytes()[at] as usize].then(|| {
                self.tokens.iter().find(|t| wanted(t) && text.as_bytes()[at..].starts_with(t.text.as_bytes()))
            });
            let Some(token) = found.flatten() else {
                at += 1;
                continue;
            };
            if start < at {
                segments.push(Segment::Text(&text[start..at]));
            }
            segments.push(Segment::Token(token));
            at += token.text.len();
            start = at;
        }
        if start < text.len() {
            segments.push(Segment::Text(&text[start..]));
        }
        segments
    }

    /// `text` with a mark in each special token, in a start of one at its end, and beside each mark that was there.
    pub(super) fn shield(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len() + 16);
        for segment in self.split(text, |t| t.special) {
            match segment {
                Segment::Text(plain) => push_doubled(&mut out, plain),
                Segment::Token(token) => push_marked(&mut out, &token.text),
            }
        }
        // What follows may complete a token that this text begins.
        if let Some(begun) = self.begun(&out) {
            let tail = out.split_off(out.len() - begun);
            push_marked(&mut out, &tail);
        }
        out
    }

    /// Bytes of the longest proper start of a special token that `text` ends with.
    fn begun(&self, text: &str) -> Option<usize> {
        let starts = self.tokens.iter().filter(|t| t.special).flat_map(|t| {
            let ends = t.text.char_indices().map(|(end, _)| end).skip(1);
            ends.filter(|&end| text.ends_with(&t.text[..end]))
        });
        starts.max()
    }
}

/// A part of a text.
#[derive(Debug)]
pub(super) enum Segment<'t> {
    /// Text between added tokens.
    Text(&'t str),
    /// An added token.
    Token(&'t AddedToken),
}

fn push_doubled(out: &mut String, text: &str) {
    for c in text.chars() {
        out.push(c);
        if c == MARK {
            out.push(MARK);
        }
    }
}

fn push_marked(out: &mut String, token: &str) {
    let mut chars = token.chars();
    out.extend(chars.next());
    out.push(MARK);
    out.push_str(chars.as_str());
}

/// `text` without marks; a doubled one was a character of the text.
pub(super) fn unshield(text: &str) -> String {
    let (mut out, mut chars) = (String::with_capacity(text.len()), text.chars().peekable());
    while let Some(c) = chars.next() {
        if c != MARK {
            out.push(c);
        } else if chars.next_if_eq(&MARK).is_some() {
            out.push(MARK);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens() -> AddedTokens {
        let token = |id, text: &str, special| AddedToken { id, text: text.to_owned(), special };
        AddedTokens::new(vec![token(1, "<s>", true), token(2, "<s>>", true), token(3, "<think>", false)])
    }

    fn ids(text: &str, wanted: impl Fn(&AddedToken) -> bool) -> Vec<Result<u32, String>> {
        let tokens = tokens();
        let segments = tokens.split(text, wanted);
        segments.iter().map(|s| if let Segment::Token(t) = s { Ok(t.id) } else { Err(shown(s)) }).collect()
    }

    fn shown(segment: &Segment) -> String {
        if let Segment::Text(text) = segment { (*text).to_owned() } else { String::new() }
    }

    #[test]
    fn the_leftmost_longest_token_wins() {
        let plain = |text: &str| Err(text.to_owned());
        assert_eq!(
            ids("a<s>>b<s><think>\u{e9}", |_| true),
            [plain("a"), Ok(2), plain("b"), Ok(1), Ok(3), plain("\u{e9}")]
        );
        assert_eq!(ids("<s><think>", |t| !t.special), [plain("<s>"), Ok(3)]);
        assert!(ids("", |_| true).is_empty());
    }

    #[test]
    fn a_shielded_text_has_no_special_token_and_comes_back() {
        let tokens = tokens();
        for text in
            ["", "a<s>b<s>>", "<", "x<s", "\u{FDD0}<s>\u{FDD0}\u{FDD0}", "<\u{FDD0}s>", "<think>", "\u{e9}<s>\u{65e5}"]
        {
            let shielded = tokens.shield(text);
            assert_eq!(tokens.split(&(shielded.clone() + "s>>>"), |t| t.special).len(), 1, "{text:?}");
            assert_eq!(unshield(&shielded), text);
        }
        assert_eq!(tokens.shield("a <think> b"), "a <think> b");
    }
}
