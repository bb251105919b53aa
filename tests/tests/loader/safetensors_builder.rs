//! Writes safetensors files around any header text, true or not.

/// A header entry.
pub fn entry(name: &str, dtype: &str, shape: &str, begin: i64, end: i64) -> String {
    format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{begin},{end}]}}"#)
}

/// A file with this header, of a length that may be a lie, and `data` bytes behind it.
pub fn with_length(length: u64, header: &[u8], data: usize) -> Vec<u8> {
    let data: Vec<u8> = (0..data).map(|i| (i * 7 + 1) as u8).collect();
    [&length.to_le_bytes()[..], header, &data].concat()
}

/// A file with these header entries.
pub fn file(entries: &[String], data: usize) -> Vec<u8> {
    let header = format!("{{{}}}", entries.join(","));
    with_length(header.len() as u64, header.as_bytes(), data)
}

/// A sound file of five tensors and a note.
pub fn base() -> Vec<u8> {
    let entries = [
        r#""__metadata__":{"format":"pt","made by":"a test"}"#.to_owned(),
        entry("b", "BF16", "[3,4]", 0, 24),
        entry("a", "F32", "[2, 2]", 24, 40),
        entry("scalar", "I64", "[]", 40, 48),
        entry("nibbles", "F4", "[2,6]", 48, 54),
        entry("z", "U8", "[1,1,1,7]", 54, 61),
    ];
    file(&entries, 61)
}
