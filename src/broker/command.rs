//! The commands of a vhost's core: a closed enum of everything it can be asked to do.
//!
//! Limits are cumulative counters, so that reports that cross with assignments need no answer:
//! a consumer's limit is "messages it may have been assigned since attach", a session's "messages
//! assigned to it since begin", a connection's "bytes assigned to it since open".

use std::sync::Arc;

use bytes::Bytes;

use super::binding::Binding;
use super::memo::ImportLine;
use super::publisher_link::{KeptPublish, PublisherLink};
use super::recovery::Recovery;
use super::redrive::RedriveCommand;
use super::router::BindingsOf;
use super::subscription::Subscribe;
use super::{DropCause, ObjectKind, PagedIn, PublishOutcome, Undeliverable};
use crate::base::{
    ConnectionId, ConsumerId, ExchangeId, Lsn, Name, Position, PublisherId, QueueId, SessionId,
};
use crate::deaths::Evidence;
use crate::filter::Selector;
use crate::message::{DeliveryTime, Message, Route};
use crate::wire::Value;

/// One request to the core.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "the large variants set policies, which is rare; a command is made and taken in place"
)]
pub enum Command {
    /// A client opened a connection to this vhost.
    ConnectionOpen {
        /// Its id, chosen by the node and unique in the vhost.
        connection: ConnectionId,
        /// The user it was authenticated as.
        user: Name,
        /// Its client id: the container-id of its open.
        client: Name,
        /// Bytes it may be assigned before the first `ConnectionRoom`.
        limit_bytes: u64,
    },
    /// Sets how many bytes may be assigned to the connection: those written so far plus the bound
    /// of its outbox.
    ConnectionRoom {
        /// The connection that it concerns.
        connection: ConnectionId,
        /// Cumulative bytes since open; may be lower than before.
        limit_bytes: u64,
    },
    /// The connection is closed: its deliveries are requeued as failed, its exclusive queues are
    /// deleted.
    ConnectionClose {
        /// The connection that it concerns.
        connection: ConnectionId,
    },
    /// A session began.
    SessionOpen {
        /// The connection that the session belongs to.
        connection: ConnectionId,
        /// Its id, unique in the vhost.
        session: SessionId,
        /// Messages it may be assigned before the first `SessionFlow`.
        limit: u64,
    },
    /// The peer's incoming window changed.
    SessionFlow {
        /// The session that it concerns.
        session: SessionId,
        /// Cumulative messages since begin.
        limit: u64,
    },
    /// The session ended: its deliveries are requeued as failed.
    SessionEnd {
        /// The session that it concerns.
        session: SessionId,
    },
    /// A message arrived. Answered by [`super::Effect::Published`] unless settled.
    Publish(Publish),
    /// The same, on a link that outlives the broker: the journal keeps what becomes of it.
    PublishKept(Box<KeptPublish>),
    /// A consumer attached. Reply: `Consuming` or an error.
    Consume(Consume),
    /// A receiver attached to a subscription. Reply: `Subscribed` or an error.
    Subscribe(Box<Subscribe>),
    /// A link attached that only wants to look. Reply: `Consuming` or an error.
    Browse(Browse),
    /// A consumer's credit changed.
    ConsumerFlow {
        /// The consumer that it concerns.
        consumer: ConsumerId,
        /// Cumulative messages since attach.
        limit: u64,
        /// Deliver what is ready, then report [`super::Effect::Drained`]. [AMQP 2.6.7]
        drain: bool,
    },
    /// A consumer of a connection asks how many messages wait for its credit. Answered by
    /// [`super::Effect::Available`].
    ConsumerEcho(ConnectionId, ConsumerId),
    /// A consumer settled a delivery.
    Settle(Settle),
    /// A consumer settled several deliveries, with the same effect as settling one after the other.
    SettleRun(SettleRun),
    /// A transaction is discharged: all of it, or nothing. Answered by
    /// [`super::Effect::Committed`]. [AMQP 4.3]
    Commit(Commit),
    /// Requeues a delivery that was assigned but never written to the socket: no count is raised,
    /// and the consumer's and the session's counters step back. (The connection's does not: the
    /// gateway counts every assignment it has finished with as written.)
    ReturnUnsent {
        /// The consumer that it concerns.
        consumer: ConsumerId,
        /// The position of the message in its queue.
        position: Position,
    },
    /// Drops a delivery that can neither be sent nor requeued: its bytes cannot be read, or it was
    /// sent settled and may have arrived.
    Discard {
        /// The consumer that it concerns.
        consumer: ConsumerId,
        /// The position of the message in its queue.
        position: Position,
        /// The cause, as it is counted.
        cause: DropCause,
    },
    /// The consumer's link was detached: its deliveries are requeued, which raises their
    /// acquired-count only.
    ConsumerDetach {
        /// The consumer that it concerns.
        consumer: ConsumerId,
    },
    /// The consumer's link was detached, and may be attached again: what it holds stays its own if it
    /// outlives its connection.
    ConsumerSuspend {
        /// The consumer that it concerns.
        consumer: ConsumerId,
    },
    /// What concerns the link of a publisher.
    Publisher(PublisherCommand),
    /// A request about one queue.
    Queue(QueueCommand),
    /// A request about exchanges, bindings or policies.
    Topology(TopologyCommand),
    /// A request about redrives.
    Redrive(RedriveCommand),
    /// Work that the broker asks for itself, for no connection.
    Upkeep(UpkeepCommand),
}

