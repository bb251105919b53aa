//! safetensors files: a sound one is read as it was written, and the cases of other loaders' faults are refused by name.

use varve::model::{DType, LoadError, safetensors};

use crate::refused::{self, FILE};
use crate::safetensors_builder::{base, entry, file, with_length};

#[test]
fn a_sound_file_is_read_as_written() {
    let bytes = base();
    let parsed = safetensors::parse(FILE, &bytes).unwrap();
    let start = bytes.len() - 61;
    let read: Vec<_> =
        parsed.tensors.iter().map(|t| (t.name.as_str(), t.dtype, t.shape.as_slice(), t.range())).collect();
    let wanted: [(&str, DType, &[usize], _); 5] = [
        ("a", DType::F32, &[2, 2], start + 24..start + 40),
        ("b", DType::BF16, &[3, 4], start..start + 24),
        ("nibbles", DType::F4, &[2, 6], start + 48..start + 54),
        ("scalar", DType::I64, &[], start + 40..start + 48),
        ("z", DType::U8, &[1, 1, 1, 7], start + 54..bytes.len()),
    ];
    assert_eq!(read, wanted);
    let notes: Vec<_> = parsed.notes.iter().map(|(key, text)| (key.as_str(), text.as_str())).collect();
    assert_eq!(notes, [("format", "pt"), ("made by", "a test")]);
}

#[test]
fn another_reader_sees_the_same() {
    let bytes = base();
    let theirs = ::safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let ours = safetensors::parse(FILE, &bytes).unwrap();
    assert_eq!(theirs.len(), ours.tensors.len());
    for tensor in &ours.tensors {
        let view = theirs.tensor(&tensor.name).unwrap();
        assert_eq!((view.shape(), view.data()), (tensor.shape.as_slice(), &bytes[tensor.range()]), "{}", tensor.name);
        assert_eq!(view.dtype().to_string(), tensor.dtype.to_string());
    }
}

