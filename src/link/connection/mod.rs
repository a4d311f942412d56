//! One AMQP connection.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::{ClientOptions, Event, Identity, LinkHandle, Options, SessionHandle};
use crate::base::{Millis, Now, Serial};
use crate::wire::performative::{Attach, AttachAnswer, DeliveryState, Error};
use crate::wire::sasl::SaslCode;

/// One AMQP connection, in the server's or the client's role. [AMQP 2.4]
///
/// Its methods are of four kinds:
/// - input: [`handle_bytes`](Self::handle_bytes), [`handle_timeout`](Self::handle_timeout);
/// - output: [`poll_event`](Self::poll_event), [`poll_transmit`](Self::poll_transmit),
///   [`next_deadline`](Self::next_deadline);
/// - commands: answers to events and everything the owner wants; they only change state and stage
///   frames, and do nothing on a stale handle;
/// - state questions: nouns such as [`credit`](Self::credit).
///
/// A driver's turn: read bytes while [`wants_input`](Self::wants_input), `handle_bytes`, take all
/// events and give the answers, `handle_bytes` again if bytes are left and input is wanted (an
/// answer may have unblocked the reading), `poll_transmit`, write, sleep until `next_deadline`.
#[derive(Debug)]
pub struct Connection {
    options: Options,
    events: VecDeque<Event>,
}

/// A message to send: `prefix` and `bare` together are its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Sending<'a> {
    /// Comes back in [`Event::Outcome`] and [`super::Fates`].
    pub token: u64,
    /// Send it settled (always so on a link with snd-settle-mode settled).
    pub settled: bool,
    /// The message format, 0 for AMQP messages.
    pub message_format: u32,
    /// The sections that were made for this delivery: header and annotations.
    pub prefix: &'a [u8],
    /// The rest, sent unchanged.
    pub bare: &'a [u8],
}

/// Why a message cannot be sent; it was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unsendable {
    /// The link is gone or going, or it is one on which we receive.
    #[error("the link is not attached")]
    NotAttached,
    /// The receiver gave no more credit.
    #[error("the link has no credit")]
    NoCredit,
    /// The message is larger than the receiver's max-message-size, in bytes.
    #[error("the message is larger than the receiver's maximum of {max_bytes} bytes")]
    TooLarge {
        /// The receiver's maximum.
        max_bytes: u64,
    },
}

/// Beginnings.
impl Connection {
    /// A connection that a client made to us. The handshake timeout runs from `now`.
    pub fn server(now: Now, options: Options) -> Self {
        let _ = now;
        Self {
            options,
            events: VecDeque::new(),
        }
    }

    /// A connection that we made to a server.
    pub fn client(now: Now, client: ClientOptions) -> Self {
        Self::server(now, client.options)
    }
}

/// Input.
impl Connection {
    /// Takes the whole frames at the front of `input` that may be read now; the rest stays. Call it
    /// again with the rest after answers (see [`wants_input`](Self::wants_input)).
    pub fn handle_bytes(&mut self, now: Now, input: &mut BytesMut) {
        let _ = (now, input);
    }

    /// Does what is due: heartbeats, the idle and the handshake timeout.
    pub fn handle_timeout(&mut self, now: Now) {
        let _ = now;
    }
}

/// Output.
impl Connection {
    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Appends frames to `out` until it holds about `base::limits::TRANSMIT_BYTES_MAX` bytes, and
    /// returns whether something was appended. Call it when earlier bytes were written (messages
    /// that are sent in many frames are encoded only then), so that a slow peer costs no memory.
    pub fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> bool {
        let _ = (now, out);
        false
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called next.
    pub fn next_deadline(&self) -> Option<Millis> {
        None
    }
}

/// State questions.
impl Connection {
    /// Whether nothing more will be read, and all that is to be written was taken by
    /// [`poll_transmit`](Self::poll_transmit): drop the socket after writing that.
    pub fn is_closed(&self) -> bool {
        false
    }

    /// Whether bytes should be read from the socket: false while an answer of the owner is awaited,
    /// while our own answers are not written, and when the connection is over.
    pub fn wants_input(&self) -> bool {
        true
    }

    /// Bytes taken and not yet handed out by [`poll_transmit`](Self::poll_transmit).
    pub fn bytes_pending(&self) -> u64 {
        0
    }

    /// Bytes of deliveries from the peer that have begun and not ended.
    pub fn partial_bytes(&self) -> u64 {
        0
    }

    /// Messages that may have been given to [`send`](Self::send) on the links of the session since it
    /// began: those taken plus the peer's incoming window. 0 for a stale handle.
    pub fn session_limit(&self, session: SessionHandle) -> u64 {
        let _ = session;
        0
    }