impl Command {
    /// The queue or exchange that the command declares, if it is a declaration: its policies are
    /// searched beforehand, see [`Core::match_policies`](super::Core::match_policies).
    pub const fn declares(&self) -> Option<(ObjectKind, &Name)> {
        match self {
            Self::Queue(QueueCommand::Declare { name, .. }) => Some((ObjectKind::Queue, name)),
            Self::Subscribe(subscribe) => Some((ObjectKind::Queue, &subscribe.consume.queue)),
            Self::Topology(
                TopologyCommand::ExchangeDeclare { name, .. }
                | TopologyCommand::TemporaryTopic { name, .. },
            ) => Some((ObjectKind::Exchange, name)),
            _ => None,
        }
    }
}

/// What concerns the links of publishers.
#[derive(Debug)]
pub enum PublisherCommand {
    /// A publisher has published to the address of a queue: it is told when that queue is deleted.
    Follow {
        /// The connection that the publisher's link belongs to.
        connection: ConnectionId,
        /// The publisher that it concerns.
        publisher: PublisherId,
        /// The name of the queue in the publisher's address.
        queue: Name,
    },
    /// The link of a publisher that follows a queue was detached.
    Leave {
        /// The connection that the publisher's link belonged to.
        connection: ConnectionId,
        /// The publisher that it concerns.
        publisher: PublisherId,
    },
    /// The journal is to keep what becomes of messages on a link: a new one, or one with other terms.
    Keep(Box<PublisherLink>),
    /// A link that the journal kept is closed, or its time is over.
    Forget {
        /// The number that it is kept under.
        link: u64,
    },
    /// A connection tells another one of a publisher's link that both had attached.
    Tell {
        /// The connection that is told.
        connection: ConnectionId,
        /// The publisher, as that connection has it.
        publisher: PublisherId,
        /// What is told.
        news: PublisherNews,
    },
}

/// What a connection tells another one of a publisher's link that both had attached.
#[derive(Debug)]
pub enum PublisherNews {
    /// The link was attached again on the connection that tells it.
    Stolen,
    /// What became of a message that it resumed, and that was published on the connection that tells it.
    Published {
        /// The gateway's token of the publish, where it is told.
        token: u64,
        /// Accepted, or why not.
        outcome: PublishOutcome,
        /// The publisher is told once this record is durable (0: at once).
        lsn: Lsn,
    },
}

