//! Events: what a vhost tells whoever looks at the moment in which it happens, and keeps for a while.
//! [evidence part 10]
//!
//! ```text
//!   Core::tell --> Effects::events, in runs --> EventItem::keep, behind the core's lock --> the ring of the node
//! ```
//!
//! One message makes one event of one step: a death says what became of the dead letter, so that a drop
//! or a place in the quarantine at once is no event of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;

use super::DropCause;
use super::death_counts::DeathOutcome;
use super::redrive::{RedriveCause, RedriveCounts, RedriveOutcome, RedriveState};
use crate::base::limits::EVENT_TARGETS_MAX;
use crate::base::{Name, Position, Timestamp};
use crate::deaths::{Entry, Evidence, History, Reason};
use crate::message::{Message, Route};

/// Writes an event of a vhost as the message that queues get which are bound to the exchange of events.
/// The first number is the [origin](EventNumbers::origin). None: it cannot be written.
pub type EventWriter = fn(&Name, u64, &VhostEvent) -> Option<Message>;

/// Something that happened in a vhost.
#[derive(Clone, Debug)]
pub struct VhostEvent {
    /// Its number: rising in a vhost, across restarts, and in no other vhost of the broker.
    pub number: u64,
    /// Wall-clock time of it.
    pub time: Timestamp,
    /// The queue that it happened in.
    pub queue: Name,
    /// What happened there.
    pub kind: EventKind,
    /// The message that it happened to; none: it concerns several, or none.
    pub message: Option<EventMessage>,
}

/// What may happen in a vhost.
#[derive(Clone, Debug)]
pub enum EventKind {
    /// A message died.
    Death {
        /// Why it died.
        reason: Reason,
        /// What became of the dead letter; none: it waits for a target.
        outcome: Option<DeathOutcome>,
        /// The queues that took it.
        targets: EventTargets,
    },
    /// A dead letter that had waited reached a target.
    DeadLettered {
        /// Why it had died.
        reason: Reason,
        /// The queues that took it.
        targets: EventTargets,
    },
    /// Messages were dropped without dying, or after they had waited.
    Dropped {
        /// Why they had died, if they had.
        reason: Option<Reason>,
        /// Why they were dropped.
        cause: DropCause,
        /// Number of messages.
        messages: u64,
    },
    /// A dead letter that had waited was moved to the quarantine.
    Quarantined {
        /// Why it had died.
        reason: Reason,
        /// Why no target took it.
        cause: DropCause,
    },
    /// A redrive moved a message back.
    Redriven {
        /// The id of the redrive.
        job: Name,
        /// The user that asked for it.
        by: Name,
        /// The queues that took it.
        targets: EventTargets,
    },
    /// A redrive began, went on, waits, or is over. Boxed: it is rare.
    Redrive(Box<RedriveNews>),
    /// A consumer held a delivery for too long.
    ConsumerTimeout {
        /// How long it may hold one, in milliseconds.
        timeout_ms: u32,
    },
}

impl EventKind {
    /// The queues that took the message.
    pub const fn targets(&self) -> Option<&EventTargets> {
        match self {
            Self::Death { targets, .. }
            | Self::DeadLettered { targets, .. }
            | Self::Redriven { targets, .. } => Some(targets),
            Self::Dropped { .. }
            | Self::Quarantined { .. }
            | Self::Redrive(_)
            | Self::ConsumerTimeout { .. } => None,
        }
    }
}

/// The state of a redrive, and how far it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RedriveNews {
    /// The id of the redrive.
    pub id: Name,
    /// The user that asked for it.
    pub by: Name,
    /// Its state from now on.
    pub state: RedriveState,
    /// Why it is in that state, if there is more to say.
    pub cause: Option<RedriveCause>,
    /// What it did so far.
    pub counts: RedriveCounts,
    /// What became of the moved messages so far.
    pub outcome: RedriveOutcome,
}

/// The message of an event.
#[derive(Clone, Debug)]
pub struct EventMessage {
    /// Its position in the queue.
    pub position: Position,
    /// How long it had been in that queue, in milliseconds.
    pub age_ms: u64,
    /// Size of its bare message, in bytes.
    pub size_bytes: u32,
    /// The message; of a kept event only what is in front of its body, none if there is nothing or it is
    /// on disk.
    pub message: Option<Arc<Message>>,
    /// Its death history, of a kept event.
    pub history: Option<Arc<History>>,
    /// What its history does not say: of a message that died where none is written.
    pub unwritten: Option<Unwritten>,
}

/// What was known of a death that is in no history.
#[derive(Clone, Debug)]
pub struct Unwritten {
    /// Exchange and routing keys with which it came to the queue.
    pub route: Arc<Route>,
    /// The consumer's error and identity.
    pub evidence: Option<Arc<Evidence>>,
}

/// The queues that took a message: the first [`EVENT_TARGETS_MAX`] by name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EventTargets {
    /// Names of the first of them.
    pub names: SmallVec<[Name; 1]>,
    /// Number of all.
    pub count: u32,
}

