use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{Ran, varve};

/// A GGUF file of one key and F32 tensors, named with their shapes (outermost first) and values.
fn gguf(tensors: &[(&str, &[usize], Vec<f32>)]) -> Vec<u8> {
    let string = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
    let mut out =
        [&b"GGUF"[..], &3u32.to_le_bytes(), &(tensors.len() as u64).to_le_bytes(), &1u64.to_le_bytes()].concat();
    out.extend([string("general.architecture"), 8u32.to_le_bytes().to_vec(), string("none")].concat());
    let mut data: Vec<u8> = Vec::new();
    for (name, shape, values) in tensors {
        assert_eq!(shape.iter().product::<usize>(), values.len());
        out.extend([string(name), (shape.len() as u32).to_le_bytes().to_vec()].concat());
        shape.iter().rev().for_each(|&dim| out.extend((dim as u64).to_le_bytes()));
        out.extend([&0u32.to_le_bytes()[..], &(data.len() as u64).to_le_bytes()].concat());
        values.iter().for_each(|value| data.extend(value.to_le_bytes()));
        data.resize(data.len().next_multiple_of(32), 0);
    }
    out.resize(out.len().next_multiple_of(32), 0);
    out.extend(data);
    out
}

fn waves(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i as f32 * 0.37).sin() * 0.1).collect()
}

/// An empty folder of this name, with a model in it: a matrix, a narrow one, a tiny one, a norm, and the head.
fn model(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder); // of an earlier run
    std::fs::create_dir_all(&folder).unwrap();
    let tensors: [(&str, &[usize], Vec<f32>); 5] = [
        ("output.weight", &[3, 256], waves(768)),
        ("blk.0.ffn_up.weight", &[4, 512], waves(2048)),
        ("blk.0.ffn_down.weight", &[2, 96], waves(192)),
        ("blk.0.odd.weight", &[2, 5], waves(10)),
        ("blk.0.attn_norm.weight", &[256], waves(256)),
    ];
    std::fs::write(folder.join("in.gguf"), gguf(&tensors)).unwrap();
    folder
}

fn quantize(folder: &Path, output: &str, flags: &[&str]) -> Ran {
    let [input, output] = ["in.gguf", output].map(|name| folder.join(name).to_str().unwrap().to_owned());
    varve(&[&["quantize", &input, &output], flags].concat())
}