/// Requests about one queue.
#[derive(Debug)]
pub enum QueueCommand {
    /// Declares a queue. Reply: `QueueDeclared`.
    Declare {
        /// The owner if the queue is exclusive; otherwise the asking connection (queues exclusive
        /// to another one are locked). None: asked over HTTP.
        connection: Option<ConnectionId>,
        /// The queue's name, not empty.
        name: Name,
        /// The queue survives a restart.
        durable: bool,
        /// The queue belongs to the connection and is deleted when it closes.
        exclusive: bool,
        /// The queue is deleted when its last consumer detaches.
        auto_delete: bool,
        /// Typed arguments as given, duplicates removed.
        arguments: Vec<(Name, Value)>,
    },
    /// Deletes a queue. Reply: `QueueDeleted` (0 messages when it was not there).
    Delete {
        /// The asking connection, which may own the queue; none: no connection asks, as in an
        /// import.
        connection: Option<ConnectionId>,
        /// The queue to delete.
        name: Name,
        /// Refuse if the queue has consumers.
        if_unused: bool,
        /// Refuse if the queue has messages.
        if_empty: bool,
    },
    /// Drops the ready messages of a queue. Reply: `Purged`.
    Purge {
        /// The asking connection, which may own the queue; none: no connection asks, as in an
        /// import.
        connection: Option<ConnectionId>,
        /// The queue to purge.
        name: Name,
        /// Drop dead letters that wait for a target, too.
        with_dead_pending: bool,
    },
    /// Drops one ready message of a queue. Reply: `Purged`, or `NoMessage`, or `NotReady`.
    Discard {
        /// The asking connection, which may own the queue; none: no connection asks.
        connection: Option<ConnectionId>,
        /// The queue that it is in.
        name: Name,
        /// The message's position.
        position: Position,
    },
    /// Makes messages ready that wait for their time, those due first: a slice of them at most.
    /// Reply: `Retried`.
    Retry {
        /// The asking connection, which may own the queue; none: no connection asks.
        connection: Option<ConnectionId>,
        /// The queue that they wait in.
        name: Name,
        /// How many, at most.
        count: u64,
    },
    /// Writes a note on a group of dead letters, or removes it. Reply: `NoteSet`, `Done`.
    NoteGroup {
        /// The queue that holds the group.
        name: Name,
        /// The group's fingerprint.
        key: Name,
        /// Text and user; none: the note is removed.
        note: Option<(Name, Name)>,
    },
    /// Looks up how far an import came. Reply: `ImportBegun`.
    ImportBegin {
        /// The queue that it fills.
        name: Name,
        /// The id of the import.
        id: Name,
    },
    /// Puts a message into a queue, with the history that it brings. Reply: `Imported`, or
    /// `ImportKnown` if the line is there already.
    Import {
        /// The queue to put it into.
        name: Name,
        /// The message with its history.
        message: Arc<Message>,
        /// Exchange and routing keys with which it came.
        route: Arc<Route>,
        /// Its place in an import that can be sent again; none: nothing is remembered of it.
        line: Option<ImportLine>,
    },
    /// Describes a queue. Reply: `Queue`.
    Get {
        /// The queue to describe.
        name: Name,
    },
}

