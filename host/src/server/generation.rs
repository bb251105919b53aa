//! From a checked request to its reply.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};

use crate::engine::{Event, Failure, Generation, Request};

use super::error::ApiError;
use super::log::RequestLog;
use super::reply::{Reply, Shape};
use super::request::Options;
use super::stream::{self, Streaming};
use super::{App, Replying, Served, limits};

/// A request that can be queued.
pub struct Ready {
    shape: Shape,
    request: Request,
    stream: bool,
    include_usage: bool,
    progress: bool,
    ignored: Vec<String>,
}

impl Ready {
    /// Checks the prompt's length and fills in what the request leaves open; `default_tokens` is the reply's length
    /// where none is given, `None` for as long as fits.
    ///
    /// # Errors
    /// `context_length_exceeded` with the three numbers, or `invalid_value` for an empty prompt.
    pub fn new(
        shape: Shape,
        prompt: Vec<u32>,
        options: Options,
        default_tokens: Option<usize>,
        ignored: Vec<String>,
        (app, served): (&App, &Served),
    ) -> Result<Self, ApiError> {
        let (context, n) = (served.engine.context(), prompt.len());
        if n == 0 {
            return Err(ApiError::invalid("prompt", "the prompt is empty; it needs at least one token"));
        }
        let room = context.saturating_sub(n);
        let asked = options.max_tokens.unwrap_or(default_tokens.unwrap_or(room).min(room).max(1));
        if room == 0 || (asked > room && !app.config.fit_max_tokens) {
            return Err(ApiError::context_length(n, context, asked));
        }
        let Options { sampling, stop, ignore_eos, stream, include_usage, progress, .. } = options;
        let stop_ids = served.stop_ids.clone();
        let request = Request { prompt, max_tokens: asked.min(room), sampling, stop, stop_ids, ignore_eos };
        Ok(Self { shape, request, stream, include_usage, progress, ignored })
    }
}

/// Queues a request and answers it.
///
/// # Errors
/// Whatever happens before the first byte of the reply.
pub async fn answer(app: &Arc<App>, served: &Served, ready: Ready, log: RequestLog) -> Result<Response, ApiError> {
    let Ready { shape, request, stream, include_usage, progress, ignored } = ready;
    log.asked(stream, request.prompt.len());
    let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let reply = Reply::new(shape, log.id(), created, &served.info.id, include_usage);
    let replying = app.begin();
    let mut generation = served.engine.submit(request)?;
    let limits = &app.config.limits;
    match tokio::time::timeout(limits.queue_time, generation.next()).await {
        Err(_) => return Err(ApiError::queue_timeout(limits.queue_time.as_secs_f64())),
        Ok(Some(Event::Failed(failure))) => return Err(failed(&failure, &log)),
        Ok(_) => {}
    }
    let mut response = if stream {
        stream::respond(generation, Streaming { reply, progress, log, replying }, limits)
    } else {
        whole(generation, &reply, &log, replying).await?
    };
    if let Some(names) = ignored_header(&ignored) {
        response.headers_mut().insert(HeaderName::from_static("x-varve-ignored"), names);
    }
    Ok(response)
}

async fn whole(
    mut generation: Generation,
    reply: &Reply,
    log: &RequestLog,
    _replying: Replying,
) -> Result<Response, ApiError> {
    let mut text = String::new();
    loop {
        match generation.next().await {
            Some(Event::Piece { text: piece, .. }) => text += &piece,
            Some(Event::Finished { reason, usage, timings }) => {
                log.result(reason.as_str(), usage, timings);
                return Ok(Json(reply.whole(&text, reason, &usage, &timings)).into_response());
            }
            Some(Event::Failed(failure)) => return Err(failed(&failure, log)),
            Some(Event::Started { .. } | Event::Prompt { .. }) => {}
            None => return Err(ApiError::internal()),
        }
    }
}

fn failed(failure: &Failure, log: &RequestLog) -> ApiError {
    log_failure(failure, log);
    ApiError::from(failure)
}

/// Failures are the operator's business, too.
pub fn log_failure(failure: &Failure, log: &RequestLog) {
    log.finish("failed");
    if *failure != Failure::Draining {
        tracing::error!(id = log.id(), %failure, "a generation failed");
    }
}

/// The unknown fields, as far as a header can hold their names.
fn ignored_header(ignored: &[String]) -> Option<HeaderValue> {
    let plain = |c: char| if c.is_ascii_graphic() && c != ',' { c } else { '?' };
    let short = |name: &String| name.chars().take(limits::SHOWN).map(plain).collect::<String>();
    let mut names: Vec<String> = ignored.iter().take(limits::IGNORED_NAMES).map(short).collect();
    if ignored.len() > limits::IGNORED_NAMES {
        names.push("..".into());
    }
    if names.is_empty() { None } else { HeaderValue::from_str(&names.join(", ")).ok() }
}
