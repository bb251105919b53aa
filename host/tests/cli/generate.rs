use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::{Ran, varve};

/// Arguments behind `generate` on the emulator, with the model in the box.
fn generate(args: &[&str]) -> Ran {
    varve(&[&["generate", "--device", "emulator"], args].concat())
}

fn object(ran: &Ran) -> Value {
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let rows = ran.rows();
    assert_eq!(rows.len(), 1, "{}", ran.stdout);
    rows[0].clone()
}

/// The oracle's first prompt, and what PyTorch's greedy continuation begins with.
fn oracle() -> (String, Vec<Value>, Vec<Value>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/oracle/rust-15m/oracle.json");
    let json: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let prompt = &json["prompts"][0];
    let list = |key: &str| prompt[key].as_array().unwrap().clone();
    (prompt["text"].as_str().unwrap().to_owned(), list("ids"), list("greedy")[..12].to_vec())
}

#[test]
fn the_model_in_the_box_goes_on_as_pytorch_does_however_the_prompt_is_cut() {
    let (prompt, prompt_ids, greedy) = oracle();
    for chunk in ["512", "2"] {
        let found = object(&generate(&["-p", &prompt, "-n", "12", "--chunk", chunk, "--json"]));
        assert_eq!((&found["prompt_ids"], &found["ids"]), (&prompt_ids.clone().into(), &greedy.clone().into()));
        assert_eq!((&found["device"], &found["finish"]), (&"emulator".into(), &"length".into()));
        for rate in ["prompt_tok_s", "decode_tok_s"] {
            assert!(found[rate].as_f64().unwrap() > 0.0, "{found}");
        }
    }
}

#[test]
fn text_comes_on_stdout_and_figures_on_stderr() {
    let (prompt, ..) = oracle();
    let text = object(&generate(&["-p", &prompt, "-n", "12", "--json"]))["text"].as_str().unwrap().to_owned();
    let mut child = Command::new(env!("CARGO_BIN_EXE_varve"))
        .args(["generate", "--device", "emulator", "-n", "12"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(prompt.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let (stdout, stderr) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(stdout.trim_end_matches('\n'), text.trim_end_matches('\n'));
    assert!(stderr.contains("prompt 5 tokens") && stderr.contains("reply 12 tokens"), "{stderr}");
}

#[test]
fn stop_texts_and_seeds_are_kept() {
    let (prompt, ..) = oracle();
    let stopped = object(&generate(&["-p", &prompt, "-n", "40", "--stop", "fn next", "--json"]));
    assert_eq!(stopped["finish"], "stop");
    assert!(!stopped["text"].as_str().unwrap().contains("fn next"), "{stopped}");
    let drawn = |seed: &str| {
        let args = ["-p", &prompt, "-n", "12", "--temp", "1.5", "--top-k", "50", "--seed", seed, "--json"];
        object(&generate(&args))["ids"].clone()
    };
    assert_eq!(drawn("7"), drawn("7"));
    assert_ne!(drawn("7"), drawn("8"));
}

#[test]
fn what_cannot_be_done_is_said() {
    generate(&["-p", ""]).refused_naming(&["empty"]);
    generate(&["-p", "fn main() { let x = 1; }", "--ctx", "4"]).refused_naming(&["4", "--ctx"]);
    generate(&["-p", "x", "--temp", "3"]).refused_naming(&["temp", "3"]);
    generate(&["-p", "x", "-f", "y"]).refused_naming(&["-p", "-f"].map(|flag| flag.trim_start_matches('-')));
    for (args, words) in [
        (vec!["-f", "no/such/file"], ["no/such/file", "No such file"]),
        (vec!["no/such/model.gguf", "-p", "x"], ["no/such/model.gguf", "o"]),
    ] {
        let ran = generate(&args);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
        assert!(words.iter().all(|word| ran.stderr.contains(word)), "{}", ran.stderr);
    }
}

#[test]
fn a_profile_splits_the_time_of_prompt_and_reply_by_kernel() {
    let ran = generate(&["-p", "fn main() {", "-n", "3", "--profile", "--json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let rows = ran.rows();
    for phase in ["prompt", "decode"] {
        let rows: Vec<&Value> = rows.iter().filter(|row| row["phase"] == phase).collect();
        let share: f64 = rows.iter().map(|row| row["share"].as_f64().unwrap()).sum();
        assert!((share - 1.0).abs() < 1e-9, "{phase}: {share}");
        let recurrence = rows.iter().find(|row| row["variant"].as_str().unwrap().starts_with("delta.rec/"));
        let recurrence = recurrence.unwrap_or_else(|| panic!("no recurrence in {phase}: {}", ran.stdout));
        assert!(recurrence["us_per_token"].as_f64().unwrap() > 0.0, "{recurrence}");
    }
    let decode = rows.iter().find(|row| row["phase"] == "decode" && row["variant"] == "qsa.append/warp").unwrap();
    assert_eq!((&decode["tokens"], &decode["launches_per_token"]), (&2.into(), &1.0.into()), "one layer, two passes");
}

#[test]
fn a_made_up_context_is_scored_and_chosen_from() {
    let args = ["-p", "fn", "-n", "2", "--made-up", "6000", "--ctx", "6100", "--kv", "int8", "--profile", "--json"];
    let ran = generate(&args);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for op in ["qsa.scores/", "qsa.topk/", "qsa.attend/", "qsa.store/", "qsa.append/"] {
        let found = ran.rows().iter().any(|row| row["variant"].as_str().is_some_and(|name| name.starts_with(op)));
        assert!(found, "no {op} in {}", ran.stdout);
    }
    let ran = generate(&["-p", "fn", "-n", "2", "--made-up", "6000", "--ctx", "6001"]);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    assert!(ran.stderr.contains("give --ctx 6003"), "{}", ran.stderr);
}