#[test]
fn the_header_is_bounded_json() {
    let one = || format!("{{{}}}", entry("a", "F32", "[4]", 0, 16));
    refused::safetensors("L28a 1 GiB", &with_length(1 << 30, one().as_bytes(), 16), &["header", "1073741824"]);
    refused::safetensors("L28a 2^63", &with_length(1 << 63, one().as_bytes(), 16), &["header", "9223372036854775808"]);
    refused::safetensors("L28a 2^64-1", &with_length(u64::MAX, one().as_bytes(), 16), &["header", "bytes are missing"]);
    refused::safetensors("L28a 0", &with_length(0, one().as_bytes(), 16), &["length of the header", "is 0"]);
    refused::safetensors("L28a 7 bytes", b"\x01\0\0\0\0\0\0", &["7 bytes", "1 bytes are missing"]);
    refused::safetensors("empty", b"", &["0 bytes", "8 bytes are missing"]);
    let header = |text: &[u8]| with_length(text.len() as u64, text, 0);
    refused::safetensors("L28a no JSON", &header(br#"{"a": [1, 2}"#), &["header", "`a`"]);
    refused::safetensors("L28a list", &header(b"[1,2,3]"), &["header", "sequence"]);
    refused::safetensors("cut JSON", &header(br#"{"a":{"dtype":"F32""#), &["header", "EOF"]);
    refused::safetensors("text behind", &header(b"{} {}"), &["header", "trailing"]);
    refused::safetensors("mark", &header(b"\xef\xbb\xbf{}"), &["header", "byte order mark"]);
    refused::safetensors("UTF-8", &header(b"{\"\xff\":1}"), &["header", "not UTF-8", "byte 2"]);
    refused::safetensors("UTF-16", &header(b"{\0\"\0"), &["header"]);
    let deep = "[".repeat(200_000);
    refused::safetensors("deep", &header(format!("{{\"a\":{deep}").as_bytes()), &["header", "`a`"]);
    let long = with_length(33 << 20, &vec![b' '; 33 << 20], 0);
    refused::safetensors("33 MiB", &long, &["length of the header", "34603008"]);
}

#[test]
fn nothing_is_there_twice() {
    let twice = [entry("a", "F32", "[4]", 0, 16), entry("a", "F32", "[4]", 16, 32)];
    let error = refused::safetensors("tensor", &file(&twice, 32), &["tensor `a` appears twice"]);
    assert!(matches!(error, LoadError::Duplicate { .. }));
    let escaped = [entry("a", "F32", "[4]", 0, 16), entry("\\u0061", "F32", "[4]", 16, 32)];
    refused::safetensors("the same name, spelt otherwise", &file(&escaped, 32), &["tensor `a` appears twice"]);
    let field = r#""a":{"dtype":"F32","dtype":"F32","shape":[4],"data_offsets":[0,16]}"#.to_owned();
    refused::safetensors("field", &file(&[field], 16), &["`a`", "duplicate field `dtype`"]);
    let notes = r#""__metadata__":{"k":"1","k":"2"}"#.to_owned();
    refused::safetensors("note", &file(&[notes], 0), &["`__metadata__`", "`k` appears twice"]);
    let two = vec![r#""__metadata__":{}"#.to_owned(); 2];
    refused::safetensors("notes", &file(&two, 0), &["`__metadata__` appears twice"]);
}

#[test]
fn ranges_fill_the_data_without_sharing_it() {
    let pair = |a: (i64, i64), b: (i64, i64)| {
        [entry("k_proj", "F32", "[4]", a.0, a.1), entry("v_proj", "F32", "[4]", b.0, b.1)]
    };
    let shared = file(&pair((0, 16), (8, 24)), 24);
    refused::safetensors("L28b", &shared, &["`k_proj` and `v_proj`", "bytes 8 to 16"]);
    let same = file(&pair((0, 16), (0, 16)), 16);
    refused::safetensors("L28b same", &same, &["`k_proj` and `v_proj`", "bytes 0 to 16"]);
    refused::safetensors("gap", &file(&pair((0, 16), (20, 36)), 36), &["bytes 16 to 20", "no tensor"]);
    refused::safetensors("gap before", &file(&pair((4, 20), (20, 36)), 36), &["bytes 0 to 4", "no tensor"]);
    refused::safetensors("gap behind", &file(&pair((0, 16), (16, 32)), 40), &["bytes 32 to 40", "no tensor"]);
    let sound = file(&pair((16, 32), (0, 16)), 32);
    assert!(safetensors::parse(FILE, &sound).is_ok(), "the negative control: the order of the header is free");
}

#[test]
fn ranges_fit_shapes_and_the_file() {
    let one = |dtype, shape, begin, end, data| file(&[entry("a", dtype, shape, begin, end)], data);
    let words: &[&str] = &["`a`", "[1000, 1000]", "F32", "4000000 bytes", "give it 4"];
    refused::safetensors("L28c shape", &one("F32", "[1000,1000]", 0, 4, 4), words);
    refused::safetensors("L28c end", &one("F32", "[4]", 0, 16, 8), &["`a`", "8 bytes are missing"]);
    refused::safetensors("L28c reversed", &one("F32", "[4]", 16, 0, 16), &["`a`", "[16, 0]"]);
    refused::safetensors("L28c negative", &one("F32", "[4]", -16, 0, 16), &["`a`", "-16"]);
    let far = one("F32", "[4]", i64::MAX - 16, i64::MAX, 16);
    refused::safetensors("L28c far", &far, &["`a`", "9223372036854775791 bytes are missing"]);
    refused::safetensors("L28d wrap", &one("F32", "[4294967296,4294967296,2]", 0, 0, 0), &["`a`", "beyond 64 bits"]);
    refused::safetensors("L28d float", &one("F32", "[4.5]", 0, 16, 16), &["`a`", "4.5"]);
    refused::safetensors("zero", &one("F32", "[4,0]", 0, 0, 0), &["`a`", "dimension of 0"]);
    refused::safetensors("nine", &one("F32", "[1,1,1,1,1,1,1,1,1]", 0, 4, 4), &["`a`", "more than 8 dimensions"]);
    refused::safetensors("type", &one("Q8_0", "[32]", 0, 34, 34), &["`a`", "unknown type `Q8_0`"]);
    refused::safetensors("half bytes", &one("F4", "[3]", 0, 1, 1), &["`a`", "3 values", "F4"]);
    refused::safetensors("escapes", &one("\\u001b[2J", "[1]", 0, 4, 4), &["`a`", "\\u{1b}[2J"]);
    let field = r#""a":{"dtype":"F32","shape":[4],"data_offsets":[0,16],"strides":[1]}"#.to_owned();
    refused::safetensors("field", &file(&[field], 16), &["`a`", "unknown field `strides`"]);
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let whole = base();
    for len in 0..whole.len() {
        refused::safetensors(&format!("{len} bytes"), &whole[..len], &["bytes are missing"]);
    }
}
