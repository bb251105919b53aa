//! `POST /v1/completions`.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;

use crate::model::tokenizer::Special;

use super::super::App;
use super::super::error::ApiError;
use super::super::generation::{self, Ready};
use super::super::json::{self, Fields};
use super::super::log::RequestLog;
use super::super::reply::Shape;
use super::super::request::{self, TextPrompt};
use super::{names, outcome, prepared};

/// Tokens of a reply to a request that does not say; what the OpenAI API documents for this route.
const DEFAULT_TOKENS: usize = 16;

/// Goes on with a text.
pub async fn complete(
    State(app): State<Arc<App>>,
    Extension(log): Extension<RequestLog>,
    request: Request,
) -> Response {
    let run = async {
        let ready = prepared(&app, request, |app, served, body| {
            let mut fields = Fields::new(json::parse(body)?, "")?;
            request::model(&mut fields, &names(app, served))?;
            let vocab = served.engine.vocab();
            let prompt = request::text_prompt(&mut fields, vocab)?;
            let options = request::options(&mut fields, vocab)?;
            let prompt = match prompt {
                TextPrompt::Ids(ids) => ids,
                TextPrompt::Text(text) => {
                    let ids = served.tokenizer.encode(&text, Special::Parse);
                    ids.map_err(|error| ApiError::invalid("prompt", error.to_string()))?
                }
            };
            Ready::new(Shape::Text, prompt, options, Some(DEFAULT_TOKENS), fields.rest(), (app, served))
        });
        let ready = ready.await?;
        generation::answer(&app, app.served()?, ready, log.clone()).await
    };
    outcome(run.await, &log)
}
