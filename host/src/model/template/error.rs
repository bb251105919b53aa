//! Why a chat template did not render.

use super::Raised;
use crate::model::printable;
use minijinja::ErrorKind;
use std::error::Error as _;

/// A template that does not parse, or did not render. Lines are counted from 1.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// A source that no chat template needs.
    #[error("the chat template has {got} bytes; at most {limit} are supported")]
    Source {
        /// Its length.
        got: usize,
        /// Longest accepted length.
        limit: usize,
    },
    /// The source is not a template.
    #[error("line {line} of the chat template does not parse: {message}")]
    Syntax {
        /// Where.
        line: usize,
        /// What the parser said.
        message: String,
    },
    /// The template refused the conversation with `raise_exception`.
    #[error("the chat template refuses this conversation (line {line}): {message}")]
    Raised {
        /// Where.
        line: usize,
        /// The template's own words.
        message: String,
    },
    /// Too many steps.
    #[error("line {line} of the chat template: stopped after {steps} steps; a loop in it is too long")]
    Steps {
        /// Where it was.
        line: usize,
        /// Steps it was given.
        steps: u64,
    },
    /// Too much text.
    #[error("line {line} of the chat template: the prompt grew beyond {limit} bytes")]
    Output {
        /// Where it was.
        line: usize,
        /// Most bytes a template may write, what it throws away included.
        limit: usize,
    },
    /// An operation in it failed.
    #[error("line {line} of the chat template: {message}")]
    Render {
        /// Where.
        line: usize,
        /// What failed.
        message: String,
    },
}

impl TemplateError {
    /// The template's line, from 1; none where the template as a whole was refused.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        match self {
            Self::Source { .. } => None,
            Self::Syntax { line, .. } | Self::Raised { line, .. } | Self::Steps { line, .. } => Some(*line),
            Self::Output { line, .. } | Self::Render { line, .. } => Some(*line),
        }
    }

    /// From an error of the parser.
    pub(super) fn syntax(error: &minijinja::Error) -> Self {
        Self::Syntax { line: error.line().unwrap_or(1), message: message(error) }
    }

    /// From an error while rendering with `steps` steps and `limit` bytes of output.
    pub(super) fn render(error: &minijinja::Error, steps: u64, limit: usize) -> Self {
        let line = innermost(error).line().or(error.line()).unwrap_or(1);
        let cause = innermost(error);
        if let Some(raised) = cause.source().and_then(|s| s.downcast_ref::<Raised>()) {
            return match raised {
                Raised::Exception(text) => Self::Raised { line, message: text.clone() },
                Raised::Output => Self::Output { line, limit },
            };
        }
        match cause.kind() {
            ErrorKind::OutOfFuel => Self::Steps { line, steps },
            _ => Self::Render { line, message: message(cause) },
        }
    }
}

/// The error that was first: calls of macros wrap what happens in them.
fn innermost(error: &minijinja::Error) -> &minijinja::Error {
    let mut cause = error;
    while let Some(inner) = cause.source().and_then(|s| s.downcast_ref::<minijinja::Error>()) {
        cause = inner;
    }
    cause
}

fn message(error: &minijinja::Error) -> String {
    match error.detail() {
        Some(detail) => printable(&format!("{}: {detail}", error.kind())),
        None => error.kind().to_string(),
    }
}