/// Requests about exchanges, bindings and policies.
#[derive(Debug)]
pub enum TopologyCommand {
    /// Looks up an exchange to publish to. Reply: `Exchange`, or `NotFound`, or `Internal`.
    ExchangeResolve {
        /// The exchange's name; never the default exchange, which is [`ExchangeId`] 0.
        name: Name,
    },
    /// Declares an exchange. Reply: `ExchangeDeclared`.
    ExchangeDeclare {
        /// The exchange's name, not empty.
        name: Name,
        /// `direct`, `fanout`, `topic`, `headers` or `x-local-random`.
        kind: Name,
        /// The exchange survives a restart.
        durable: bool,
        /// The exchange is deleted when its last binding is removed.
        auto_delete: bool,
        /// Clients may not publish to it; only bindings and dead letters lead to it.
        internal: bool,
        /// Typed arguments as given by the client.
        arguments: Vec<(Name, Value)>,
    },
    /// Declares a temporary topic: a transient fanout exchange with a generated name. Reply:
    /// `ExchangeDeclared`.
    TemporaryTopic {
        /// The connection that alone subscribes to it and deletes it.
        connection: ConnectionId,
        /// The exchange's name, which begins as those of temporary queues.
        name: Name,
    },
    /// Deletes an exchange. Reply: `Done`, also when missing.
    ExchangeDelete {
        /// The asking connection, which may own the temporary topic; none: no connection asks.
        connection: Option<ConnectionId>,
        /// The exchange to delete.
        name: Name,
        /// Refuse if there are bindings from the exchange.
        if_unused: bool,
    },
    /// Adds a binding. Reply: `Done`, also when it exists.
    Bind {
        /// The asking connection, which may own the queue or the temporary topic; none: no connection
        /// asks, as in an import.
        connection: Option<ConnectionId>,
        /// The exchange that messages come from.
        source: Name,
        /// The queue or exchange that the binding leads to.
        destination: Destination,
        /// The binding key (on a topic exchange the pattern).
        key: Name,
        /// Typed arguments as given by the client.
        arguments: Vec<(Name, Value)>,
    },
    /// Removes a binding. Reply: `Done`, also when it does not exist.
    Unbind {
        /// The asking connection, which may own the queue or the temporary topic; none: no connection
        /// asks, as in an import.
        connection: Option<ConnectionId>,
        /// The exchange that messages come from.
        source: Name,
        /// The queue or exchange that the binding leads to.
        destination: Destination,
        /// The binding key (on a topic exchange the pattern).
        key: Name,
        /// Arguments of the binding, equal in value.
        arguments: Vec<(Name, Value)>,
    },
    /// Lists some bindings. Reply: `Bindings`. Boxed, as it would be most of the size of every
    /// command.
    BindingsGet {
        /// The source, destination or pair whose bindings are listed.
        of: Box<BindingsOf>,
        /// List only bindings that sort behind this one; none: from the first one.
        after: Option<Box<Binding>>,
    },
    /// Sets a policy (or an operator policy) and applies it. Reply: `PolicySet`.
    PolicySet {
        /// Whether it is an operator policy.
        operator: bool,
        /// The policy; boxed, since it would be most of the size of every command.
        policy: Box<super::Policy>,
    },
    /// Deletes a policy. Reply: `Done` or `NotFound`.
    PolicyDelete {
        /// Whether it is an operator policy.
        operator: bool,
        /// The policy to delete.
        name: Name,
    },
}

/// Work that the broker asks for itself.
#[derive(Debug)]
pub enum UpkeepCommand {
    /// Settings of the vhost for queues that are yet to be declared.
    VhostSettings {
        /// Queues that may exist at a time; none: any number.
        queues_max: Option<u64>,
        /// Type of queues that are declared without `x-queue-type`, where their properties allow
        /// it.
        default_queue_type: Option<Name>,
    },
    /// Sets what happens to dead letters without a target from now on.
    Undeliverable(Undeliverable),
    /// Sets how long consumers of quorum queues may hold a delivery from now on, in milliseconds,
    /// where neither argument nor policy says; 0: any time.
    ConsumerTimeout(u64),
    /// A block was read back, as [`Effects::loads`](super::Effects::loads) asked.
    PagedIn(PagedIn),
    /// A body was looked into, as [`Effects::looks`](super::Effects::looks) asked.
    BodyLooked {
        /// The number of the redrive.
        job: u64,
        /// The position of the message in the source.
        position: Position,
        /// Whether it has the text; also false where it cannot be read.
        has_text: bool,
    },
    /// Evict blocks, the newest first.
    PageOut {
        /// Memory to free, about, in bytes.
        bytes: u64,
        /// Records up to this LSN can be read back.
        written: Lsn,
        /// Whether transient messages may be spilled to disk as well.
        spill: bool,
    },
    /// A block was spilled, as [`Effects::spills`](super::Effects::spills) asked.
    Spilled {
        /// The queue that the block belongs to.
        queue: QueueId,
        /// The position of the block's first slot.
        block: Position,
        /// The LSN of the spilled piece; 0: writing it failed.
        lsn: Lsn,
        /// Records up to this LSN can be read back.
        written: Lsn,
    },
    /// The groups with notes of a queue were looked for.
    NotesSeen {
        /// The queue that was looked through.
        queue: QueueId,
        /// Groups of which it has messages.
        present: Vec<Name>,
        /// Groups of which it has none.
        absent: Vec<Name>,
    },
    /// A user was deleted: the links that it had are not attached again.
    UserDeleted {
        /// The user's name.
        user: Name,
    },
    /// Tell the journal how many messages died, as far as it does not know: the broker is about to stop.
    WriteDeaths,
    /// Raises or clears an alarm: publishers get no credit while one stands.
    Alarm {
        /// Whether an alarm is in effect now.
        raised: bool,
    },
}

