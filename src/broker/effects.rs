//! The effects of one batch: the core fills the collector, the caller empties it.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::base::{ConnectionId, Lsn, Meter, Name, Position, QueueId};
use crate::broker::event_runs::EventRuns;
use crate::broker::queue::Garbage;
use crate::broker::{Effect, ObjectKind, Record, Warning};
use crate::deaths::{Evidence, QuarantineCause, Reason};
use crate::message::{Message, Route};
use crate::search::DeathFilter;

/// What one batch of commands wants done outside, in order. Reused from batch to batch.
#[derive(Debug, Default)]
pub struct Effects {
    /// Effects with the connection of each, in order.
    pub outgoing: Vec<(ConnectionId, Effect)>,
    /// Journal records, in the order of their LSNs.
    pub records: Vec<Record>,
    /// LSNs of journal records (and spilled pieces) that no message refers to any more, once the
    /// new records are durable.
    pub released: Vec<Lsn>,
    /// Blocks to read back; each is answered by [`UpkeepCommand::PagedIn`](super::UpkeepCommand::PagedIn).
    pub loads: Vec<PageIn>,
    /// Bodies to look into; each is answered by
    /// [`UpkeepCommand::BodyLooked`](super::UpkeepCommand::BodyLooked).
    pub looks: Vec<BodyLook>,
    /// Blocks to spill; each is answered by [`UpkeepCommand::Spilled`](super::UpkeepCommand::Spilled).
    pub spills: Vec<Spill>,
    /// Log lines, rate-limited.
    pub log: Vec<LogEvent>,
    /// What happened, in order; told and kept outside of the core's lock.
    pub events: EventRuns,
    /// Messages to free after the core's lock is released: freeing takes longer than the rest of a
    /// batch.
    pub garbage: Vec<Garbage>,
    /// The cost of the work under this hold of the lock, as far as it is measured; the holder of
    /// the lock resets it.
    pub meter: Meter,
}

impl Effects {
    /// An empty collector.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether there are no effects.
    pub fn is_empty(&self) -> bool {
        self.outgoing.is_empty()
            && self.records.is_empty()
            && self.released.is_empty()
            && self.loads.is_empty()
            && self.looks.is_empty()
            && self.spills.is_empty()
            && self.log.is_empty()
            && self.events.is_empty()
    }

    /// Removes all effects and keeps the allocations.
    pub fn clear(&mut self) {
        self.outgoing.clear();
        self.records.clear();
        self.released.clear();
        self.loads.clear();
        self.looks.clear();
        self.spills.clear();
        self.log.clear();
        self.events.clear();
        self.garbage.clear();
    }

    /// The LSN of the last record, 0 if there is none.
    pub fn last_lsn(&self) -> Lsn {
        self.records.last().map_or(Lsn(0), |record| record.lsn)
    }
}

/// Moves effects behind others; if there are none, without copying.
pub fn append_effects(to: &mut VecDeque<Effect>, from: &mut VecDeque<Effect>) {
    if to.is_empty() {
        std::mem::swap(to, from);
    } else {
        to.append(from);
    }
}

/// Messages of one block of a queue that are to be paged in.
#[derive(Clone, Debug)]
pub struct PageIn {
    /// The queue that the block belongs to.
    pub queue: QueueId,
    /// The position of the block's first slot.
    pub block: Position,
    /// The messages to read, by position.
    pub wanted: Vec<Wanted>,
}

/// A body on disk in which the filter of a redrive is to look for its text.
#[derive(Clone, Debug)]
pub struct BodyLook {
    /// The number of the redrive.
    pub job: u64,
    /// The position of the message in the source.
    pub position: Position,
    /// The message, which names its body.
    pub message: Arc<Message>,
    /// The filter, of which all other parts hold.
    pub filter: Arc<DeathFilter>,
}

/// Where the bytes of an evicted message are on disk.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The position of the message in its queue.
    pub position: Position,
    /// The LSN of the record with its envelope.
    pub envelope: Lsn,
    /// The LSN of the record with its bare bytes; 0: they are in the envelope's record.
    pub body: Lsn,
}

/// Messages of one block of a queue that were read back.
#[derive(Clone, Debug)]
pub struct PagedIn {
    /// The queue that the block belongs to.
    pub queue: QueueId,
    /// The position of the block's first slot.
    pub block: Position,
    /// The messages that could be read. All others that were wanted are damaged.
    pub messages: Vec<(Position, Arc<Message>, Arc<Route>)>,
}

/// Messages of one block of a queue to be written to disk until they are wanted.
#[derive(Clone, Debug)]
pub struct Spill {
    /// The queue that the block belongs to.
    pub queue: QueueId,
    /// The position of the block's first slot.
    pub block: Position,
    /// The messages to write, by position.
    pub messages: Vec<(Position, Arc<Message>, Arc<Route>)>,
}

