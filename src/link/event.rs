//! What the engine tells its owner.

use bytes::Bytes;

use super::{Foreign, LinkHandle, Payload, SessionHandle};
use crate::base::Serial;
use crate::wire::performative::{Attach, DeliveryState, Error, Open, Role};

/// Something the peer did, in the order in which it did it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// Server: a client chose a mechanism from our list. Answer with
    /// [`super::Connection::sasl_challenge`] or [`super::Connection::sasl_outcome`]; until then
    /// nothing more is read.
    SaslInit {
        /// The mechanism.
        mechanism: String,
        /// The initial response.
        response: Option<Bytes>,
        /// The host it believes to talk to.
        hostname: Option<String>,
    },
    /// Server: a client answered a challenge. Answer as for [`Event::SaslInit`].
    SaslResponse {
        /// The response.
        response: Bytes,
    },
    /// The peer opened. A server answers with [`super::Connection::open`] or
    /// [`super::Connection::refuse_open`]; until then nothing more is read.
    Opened(Box<Open>),
    /// The peer began a session and the engine answered it (client: the server answered ours).
    SessionBegun {
        /// The session that it concerns.
        session: SessionHandle,
    },
    /// The peer's incoming window changed: ask [`super::Connection::session_limit`].
    SessionFlow {
        /// The session that it concerns.
        session: SessionHandle,
    },
    /// A session is gone, with all its links (no [`Event::Detached`] for them). By the peer's `end`,
    /// by our own [`super::Connection::end`], by an error of the peer, or with its connection.
    SessionEnded {
        /// The session that it concerns.
        session: SessionHandle,
        /// The peer's error, or the error we ended it with.
        error: Option<Box<Error>>,
        /// What became of deliveries we sent through it.
        fates: Fates,
    },
    /// The peer attached a link. Answer with [`super::Connection::accept_attach`] or
    /// [`super::Connection::refuse_attach`]; its flows are kept until then.
    Attached {
        /// The link that it concerns.
        link: LinkHandle,
        /// Of which session.
        session: SessionHandle,
        /// OUR role on the link.
        role: Role,
        /// What it asked for.
        attach: Box<Attach>,
    },
    /// Client: the server answered our attach. A null target (we send) or source (we receive) means
    /// that it refuses and that [`Event::Detached`] follows.
    AttachAnswered {
        /// The link that it concerns.
        link: LinkHandle,
        /// The answer.
        attach: Box<Attach>,
    },
    /// We send: the credit changed.
    LinkFlow {
        /// The link that it concerns.
        link: LinkHandle,
        /// Messages that may have been given to [`super::Connection::send`] since the attach.
        limit: u64,
        /// Send what there is, then call [`super::Connection::drained`].
        drain: bool,
        /// The peer asked for our state; the engine answers.
        echo: bool,
    },
    /// We receive: the sender's credit was used up by its drain, or its `available` changed.
    SenderFlow {
        /// The link that it concerns.
        link: LinkHandle,
        /// Messages the sender has and could not send for want of credit.
        available: Option<u32>,
        /// The sender answered our drain: the credit is 0.
        drained: bool,
    },
    /// A link is gone: detached by the peer (and answered by the engine), by our own
    /// [`super::Connection::detach`], or by an error of the peer.
    Detached {
        /// The link that it concerns.
        link: LinkHandle,
        /// Whether it was closed rather than suspended.
        closed: bool,
        /// The peer's error, or the error we detached it with.
        error: Option<Box<Error>>,
        /// What became of deliveries we sent through it.
        fates: Fates,
    },
    /// A message arrived whole.
    Delivery {
        /// Through which link.
        link: LinkHandle,
        /// Its number in the session; unsettled ones are answered with
        /// [`super::Connection::settle_received`].
        delivery_id: Serial,
        /// The sender wants no outcome.
        settled: bool,
        /// The message format.
        message_format: u32,
        /// The message.
        payload: Payload,
    },
    /// So much of a message has arrived that it may be taken out in parts, and more follows: look
    /// with [`super::Connection::partial`], take it with [`super::Connection::take_partial`]. Comes
    /// again when as much has arrived once more, unless [`super::Connection::keep_partial`] is
    /// called. Nothing more is read before this event was polled.
    Partial {
        /// Through which link.
        link: LinkHandle,
    },
    /// A delivery was given up by its sender in the middle, or resumes one that nobody keeps; it used up
    /// one credit.
    Aborted {
        /// Through which link.
        link: LinkHandle,
    },
    /// The receiver settled deliveries that we sent, all with the same outcome.
    Settled {
        /// Through which link.
        link: LinkHandle,
        /// The tokens given to [`super::Connection::send`], in the order of the deliveries; at
        /// least one, at most as many as are unsettled.
        tokens: Vec<u64>,
        /// The outcome, always terminal.
        state: DeliveryState,
    },
    /// The receiver decided about a delivery that we sent and waits for us to settle it: answer with
    /// [`super::Connection::settle_sent`].
    Outcome {
        /// Through which link.
        link: LinkHandle,
        /// The token given to [`super::Connection::send`].
        token: u64,
        /// Its number in the session.
        delivery_id: Serial,
        /// The outcome, always terminal.
        state: DeliveryState,
    },
    /// The sender settled a delivery that we received: with `rcv-settle-mode` second, the end of it;
    /// else the sender forgot it before our answer.
    SenderSettled {
        /// Through which link.
        link: LinkHandle,
        /// Its number in the session.
        delivery_id: Serial,
    },
    /// Server: the client speaks another protocol. [`Event::Closed`] follows.
    Foreign {
        /// Which.
        protocol: Foreign,
    },
    /// The connection is over: nothing more will be read. What is pending should still be written
    /// until [`super::Connection::is_closed`]. Always the last event, after
    /// [`Event::SessionEnded`] of each session.
    Closed {
        /// The peer's error, or the error we closed with.
        error: Option<Box<Error>>,
    },
}

/// A message that arrived whole, as [`Event::Delivery`] tells it.
#[derive(Debug)]
pub struct Arrived {
    /// Its number in the session.
    pub delivery_id: Serial,
    /// The sender wants no outcome.
    pub settled: bool,
    /// The message.
    pub payload: Payload,
}

/// What became of the deliveries of a link or session that is gone, by their tokens. Each token is told
/// once: not here, if [`Event::Settled`] or [`Event::Outcome`] told it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Fates {
    /// Sent (at least in part), and the receiver told no outcome.
    pub unsettled: Vec<u64>,
    /// Taken by `send` but not begun to be written.
    pub unsent: Vec<u64>,
}

/// What a connection read and wrote so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Bytes read.
    pub bytes_in: u64,
    /// Bytes handed out to be written.
    pub bytes_out: u64,
    /// Frames read.
    pub frames_in: u64,
    /// Transfer frames read.
    pub transfers_in: u64,
    /// Transfer frames encoded.
    pub transfers_out: u64,
}