/// A message from a publisher, to be routed.
#[derive(Debug)]
pub struct Publish {
    /// The connection that the publisher's link belongs to.
    pub connection: ConnectionId,
    /// The publisher's link.
    pub publisher: PublisherId,
    /// The gateway's token for the delivery; the outcome repeats it.
    pub token: u64,
    /// The exchange to publish to.
    pub target: Target,
    /// Exchange and routing keys (first the message's key, then those of CC).
    pub route: Arc<Route>,
    /// The message, shared by all queues that it enters.
    pub message: Arc<Message>,
    /// The delivery was sent settled: the publisher wants no outcome.
    pub settled: bool,
    /// Index of the first routing key that may not be used if the exchange is a topic exchange;
    /// none: all may.
    pub forbidden: Option<u32>,
    /// When it is to be delivered at the earliest; none: at once.
    pub delivery_time: Option<DeliveryTime>,
}

impl Publish {
    /// The first routing key that may not be used if the exchange is a topic exchange.
    pub(super) fn forbidden_key(&self) -> Option<&Name> {
        let index = usize::try_from(self.forbidden?).ok()?;
        self.route.keys.get(index)
    }
}

/// How a publish names its exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// Resolved when the link attached; 0 is the default exchange.
    Attached(ExchangeId),
    /// The same, of a topic: a message that no subscriber wants is accepted.
    AttachedTopic(ExchangeId),
    /// By the name in the route, looked up for each message (anonymous terminus).
    Named,
    /// The same, of a topic.
    NamedTopic,
}

impl Target {
    /// Whether it is a topic: a message that no subscriber wants is accepted.
    pub const fn is_topic(self) -> bool {
        matches!(self, Self::AttachedTopic(_) | Self::NamedTopic)
    }
}

/// A consumer that attaches to a queue.
#[derive(Clone, Debug)]
pub struct Consume {
    /// The connection that its link belongs to.
    pub connection: ConnectionId,
    /// The session of its link, whose window its deliveries use.
    pub session: SessionId,
    /// Its id, unique in the vhost.
    pub consumer: ConsumerId,
    /// The queue to consume from.
    pub queue: Name,
    /// Deliveries are settled when sent: accepted as soon as they were written, which
    /// [`Command::SettleRun`] tells.
    pub settled: bool,
    /// Consumers of higher priority are served first; default 0.
    pub priority: i32,
    /// Refuse if the queue has consumers, and refuse others while this one is attached.
    pub exclusive: bool,
    /// The consumer takes what is ready and detaches: an auto-delete queue is not deleted when it
    /// was the last.
    pub passing: bool,
    /// The messages that it accepts; none: all.
    pub selector: Option<Arc<Selector>>,
    /// How long it may hold a delivery, in milliseconds; 0: any time; none: as its queue says.
    pub timeout_ms: Option<u32>,
    /// Connection, user and address, for the history of messages that die by its outcome.
    pub evidence: Option<Arc<Evidence>>,
    /// How its link outlives its connection; none: not at all.
    pub recovery: Option<Box<Recovery>>,
}

