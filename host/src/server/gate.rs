//! What every request passes: an id, the limits on headers, the checks of host, origin and key, and the net under
//! panics.

use std::hash::{BuildHasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::App;
use super::error::ApiError;
use super::limits;
use super::log::RequestLog;

const REQUEST_ID: &str = "x-request-id";
/// Paths that tell nothing and take no key.
const OPEN: [&str; 2] = ["/live", "/health"];

/// Lets a request through to its route, or answers it.
pub async fn pass(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let open = OPEN.contains(&path.as_str());
    let log = RequestLog::new(&request_id(request.headers()), method.as_str(), route_of(&path), open);
    let mut response = match check(&app, &request, open) {
        Err(error) => {
            log.code(error.code());
            error.into_response()
        }
        Ok(origin) => {
            request.extensions_mut().insert(log.clone());
            let preflight = origin.is_some() && method == Method::OPTIONS;
            let mut response = if preflight { preflight_reply() } else { caught(next.run(request), &log).await };
            allow_origin(response.headers_mut(), origin);
            response
        }
    };
    log.status(response.status());
    if let Ok(id) = HeaderValue::from_str(log.id()) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// The client's id, if it is a plain one, or a new one.
fn request_id(headers: &HeaderMap) -> String {
    let sent = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if (1..=128).contains(&sent.len()) && sent.bytes().all(plain) {
        return sent.to_owned();
    }
    // Each RandomState has keys of its own: an id needs to be new, not secret.
    format!("{:016x}", RandomState::new().hash_one(0))
}

/// The path as the log shows it: one of the routes, nothing that a client made up.
fn route_of(path: &str) -> &str {
    if path.starts_with("/v1/models/") {
        return "/v1/models/{id}";
    }
    if super::routes::PATHS.contains(&path) { path } else { "unknown" }
}

fn check(app: &App, request: &Request, open: bool) -> Result<Option<HeaderValue>, ApiError> {
    let headers = request.headers();
    let line = request.method().as_str().len() + request.uri().to_string().len() + "  HTTP/1.1\r\n".len();
    let bytes = headers.iter().fold(line, |sum, (name, value)| sum + name.as_str().len() + value.len() + 4);
    if bytes > limits::HEADER_BYTES {
        return Err(ApiError::headers_too_large(limits::HEADER_BYTES));
    }
    app.config.names.check(headers, app.bound)?;
    let preflight = request.method() == Method::OPTIONS && headers.contains_key(header::ORIGIN);
    // A preflight never has a key, and its reply tells nothing.
    if !open && !preflight {
        app.config.keys.check(headers)?;
    }
    Ok(headers.get(header::ORIGIN).cloned())
}

fn preflight_reply() -> Response {
    let headers = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST"),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, "authorization, content-type, x-request-id"),
        (header::ACCESS_CONTROL_MAX_AGE, "600"),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}

/// Lets the page of an allowed origin read the reply.
fn allow_origin(headers: &mut HeaderMap, origin: Option<HeaderValue>) {
    if let Some(origin) = origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::VARY, HeaderValue::from_static("origin"));
    }
}

/// A panic of a handler costs its request a 500, and nothing else.
async fn caught(run: impl Future<Output = Response>, log: &RequestLog) -> Response {
    let mut run = pin!(run);
    let polled = std::future::poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| run.as_mut().poll(context))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(response)) => Poll::Ready(Ok(response)),
        Err(_) => Poll::Ready(Err(())),
    });
    polled.await.unwrap_or_else(|()| {
        let error = ApiError::internal().of_request(log.id());
        log.code(error.code());
        error.into_response()
    })
}