/// Types of the tensors of a file, by `varve inspect`.
fn types(file: &Path) -> Vec<(String, String)> {
    let ran = varve(&["inspect", "--json", "--tensors", file.to_str().unwrap()]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
    let rows = ran.rows();
    let tensors = rows.iter().filter(|row| row["kind"] == "tensor");
    tensors.map(|row| (text(row, "name"), text(row, "dtype"))).collect()
}

fn named(types: &[(&str, &str)]) -> Vec<(String, String)> {
    types.iter().map(|(name, dtype)| ((*name).to_owned(), (*dtype).to_owned())).collect()
}

#[test]
fn matrices_get_the_type_as_far_as_their_rows_allow() {
    let folder = model("quantize_types");
    let ran = quantize(&folder, "out.gguf", &["--type", "q4_k"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let wanted = [
        ("blk.0.attn_norm.weight", "F32"),
        ("blk.0.ffn_down.weight", "IQ4_NL"),
        ("blk.0.ffn_up.weight", "Q4_K"),
        ("blk.0.odd.weight", "F32"),
        ("output.weight", "Q6_K"),
    ];
    assert_eq!(types(&folder.join("out.gguf")), named(&wanted));
    for words in ["rows of 96 values", "IQ4_NL instead of Q4_K", "blk.0.ffn_down.weight", "F32 instead of Q4_K"] {
        assert!(ran.stderr.contains(words), "`{words}` is missing from: {}", ran.stderr);
    }
    for words in ["F32 to Q4_K", "F32 to Q6_K", "relative error 0.0", "bits a value"] {
        assert!(ran.stdout.contains(words), "`{words}` is missing from: {}", ran.stdout);
    }
}

#[test]
fn rows_say_what_became_of_each_tensor() {
    let folder = model("quantize_rows");
    let ran = quantize(&folder, "out.gguf", &["--type", "q5_k", "--json"]);
    let rows = ran.rows();
    let of = |kind: &str| rows.iter().filter(|row| row["kind"] == kind).cloned().collect::<Vec<_>>();
    let (tensors, totals, files) = (of("tensor"), of("total"), of("file"));
    assert_eq!((tensors.len(), files.len()), (5, 1));
    let down = tensors.iter().find(|row| row["name"] == "blk.0.ffn_down.weight").unwrap();
    assert_eq!((&down["from"], &down["to"], &down["instead_of"]), (&"F32".into(), &"Q8_0".into(), &"Q5_K".into()));
    assert_eq!((&down["shape"], &down["bytes"]), (&serde_json::json!([2, 96]), &204.into()));
    let error = |row: &Value| row["relative_error"].as_f64().unwrap();
    assert!((0.0005..0.01).contains(&error(down)), "{down}");
    let up = tensors.iter().find(|row| row["name"] == "blk.0.ffn_up.weight").unwrap();
    assert!((0.005..0.05).contains(&error(up)), "{up}");
    let sum = |key: &str| totals.iter().map(|row| row[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum("tensors"), sum("elements")), (5, 768 + 2048 + 192 + 10 + 256));
    assert_eq!(files[0]["bytes"], std::fs::metadata(folder.join("out.gguf")).unwrap().len());
}

#[test]
fn rules_come_before_the_defaults_and_the_first_counts() {
    let folder = model("quantize_rules");
    let rules = folder.join("rules.txt");
    std::fs::write(&rules, "output.* keep # the head\n\n*.ffn_up.* iq4_xs\n*ffn* f16\nnothing.* q8_0\n").unwrap();
    let ran = quantize(&folder, "out.gguf", &["--type", "q8_0", "--rules", rules.to_str().unwrap()]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let wanted = [
        ("blk.0.attn_norm.weight", "F32"),
        ("blk.0.ffn_down.weight", "F16"),
        ("blk.0.ffn_up.weight", "IQ4_XS"),
        ("blk.0.odd.weight", "F32"),
        ("output.weight", "F32"),
    ];
    assert_eq!(types(&folder.join("out.gguf")), named(&wanted));
    assert!(ran.stderr.contains("`nothing.*` of line 5"), "{}", ran.stderr);
}

#[test]
fn rules_that_are_none_are_refused_by_line() {
    let folder = model("quantize_bad_rules");
    let rules = folder.join("rules.txt");
    for (text, words) in [
        ("* q8_0\n* q7_0\n", ["rules.txt", "line 2", "`q7_0`", "iq4_xs"]),
        ("*\n", ["rules.txt", "line 1", "`*`", "pattern"]),
    ] {
        std::fs::write(&rules, text).unwrap();
        let ran = quantize(&folder, "out.gguf", &["--type", "q8_0", "--rules", rules.to_str().unwrap()]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
        for word in words {
            assert!(ran.stderr.contains(word), "`{word}` is missing from: {}", ran.stderr);
        }
    }
    assert!(!folder.join("out.gguf").exists());
    quantize(&folder, "out.gguf", &["--type", "q3_k"]).refused_naming(&["--type", "q3_k", "q4_k"]);
    quantize(&folder, "out.gguf", &[]).refused_naming(&["--type"]);
}

#[test]
fn a_file_that_is_there_is_replaced_only_on_request() {
    let folder = model("quantize_force");
    std::fs::write(folder.join("out.gguf"), "mine").unwrap();
    let ran = quantize(&folder, "out.gguf", &["--type", "q8_0"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("out.gguf") && ran.stderr.contains("--force"), "{}", ran.stderr);
    assert_eq!(std::fs::read(folder.join("out.gguf")).unwrap(), b"mine");
    assert_eq!(quantize(&folder, "out.gguf", &["--type", "q8_0", "--force"]).code, Some(0));
    assert_eq!(types(&folder.join("out.gguf")).len(), 5);
    let ran = quantize(&folder, "in.gguf", &["--type", "q8_0", "--force"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("model that is read"), "{}", ran.stderr);
}

#[test]
fn values_that_cannot_be_held_are_named_and_nothing_is_left() {
    let folder = model("quantize_nan");
    for (bad, flags, words) in [
        (f32::NAN, ["--type", "q8_0"], ["b.weight", "value 300", "NaN"]),
        (f32::INFINITY, ["--type", "q4_k"], ["b.weight", "value 300", "inf"]),
        (1e6, ["--type", "f16"], ["b.weight", "value 300", "1e6"]),
    ] {
        let mut values = waves(512);
        values[300] = bad;
        let file = gguf(&[("a.weight", &[2, 256], waves(512)), ("b.weight", &[2, 256], values)]);
        std::fs::write(folder.join("in.gguf"), file).unwrap();
        let ran = quantize(&folder, "out.gguf", &flags);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
        for word in words {
            assert!(ran.stderr.contains(word), "`{word}` is missing from: {}", ran.stderr);
        }
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "only the input is left");
    }
}

/// What stays is copied, and what becomes less loses twice, which is said.
#[test]
fn quantized_files_can_be_quantized_again() {
    let folder = model("quantize_again");
    assert_eq!(quantize(&folder, "out.gguf", &["--type", "q8_0"]).code, Some(0));
    std::fs::rename(folder.join("out.gguf"), folder.join("in.gguf")).unwrap();
    let same = quantize(&folder, "same.gguf", &["--type", "q8_0"]);
    assert_eq!(same.code, Some(0));
    assert!(!same.stderr.contains("another one"), "{}", same.stderr);
    let [before, after] = ["in.gguf", "same.gguf"].map(|name| std::fs::read(folder.join(name)).unwrap());
    assert!(before == after, "a file in the types that it has is the same file");
    let again = quantize(&folder, "less.gguf", &["--type", "q6_k"]);
    assert!(again.stderr.contains("2 tensors of type Q8_0 get another one"), "{}", again.stderr);
}
