//! GGUF files: a sound one is read as it was written, and the cases of other loaders' faults are refused by name.

use varve::model::{Array, DType, LoadError, Value, gguf};

use crate::gguf_builder::*;
use crate::refused::{self, FILE};

/// A file of one tensor.
fn one(info: Info) -> Vec<u8> {
    File::new().text("general.architecture", "qwen35").tensor(info).build()
}

/// A file of one `t` of type F32 with these dimensions.
fn dims(dims: &[u64]) -> Vec<u8> {
    one(Info::new("t", dims, T_F32, 64))
}

#[test]
fn a_sound_file_is_read_as_written() {
    for version in [2, 3] {
        let bytes = File { version, ..base() }.build();
        let file = gguf::parse(FILE, &bytes).unwrap();
        assert_eq!(file.version, version);
        let names: Vec<_> = file.tensors.iter().map(|t| (t.name.as_str(), t.dtype, t.shape.as_slice())).collect();
        let wanted: [(&str, DType, &[usize]); 4] = [
            ("a.weight", DType::F32, &[3, 16]),
            ("b.weight", DType::Q8_0, &[2, 64]),
            ("c.bias", DType::F16, &[5]),
            ("d.weight", DType::F32, &[2, 2, 2, 4]),
        ];
        assert_eq!(names, wanted);
        let start = bytes.len() - 192 - 160 - 32 - 128;
        let ranges: Vec<_> = file.tensors.iter().map(|t| t.range()).collect();
        assert_eq!(ranges[0], start..start + 192);
        assert_eq!(ranges[1], start + 192..start + 328);
        assert_eq!(ranges[2], start + 352..start + 362);
        assert_eq!(ranges[3], start + 384..bytes.len());
        assert_eq!(&bytes[ranges[1].clone()], Info::new("", &[], 0, 136).data);
    }
}

#[test]
fn every_type_of_value_is_read_as_written() {
    let file = gguf::parse(FILE, &base().build()).unwrap();
    for (key, value) in [
        ("u8", Value::U8(200)),
        ("i8", Value::I8(-56)),
        ("u16", Value::U16(60_000)),
        ("i16", Value::I16(-5)),
        ("i32", Value::I32(-70_000)),
        ("f32", Value::F32(1.5)),
        ("bool", Value::Bool(true)),
        ("u64", Value::U64(1 << 40)),
        ("i64", Value::I64(-(1 << 40))),
        ("f64", Value::F64(2.5)),
        ("flags", Value::Array(Array::Bool(vec![true, false, true]))),
        ("ints", Value::Array(Array::I32(vec![1, -1]))),
    ] {
        assert_eq!(file.metadata.value(key), Some(&value), "{key}");
    }
    let words: &varve::model::Strings = file.metadata.need("words").unwrap();
    assert_eq!(words.iter().collect::<Vec<_>>(), ["", "ab", "é", "<|end|>"]);
    assert_eq!(file.metadata.value("nested").unwrap().to_string(), "[[1, 2], [\"in\"]]");
}

#[test]
fn counts_and_lengths_are_held_against_the_file() {
    let file = |n_entries, n_tensors| File { n_entries, n_tensors, ..File::new() }.build();
    let header = |n: u64| {
        [&b"GGUF"[..], &3u32.to_le_bytes(), &0u64.to_le_bytes(), &1u64.to_le_bytes(), &n.to_le_bytes()].concat()
    };
    refused::gguf("L01 entries", &file(Some(1 << 62), None), &["number of metadata entries", "4611686018427387904"]);
    refused::gguf("L01 entries", &file(Some(u32::MAX.into()), None), &["number of metadata entries", "4294967295"]);
    refused::gguf("L01 key", &[header(1 << 40), b"abcdefgh".to_vec()].concat(), &["metadata key 0", "1099511627776"]);
    let text = File::new().entry("general.name", STRING, &[&u64::MAX.to_le_bytes()[..], b"x"].concat());
    refused::gguf("L01 string", &text.build(), &["`general.name`", "18446744073709551615"]);
    let numbers = File::new().entry("a", ARRAY, &array(U32, u64::MAX / 64, &[]));
    refused::gguf("L01 array", &numbers.build(), &["the array `a`", "288230376151711743"]);
    let strings = File::new().entry("a", ARRAY, &array(STRING, 1 << 61, &[0; 64]));
    refused::gguf("L01 strings", &strings.build(), &["the array `a`", "2305843009213693952"]);
    let tokens =
        File::new().entry("a", ARRAY, &array(STRING, 2, &[string("ok"), u64::MAX.to_le_bytes().to_vec()].concat()));
    refused::gguf("L01 token", &tokens.build(), &["element 1 of `a`", "18446744073709551615"]);
    refused::gguf("L02", &file(None, Some(i64::MAX as u64)), &["number of tensors", "9223372036854775807"]);
    refused::gguf("L02 wrap", &file(None, Some(u64::MAX / 56 + 1)), &["number of tensors", "329406144173384851"]);
}

