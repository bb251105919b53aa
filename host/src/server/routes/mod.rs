//! The routes, a file for each group.

mod chat;
mod completions;
mod health;
mod models;
mod tokenize;

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::Request;
use axum::http::{Method, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

use super::error::ApiError;
use super::log::RequestLog;
use super::{App, Served, body};

/// All paths without parameters.
pub const PATHS: [&str; 9] = [
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/models",
    "/tokenize",
    "/detokenize",
    "/apply-template",
    "/health",
    "/live",
    "/version",
];

/// The routes, and replies for all else.
pub fn router() -> Router<Arc<App>> {
    Router::new()
        .route("/v1/chat/completions", post(chat::complete))
        .route("/apply-template", post(chat::apply_template))
        .route("/v1/completions", post(completions::complete))
        .route("/v1/models", get(models::list))
        .route("/v1/models/{*id}", get(models::one))
        .route("/tokenize", post(tokenize::tokenize))
        .route("/detokenize", post(tokenize::detokenize))
        .route("/health", get(health::health))
        .route("/live", get(health::live))
        .route("/version", get(health::version))
        .fallback(async |uri: Uri| ApiError::not_found(uri.path()))
        .method_not_allowed_fallback(async |method: Method, uri: Uri| {
            ApiError::method_not_allowed(method.as_str(), uri.path())
        })
}

/// The model's names: its own, and its aliases.
fn names(app: &App, served: &Served) -> Vec<String> {
    std::iter::once(&served.info.id).chain(&app.config.aliases).cloned().collect()
}

/// Reads the body of a request and works on it where blocking does no harm.
async fn prepared<T, F>(app: &Arc<App>, request: Request, work: F) -> Result<T, ApiError>
where
    T: Send + 'static,
    F: FnOnce(&App, &Served, &Bytes) -> Result<T, ApiError> + Send + 'static,
{
    let served = Arc::clone(app.served()?);
    let (parts, body) = request.into_parts();
    let body = body::read(&parts.headers, body, &app.config.limits).await?;
    let _permit = app.tokenizing.acquire().await.map_err(|_| ApiError::internal())?;
    let app = Arc::clone(app);
    let work = tokio::task::spawn_blocking(move || work(&app, &served, &body));
    // A panic in there is a defect here: the gate answers it as such.
    work.await.unwrap_or_else(|error| match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => Err(ApiError::draining()),
    })
}

/// A route's outcome as a response, its error in the log.
fn outcome(result: Result<Response, ApiError>, log: &RequestLog) -> Response {
    result.unwrap_or_else(|error| {
        log.code(error.code());
        error.of_request(log.id()).into_response()
    })
}
