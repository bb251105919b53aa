//! Checkpoints as GGUF files: the same model, bit for bit as long as no type changes.

use std::path::PathBuf;

use varve::model::config::Config;
use varve::model::export::{Existing, ExportError, Plan, Rules};
use varve::model::tokenizer::Special;
use varve::model::{Checkpoint, DType, LanguageModel, LoadOptions, Model, Probe, Text, to_f32};
use varve::ops::qsa_cells::CellKind;

use crate::oracle::{Oracle, argmax, device, distance, path};

const MODELS: [&str; 2] = ["qwen4_exp_tiny", "qwen35_tiny"];

/// Writes a checkpoint by these rules, the defaults for `dtype` behind them.
fn export(checkpoint: &Checkpoint, rules: &str, dtype: DType, name: &str) -> PathBuf {
    let file = path("qwen4_exp_tiny", &format!("{name}.gguf"));
    let plan = Plan::new(checkpoint).unwrap();
    let chosen = plan.choose(&[&Rules::parse(rules).unwrap(), &Rules::defaults(dtype)]).unwrap();
    assert_eq!(chosen.idle, Vec::<usize>::new(), "{name}: rules that no tensor took");
    plan.write(&chosen, &file, Existing::Replace, &mut |done, total| assert!(done <= total)).unwrap();
    file
}

fn open(model: &str, file: &str) -> Checkpoint {
    Checkpoint::open(&path(model, file)).unwrap()
}

fn load(checkpoint: &Checkpoint) -> Model {
    let options =
        LoadOptions { context: Some(512), exact_products: true, cells: CellKind::F32, ..LoadOptions::default() };
    Model::load(checkpoint, &device(), &options, &mut |_, _| ()).unwrap()
}

fn logits(model: &mut Model, tokens: &[u32]) -> Vec<f32> {
    let mut sequence = model.sequence().unwrap();
    model.forward_all(&mut sequence, tokens, &mut Probe::none()).unwrap()
}

#[test]
fn a_file_in_the_same_types_gives_the_same_bits() {
    for name in MODELS {
        let before = open(name, "hf");
        let after = Checkpoint::open(&export(&before, "", DType::BF16, &format!("{name}-bf16"))).unwrap();
        let tokens = Oracle::open(name).tokens(64);
        let wanted = logits(&mut load(&before), &tokens);
        let got = logits(&mut load(&after), &tokens);
        let same = wanted.iter().zip(&got).all(|(a, b)| a.to_bits() == b.to_bits());
        assert!(same, "{name}: logits differ by {}", distance(&got, &wanted));
        assert_ne!(argmax(&got[got.len() - 1024..]), argmax(&got[..1024]), "{name}: the case is too easy");
    }
}

#[test]
fn text_has_the_same_ids_and_ends() {
    for name in MODELS {
        let before = open(name, "hf");
        let after = Checkpoint::open(&export(&before, "", DType::BF16, &format!("{name}-text"))).unwrap();
        let [before, after] = [&before, &after].map(|checkpoint| Text::load(checkpoint, 1024).unwrap());
        for text in ["the quick brown fox", "Hello,\r\n  wörld's 12345 é\u{301}!", "<|im_start|>user\nhi<|im_end|>"] {
            for special in [Special::AsText, Special::Parse] {
                let ids = [&before, &after].map(|text_side| text_side.tokenizer.encode(text, special).unwrap());
                assert_eq!(ids[0], ids[1], "{name}: {text:?}");
                assert!(ids[0].len() > 4);
            }
        }
        assert_eq!((before.stop_ids, before.template), (after.stop_ids, after.template), "{name}");
    }
}

/// The oracle's GGUF files were made by another converter from the same weights, which Q8_0 holds without error.
#[test]
fn files_are_those_of_another_converter() {
    for name in MODELS {
        let theirs = open(name, "model.gguf");
        let rules: String =
            theirs.tensors().map(|t| format!("{} {}\n", t.name, t.dtype.name().to_lowercase())).collect();
        let ours = Checkpoint::open(&export(&open(name, "hf"), &rules, DType::F32, &format!("{name}-same"))).unwrap();
        let names = |checkpoint: &Checkpoint| checkpoint.tensors().map(|t| t.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&ours), names(&theirs));
        for (our, their) in ours.tensors().zip(theirs.tensors()) {
            assert_eq!((our.dtype, &our.shape), (their.dtype, &their.shape), "{}", our.name);
            let [our_bytes, their_bytes] = [ours.bytes(our), theirs.bytes(their)];
            if our.name.ends_with("ssm_a") {
                // -exp(A_log): another library's last bit.
                let [mut a, mut b] = [Vec::new(), Vec::new()];
                to_f32(DType::F32, our_bytes, &mut a);
                to_f32(DType::F32, their_bytes, &mut b);
                assert!(a.iter().zip(&b).all(|(a, b)| (a / b - 1.0).abs() < 3e-7), "{name}: {}: {a:?} {b:?}", our.name);
            } else {
                assert!(our_bytes == their_bytes, "{name}: {} has other bytes", our.name);
            }
        }
        assert_eq!(Config::read(&ours).unwrap(), Config::read(&theirs).unwrap(), "{name}");
    }
}

