//! What is asked of the engine, and what it answers: a request, and the events of its generation.

use std::time::Duration;

use super::sample::Sampling;

/// One generation: a prompt, and when and how to go on from it.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Token ids of the prompt, at least one.
    pub prompt: Vec<u32>,
    /// Most tokens to generate, at least one; the context's end ends a generation too.
    pub max_tokens: usize,
    /// How the next token is chosen; the default is greedy.
    pub sampling: Sampling,
    /// Texts that end the generation. They are not part of the reply. None is empty.
    pub stop: Vec<String>,
    /// Token ids that end the generation. They are not part of the reply.
    pub stop_ids: Vec<u32>,
    /// Go on where one of `stop_ids` was chosen.
    pub ignore_eos: bool,
}

/// What happens to a request, in this order: one `Started`, `Prompt` for each chunk, `Piece`s, and one `Finished` or
/// `Failed` at last. `Failed` may come at any time.
#[derive(Clone, Debug)]
pub enum Event {
    /// Its turn has come.
    Started {
        /// Time in the queue.
        queued: Duration,
    },
    /// A chunk of the prompt was read.
    Prompt {
        /// Tokens read so far.
        done: usize,
        /// Tokens of the prompt.
        total: usize,
    },
    /// Text that is final: whole characters, and no beginning of a stop text.
    Piece {
        /// The text; empty only in the last piece, where the last tokens have none.
        text: String,
        /// The tokens that were chosen since the last piece.
        ids: Vec<u32>,
    },
    /// The end.
    Finished {
        /// Why it ended.
        reason: Finish,
        /// Tokens counted.
        usage: Usage,
        /// Time taken.
        timings: Timings,
    },
    /// An end without a result.
    Failed(Failure),
}

/// Why a generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// A stop text or a stop token.
    Stop,
    /// As many tokens as were asked for, or the end of the context.
    Length,
}

impl Finish {
    /// The word of the wire format.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
        }
    }
}

/// Tokens of a generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt: usize,
    /// Tokens of it that did not have to be computed.
    pub cached: usize,
    /// Tokens chosen, a stop token among them.
    pub generated: usize,
}

/// Time that a generation took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timings {
    /// In the queue.
    pub queue: Duration,
    /// From the start to the logits of the prompt's last token.
    pub prompt: Duration,
    /// From the start to the first token.
    pub first_token: Duration,
    /// From the first token to the last.
    pub decode: Duration,
}

impl Timings {
    /// Prompt tokens computed in a second, where there were two or more.
    #[must_use]
    pub fn prompt_rate(&self, usage: &Usage) -> Option<f64> {
        rate(usage.prompt - usage.cached, self.prompt)
    }

    /// Tokens generated in a second after the first, where there were two or more.
    #[must_use]
    pub fn decode_rate(&self, usage: &Usage) -> Option<f64> {
        (usage.generated >= 2).then(|| rate_of(usage.generated - 1, self.decode)).flatten()
    }
}

fn rate(tokens: usize, time: Duration) -> Option<f64> {
    (tokens >= 2).then(|| rate_of(tokens, time)).flatten()
}

fn rate_of(tokens: usize, time: Duration) -> Option<f64> {
    let rate = tokens as f64 / time.as_secs_f64();
    rate.is_finite().then_some(rate)
}

/// Why a generation ended without a result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The model's output was not a number.
    #[error("{0}")]
    Numeric(String),
    /// The model or the device refused or failed; the next request may succeed.
    #[error("{0}")]
    Model(String),
    /// The device answers nothing any more: every request fails from now on.
    #[error("the device is lost: {0}")]
    DeviceLost(String),
    /// A defect: the model panicked.
    #[error("the model panicked: {0}")]
    Panicked(String),
    /// The engine is being shut down.
    #[error("the engine is shutting down")]
    Draining,
    /// The engine's thread ended.
    #[error("the engine has stopped")]
    Stopped,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_need_two_tokens_and_some_time() {
        let second = Duration::from_secs(1);
        let timings = Timings { prompt: second, decode: second * 2, ..Timings::default() };
        let usage = Usage { prompt: 12, cached: 2, generated: 9 };
        assert_eq!(timings.prompt_rate(&usage), Some(10.0));
        assert_eq!(timings.decode_rate(&usage), Some(4.0));
        let few = Usage { prompt: 3, cached: 2, generated: 1 };
        assert_eq!(timings.prompt_rate(&few), None);
        assert_eq!(timings.decode_rate(&few), None);
        assert_eq!(Timings::default().decode_rate(&usage), None);
    }
}
