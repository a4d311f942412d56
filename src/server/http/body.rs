//! Bodies of requests: bounded each and together, with a minimum rate.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_LENGTH;
use hyper::body::Body as _;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::base::limits::{
    HTTP_BODIES_BYTES_MAX, HTTP_BODY_BYTES_MAX, HTTP_BODY_GRACE_MS, HTTP_BODY_RATE_MIN,
    HTTP_BODY_ROOM_WAIT_MS, IMPORT_STALL_MS,
};
use crate::base::{Charge, Gauge};
use crate::management::http::Failure;

/// The bound on large bodies together.
#[derive(Debug)]
pub(super) struct Bodies {
    bytes: Semaphore,
    /// The gauge of the bytes held, for the alarms.
    kept: Gauge,
}

/// A body, with its share of the bound until it is dropped.
#[derive(Debug)]
pub(super) struct HeldBody<'a> {
    pub(super) bytes: Vec<u8>,
    room: Option<SemaphorePermit<'a>>,
    kept: Charge,
}

impl HeldBody<'_> {
    /// A charge for what is parsed from it.
    pub(super) fn charge(&self) -> Charge {
        self.kept.gauge().charge(0)
    }

    /// Replaces the bytes by what was parsed from them.
    pub(super) fn says(&mut self, kept: Charge) {
        self.kept = kept;
    }
}

impl Bodies {
    pub(super) fn new(kept: Gauge) -> Self {
        Self {
            kept,
            bytes: Semaphore::new(HTTP_BODIES_BYTES_MAX),
        }
    }

    /// Reads a body of at most `bytes_max` bytes. Only arrived bytes count, not announced ones; the
    /// first [`HTTP_BODY_BYTES_MAX`] do not count, so that small requests never wait.
    pub(super) async fn read(
        &self,
        headers: &HeaderMap,
        mut body: Body,
        bytes_max: usize,
    ) -> Result<HeldBody<'_>, Failure> {
        let announced = headers.get(CONTENT_LENGTH);
        let announced = announced.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        if announced.is_some_and(|bytes| bytes > bytes_max as u64) {
            return Err(Failure::too_large(bytes_max));
        }
        let begun = now();
        let mut held = HeldBody {
            bytes: Vec::new(),
            room: None,
            kept: self.kept.charge(0),
        };
        loop {
            let came = tokio::time::timeout_at(deadline(begun, held.bytes.len()), next(&mut body));
            let Ok(came) = came.await else {
                return Err(Failure::too_slow(format!(
                    "the body comes slower than {HTTP_BODY_RATE_MIN} bytes a second"
                )));
            };
            let Some(came) = came? else {
                return Ok(held);
            };
            if held.bytes.len() + came.len() > bytes_max {
                return Err(Failure::too_large(bytes_max));
            }
            self.makeroom(&mut held, came.len()).await?;
            held.bytes.extend_from_slice(&came);
            held.kept.set(held.bytes.capacity() as u64);
        }
    }

    async fn makeroom<'a>(&'a self, held: &mut HeldBody<'a>, bytes: usize) -> Result<(), Failure> {
        let wanted = (held.bytes.len() + bytes).saturating_sub(HTTP_BODY_BYTES_MAX);
        let has = held.room.as_ref().map_or(0, SemaphorePermit::num_permits);
        let more = u32::try_from(wanted.saturating_sub(has)).unwrap_or(u32::MAX);
        if more == 0 {
            return Ok(());
        }
        let wait = Duration::from_millis(HTTP_BODY_ROOM_WAIT_MS);
        let room = tokio::time::timeout(wait, self.bytes.acquire_many(more)).await;
        let Ok(Ok(room)) = room else {
            return Err(Failure::unavailable(format!(
                "too many bodies arrive at once: all together may have {HTTP_BODIES_BYTES_MAX} bytes"
            )));
        };
        match &mut held.room {
            Some(held) => held.merge(room),
            none => *none = Some(room),
        }
        Ok(())
    }
}

