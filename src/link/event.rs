//! The events that the engine reports to its owner.

use bytes::Bytes;

use super::{Foreign, LinkHandle, Payload, SessionHandle};
use crate::base::Serial;
use crate::wire::performative::{
    Attach, DeliveryState, DeliveryTag, Error, Open, ResumePoint, Role,
};

/// An action of the peer; events come in the order of the peer's actions.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// Server: a client chose a mechanism from those offered. Answer with
    /// [`super::Connection::sasl_challenge`] or [`super::Connection::sasl_outcome`]; until then
    /// nothing more is read.
    SaslInit {
        /// The name of the mechanism.
        mechanism: String,
        /// The initial response.
        response: Option<Bytes>,
        /// The host that the client believes to talk to.
        hostname: Option<String>,
    },
    /// Server: a client answered a challenge. Answer as for [`Event::SaslInit`].
    SaslResponse {
        /// The client's response.
        response: Bytes,
    },
    /// The peer opened. A server answers with [`super::Connection::open`] or
    /// [`super::Connection::refuse_open`]; until then nothing more is read.
    Opened(Box<Open>),
    /// The peer began a session and the engine answered it (client: the server answered the
    /// engine's).
    SessionBegun {
        /// The session that it concerns.
        session: SessionHandle,
    },
    /// The peer's incoming window changed: ask [`super::Connection::session_limit`].
    SessionFlow {
        /// The session that it concerns.
        session: SessionHandle,
    },
    /// A session ended, with all its links (no [`Event::Detached`] for them). By the peer's `end`,
    /// by [`super::Connection::end`], by an error of the peer, or with its connection.
    SessionEnded {
        /// The session that it concerns.
        session: SessionHandle,
        /// The peer's error, or the error it was ended with.
        error: Option<Box<Error>>,
        /// Deliveries sent through it whose outcome was not reported.
        fates: Fates,
    },
    /// The peer attached a link. Answer with [`super::Connection::accept_attach`] or
    /// [`super::Connection::refuse_attach`]; its flows are kept until then.
    Attached {
        /// The link that it concerns.
        link: LinkHandle,
        /// The session of the link.
        session: SessionHandle,
        /// OUR role on the link.
        role: Role,
        /// The peer's attach.
        attach: Box<Attach>,
    },
    /// Client: the server answered an attach. A null target (where the client sends) or source
    /// (where it receives) means that it refuses and that [`Event::Detached`] follows.
    AttachAnswered {
        /// The link that it concerns.
        link: LinkHandle,
        /// The server's attach.
        attach: Box<Attach>,
    },
    /// Where the engine sends: the credit changed.
    LinkFlow {
        /// The link that it concerns.
        link: LinkHandle,
        /// Messages that may be given to [`super::Connection::send`] since the attach, as a
        /// cumulative number.
        limit: u64,
        /// Send what is ready, then call [`super::Connection::drained`].
        drain: bool,
        /// The peer asked for the link's state; the engine answers, unless it is the owner's
        /// ([`super::LinkOptions::owner_echoes`]).
        echo: bool,
    },
    /// Where the engine receives: the sender used its credit up by draining, or its `available`
    /// changed.
    SenderFlow {
        /// The link that it concerns.
        link: LinkHandle,
        /// Messages that the sender has and could not send without credit.
        available: Option<u32>,
        /// The sender answered a drain: the credit is 0.
        drained: bool,
    },
    /// A link ended: detached by the peer (and answered by the engine), by
    /// [`super::Connection::detach`], or by an error of the peer.
    Detached {
        /// The link that it concerns.
        link: LinkHandle,
        /// Whether it was closed rather than suspended. [AMQP 2.6.6]
        closed: bool,
        /// Whether the peer detached it; else the peer may not know of it, until [`Event::DetachAnswered`].
        by_peer: bool,
        /// The peer's error, or the error it was detached with.
        error: Option<Box<Error>>,
        /// Deliveries sent through it whose outcome was not reported.
        fates: Fates,
    },
    /// The peer answered the detach of a link that was closed from here.
    DetachAnswered {
        /// The link that it concerns.
        link: LinkHandle,
    },
    /// An unsettled message arrived completely on a link that outlives its connection, or the rest of one that
    /// went on there ([`Event::Continued`]).
    Tagged(Box<Tagged>),
    /// The peer resumed a delivery on such a link. [AMQP 2.6.13]
    Resumed(Box<Resumed>),
    /// A delivery of which a part had arrived goes on, or begins anew, see
    /// [`super::Connection::expect_resumed`].
    Continued {
        /// The link that it arrives on.
        link: LinkHandle,
        /// Whether it goes on where it was cut: what follows is the rest of it.
        is_resumed: bool,
    },
    /// A part of an unsettled message has arrived on a link that outlives its connection, and ends before it:
    /// the peer may resume it. [`Event::Detached`] or [`Event::SessionEnded`] follows.
    Unfinished(Box<Unfinished>),
    /// A message arrived completely.
    Delivery {
        /// The link that it arrived on.
        link: LinkHandle,
        /// Its delivery-id in the session; unsettled ones are answered with
        /// [`super::Connection::settle_received`].
        delivery_id: Serial,
        /// Whether it was sent settled, so that the sender wants no outcome.
        settled: bool,
        /// The message format, 0 for AMQP messages. [AMQP 2.8.11]
        message_format: u32,
        /// The message's bytes.
        payload: Payload,
    },
    /// A message arrived completely that is a part of a transaction. [AMQP 4.4.1]
    Posted(Box<Posted>),
    /// A message of a transaction came, or had begun, on a link or session that was ended from here, or an
    /// outcome for a delivery on it: it is dropped.
    WorkLost {
        /// The transaction that it named.
        txn_id: Box<[u8]>,
    },
    /// `part_bytes` of a message have arrived, and more follows: see [`super::Connection::partial`]
    /// for the bytes, [`super::Connection::take_partial`] to take them. Comes again when as many
    /// have arrived once more, unless [`super::Connection::keep_partial`] is called. Nothing more
    /// is read before this event was polled.
    Partial {
        /// The link that it arrives on.
        link: LinkHandle,
    },
    /// A delivery was aborted by its sender, or resumes one that the engine does not keep; it used
    /// up one credit.
    Aborted {
        /// The link that it arrived on.
        link: LinkHandle,
    },
    /// The receiver settled deliveries, all with the same outcome.
    Settled {
        /// The link that they were sent on.
        link: LinkHandle,
        /// The tokens given to [`super::Connection::send`], in the order of the deliveries; at
        /// least one, at most as many as are unsettled.
        tokens: Vec<u64>,
        /// The outcome, always terminal, or one that holds once a transaction is committed.
        state: DeliveryState,
    },
    /// The receiver has an outcome for a delivery and waits for the sender to settle it: answer
    /// with [`super::Connection::settle_sent`]. One in a transaction comes again as often as it is
    /// sent, until the receiver settles.
    Outcome {
        /// The link that it was sent on.
        link: LinkHandle,
        /// The token given to [`super::Connection::send`].
        token: u64,
        /// Its delivery-id in the session.
        delivery_id: Serial,
        /// The outcome, as in [`Event::Settled`].
        state: DeliveryState,
    },
    /// The sender settled a delivery that was received: with `rcv-settle-mode` second, the end of
    /// it; otherwise the sender forgot it before the outcome was sent.
    SenderSettled {
        /// The link that it arrived on.
        link: LinkHandle,
        /// Its delivery-id in the session.
        delivery_id: Serial,
    },
    /// Server: the client speaks another protocol. [`Event::Closed`] follows.
    Foreign {
        /// The protocol that it speaks.
        protocol: Foreign,
    },
    /// The connection ended: nothing more will be read. Pending output should still be written
    /// until [`super::Connection::is_closed`]. Always the last event, after [`Event::SessionEnded`]
    /// of each session.
    Closed {
        /// The peer's error, or the error it was closed with.
        error: Option<Box<Error>>,
    },
}

