//! Bodies of the generating routes: the fields that are known, their ranges, and what is made of them.
//!
//! A known field with a value that is not supported is refused, never ignored; an unknown field is accepted and named in
//! the reply's `x-varve-ignored`.

use std::hash::{BuildHasher, RandomState};

use serde_json::{Map, Value, json};

use crate::engine::sample::Sampling;

use super::error::ApiError;
use super::json::Fields;
use super::limits;

/// What both generating routes take.
#[derive(Clone, Debug)]
pub struct Options {
    /// `max_tokens`, where it was given.
    pub max_tokens: Option<usize>,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// Texts that end the reply.
    pub stop: Vec<String>,
    /// Go on at the end-of-text token.
    pub ignore_eos: bool,
    /// Send the reply in parts.
    pub stream: bool,
    /// End the stream with a chunk of usage.
    pub include_usage: bool,
    /// Tell in the stream how far the prompt is read.
    pub progress: bool,
}

/// A conversation, as the template takes it.
#[derive(Clone, Debug)]
pub struct Conversation {
    /// The messages: objects with `role` and `content` as texts, and `name` and `reasoning_content` where given.
    pub messages: Value,
    /// Further names for the template.
    pub template_options: Map<String, Value>,
}

/// The prompt of a completion.
#[derive(Clone, Debug)]
pub enum TextPrompt {
    /// Text, whose special tokens count: the client is its own template.
    Text(String),
    /// Token ids.
    Ids(Vec<u32>),
}

/// Checks `model`: absent, the served name, or an alias.
///
/// # Errors
/// `model_not_found` lists the names.
pub fn model(fields: &mut Fields, names: &[String]) -> Result<(), ApiError> {
    match fields.string("model")? {
        Some(model) if !names.contains(&model) => Err(ApiError::model_not_found(&model, names)),
        _ => Ok(()),
    }
}

/// The messages of a chat request.
///
/// # Errors
/// The first message that is wrong, by its path.
pub fn conversation(fields: &mut Fields, ignored: &mut Vec<String>) -> Result<Conversation, ApiError> {
    let accepted = format!("a list of 1 to {} messages", limits::MESSAGES);
    let messages = match fields.take("messages") {
        Some(Value::Array(items)) if (1..=limits::MESSAGES).contains(&items.len()) => items,
        Some(Value::Array(items)) => {
            let message = format!("`messages` has {} entries; accepted: {accepted}", items.len());
            return Err(ApiError::invalid("messages", message));
        }
        Some(other) => return Err(ApiError::invalid_value("messages", &other, accepted)),
        None => return Err(ApiError::invalid("messages", format!("`messages` is missing; accepted: {accepted}"))),
    };
    let messages = messages.into_iter().enumerate();
    let messages = messages.map(|(i, value)| message(Fields::new(value, &format!("messages[{i}]"))?, ignored));
    let messages = Value::Array(messages.collect::<Result<_, _>>()?);
    let template_options = match fields.take("chat_template_kwargs") {
        None => Map::new(),
        Some(Value::Object(options)) => options,
        Some(other) => return Err(ApiError::invalid_value("chat_template_kwargs", &other, "an object")),
    };
    Ok(Conversation { messages, template_options })
}

fn message(mut fields: Fields, ignored: &mut Vec<String>) -> Result<Value, ApiError> {
    let path = fields.name("role");
    let role = match fields.string("role")?.as_deref() {
        // The newer name of the same role, which templates do not know.
        Some("developer") => "system".to_owned(),
        Some(role @ ("system" | "user" | "assistant")) => role.to_owned(),
        Some(role @ ("tool" | "function")) => {
            return Err(ApiError::unsupported(&path, &role.into(), "system, developer, user, assistant"));
        }
        Some(other) => {
            return Err(ApiError::invalid_value(&path, &other.into(), "system, developer, user, assistant"));
        }
        None => return Err(ApiError::invalid(&path, format!("`{path}` is missing"))),
    };
    for field in ["tool_calls", "function_call", "tool_call_id", "audio"] {
        if let Some(value) = fields.take(field).filter(|value| value != &json!([])) {
            return Err(ApiError::unsupported(&fields.name(field), &value, "none"));
        }
    }
    let content = content(&mut fields)?;
    let mut message = Map::new();
    message.insert("role".into(), role.into());
    message.insert("content".into(), content.into());
    for field in ["name", "reasoning_content"] {
        if let Some(text) = fields.string(field)? {
            message.insert(field.into(), text.into());
        }
    }
    ignored.extend(fields.rest());
    Ok(Value::Object(message))
}

