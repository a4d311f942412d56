//! Long answers: the bytes that wait to be sent are bounded over all requests, and count as memory.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::base::limits::{HTTP_ANSWERS_BYTES_MAX, HTTP_BODY_BYTES_MAX};
use crate::base::{Charge, Gauge};
use crate::management::http::Failure;

/// The bound on bytes of answers that show messages.
static ROOM: Semaphore = Semaphore::const_new(HTTP_ANSWERS_BYTES_MAX);
/// Bytes that are given to the connection at a time, which copies them.
const SLICE_BYTES: usize = 64 * 1024;

/// An answer that is written before it is sent. Its bytes count until the client has taken them.
#[derive(Debug)]
pub(super) struct Answer {
    text: String,
    room: Option<SemaphorePermit<'static>>,
    kept: Charge,
}

impl Answer {
    /// An empty answer, to be written piece by piece.
    pub(super) fn new(kept: &Gauge) -> Self {
        Self {
            text: String::new(),
            room: None,
            kept: kept.charge(0),
        }
    }

    /// A complete answer with bounds of its own.
    pub(super) fn written(text: String, kept: &Gauge) -> Self {
        let kept = kept.charge(text.capacity() as u64);
        Self {
            text,
            room: None,
            kept,
        }
    }

    /// Whether nothing is written yet.
    pub(super) const fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Appends a piece with bounds of its own.
    pub(super) fn append(&mut self, piece: &impl fmt::Display) {
        use fmt::Write;
        // Writing to a string cannot fail.
        let _ = write!(self.text, "{piece}");
        self.kept.set(self.text.len() as u64);
    }

    /// Appends a piece, if the bound allows it. The first [`HTTP_BODY_BYTES_MAX`] are not counted.
    pub(super) fn write(&mut self, piece: &impl fmt::Display) -> Result<(), Failure> {
        self.append(piece);
        let wanted = self.text.len().saturating_sub(HTTP_BODY_BYTES_MAX);
        let has = self.room.as_ref().map_or(0, SemaphorePermit::num_permits);
        let more = u32::try_from(wanted.saturating_sub(has)).unwrap_or(u32::MAX);
        if more == 0 {
            return Ok(());
        }
        let room = ROOM.try_acquire_many(more).map_err(|_| {
            Failure::unavailable(format!(
                "too many messages are shown at once: all answers together may have \
                 {HTTP_ANSWERS_BYTES_MAX} bytes"
            ))
        })?;
        match &mut self.room {
            Some(held) => held.merge(room),
            none => *none = Some(room),
        }
        Ok(())
    }

    /// The JSON that it has.
    pub(super) fn value(&self) -> serde_json::Result<serde_json::Value> {
        serde_json::from_str(&self.text)
    }

    /// The body to send.
    pub(super) fn into_body(self) -> impl Body<Data = Bytes, Error = std::convert::Infallible> {
        Sending {
            rest: Bytes::from(self.text),
            _room: self.room,
            _kept: self.kept,
        }
    }
}

/// The body of an answer.
#[derive(Debug)]
struct Sending {
    rest: Bytes,
    _room: Option<SemaphorePermit<'static>>,
    _kept: Charge,
}

impl Body for Sending {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let length = self.rest.len().min(SLICE_BYTES);
        let slice = self.rest.split_to(length);
        Poll::Ready((!slice.is_empty()).then(|| Ok(Frame::data(slice))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn answers_that_show_messages_have_one_room_and_count_until_they_are_sent() {
        let kept = Gauge::default();
        let megabyte = "x".repeat(1 << 20);
        let mut answers: Vec<Answer> = Vec::new();
        let refused = loop {
            let mut answer = Answer::new(&kept);
            let written = (0..32).try_for_each(|_| answer.write(&megabyte));
            answers.push(answer);
            if let Err(refused) = written {
                break refused;
            }
            assert!(answers.len() < 9, "{} answers of 32 MiB", answers.len());
        };
        assert_eq!(refused.status, 503);
        let told = refused.reason.contains(&HTTP_ANSWERS_BYTES_MAX.to_string());
        assert!(told, "{refused:?}");
        assert_eq!(answers.len(), 9);
        let bytes = kept.bytes();
        assert!(bytes >= HTTP_ANSWERS_BYTES_MAX as u64, "{bytes}");
        // A small one needs no room.
        assert!(Answer::new(&kept).write(&"small").is_ok());
        answers.pop();
        let mut body = Box::pin(answers.remove(0).into_body());
        assert_eq!(body.size_hint().exact(), Some(32 << 20));
        let mut context = Context::from_waker(Waker::noop());
        let mut sent = 0;
        while let Poll::Ready(Some(Ok(frame))) = body.as_mut().poll_frame(&mut context) {
            sent += frame.into_data().unwrap().len();
        }
        assert_eq!(sent, 32 << 20);
        drop((body, answers));
        assert_eq!(kept.bytes(), 0);
        assert!(Answer::new(&kept).write(&megabyte).is_ok());
    }
}
