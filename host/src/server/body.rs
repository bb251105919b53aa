//! Bodies of requests: the right type, in time, and no longer than allowed.

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, header};
use tokio_stream::StreamExt;

use super::error::ApiError;
use super::limits::Limits;

/// Reads a JSON body.
///
/// # Errors
/// `unsupported_media_type`, `body_too_large` (nothing is read beyond the limit), `request_timeout`, or
/// `malformed_json` for a body that ends early.
pub async fn read(headers: &HeaderMap, body: Body, limits: &Limits) -> Result<Bytes, ApiError> {
    let media = headers.get(header::CONTENT_TYPE).map_or("", |value| value.to_str().unwrap_or("not ASCII"));
    let essence = media.split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case("application/json") {
        return Err(ApiError::unsupported_media_type(media));
    }
    let promised = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if promised.is_some_and(|bytes| bytes > limits.body_bytes as u64) {
        return Err(ApiError::body_too_large(limits.body_bytes));
    }
    match tokio::time::timeout(limits.body_time, collect(body, limits.body_bytes)).await {
        Ok(read) => read,
        Err(_) => Err(ApiError::request_timeout("body", limits.body_time.as_secs_f64())),
    }
}

async fn collect(body: Body, limit: usize) -> Result<Bytes, ApiError> {
    let (mut chunks, mut read) = (body.into_data_stream(), Vec::new());
    while let Some(chunk) = chunks.next().await {
        // The connection broke, or the chunks are not framed as they must be; whoever still listens learns where.
        let chunk = chunk.map_err(|_| ApiError::malformed_json("the body ends early", 1, read.len() + 1, None))?;
        if chunk.len() > limit - read.len() {
            return Err(ApiError::body_too_large(limit));
        }
        read.extend_from_slice(&chunk);
    }
    Ok(read.into())
}
