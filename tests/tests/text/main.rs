//! Text in and out of a model, whatever it is: tokens of any text, streams of any ids, stop strings, prompts.
#![allow(clippy::unwrap_used, missing_docs)]

mod stop;
mod templates;
mod tokens;
