//! The effects of the core on connections: a closed enum. [`Effects`](super::Effects) keeps, in
//! order, `(ConnectionId, Effect)` pairs, the journal records (lists of facts) and rate-limited log
//! events.

use std::sync::Arc;

use thiserror::Error;

use super::recovery::{Acquisition, Recovered};
use crate::base::limits::ROUTING_STEPS_MAX;
use crate::base::{ConsumerId, Lsn, Name, Position, PublisherId};
use crate::message::{Message, Route};

/// Something that the gateway of one connection has to do.
#[derive(Debug)]
pub enum Effect {
    /// Send a message to a consumer.
    Deliver(Delivery),
    /// Send a message to a consumer whose link outlives the broker, once this record is durable: the journal
    /// has then that the link holds it. What follows is handled after that, too.
    DeliverDurably {
        /// The message; boxed, since it is rare.
        delivery: Box<Delivery>,
        /// The record that says so.
        lsn: Lsn,
    },
    /// Everything ready for the drained credit was delivered; the rest of the credit is used up.
    /// [AMQP 2.6.7]
    Drained {
        /// The consumer that it concerns.
        consumer: ConsumerId,
        /// The consumer's cumulative limit at the drain, in messages since attach: later credit is
        /// not concerned.
        limit: u64,
        /// Messages that are ready in its queue all the same, for others or since its filters do not match.
        available: u32,
    },
    /// How many messages wait for credit, to a consumer that asked for it. [AMQP 2.6.7]
    Available {
        /// The consumer that it concerns.
        consumer: ConsumerId,
        /// Messages that are ready in its queue, for whomever; 0 for a browser, and if the queue is gone.
        available: u32,
    },
    /// A consumer was closed by the broker.
    ConsumerEnded {
        /// The consumer that it concerns.
        consumer: ConsumerId,
        /// Why it was closed.
        cause: ConsumerEnd,
    },
    /// A link that outlived its connection is attached again: what it held before was compared with what
    /// its consumer knows of.
    Recovered {
        /// The consumer that it concerns.
        consumer: ConsumerId,
        /// What it holds still.
        recovered: Box<Recovered>,
        /// The consumer is told once this record is durable (0: at once): outcomes that it had for other
        /// deliveries took effect with it.
        lsn: Lsn,
    },
    /// Send the state of a delivery that a link held for too long before it was attached again: released.
    Restate {
        /// The consumer that it concerns.
        consumer: ConsumerId,
        /// The message, and which of its deliveries.
        acquisition: Acquisition,
    },
    /// The queue that a publisher publishes to was deleted.
    PublisherEnded {
        /// The publisher that it concerns.
        publisher: PublisherId,
        /// The publisher is told once this record is durable (0: at once).
        lsn: Lsn,
    },
    /// The link of a publisher was attached again elsewhere.
    PublisherStolen {
        /// The publisher that it concerns.
        publisher: PublisherId,
    },
    /// The outcome of a publish is known.
    Published {
        /// The publisher's link.
        publisher: PublisherId,
        /// The gateway's token of the publish.
        token: u64,
        /// Accepted, or why not.
        outcome: PublishOutcome,
        /// The publisher is told once this record is durable (0: at once).
        lsn: Lsn,
    },
    /// A message that was sent settled cannot be published where its link leads: the link ends, as it does
    /// for one that was not, since nobody else is told.
    PresettledRefused {
        /// The publisher's link.
        publisher: PublisherId,
        /// The gateway's token of the publish.
        token: u64,
        /// Why it cannot be.
        outcome: PublishOutcome,
    },
    /// A consumer held a delivery for too long: the message is back in its queue, and the consumer
    /// gets no more until it has settled the delivery. [evidence part 5]
    TimedOut {
        /// The consumer that it concerns.
        consumer: ConsumerId,
        /// The position of the message in its queue.
        position: Position,
    },
    /// A settlement that asked for confirmation took effect.
    Settled {
        /// The consumer that it concerns.
        consumer: ConsumerId,
        /// The token that the settlement carried.
        token: u64,
        /// Whether the consumer held the message; else the delivery had timed out.
        took: bool,
        /// The consumer is told once this record is durable (0: at once).
        lsn: Lsn,
    },
    /// A transaction was committed, or refused as a whole.
    Committed {
        /// The token of its [`super::Commit`].
        token: u64,
        /// Why it was refused; none: it was committed.
        refused: Option<NotCommitted>,
        /// It is told once this record is durable (0: at once).
        lsn: Lsn,
    },
    /// An alarm was raised or cleared: stop or resume credit to publishers.
    Alarm {
        /// Whether an alarm is in effect now.
        raised: bool,
    },
}

