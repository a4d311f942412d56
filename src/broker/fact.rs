//! What the core did to durable state, for the journal. Facts carry ids, places and absolute
//! counts, so that applying one twice equals applying it once.
#![deny(clippy::wildcard_enum_match_arm)]

use std::sync::Arc;

use smallvec::SmallVec;

use crate::base::{Lsn, Name, Position, QueueId, Timestamp};
use crate::broker::death_counts::{DeathCount, VhostDeaths};
use crate::broker::exchange::ExchangeSpec;
use crate::broker::registry::RegistryFact;
use crate::broker::{Destination, Policy};
use crate::deaths::Reason;
use crate::message::{Message, Route};
use crate::wire::Value;

/// Facts that become true together.
#[derive(Clone, Debug)]
pub struct Record {
    /// Its place in the log, given out under the core's lock; rising, never 0.
    pub lsn: Lsn,
    /// Wall clock when it was made.
    pub wall: Timestamp,
    /// What happened, in order.
    pub facts: Facts,
    /// Messages have their envelopes in it: it is kept until it is released.
    pub named: bool,
}

/// The facts of a record: one, as a rule.
pub type Facts = SmallVec<[Fact; 1]>;

/// One change of durable state. A closed set.
#[derive(Clone, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "the large variants set policies, which is rare; facts are not kept in memory"
)]
pub enum Fact {
    /// A message entered queues.
    Inserted {
        /// The message itself.
        message: Arc<Message>,
        /// Exchange and keys it came by.
        route: Arc<Route>,
        /// Where its bare bytes are.
        body: Body,
        /// Where it is now.
        entries: Entries,
    },
    /// A message left its queue: settled, dropped, or moved by this record's other facts.
    Removed {
        /// From where.
        queue: QueueId,
        /// The place of the message in its queue.
        position: Position,
        /// What named its bytes, while the journal may still forget that it ever was; else 0. It is
        /// not written.
        body: Lsn,
    },
    /// A message came back to its place.
    Returned {
        /// The queue that it concerns.
        queue: QueueId,
        /// The place of the message in its queue.
        position: Position,
        /// Failed deliveries in this queue.
        failures: u32,
        /// Returns in this queue.
        acquired: u32,
    },
    /// A message is another one from now on: annotations were merged, or it died and waits.
    Changed {
        /// The queue that it concerns.
        queue: QueueId,
        /// The place of the message in its queue.
        position: Position,
        /// What it is now.
        message: Arc<Message>,
        /// Exchange and keys it came by.
        route: Arc<Route>,
        /// Where its bare bytes are.
        body: Body,
    },
    /// A dead letter waits in its queue for a target.
    DeadPending {
        /// The queue that it concerns.
        queue: QueueId,
        /// The place of the message in its queue.
        position: Position,
        /// Why it died.
        reason: Reason,
        /// It waits for exactly these; none: for whatever it will be routed to.
        targets: Option<Vec<QueueId>>,
    },
    /// Messages wait, as other records say: a piece of a checkpoint.
    Checkpointed {
        /// The queue that it concerns.
        queue: QueueId,
        /// Which, by rising position.
        messages: Vec<CheckpointedMessage>,
    },
    /// Everything in front of a place is gone, but for some.
    Purged {
        /// The queue that it concerns.
        queue: QueueId,
        /// First position of each priority that stays, lowest priority first.
        below: Vec<Position>,
        /// Those in front that stay: held, or dead letters that wait.
        kept: Vec<Position>,
    },
    /// So many messages died in a queue, one more than before or more.
    Died {
        /// The queue that it concerns.
        queue: QueueId,
        /// How many.
        count: DeathCount,
    },
    /// So many died that no queue of the journal counts, and after so long.
    VhostDeaths(Box<VhostDeaths>),
    /// Of queues, exchanges, bindings and policies.
    Topology(TopologyFact),
    /// Something of the registry, which is beside all vhosts: no core makes it or heeds it.
    Registry(Box<RegistryFact>),
}

