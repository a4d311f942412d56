//! What can be asked of a vhost's core. A closed set.
//!
//! Limits are cumulative counters, so that reports that cross with assignments need no answer:
//! a consumer's limit is "messages it may have been assigned since attach", a session's "messages
//! assigned to it since begin", a connection's "bytes assigned to it since open".

use std::sync::Arc;

use bytes::Bytes;

use super::binding::Binding;
use super::router::BindingsOf;
use super::{DropCause, ObjectKind, PagedIn, Undeliverable};
use crate::base::{
    ConnectionId, ConsumerId, ExchangeId, Lsn, Name, Position, PublisherId, QueueId, SessionId,
};
use crate::deaths::Evidence;
use crate::filter::Selector;
use crate::message::{Message, Route};
use crate::wire::Value;

/// One request to the core.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "the large variants set policies, which is rare; a command is made and taken in place"
)]
pub enum Command {
    /// A client is there.
    ConnectionOpen {
        /// Its id.
        connection: ConnectionId,
        /// Its user.
        user: Name,
        /// Bytes it may be assigned from the start.
        limit_bytes: u64,
    },
    /// More (or less) bytes may be assigned to the connection: bytes written + outbox bound.
    ConnectionRoom {
        /// The connection that it concerns.
        connection: ConnectionId,
        /// Cumulative bytes since open.
        limit_bytes: u64,
    },
    /// The client is gone: all its deliveries come back as failed, its exclusive queues go.
    ConnectionClose {
        /// The connection that it concerns.
        connection: ConnectionId,
    },
    /// A session began.
    SessionOpen {
        /// Its connection.
        connection: ConnectionId,
        /// Its id.
        session: SessionId,
        /// Messages it may be assigned from the start.
        limit: u64,
    },
    /// The peer's incoming window changed.
    SessionFlow {
        /// The session that it concerns.
        session: SessionId,
        /// Cumulative messages since begin.
        limit: u64,
    },
    /// The session ended: its deliveries come back as failed.
    SessionEnd {
        /// The session that it concerns.
        session: SessionId,
    },
    /// A message arrived. Answered by [`super::Effect::Published`] unless settled.
    Publish(Publish),
    /// A consumer attached. Reply: `Consuming` or an error.
    Consume(Consume),
    /// A consumer's credit changed.
    ConsumerFlow {
        /// The consumer that it concerns.
        consumer: ConsumerId,
        /// Cumulative messages since attach.
        limit: u64,
        /// Give what is there, then report [`super::Effect::Drained`].
        drain: bool,
    },
    /// A consumer settled a delivery.
    Settle(Settle),
    /// A consumer settled several, as if one after the other.
    SettleRun(SettleRun),
    /// A delivery that was assigned but never written to the socket: back, no count raised, and the
    /// consumer's and the session's counters step back. (The connection's does not: the gateway
    /// counts every assignment it has done with as written.)
    ReturnUnsent {
        /// The consumer that it concerns.
        consumer: ConsumerId,
        /// The place of the message in its queue.
        position: Position,
    },
    /// A delivery cannot be sent and not be given back: it is dropped.
    Discard {
        /// The consumer that it concerns.
        consumer: ConsumerId,
        /// The place of the message in its queue.
        position: Position,
        /// The cause, as it is counted.
        cause: DropCause,
    },
    /// The consumer's link is gone: its deliveries come back, acquired-count raised only.
    ConsumerDetach {
        /// The consumer that it concerns.
        consumer: ConsumerId,
    },
    /// A publisher to the address of a queue has published: it is told when that queue goes.
    PublisherFollow {
        /// Its connection.
        connection: ConnectionId,
        /// The publisher that it concerns.
        publisher: PublisherId,
        /// The queue.
        queue: Name,
    },
    /// Such a publisher's link is gone.
    PublisherLeave {
        /// Its connection.
        connection: ConnectionId,
        /// The publisher that it concerns.
        publisher: PublisherId,
    },
    /// Of a queue.
    Queue(QueueCommand),
    /// Of exchanges, bindings and policies.
    Topology(TopologyCommand),
    /// What the broker asks for by itself, for no connection.
    Upkeep(UpkeepCommand),
}

impl Command {
    /// The queue or exchange that it declares, if it does: its policies are looked for beforehand, see
    /// [`Core::foresee`](super::Core::foresee).
    pub const fn declares(&self) -> Option<(ObjectKind, &Name)> {
        match self {
            Self::Queue(QueueCommand::Declare { name, .. }) => Some((ObjectKind::Queue, name)),
            Self::Topology(TopologyCommand::ExchangeDeclare { name, .. }) => {
                Some((ObjectKind::Exchange, name))
            }
            _ => None,
        }
    }
}

