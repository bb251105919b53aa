//! What a refusal must be: an error whose one message names the file and holds the words that matter.

use varve::model::{LoadError, gguf, safetensors};

/// Name that the tests give their files.
pub const FILE: &str = "x.bin";

/// Longest message that still is one line for people.
const LONGEST: usize = 1500;

/// The message is one printable line that starts with the file's name.
pub fn hold(error: &LoadError) -> String {
    let message = error.to_string();
    assert!(!message.contains(char::is_control), "control characters in {message:?}");
    assert!(message.len() < LONGEST, "{} bytes: {message}", message.len());
    message
}

fn naming<T>(case: &str, result: Result<T, LoadError>, words: &[&str]) -> LoadError {
    let Err(error) = result else { panic!("{case}: the file was accepted") };
    let message = hold(&error);
    assert!(message.starts_with(FILE), "{case}: {message}");
    for word in words {
        assert!(message.contains(word), "{case}: `{word}` is missing from: {message}");
    }
    error
}

/// The GGUF reader refuses the bytes with a message that holds the words.
pub fn gguf(case: &str, bytes: &[u8], words: &[&str]) -> LoadError {
    naming(case, gguf::parse(FILE, bytes), words)
}

/// As [`gguf`], of the safetensors reader.
pub fn safetensors(case: &str, bytes: &[u8], words: &[&str]) -> LoadError {
    naming(case, safetensors::parse(FILE, bytes), words)
}
