//! `POST /tokenize` and `POST /detokenize`.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde_json::{Value, json};

use crate::model::tokenizer::Special;

use super::super::App;
use super::super::error::ApiError;
use super::super::json::{self, Fields};
use super::super::log::RequestLog;
use super::super::request;
use super::{outcome, prepared};

/// Text to token ids: `{"content", "parse_special": true, "with_pieces": false}` to `{"tokens"}`.
pub async fn tokenize(
    State(app): State<Arc<App>>,
    Extension(log): Extension<RequestLog>,
    request: Request,
) -> Response {
    let tokens = prepared(&app, request, |_, served, body| {
        let mut fields = Fields::new(json::parse(body)?, "")?;
        let text = fields.string("content")?;
        let text = text.ok_or_else(|| ApiError::invalid("content", "`content` is missing; accepted: a text"))?;
        let special = if fields.boolean("parse_special")?.unwrap_or(true) { Special::Parse } else { Special::AsText };
        let with_pieces = fields.boolean("with_pieces")?.unwrap_or(false);
        let ids = served.tokenizer.encode(&text, special);
        let ids = ids.map_err(|error| ApiError::invalid("content", error.to_string()))?;
        let token = |id: u32| match with_pieces {
            true => json!({"id": id, "piece": served.tokenizer.decode(&[id], false)}),
            false => json!(id),
        };
        Ok(Value::Array(ids.into_iter().map(token).collect()))
    });
    outcome(tokens.await.map(|tokens| Json(json!({ "tokens": tokens })).into_response()), &log)
}

/// Token ids to text: `{"tokens": [..]}` to `{"content"}`.
pub async fn detokenize(
    State(app): State<Arc<App>>,
    Extension(log): Extension<RequestLog>,
    request: Request,
) -> Response {
    let text = prepared(&app, request, |_, served, body| {
        let mut fields = Fields::new(json::parse(body)?, "")?;
        let ids = match fields.take("tokens") {
            Some(Value::Array(items)) => request::ids(items, "tokens", served.engine.vocab())?,
            Some(other) => return Err(ApiError::invalid_value("tokens", &other, "a list of token ids")),
            None => return Err(ApiError::invalid("tokens", "`tokens` is missing; accepted: a list of token ids")),
        };
        Ok(served.tokenizer.decode(&ids, false))
    });
    outcome(text.await.map(|text| Json(json!({ "content": text })).into_response()), &log)
}
