//! Bodies of large durable messages, written to the journal while they arrive: the publish only
//! refers to them.
//!
//! ```text
//!  transfer frames --> Arriving: head | walk over the body --> pieces --> journal
//!                          |                                                 |
//!  last frame ------------>+--> last piece names the body <------------------+
//!                               --> Publish with head and name
//! A body that is never published is released with its [`StreamingBody`].

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;

use super::Gateway;
use super::errors;
use super::links::LinkKind;
use super::work::Work;
use crate::base::limits::{
    STREAMING_BODIES_MAX, STREAMING_BYTES_MIN, STREAMING_HEAD_BYTES_MAX,
    STREAMING_UNWRITTEN_BYTES_MAX,
};
#[cfg(test)]
use crate::base::plant::{Plant, is_planted};
use crate::base::{Charge, Lsn, Now, uncount_atomic};
use crate::broker::Command;
use crate::link::{LinkHandle, Payload};
use crate::message::{BareLengths, KeyRule, Message, MessageError};
use crate::store::PIECE_BYTES_MAX;
use crate::wire::performative::{Error, ResumePoint};
use crate::wire::{BodyWalk, DecodeError, SectionIndex, walk_head};

/// The destination of streamed bodies: the journal.
pub trait Bodies: fmt::Debug + Send + Sync {
    /// Appends a piece that is not the last, of at most [`PIECE_BYTES_MAX`] bytes.
    fn append_piece(&self, bytes: Bytes) -> Lsn;
    /// Appends the last piece, whose LSN names the body. The body can be read as long as the LSN is
    /// held.
    fn append_body(&self, pieces: Box<[Lsn]>, last: Bytes) -> Arc<Lsn>;
    /// Releases a piece or a body that no message refers to.
    fn release(&self, name: Lsn);
    /// Whether the disk has no room: what arrives now uses space that is reserved for settlements.
    fn is_short(&self) -> bool;
}

/// A message that is being streamed in.
#[derive(Debug)]
pub(super) struct StreamingBody {
    bodies: Arc<dyn Bodies>,
    /// Number of such messages in the whole broker, this one included.
    count: Arc<AtomicU32>,
    /// Whether it is counted there.
    is_counted: bool,
    /// The sections in front of its body.
    head: Bytes,
    index: SectionIndex,
    walk: BodyWalk,
    /// Bytes of its bare message so far.
    bare_bytes: u64,
    pieces: Vec<Lsn>,
    /// The bytes that do not fill a piece yet.
    tail: Vec<u8>,
    /// Counts what it takes while it arrives.
    _kept: Charge,
}

/// Whether a message is streamed.
enum Beginning {
    Streaming(Box<StreamingBody>),
    /// Not known yet: too little has arrived.
    Undecided,
    /// It is kept in memory until it is complete: it is not durable, or its body does not consist
    /// of bytes, or the sections in front of the body are large, or many others are being streamed.
    Kept,
}

impl StreamingBody {
    /// Decides by what has arrived.
    fn begin(gateway: &Gateway, front: Option<&Bytes>, fragments: &[Bytes]) -> Beginning {
        let Some(bodies) = &gateway.environment.bodies else {
            return Beginning::Kept;
        };
        let mut beginning = Vec::new();
        for fragment in front.into_iter().chain(fragments) {
            let room = STREAMING_HEAD_BYTES_MAX - beginning.len();
            beginning.extend_from_slice(fragment.get(..room).unwrap_or(fragment));
        }
        let Some(index) = walk_head(&beginning) else {
            return Beginning::Kept;
        };
        let header = index.read_header(&beginning);
        let is_durable = header.is_ok_and(|header| header.durable == Some(true));
        let (head, body) = beginning.split_at(index.body.start as usize);
        let mut walk = BodyWalk::default();
        if !is_durable || walk.push(body).is_err() || !walk.has_begun() {
            return Beginning::Kept;
        }
        if walk.bytes_min() < STREAMING_BYTES_MIN as u64 {
            return Beginning::Undecided;
        }
        let count = Arc::clone(&gateway.environment.streaming);
        if count.fetch_add(1, Ordering::Relaxed) >= STREAMING_BODIES_MAX {
            uncount_atomic!(count, 1, Ordering::Relaxed, "it was counted just now");
            return Beginning::Kept;
        }
        let mut streaming = Self {
            bodies: Arc::clone(bodies),
            count,
            is_counted: true,
            head: Bytes::copy_from_slice(head),
            index,
            walk: BodyWalk::default(),
            bare_bytes: 0,
            pieces: Vec::new(),
            tail: Vec::new(),
            _kept: gateway
                .environment
                .kept()
                .charge((PIECE_BYTES_MAX + head.len()) as u64),
        };
        let bare = head.get(index.bare as usize..).unwrap_or_default();
        streaming.append(bare, &mut Vec::new());
        Beginning::Streaming(Box::new(streaming))
    }

    /// Bytes in front of the body, which are consumed already.
    fn head_bytes(&self) -> usize {
        self.head.len()
    }