    /// The link's credit: on a link on which we receive, what the sender has left; on one on which we
    /// send, what we may still send. 0 for a stale handle.
    pub fn credit(&self, link: LinkHandle) -> u32 {
        let _ = link;
        0
    }

    /// Tokens of messages taken by [`send`](Self::send) and not begun to be written, oldest first.
    pub fn unsent(&self, link: LinkHandle) -> impl Iterator<Item = u64> + '_ {
        let _ = link;
        std::iter::empty()
    }
}

/// Commands of the connection.
impl Connection {
    /// Server: one step of a mechanism that has more than one.
    pub fn sasl_challenge(&mut self, challenge: &[u8]) {
        let _ = challenge;
    }

    /// Server: the verdict. Anything but `Ok` closes the connection.
    pub fn sasl_outcome(&mut self, code: SaslCode) {
        let _ = code;
    }

    /// Answers the peer's open.
    pub fn open(&mut self, now: Now, identity: Identity) {
        let _ = (now, identity);
    }

    /// Answers the peer's open with open and a close that says why.
    pub fn refuse_open(&mut self, now: Now, identity: Identity, error: Error) {
        let _ = (now, identity, error);
    }

    /// Closes the connection; what was staged before is still written before the close.
    pub fn close(&mut self, now: Now, error: Option<Error>) {
        let _ = (now, error);
    }
}

/// Commands of sessions and links.
impl Connection {
    /// Client: begins a session.
    pub fn begin(&mut self) -> Option<SessionHandle> {
        None
    }

    /// Ends a session: its deliveries are undone, [`Event::SessionEnded`] follows.
    pub fn end(&mut self, session: SessionHandle, error: Option<Error>) {
        let _ = (session, error);
    }

    /// Client: attaches a link. Handle and initial delivery-count are the engine's.
    pub fn attach(&mut self, session: SessionHandle, attach: Attach) -> Option<LinkHandle> {
        let _ = (session, attach);
        None
    }

    /// Accepts an attach. On a link on which we receive give credit afterwards, on one on which we
    /// send flows of the peer follow as events.
    pub fn accept_attach(&mut self, link: LinkHandle, answer: AttachAnswer) {
        let _ = (link, answer);
    }

    /// Refuses an attach: it is answered with a null terminus and a detach with the error.
    /// Frames for the link are ignored until the peer's detach. [AMQP 2.6.3]
    pub fn refuse_attach(&mut self, link: LinkHandle, error: Error) {
        let _ = (link, error);
    }

    /// Detaches a link: its unsettled deliveries are undone, [`Event::Detached`] follows.
    pub fn detach(&mut self, link: LinkHandle, closed: bool, error: Option<Error>) {
        let _ = (link, closed, error);
    }

    /// We receive: lets the sender send `credit` messages from now on. [AMQP 2.6.7]
    pub fn set_credit(&mut self, link: LinkHandle, credit: u32) {
        let _ = (link, credit);
    }

    /// We receive: lets the sender send `credit` messages, or say that it has no more. [AMQP 2.6.7]
    pub fn drain(&mut self, link: LinkHandle, credit: u32) {
        let _ = (link, credit);
    }

    /// We send: what `available` says in our next flow on the link. Default: 0.
    pub fn set_available(&mut self, link: LinkHandle, available: u32) {
        let _ = (link, available);
    }

    /// Sends a message. Small ones are copied into the output at once; `owner` is asked for the bare
    /// bytes of one that has to wait or takes many frames.
    pub fn send(
        &mut self,
        link: LinkHandle,
        sending: Sending<'_>,
        owner: impl FnOnce() -> Bytes,
    ) -> Result<(), Unsendable> {
        let _ = (link, sending, owner);
        Err(Unsendable::NotAttached)
    }

    /// We send: what there was is sent; uses up the credit and says so. [AMQP 2.6.7]
    pub fn drained(&mut self, link: LinkHandle) {
        let _ = link;
    }

    /// Decides about a delivery that we received: settles it, or with `rcv-settle-mode` second waits
    /// for the sender to settle. Answers leave in ranges.
    pub fn settle_received(&mut self, link: LinkHandle, delivery_id: Serial, state: DeliveryState) {
        let _ = (link, delivery_id, state);
    }

    /// Settles a delivery that we sent, after an [`Event::Outcome`] that was not settled.
    pub fn settle_sent(&mut self, link: LinkHandle, delivery_id: Serial, state: DeliveryState) {
        let _ = (link, delivery_id, state);
    }
}