/// Requests about one queue.
#[derive(Debug)]
pub enum QueueCommand {
    /// Declares a queue. Reply: `QueueDeclared`.
    Declare {
        /// Owner if exclusive; whoever asks otherwise (exclusive queues of others are locked).
        connection: Option<ConnectionId>,
        /// Its name, not empty.
        name: Name,
        /// Survives a restart.
        durable: bool,
        /// Belongs to the connection and goes with it.
        exclusive: bool,
        /// Goes when its last consumer goes.
        auto_delete: bool,
        /// Typed arguments as given, duplicates removed.
        arguments: Vec<(Name, Value)>,
    },
    /// Deletes a queue. Reply: `QueueDeleted` (0 messages when it was not there).
    Delete {
        /// Who asks.
        connection: Option<ConnectionId>,
        /// Its name.
        name: Name,
        /// Refuse when it has consumers.
        if_unused: bool,
        /// Refuse when it has messages.
        if_empty: bool,
    },
    /// Removes ready messages. Reply: `Purged`.
    Purge {
        /// Who asks.
        connection: Option<ConnectionId>,
        /// Its name.
        name: Name,
        /// Also dead letters that wait for a target.
        with_dead_pending: bool,
    },
    /// Describes a queue. Reply: `Queue`.
    Get {
        /// Its name.
        name: Name,
    },
}

/// Requests about exchanges, bindings and policies.
#[derive(Debug)]
pub enum TopologyCommand {
    /// Looks up an exchange to publish to. Reply: `Exchange`, or `NotFound`, or `Internal`.
    ExchangeResolve {
        /// Its name; never the default exchange, which is [`ExchangeId`] 0.
        name: Name,
    },
    /// Declares an exchange. Reply: `ExchangeDeclared`.
    ExchangeDeclare {
        /// Its name, not empty.
        name: Name,
        /// `direct`, `fanout`, `topic`, `headers` or `x-local-random`.
        kind: Name,
        /// Survives a restart.
        durable: bool,
        /// Goes when its last binding goes.
        auto_delete: bool,
        /// Not a publish target for clients.
        internal: bool,
        /// Typed arguments as given.
        arguments: Vec<(Name, Value)>,
    },
    /// Deletes an exchange. Reply: `Done`, also when missing.
    ExchangeDelete {
        /// Its name.
        name: Name,
        /// Refuse when it has bindings.
        if_unused: bool,
    },
    /// Binds. Reply: `Done`, also when it exists.
    Bind {
        /// Who asks.
        connection: Option<ConnectionId>,
        /// Source exchange.
        source: Name,
        /// Where to.
        destination: Destination,
        /// Binding key.
        key: Name,
        /// Typed arguments as given.
        arguments: Vec<(Name, Value)>,
    },
    /// Unbinds. Reply: `Done`, also when missing.
    Unbind {
        /// Who asks.
        connection: Option<ConnectionId>,
        /// Source exchange.
        source: Name,
        /// Where to.
        destination: Destination,
        /// Binding key.
        key: Name,
        /// Arguments of the binding, equal in value.
        arguments: Vec<(Name, Value)>,
    },
    /// Lists some bindings. Reply: `Bindings`. Boxed, as it would be most of the size of every command.
    BindingsGet {
        /// What the bindings belong to.
        of: Box<BindingsOf>,
        /// Those behind this one.
        after: Option<Box<Binding>>,
    },
    /// Sets a policy (or an operator policy) and applies it. Reply: `PolicySet`.
    PolicySet {
        /// An operator policy.
        operator: bool,
        /// The policy; boxed, since it would be most of the size of every command.
        policy: Box<super::Policy>,
    },
    /// Deletes a policy. Reply: `Done` or `NotFound`.
    PolicyDelete {
        /// An operator policy.
        operator: bool,
        /// Its name.
        name: Name,
    },
}

/// What the broker asks for by itself.
#[derive(Debug)]
pub enum UpkeepCommand {
    /// What is said of the vhost and concerns queues that are yet to be declared.
    VhostSettings {
        /// Queues at a time; none: any number.
        queues_max: Option<u64>,
        /// Type of queues that are declared without one, where they can be of it.
        default_queue_type: Option<Name>,
    },
    /// What becomes of dead letters that get nowhere from now on.
    Undeliverable(Undeliverable),
    /// A block was read back, as [`Effects::loads`](super::Effects::loads) asked.
    PagedIn(PagedIn),
    /// Evict blocks, the newest first.
    PageOut {
        /// About so many bytes of memory.
        bytes: u64,
        /// Records up to this one can be read back.
        written: Lsn,
        /// Transient messages may be spilled.
        spill: bool,
    },
    /// A block was spilled, as [`Effects::spills`](super::Effects::spills) asked.
    Spilled {
        /// Of this queue.
        queue: QueueId,
        /// Its first place.
        block: Position,
        /// What names the piece; 0: it failed.
        lsn: Lsn,
        /// Records up to this one can be read back.
        written: Lsn,
    },
    /// Tell the journal how many messages died, as far as it does not know: the broker is about to stop.
    WriteDeaths,
    /// Raises or clears an alarm: publishers get no credit while one stands.
    Alarm {
        /// Whether it stands.
        raised: bool,
    },
}

