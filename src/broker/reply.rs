//! Replies of the core: the immediate answer to a command.

use std::sync::Arc;

use crate::base::{ConnectionId, ConsumerId, ExchangeId, Lsn, Millis, Name, Position, QueueId};
use crate::broker::QueueCounters;
use crate::broker::arguments::QueueType;
use crate::broker::delay::DelayedRetry;
use crate::broker::policy::Rule;
use crate::broker::queue::{DelayedSpan, Usage};
use crate::broker::recovery::Kept;
use crate::broker::router::BindingSlice;
use crate::broker::{Error, Wanted, Warning};
use crate::message::{Message, Route};
use crate::wire::Value;

/// The answer to one command. Where it carries an `lsn`, the asking client is told once that record
/// is durable; 0 means at once.
#[derive(Clone, PartialEq, Debug)]
pub enum Reply {
    /// No answer: what there is to report comes as effects.
    None,
    /// The command was carried out, or there was nothing to change.
    Done {
        /// The record of the change.
        lsn: Lsn,
    },
    /// The consumer is attached.
    Consuming {
        /// The id of the queue it reads.
        queue: QueueId,
        /// Whether the queue is a quorum queue.
        is_quorum: bool,
        /// Whether its link outlives its connection.
        kept: Kept,
    },
    /// The consumer is attached to its subscription.
    Subscribed {
        /// Whether the subscription was made, or made anew.
        created: bool,
        /// The record of a subscription that is kept.
        lsn: Lsn,
        /// The subscription's queue.
        info: Box<QueueInfo>,
    },
    /// The exchange to publish to.
    Exchange {
        /// The exchange's id.
        exchange: ExchangeId,
    },
    /// The queue exists.
    QueueDeclared {
        /// Whether this command created it.
        created: bool,
        /// The record of the change.
        lsn: Lsn,
        /// The queue's properties and message counts.
        info: Box<QueueInfo>,
        /// Arguments that will probably not do what was meant.
        warnings: Vec<Warning>,
    },
    /// The exchange exists.
    ExchangeDeclared {
        /// Whether this command created it.
        created: bool,
        /// The record of the change.
        lsn: Lsn,
        /// Arguments that will probably not do what was meant.
        warnings: Vec<Warning>,
    },
    /// The queue does not exist any more.
    QueueDeleted {
        /// Ready messages that were deleted with it; 0 when it did not exist.
        messages: u64,
        /// The record of the change.
        lsn: Lsn,
    },
    /// Ready messages were dropped.
    Purged {
        /// Number of messages dropped.
        messages: u64,
        /// The record of the change.
        lsn: Lsn,
    },
    /// Messages were made ready that waited for their time.
    Retried {
        /// Number of these messages.
        messages: u64,
        /// The record of the change.
        lsn: Lsn,
    },
    /// An import may go on.
    ImportBegun {
        /// The number of the last line that is in the queue; 0: none is.
        behind: u64,
        /// The record to wait for before anybody is told.
        lsn: Lsn,
    },
    /// The message of this line was put into the queue before.
    ImportKnown {
        /// The record to wait for before anybody is told.
        lsn: Lsn,
    },
    /// A message was put into a queue.
    Imported {
        /// The record of it.
        lsn: Lsn,
    },
    /// The note stands on its group.
    NoteSet {
        /// Whether there was none before.
        created: bool,
        /// The record of the change.
        lsn: Lsn,
    },
    /// The description of a queue.
    Queue(Box<QueueInfo>),
    /// Bindings, sorted by source, destination, key, arguments.
    Bindings(Box<BindingSlice>),
    /// The policy is set.
    PolicySet {
        /// Whether there was no policy of this name before.
        created: bool,
        /// The record of the change.
        lsn: Lsn,
        /// Parts of it that will probably not do what was meant.
        warnings: Vec<Warning>,
    },
    /// The redrive exists.
    RedriveSet {
        /// Whether this command made it.
        created: bool,
        /// The record of the change.
        lsn: Lsn,
    },
    /// The command was refused: nothing was changed.
    Refused(Error),
}