/// A body that is worked on while it arrives, of any length. Time counts only while it is waited
/// for: what comes gives time again, so that one that comes at [`HTTP_BODY_RATE_MIN`] never ends.
#[derive(Debug)]
pub(super) struct PacedBody {
    body: Body,
    /// Time that it may still be waited for.
    patience: Duration,
    patience_max: Duration,
}

/// The body came too slowly.
#[derive(Debug)]
pub(super) struct TooSlow {
    patience_max: Duration,
}

impl fmt::Display for TooSlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waited = self.patience_max.as_millis();
        write!(
            f,
            "the body comes slower than {HTTP_BODY_RATE_MIN} bytes a second: it was waited for \
             {waited} ms longer"
        )
    }
}

impl PacedBody {
    pub(super) const fn new(body: Body) -> Self {
        Self::with_patience(body, Duration::from_millis(IMPORT_STALL_MS))
    }

    const fn with_patience(body: Body, patience: Duration) -> Self {
        Self {
            body,
            patience,
            patience_max: patience,
        }
    }

    /// The next bytes; none at the end.
    pub(super) async fn next(&mut self) -> Result<Result<Option<Bytes>, TooSlow>, Failure> {
        let begun = now();
        let came = tokio::time::timeout(self.patience, next(&mut self.body)).await;
        let Ok(came) = came else {
            return Ok(Err(TooSlow {
                patience_max: self.patience_max,
            }));
        };
        let came = came?;
        let bytes = came.as_ref().map_or(0, Bytes::len) as u64;
        let earned = Duration::from_nanos(bytes * 1_000_000_000 / HTTP_BODY_RATE_MIN);
        self.patience = self.patience.saturating_sub(now() - begun);
        self.patience = (self.patience + earned).min(self.patience_max);
        Ok(Ok(came))
    }
}

/// When the next bytes must have arrived.
fn deadline(begun: Instant, arrived: usize) -> Instant {
    let owed_ms = arrived as u64 * 1_000 / HTTP_BODY_RATE_MIN;
    begun + Duration::from_millis(HTTP_BODY_GRACE_MS + owed_ms)
}

#[allow(clippy::disallowed_methods, reason = "a deadline of a socket")]
fn now() -> Instant {
    Instant::now()
}

/// The next bytes; none at the end.
async fn next(body: &mut Body) -> Result<Option<Bytes>, Failure> {
    loop {
        let frame = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await;
        let Some(frame) = frame else {
            return Ok(None);
        };
        let frame = frame
            .map_err(|error| Failure::bad_request(format!("the body cannot be read: {error}")))?;
        // Anything but data is trailers, which are ignored.
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::reply::Chunks;
    use super::*;

    /// An import kept its place with a byte each 19 seconds, for good.
    #[tokio::test]
    async fn a_body_that_trickles_ends_and_one_that_comes_fast_enough_does_not() {
        let read = async |piece: usize| {
            let (chunks, body) = Chunks::of_lines();
            let patience = Duration::from_secs(2);
            let mut body = PacedBody::with_patience(Body::new(body), patience);
            let sends = async {
                // In all more than it is waited for, each piece in a small part of that.
                for _ in 0..30 {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    if chunks
                        .send(Some(Bytes::from(vec![b' '; piece])))
                        .await
                        .is_err()
                    {
                        break;
                    }
                }
                drop(chunks);
            };
            let reads = async {
                while let Some(came) = body.next().await.unwrap()? {
                    assert_eq!(came.len(), piece);
                }
                drop(body);
                Ok::<_, TooSlow>(())
            };
            tokio::join!(reads, sends).0
        };
        let slow = read(1).await.unwrap_err().to_string();
        assert!(slow.contains("slower than 65536 bytes a second"), "{slow}");
        read(64 * 1024).await.unwrap();
    }
}
