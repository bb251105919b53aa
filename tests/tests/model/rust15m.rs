//! The model in the box, and the bf16 weights it was made from.

use std::time::Instant;

use serde_json::Value;
use varve::model::{Checkpoint, DType, LanguageModel, LoadOptions, Model, Text, boxed};
use varve::ops::qsa_cells::CellKind;

use crate::blocks::write;
use crate::oracle::{Oracle, argmax, beside, device, distance, folder};

/// A prompt of the oracle.
pub struct Prompt {
    /// Its tokens.
    pub ids: Vec<u32>,
    greedy: Vec<u32>,
    text: String,
    min_gap: f64,
}

/// The oracle's prompts.
pub fn prompts() -> Vec<Prompt> {
    let json: Value = serde_json::from_slice(&std::fs::read(folder("rust-15m").join("oracle.json")).unwrap()).unwrap();
    let ids = |value: &Value| value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect();
    let prompt = |p: &Value| Prompt {
        ids: ids(&p["ids"]),
        greedy: ids(&p["greedy"]),
        text: p["greedy_text"].as_str().unwrap().to_owned(),
        min_gap: p["min_gap"].as_f64().unwrap(),
    };
    json["prompts"].as_array().unwrap().iter().map(prompt).collect()
}

fn load(checkpoint: &Checkpoint) -> Model {
    let options = LoadOptions { context: Some(1024), cells: CellKind::F32, ..LoadOptions::default() };
    Model::load(checkpoint, &device(), &options, &mut |_, _| ()).unwrap()
}

/// The logits behind a prompt, and `n` greedy ids.
fn greedy(model: &mut Model, prompt: &[u32], n: usize) -> (Vec<f32>, Vec<u32>) {
    let mut sequence = model.sequence().unwrap();
    let first = model.forward(&mut sequence, prompt).unwrap();
    let (mut logits, mut ids) = (first.clone(), Vec::new());
    for _ in 0..n {
        let id = argmax(&logits);
        ids.push(id);
        logits = model.forward(&mut sequence, &[id]).unwrap();
    }
    (first, ids)
}

#[test]
fn the_box_writes_the_oracle_s_text_unless_a_near_tie_decides() {
    // Expanded: so no vector is rounded, and nothing is expanded for each token.
    let expanded = write(&boxed().unwrap(), "*.weight f32\n", DType::F32, "box");
    let checkpoint = Checkpoint::open(&expanded).unwrap();
    let mut model = load(&checkpoint);
    let text = Text::load(&checkpoint, model.vocab()).unwrap();
    for (number, prompt) in prompts().iter().enumerate() {
        let start = Instant::now();
        let (_, ids) = greedy(&mut model, &prompt.ids, prompt.greedy.len());
        println!("prompt {number}: {} + {} tokens in {:.2?}", prompt.ids.len(), ids.len(), start.elapsed());
        let got = text.tokenizer.decode(&ids, false);
        if got == prompt.text {
            continue;
        }
        let parted = ids.iter().zip(&prompt.greedy).position(|(a, b)| a != b);
        println!("prompt {number}: parts at token {parted:?}, smallest gap {}", prompt.min_gap);
        assert!(prompt.min_gap < 0.05, "prompt {number}, gap {}: {got:?} instead of {:?}", prompt.min_gap, prompt.text);
    }
    std::fs::remove_file(expanded).unwrap();
}

/// With vectors rounded to 8 bits, as passes of few tokens round them unless they are told not to.
#[test]
fn rounded_vectors_write_the_same_text_where_nothing_is_close() {
    let prompt = &prompts()[7];
    assert!(prompt.min_gap > 0.14);
    let (_, ids) = greedy(&mut load(&boxed().unwrap()), &prompt.ids, 12);
    assert_eq!(ids, prompt.greedy[..12]);
}

#[test]
fn bf16_weights_give_pytorch_s_logits_and_ids() {
    // They are too large for the project; some checkouts have them beside it.
    let Some(path) = beside("models/rust-15m") else {
        return println!("skipped: the bf16 weights of rust-15m are not beside the project");
    };
    let mut model = load(&Checkpoint::open(&path).unwrap());
    let oracle = Oracle::open("rust-15m");
    for (number, prompt) in prompts().iter().enumerate() {
        let (logits, ids) = greedy(&mut model, &prompt.ids, prompt.greedy.len());
        assert_eq!(ids, prompt.greedy, "prompt {number}");
        let d = distance(&logits, &oracle.f32(&format!("logits_last.{number}")));
        println!("prompt {number}: logits within {d:.2e}");
        assert!(d < 1e-3, "prompt {number}: logits differ by {d}");
    }
}