/// A message to route.
#[derive(Debug)]
pub struct Publish {
    /// The connection that it concerns.
    pub connection: ConnectionId,
    /// Through which link.
    pub publisher: PublisherId,
    /// The gateway's token for the delivery, given back in the outcome.
    pub token: u64,
    /// Where to.
    pub target: Target,
    /// Exchange and routing keys (first key, then CC).
    pub route: Arc<Route>,
    /// The message itself.
    pub message: Arc<Message>,
    /// The publisher wants no outcome.
    pub settled: bool,
    /// Which of the keys is the first that may not be used if the exchange is a topic exchange.
    pub forbidden: Option<u32>,
}

impl Publish {
    /// The first key that may not be used if the exchange is a topic exchange.
    pub(super) fn forbidden_key(&self) -> Option<&Name> {
        let index = usize::try_from(self.forbidden?).ok()?;
        self.route.keys.get(index)
    }
}

/// How the exchange of a publish was named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// Resolved when the link attached; 0 is the default exchange.
    Attached(ExchangeId),
    /// By the name in the route, looked up now (anonymous terminus).
    Named,
}

/// A consumer to add.
#[derive(Clone, Debug)]
pub struct Consume {
    /// Its connection.
    pub connection: ConnectionId,
    /// Its session, which holds its deliveries.
    pub session: SessionId,
    /// Its id.
    pub consumer: ConsumerId,
    /// Queue to consume from.
    pub queue: Name,
    /// Deliveries are settled when sent: accepted as soon as they were written, which
    /// [`Command::SettleRun`] tells.
    pub settled: bool,
    /// Higher is served first; default 0.
    pub priority: i32,
    /// Refuse other consumers.
    pub exclusive: bool,
    /// It only takes what is there and goes: an auto-delete queue stays when it was the last.
    pub passing: bool,
    /// Which messages it wants; default all.
    pub selector: Option<Arc<Selector>>,
    /// Who it is, for the history of those that die by it.
    pub evidence: Option<Arc<Evidence>>,
}

/// A consumer's verdict on a delivery.
#[derive(Debug)]
pub struct Settle {
    /// The consumer that it concerns.
    pub consumer: ConsumerId,
    /// Which delivery.
    pub position: Position,
    /// What became of it.
    pub outcome: Outcome,
    /// Answer with [`super::Effect::Settled`] and this token when the consequences are durable.
    pub confirm: Option<u64>,
}

/// A consumer's verdict on several deliveries, without an answer.
#[derive(Debug)]
pub struct SettleRun {
    /// The consumer that it concerns.
    pub consumer: ConsumerId,
    /// Which deliveries, in this order; at most [`SETTLE_RUN_MAX`](crate::base::limits::SETTLE_RUN_MAX).
    pub positions: Vec<Position>,
    /// What became of each.
    pub outcome: Outcome,
}

/// Outcome of a delivery. [AMQP 3.4]
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The message was processed; it is removed.
    Accepted,
    /// Back to its place.
    Released,
    /// The message cannot be processed; it is dead-lettered or dropped.
    Rejected {
        /// Error and consumer, if any.
        evidence: Option<Arc<Evidence>>,
    },
    /// Back or dead, annotations merged.
    Modified {
        /// Counts as a failed delivery.
        delivery_failed: bool,
        /// Dead here.
        undeliverable_here: bool,
        /// The encoded annotation map, as received.
        annotations: Option<Bytes>,
    },
}

/// Where a binding leads.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Destination {
    /// A queue.
    Queue(Name),
    /// An exchange.
    Exchange(Name),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::Reply;

    /// Both are moved several times for each message: a look at bindings once made them half as large
    /// again, and every message a tenth slower.
    #[test]
    fn commands_and_replies_are_as_small_as_those_of_messages() {
        assert!(size_of::<Command>() <= 104, "{}", size_of::<Command>());
        assert!(size_of::<Reply>() <= 88, "{}", size_of::<Reply>());
    }
}
