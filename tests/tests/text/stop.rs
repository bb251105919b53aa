//! Stop strings against a search without cleverness: look after each byte whether the text so far ends with one.

use proptest::prelude::*;
use varve::engine::stop::StopMatcher;

/// The text before the first match, and which it was.
fn naive(text: &str, stops: &[String]) -> (String, Option<usize>) {
    let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
    for end in ends {
        let ending = |stop: &&String| !stop.is_empty() && text[..end].ends_with(stop.as_str());
        let longest = stops.iter().filter(ending).map(String::len).max();
        if let Some(length) = longest {
            let index = stops.iter().position(|stop| stop.len() == length && text[..end].ends_with(stop.as_str()));
            return (text[..end - length].to_owned(), index);
        }
    }
    (text.to_owned(), None)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn any_cut_of_a_text_gives_the_naive_result(
        pieces in prop::collection::vec("[ab\u{e9}\u{1F642}]{0,4}", 0..12),
        stops in prop::collection::vec("[ab\u{e9}\u{1F642}]{0,5}", 0..5),
    ) {
        let mut matcher = StopMatcher::new(&stops);
        let (mut text, mut matched) = (String::new(), None);
        for piece in &pieces {
            let (part, stop) = matcher.push(piece);
            prop_assert!(matched.is_none() || part.is_empty());
            text.push_str(&part);
            matched = matched.or(stop);
        }
        text.push_str(&matcher.finish());
        prop_assert_eq!((text, matched), naive(&pieces.concat(), &stops));
    }

    /// Nothing is held that no stop string begins with.
    #[test]
    fn text_is_passed_on_at_once(pieces in prop::collection::vec("[abc]{1,4}", 1..8), stop in "[ab]{1,4}") {
        let mut matcher = StopMatcher::new(std::slice::from_ref(&stop));
        let (mut sent, mut all) = (0, String::new());
        for piece in &pieces {
            all.push_str(piece);
            let (part, matched) = matcher.push(piece);
            if matched.is_some() {
                break;
            }
            sent += part.len();
            prop_assert!(stop.starts_with(&all[sent..]), "{:?} is held back", &all[sent..]);
        }
    }
}
