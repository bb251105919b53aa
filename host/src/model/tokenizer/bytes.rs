//! The byte-level alphabet: a character for each byte, so that a vocabulary of texts can hold any bytes.
//!
//! Printable Latin-1 bytes stand for themselves, the other 68 for the characters from U+0100 on, in order of the byte.

/// Bytes that are their own character.
const fn is_printable(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF)
}

/// The byte of each character below U+0144, where there is one.
const BYTE_OF: [Option<u8>; 324] = {
    let mut table = [None; 324];
    let (mut byte, mut moved) = (0usize, 256);
    while byte < 256 {
        if is_printable(byte as u8) {
            table[byte] = Some(byte as u8);
        } else {
            table[moved] = Some(byte as u8);
            moved += 1;
        }
        byte += 1;
    }
    table
};

/// Appends the bytes that `token` stands for. A token with a character outside the alphabet stands for its own UTF-8.
pub(super) fn append_bytes(token: &str, out: &mut Vec<u8>) {
    let start = out.len();
    for c in token.chars() {
        match BYTE_OF.get(c as usize).copied().flatten() {
            Some(byte) => out.push(byte),
            None => {
                out.truncate(start);
                out.extend_from_slice(token.as_bytes());
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_byte_has_one_character() {
        let bytes: HashSet<u8> = BYTE_OF.iter().copied().flatten().collect();
        assert_eq!(bytes.len(), 256);
        let mut out = Vec::new();
        append_bytes("\u{120}a\u{10a}\u{c3}\u{a9}", &mut out); // "Ġa" + newline + the two bytes of e acute
        assert_eq!(out, " a\n\u{e9}".as_bytes());
    }

    #[test]
    fn a_token_outside_the_alphabet_is_its_own_text() {
        let mut out = b"x".to_vec();
        append_bytes("a b", &mut out);
        append_bytes("\u{65e5}", &mut out);
        assert_eq!(out, "xa b\u{65e5}".as_bytes());
    }
}
