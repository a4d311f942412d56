//! Bodies of requests, bounded each and together.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_LENGTH;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::management::http::Failure;

/// Bytes of one body (as RabbitMQ).
const BODY_BYTES_MAX: usize = 20_000_000;
/// Bytes of all bodies that are being handled.
const BODIES_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Time for a body to arrive, waiting for room included.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// The room that bodies have together.
#[derive(Debug)]
pub(super) struct Bodies {
    bytes: Semaphore,
}

/// A body, and its part of the room until it is dropped.
#[derive(Debug)]
pub(super) struct Held<'a> {
    pub(super) bytes: Bytes,
    _room: SemaphorePermit<'a>,
}

impl Bodies {
    pub(super) fn new() -> Self {
        Self {
            bytes: Semaphore::new(BODIES_BYTES_MAX),
        }
    }

    /// Reads a body.
    pub(super) async fn read(&self, headers: &HeaderMap, body: Body) -> Result<Held<'_>, Failure> {
        let announced = headers.get(CONTENT_LENGTH);
        let announced = announced.and_then(|length| length.to_str().ok()?.parse().ok());
        let is_chunked = headers.contains_key(axum::http::header::TRANSFER_ENCODING);
        let bytes: usize = announced.unwrap_or(if is_chunked { BODY_BYTES_MAX } else { 0 });
        if bytes > BODY_BYTES_MAX {
            return Err(Failure::too_large(BODY_BYTES_MAX));
        }
        let reading = async {
            let room = self
                .bytes
                .acquire_many(u32::try_from(bytes).unwrap_or(u32::MAX));
            let room = room.await.map_err(|_| Failure::unavailable("stopping"))?;
            let bytes = axum::body::to_bytes(body, BODY_BYTES_MAX).await;
            let bytes = bytes.map_err(|_| Failure::too_large(BODY_BYTES_MAX))?;
            Ok(Held { bytes, _room: room })
        };
        let late = |_| Failure::unavailable("the body did not arrive in time");
        tokio::time::timeout(BODY_TIMEOUT, reading)
            .await
            .map_err(late)?
    }
}
