//! Facts: the durable changes of the core, which the journal keeps. They carry ids, positions and
//! absolute counts, so that applying one twice equals applying it once.
#![deny(clippy::wildcard_enum_match_arm)]

use std::sync::Arc;

use smallvec::SmallVec;

use crate::base::{Lsn, Name, Position, QueueId, Timestamp};
use crate::broker::consumer_link::ConsumerLinkFact;
use crate::broker::death_counts::{DeathCount, VhostDeaths};
use crate::broker::exchange::ExchangeSpec;
use crate::broker::memo::MemoFact;
use crate::broker::publisher_link::PublisherLinkFact;
use crate::broker::redrive::RedriveFact;
use crate::broker::registry::RegistryFact;
use crate::broker::{Destination, Policy};
use crate::deaths::Reason;
use crate::message::{Message, Route};
use crate::wire::Value;

/// Facts that become durable together, as one journal record.
#[derive(Clone, Debug)]
pub struct Record {
    /// Its log sequence number, assigned under the core's lock; rising, never 0.
    pub lsn: Lsn,
    /// Wall-clock time at which it was made.
    pub wall: Timestamp,
    /// The changes, in the order they were made.
    pub facts: Facts,
    /// Whether messages have their envelopes in it: such a record is kept until it is released.
    pub named: bool,
}

/// The facts of a record: usually one.
pub type Facts = SmallVec<[Fact; 1]>;

/// One change of durable state. A closed enum.
#[derive(Clone, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "the large variants set policies, which is rare; facts are not kept in memory"
)]
pub enum Fact {
    /// A message entered queues.
    Inserted {
        /// The message with its annotations.
        message: Arc<Message>,
        /// Exchange and routing keys it was published with.
        route: Arc<Route>,
        /// Which record has its bare bytes.
        body: Body,
        /// Its position in each queue it entered.
        entries: Entries,
    },
    /// A message left its queue: settled, dropped, or moved by this record's other facts.
    Removed {
        /// The queue it left.
        queue: QueueId,
        /// The position of the message in that queue.
        position: Position,
        /// The LSN of its bare bytes, while the journal can still leave the message out altogether;
        /// else 0. It is not written.
        body: Lsn,
    },
    /// A message was requeued to its position.
    Returned {
        /// The queue that it concerns.
        queue: QueueId,
        /// The position of the message in its queue.
        position: Position,
        /// Failed deliveries in this queue, as an absolute count.
        failures: u32,
        /// Requeues in this queue, as an absolute count.
        acquired: u32,
    },
    /// A message waits at its position until it is its time; ended by its next return.
    Delayed {
        /// The queue that it concerns.
        queue: QueueId,
        /// The position of the message in its queue.
        position: Position,
        /// When it is its time, by the wall clock.
        until: Timestamp,
        /// What was left until then, in milliseconds; none: a client named the instant.
        left_ms: Option<u64>,
    },
    /// The content of a message changed: annotations were merged, or it died and waits.
    Changed {
        /// The queue that it concerns.
        queue: QueueId,
        /// The position of the message in its queue.
        position: Position,
        /// The message as it is now.
        message: Arc<Message>,
        /// Exchange and routing keys of the message as it is now.
        route: Arc<Route>,
        /// Which record has its bare bytes.
        body: Body,
    },
    /// A dead letter waits in its queue for a target.
    DeadPending {
        /// The queue that it concerns.
        queue: QueueId,
        /// The position of the message in its queue.
        position: Position,
        /// The reason of its death.
        reason: Reason,
        /// The queues it waits for; none: it is routed anew at each attempt.
        targets: Option<Vec<QueueId>>,
    },
    /// Messages of a queue that stand in other records: a part of a checkpoint.
    Checkpointed {
        /// The queue that it concerns.
        queue: QueueId,
        /// The messages, by rising position.
        messages: Vec<CheckpointedMessage>,
    },
    /// All messages in front of a position are gone, except some.
    Purged {
        /// The queue that it concerns.
        queue: QueueId,
        /// The first position of each priority that stays, lowest priority first.
        below: Vec<Position>,
        /// The positions in front of those that stay: held messages, and dead letters that wait.
        kept: Vec<Position>,
    },
    /// So many messages died in a queue, one more than before or more.
    Died {
        /// The queue that it concerns.
        queue: QueueId,
        /// The numbers after this death, absolute.
        count: DeathCount,
    },
    /// So many died that no queue of the journal counts, and after so long.
    VhostDeaths(Box<VhostDeaths>),
    /// Of a redrive.
    Redrive(RedriveFact),
    /// Of what is remembered for operators.
    Memo(MemoFact),
    /// Of publishers' links that outlive the broker.
    PublisherLink(PublisherLinkFact),
    /// Of consumers' links that outlive the broker.
    ConsumerLink(ConsumerLinkFact),
    /// Of queues, exchanges, bindings and policies.
    Topology(TopologyFact),
    /// A change of the registry, which belongs to no vhost: no core makes or applies it.
    Registry(Box<RegistryFact>),
}

