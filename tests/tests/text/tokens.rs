//! The tokenizer on any text and any ids.

use proptest::prelude::*;
use std::sync::LazyLock;
use varve::model::tokenizer::{Special, Tokenizer};

static TINY: LazyLock<Tokenizer> = LazyLock::new(|| {
    Tokenizer::from_json(include_bytes!("../../golden/oracle/qwen4_exp_tiny/tokenizer.json")).unwrap()
});

/// Texts with special tokens, parts of them, marks, and characters that have no other composed form.
fn texts() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        "[a-z \n0-9<|>_]{0,8}",
        "[\u{3042}-\u{3060}\u{1F600}-\u{1F640}\u{FDD0}]{0,3}",
        Just("<|im_end|>".to_owned()),
        Just("<|im_".to_owned()),
        Just("end|>".to_owned()),
    ];
    prop::collection::vec(part, 0..6).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn streamed_ids_join_to_their_text(ids in prop::collection::vec(0u32..1030, 0..60), keep in any::<bool>()) {
        let mut stream = TINY.detokenizer().with_special(keep);
        let mut text: String = ids.iter().map(|&id| stream.push(id)).collect();
        text.push_str(&stream.finish());
        let kept = ids.iter().filter(|&&id| keep || !TINY.is_special(id));
        let bytes: Vec<u8> = kept.flat_map(|&id| TINY.bytes(id)).copied().collect();
        prop_assert_eq!(&text, &String::from_utf8_lossy(&bytes));
        prop_assert_eq!(text, TINY.decode(&ids, !keep));
    }

    #[test]
    fn a_text_comes_back_from_its_ids(text in texts()) {
        for special in [Special::AsText, Special::Parse] {
            let ids = TINY.encode(&text, special).unwrap();
            prop_assert!(special == Special::Parse || ids.iter().all(|&id| !TINY.is_special(id)));
            prop_assert_eq!(&TINY.decode(&ids, false), &text);
        }
    }

    /// Whatever users write, only the template's special tokens are special.
    #[test]
    fn shielded_texts_stay_text(first in texts(), second in texts()) {
        let words = format!("{}{}", TINY.shield(&first), TINY.shield(&second));
        let ids = TINY.encode_shielded(&format!("<|im_start|>{words}<|im_end|>")).unwrap();
        let special: Vec<u32> = ids.iter().copied().filter(|&id| TINY.is_special(id)).collect();
        prop_assert_eq!(special, [1001, 1002]);
        prop_assert_eq!(TINY.decode(&ids, true), format!("{first}{second}"));
    }
}