/// What happened to queues, exchanges, bindings and policies.
#[derive(Clone, Debug)]
pub enum TopologyFact {
    /// A durable queue was declared.
    QueueDeclared {
        /// Its id, never used before.
        queue: QueueId,
        /// Its name.
        name: Name,
        /// Goes when its last consumer goes.
        auto_delete: bool,
        /// Typed arguments as given.
        arguments: Vec<(Name, Value)>,
    },
    /// A durable queue is gone, with all in it.
    QueueDeleted {
        /// The queue that it concerns.
        queue: QueueId,
    },
    /// A durable exchange was declared.
    ExchangeDeclared(ExchangeSpec),
    /// A durable exchange is gone, with its bindings.
    ExchangeDeleted {
        /// Its name.
        name: Name,
    },
    /// A binding between durable ends was made.
    Bound {
        /// Source exchange.
        source: Name,
        /// Where to.
        destination: Destination,
        /// Binding key.
        key: Name,
        /// Typed arguments as given.
        arguments: Vec<(Name, Value)>,
    },
    /// Such a binding is gone.
    Unbound {
        /// Source exchange.
        source: Name,
        /// Where to.
        destination: Destination,
        /// Binding key.
        key: Name,
        /// Typed arguments as given.
        arguments: Vec<(Name, Value)>,
    },
    /// A policy stands.
    PolicySet {
        /// An operator policy.
        operator: bool,
        /// The policy; boxed, since it would be most of the size of every fact.
        policy: Box<Policy>,
    },
    /// A policy is gone.
    PolicyDeleted {
        /// An operator policy.
        operator: bool,
        /// Its name.
        name: Name,
    },
    /// Ids below this one were given to queues; the last fact of a checkpoint.
    QueueIds {
        /// The next one.
        next: QueueId,
    },
}

impl Fact {
    /// What happened, in a word or two: for people and tests, no part of any format. A kind that is
    /// new here is given a fixture too, in `tests/fixtures/record.rs`.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Inserted { .. } => "inserted",
            Self::Removed { .. } => "removed",
            Self::Returned { .. } => "returned",
            Self::Changed { .. } => "changed",
            Self::DeadPending { .. } => "dead-pending",
            Self::Checkpointed { .. } => "checkpointed",
            Self::Purged { .. } => "purged",
            Self::Died { .. } => "died",
            Self::VhostDeaths(_) => "vhost deaths",
            Self::Topology(fact) => fact.kind(),
            Self::Registry(_) => "registry",
        }
    }

    /// Whether it is about one message only, or about numbers.
    pub const fn is_of_one_message(&self) -> bool {
        match self {
            Self::Inserted { .. }
            | Self::Removed { .. }
            | Self::Returned { .. }
            | Self::Changed { .. }
            | Self::DeadPending { .. }
            | Self::Died { .. }
            | Self::VhostDeaths(_) => true,
            Self::Checkpointed { .. }
            | Self::Purged { .. }
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

impl From<TopologyFact> for Fact {
    fn from(fact: TopologyFact) -> Self {
        Self::Topology(fact)
    }
}

/// Where the bare bytes of a message are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Body {
    /// In this record, whose LSN names them from now on. At most one in a record.
    Named,
    /// In this record, without a name: a record can name one body only.
    Carried,
    /// In an earlier record.
    At(Lsn),
}

/// The places of a message that entered queues: one, as a rule.
pub type Entries = SmallVec<[Entry; 1]>;

/// A message's place in one queue, as it entered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Which queue.
    pub queue: QueueId,
    /// Its place.
    pub position: Position,
    /// Wall clock at arrival.
    pub arrived: Timestamp,
    /// Life of its own from arrival, in milliseconds: the smaller of header ttl and what was left
    /// until absolute-expiry-time.
    pub ttl_ms: Option<u64>,
}

/// A message of a checkpoint: it stands in the records that are named here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CheckpointedMessage {
    /// Its place.
    pub position: Position,
    /// Wall clock at arrival.
    pub arrived: Timestamp,
    /// Life of its own from arrival, in milliseconds.
    pub ttl_ms: Option<u64>,
    /// Bytes of its bare message.
    pub size_bytes: u32,
    /// The record with its envelope.
    pub envelope: Lsn,
    /// The record that names its bare bytes; 0: they stand with the envelope.
    pub body: Lsn,
}
