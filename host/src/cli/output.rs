//! Rows on stdout: text for people, or one JSON object a line.

use std::io::{self, Write};

use serde::Serialize;

/// Where results go.
pub struct Output {
    json: bool,
}

impl Output {
    /// Text, or JSON.
    pub fn new(json: bool) -> Self {
        Self { json }
    }

    /// Whether rows are JSON objects.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// One result: the object as JSON, or `text` with a newline.
    ///
    /// # Errors
    /// What stdout says, a closed pipe among it.
    pub fn row(&self, object: &impl Serialize, text: impl FnOnce() -> String) -> io::Result<()> {
        let line = if self.json { serde_json::to_string(object)? } else { text() };
        self.line(&line)
    }

    /// One line as it is.
    ///
    /// # Errors
    /// What stdout says, a closed pipe among it.
    pub fn line(&self, line: &str) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(line.as_bytes())?;
        stdout.write_all(b"\n")?;
        stdout.flush() // a reader of rows sees each as it comes
    }
}

/// `1234567` as `1,234,567`.
pub fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_come_in_threes() {
        let written: Vec<String> = [0, 12, 123, 1_234, 123_456, 1_234_567].into_iter().map(thousands).collect();
        assert_eq!(written, ["0", "12", "123", "1,234", "123,456", "1,234,567"]);
    }
}
