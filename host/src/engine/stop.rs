//! Stop strings in a streamed reply.
//!
//! Text is passed on as soon as no stop string can begin in it. The first match ends the reply: the one that is complete
//! first and, of several that end there, the longest. So the result does not depend on how the text is cut into pieces.
//!
//! ```
//! # use varve::engine::stop::StopMatcher;
//! let mut stop = StopMatcher::new(&["\nUser:".to_owned()]);
//! assert_eq!(stop.push("Hi!\nUs"), ("Hi!".to_owned(), None));
//! assert_eq!(stop.push("er: and"), (String::new(), Some(0)));
//! ```

/// Finds stop strings in text that comes in pieces.
#[derive(Clone, Debug)]
pub struct StopMatcher {
    stops: Vec<String>,
    held: String, // a start of some stop string, or empty
    matched: Option<usize>,
}

impl StopMatcher {
    /// A matcher for `stops`; an empty one never matches.
    #[must_use]
    pub fn new(stops: &[String]) -> Self {
        Self { stops: stops.to_vec(), held: String::new(), matched: None }
    }

    /// Takes the next piece of the reply. Returns the text that is certainly before any stop string, and the index of
    /// the stop string if one is now complete; after that nothing more comes out.
    pub fn push(&mut self, piece: &str) -> (String, Option<usize>) {
        if self.matched.is_some() {
            return (String::new(), self.matched);
        }
        self.held.push_str(piece);
        if let Some((start, index)) = self.earliest() {
            self.held.truncate(start);
            self.matched = Some(index);
            return (std::mem::take(&mut self.held), self.matched);
        }
        let begun = self.begun();
        let rest = self.held.split_off(begun);
        (std::mem::replace(&mut self.held, rest), None)
    }

    /// Ends the reply and returns the text that was held back: it was no stop string after all.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// Start and index of the first match in the held text: of the smallest end, then the longest, then the first listed.
    fn earliest(&self) -> Option<(usize, usize)> {
        let stops = self.stops.iter().enumerate().filter(|(_, stop)| !stop.is_empty());
        let found = stops.filter_map(|(index, stop)| {
            let start = self.held.find(stop.as_str())?;
            Some((start + stop.len(), start, index))
        });
        found.min().map(|(_, start, index)| (start, index))
    }

    /// Where the held text may begin a stop string that the next piece completes; its length if nowhere.
    fn begun(&self) -> usize {
        let longest = self.stops.iter().map(String::len).max().unwrap_or(0);
        let first = self.held.len().saturating_sub(longest.saturating_sub(1));
        let starts = self.held.char_indices().map(|(at, _)| at).skip_while(|&at| at < first);
        let mut starts = starts.filter(|&at| self.stops.iter().any(|stop| stop.starts_with(&self.held[at..])));
        starts.next().unwrap_or(self.held.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matcher(stops: &[&str]) -> StopMatcher {
        StopMatcher::new(&stops.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>())
    }

    /// What each piece gives, and what the end gives.
    fn run(stops: &[&str], pieces: &[&str]) -> (Vec<(String, Option<usize>)>, String) {
        let mut matcher = matcher(stops);
        (pieces.iter().map(|piece| matcher.push(piece)).collect(), matcher.finish())
    }

    fn text(text: &str) -> (String, Option<usize>) {
        (text.to_owned(), None)
    }

    #[test]
    fn text_is_held_only_while_it_may_be_a_stop_string() {
        let (pieces, end) = run(&["END", "###"], &["a E", "N", "x #", "##", "b"]);
        assert_eq!(pieces, [text("a "), text(""), text("ENx "), (String::new(), Some(1)), (String::new(), Some(1))]);
        assert_eq!(end, "");
        assert_eq!(run(&["END"], &["the EN"]), (vec![text("the ")], "EN".to_owned()));
        assert_eq!(
            run(&["", "\u{1F642}!"], &["a\u{1F642}", "?"]),
            (vec![text("a"), text("\u{1F642}?")], String::new())
        );
        assert_eq!(run(&[], &["ab"]), (vec![text("ab")], String::new()));
    }

    #[test]
    fn the_match_that_is_complete_first_wins_however_the_text_is_cut() {
        let first = |stops: &[&str], pieces: &[&str]| {
            let (pieces, end) = run(stops, pieces);
            let text: String = pieces.iter().map(|(text, _)| text.as_str()).collect();
            (text + &end, pieces.into_iter().find_map(|(_, matched)| matched))
        };
        for pieces in [&["xabc"] as &[&str], &["xa", "bc"], &["x", "a", "b", "c"]] {
            assert_eq!(first(&["abc", "b"], pieces), ("xa".to_owned(), Some(1)));
            assert_eq!(first(&["c", "bc"], pieces), ("xa".to_owned(), Some(1)));
            assert_eq!(first(&["abcd", "bd"], pieces), ("xabc".to_owned(), None));
        }
        assert_eq!(first(&["aab"], &["aa", "aab"]), ("aa".to_owned(), Some(0)));
    }
}
