//! Both sources against recorded ids and against each other; damaged vocabularies; streams of ids.

#![allow(clippy::unwrap_used)]

use super::*;
use serde_json::{Value, json};
use tokenizers::{OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer};

const TINY: &str = include_str!("../../../../tests/golden/oracle/qwen4_exp_tiny/tokenizer.json");
const VECTORS: &str = include_str!("../../../../tests/golden/oracle/qwen4_exp_tiny/tokenizer_vectors.json");

/// The vocabulary that a GGUF file of the tiny model holds: 1024 ids, unused ones named `[PADn]`.
fn tiny_vocabulary() -> Vocabulary {
    let file: Value = serde_json::from_str(TINY).unwrap();
    let mut tokens: Vec<String> = (0..1024).map(|i| format!("[PAD{i}]")).collect();
    let mut token_types = vec![5; 1024];
    for (token, id) in file["model"]["vocab"].as_object().unwrap() {
        let id = id.as_u64().unwrap() as usize;
        (tokens[id], token_types[id]) = (token.clone(), 1);
    }
    for added in file["added_tokens"].as_array().unwrap() {
        let id = added["id"].as_u64().unwrap() as usize;
        (tokens[id], token_types[id]) = (added["content"].as_str().unwrap().to_owned(), 3);
    }
    let merge = |m: &Value| format!("{} {}", m[0].as_str().unwrap(), m[1].as_str().unwrap());
    let merges = file["model"]["merges"].as_array().unwrap().iter().map(merge).collect();
    Vocabulary { model: "gpt2".into(), pre: "qwen35".into(), tokens, token_types, merges }
}

fn both() -> [Tokenizer; 2] {
    let from_json = Tokenizer::from_json(TINY.as_bytes()).unwrap();
    [from_json, Tokenizer::from_vocabulary(tiny_vocabulary()).unwrap()]
}

#[test]
fn both_sources_give_the_recorded_ids_and_texts() {
    let vectors: Vec<Value> = serde_json::from_str(VECTORS).unwrap();
    assert_eq!(vectors.len(), 15);
    for tokenizer in both() {
        for case in &vectors {
            let text = case["text"].as_str().unwrap();
            let ids: Vec<u32> = serde_json::from_value(case["ids"].clone()).unwrap();
            assert_eq!(tokenizer.encode(text, Special::Parse).unwrap(), ids, "{text:?}");
            assert_eq!(tokenizer.decode(&ids, false), case["decoded"].as_str().unwrap());
        }
    }
}

#[test]
fn special_tokens_are_parsed_or_text() {
    for tokenizer in both() {
        let text = "the<|im_end|>cat";
        let ids = tokenizer.encode(text, Special::AsText).unwrap();
        assert!(ids.iter().all(|&id| !tokenizer.is_special(id)), "{ids:?}");
        assert_eq!(tokenizer.decode(&ids, true), text);
        let ids = tokenizer.encode(text, Special::Parse).unwrap();
        assert_eq!(ids.iter().filter(|&&id| tokenizer.is_special(id)).collect::<Vec<_>>(), [&1002]);
        assert_eq!(tokenizer.decode(&ids, true), "thecat");
        let prompt = format!("<|im_start|>user\n{}<|im_end|>\n", tokenizer.shield(text));
        let ids = tokenizer.encode_shielded(&prompt).unwrap();
        assert_eq!(ids.iter().filter(|&&id| tokenizer.is_special(id)).collect::<Vec<_>>(), [&1001, &1002]);
        assert_eq!(tokenizer.decode(&ids, false), Tokenizer::unshield(&prompt));
        // Without marks it is the plain encoding.
        let plain = "<|im_start|>user\nhi<|im_end|>\n";
        assert_eq!(tokenizer.encode_shielded(plain).unwrap(), tokenizer.encode(plain, Special::Parse).unwrap());
    }
}