#[test]
fn a_gguf_file_keeps_its_metadata_and_the_order_of_its_tensors() {
    let before = open("qwen35_tiny", "model.gguf");
    let after = Checkpoint::open(&export(&before, "* keep", DType::Q4_K, "kept")).unwrap();
    let order = |checkpoint: &Checkpoint| checkpoint.stored_order().map(|t| t.name.clone()).collect::<Vec<_>>();
    assert_eq!(order(&before), order(&after));
    for tensor in before.tensors() {
        let kept = after.tensor(&tensor.name).unwrap();
        assert_eq!((kept.dtype, &kept.shape), (tensor.dtype, &tensor.shape), "{}", tensor.name);
        assert!(after.bytes(kept) == before.bytes(tensor), "{} has other bytes", tensor.name);
    }
    let pairs = |checkpoint: &Checkpoint| {
        let pairs = checkpoint.gguf().unwrap().iter().map(|(key, value)| (key.to_owned(), value.clone()));
        let mut pairs: Vec<_> = pairs.filter(|(key, _)| key != "general.file_type").collect();
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        pairs
    };
    assert_eq!(pairs(&before), pairs(&after));
}

/// Rows of 128 and 192 values fill no blocks of 256, so that types fall back in part; logits must stay near.
#[test]
fn quantized_models_stay_near_the_oracle() {
    let oracle = Oracle::open("qwen35_tiny");
    let wanted = oracle.f32("seq7.logits");
    let deviation = |values: &[f32]| (values.iter().map(|x| x * x).sum::<f32>() / values.len() as f32).sqrt();
    // Weights are even over their range, and layers random: 4 bits are few for that.
    for (dtype, limit) in [(DType::Q8_0, 1e-3), (DType::Q6_K, 0.1), (DType::Q5_K, 0.2), (DType::IQ4_XS, 0.6)] {
        let file = export(&open("qwen35_tiny", "hf"), "", dtype, &format!("near-{dtype}"));
        let got = logits(&mut load(&Checkpoint::open(&file).unwrap()), &oracle.tokens(7));
        let difference: Vec<f32> = got.iter().zip(&wanted).map(|(a, b)| a - b).collect();
        let relative = deviation(&difference) / deviation(&wanted);
        println!("{dtype}: logits within {relative:.4} of their size");
        assert!(relative < limit, "{dtype}: {relative}");
    }
}

#[test]
fn what_cannot_be_written_is_refused_and_leaves_nothing() {
    let checkpoint = open("qwen35_tiny", "model.gguf");
    let plan = Plan::new(&checkpoint).unwrap();
    let chosen = plan.choose(&[&Rules::defaults(DType::Q8_0)]).unwrap();
    let write = |file: PathBuf, existing| plan.write(&chosen, &file, existing, &mut |_, _| ());
    let input = path("qwen35_tiny", "model.gguf");
    assert!(matches!(write(input, Existing::Replace), Err(ExportError::Input { .. })));
    let folder = path("qwen35_tiny", "no-such-folder").join("x.gguf");
    assert!(matches!(write(folder, Existing::Replace), Err(ExportError::Io { .. })));
    let taken = path("qwen35_tiny", "taken.gguf");
    std::fs::write(&taken, "mine").unwrap();
    assert!(matches!(write(taken.clone(), Existing::Refuse), Err(ExportError::Exists { .. })));
    assert_eq!(std::fs::read(&taken).unwrap(), b"mine");
    write(taken.clone(), Existing::Replace).unwrap();
    assert!(Checkpoint::open(&taken).is_ok());
    let parent = taken.parent().unwrap();
    let left = std::fs::read_dir(parent).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(left.filter(|name| name.contains(".partial")).count(), 0);
}
