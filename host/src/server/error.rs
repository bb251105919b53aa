//! Errors as clients see them: status, code, message, and the parameter that caused it.

use std::fmt::Display;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use crate::engine::{Failure, SubmitError};
use crate::model::template::TemplateError;

use super::json::shown;

/// A reply that is an error; its body is `{"error": {message, type, code, param, ..}}`.
#[derive(Clone, Debug)]
pub struct ApiError(Box<Parts>);

#[derive(Clone, Debug)]
struct Parts {
    status: StatusCode,
    kind: &'static str,
    code: &'static str,
    message: String,
    param: Option<String>,
    extra: Map<String, Value>,
    headers: Vec<(HeaderName, String)>,
}

const INVALID: &str = "invalid_request_error";

impl ApiError {
    fn new(status: StatusCode, kind: &'static str, code: &'static str, message: impl Into<String>) -> Self {
        let (param, extra, headers) = (None, Map::new(), Vec::new());
        Self(Box::new(Parts { status, kind, code, message: message.into(), param, extra, headers }))
    }

    fn param(mut self, param: impl Into<String>) -> Self {
        self.0.param = Some(param.into());
        self
    }

    fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.extra.insert(name.into(), value.into());
        self
    }

    fn header(mut self, name: HeaderName, value: impl Display) -> Self {
        self.0.headers.push((name, value.to_string()));
        self
    }

    /// Names the request in the body, where the operator has to look for the reason.
    #[must_use]
    pub fn of_request(mut self, id: &str) -> Self {
        if self.0.status == StatusCode::INTERNAL_SERVER_ERROR {
            self.0.extra.insert("request_id".into(), id.into());
        }
        self
    }

    /// The status of the reply.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.0.status
    }

    /// The code of the body.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.0.code
    }

    /// The body.
    #[must_use]
    pub fn body(&self) -> Value {
        let mut error = Map::new();
        error.insert("message".into(), self.0.message.clone().into());
        error.insert("type".into(), self.0.kind.into());
        error.insert("code".into(), self.0.code.into());
        error.insert("param".into(), self.0.param.clone().into());
        error.extend(self.0.extra.clone());
        json!({ "error": error })
    }

    // 400

    /// Not JSON, or not UTF-8.
    pub fn malformed_json(message: impl Display, line: usize, column: usize, param: Option<String>) -> Self {
        let message = format!("the body is not valid JSON: {message} (line {line}, column {column})");
        let mut error = Self::new(StatusCode::BAD_REQUEST, INVALID, "malformed_json", message);
        error.0.param = param;
        error.with("line", line).with("column", column)
    }

    /// A value that this field does not take.
    pub fn invalid_value(param: &str, got: &Value, accepted: impl Display) -> Self {
        let message = format!("`{param}` is {}; accepted: {accepted}", shown(got));
        Self::new(StatusCode::BAD_REQUEST, INVALID, "invalid_value", message).param(param)
    }

    /// A field that must be there and is not, or a rule about more than one value.
    pub fn invalid(param: &str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, INVALID, "invalid_value", message).param(param)
    }

    /// A body that breaks a rule as a whole.
    pub fn invalid_body(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, INVALID, "invalid_value", message)
    }

    /// A known field with a value that is not supported yet.
    pub fn unsupported(param: &str, got: &Value, accepted: impl Display) -> Self {
        let message = format!("`{param}` is {}, which this server does not support; accepted: {accepted}", shown(got));
        Self::new(StatusCode::BAD_REQUEST, INVALID, "unsupported_value", message).param(param)
    }

    /// Prompt and reply do not fit into the context.
    pub fn context_length(prompt: usize, context: usize, max_tokens: usize) -> Self {
        let message = format!(
            "the prompt has {prompt} tokens and max_tokens is {max_tokens}, together more than the context of {context}; \
             shorten the prompt, lower max_tokens, or start the server with --fit-max-tokens or a larger --ctx"
        );
        Self::new(StatusCode::BAD_REQUEST, INVALID, "context_length_exceeded", message)
            .with("n_prompt_tokens", prompt)
            .with("n_ctx", context)
            .with("max_tokens", max_tokens)
    }

    /// The chat template refused the messages.
    pub fn template(error: &TemplateError) -> Self {
        let message = format!("the model's chat template refuses the conversation: {error}");
        Self::new(StatusCode::BAD_REQUEST, INVALID, "template_error", message)
            .param("messages")
            .with("line", error.line())
    }

    /// The model has no chat template.
    pub fn no_template() -> Self {
        let message = "the model has no chat template; use /v1/completions with a prompt of its own format";
        Self::new(StatusCode::BAD_REQUEST, INVALID, "template_error", message).with("line", Value::Null)
    }

    // 401 to 431

    /// The key is missing or wrong.
    pub fn invalid_key() -> Self {
        let message = "a valid key is needed: send `Authorization: Bearer KEY`";
        Self::new(StatusCode::UNAUTHORIZED, "authentication_error", "invalid_api_key", message)
            .header(header::WWW_AUTHENTICATE, "Bearer")
    }

    /// The `Host` header is not one of this server's names.
    pub fn host_not_allowed(host: &str) -> Self {
        let message = format!("the Host header is {}; add the name with --allowed-host", shown(&host.into()));
        Self::new(StatusCode::FORBIDDEN, "permission_error", "host_not_allowed", message)
    }

    /// The `Origin` header is there and not allowed.
    pub fn origin_not_allowed(origin: &str) -> Self {
        let message = format!("the Origin header is {}; add it with --allowed-origin", shown(&origin.into()));
        Self::new(StatusCode::FORBIDDEN, "permission_error", "origin_not_allowed", message)
    }

    /// Another model than the served one.
    pub fn model_not_found(model: &str, available: &[String]) -> Self {
        let message = format!("`model` is {}; this server serves `{}`", shown(&model.into()), available.join("`, `"));
        Self::new(StatusCode::NOT_FOUND, "not_found_error", "model_not_found", message)
            .param("model")
            .with("available", available)
    }

    /// No such path.
    pub fn not_found(path: &str) -> Self {
        let message = format!("there is no {}", shown(&path.into()));
        Self::new(StatusCode::NOT_FOUND, "not_found_error", "not_found", message)
    }

    /// The path has other methods; the router adds `Allow`.
    pub fn method_not_allowed(method: &str, path: &str) -> Self {
        let message = format!("{} does not take {}; see the Allow header", shown(&path.into()), shown(&method.into()));
        Self::new(StatusCode::METHOD_NOT_ALLOWED, INVALID, "method_not_allowed", message)
    }

    /// Headers or body did not come in time; the connection closes.
    pub fn request_timeout(what: &str, seconds: f64) -> Self {
        let message = format!("the {what} did not arrive within {seconds} s");
        Self::new(StatusCode::REQUEST_TIMEOUT, "timeout_error", "request_timeout", message)
            .header(header::CONNECTION, "close")
    }

    /// More body than is taken; the connection closes.
    pub fn body_too_large(limit: usize) -> Self {
        let message = format!("the body has more than {limit} bytes; the limit is --max-body-mib");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, INVALID, "body_too_large", message)
            .with("limit", limit)
            .header(header::CONNECTION, "close")
    }

    /// Not JSON by its own account.
    pub fn unsupported_media_type(got: &str) -> Self {
        let message = format!("Content-Type is {}; accepted: application/json", shown(&got.into()));
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, INVALID, "unsupported_media_type", message)
    }

    /// More headers than are taken.
    pub fn headers_too_large(limit: usize) -> Self {
        let message = format!("request line and headers have more than {limit} bytes");
        Self::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, INVALID, "headers_too_large", message)
            .with("limit", limit)
            .header(header::CONNECTION, "close")
    }

    /// As much waits as may: requests, or prompt tokens.
    fn queue_full(message: String, queued: usize, limit: usize) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_error", "queue_full", message)
            .with("queued", queued)
            .with("limit", limit)
            .header(header::RETRY_AFTER, 1)
    }

    // 500, 503

    /// A defect of the server; the reason is in the log.
    pub fn internal() -> Self {
        Self::server("internal", "an internal error; the server's log has it under this request_id")
    }

    fn server(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", code, message)
    }

    fn unavailable(code: &'static str, message: impl Into<String>, retry_after: u64) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable_error", code, message)
            .header(header::RETRY_AFTER, retry_after)
    }

    /// The model is not there yet.
    pub fn loading() -> Self {
        Self::unavailable("loading", "the model is still loading", 5)
    }

    /// The server ends.
    pub fn draining() -> Self {
        Self::unavailable("draining", "the server is shutting down", 30)
    }

    /// The device answers nothing any more.
    pub fn device_lost(why: &str) -> Self {
        Self::unavailable("device_lost", format!("the device is lost: {why}"), 60)
    }

    /// The request's turn did not come in time.
    pub fn queue_timeout(seconds: f64) -> Self {
        Self::unavailable("queue_timeout", format!("the request waited for its turn for {seconds} s"), 30)
    }
}

