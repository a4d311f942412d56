//! What the core wants done outside. A closed set. [`Effects`](super::Effects) keeps, in order,
//! `(ConnectionId, Effect)` pairs, the journal records (lists of facts) and rate-limited log events.

use std::sync::Arc;

use thiserror::Error;

use crate::base::limits::{ROUTED_QUEUES_MAX, ROUTING_STEPS_MAX};
use crate::base::{ConsumerId, Lsn, Name, Position, PublisherId};
use crate::message::{Message, Route};

/// Something for one connection's gateway.
#[derive(Debug)]
pub enum Effect {
    /// Send a message.
    Deliver(Delivery),
    /// All that was there under the drained credit was delivered; the rest of the credit is used up.
    Drained {
        /// The consumer that it concerns.
        consumer: ConsumerId,
        /// Up to here, as messages since attach: credit that came since is not concerned.
        limit: u64,
    },
    /// A consumer was closed by the broker.
    ConsumerEnded {
        /// The consumer that it concerns.
        consumer: ConsumerId,
        /// The cause, as it is counted.
        cause: ConsumerEnd,
    },
    /// The queue is gone whose address a publisher publishes to.
    PublisherEnded {
        /// The publisher that it concerns.
        publisher: PublisherId,
        /// Tell the publisher once this is durable (0: at once).
        lsn: Lsn,
    },
    /// A publish was decided.
    Published {
        /// Through which link.
        publisher: PublisherId,
        /// The token of the publish.
        token: u64,
        /// What became of it.
        outcome: PublishOutcome,
        /// Tell the publisher once this is durable (0: at once).
        lsn: Lsn,
    },
    /// A settlement that asked for confirmation took effect.
    Settled {
        /// The consumer that it concerns.
        consumer: ConsumerId,
        /// The token of the settlement.
        token: u64,
        /// Tell the consumer once this is durable (0: at once).
        lsn: Lsn,
    },
    /// An alarm was raised or cleared: stop or resume credit to publishers.
    Alarm {
        /// Whether one stands.
        raised: bool,
    },
}

/// One message assigned to a consumer.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// To whom.
    pub consumer: ConsumerId,
    /// Its place, for settling.
    pub position: Position,
    /// The message itself.
    pub message: Arc<Message>,
    /// Exchange and keys it came by.
    pub route: Arc<Route>,
    /// Header first-acquirer.
    pub first_acquirer: bool,
    /// Header delivery-count: failures carried along and in this queue.
    pub delivery_count: u32,
    /// Failures in this queue (`x-delivery-count`).
    pub failures: u32,
    /// Returns in this queue (`x-acquired-count`).
    pub acquired: u32,
}

impl Delivery {
    /// What it takes of its connection's room, in bytes: core and gateway count by this alone.
    pub fn room_bytes(&self) -> u64 {
        room_bytes(&self.message)
    }
}

/// What a delivery of this message takes of its connection's room, in bytes.
pub fn room_bytes(message: &Message) -> u64 {
    message.bare_len() as u64
}

/// Why the broker closed a consumer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConsumerEnd {
    /// Its queue was deleted or expired: detach with `amqp:resource-deleted`.
    QueueDeleted,
}

/// Why a message goes to no queue though there are queues for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error(
    "the message is routed to more than {ROUTED_QUEUES_MAX} queues, or finding them takes more than \
     {ROUTING_STEPS_MAX} steps"
)]
pub struct TooManyQueues;

/// What became of a publish.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PublishOutcome {
    /// In every queue it was routed to, as safe as promised.
    Accepted,
    /// No queue matched.
    Unroutable,
    /// A queue under `reject-publish` was full.
    QueueFull {
        /// The first such queue.
        queue: Name,
    },
    /// It would go to more than [`ROUTED_QUEUES_MAX`] queues, or finding them would take more than
    /// [`ROUTING_STEPS_MAX`] steps: it went to none.
    TooManyQueues,
    /// The exchange is not there (any more).
    NoExchange {
        /// Its name.
        exchange: Name,
    },
    /// The exchange is internal.
    Internal {
        /// Its name.
        exchange: Name,
    },
    /// A topic exchange, and a routing key that the user may not use.
    Forbidden {
        /// Its name.
        exchange: Name,
        /// The first such key.
        key: Name,
    },
}
