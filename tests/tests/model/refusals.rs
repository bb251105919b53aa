//! Checkpoints that are sound files and no models: each is refused with the key or tensor, before weights are copied.

use varve::model::{Checkpoint, LoadOptions, Model, OpenError, Text};

use crate::oracle::{device, path};

/// A sound file, changed in place.
struct Patched(Vec<u8>);

impl Patched {
    fn of(model: &str) -> Self {
        Self(std::fs::read(path(model, "model.gguf")).unwrap())
    }

    fn find(&self, text: &str) -> usize {
        let wanted = [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
        let at = self.0.windows(wanted.len()).position(|window| window == wanted);
        at.unwrap_or_else(|| panic!("`{text}` is not in the file")) + wanted.len()
    }

    /// Another string of the same length.
    fn rename(mut self, from: &str, to: &str) -> Self {
        assert_eq!(from.len(), to.len());
        let end = self.find(from);
        self.0[end - from.len()..end].copy_from_slice(to.as_bytes());
        self
    }

    /// The u32 value of a key.
    fn set(mut self, key: &str, value: u32) -> Self {
        let at = self.find(key) + 4;
        self.0[at..at + 4].copy_from_slice(&value.to_le_bytes());
        self
    }

    /// The outermost dimension of a tensor of three.
    fn shorten(mut self, tensor: &str, to: u64) -> Self {
        let at = self.find(tensor) + 4 + 16;
        self.0[at..at + 8].copy_from_slice(&to.to_le_bytes());
        self
    }

    /// The message of what refuses it.
    fn refused(self) -> String {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let file = path("qwen35_tiny", &format!("patched{number}.gguf"));
        std::fs::write(&file, &self.0).unwrap();
        let checkpoint = Checkpoint::open(&file).unwrap();
        let loaded = Model::load(&checkpoint, &device(), &LoadOptions::default(), &mut |_, _| ());
        let error: OpenError = match loaded {
            Err(error) => error,
            Ok(model) => Text::load(&checkpoint, model.config().vocab).expect_err("the file is no model"),
        };
        std::fs::remove_file(file).unwrap();
        error.to_string()
    }
}

fn says(message: &str, words: &[&str]) {
    for word in words {
        assert!(message.contains(word), "`{word}` is not in: {message}");
    }
}

#[test]
fn an_unknown_architecture_is_refused_with_the_known_ones() {
    let message = Patched::of("qwen35_tiny").rename("qwen35", "qwen99").refused();
    says(&message, &["`qwen99`", "qwen4exp", "qwen35"]);
}

#[test]
fn layers_without_tensors_are_refused_before_anything_is_allocated_for_them() {
    for count in [100_000, u32::MAX] {
        let message = Patched::of("qwen35_tiny").set("qwen35.block_count", count).refused();
        says(&message, &["qwen35.block_count", &count.to_string(), "layers up to 3"]);
    }
    let message = Patched::of("qwen35_tiny").set("qwen35.block_count", 8).refused();
    says(&message, &["missing", "blk.4.attn_norm.weight"]);
}

#[test]
fn a_missing_key_has_no_default() {
    let message = Patched::of("qwen35_tiny").rename("qwen35.block_count", "qwen35.block_counT").refused();
    says(&message, &["qwen35.block_count", "missing"]);
}

#[test]
fn missing_and_unknown_tensors_are_both_named() {
    let message = Patched::of("qwen35_tiny").rename("token_embd.weight", "token_embd.qeight").refused();
    says(&message, &["missing: token_embd.weight", "unknown: token_embd.qeight"]);
}

#[test]
fn expert_counts_that_cannot_be_are_refused() {
    for used in [0, 9] {
        let message = Patched::of("qwen4_exp_tiny").set("qwen4exp.expert_used_count", used).refused();
        says(&message, &["num_experts_per_tok", &used.to_string(), "8 experts"]);
    }
    let message = Patched::of("qwen4_exp_tiny").shorten("blk.0.ffn_gate_exps.weight", 4).refused();
    says(&message, &["blk.0.ffn_gate_exps.weight", "[4, 64, 64]", "[8, 64, 64]"]);
}

#[test]
fn special_ids_outside_the_vocabulary_are_refused() {
    let message = Patched::of("qwen4_exp_tiny").set("tokenizer.ggml.eos_token_id", 100_000).refused();
    says(&message, &["eos_token_id", "100000", "1024 ids"]);
    let message = Patched::of("qwen4_exp_tiny").set("qwen4exp.ple.eos_token_id", 100_000).refused();
    says(&message, &["eos_token_id", "100000", "vocabulary"]);
}

#[test]
fn sizes_that_contradict_each_other_are_refused() {
    let refused =
        |key: &str, value: u32| Patched::of("qwen4_exp_tiny").set(&format!("qwen4exp.{key}"), value).refused();
    says(&refused("ssm.time_step_rank", 5), &["ssm.inner_size", "768"]);
    says(&refused("ssm.conv_kernel", 3), &["ssm.conv_kernel", "only 4"]);
    says(&refused("attention.head_count_kv", 3), &["num_attention_heads", "multiple"]);
    says(&refused("attention.indexer.top_k", 30), &["indexer_budget", "multiple"]);
    says(&refused("hyper_connection.count", 1), &["hc_count"]);
    says(&refused("embedding_length", 128), &["has shape [256]", "asks for [512]"]);
}

/// The hash constants come from a seed that the configuration may leave out: 1234. Another one is not silently taken.
#[test]
fn another_hash_seed_is_refused() {
    let folder = path("qwen4_exp_tiny", "hf");
    let seeded = folder.with_file_name("seeded");
    std::fs::create_dir_all(&seeded).unwrap();
    std::fs::copy(folder.join("model.safetensors"), seeded.join("model.safetensors")).unwrap();
    let config = std::fs::read_to_string(folder.join("config.json")).unwrap();
    let load = |seed: u32| {
        let text = config.replacen("\"text_config\": {", &format!("\"text_config\": {{ \"seed\": {seed},"), 1);
        std::fs::write(seeded.join("config.json"), text).unwrap();
        let checkpoint = Checkpoint::open(&seeded).unwrap();
        Model::load(&checkpoint, &device(), &LoadOptions::default(), &mut |_, _| ())
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    load(1234).unwrap();
    let message = load(1235).unwrap_err();
    says(&message, &["layer_multipliers", "seed 1235"]);
}

#[test]
fn a_context_beyond_the_model_s_is_refused() {
    let checkpoint = Checkpoint::open(&path("qwen35_tiny", "model.gguf")).unwrap();
    for context in [0, 4097] {
        let options = LoadOptions { context: Some(context), ..LoadOptions::default() };
        let message = Model::load(&checkpoint, &device(), &options, &mut |_, _| ()).err().unwrap().to_string();
        says(&message, &["context", &context.to_string(), "4096"]);
    }
}