/// An event for the log, worth an operator's attention.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LogEvent {
    /// Messages were dropped in a queue.
    Dropped {
        /// The queue that dropped them.
        queue: Name,
        /// The reason of the death; none if they did not die.
        reason: Option<Reason>,
        /// Why they could not be kept.
        cause: DropCause,
        /// Messages since the last such line.
        count: u64,
    },
    /// Dead letters of a queue had no target and were moved to the quarantine.
    Quarantined {
        /// The queue in which they died.
        queue: Name,
        /// The reason of the death.
        reason: Option<Reason>,
        /// Why they had no target.
        cause: DropCause,
        /// Messages since the last such line.
        count: u64,
    },
    /// A policy or argument will probably not do what its author meant.
    Warned {
        /// The kind of object that was set or declared.
        kind: ObjectKind,
        /// The object's name.
        name: Name,
        /// What is doubtful about it.
        warning: Warning,
    },
    /// A consumer held a delivery for too long; logged once for each link.
    ConsumerTimedOut {
        /// The queue that it reads.
        queue: Name,
        /// The identity of the consumer, if it is known.
        by: Option<Arc<Evidence>>,
        /// How long it may hold a delivery, in milliseconds.
        timeout_ms: u32,
    },
    /// A dead letter was routed to a queue of its history without a rejection, and is sent no
    /// further; logged once for each distinct cycle.
    Cycle {
        /// The queues of the cycle, in order.
        path: Vec<Name>,
    },
}

/// Why a message was dropped rather than kept or moved. Each is counted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DropCause {
    /// The queue has no dead-letter exchange.
    NoDeadLetterExchange,
    /// The dead-letter exchange does not exist.
    ExchangeMissing,
    /// The dead-letter exchange routes it to no queue.
    Unroutable,
    /// A target refused it: full under `reject-publish`.
    TargetFull,
    /// It was in that queue before and was not rejected since.
    Cycle,
    /// It died in more queues than a history can name.
    HistoryFull,
    /// It waited for a target, and its queue was deleted or lost its dead-letter exchange.
    PendingAbandoned,
    /// The quarantine was full, and it was the oldest message.
    QuarantineFull,
    /// Its queue was purged.
    Purged,
    /// Somebody asked for it to be discarded.
    Discarded,
    /// Its queue was deleted.
    QueueDeleted,
    /// Its queue expired.
    QueueExpired,
    /// Its bytes on disk cannot be read.
    Damaged,
    /// It was sent settled, and the connection broke while it was being written: it may have
    /// arrived.
    ConnectionLost,
}

impl DropCause {
    /// Every cause, in the order of the documentation.
    pub const ALL: [Self; 14] = [
        Self::NoDeadLetterExchange,
        Self::ExchangeMissing,
        Self::Unroutable,
        Self::TargetFull,
        Self::Cycle,
        Self::HistoryFull,
        Self::PendingAbandoned,
        Self::QuarantineFull,
        Self::Purged,
        Self::Discarded,
        Self::QueueDeleted,
        Self::QueueExpired,
        Self::Damaged,
        Self::ConnectionLost,
    ];

    /// The cause in the quarantine of a dead letter that would be dropped for this one; none if it
    /// cannot be kept there.
    pub const fn of_quarantine(self) -> Option<QuarantineCause> {
        Some(match self {
            Self::NoDeadLetterExchange => QuarantineCause::NoDeadLetterExchange,
            Self::ExchangeMissing => QuarantineCause::ExchangeMissing,
            Self::Unroutable => QuarantineCause::Unroutable,
            Self::TargetFull => QuarantineCause::TargetFull,
            Self::Cycle => QuarantineCause::Cycle,
            Self::HistoryFull => QuarantineCause::HistoryFull,
            Self::PendingAbandoned => QuarantineCause::PendingAbandoned,
            Self::QuarantineFull
            | Self::Purged
            | Self::Discarded
            | Self::QueueDeleted
            | Self::QueueExpired
            | Self::Damaged
            | Self::ConnectionLost => return None,
        })
    }

    /// The word for it in metrics and answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoDeadLetterExchange => "no_dead_letter_exchange",
            Self::ExchangeMissing => "exchange_missing",
            Self::Unroutable => "unroutable",
            Self::TargetFull => "target_full",
            Self::Cycle => "cycle",
            Self::HistoryFull => "history_full",
            Self::PendingAbandoned => "pending_abandoned",
            Self::QuarantineFull => "quarantine_full",
            Self::Purged => "purged",
            Self::Discarded => "discarded",
            Self::QueueDeleted => "queue_deleted",
            Self::QueueExpired => "queue_expired",
            Self::Damaged => "damaged",
            Self::ConnectionLost => "connection_lost",
        }
    }

    /// One sentence that explains it.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::NoDeadLetterExchange => "The queue has no dead-letter exchange.",
            Self::ExchangeMissing => "The dead-letter exchange is not there.",
            Self::Unroutable => "No queue is bound to the dead-letter exchange for it.",
            Self::TargetFull => "A target refused it: full under `reject-publish`.",
            Self::Cycle => {
                "It came back to a queue by itself, as dead letters do that go in circles."
            }
            Self::HistoryFull => {
                "Its history has no room for the name of one more queue: 256 are folded already."
            }
            Self::PendingAbandoned => {
                "It waited for a target, and its queue went or lost its dead-letter exchange."
            }
            Self::QuarantineFull => {
                "The quarantine `amq.quarantine` was full: its oldest messages go first."
            }
            Self::Purged => "Its queue was purged.",
            Self::Discarded => "Somebody asked for it to be discarded.",
            Self::QueueDeleted => "Its queue was deleted.",
            Self::QueueExpired => "Its queue was not used for so long that it expired.",
            Self::Damaged => "Its bytes cannot be read from the disk.",
            Self::ConnectionLost => {
                "It was sent settled, and the connection broke meanwhile: it may have arrived."
            }
        }
    }
}