/// A complete message: with the content of [`Event::Delivery`].
#[derive(Debug)]
pub struct Arrived {
    /// Its delivery-id in the session.
    pub delivery_id: Serial,
    /// Whether it was sent settled, so that the sender wants no outcome.
    pub settled: bool,
    /// The message's bytes.
    pub payload: Payload,
}

/// Which messages of a link are told with their delivery-tags ([`Event::Tagged`]). Those are not taken in
/// runs, which is slower. See [`super::Connection::tell_tags`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TagsTold {
    /// None of them, but on a link that outlives its connection.
    None,
    /// Those that were sent settled.
    Settled,
    /// All of its messages.
    All,
}

impl TagsTold {
    /// Whether a message that was sent settled, or was not, is told with its tag.
    pub(super) const fn tells(self, settled: bool) -> bool {
        match self {
            Self::None => false,
            Self::Settled => settled,
            Self::All => true,
        }
    }
}

/// A complete message on a link that outlives its connection, settled only if it was resumed; or of which the
/// owner wants the tag.
#[derive(Debug)]
pub struct Tagged {
    /// The link that it arrived on.
    pub link: LinkHandle,
    /// The name that its sender gave it.
    pub tag: DeliveryTag,
    /// Whether the sender settles it, after the outcome.
    pub is_second: bool,
    /// The message itself.
    pub arrived: Arrived,
}

