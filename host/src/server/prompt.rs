//! From messages to token ids: the model's chat template, and what keeps a message from posing as the template.
//!
//! Templates place a message's text among special tokens such as `<|im_start|>`. A message that spells such a token must
//! not become one. So all texts of the client are shielded ([`Tokenizer::shield`] puts marks into the special tokens they
//! spell) before the template sees them; it moves, trims and tests them as before. Of the rendered prompt only what has
//! no mark counts as special.

use serde_json::{Map, Value, json};

use crate::model::template::{ChatTemplate, TemplateError};
use crate::model::tokenizer::{Tokenizer, TokenizerError};

/// Why a conversation has no prompt.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    /// The template refused it.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The tokenizer refused it.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
}

/// A chat template with the texts of its model's first and last token.
#[derive(Debug)]
pub struct Chat {
    template: ChatTemplate,
    bos: String,
    eos: String,
}

impl Chat {
    /// A template; tokens without a text, or absent, are empty texts in it.
    #[must_use]
    pub fn new(template: ChatTemplate, tokenizer: &Tokenizer, bos: Option<u32>, eos: Option<u32>) -> Self {
        let text = |id: Option<u32>| id.and_then(|id| tokenizer.token(id)).unwrap_or_default();
        Self { template, bos: text(bos), eos: text(eos) }
    }

    /// The prompt as text. `messages` is a list of objects, `options` are further names for the template; special tokens
    /// that either spells look like those of the template here.
    ///
    /// # Errors
    /// What the template says.
    pub fn render(&self, messages: Value, options: Map<String, Value>) -> Result<String, TemplateError> {
        self.template.render(&self.context(messages, options))
    }

    /// The prompt as token ids.
    ///
    /// # Errors
    /// What the template or the tokenizer says.
    pub fn encode(
        &self,
        tokenizer: &Tokenizer,
        mut messages: Value,
        mut options: Map<String, Value>,
    ) -> Result<Vec<u32>, PromptError> {
        for field in messages.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut).flatten() {
            // A role is one of a few words, which templates compare.
            if field.0 != "role" {
                shield(tokenizer, field.1);
            }
        }
        options.values_mut().for_each(|option| shield(tokenizer, option));
        let text = self.template.render(&self.context(messages, options))?;
        Ok(tokenizer.encode_shielded(&text)?)
    }

    /// What the template sees. The options come first: they cannot replace the messages.
    fn context(&self, messages: Value, options: Map<String, Value>) -> Value {
        let mut context = options;
        context.entry("add_generation_prompt").or_insert(true.into());
        context.insert("messages".into(), messages);
        context.insert("bos_token".into(), json!(self.bos));
        context.insert("eos_token".into(), json!(self.eos));
        Value::Object(context)
    }
}

/// Shields every text of `value`.
fn shield(tokenizer: &Tokenizer, value: &mut Value) {
    match value {
        Value::String(text) => *text = tokenizer.shield(text),
        Value::Array(items) => items.iter_mut().for_each(|item| shield(tokenizer, item)),
        Value::Object(fields) => fields.values_mut().for_each(|field| shield(tokenizer, field)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