#[test]
fn shapes_are_multiplied_without_wrapping() {
    for (case, wrong) in [
        ("L03 2^64-1", &[u64::MAX, 2][..]),
        ("L03 2^80", &[1 << 40, 1 << 40]),
        ("L03 wraps to 64", &[64, (1 << 58) + 1]),
        ("L03 -32", &[(-32i64) as u64]),
    ] {
        let error = refused::gguf(case, &dims(wrong), &["`t`", "beyond 64 bits"]);
        assert!(matches!(error, LoadError::Size { .. }), "{case}: {error:?}");
    }
    refused::gguf("L05 five", &dims(&[2; 5]), &["`t`", "5 dimensions", "1 to 4"]);
    let many = Info { n_dims: Some(u32::MAX), ..Info::new("t", &[2, 2], T_F32, 64) };
    refused::gguf("L05 2^32-1", &one(many), &["`t`", "4294967295 dimensions"]);
    refused::gguf("L05 none", &dims(&[]), &["`t`", "0 dimensions"]);
    refused::gguf("L07", &dims(&[16, 0]), &["`t`", "dimension of 0", "[0, 16]"]);
}

#[test]
fn alignment_is_a_power_of_two() {
    for wrong in [0, 3, 48, u32::MAX] {
        let file = File::new().u32("general.alignment", wrong).tensor(Info::new("t", &[4], T_F32, 16));
        refused::gguf("L06", &file.build(), &["`general.alignment`", &format!("{wrong} (u32)"), "power of two"]);
    }
    let file = File::new().text("general.alignment", "32").tensor(Info::new("t", &[4], T_F32, 16));
    refused::gguf("L06 type", &file.build(), &["`general.alignment`", "string"]);
    for right in [1, 8, 64, 4096] {
        let file = File { align: right, ..File::new().u32("general.alignment", right as u32) };
        let bytes = file.tensor(Info::new("t", &[4], T_F32, 16)).tensor(Info::new("u", &[4], T_F32, 16)).build();
        let tensors = gguf::parse(FILE, &bytes).unwrap().tensors;
        assert!(tensors.iter().all(|t| t.range().start.is_multiple_of(right)), "{right}: {tensors:?}");
    }
    // Beyond the file's end, but a power of two: without tensors nothing is aligned.
    assert!(gguf::parse(FILE, &File::new().u32("general.alignment", 1 << 31).build()).is_ok());
}

#[test]
fn nothing_is_there_twice() {
    let twice = base().tensor(Info::new("a.weight", &[4], T_F32, 16)).build();
    let error = refused::gguf("L09", &twice, &["tensor `a.weight` appears twice"]);
    assert!(matches!(error, LoadError::Duplicate { .. }));
    refused::gguf("L09 key", &base().u32("u8", 1).build(), &["metadata key `u8` appears twice"]);
}

#[test]
fn data_lies_in_the_file_aligned_and_alone() {
    let t = || Info::new("t", &[16], T_F32, 64);
    refused::gguf("L12 2^40", &one(t().at(1 << 40)), &["`t`", "1099511627776 bytes are missing"]);
    refused::gguf("L12 wrap", &one(t().at(u64::MAX - 31)), &["`t`", "18446744073709551584 bytes are missing"]);
    refused::gguf("L12 offset", &one(t().at(1)), &["`t`", "data offset 1", "alignment 32"]);
    let over = |second: Info| File::new().tensor(Info::new("a", &[16], T_F32, 64)).tensor(second).build();
    refused::gguf("L12 same", &over(Info::new("b", &[16], T_F32, 64).at(0)), &["`a` and `b`", "bytes 0 to 64"]);
    refused::gguf("L12 tail", &over(Info::new("b", &[8], T_F32, 32).at(32)), &["`a` and `b`", "bytes 32 to 64"]);
    let apart = over(Info::new("b", &[8], T_F32, 32).at(64));
    assert!(gguf::parse(FILE, &apart).is_ok(), "the negative control: side by side is sound");
}

