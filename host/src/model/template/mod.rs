//! Chat templates: a conversation to the text of a prompt, by the template that comes with the model.
//!
//! Templates are written for Python's Jinja as Hugging Face Transformers sets it up. Rendered here with the same block
//! trimming, loop controls, `tojson`, `raise_exception`, `strftime_now` (in UTC) and the methods of strings, maps and
//! lists that templates use.
//!
//! A template is a program from a file, so it is bounded: its steps (more for longer conversations), the text that it
//! writes, the depth of calls, the length of ranges and repeated strings. Not bounded is a string that it builds in its
//! own variables by joining one with itself.
//!
//! ```
//! # use varve::model::template::ChatTemplate;
//! let template = ChatTemplate::new("{% for m in messages %}{{ m.role }}: {{ m.content.strip() }}\n{% endfor %}")?;
//! let context = serde_json::json!({ "messages": [{ "role": "user", "content": " Hi " }] });
//! assert_eq!(template.render(&context)?, "user: Hi\n");
//! # Ok::<(), varve::model::template::TemplateError>(())
//! ```

mod clock;
mod error;
mod json;
mod python;
#[cfg(test)]
mod tests;

pub use error::TemplateError;

use minijinja::{AutoEscape, Environment, Error, ErrorKind, Value};
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Longest source. Released templates have up to 20 KB.
const MAX_SOURCE: usize = 1 << 20;
/// Most bytes that a rendering writes, captured and thrown away ones included. A request body has at most 16 MiB.
const MAX_OUTPUT: usize = 64 << 20;
/// Steps of every rendering; more for each value of the conversation, up to a bound that takes less than half a second.
/// Templates in Qwen's manner take 55 steps for a message.
const STEPS: u64 = 200_000;
const STEPS_PER_VALUE: u64 = 500;
const MAX_STEPS: u64 = 4_000_000;
/// Deepest calls of macros: each takes some KiB of stack.
const MAX_DEPTH: usize = 100;
const NAME: &str = "chat_template";

/// A parsed chat template.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
}

/// Ends a rendering from inside.
#[derive(Debug, thiserror::Error)]
enum Raised {
    #[error("{0}")]
    Exception(String),
    #[error("too much output")]
    Output,
}

impl ChatTemplate {
    /// Parses a template.
    ///
    /// # Errors
    /// [`TemplateError::Syntax`] with the line, and [`TemplateError::Source`] for more than 1 MiB.
    pub fn new(source: &str) -> Result<Self, TemplateError> {
        if source.len() > MAX_SOURCE {
            return Err(TemplateError::Source { got: source.len(), limit: MAX_SOURCE });
        }
        let mut environment = Environment::new();
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.set_recursion_limit(MAX_DEPTH);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_unknown_method_callback(python::call_method);
        environment.add_filter("tojson", |value: &Value, args| json::to_json(value, args));
        environment.add_function("raise_exception", raise_exception);
        environment.add_function("strftime_now", strftime_now);
        let parsed = environment.add_template_owned(NAME, source.to_owned());
        parsed.map_err(|error| TemplateError::syntax(&error))?;
        Ok(Self { environment })
    }

    /// The prompt for `context`, a map of the template's variables: `messages`, `tools`, `add_generation_prompt` and so
    /// on.
    ///
    /// # Errors
    /// [`TemplateError`] with the template's line where the template refuses the conversation, fails, or does too much.
    pub fn render(&self, context: &serde_json::Value) -> Result<String, TemplateError> {
        let steps = STEPS.saturating_add(values(context).saturating_mul(STEPS_PER_VALUE)).min(MAX_STEPS);
        let mut environment = self.environment.clone(); // shares the parsed template
        environment.set_fuel(Some(steps));
        let written = Arc::new(AtomicUsize::new(0));
        environment.set_formatter(move |out, _, value| {
            let text = value.as_str().map_or_else(|| Cow::from(value.to_string()), Cow::from);
            if written.fetch_add(text.len(), Ordering::Relaxed).saturating_add(text.len()) > MAX_OUTPUT {
                return Err(Error::new(ErrorKind::WriteFailure, "too much output").with_source(Raised::Output));
            }
            out.write_str(&text).map_err(Error::from)
        });
        let rendered = environment.get_template(NAME).and_then(|template| template.render(context));
        rendered.map_err(|error| TemplateError::render(&error, steps, MAX_OUTPUT))
    }
}

/// Values in `context`, itself included.
fn values(context: &serde_json::Value) -> u64 {
    match context {
        serde_json::Value::Array(items) => 1 + items.iter().map(values).sum::<u64>(),
        serde_json::Value::Object(items) => 1 + items.values().map(values).sum::<u64>(),
        _ => 1,
    }
}

fn raise_exception(message: Value) -> Result<Value, Error> {
    let message = message.to_string();
    Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raised::Exception(message)))
}

fn strftime_now(format: &str) -> Result<String, Error> {
    let unknown = |c| Error::new(ErrorKind::InvalidOperation, format!("strftime_now: `%{c}` is not supported"));
    clock::format_time(format, clock::now()).map_err(unknown)
}
