//! `GET /health`, `GET /live` and `GET /version`.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde_json::json;

use super::super::App;
use super::super::log::RequestLog;
use super::outcome;

/// Whether a request could run now.
pub async fn health(State(app): State<Arc<App>>, Extension(log): Extension<RequestLog>) -> Response {
    outcome(app.served().map(|_| Json(json!({"status": "ok"})).into_response()), &log)
}

/// That the process answers.
pub async fn live() -> Response {
    Json(json!({"status": "ok"})).into_response()
}

/// Which program this is.
pub async fn version() -> Response {
    Json(json!({"name": "varve", "version": env!("CARGO_PKG_VERSION")})).into_response()
}