#[test]
fn types_are_known_and_rows_whole_blocks() {
    for (kind, words) in [
        (9999, &["`t`", "9999"][..]),
        (u32::MAX, &["`t`", "4294967295"]),
        (43, &["`t`", "43"]),
        (31, &["`t`", "Q4_0_4_4", "removed"]),
    ] {
        refused::gguf("L13 type", &one(Info::new("t", &[32], kind, 64)), words);
    }
    refused::gguf("L13 value", &File::new().entry("k", 13, &[0; 8]).build(), &["`k`", "value type 13"]);
    refused::gguf("L13 element", &File::new().entry("k", ARRAY, &array(99, 1, &[0; 8])).build(), &["`k`", "type 99"]);
    refused::gguf("L13 bool", &File::new().entry("k", BOOL, &[2]).build(), &["`k`", "bool 2"]);
    let row = Info::new("t", &[33, 2], T_Q8_0, 128);
    refused::gguf("L13 row", &one(row), &["`t`", "33 values", "Q8_0", "32"]);
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth: usize| {
        let value = (1..depth).fold(array(U8, 1, &[7]), |inner, _| array(ARRAY, 1, &inner));
        File::new().entry("deep", ARRAY, &value).build()
    };
    assert!(gguf::parse(FILE, &nested(4)).is_ok());
    refused::gguf("depth 5", &nested(5), &["`deep`", "is 5", "4 is the most"]);
    refused::gguf("depth 3,000", &nested(3_000), &["`deep`"]);
}

#[test]
fn text_is_utf8_and_printed_harmlessly() {
    let wrong = File::new().entry("name", STRING, &string(b"ab\xff")).build();
    refused::gguf("UTF-8", &wrong, &["the value of `name`", "not UTF-8", "byte 2"]);
    let token = File::new().entry("words", ARRAY, &array(STRING, 2, &[string("a"), string(b"\xc3")].concat())).build();
    refused::gguf("UTF-8 element", &token, &["element 1 of `words`", "not UTF-8"]);
    let evil = Info::new("\u{1b}[2J\u{202e}t\nvarve: fine", &[0], T_F32, 0);
    refused::gguf("escapes", &one(evil), &["\\u{1b}[2J\\u{202e}t\\nvarve: fine"]);
    refused::gguf("empty name", &one(Info::new("", &[4], T_F32, 16)), &["name of tensor 0", "0 bytes"]);
    refused::gguf(
        "long name",
        &one(Info::new(&"n".repeat(5000), &[4], T_F32, 16)),
        &["name of tensor 0", "5000 bytes"],
    );
    refused::gguf("long key", &File::new().u32(&"k".repeat(70_000), 1).build(), &["metadata key 0", "70000"]);
}

#[test]
fn what_is_no_little_endian_gguf_2_or_3_is_said_as_such() {
    refused::gguf("L30 magic", &File { magic: *b"FUGG", ..base() }.build(), &["big-endian"]);
    refused::gguf("L30 version", &File { version: 0x0300_0000, ..base() }.build(), &["big-endian", "0x03000000"]);
    refused::gguf("L30 version 1", &File { version: 1, ..base() }.build(), &["version 1", "2 and 3"]);
    refused::gguf("version 4", &File { version: 4, ..base() }.build(), &["version 4"]);
    refused::gguf("version 0", &File { version: 0, ..base() }.build(), &["version 0"]);
    refused::gguf("L30 empty", b"", &["0 bytes", "24 bytes are missing"]);
    refused::gguf("L30 magic only", b"GGUF", &["4 bytes", "20 bytes are missing"]);
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n";
    refused::gguf("pointer", pointer, &["not a GGUF file", "git lfs pull"]);
    refused::gguf("page", b"<!DOCTYPE html><html></html>", &["not a GGUF file", "web page"]);
}

#[test]
fn a_file_cut_anywhere_says_how_many_bytes_are_missing() {
    let whole = base().build();
    assert!(gguf::parse(FILE, &whole).is_ok());
    for len in 0..whole.len() {
        refused::gguf(&format!("L31, {len} bytes"), &whole[..len], &["bytes are missing"]);
    }
    let last = refused::gguf("L31, one byte", &whole[..whole.len() - 1], &["`d.weight`", ": 1 bytes are missing"]);
    assert!(matches!(last, LoadError::Truncated { .. }));
}