impl From<Error> for Reply {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

/// One queue with its counters, for management.
#[derive(Clone, PartialEq, Debug)]
pub struct QueueDetails {
    /// The queue's properties and message counts.
    pub info: QueueInfo,
    /// What was counted in it since it was declared.
    pub counters: QueueCounters,
    /// The queue's type.
    pub queue_type: QueueType,
    /// Bytes of its bare messages, in whatever state they are.
    pub live_bytes: u64,
    /// Number and bytes of its messages that the journal keeps.
    pub durable: Usage,
    /// In a quorum queue: ready messages with a priority above 4.
    pub ready_high: u64,
    /// Estimated memory of its messages, in bytes.
    pub memory_bytes: u64,
    /// Number and bytes of its messages that are on disk and not in memory.
    pub on_disk: Usage,
    /// Failed deliveries after which a message dies in it; none: any number.
    pub delivery_limit: Option<u32>,
    /// Number and bytes of its messages that wait until it is their time.
    pub delayed: Usage,
    /// When the next and the last of these are ready; none: there are none.
    pub delayed_span: Option<DelayedSpan>,
    /// How messages that come back wait; none: they do not.
    pub delayed_retry: Option<DelayedRetry>,
    /// How long a consumer may hold a delivery that does not say for itself, in milliseconds; none:
    /// any time.
    pub consumer_timeout_ms: Option<u32>,
    /// Number of its messages that are delivered alone, since a connection was lost that held them.
    pub suspects: usize,
    /// Message groups that consumers have.
    pub message_groups: u64,
    /// Where its dead letters are sent; none: nowhere.
    pub dead_letter_to: Option<DeadLetterTo>,
}

/// Where the dead letters of a queue are sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadLetterTo {
    /// The name of the dead-letter exchange.
    pub exchange: Name,
    /// The routing key that they get; none: they keep theirs.
    pub routing_key: Option<Name>,
    /// What named the exchange.
    pub rule: Rule,
}

/// One consumer, for management.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConsumerInfo {
    /// The consumer's id.
    pub consumer: ConsumerId,
    /// The queue it reads.
    pub queue: Name,
    /// The connection of its link.
    pub connection: ConnectionId,
    /// Its deliveries are settled when sent.
    pub settled: bool,
    /// Consumers of higher priority are served first.
    pub priority: i32,
    /// It was attached as the only consumer of the queue.
    pub exclusive: bool,
    /// Whether it gets messages; of a queue with a single active consumer, one consumer does.
    pub active: bool,
    /// Number of deliveries that it holds.
    pub held: u32,
    /// How long it may hold a delivery, in milliseconds; none: any time.
    pub timeout_ms: Option<u32>,
    /// Number of deliveries that it held for too long and has not settled: it gets no more.
    pub timed_out: u32,
}

/// A position in the list of consumers of all queues: where a paged listing goes on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConsumerPlace {
    /// The queue's name.
    pub queue: Name,
    /// The arrival number of the last consumer listed there.
    pub arrival: u64,
}

/// Some messages of a queue, for management.
#[derive(Clone, Debug)]
pub struct Browsed {
    /// The queue's id.
    pub queue: QueueId,
    /// The messages, by position.
    pub messages: Vec<BrowsedMessage>,
    /// The position at which the next ones are looked for; none: there are no more.
    pub next: Option<Position>,
}

/// One message in a queue, for management.
#[derive(Clone, Debug)]
pub struct BrowsedMessage {
    /// Its position in the queue.
    pub position: Position,
    /// Its content, or where to read it.
    pub content: Content,
    /// When it arrived in this queue.
    pub arrived: Millis,
    /// Failed deliveries in this queue.
    pub failures: u32,
    /// Requeues in this queue.
    pub acquired: u32,
}

/// The content of a browsed message.
#[derive(Clone, Debug)]
pub enum Content {
    /// In memory: the message and its route.
    Here(Arc<Message>, Arc<Route>),
    /// On disk: where the caller can read it.
    OnDisk(Wanted),
}

/// One queue, for management and clients.
#[derive(Clone, PartialEq, Debug)]
pub struct QueueInfo {
    /// The queue's id.
    pub id: QueueId,
    /// The queue's name.
    pub name: Name,
    /// `classic` or `quorum`.
    pub kind: &'static str,
    /// The queue survives a restart.
    pub durable: bool,
    /// The queue belongs to one connection.
    pub exclusive: bool,
    /// The queue is deleted when its last consumer detaches.
    pub auto_delete: bool,
    /// Arguments as declared, typed, `x-queue-type` included.
    pub arguments: Vec<(Name, Value)>,
    /// Number of messages waiting for a consumer.
    pub messages_ready: u64,
    /// Number of messages held by consumers.
    pub messages_unacknowledged: u64,
    /// Number of dead letters waiting for a target.
    pub messages_dead_pending: u64,
    /// Number of messages waiting until it is their time.
    pub messages_delayed: u64,
    /// Bytes of the bare messages that are ready.
    pub ready_bytes: u64,
    /// Number of consumers attached.
    pub consumer_count: u64,
}