impl From<SubmitError> for ApiError {
    fn from(error: SubmitError) -> Self {
        let message = error.to_string();
        match error {
            SubmitError::EmptyPrompt | SubmitError::Token { .. } => Self::invalid("prompt", message),
            SubmitError::NoTokens => Self::invalid("max_tokens", message),
            SubmitError::EmptyStop => Self::invalid("stop", message),
            SubmitError::Sampling(_) => Self::invalid_body(message),
            SubmitError::TooLong { prompt, context } => Self::context_length(prompt, context, 1),
            SubmitError::QueueFull { queued, limit } | SubmitError::TokensQueued { queued, limit } => {
                Self::queue_full(message, queued, limit)
            }
            SubmitError::Draining => Self::draining(),
            SubmitError::DeviceLost(why) => Self::device_lost(&why),
            SubmitError::Stopped => Self::internal(),
        }
    }
}

impl From<&Failure> for ApiError {
    fn from(failure: &Failure) -> Self {
        match failure {
            Failure::Numeric(message) => Self::server("numeric_error", message),
            Failure::Model(message) => Self::server("device_error", message),
            Failure::DeviceLost(_) => Self::server("device_error", failure.to_string()),
            Failure::Draining => Self::draining(),
            // What a panic says is for the log, not for clients.
            Failure::Panicked(_) | Failure::Stopped => Self::internal(),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = self.body().to_string();
        let mut response = (self.0.status, [(header::CONTENT_TYPE, "application/json")], body).into_response();
        for (name, value) in &self.0.headers {
            if let Ok(value) = HeaderValue::from_str(value) {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }
}
