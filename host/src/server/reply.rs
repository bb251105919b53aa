//! The objects of a reply: whole, or the chunks of a stream.

use serde_json::{Map, Value, json};

use crate::engine::{Finish, Timings, Usage};

use super::log::ms;

/// Which of the two shapes a reply has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `/v1/chat/completions`
    Chat,
    /// `/v1/completions`
    Text,
}

/// What all objects of one reply share.
#[derive(Clone, Debug)]
pub struct Reply {
    shape: Shape,
    id: String,
    created: u64,
    model: String,
    include_usage: bool,
}

impl Reply {
    /// A reply to the request `id`; `created` in seconds since 1970.
    #[must_use]
    pub fn new(shape: Shape, id: &str, created: u64, model: &str, include_usage: bool) -> Self {
        let prefix = match shape {
            Shape::Chat => "chatcmpl",
            Shape::Text => "cmpl",
        };
        Self { shape, id: format!("{prefix}-{id}"), created, model: model.into(), include_usage }
    }

    fn object(&self, object: &str, choices: Value) -> Map<String, Value> {
        let mut map = Map::new();
        map.insert("id".into(), self.id.clone().into());
        map.insert("object".into(), object.into());
        map.insert("created".into(), self.created.into());
        map.insert("model".into(), self.model.clone().into());
        map.insert("choices".into(), choices);
        map
    }

    /// The whole reply.
    #[must_use]
    pub fn whole(&self, text: &str, finish: Finish, usage: &Usage, timings: &Timings) -> Value {
        let finish = finish.as_str();
        let mut map = match self.shape {
            Shape::Chat => {
                let message = json!({"role": "assistant", "content": text, "refusal": null});
                let choice = json!({"index": 0, "message": message, "logprobs": null, "finish_reason": finish});
                self.object("chat.completion", json!([choice]))
            }
            Shape::Text => {
                let choice = json!({"index": 0, "text": text, "logprobs": null, "finish_reason": finish});
                self.object("text_completion", json!([choice]))
            }
        };
        map.insert("usage".into(), usage_of(usage));
        map.insert("timings".into(), timings_of(usage, timings));
        Value::Object(map)
    }

    fn chunk(&self, choices: Value) -> Map<String, Value> {
        let object = match self.shape {
            Shape::Chat => "chat.completion.chunk",
            Shape::Text => "text_completion",
        };
        let mut map = self.object(object, choices);
        if self.include_usage {
            map.insert("usage".into(), Value::Null);
        }
        map
    }

    fn choice(&self, delta: Value, text: &str, finish: Option<Finish>) -> Value {
        let finish = finish.map(Finish::as_str);
        match self.shape {
            Shape::Chat => json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]),
            Shape::Text => json!([{"index": 0, "text": text, "logprobs": null, "finish_reason": finish}]),
        }
    }

    /// The chunk before any text, where the shape has one.
    #[must_use]
    pub fn first(&self) -> Option<Value> {
        let choice = self.choice(json!({"role": "assistant", "content": ""}), "", None);
        (self.shape == Shape::Chat).then(|| Value::Object(self.chunk(choice)))
    }

    /// A chunk of text.
    #[must_use]
    pub fn text(&self, text: &str) -> Value {
        Value::Object(self.chunk(self.choice(json!({ "content": text }), text, None)))
    }

    /// A chunk that tells how much of the prompt is read.
    #[must_use]
    pub fn progress(&self, done: usize, total: usize, ms: f64) -> Value {
        let mut map = self.chunk(json!([]));
        map.insert("prompt_progress".into(), json!({"total": total, "cached": 0, "done": done, "ms": ms}));
        Value::Object(map)
    }

    /// The chunk with the reason of the end.
    #[must_use]
    pub fn last(&self, finish: Finish, usage: &Usage, timings: &Timings) -> Value {
        let mut map = self.chunk(self.choice(json!({}), "", Some(finish)));
        map.insert("timings".into(), timings_of(usage, timings));
        Value::Object(map)
    }

    /// The chunk of usage, where it was asked for.
    #[must_use]
    pub fn usage(&self, usage: &Usage) -> Option<Value> {
        self.include_usage.then(|| {
            let mut map = self.chunk(json!([]));
            map.insert("usage".into(), usage_of(usage));
            Value::Object(map)
        })
    }
}

fn usage_of(usage: &Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.generated,
        "total_tokens": usage.prompt + usage.generated,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
    })
}

fn timings_of(usage: &Usage, timings: &Timings) -> Value {
    json!({
        "queue_ms": ms(timings.queue),
        "cached_n": usage.cached,
        "prompt_n": usage.prompt - usage.cached,
        "prompt_ms": ms(timings.prompt),
        "decode_n": usage.generated,
        "decode_ms": ms(timings.decode),
        "draft_offered": 0,
        "draft_accepted": 0,
    })
}
