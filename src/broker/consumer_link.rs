//! Links of consumers that outlive the broker: the journal keeps which messages each of them holds, so that
//! a consumer that comes back after a restart goes on with them. [AMQP 2.6.13, 3.5.5]

use super::recovery::{Acquisition, ExpiryPolicy, LinkKey};
use crate::base::{Position, QueueId};

/// Such a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConsumerLink {
    /// Its number: the LSN of the record that kept it first.
    pub number: u64,
    /// What names it on the wire, and whose it is.
    pub key: LinkKey,
    /// The queue that it takes messages from.
    pub queue: QueueId,
    /// When its time begins.
    pub expiry: ExpiryPolicy,
    /// How long it is kept from then on, in milliseconds.
    pub timeout_ms: u64,
    /// How long it may hold a delivery, in milliseconds; 0: any time; none: as its queue says.
    pub consumer_timeout_ms: Option<u32>,
}

/// A change of such links that the journal keeps. That a message is held ends with its return too, with its
/// death, and with its removal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ConsumerLinkFact {
    /// A link is kept.
    Kept(Box<ConsumerLink>),
    /// Messages were acquired for a link; none of them was sent before this is durable.
    Acquired {
        /// The number of the link.
        link: u64,
        /// The queue of the messages.
        queue: QueueId,
        /// The messages, and how often each was requeued before.
        acquisitions: Vec<Acquisition>,
    },
    /// A message is in its queue again that was acquired and not sent.
    Unsent {
        /// The queue that it concerns.
        queue: QueueId,
        /// The position of the message in its queue.
        position: Position,
    },
    /// A link is not kept any more, and holds nothing.
    Forgotten {
        /// The number that it was kept under.
        link: u64,
    },
}