#[test]
fn tokens_and_ids_are_looked_up() {
    let [from_json, from_vocabulary] = both();
    assert_eq!((from_json.len(), from_vocabulary.len()), (1003, 1024));
    for tokenizer in [from_json, from_vocabulary] {
        assert_eq!(tokenizer.id("<|im_end|>"), Some(1002));
        assert_eq!(tokenizer.token(1002).as_deref(), Some("<|im_end|>"));
        assert_eq!(tokenizer.token(257).as_deref(), Some("\u{120}t"));
        assert_eq!((tokenizer.id("\u{120}t"), tokenizer.bytes(257)), (Some(257), " t".as_bytes()));
        for unused in [1003, 1023, 1024, u32::MAX] {
            assert_eq!((tokenizer.token(unused), tokenizer.bytes(unused)), (None, [].as_slice()));
        }
        assert_eq!(
            (tokenizer.id("[PAD1010]"), tokenizer.decode(&[104, 1010, 4000, 105], true)),
            (None, "hi".to_owned())
        );
    }
}

#[test]
fn qwen35_keeps_combining_marks_with_letters_and_qwen2_does_not() {
    // No composed form exists for `q` with a tilde, so that the marks reach the split.
    let words = |pre: &str| {
        let tokenizer = Tokenizer::from_vocabulary(Vocabulary { pre: pre.to_owned(), ..tiny_vocabulary() }).unwrap();
        let mut text = PreTokenizedString::from("q\u{303}q 12");
        tokenizer.words.get_pre_tokenizer().unwrap().pre_tokenize(&mut text).unwrap();
        let splits = text.get_splits(OffsetReferential::Original, OffsetType::Byte);
        splits.into_iter().map(|(_, range, _)| range).collect::<Vec<_>>()
    };
    assert_eq!(words("qwen35"), [(0, 4), (4, 5), (5, 6), (6, 7)]);
    assert_eq!(words("qwen2"), [(0, 1), (1, 4), (4, 5), (5, 6), (6, 7)]);
}

#[test]
fn user_defined_tokens_are_one_id_in_any_text() {
    let mut vocabulary = tiny_vocabulary();
    (vocabulary.tokens[1003], vocabulary.token_types[1003]) = ("<think>".into(), 4);
    let tokenizer = Tokenizer::from_vocabulary(vocabulary).unwrap();
    for special in [Special::AsText, Special::Parse] {
        assert_eq!(tokenizer.encode("<think>", special).unwrap(), [1003]);
    }
    assert!(!tokenizer.is_special(1003));
    assert_eq!(tokenizer.decode(&[1003], true), "<think>");
}

#[test]
fn long_runs_of_space_are_split_as_short_ones() {
    let tokens = ["\u{120}", "1", "2", "12"].map(str::to_owned).to_vec();
    let (model, pre, merges) = ("gpt2".to_owned(), "qwen35".to_owned(), vec!["1 2".to_owned()]);
    let vocabulary = Vocabulary { model, pre, tokens, token_types: vec![], merges };
    let tokenizer = Tokenizer::from_vocabulary(vocabulary).unwrap();
    let ids = tokenizer.encode(&(" ".repeat(1_100_000) + "12"), Special::AsText).unwrap();
    assert_eq!(ids[1_100_000..], [1, 2]); // digits stand alone; in one word with the spaces they would be joined
}

fn fault(change: impl FnOnce(&mut Vocabulary)) -> String {
    let mut vocabulary = tiny_vocabulary();
    change(&mut vocabulary);
    Tokenizer::from_vocabulary(vocabulary).unwrap_err().to_string()
}

#[test]
fn faults_of_a_vocabulary_name_what_and_where() {
    let cases = [
        (fault(|v| v.model = "llama".into()), "model is `llama`"),
        (fault(|v| v.pre = "tekken".into()), "pre-tokenizer is `tekken`; supported is qwen2 or qwen35"),
        (fault(|v| v.tokens[7] = "a".into()), "token `a` is in the vocabulary twice, as ids 7 and 97"),
        (fault(|v| v.tokens[1000] = "a".into()), "token `a` is in the vocabulary twice, as ids 97 and 1000"),
        (fault(|v| v.token_types.truncate(9)), "has 1024 tokens but 9 token types"),
        (fault(|v| v.token_types[3] = 6), "has type 6"),
        (fault(|v| v.tokens[1001].clear()), "added token 1001 (``) has no text"),
        (fault(|v| v.merges[2] = "ab".into()), "merge 2 is `ab`"),
        (fault(|v| v.merges[2] = "a b c".into()), "merge 2 is `a b c`"),
        (fault(|v| *v = Vocabulary { tokens: vec![], token_types: vec![], ..v.clone() }), "has no tokens"),
    ];
    for (message, wanted) in cases {
        assert!(message.contains(wanted), "{message:?} lacks {wanted:?}");
    }
}

