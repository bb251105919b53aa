//! What quantization costs, over text that the small model was not trained on: how far the distributions of its next tokens
//! move, and what becomes of its perplexity.
//!
//! Perplexity over one window of 512 tokens moves by up to 7 % with 4 bits, in either direction; the mean divergence of the
//! distributions only grows, so that one window is enough to hold a quantizer to it.

use std::path::Path;
use std::time::Instant;

use serde_json::Value;
use varve::model::export::{Existing, Plan, Rules};
use varve::model::tokenizer::Special;
use varve::model::{Checkpoint, DType, LanguageModel, LoadOptions, Model, Probe, Text};

use crate::oracle::{beside, device, path};

/// Tokens of a window; each starts from an empty state, and all of its tokens but the first are scored.
const WINDOW: usize = 512;
/// The window that is scored unless `VARVE_HELDBACK_WINDOWS` says how many of all 32, from the first on: one from the middle of
/// the text, about as hard as the whole.
const ONE: usize = 15;

/// The types, each with the largest mean divergence in nats, and the largest cost in perplexity over all windows.
const LIMITS: [(DType, f64, f64); 5] = [
    (DType::Q8_0, 0.006, 0.003),
    (DType::Q6_K, 0.02, 0.01),
    (DType::Q5_K, 0.035, 0.015),
    (DType::Q4_K, 0.13, 0.03),
    (DType::IQ4_XS, 0.13, 0.04),
];

/// Windows of the held-back text as ids, each with its mean negative log likelihood by PyTorch.
struct HeldBack(Vec<(Vec<u32>, f64)>);

impl HeldBack {
    fn read(folder: &Path, checkpoint: &Checkpoint) -> Self {
        let text = std::fs::read_to_string(folder.join("heldback.txt")).unwrap();
        let json: Value = serde_json::from_slice(&std::fs::read(folder.join("heldback.json")).unwrap()).unwrap();
        let ids = Text::load(checkpoint, 4096).unwrap().tokenizer.encode(&text, Special::AsText).unwrap();
        let number = |key: &str| json[key].as_u64().unwrap() as usize;
        assert_eq!((ids.len(), WINDOW), (number("tokens"), number("window")));
        let likelihoods = json["window_nll"].as_array().unwrap().iter().map(|nll| nll.as_f64().unwrap());
        let all: Vec<_> = ids.chunks_exact(WINDOW).map(<[u32]>::to_vec).zip(likelihoods).collect();
        Self(match std::env::var("VARVE_HELDBACK_WINDOWS") {
            Ok(count) => all[..count.parse().unwrap()].to_vec(),
            Err(_) => vec![all[ONE].clone()],
        })
    }

    fn is_whole(&self) -> bool {
        self.0.len() == 32
    }

    fn reference(&self) -> f64 {
        (self.0.iter().map(|(_, likelihood)| likelihood).sum::<f64>() / self.0.len() as f64).exp()
    }
}

/// Log probabilities of the next token behind each of a window's tokens, `[WINDOW][vocab]`.
type Scores = Vec<Vec<f32>>;

fn scores(file: &Path, text: &HeldBack) -> Vec<Scores> {
    let start = Instant::now();
    let options = LoadOptions { context: Some(WINDOW), chunk: WINDOW, ..LoadOptions::default() };
    let mut model = Model::load(&Checkpoint::open(file).unwrap(), &device(), &options, &mut |_, _| ()).unwrap();
    let vocab = model.vocab();
    let row = |logits: &[f32]| {
        let largest = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        let sum: f64 = logits.iter().map(|&logit| (f64::from(logit) - largest).exp()).sum();
        logits.iter().map(|&logit| (f64::from(logit) - largest - sum.ln()) as f32).collect()
    };
    let windows = text.0.iter().map(|(ids, _)| {
        let mut sequence = model.sequence().unwrap();
        let logits = model.forward_all(&mut sequence, ids, &mut Probe::none()).unwrap();
        logits.chunks_exact(vocab).map(row).collect()
    });
    let scores = windows.collect();
    println!("{}: {} windows in {:.1?}", file.display(), text.0.len(), start.elapsed());
    scores
}

fn perplexity(scores: &[Scores], text: &HeldBack) -> f64 {
    let window = |(scores, (ids, _)): (&Scores, &(Vec<u32>, f64))| {
        let likelihood = |(row, &id): (&Vec<f32>, &u32)| -f64::from(row[id as usize]);
        scores.iter().zip(&ids[1..]).map(likelihood).sum::<f64>() / (ids.len() - 1) as f64
    };
    (scores.iter().zip(&text.0).map(window).sum::<f64>() / scores.len() as f64).exp()
}

/// The mean divergence (Kullback-Leibler) of the distributions `b` from `a`, in nats.
fn divergence(a: &[Scores], b: &[Scores]) -> f64 {
    let one = |(&a, &b): (&f32, &f32)| f64::from(a).exp() * (f64::from(a) - f64::from(b));
    let row = |(a, b): (&Vec<f32>, &Vec<f32>)| a.iter().zip(b).map(one).sum::<f64>();
    let rows: Vec<f64> = a.iter().flatten().zip(b.iter().flatten()).map(row).collect();
    rows.iter().sum::<f64>() / rows.len() as f64
}

#[test]
fn quantization_costs_little() {
    // Weights and text are too large for the project; some checkouts have them beside it.
    let Some(folder) = beside("models/rust-15m") else {
        return println!("skipped: the bf16 weights of rust-15m are not beside the project");
    };
    let checkpoint = Checkpoint::open(&folder.join("model.safetensors")).unwrap();
    let text = HeldBack::read(&folder, &checkpoint);
    let wanted = scores(&folder.join("model.safetensors"), &text);
    let (own, reference) = (perplexity(&wanted, &text), text.reference());
    println!("bf16: perplexity {own:.4}, by PyTorch {reference:.4}");
    assert!((own / reference - 1.0).abs() < 1e-3, "the weights as they are: {own}, and PyTorch {reference}");

    let plan = Plan::new(&checkpoint).unwrap();
    let mut moves = Vec::new();
    for (dtype, most, most_cost) in LIMITS {
        let file = path("qwen4_exp_tiny", &format!("rust-15m-{dtype}.gguf"));
        let chosen = plan.choose(&[&Rules::defaults(dtype)]).unwrap();
        plan.write(&chosen, &file, Existing::Replace, &mut |_, _| ()).unwrap();
        let got = scores(&file, &text);
        std::fs::remove_file(&file).unwrap();
        let (moved, cost) = (divergence(&wanted, &got), perplexity(&got, &text) / own - 1.0);
        println!("{dtype}: divergence {moved:.6}, perplexity {:+.3} %", 100.0 * cost);
        assert!(moved < most, "{dtype}: distributions move by {moved} nats");
        assert!(!text.is_whole() || cost < most_cost, "{dtype} costs {:.2} % of perplexity", 100.0 * cost);
        moves.push(moved);
    }
    assert!(moves[3] > 10.0 * moves[0], "the measure does not tell 4 bits from 8: {moves:?}");
}