/// A message's text: a string, or parts of text that are joined.
fn content(fields: &mut Fields) -> Result<String, ApiError> {
    let path = fields.name("content");
    let parts = match fields.take("content") {
        Some(Value::String(text)) => return Ok(text),
        Some(Value::Array(parts)) => parts,
        Some(other) => return Err(ApiError::invalid_value(&path, &other, "a text, or a list of text parts")),
        None => return Err(ApiError::invalid(&path, format!("`{path}` is missing"))),
    };
    let mut joined = String::new();
    for (i, part) in parts.into_iter().enumerate() {
        let mut part = Fields::new(part, &format!("{path}[{i}]"))?;
        let kind = part.string("type")?.unwrap_or_default();
        if kind != "text" {
            return Err(ApiError::unsupported(&part.name("type"), &kind.into(), "text"));
        }
        let name = part.name("text");
        joined += &part.string("text")?.ok_or_else(|| ApiError::invalid(&name, format!("`{name}` is missing")))?;
    }
    Ok(joined)
}

/// The prompt of a completion request.
///
/// # Errors
/// `invalid_value` for anything but a text, token ids, or a list of one of them.
pub fn text_prompt(fields: &mut Fields, vocab: usize) -> Result<TextPrompt, ApiError> {
    let accepted = "a text, or a list of token ids";
    let value = match fields.take("prompt") {
        Some(Value::Array(mut items)) if items.len() == 1 && !items[0].is_number() => items.remove(0),
        Some(Value::Array(items)) if items.len() > 1 && !items[0].is_number() => {
            let message = format!("`prompt` has {} prompts; accepted: one ({accepted})", items.len());
            return Err(ApiError::invalid("prompt", message));
        }
        Some(value) => value,
        None => return Err(ApiError::invalid("prompt", format!("`prompt` is missing; accepted: {accepted}"))),
    };
    match value {
        Value::String(text) => Ok(TextPrompt::Text(text)),
        Value::Array(items) => ids(items, "prompt", vocab).map(TextPrompt::Ids),
        other => Err(ApiError::invalid_value("prompt", &other, accepted)),
    }
}

/// Token ids of a list.
///
/// # Errors
/// `invalid_value` names the first entry that is none.
pub fn ids(items: Vec<Value>, path: &str, vocab: usize) -> Result<Vec<u32>, ApiError> {
    let id = |(i, value): (usize, Value)| match value.as_u64() {
        Some(id) if id < vocab as u64 => Ok(id as u32),
        _ => {
            Err(ApiError::invalid_value(&format!("{path}[{i}]"), &value, format!("a token id from 0 to {}", vocab - 1)))
        }
    };
    items.into_iter().enumerate().map(id).collect()
}

/// The fields that both routes share.
///
/// # Errors
/// The first field that is wrong.
pub fn options(fields: &mut Fields, vocab: usize) -> Result<Options, ApiError> {
    unsupported(fields)?;
    let positive = 1..=i64::from(u32::MAX);
    let newer = fields.integer("max_completion_tokens", positive.clone())?;
    let older = fields.integer("max_tokens", positive)?;
    if let (Some(newer), Some(older)) = (newer, older)
        && newer != older
    {
        let message = format!("`max_tokens` is {older} and `max_completion_tokens` is {newer}; give one of them");
        return Err(ApiError::invalid("max_tokens", message));
    }
    let stream = fields.boolean("stream")?.unwrap_or(false);
    let (include_usage, progress) = (stream_options(fields, stream)?, fields.boolean("return_progress")?);
    Ok(Options {
        max_tokens: newer.or(older).and_then(|tokens| usize::try_from(tokens).ok()),
        sampling: sampling(fields, vocab)?,
        stop: stop(fields)?,
        ignore_eos: fields.boolean("ignore_eos")?.unwrap_or(false),
        stream,
        include_usage,
        progress: progress.unwrap_or(false),
    })
}

fn stream_options(fields: &mut Fields, stream: bool) -> Result<bool, ApiError> {
    let Some(value) = fields.take("stream_options") else { return Ok(false) };
    if !stream {
        return Err(ApiError::invalid("stream_options", "`stream_options` needs `stream`: true"));
    }
    let mut options = Fields::new(value, "stream_options")?;
    let include_usage = options.boolean("include_usage")?.unwrap_or(false);
    options.boolean("include_obfuscation")?; // padding that this server never sends
    Ok(include_usage)
}

