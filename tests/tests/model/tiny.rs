//! The tiny random models: logits, hidden states, selections, routing, states and greedy ids.

use varve::model::{LanguageModel, Probe};

use crate::oracle::{FILES, Oracle, argmax, distance, load, tail};

const MODELS: [&str; 2] = ["qwen4_exp_tiny", "qwen35_tiny"];
/// What an f32 engine may differ from the oracle's f32 logits and hidden states, which are 4e-5 from float64.
const LIMIT: f64 = 5e-4;

/// Logits of a whole prompt in passes of `chunk` tokens.
fn logits(model: &str, file: &str, tokens: &[u32], chunk: usize, probe: &mut Probe) -> Vec<f32> {
    let mut loaded = load(model, file, chunk);
    let mut sequence = loaded.sequence().unwrap();
    loaded.forward_all(&mut sequence, tokens, probe).unwrap()
}

#[test]
fn logits_of_every_prompt_in_both_formats() {
    for model in MODELS {
        let oracle = Oracle::open(model);
        for n in [1, 7, 64, 257] {
            let wanted = oracle.f32(&format!("seq{n}.logits"));
            let got = FILES.map(|file| logits(model, file, &oracle.tokens(n), 512, &mut Probe::none()));
            for (file, got) in FILES.iter().zip(&got) {
                let d = distance(tail(got, &wanted), &wanted);
                println!("{model}/{file}: seq{n}: logits within {d:.2e}");
                assert!(d < LIMIT, "{model}/{file}: seq{n}: logits differ by {d}");
            }
            let d = distance(&got[0], &got[1]);
            println!("{model}: seq{n}: the two files' logits within {d:.2e}");
            // The files hold the same numbers but for A, which one of them stores as -exp(A_log), rounded.
            assert!(d < 2e-4, "{model}: seq{n}: the files differ by {d}");
        }
    }
}

#[test]
fn hidden_states_behind_every_layer() {
    for (model, layers) in [("qwen4_exp_tiny", 6), ("qwen35_tiny", 4)] {
        let oracle = Oracle::open(model);
        let mut probe = Probe::of(&["embed", "layer*", "final"]);
        logits(model, "hf", &oracle.tokens(64), 512, &mut probe);
        let names = (0..layers).map(|layer| format!("layer{layer}")).chain(["embed".into(), "final".into()]);
        for name in names {
            let wanted = oracle.f32(&format!("seq64.{name}"));
            let d = distance(tail(&probe.values[&name], &wanted), &wanted);
            println!("{model}: {name} within {d:.2e}");
            assert!(d < LIMIT, "{model}: {name} differs by {d}");
        }
    }
}

#[test]
fn mixers_and_the_ngram_embedding() {
    let oracle = Oracle::open("qwen4_exp_tiny");
    let mut probe = Probe::of(&["layer0.mixed", "layer0.low", "layer1.ple.before", "layer1.ple.after"]);
    logits("qwen4_exp_tiny", "hf", &oracle.tokens(64), 512, &mut probe);
    let close = |name: &str, got: &[f32]| {
        let wanted = oracle.f32(name);
        let d = distance(tail(got, &wanted), &wanted);
        println!("{name} within {d:.2e}");
        assert!(d < 1e-4, "{name} differs by {d}");
    };
    close("seq64.hc0.mixed", &probe.values["layer0.mixed"]);
    let injections = probe.values["layer0.low"].chunks_exact(68).flat_map(|row| row[64..].to_vec());
    close("seq64.hc0.inject", &injections.collect::<Vec<_>>());
    let (before, after) = (&probe.values["layer1.ple.before"], &probe.values["layer1.ple.after"]);
    let added: Vec<f32> = after.iter().zip(before).map(|(a, b)| a - b).collect();
    close("seq64.ple1.out", &added);
}

#[test]
fn block_choices_and_routing_are_equal() {
    let oracle = Oracle::open("qwen4_exp_tiny");
    for n in [64, 257] {
        let mut probe = Probe::of(&["layer2.qsa.cells", "layer5.qsa.cells", "layer4.moe.*"]);
        logits("qwen4_exp_tiny", "hf", &oracle.tokens(n), 512, &mut probe);
        let ids: Vec<i32> = probe.ids["layer4.moe.ids"].iter().map(|&id| id as i32).collect();
        assert_eq!(ids, oracle.i32(&format!("seq{n}.moe4.ids")), "seq{n}: experts of layer 4");
        let d = distance(&probe.values["layer4.moe.weights"], &oracle.f32(&format!("seq{n}.moe4.weights")));
        assert!(d < 1e-4, "seq{n}: weights of layer 4 differ by {d}");
        if n == 64 {
            continue; // the oracle lists the blocks of the long prompt
        }
        for layer in [2, 5] {
            let wanted = oracle.i32(&format!("seq257.qsa{layer}.blocks"));
            let got = &probe.ids[&format!("layer{layer}.qsa.cells")];
            for (t, wanted) in wanted.chunks_exact(8).enumerate() {
                if (t + 1) / 4 > 8 {
                    // The cells of 8 blocks, then the tail; a row has room for 35.
                    let row = &got[35 * t..35 * t + 32 + (t + 1) % 4];
                    let blocks: Vec<i32> = row[..32].iter().step_by(4).map(|&cell| cell as i32 / 4).collect();
                    assert_eq!(blocks, wanted, "layer {layer}, token {t}");
                    let cells = blocks.iter().flat_map(|&block| 4 * block as u32..4 * block as u32 + 4);
                    let tail = (t as u32 + 1) / 4 * 4..t as u32 + 1;
                    assert_eq!(
                        row,
                        cells.chain(tail).collect::<Vec<_>>(),
                        "layer {layer}, token {t}: whole blocks, the tail"
                    );
                }
            }
        }
    }
}

#[test]
fn greedy_ids_and_their_last_logits() {
    for model in MODELS {
        let oracle = Oracle::open(model);
        let mut loaded = load(model, "hf", 512);
        for n in [1, 7, 64, 257] {
            let mut sequence = loaded.sequence().unwrap();
            let mut logits = loaded.forward(&mut sequence, &oracle.tokens(n)).unwrap();
            let mut ids = Vec::new();
            for _ in 0..31 {
                ids.push(i64::from(argmax(&logits)));
                logits = loaded.forward(&mut sequence, &[argmax(&logits)]).unwrap();
            }
            ids.push(i64::from(argmax(&logits)));
            assert_eq!(ids, oracle.i64(&format!("seq{n}.greedy")), "{model}: seq{n}");
            let d = distance(&logits, &oracle.f32(&format!("seq{n}.greedy_last_logits")));
            assert!(d < LIMIT, "{model}: seq{n}: the last logits differ by {d}");
        }
    }
}

/// The declared exactness of a whole pass: bits, whatever the chunks, one-token decode among them.
#[test]
fn a_prompt_may_be_cut_anywhere() {
    for model in MODELS {
        let oracle = Oracle::open(model);
        let tokens = &oracle.tokens(64)[..53];
        for (file, chunks) in [("hf", vec![1, 3, 8, 40]), ("model.gguf", vec![1, 40])] {
            let whole = logits(model, file, tokens, 512, &mut Probe::none());
            for chunk in chunks {
                let got = logits(model, file, tokens, chunk, &mut Probe::none());
                let same = whole.iter().zip(&got).all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(same, "{model}/{file}: passes of {chunk} tokens give other bits");
            }
        }
    }
}