#[test]
fn merges_of_unknown_tokens_are_left_out_of_a_vocabulary() {
    let mut vocabulary = tiny_vocabulary();
    let long = "z".repeat(5000); // longer than any token: the library would panic
    vocabulary.merges.insert(0, format!("h {long}"));
    vocabulary.merges.insert(0, "h \u{65e5}".into());
    let [from_json, _] = both();
    let from_vocabulary = Tokenizer::from_vocabulary(vocabulary).unwrap();
    let encode = |t: &Tokenizer| t.encode("hello world", Special::Parse).unwrap();
    assert_eq!(encode(&from_json), encode(&from_vocabulary));
}

fn json_fault(change: impl FnOnce(&mut Value)) -> String {
    let mut file: Value = serde_json::from_str(TINY).unwrap();
    change(&mut file);
    Tokenizer::from_json(file.to_string().as_bytes()).unwrap_err().to_string()
}

#[test]
fn faults_of_a_tokenizer_file_name_what_and_where() {
    let cases = [
        (json_fault(|f| f["model"]["type"] = json!("Unigram")), "model is `Unigram`; supported is BPE"),
        (json_fault(|f| f["model"]["dropout"] = json!(0.1)), "dropout"),
        (json_fault(|f| f["model"]["byte_fallback"] = json!(true)), "byte_fallback"),
        (json_fault(|f| f["model"]["end_of_word_suffix"] = json!("</w>")), "word suffix"),
        (json_fault(|f| f["model"]["vocab"]["b"] = json!(97)), "id 97 stands for two tokens, `a` and `b`"),
        (json_fault(|f| f["model"]["vocab"]["zz"] = json!(4_000_000_000u32)), "token `zz` has id 4000000000"),
        (json_fault(|f| f["model"]["vocab"]["zz"] = json!(-1)), "cannot be read"),
        (json_fault(|f| f["model"]["vocab"]["<|im_end|>"] = json!(1003)), "twice, as ids 1002 and 1003"),
        (json_fault(|f| f["model"]["merges"][3] = json!(["h", "\u{65e5}"])), "merge 3 (`h` and `\u{65e5}`)"),
        (json_fault(|f| f["model"]["merges"][3] = json!("h\u{65e5}")), "merge 3 is `h\u{65e5}`"),
        (json_fault(|f| f["added_tokens"][1]["lstrip"] = json!(true)), "added token 1001 (`<|im_start|>`)"),
        (json_fault(|f| f["added_tokens"][1]["id"] = json!(97)), "id 97 stands for two tokens"),
        (json_fault(|f| f["decoder"] = json!(null)), "decoder"),
        (json_fault(|f| *f = json!([])), "cannot be read"),
    ];
    for (message, wanted) in cases {
        assert!(message.contains(wanted), "{message:?} lacks {wanted:?}");
    }
    for end in (0..TINY.len()).step_by(997) {
        assert!(Tokenizer::from_json(&TINY.as_bytes()[..end]).is_err(), "cut at byte {end}");
    }
}

#[test]
fn streams_join_to_the_whole_text() {
    let tokenizer = Tokenizer::from_json(TINY.as_bytes()).unwrap();
    let mut seed = 1u64;
    for round in 0..2000 {
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as u32
        };
        let high = if round % 2 == 0 { 256 } else { 1030 }; // bytes alone: mostly broken characters
        let ids: Vec<u32> = (0..next() % 40).map(|_| next() % high).collect();
        let mut bytes = Vec::new();
        ids.iter()
            .filter(|&&id| !tokenizer.is_special(id))
            .for_each(|&id| bytes.extend_from_slice(tokenizer.bytes(id)));
        let mut stream = tokenizer.detokenizer();
        let mut text: String = ids.iter().map(|&id| stream.push(id)).collect();
        text.push_str(&stream.finish());
        assert_eq!(text, String::from_utf8_lossy(&bytes), "{ids:?}");
        assert_eq!(text, tokenizer.decode(&ids, true), "{ids:?}");
    }
}