impl Consume {
    /// The same link, if it only wants to look.
    pub fn into_browse(self) -> Browse {
        Browse {
            connection: self.connection,
            session: self.session,
            consumer: self.consumer,
            queue: self.queue,
            settled: self.settled,
            selector: self.selector,
        }
    }
}

/// A link that attaches to a queue to get copies of what is ready in it, in order, without taking
/// anything. Its credit, deliveries and settlements are told as those of a consumer.
#[derive(Clone, Debug)]
pub struct Browse {
    /// The connection that its link belongs to.
    pub connection: ConnectionId,
    /// The session of its link, whose window its deliveries use.
    pub session: SessionId,
    /// Its id, unique in the vhost.
    pub consumer: ConsumerId,
    /// The queue to look through.
    pub queue: Name,
    /// Deliveries are settled when sent.
    pub settled: bool,
    /// The messages that it wants to see; none: all.
    pub selector: Option<Arc<Selector>>,
}

/// The outcome of one delivery.
#[derive(Debug)]
pub struct Settle {
    /// The consumer that it concerns.
    pub consumer: ConsumerId,
    /// The position of the delivered message in its queue.
    pub position: Position,
    /// What the consumer did with the message.
    pub outcome: Outcome,
    /// Answer with [`super::Effect::Settled`] and this token when the consequences are durable.
    pub confirm: Option<u64>,
}

/// A transaction: what was published in it, and what was settled. Its limits are kept by who
/// collects it.
#[derive(Debug)]
pub struct Commit {
    /// The connection that is answered.
    pub connection: ConnectionId,
    /// The token of the answer.
    pub token: u64,
    /// Its messages, in order. None is answered by itself.
    pub posts: Vec<Publish>,
    /// Its outcomes, in order. One of a message that is gone with its queue changes nothing.
    pub outcomes: Vec<Settle>,
}

/// One outcome for several deliveries, without an answer.
#[derive(Debug)]
pub struct SettleRun {
    /// The consumer that it concerns.
    pub consumer: ConsumerId,
    /// Positions of the delivered messages, in order of settling; at most
    /// [`SETTLE_RUN_MAX`](crate::base::limits::SETTLE_RUN_MAX).
    pub positions: Vec<Position>,
    /// What the consumer did with each of them.
    pub outcome: Outcome,
}

/// Outcome of a delivery. [AMQP 3.4]
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The message was processed; it is removed.
    Accepted,
    /// The message is requeued to its position; no failure is counted.
    Released,
    /// The message cannot be processed; it is dead-lettered or dropped.
    Rejected {
        /// The consumer's error and identity, for the death history; none if unknown.
        evidence: Option<Arc<Evidence>>,
    },
    /// The message is requeued or dies, with the consumer's annotations merged.
    Modified {
        /// Counts as a failed delivery, which the delivery limit bounds.
        delivery_failed: bool,
        /// The message dies in this queue, as if rejected.
        undeliverable_here: bool,
        /// The encoded annotation map as received; none: nothing is merged.
        annotations: Option<Bytes>,
    },
}

/// The queue or exchange that a binding leads to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Destination {
    /// A queue, by name.
    Queue(Name),
    /// An exchange, by name.
    Exchange(Name),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::Reply;

    /// Both are moved several times for each message: a look at bindings once made them half as
    /// large again, and every message a tenth slower.
    #[test]
    fn commands_and_replies_are_as_small_as_those_of_messages() {
        assert!(size_of::<Command>() <= 104, "{}", size_of::<Command>());
        assert!(size_of::<Reply>() <= 88, "{}", size_of::<Reply>());
    }
}
