//! Cuts texts with enormous runs of white space.
//!
//! The split pattern backtracks over such a run, and after a million steps the regex engine gives up: the library then
//! takes all the rest of the text for one word, silently. No text that a person wrote comes near the limit here.

/// Longest run of white space, in characters, that reaches the split pattern in one piece.
const MAX_RUN: usize = 1 << 18;

/// `text` in pieces without a longer run of white space than [`MAX_RUN`]; in one piece if it has none.
pub(super) fn cut(text: &str) -> Vec<&str> {
    if text.len() <= MAX_RUN {
        return vec![text];
    }
    let (mut pieces, mut start, mut run) = (Vec::new(), 0, 0);
    for (at, c) in text.char_indices() {
        run = if c.is_whitespace() { run + 1 } else { 0 };
        if run > MAX_RUN {
            pieces.push(&text[start..at]);
            (start, run) = (at, 1);
        }
    }
    pieces.push(&text[start..]);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_runs_are_cut() {
        let words = "a \u{3000}b".repeat(MAX_RUN);
        assert_eq!(cut(&words), [words.as_str()]);
        let text = format!("a{}b{}", " ".repeat(2 * MAX_RUN + 1), "\u{3000}".repeat(MAX_RUN));
        let pieces = cut(&text);
        assert_eq!(pieces.concat(), text);
        assert_eq!(pieces.iter().map(|p| p.chars().count()).collect::<Vec<_>>(), [MAX_RUN + 1, MAX_RUN, MAX_RUN + 2]);
        assert_eq!(cut(""), [""]);
    }
}
