use std::path::{Path, PathBuf};

use crate::{Ran, varve};

/// A GGUF file of one key, whose value is an array of `n` integers, and one F32 tensor of 4 values.
fn gguf(key: &str, n: u32, tensor: &str) -> Vec<u8> {
    let string = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
    let mut out = [&b"GGUF"[..], &3u32.to_le_bytes(), &1u64.to_le_bytes(), &1u64.to_le_bytes()].concat();
    out.extend([string(key), 9u32.to_le_bytes().to_vec(), 4u32.to_le_bytes().to_vec()].concat());
    out.extend(u64::from(n).to_le_bytes());
    (0..n).for_each(|i| out.extend(i.to_le_bytes()));
    out.extend([string(tensor), 1u32.to_le_bytes().to_vec()].concat());
    out.extend([4u64.to_le_bytes().to_vec(), 0u32.to_le_bytes().to_vec(), 0u64.to_le_bytes().to_vec()].concat());
    out.resize(out.len().next_multiple_of(32), 0);
    out.extend([0; 16]);
    out
}

fn write(name: &str, bytes: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn inspect(path: &Path, flags: &[&str]) -> Ran {
    varve(&[&["inspect", path.to_str().unwrap()], flags].concat())
}

#[test]
fn a_file_is_listed_as_rows() {
    let bytes = gguf("list", 100, "t.weight");
    let path = write("inspect_rows.gguf", &bytes);
    let ran = inspect(&path, &["--json"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let rows = ran.rows();
    let kinds: Vec<_> = rows.iter().map(|row| row["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["file", "metadata", "tensor", "total", "total"]);
    assert_eq!((&rows[0]["format"], &rows[0]["bytes"]), (&"GGUF".into(), &bytes.len().into()));
    assert_eq!((&rows[1]["type"], &rows[1]["length"]), (&"u32[100]".into(), &100.into()));
    assert_eq!(rows[1]["value"], serde_json::json!([0, 1, 2, 3, 4, 5]));
    assert_eq!((&rows[2]["name"], &rows[2]["dtype"]), (&"t.weight".into(), &"F32".into()));
    assert_eq!((&rows[2]["shape"], &rows[2]["bytes"]), (&serde_json::json!([4]), &16.into()));
    assert_eq!(rows[2]["offset"], bytes.len() - 16);
    assert_eq!((&rows[3]["dtype"], &rows[4]["dtype"]), (&"F32".into(), &"all".into()));
    assert_eq!((&rows[4]["tensors"], &rows[4]["elements"]), (&1.into(), &4.into()));
}

#[test]
fn filters_choose_what_is_listed() {
    let path = write("inspect_filters.gguf", &gguf("list", 3, "t.weight"));
    let metadata = inspect(&path, &["--metadata"]).stdout;
    assert!(metadata.contains("[0, 1, 2]") && !metadata.contains("t.weight"), "{metadata}");
    let tensors = inspect(&path, &["--tensors"]).stdout;
    assert!(tensors.contains("t.weight") && !tensors.contains("list "), "{tensors}");
    let none = inspect(&path, &["--json", "--tensors", "--filter", "nothing"]).rows();
    assert_eq!(none.last().unwrap()["tensors"], 0);
    inspect(&path, &["--tensors", "--metadata"]).refused_naming(&["--metadata"]);
}

#[test]
fn a_fault_is_one_message_and_code_1() {
    let whole = gguf("list", 3, "t.weight");
    let path = write("inspect_cut.gguf", &whole[..whole.len() - 5]);
    for flags in [&[][..], &["--json"]] {
        let ran = inspect(&path, flags);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
        assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
        for words in ["varve: ", "inspect_cut.gguf", "`t.weight`", "5 bytes are missing"] {
            assert!(ran.stderr.contains(words), "`{words}` is missing from: {}", ran.stderr);
        }
    }
    let nowhere = inspect(Path::new("nowhere.gguf"), &[]);
    assert_eq!(nowhere.code, Some(1));
    assert!(nowhere.stderr.starts_with("varve: nowhere.gguf: "), "{}", nowhere.stderr);
}

#[test]
fn what_a_file_says_moves_no_cursor() {
    let (key, tensor) = ("k\u{1b}]0;title\u{7}", "t\u{9b}2J\r\n\u{202e}x");
    let path = write("inspect_escapes.gguf", &gguf(key, 1, tensor));
    let text = inspect(&path, &[]).stdout;
    let harmless = |c: char| c == '\n' || (!c.is_control() && c != '\u{202e}');
    assert!(text.chars().all(harmless), "{text:?}");
    assert!(text.contains(r"k\u{1b}]0;title\u{7}") && text.contains(r"t\u{9b}2J\r\n\u{202e}x"), "{text}");
    let json = inspect(&path, &["--json"]);
    assert!(json.stdout.chars().all(harmless), "{:?}", json.stdout);
    let rows = json.rows();
    assert_eq!((&rows[1]["key"], &rows[2]["name"]), (&key.into(), &tensor.into()));
}