impl Effect {
    /// The record that must be durable before it is handled; 0: none.
    #[inline]
    pub const fn awaits(&self) -> Lsn {
        match self {
            Self::Published { lsn, .. }
            | Self::Settled { lsn, .. }
            | Self::Committed { lsn, .. }
            | Self::Recovered { lsn, .. }
            | Self::PublisherEnded { lsn, .. }
            | Self::DeliverDurably { lsn, .. } => *lsn,
            Self::Deliver(_)
            | Self::Drained { .. }
            | Self::Available { .. }
            | Self::ConsumerEnded { .. }
            | Self::Restate { .. }
            | Self::PublisherStolen { .. }
            | Self::PresettledRefused { .. }
            | Self::TimedOut { .. }
            | Self::Alarm { .. } => Lsn(0),
        }
    }

    /// The delivery that it is, if it is one.
    pub const fn delivery(&self) -> Option<&Delivery> {
        match self {
            Self::Deliver(delivery) => Some(delivery),
            Self::DeliverDurably { delivery, .. } => Some(delivery),
            Self::Drained { .. }
            | Self::Available { .. }
            | Self::ConsumerEnded { .. }
            | Self::Recovered { .. }
            | Self::Restate { .. }
            | Self::PublisherEnded { .. }
            | Self::PublisherStolen { .. }
            | Self::PresettledRefused { .. }
            | Self::Published { .. }
            | Self::TimedOut { .. }
            | Self::Settled { .. }
            | Self::Committed { .. }
            | Self::Alarm { .. } => None,
        }
    }
}

/// Why a transaction is refused as a whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotCommitted {
    /// One of its messages would not be accepted but have this outcome.
    Post(PublishOutcome),
    /// A consumer no longer holds one of its deliveries: it held it for too long, and others may have
    /// the message.
    NotHeld,
}

/// One message assigned to a consumer.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The consumer it is assigned to.
    pub consumer: ConsumerId,
    /// The position of the message in its queue, which names it in the settlement.
    pub position: Position,
    /// The message, shared with its queue.
    pub message: Arc<Message>,
    /// Exchange and routing keys that the message was published with.
    pub route: Arc<Route>,
    /// Header `first-acquirer`: no consumer acquired the message before. [AMQP 3.2.1]
    pub first_acquirer: bool,
    /// Header `delivery-count`: failed deliveries, in this queue and before it.
    pub delivery_count: u32,
    /// Failed deliveries in this queue (`x-delivery-count`).
    pub failures: u32,
    /// Times the message was requeued in this queue (`x-acquired-count`).
    pub acquired: u32,
    /// It is delivered alone, since a connection was lost that held it among others
    /// (`x-opt-suspect`).
    pub suspect: bool,
    /// It is sent again on a link that outlived its connection, whose consumer knows of it.
    pub resumed: bool,
}

impl Delivery {
    /// Which of the deliveries of its message it is.
    pub const fn acquisition(&self) -> Acquisition {
        Acquisition {
            position: self.position,
            acquired: self.acquired,
        }
    }

    /// Bytes that it counts against the connection's limit: core and gateway count by this alone.
    #[inline]
    pub fn room_bytes(&self) -> u64 {
        room_bytes(&self.message)
    }
}

/// Bytes that a delivery of this message counts against its connection's limit.
#[inline]
pub fn room_bytes(message: &Message) -> u64 {
    message.bare_len() as u64
}

/// Why the broker closed a consumer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConsumerEnd {
    /// Its queue was deleted or expired: detach with `amqp:resource-deleted`.
    QueueDeleted,
    /// Its link was attached again elsewhere: detach with `amqp:link:stolen`.
    Stolen,
}

/// Why a message enters no queue though there are queues for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error(
    "the message is routed to more than {queues_max} queues (setting queues-per-message-max), or finding them takes \
     more than {ROUTING_STEPS_MAX} steps"
)]
pub struct TooManyQueues {
    /// The queues that a message may be routed to.
    pub queues_max: u32,
}

/// The outcome of a publish.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PublishOutcome {
    /// Every queue it was routed to has it, as durably as promised.
    Accepted,
    /// No queue was matched.
    Unroutable,
    /// A queue under `reject-publish` was full.
    QueueFull {
        /// The first queue that was full.
        queue: Name,
    },
    /// It would go to more queues than a message may, or finding them would take more than
    /// [`ROUTING_STEPS_MAX`] steps: it went to none.
    TooManyQueues(TooManyQueues),
    /// The exchange does not exist, or no longer.
    NoExchange {
        /// The exchange it was published to.
        exchange: Name,
    },
    /// The exchange is internal: clients may not publish to it.
    Internal {
        /// The exchange it was published to.
        exchange: Name,
    },
    /// The exchange is a topic exchange, and the user may not use one of the routing keys.
    Forbidden {
        /// The exchange it was published to.
        exchange: Name,
        /// The first key that is not permitted.
        key: Name,
    },
}
