//! One line in the log for each request, written when the last part of its reply is gone. Never any text of it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;

use crate::engine::{Timings, Usage};

/// What is known of a request; clones write into the same line.
#[derive(Clone, Debug)]
pub struct RequestLog(Arc<Line>);

#[derive(Debug)]
struct Line {
    id: String,
    method: String,
    route: String,
    quiet: bool,
    received: Instant,
    facts: Mutex<Facts>,
}

#[derive(Debug, Default)]
struct Facts {
    status: Option<StatusCode>,
    code: Option<&'static str>,
    stream: Option<bool>,
    prompt: Option<usize>,
    finish: Option<&'static str>,
    result: Option<(Usage, Timings)>,
}

impl RequestLog {
    /// Starts the line of a request; `quiet` ones are written at debug level.
    #[must_use]
    pub fn new(id: &str, method: &str, route: &str, quiet: bool) -> Self {
        let facts = Mutex::new(Facts::default());
        let (id, method, route) = (id.into(), method.into(), route.into());
        Self(Arc::new(Line { id, method, route, quiet, received: Instant::now(), facts }))
    }

    /// The request's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.0.id
    }

    fn set(&self, change: impl FnOnce(&mut Facts)) {
        change(&mut self.0.facts.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The status that was sent.
    pub fn status(&self, status: StatusCode) {
        self.set(|facts| facts.status = Some(status));
    }

    /// The code of an error, also of one inside a stream.
    pub fn code(&self, code: &'static str) {
        self.set(|facts| facts.code = Some(code));
    }

    /// What was asked for.
    pub fn asked(&self, stream: bool, prompt: usize) {
        self.set(|facts| (facts.stream, facts.prompt) = (Some(stream), Some(prompt)));
    }

    /// How a generation ended without figures.
    pub fn finish(&self, finish: &'static str) {
        self.set(|facts| facts.finish = Some(finish));
    }

    /// How a generation ended, with figures.
    pub fn result(&self, finish: &'static str, usage: Usage, timings: Timings) {
        self.set(|facts| (facts.finish, facts.result) = (Some(finish), Some((usage, timings))));
    }
}

/// A duration in milliseconds, with one digit behind the point.
#[must_use]
pub fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e4).round() / 10.0
}

impl Drop for Line {
    fn drop(&mut self) {
        let Facts { status, code, stream, prompt, finish, result } =
            std::mem::take(&mut *self.facts.lock().unwrap_or_else(PoisonError::into_inner));
        // A handler that was dropped before its reply belonged to a client that left.
        let finish = finish.or_else(|| status.is_none().then_some("client_closed"));
        let status = status.map_or(0, |status| status.as_u16());
        let (id, method, route, total) = (&self.id, &self.method, &self.route, ms(self.received.elapsed()));
        if self.quiet {
            tracing::debug!(%id, %method, %route, status, ms = total, "request");
            return;
        }
        let Some((usage, timings)) = result else {
            tracing::info!(%id, %method, %route, stream, prompt_total = prompt, code, finish, status, ms = total, "request");
            return;
        };
        let rate = |rate: Option<f64>| rate.map(|rate| (rate * 10.0).round() / 10.0);
        tracing::info!(
            %id, %method, %route, stream,
            queue_ms = ms(timings.queue),
            prompt_total = usage.prompt,
            prompt_cached = usage.cached,
            prompt_new = usage.prompt - usage.cached,
            prompt_ms = ms(timings.prompt),
            prompt_tok_s = rate(timings.prompt_rate(&usage)),
            ttft_ms = ms(timings.queue + timings.first_token),
            decode = usage.generated,
            decode_ms = ms(timings.decode),
            decode_tok_s = rate(timings.decode_rate(&usage)),
            code, finish, status,
            ms = total,
            "request"
        );
    }
}
