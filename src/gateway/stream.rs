//! Streamed messages on their way to consumers: read back from the journal piece by piece, as the
//! peer takes them.

use std::sync::Arc;

use bytes::Bytes;

use super::Gateway;
use super::errors;
use super::work::Work;
use crate::base::{ConsumerId, Lsn, Now, Position};
use crate::broker::{Command, Delivery, DropCause};
use crate::link::{LinkHandle, Sending, Unsendable};
use crate::store::PIECE_BYTES_MAX;

/// The messages of one connection that are being read back.
#[derive(Debug, Default)]
pub(super) struct Streams {
    list: Vec<Stream>,
    last: u64,
}

#[derive(Debug)]
struct Stream {
    number: u64,
    link: LinkHandle,
    consumer: ConsumerId,
    position: Position,
    /// The LSN of the body; the body is not released while this is held.
    body: Arc<Lsn>,
    /// Index of the next piece.
    piece: usize,
    /// Bytes of that piece that are not sent.
    skipped_bytes: usize,
    bytes_left: u64,
}

/// A piece of a body to read. Answered by [`Gateway::handle_fetched`].
#[derive(Clone, Debug)]
pub struct Fetch {
    /// The number of the stream, to be given back with the piece.
    pub stream: u64,
    /// The LSN of the body.
    pub body: Arc<Lsn>,
    /// Index of the piece, from 0.
    pub piece: usize,
}

impl Streams {
    /// Forgets the messages on their way through a link.
    pub(super) fn forget(&mut self, link: LinkHandle) {
        self.list.retain(|stream| stream.link != link);
    }
}

impl Gateway {
    /// Sends a message whose bare bytes are in the journal.
    pub(super) fn stream(
        &mut self,
        handle: LinkHandle,
        sending: Sending<'_>,
        message: (&Delivery, &Arc<Lsn>),
    ) -> Result<(), Unsendable> {
        self.stream_from(handle, sending, message, 0)
    }

    /// Sends such a message from this byte of its bare bytes on.
    pub(super) fn stream_from(
        &mut self,
        handle: LinkHandle,
        sending: Sending<'_>,
        (delivery, body): (&Delivery, &Arc<Lsn>),
        offset: usize,
    ) -> Result<(), Unsendable> {
        self.streams.last += 1;
        let number = self.streams.last;
        let bytes_left = (delivery.message.bare_len() - offset) as u64;
        self.link
            .send_stream(handle, sending, (number, bytes_left))?;
        self.streams.list.push(Stream {
            number,
            link: handle,
            consumer: delivery.consumer,
            position: delivery.position,
            body: Arc::clone(body),
            piece: offset / PIECE_BYTES_MAX,
            skipped_bytes: offset % PIECE_BYTES_MAX,
            bytes_left,
        });
        Ok(())
    }

    /// The next piece to read for a message, if any.
    pub fn poll_fetch(&mut self) -> Option<Fetch> {
        while let Some((_, number)) = self.link.poll_wanting() {
            let mut streams = self.streams.list.iter();
            if let Some(stream) = streams.find(|stream| stream.number == number) {
                return Some(Fetch {
                    stream: number,
                    body: Arc::clone(&stream.body),
                    piece: stream.piece,
                });
            }
        }
        None
    }

    /// Handles a piece that was read; none: it could not be read.
    pub fn handle_fetched(&mut self, now: Now, number: u64, bytes: Option<Bytes>) {
        let mut streams = self.streams.list.iter_mut();
        let Some(stream) = streams.find(|stream| stream.number == number) else {
            return;
        };
        let link = stream.link;
        let skipped = std::mem::take(&mut stream.skipped_bytes);
        let bytes = bytes.filter(|bytes| bytes.len() > skipped);
        let bytes = bytes.map(|bytes| bytes.slice(skipped..));
        let bytes = bytes.filter(|bytes| bytes.len() as u64 <= stream.bytes_left);
        if let Some(bytes) = bytes {
            stream.piece += 1;
            stream.bytes_left -= bytes.len() as u64;
            if stream.bytes_left == 0 {
                self.streams.list.retain(|stream| stream.number != number);
            }
            self.link.supply(link, number, bytes);
        } else {
            let (consumer, position) = (stream.consumer, stream.position);
            let discard = Command::Discard {
                consumer,
                position,
                cause: DropCause::Damaged,
            };
            self.batch.push(Work::Command(discard));
            self.streams.forget(link);
            self.link.detach(link, true, Some(errors::unreadable()));
        }
        self.handle_events(now);
    }
}