/// A delivery from before the link was attached, which the peer resumes; it used up one credit. Answer
/// as a message, or with [`super::Connection::forget_received`] if it is not known.
#[derive(Debug)]
pub struct Resumed {
    /// The link that it is resumed on.
    pub link: LinkHandle,
    /// Its new delivery-id in the session.
    pub delivery_id: Serial,
    /// The name that its sender gave it.
    pub tag: DeliveryTag,
    /// Whether the sender settles it, after the outcome.
    pub is_second: bool,
    /// Whether the sender settles or aborts it with this: nothing is awaited.
    pub settled: bool,
    /// Whether only a part of it had arrived ([`super::Connection::expect_resumed`]), and the sender believes
    /// that it is whole: it does not say where it goes on, and sends nothing. It did not arrive, then.
    pub is_in_part: bool,
}

/// What has arrived of a message whose link ends in the middle of it.
#[derive(Debug)]
pub struct Unfinished {
    /// The link that it arrived on.
    pub link: LinkHandle,
    /// The name that its sender gave it.
    pub tag: DeliveryTag,
    /// Its bytes, as far as they were not taken: behind those that were, and behind what had arrived before
    /// if it was resumed.
    pub rest: Vec<Bytes>,
}

/// What is known of a message that the peer may resume. See [`super::Connection::expect_resumed`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expected {
    /// The name that its sender gave it.
    pub tag: DeliveryTag,
    /// How many bytes of it have arrived.
    pub bytes: u64,
    /// Where it goes on.
    pub point: ResumePoint,
    /// Some of its first bytes: a peer that does not say where it resumes may send it from its beginning.
    pub beginning: Bytes,
}

/// A complete message that is a part of a transaction.
#[derive(Debug)]
pub struct Posted {
    /// The link that it arrived on.
    pub link: LinkHandle,
    /// The transaction that its transfers named.
    pub txn_id: Box<[u8]>,
    /// The name that its sender gave it.
    pub tag: DeliveryTag,
    /// The message itself.
    pub arrived: Arrived,
}

/// Deliveries of a link or session that ended, by their tokens. Each token is reported once: not
/// here, if [`Event::Settled`] or [`Event::Outcome`] had it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Fates {
    /// Sent (at least in part), and no outcome was reported.
    pub unsettled: Vec<u64>,
    /// Taken by `send`, and not even the first frame was encoded.
    pub unsent: Vec<u64>,
}

/// What a connection has read and written so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Number of bytes read.
    pub bytes_in: u64,
    /// Bytes handed out to be written.
    pub bytes_out: u64,
    /// Number of frames read.
    pub frames_in: u64,
    /// Transfer frames read.
    pub transfers_in: u64,
    /// Transfer frames encoded.
    pub transfers_out: u64,
}