/// Greedy unless asked otherwise.
fn sampling(fields: &mut Fields, vocab: usize) -> Result<Sampling, ApiError> {
    const SMALLEST: f64 = 1e-6;
    let ids = i64::try_from(vocab).unwrap_or(i64::MAX);
    let single = |number: Option<f64>, default: f32| number.map_or(default, |number| number as f32);
    Ok(Sampling {
        temperature: single(fields.number("temperature", 0.0..=2.0)?, 0.0),
        top_k: fields.integer("top_k", 0..=ids)?.and_then(|k| u32::try_from(k).ok()).unwrap_or(0),
        top_p: single(fields.number("top_p", SMALLEST..=1.0)?, 1.0),
        min_p: single(fields.number("min_p", 0.0..=1.0)?, 0.0),
        repetition_penalty: single(fields.number("repetition_penalty", SMALLEST..=2.0)?, 1.0),
        presence_penalty: single(fields.number("presence_penalty", -2.0..=2.0)?, 0.0),
        frequency_penalty: single(fields.number("frequency_penalty", -2.0..=2.0)?, 0.0),
        logit_bias: logit_bias(fields, vocab)?,
        // The bits of a negative seed are as good as any.
        seed: fields.integer("seed", i64::MIN..=i64::MAX)?.map_or_else(new_seed, |seed| seed as u64),
    })
}

/// A seed that differs each time.
fn new_seed() -> u64 {
    RandomState::new().hash_one(0)
}

fn logit_bias(fields: &mut Fields, vocab: usize) -> Result<Vec<(u32, f32)>, ApiError> {
    let accepted = format!("an object of at most {} entries, token id to bias from -100 to 100", limits::BIASES);
    let map = match fields.take("logit_bias") {
        None => return Ok(Vec::new()),
        Some(Value::Object(map)) if map.len() <= limits::BIASES => map,
        Some(other) => return Err(ApiError::invalid_value("logit_bias", &other, accepted)),
    };
    let entry = |(key, value): (String, Value)| {
        let id = key.parse::<u32>().ok().filter(|id| (*id as usize) < vocab);
        let id = id.ok_or_else(|| {
            let accepted = format!("token ids from 0 to {} as keys", vocab - 1);
            ApiError::invalid_value("logit_bias", &Value::String(key.clone()), accepted)
        })?;
        match value.as_f64().filter(|bias| (-100.0..=100.0).contains(bias)) {
            Some(bias) => Ok((id, bias as f32)),
            None => Err(ApiError::invalid_value(&format!("logit_bias.{id}"), &value, "a number from -100 to 100")),
        }
    };
    map.into_iter().map(entry).collect()
}

fn stop(fields: &mut Fields) -> Result<Vec<String>, ApiError> {
    let accepted =
        format!("a text, or a list of at most {} texts of 1 to {} bytes", limits::STOP_TEXTS, limits::STOP_BYTES);
    let items = match fields.take("stop") {
        None => return Ok(Vec::new()),
        Some(Value::Array(items)) if items.len() <= limits::STOP_TEXTS => items,
        Some(text @ Value::String(_)) => vec![text],
        Some(other) => return Err(ApiError::invalid_value("stop", &other, accepted)),
    };
    let text = |(i, value): (usize, Value)| match value {
        Value::String(text) if (1..=limits::STOP_BYTES).contains(&text.len()) => Ok(text),
        other => Err(ApiError::invalid_value(&format!("stop[{i}]"), &other, &accepted)),
    };
    items.into_iter().enumerate().map(text).collect()
}

/// Refuses what is known and not done yet, by name; takes the values that ask for nothing.
fn unsupported(fields: &mut Fields) -> Result<(), ApiError> {
    let idle: [(&str, &[Value], &str); 17] = [
        ("n", &[json!(1)], "1"),
        ("best_of", &[json!(1)], "1"),
        ("echo", &[json!(false)], "false"),
        ("suffix", &[json!("")], "none"),
        ("logprobs", &[json!(false)], "false"),
        ("top_logprobs", &[json!(0)], "0"),
        ("tools", &[json!([])], "none"),
        ("functions", &[json!([])], "none"),
        ("tool_choice", &[json!("none"), json!("auto")], "none, auto"),
        ("function_call", &[json!("none"), json!("auto")], "none, auto"),
        ("parallel_tool_calls", &[json!(true), json!(false)], "true, false"),
        ("response_format", &[json!({"type": "text"})], "{\"type\":\"text\"}"),
        ("modalities", &[json!(["text"])], "[\"text\"]"),
        ("reasoning_effort", &[], "none"),
        ("audio", &[], "none"),
        ("id_slot", &[json!(-1), json!(0)], "-1, 0"),
        ("cache_prompt", &[json!(true), json!(false)], "true, false"),
    ];
    for (field, values, accepted) in idle {
        match fields.take(field) {
            Some(value) if !values.contains(&value) => return Err(ApiError::unsupported(field, &value, accepted)),
            _ => {}
        }
    }
    fields.string("user")?;
    if let Some(other) = fields.take("metadata").filter(|value| !value.is_object()) {
        return Err(ApiError::invalid_value("metadata", &other, "an object"));
    }
    Ok(())
}
