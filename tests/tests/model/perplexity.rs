//! What quantization costs: perplexity of the small model over text that it was not trained on.

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
const ONE: usize = 18;

/// The held-back text as ids, and the mean negative log likelihoods of its windows by PyTorch.
struct HeldBack {
    ids: Vec<u32>,
    reference: Vec<f64>,
}

impl HeldBack {
    fn read(folder: &Path, checkpoint: &Checkpoint) -> Self {
        let text = std::fs::read_to_string(folder.join("heldback.txt")).unwrap();
        let json: Value = serde_json::from_slice(&std::fs::read(folder.join("heldback.json")).unwrap()).unwrap();
        let ids = Text::load(checkpoint, 4096).unwrap().tokenizer.encode(&text, Special::AsText).unwrap();
        assert_eq!(
            (ids.len() as u64, WINDOW as u64),
            (json["tokens"].as_u64().unwrap(), json["window"].as_u64().unwrap())
        );
        let reference = json["window_nll"].as_array().unwrap().iter().map(|nll| nll.as_f64().unwrap()).collect();
        Self { ids, reference }
    }

    fn windows(&self) -> Vec<usize> {
        match std::env::var("VARVE_HELDBACK_WINDOWS") {
            Ok(count) => (0..count.parse().unwrap()).take(self.reference.len()).collect(),
            Err(_) => vec![ONE],
        }
    }
}

/// The mean negative log likelihood of a window's tokens.
fn likelihood(model: &mut Model, window: &[u32]) -> f64 {
    let mut sequence = model.sequence().unwrap();
    let logits = model.forward_all(&mut sequence, window, &mut Probe::none()).unwrap();
    let vocab = model.vocab();
    let scored = logits.chunks_exact(vocab).zip(&window[1..]).map(|(logits, &id)| {
        let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = logits.iter().map(|&logit| f64::from(logit - largest).exp()).sum();
        sum.ln() - f64::from(logits[id as usize] - largest)
    });
    scored.sum::<f64>() / (window.len() - 1) as f64
}

/// Perplexity of the model in this file over the windows.
fn perplexity(file: &Path, text: &HeldBack) -> f64 {
    let start = Instant::now();
    let options = LoadOptions { context: Some(WINDOW), chunk: WINDOW, ..LoadOptions::default() };
    let mut model = Model::load(&Checkpoint::open(file).unwrap(), &device(), &options, &mut |_, _| ()).unwrap();
    let windows = text.windows();
    let of = |&window: &usize| likelihood(&mut model, &text.ids[window * WINDOW..(window + 1) * WINDOW]);
    let mean = windows.iter().map(of).sum::<f64>() / windows.len() as f64;
    let perplexity = mean.exp();
    println!("{}: perplexity {perplexity:.4}, {} windows in {:.1?}", file.display(), windows.len(), start.elapsed());
    perplexity
}

#[test]
fn quantization_costs_little_perplexity() {
    // Weights and text are too large for the project; some checkouts have them beside it.
    let Some(folder) = beside("models/rust-15m") else {
        return println!("skipped: the bf16 weights of rust-15m are not beside the project");
    };
    let checkpoint = Checkpoint::open(&folder.join("model.safetensors")).unwrap();
    let text = HeldBack::read(&folder, &checkpoint);
    let windows = text.windows();
    let reference = (windows.iter().map(|&window| text.reference[window]).sum::<f64>() / windows.len() as f64).exp();
    println!("bf16 by PyTorch: perplexity {reference:.4}");
    let own = perplexity(&folder.join("model.safetensors"), &text);
    assert!((own / reference - 1.0).abs() < 1e-3, "the weights as they are: {own}, and PyTorch {reference}");

    let plan = Plan::new(&checkpoint).unwrap();
    let limits =
        [(DType::Q8_0, 0.003), (DType::Q6_K, 0.01), (DType::Q5_K, 0.015), (DType::Q4_K, 0.03), (DType::IQ4_XS, 0.04)];
    for (dtype, limit) in limits {
        let file = path("qwen4_exp_tiny", &format!("rust-15m-{dtype}.gguf"));
        let chosen = plan.choose(&[&Rules::defaults(dtype)]).unwrap();
        plan.write(&chosen, &file, Existing::Replace, &mut |_, _| ()).unwrap();
        let cost = perplexity(&file, &text) / own - 1.0;
        std::fs::remove_file(&file).unwrap();
        println!("{dtype}: {:+.3} %", 100.0 * cost);
        assert!(cost < limit, "{dtype} costs {:.2} % of perplexity", 100.0 * cost);
    }
}