impl EventTargets {
    /// Adds a queue.
    pub fn add(&mut self, name: &Name) {
        self.count = self.count.saturating_add(1);
        if self.names.len() < EVENT_TARGETS_MAX {
            self.names.push(name.clone());
        }
    }
}

impl VhostEvent {
    /// The words for what it is, of which the first counts: a death that ends in a drop or in the
    /// quarantine is also one of those.
    pub fn types(&self) -> SmallVec<[EventType; 2]> {
        let mut types = SmallVec::new();
        types.push(self.first_type());
        match &self.kind {
            EventKind::Death {
                outcome: Some(DeathOutcome::Dropped(_)),
                ..
            } => types.push(EventType::Dropped),
            EventKind::Death {
                outcome: Some(DeathOutcome::Quarantined(_)),
                ..
            } => types.push(EventType::Quarantined),
            _ => {}
        }
        types
    }

    /// The type that names it.
    pub const fn first_type(&self) -> EventType {
        match &self.kind {
            EventKind::Death { .. } => EventType::Death,
            EventKind::DeadLettered { .. } => EventType::DeadLettered,
            EventKind::Dropped { .. } => EventType::Dropped,
            EventKind::Quarantined { .. } => EventType::Quarantined,
            EventKind::Redriven { .. } => EventType::Redriven,
            EventKind::Redrive(_) => EventType::Redrive,
            EventKind::ConsumerTimeout { .. } => EventType::ConsumerTimeout,
        }
    }

    /// The reason of the death that it tells of, if any.
    pub const fn reason(&self) -> Option<Reason> {
        match &self.kind {
            EventKind::Death { reason, .. }
            | EventKind::DeadLettered { reason, .. }
            | EventKind::Quarantined { reason, .. } => Some(*reason),
            EventKind::Dropped { reason, .. } => *reason,
            EventKind::Redriven { .. }
            | EventKind::Redrive(_)
            | EventKind::ConsumerTimeout { .. } => None,
        }
    }

    /// Why a message was dropped or quarantined, if it was.
    pub const fn cause(&self) -> Option<DropCause> {
        match &self.kind {
            EventKind::Death { outcome, .. } => match outcome {
                Some(DeathOutcome::Dropped(cause) | DeathOutcome::Quarantined(cause)) => {
                    Some(*cause)
                }
                Some(DeathOutcome::DeadLettered) | None => None,
            },
            EventKind::Dropped { cause, .. } | EventKind::Quarantined { cause, .. } => Some(*cause),
            EventKind::DeadLettered { .. }
            | EventKind::Redriven { .. }
            | EventKind::Redrive(_)
            | EventKind::ConsumerTimeout { .. } => None,
        }
    }

    /// The queues that took the message.
    pub const fn targets(&self) -> Option<&EventTargets> {
        self.kind.targets()
    }
}

impl EventMessage {
    /// The entry of the death that a kept event tells of, if its history has it.
    pub fn entry(&self, queue: &Name, reason: Option<Reason>) -> Option<&Entry> {
        let latest = self.history.as_ref()?.entries().first()?;
        let is_of_it = latest.queue == *queue && reason == Some(latest.reason);
        (is_of_it && self.unwritten.is_none()).then_some(latest)
    }
}

/// The types of events.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum EventType {
    /// A message died.
    Death,
    /// A dead letter that had waited reached a target.
    DeadLettered,
    /// Messages were dropped.
    Dropped,
    /// A dead letter was moved to the quarantine.
    Quarantined,
    /// A redrive moved a message back.
    Redriven,
    /// A redrive began, waits, goes on or is over.
    Redrive,
    /// A consumer held a delivery for too long.
    ConsumerTimeout,
}

impl EventType {
    /// All types, in the order of the documentation.
    pub const ALL: [Self; 7] = [
        Self::Death,
        Self::DeadLettered,
        Self::Dropped,
        Self::Quarantined,
        Self::Redriven,
        Self::Redrive,
        Self::ConsumerTimeout,
    ];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Death => "death",
            Self::DeadLettered => "dead-lettered",
            Self::Dropped => "dropped",
            Self::Quarantined => "quarantined",
            Self::Redriven => "redriven",
            Self::Redrive => "redrive",
            Self::ConsumerTimeout => "consumer-timeout",
        }
    }

    /// The type that a word names, if any.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == word)
    }
}

/// The numbers of events, shared by the vhosts of a broker.
#[derive(Clone, Debug)]
pub struct EventNumbers {
    next: Arc<AtomicU64>,
    origin: u64,
}

impl Default for EventNumbers {
    fn default() -> Self {
        Self::of(0)
    }
}

impl EventNumbers {
    /// Numbers from 1 on. `origin` tells this start of the broker from all others.
    pub fn of(origin: u64) -> Self {
        Self {
            next: Arc::new(AtomicU64::new(1)),
            origin,
        }
    }

    /// What tells this start of the broker from all others.
    pub const fn origin(&self) -> u64 {
        self.origin
    }

    /// A number that no other event has.
    #[inline]
    pub fn take(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// The number that the next event will have.
    pub fn next(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// Gives no number below this one any more; whether it would have.
    pub fn raise(&self, next: u64) -> bool {
        self.next.fetch_max(next, Ordering::Relaxed) < next
    }
}
