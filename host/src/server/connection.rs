//! Connections: accepted up to a limit, each served with a time limit on its headers, and closed so that the client gets
//! to read the last reply.
//!
//! This speaks to `hyper` directly because `axum::serve` sets no timer: headers that never end would hold a connection
//! for ever.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use super::error::ApiError;
use super::limits::{self, Limits};

/// Bytes that the HTTP parser buffers; what exceeds [`limits::HEADER_BYTES`] and not this gets a reply with a body.
const BUFFER_BYTES: usize = 256 << 10;
/// Pause after a failed `accept`, most often for want of file descriptors: others may be closed meanwhile.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections until `close` becomes true; then idle ones close, and busy ones after their reply. Returns when
/// all have.
pub async fn accept(listener: TcpListener, router: Router, limits: &Limits, mut close: watch::Receiver<bool>) {
    let places = Arc::new(Semaphore::new(limits.connections));
    loop {
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            next = next => next,
            () = asked(&mut close) => break,
        };
        match accepted {
            Ok((stream, _)) => {
                let (router, close, limits) = (router.clone(), close.clone(), limits.clone());
                tokio::spawn(async move {
                    serve(stream, router, &limits, close).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    let all = u32::try_from(limits.connections).unwrap_or(u32::MAX);
    let _ = places.acquire_many(all).await;
}

/// Waits until the server closes; at once, if nobody can say so any more.
async fn asked(close: &mut watch::Receiver<bool>) {
    let _ = close.wait_for(|close| *close).await;
}

async fn serve(stream: TcpStream, router: Router, limits: &Limits, mut close: watch::Receiver<bool>) {
    // Tokens are small and wanted at once. A socket that cannot do it works all the same.
    let _ = stream.set_nodelay(true);
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_time)
        .max_headers(limits::HEADERS)
        .max_buf_size(BUFFER_BYTES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let outcome = tokio::select! {
        outcome = poll_fn(|context| connection.poll_without_shutdown(context)) => outcome,
        () = asked(&mut close) => {
            std::pin::Pin::new(&mut connection).graceful_shutdown();
            poll_fn(|context| connection.poll_without_shutdown(context)).await
        }
    };
    let parts = connection.into_parts();
    let mut stream = parts.io.into_inner();
    if outcome.is_err_and(|error| error.is_timeout()) && !parts.read_buf.is_empty() {
        // Some headers came and the rest did not. An idle connection closes without a word.
        let reply = timeout_reply(limits.header_time);
        let _ = tokio::time::timeout(limits::LINGER, stream.write_all(&reply)).await;
    }
    let _ = tokio::time::timeout(limits::LINGER, linger(&mut stream)).await;
}

/// Closing a socket with unread data resets it, and a reset overtakes the reply. So the server's side ends first, and
/// what still comes is read and dropped for a while.
async fn linger(stream: &mut TcpStream) {
    if stream.shutdown().await.is_ok() {
        let mut discarded = vec![0; 64 << 10];
        while matches!(stream.read(&mut discarded).await, Ok(1..)) {}
    }
}

fn timeout_reply(time: Duration) -> Bytes {
    let body = ApiError::request_timeout("headers", time.as_secs_f64()).body().to_string();
    let head =
        "HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: ";
    format!("{head}{}\r\n\r\n{body}", body.len()).into()
}
