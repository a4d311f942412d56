//! What the core answers at once.

use std::sync::Arc;

use crate::base::{ConnectionId, ConsumerId, ExchangeId, Lsn, Name, Position, QueueId};
use crate::broker::QueueCounters;
use crate::broker::arguments::QueueType;
use crate::broker::queue::Usage;
use crate::broker::router::BindingSlice;
use crate::broker::{Error, Wanted, Warning};
use crate::message::{Message, Route};
use crate::wire::Value;

/// The answer to one command. Where it carries an `lsn`, the asker is told once that record is
/// durable; 0 means at once.
#[derive(Clone, PartialEq, Debug)]
pub enum Reply {
    /// Nothing to say: what there is to report comes as effects.
    None,
    /// Done, or was so already.
    Done {
        /// The record that says so.
        lsn: Lsn,
    },
    /// The consumer is attached.
    Consuming {
        /// The queue it reads.
        queue: QueueId,
        /// Whether that is a quorum queue.
        is_quorum: bool,
    },
    /// The exchange to publish to.
    Exchange {
        /// Its id.
        exchange: ExchangeId,
    },
    /// The queue is there.
    QueueDeclared {
        /// It was made by this command.
        created: bool,
        /// The record that says so.
        lsn: Lsn,
        /// What it is.
        info: Box<QueueInfo>,
        /// What its arguments will probably not do as meant.
        warnings: Vec<Warning>,
    },
    /// The exchange is there.
    ExchangeDeclared {
        /// It was made by this command.
        created: bool,
        /// The record that says so.
        lsn: Lsn,
        /// What its arguments will probably not do as meant.
        warnings: Vec<Warning>,
    },
    /// The queue is gone.
    QueueDeleted {
        /// Ready messages it took along; 0 when it was not there.
        messages: u64,
        /// The record that says so.
        lsn: Lsn,
    },
    /// Ready messages were removed.
    Purged {
        /// How many.
        messages: u64,
        /// The record that says so.
        lsn: Lsn,
    },
    /// A queue.
    Queue(Box<QueueInfo>),
    /// Bindings, sorted by source, destination, key, arguments.
    Bindings(Box<BindingSlice>),
    /// The policy stands.
    PolicySet {
        /// It replaced none.
        created: bool,
        /// The record that says so.
        lsn: Lsn,
        /// What it will probably not do as meant.
        warnings: Vec<Warning>,
    },
    /// Refused: nothing was changed.
    Refused(Error),
}

impl From<Error> for Reply {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

/// One queue and what happened in it, for people.
#[derive(Clone, PartialEq, Debug)]
pub struct QueueDetails {
    /// What it is.
    pub info: QueueInfo,
    /// What happened in it.
    pub counters: QueueCounters,
    /// Its type.
    pub queue_type: QueueType,
    /// Bytes of the bare messages in it, in whatever state.
    pub live_bytes: u64,
    /// Those of its messages that the journal keeps.
    pub durable: Usage,
    /// Of a quorum queue: how many wait with a priority above 4.
    pub ready_high: u64,
    /// Memory that its messages take, about, in bytes.
    pub memory_bytes: u64,
    /// Those that are on disk and not in memory.
    pub on_disk: Usage,
    /// Failures a message survives in it; none: any number.
    pub delivery_limit: Option<u32>,
}

/// One consumer, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConsumerInfo {
    /// Its id.
    pub consumer: ConsumerId,
    /// The queue it reads.
    pub queue: Name,
    /// Its connection.
    pub connection: ConnectionId,
    /// Deliveries are settled when sent.
    pub settled: bool,
    /// Higher is served first.
    pub priority: i32,
    /// It refused other consumers.
    pub exclusive: bool,
    /// It gets messages; of a queue with a single active consumer, one does.
    pub active: bool,
    /// Deliveries unsettled.
    pub held: u32,
}

/// A place among the consumers of all queues: how far a listing has come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConsumerPlace {
    /// The queue.
    pub queue: Name,
    /// The number of arrival of the last one there that is listed.
    pub arrival: u64,
}

/// Some messages of a queue, for people.
#[derive(Clone, Debug)]
pub struct Browsed {
    /// The queue.
    pub queue: QueueId,
    /// By place.
    pub messages: Vec<BrowsedMessage>,
}

/// One message in a queue, for people.
#[derive(Clone, Debug)]
pub struct BrowsedMessage {
    /// Its place.
    pub position: Position,
    /// What it is.
    pub content: Content,
    /// Failures in this queue.
    pub failures: u32,
    /// Returns in this queue.
    pub acquired: u32,
}

/// Where a message and its route are.
#[derive(Clone, Debug)]
pub enum Content {
    /// In memory.
    Here(Arc<Message>, Arc<Route>),
    /// To be read by whoever wants them.
    OnDisk(Wanted),
}

/// One queue, for people and clients.
#[derive(Clone, PartialEq, Debug)]
pub struct QueueInfo {
    /// Its id.
    pub id: QueueId,
    /// Its name.
    pub name: Name,
    /// `classic` or `quorum`.
    pub kind: &'static str,
    /// Survives a restart.
    pub durable: bool,
    /// Belongs to one connection.
    pub exclusive: bool,
    /// Goes when its last consumer goes.
    pub auto_delete: bool,
    /// Arguments as declared, typed, `x-queue-type` included.
    pub arguments: Vec<(Name, Value)>,
    /// Messages waiting for a consumer.
    pub messages_ready: u64,
    /// Messages held by consumers.
    pub messages_unacknowledged: u64,
    /// Dead letters waiting for a usable target.
    pub messages_dead_pending: u64,
    /// Bytes of the bare messages that are ready.
    pub ready_bytes: u64,
    /// Consumers attached.
    pub consumer_count: u64,
}
