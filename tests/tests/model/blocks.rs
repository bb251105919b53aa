//! Models whose matrices stay in their blocks, against the same models with expanded weights.

use std::path::{Path, PathBuf};

use varve::model::export::{Existing, Plan, Rules};
use varve::model::{Checkpoint, DType, LanguageModel, LoadOptions, Model, Probe, boxed};
use varve::ops::qsa_cells::CellKind;

use crate::oracle::{device, distance, path};
use crate::rust15m::prompts;

/// Writes a checkpoint as a GGUF file by these rules, the defaults for `dtype` behind them.
pub fn write(checkpoint: &Checkpoint, rules: &str, dtype: DType, name: &str) -> PathBuf {
    let file = path("qwen4_exp_tiny", &format!("blocks-{name}.gguf"));
    let plan = Plan::new(checkpoint).unwrap();
    let chosen = plan.choose(&[&Rules::parse(rules).unwrap(), &Rules::defaults(dtype)]).unwrap();
    plan.write(&chosen, &file, Existing::Replace, &mut |_, _| ()).unwrap();
    file
}

/// A model whose passes have up to `chunk` tokens.
fn load(file: &Path, exact_products: bool, chunk: usize) -> Model {
    load_with("", file, exact_products, chunk)
}

/// [`load`] with these switches.
fn load_with(switches: &str, file: &Path, exact_products: bool, chunk: usize) -> Model {
    let switches = switches.parse().unwrap();
    let options = LoadOptions {
        context: Some(512),
        chunk,
        exact_products,
        switches,
        cells: CellKind::F32,
        ..LoadOptions::default()
    };
    Model::load(&Checkpoint::open(file).unwrap(), &device(), &options, &mut |_, _| ()).unwrap()
}

fn logits(model: &mut Model, tokens: &[u32]) -> Vec<f32> {
    let mut sequence = model.sequence().unwrap();
    model.forward_all(&mut sequence, tokens, &mut Probe::none()).unwrap()
}

fn largest(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |a, x| a.max(x.abs()))
}

fn same_bits(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}

/// Every type that can be made, in one file of the model in the box; matrices that are one product have rows of several.
const MIXED: &str = "
    blk.*.attn_qkv.weight     q4_k
    blk.*.attn_gate.weight    q6_k
    blk.*.ssm_out.weight      q5_k
    blk.*.attn_q.weight       iq4_xs
    blk.*.attn_k.weight       q8_0
    blk.*.attn_v.weight       bf16
    blk.*.ffn_gate_shexp.weight  q4_k
    blk.*.ffn_up_shexp.weight    iq4_nl
    token_embd.weight         q6_k
";

#[test]
fn passes_of_blocks_are_those_of_expanded_weights() {
    let mixed = write(&boxed().unwrap(), MIXED, DType::Q8_0, "mixed");
    let expanded = write(&Checkpoint::open(&mixed).unwrap(), "*.weight f32\n", DType::F32, "expanded");
    let (long, short) = (&prompts()[8].ids[..21], &prompts()[1].ids);
    assert_eq!(short.len(), 7);
    let mut wanted = load(&expanded, false, 512);
    let (of_long, of_short) = (logits(&mut wanted, long), logits(&mut wanted, short));
    let mut exact = load(&mixed, true, 512);
    assert!(same_bits(&logits(&mut exact, short), &of_short), "short, exactly");
    let mut exact = load_with("dense.product=mma", &mixed, true, 512);
    assert!(same_bits(&logits(&mut exact, short), &of_short), "exact products keep off the tensor cores");
    let mut by_mma = load_with("dense.product=mma", &mixed, false, 512);
    let (d, size) = (distance(&logits(&mut by_mma, long), &of_long), largest(&of_long));
    println!("weights rounded to f16 move logits of up to {size} by {d}");
    assert!(d > 0.0 && d < 0.003 * f64::from(size), "logits of up to {size} move by {d}");

    let mut rounding = load(&mixed, false, 512);
    let [held, of_expanded] = [&rounding, &wanted].map(Model::matrix_bytes);
    assert!(held * 3 < of_expanded, "{held} bytes of matrices, expanded {of_expanded}");
    assert!(same_bits(&logits(&mut rounding, long), &of_long), "more than eight tokens are not rounded");
    let got = logits(&mut rounding, short);
    let (d, size) = (distance(&got, &of_short), largest(&of_short));
    println!("rounded vectors move logits of up to {size} by {d}");
    assert!(d > 0.0 && d < 0.03 * f64::from(size), "logits of up to {size} move by {d}");
    for chunk in [1, 3] {
        let cut = logits(&mut load(&mixed, false, chunk), short);
        assert!(same_bits(&cut, &got), "passes of {chunk} tokens give other bits");
    }
    for file in [mixed, expanded] {
        std::fs::remove_file(file).unwrap();
    }
}
