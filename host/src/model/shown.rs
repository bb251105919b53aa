//! Text from files, made fit for a terminal.

/// Most characters of a name or value that a message repeats.
const LONGEST: usize = 120;
/// Most characters of another library's message, which may repeat the file.
const LONGEST_REASON: usize = 400;

/// `text` with every character escaped that would not print as itself (control characters, line ends, marks that turn
/// the writing direction), whole. A backslash stays, so that doing it twice changes nothing.
#[must_use]
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\'' | '\\' => out.push(c),
            _ => out.extend(c.escape_debug()),
        }
    }
    out
}

/// As [`printable`], but no longer than a message can bear.
#[must_use]
pub fn shortened(text: &str) -> String {
    cut(text, LONGEST)
}

/// As [`shortened`], for a whole message.
pub(super) fn reason(text: &str) -> String {
    cut(text, LONGEST_REASON)
}

fn cut(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{}.. ({} bytes)", printable(&text[..end]), text.len()),
        None => printable(text),
    }
}

/// What messages call the file at `path`.
#[must_use]
pub fn path_name(path: &std::path::Path) -> String {
    printable(&path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_move_the_cursor_is_escaped() {
        assert_eq!(printable("a\u{1b}[2J\n\"b\" 'c' \u{202e}é"), "a\\u{1b}[2J\\n\"b\" 'c' \\u{202e}é");
    }

    #[test]
    fn long_text_is_cut_at_a_character() {
        let long = "é".repeat(500);
        let shown = shortened(&long);
        assert!(shown.starts_with('é') && shown.ends_with(".. (1000 bytes)"), "{shown}");
        assert!(shown.chars().count() < 140);
        assert_eq!(shortened("short"), "short");
    }
}