    /// Consumes the next bytes, in parts.
    pub(super) fn push_all(
        &mut self,
        parts: &[Bytes],
        unwritten: &mut Vec<(Lsn, u64)>,
    ) -> Result<(), DecodeError> {
        parts.iter().try_for_each(|part| self.push(part, unwritten))
    }

    /// Consumes the next bytes; adds the pieces that were filled to `unwritten`.
    fn push(&mut self, bytes: &[u8], unwritten: &mut Vec<(Lsn, u64)>) -> Result<(), DecodeError> {
        self.walk.push(bytes)?;
        self.append(bytes, unwritten);
        Ok(())
    }

    fn append(&mut self, mut bytes: &[u8], unwritten: &mut Vec<(Lsn, u64)>) {
        self.bare_bytes += bytes.len() as u64;
        while !bytes.is_empty() {
            if self.tail.capacity() == 0 {
                self.tail.reserve_exact(PIECE_BYTES_MAX);
            }
            let room = PIECE_BYTES_MAX - self.tail.len();
            let (taken, rest) = bytes.split_at(room.min(bytes.len()));
            self.tail.extend_from_slice(taken);
            bytes = rest;
            if self.tail.len() == PIECE_BYTES_MAX {
                let piece = std::mem::take(&mut self.tail);
                let lsn = self.bodies.append_piece(piece.into());
                self.pieces.push(lsn);
                unwritten.push((lsn, PIECE_BYTES_MAX as u64));
            }
        }
    }

    /// Consumes the last bytes; returns the message, whose body has its LSN now.
    fn finish(mut self, last: &[u8], keys: KeyRule) -> Result<Message, MessageError> {
        self.push(last, &mut Vec::new())?;
        let long = |_| DecodeError::TooLong;
        let lengths = BareLengths {
            body: u32::try_from(self.walk.finish()? + self.head_bare_bytes()).map_err(long)?,
            whole: u32::try_from(self.bare_bytes).map_err(long)?,
        };
        let pieces = std::mem::take(&mut self.pieces);
        #[cfg(test)]
        if is_planted(Plant::PiecesReleased) {
            self.pieces.clone_from(&pieces);
        }
        let pieces = pieces.into_boxed_slice();
        let tail = std::mem::take(&mut self.tail);
        let body = self.bodies.append_body(pieces, tail.into());
        let name = *body;
        let message = Message::from_head(&self.head, &self.index, lengths, body, keys);
        message.inspect_err(|_| self.bodies.release(name))
    }

    /// Bytes of its properties and application-properties.
    fn head_bare_bytes(&self) -> u64 {
        self.head.len() as u64 - u64::from(self.index.bare)
    }

    /// Bytes that have arrived so far.
    pub(super) fn bytes(&self) -> u64 {
        u64::from(self.index.bare) + self.bare_bytes
    }

    /// The sections in front of its body.
    pub(super) const fn head(&self) -> &Bytes {
        &self.head
    }

    /// Where it goes on if it is cut now. [AMQP 3.4.1]
    pub(super) fn resume_point(&self) -> ResumePoint {
        self.walk.resume_point(self.index.sections_before_body())
    }

    /// Whether it is one of those that are being streamed: while its link is attached nowhere it takes no
    /// place of theirs.
    pub(super) fn set_counted(&mut self, is_counted: bool) {
        match (self.is_counted, is_counted) {
            (false, true) => {
                self.count.fetch_add(1, Ordering::Relaxed);
            }
            (true, false) => {
                uncount_atomic!(
                    self.count,
                    1,
                    Ordering::Relaxed,
                    "a body that is streamed was counted"
                );
            }
            (false, false) | (true, true) => return,
        }
        self.is_counted = is_counted;
    }
}

impl Drop for StreamingBody {
    fn drop(&mut self) {
        self.set_counted(false);
        for piece in &self.pieces {
            self.bodies.release(*piece);
        }
    }
}

impl Gateway {
    /// Handles a part of a large message.
    pub(super) fn on_partial(&mut self, handle: LinkHandle) {
        let is_begun = matches!(
            self.links.by_handle(handle).map(|link| &link.kind),
            Some(LinkKind::Publisher(publisher)) if publisher.streaming.is_some()
        );
        let mut skip = 0;
        let mut front = None;
        if !is_begun {
            let resumable = self.links.resumable(handle);
            front = resumable.and_then(|resumable| resumable.front().cloned());
            let begun = match StreamingBody::begin(self, front.as_ref(), self.link.partial(handle))
            {
                Beginning::Streaming(streaming) => streaming,
                Beginning::Undecided => return,
                Beginning::Kept => return self.link.keep_partial(handle),
            };
            skip = begun.head_bytes();
            match self.links.by_handle(handle).map(|link| &mut link.kind) {
                Some(LinkKind::Publisher(publisher)) => publisher.streaming = Some(begun),
                _ => return self.link.keep_partial(handle),
            }
        }
        let fragments = self.link.take_partial(handle);
        let Some(LinkKind::Publisher(publisher)) =
            self.links.by_handle(handle).map(|link| &mut link.kind)
        else {
            return;
        };
        if let Some(resumable) = &mut publisher.resumable {
            resumable.forget_front();
        }
        let mut written = Vec::new();
        for fragment in front.into_iter().chain(fragments) {
            let head = skip.min(fragment.len());
            skip -= head;
            let bytes = fragment.get(head..).unwrap_or_default();
            let Some(streaming) = &mut publisher.streaming else {
                break;
            };
            if let Err(error) = streaming.push(bytes, &mut written) {
                publisher.streaming = None;
                let error = errors::message(&error.into());
                self.link.detach(handle, true, Some(error));
                break;
            }
        }
        self.unwritten.extend(written);
    }