/// One change of queues, exchanges, bindings or policies.
#[derive(Clone, Debug)]
pub enum TopologyFact {
    /// A durable queue was declared.
    QueueDeclared {
        /// Its id, never used before.
        queue: QueueId,
        /// The queue's name.
        name: Name,
        /// The queue is deleted when its last consumer detaches.
        auto_delete: bool,
        /// Typed arguments as given by the client.
        arguments: Vec<(Name, Value)>,
    },
    /// A durable queue was deleted, with its messages.
    QueueDeleted {
        /// The queue that it concerns.
        queue: QueueId,
    },
    /// A durable exchange was declared.
    ExchangeDeclared(ExchangeSpec),
    /// A durable exchange was deleted, with its bindings.
    ExchangeDeleted {
        /// The exchange's name.
        name: Name,
    },
    /// A binding between a durable exchange and a durable destination was added.
    Bound {
        /// The exchange that messages come from.
        source: Name,
        /// The queue or exchange that the binding leads to.
        destination: Destination,
        /// The binding key (on a topic exchange the pattern).
        key: Name,
        /// Typed arguments as given by the client.
        arguments: Vec<(Name, Value)>,
    },
    /// A durable binding was removed.
    Unbound {
        /// The exchange that messages come from.
        source: Name,
        /// The queue or exchange that the binding led to.
        destination: Destination,
        /// The binding key (on a topic exchange the pattern).
        key: Name,
        /// Typed arguments as given by the client.
        arguments: Vec<(Name, Value)>,
    },
    /// A policy was added or replaced.
    PolicySet {
        /// Whether it is an operator policy.
        operator: bool,
        /// The policy; boxed, since it would be most of the size of every fact.
        policy: Box<Policy>,
    },
    /// A policy was deleted.
    PolicyDeleted {
        /// Whether it is an operator policy.
        operator: bool,
        /// The policy's name.
        name: Name,
    },
    /// Ids below `next` were assigned to queues; the last fact of a checkpoint.
    QueueIds {
        /// The id of the next queue.
        next: QueueId,
    },
}

impl Fact {
    /// The name of the change in a word or two: for logs and tests, no part of any format. A new
    /// kind needs a fixture too, in `tests/fixtures/record.rs`.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Inserted { .. } => "inserted",
            Self::Removed { .. } => "removed",
            Self::Returned { .. } => "returned",
            Self::Delayed { .. } => "delayed",
            Self::Changed { .. } => "changed",
            Self::DeadPending { .. } => "dead-pending",
            Self::Checkpointed { .. } => "checkpointed",
            Self::Purged { .. } => "purged",
            Self::Died { .. } => "died",
            Self::VhostDeaths(_) => "vhost deaths",
            Self::Redrive(fact) => fact.kind(),
            Self::Memo(fact) => fact.kind(),
            Self::PublisherLink(fact) => fact.kind(),
            Self::ConsumerLink(fact) => fact.kind(),
            Self::Topology(fact) => fact.kind(),
            Self::Registry(_) => "registry",
        }
    }

    /// Whether it is about one message or one link only, or about numbers.
    pub const fn is_of_one_message(&self) -> bool {
        match self {
            Self::Inserted { .. }
            | Self::Removed { .. }
            | Self::Returned { .. }
            | Self::Delayed { .. }
            | Self::Changed { .. }
            | Self::DeadPending { .. }
            | Self::Died { .. }
            | Self::VhostDeaths(_)
            | Self::Redrive(RedriveFact::Moved(_) | RedriveFact::Learned { .. })
            | Self::Memo(MemoFact::Imported(_) | MemoFact::EventNumbers { .. })
            | Self::PublisherLink(_)
            | Self::ConsumerLink(_) => true,
            Self::Checkpointed { .. }
            | Self::Purged { .. }
            | Self::Redrive(
                RedriveFact::Set(_)
                | RedriveFact::Ended { .. }
                | RedriveFact::Forgotten { .. }
                | RedriveFact::Numbers { .. },
            )
            | Self::Memo(
                MemoFact::ImportForgotten { .. }
                | MemoFact::NoteSet(_)
                | MemoFact::NoteCleared { .. },
            )
            | Self::Topology(_)
            | Self::Registry(_) => false,
        }
    }
}

