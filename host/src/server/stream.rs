//! Replies in parts, as server-sent events.
//!
//! A task moves events from the generation to a bounded channel that the connection reads. When the client leaves, the
//! connection drops its end, the task sees it, and the generation is cancelled, in the prompt as well as in decode.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tokio::sync::mpsc::{Sender, channel};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

use crate::engine::{Event, Generation};

use super::Replying;
use super::error::ApiError;
use super::limits::{self, Limits};
use super::log::{RequestLog, ms};
use super::reply::Reply;

/// All that a streamed reply needs.
pub struct Streaming {
    /// The shape of its chunks.
    pub reply: Reply,
    /// Whether chunks tell how far the prompt is read.
    pub progress: bool,
    /// Its line in the log.
    pub log: RequestLog,
    /// Its place among the replies under way.
    pub replying: Replying,
}

/// Why a stream ends before its `[DONE]`.
enum Broken {
    Closed,
    Stalled,
    Failed,
}

/// Answers with the events of a generation that has started.
pub fn respond(generation: Generation, streaming: Streaming, limits: &Limits) -> Response {
    let (sender, receiver) = channel(limits::UNREAD_CHUNKS);
    let (keepalive, stall) = (limits.keepalive, limits.stall_time);
    tokio::spawn(async move {
        let out = Out { sender, stall };
        let Streaming { reply, progress, log, replying } = streaming;
        match copy(generation, &reply, progress, &out, keepalive, &log).await {
            Ok(()) | Err(Broken::Failed) => {}
            Err(Broken::Closed) => log.finish("client_closed"),
            Err(Broken::Stalled) => log.finish("client_stalled"),
        }
        drop(replying);
    });
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache"),
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    let body = Body::from_stream(ReceiverStream::new(receiver).map(Ok::<Bytes, Infallible>));
    (headers, body).into_response()
}

async fn copy(
    mut generation: Generation,
    reply: &Reply,
    progress: bool,
    out: &Out,
    keepalive: Duration,
    log: &RequestLog,
) -> Result<(), Broken> {
    let started = Instant::now();
    if let Some(first) = reply.first() {
        out.data(&first).await?;
    }
    loop {
        let event = tokio::select! {
            event = generation.next() => event,
            () = out.sender.closed() => return Err(Broken::Closed),
            () = tokio::time::sleep(keepalive) => {
                out.send(": keepalive\n\n".into()).await?;
                continue;
            }
        };
        match event {
            Some(Event::Prompt { done, total }) if progress => {
                out.data(&reply.progress(done, total, ms(started.elapsed()))).await?;
            }
            Some(Event::Piece { text, .. }) if !text.is_empty() => out.data(&reply.text(&text)).await?,
            Some(Event::Started { .. } | Event::Prompt { .. } | Event::Piece { .. }) => {}
            Some(Event::Finished { reason, usage, timings }) => {
                log.result(reason.as_str(), usage, timings);
                out.data(&reply.last(reason, &usage, &timings)).await?;
                if let Some(usage) = reply.usage(&usage) {
                    out.data(&usage).await?;
                }
                return out.send("data: [DONE]\n\n".into()).await;
            }
            Some(Event::Failed(failure)) => {
                super::generation::log_failure(&failure, log);
                let error = ApiError::from(&failure).of_request(log.id());
                log.code(error.code());
                // The status is long gone; the missing [DONE] says that this is not a reply.
                out.data(&error.body()).await?;
                return Err(Broken::Failed);
            }
            None => return Err(Broken::Failed),
        }
    }
}

/// The connection's end.
struct Out {
    sender: Sender<Bytes>,
    stall: Duration,
}

impl Out {
    async fn data(&self, value: &Value) -> Result<(), Broken> {
        self.send(format!("data: {value}\n\n").into()).await
    }

    async fn send(&self, bytes: Bytes) -> Result<(), Broken> {
        match tokio::time::timeout(self.stall, self.sender.send(bytes)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(Broken::Closed),
            Err(_) => Err(Broken::Stalled),
        }
    }
}