    /// The message of a delivery that is complete; `last` are its last bytes.
    pub(super) fn whole_message(
        &mut self,
        streaming: Option<Box<StreamingBody>>,
        payload: Payload,
    ) -> Result<Arc<Message>, MessageError> {
        let keys = self.environment.options.key_rule;
        if let Some(streaming) = streaming {
            return streaming.finish(&payload.joined(), keys).map(Arc::new);
        }
        if let Payload::Parts(parts) = &payload
            && let Some(message) = Message::from_parts(parts, keys)?
        {
            return Ok(self.with_blob(Arc::new(message)));
        }
        let message = Arc::new(Message::from_transfer(payload.joined(), keys)?);
        Ok(self.with_blob(message))
    }

    /// Writes the bare bytes of a large durable message that was kept until it was complete, in
    /// pieces as well: no record becomes long, and the bytes need not stay in memory.
    fn with_blob(&mut self, message: Arc<Message>) -> Arc<Message> {
        let is_large = message.bare_len() > STREAMING_BYTES_MIN && message.durable();
        let (true, Some(bodies)) = (is_large, &self.environment.bodies) else {
            return message;
        };
        if message.head_bytes() > STREAMING_HEAD_BYTES_MAX {
            return message;
        }
        let mut rest = message.bare_bytes();
        let mut pieces = Vec::new();
        while rest.len() > PIECE_BYTES_MAX {
            let piece = rest.split_to(PIECE_BYTES_MAX);
            let bytes = piece.len() as u64;
            let lsn = bodies.append_piece(piece);
            self.unwritten.push_back((lsn, bytes));
            pieces.push(lsn);
        }
        let body = bodies.append_body(pieces.into_boxed_slice(), rest);
        message.with_blob(body).map_or(message, Arc::new)
    }

    /// Releases the body of a message that was not published.
    pub(super) fn release_blob(&self, body: Option<Lsn>) {
        if let (Some(bodies), Some(body)) = (&self.environment.bodies, body) {
            bodies.release(body);
        }
    }

    /// Drops the pending work, and releases the bodies that only it refers to.
    pub(super) fn forget_work(&mut self) {
        for work in self.batch.take_work() {
            let posts = match work {
                Work::Command(Command::Publish(publish)) => vec![publish],
                Work::Command(Command::PublishKept(kept)) => vec![kept.publish],
                Work::Command(Command::Commit(commit)) => commit.posts,
                _ => continue,
            };
            for publish in posts {
                self.release_blob(publish.message.blob().map(|body| **body));
            }
        }
    }

    /// Whether more was streamed than the journal has written to the disk: nothing should be read
    /// for now.
    pub fn is_streaming_beyond_disk(&self) -> bool {
        let unwritten = self.unwritten.iter().map(|(_, bytes)| *bytes);
        unwritten.sum::<u64>() > STREAMING_UNWRITTEN_BYTES_MAX
    }

    /// Whether messages are being streamed in while an alarm is in effect.
    pub fn is_streaming_in_alarm(&self) -> bool {
        let arrives = |kind: &LinkKind| match kind {
            LinkKind::Publisher(publisher) => publisher.streaming.is_some(),
            _ => false,
        };
        self.alarm && self.links.iter().any(|link| arrives(&link.kind))
    }

    /// Whether an alarm is in effect.
    pub const fn is_in_alarm(&self) -> bool {
        self.alarm
    }

    /// Gives up what is being streamed if the disk has no room for it: a connection with consumers
    /// has to be read, since their settlements free room.
    pub(super) fn give_up_streaming(&mut self) {
        let is_short = self
            .environment
            .bodies
            .as_ref()
            .is_some_and(|bodies| bodies.is_short());
        if is_short && self.is_consuming() {
            self.end_streams(&errors::disk_full());
        }
    }

    /// Gives up what is being streamed: the links end with this error.
    pub fn end_streaming(&mut self, now: Now, error: &Error) {
        self.end_streams(error);
        self.handle_events(now);
    }

    fn end_streams(&mut self, error: &Error) {
        for link in self.links.iter_mut() {
            if let LinkKind::Publisher(publisher) = &mut link.kind
                && publisher.streaming.take().is_some()
            {
                self.link.detach(link.handle, true, Some(error.clone()));
            }
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.forget_work();
        self.forget_transactions();
    }
}