impl TopologyFact {
    const fn kind(&self) -> &'static str {
        match self {
            Self::QueueDeclared { .. } => "queue declared",
            Self::QueueDeleted { .. } => "queue deleted",
            Self::ExchangeDeclared(_) => "exchange declared",
            Self::ExchangeDeleted { .. } => "exchange deleted",
            Self::Bound { .. } => "bound",
            Self::Unbound { .. } => "unbound",
            Self::PolicySet { .. } => "policy set",
            Self::PolicyDeleted { .. } => "policy deleted",
            Self::QueueIds { .. } => "queue ids",
        }
    }
}

impl RedriveFact {
    const fn kind(&self) -> &'static str {
        match self {
            Self::Set(_) => "redrive set",
            Self::Moved(_) => "moved",
            Self::Learned { .. } => "learned",
            Self::Ended { .. } => "redrive ended",
            Self::Forgotten { .. } => "redrive forgotten",
            Self::Numbers { .. } => "redrive numbers",
        }
    }
}

impl MemoFact {
    const fn kind(&self) -> &'static str {
        match self {
            Self::Imported(_) => "imported",
            Self::ImportForgotten { .. } => "import forgotten",
            Self::NoteSet(_) => "note set",
            Self::NoteCleared { .. } => "note cleared",
            Self::EventNumbers { .. } => "event numbers",
        }
    }
}

impl PublisherLinkFact {
    const fn kind(&self) -> &'static str {
        match self {
            Self::Kept { .. } => "link kept",
            Self::Decided(_) => "decided on a link",
            Self::Forgotten { .. } => "link forgotten",
        }
    }
}

impl ConsumerLinkFact {
    const fn kind(&self) -> &'static str {
        match self {
            Self::Kept(_) => "consumer link kept",
            Self::Acquired { .. } => "acquired",
            Self::Unsent { .. } => "unsent",
            Self::Forgotten { .. } => "consumer link forgotten",
        }
    }
}

impl From<TopologyFact> for Fact {
    fn from(fact: TopologyFact) -> Self {
        Self::Topology(fact)
    }
}

/// Which record has the bare bytes of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Body {
    /// This record, whose LSN names them from now on. At most one in a record.
    Named,
    /// This record, without a name: a record can name one body only.
    Carried,
    /// An earlier record, with this LSN.
    At(Lsn),
}

/// A message whose bare bytes have another LSN now, since the record that had them was left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Renamed {
    /// The queue of the message.
    pub queue: QueueId,
    /// The position of the message in its queue.
    pub position: Position,
    /// The LSN that the body had.
    pub from: Lsn,
    /// The LSN that the body has now.
    pub to: Lsn,
}

/// What the journal made of the bodies of a batch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Renames {
    /// The messages whose bodies have other LSNs now, in the order in which they got them.
    pub renamed: Vec<Renamed>,
    /// Records that the core released and that are kept, since they have bodies of these messages now.
    pub kept: Vec<Lsn>,
}

/// The positions of a message that entered queues: usually one.
pub type Entries = SmallVec<[Entry; 1]>;

/// The position of a message in one queue, as it entered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The queue that it entered.
    pub queue: QueueId,
    /// Its position in that queue.
    pub position: Position,
    /// Wall-clock time of its arrival.
    pub arrived: Timestamp,
    /// Its own time to live from arrival, in milliseconds: the smaller of header ttl and what was
    /// left until absolute-expiry-time. None: unlimited.
    pub ttl_ms: Option<u64>,
}

/// A message in a checkpoint, which refers to the records that have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CheckpointedMessage {
    /// Its position in its queue.
    pub position: Position,
    /// Wall-clock time of its arrival.
    pub arrived: Timestamp,
    /// Its own time to live from arrival, in milliseconds; none: unlimited.
    pub ttl_ms: Option<u64>,
    /// Size of its bare message, in bytes.
    pub size_bytes: u32,
    /// The LSN of the record with its envelope.
    pub envelope: Lsn,
    /// The LSN of the record with its bare bytes; 0: they are in the envelope's record.
    pub body: Lsn,
    /// The redrive that moved it there and learns what becomes of it; 0: none.
    pub moved_by: u32,
}
