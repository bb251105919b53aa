//! `POST /v1/chat/completions` and `POST /apply-template`.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde_json::json;

use super::super::error::ApiError;
use super::super::generation::{self, Ready};
use super::super::json::{self as body_json, Fields};
use super::super::log::RequestLog;
use super::super::prompt::PromptError;
use super::super::reply::Shape;
use super::super::request::{self, Conversation};
use super::super::{App, Chat, Served};
use super::{names, outcome, prepared};

/// Goes on with a conversation.
pub async fn complete(
    State(app): State<Arc<App>>,
    Extension(log): Extension<RequestLog>,
    request: Request,
) -> Response {
    let run = async {
        let ready = prepared(&app, request, |app, served, body| {
            let mut ignored = Vec::new();
            let mut fields = Fields::new(body_json::parse(body)?, "")?;
            request::model(&mut fields, &names(app, served))?;
            let conversation = request::conversation(&mut fields, &mut ignored)?;
            let options = request::options(&mut fields, served.engine.vocab())?;
            ignored.extend(fields.rest());
            let prompt = encode(served, conversation)?;
            Ready::new(Shape::Chat, prompt, options, None, ignored, (app, served))
        });
        let ready = ready.await?;
        generation::answer(&app, app.served()?, ready, log.clone()).await
    };
    outcome(run.await, &log)
}

/// Shows the prompt of a conversation.
pub async fn apply_template(
    State(app): State<Arc<App>>,
    Extension(log): Extension<RequestLog>,
    request: Request,
) -> Response {
    let rendered = prepared(&app, request, |app, served, body| {
        let mut fields = Fields::new(body_json::parse(body)?, "")?;
        request::model(&mut fields, &names(app, served))?;
        let Conversation { messages, template_options } = request::conversation(&mut fields, &mut Vec::new())?;
        let rendered = chat(served)?.render(messages, template_options);
        rendered.map_err(|error| ApiError::template(&error))
    });
    outcome(rendered.await.map(|prompt| Json(json!({ "prompt": prompt })).into_response()), &log)
}

fn chat(served: &Served) -> Result<&Chat, ApiError> {
    served.chat.as_ref().ok_or_else(ApiError::no_template)
}

fn encode(served: &Served, conversation: Conversation) -> Result<Vec<u32>, ApiError> {
    let Conversation { messages, template_options } = conversation;
    chat(served)?.encode(&served.tokenizer, messages, template_options).map_err(|error| match error {
        PromptError::Template(error) => ApiError::template(&error),
        PromptError::Tokenizer(error) => ApiError::invalid("messages", error.to_string()),
    })
}
