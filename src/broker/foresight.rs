//! What the core foresees for a message: what may happen to it next, and what would become of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::{Millis, Name, Now, Position, QueueId, Timestamp};
use crate::broker::DropCause;
use crate::broker::arguments::{OnUndeliverable, QueueArguments};
use crate::broker::policy::{EffectiveSettings, Policies};
use crate::broker::queue::MessageState;
use crate::broker::redrive::RedriveRights;
use crate::broker::reply::Content;
use crate::deaths::{Evidence, Reason};
use crate::message::Route;

/// What may happen to a message next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A consumer accepts it.
    Accepted,
    /// A consumer rejects it, or modifies it as undeliverable here.
    Rejected {
        /// Whether the delivery counts as failed.
        failed: bool,
        /// Error and identity of the consumer; none: unknown.
        evidence: Option<Arc<Evidence>>,
    },
    /// It comes back from its consumer.
    Returned {
        /// Whether the delivery counts as failed.
        failed: bool,
        /// Error and identity of the consumer; none: unknown.
        evidence: Option<Arc<Evidence>>,
    },
    /// It dies without a consumer taking part: of age, or because the queue is too long.
    Dies(Reason),
    /// It is dead and waits for a target, and is sent again.
    Retried,
    /// A user with these rights redrives it to the queue in which it failed last.
    Redriven(RedriveRights),
}

/// What becomes of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Becomes {
    /// It leaves for good.
    Gone,
    /// It waits in its queue again.
    Requeued,
    /// It enters the targets.
    DeadLettered,
    /// It stays in its queue, dead, until a target takes it.
    DeadPending,
    /// It moves to the quarantine.
    Quarantined(DropCause),
    /// It is dropped.
    Dropped(DropCause),
    /// A redrive moves it to the target.
    Moved,
    /// A redrive leaves it where it is, or waits.
    NotMoved(NotMoved),
}

/// Why a redrive does not move a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotMoved {
    /// A consumer holds it, or it waits for its time or for a target of its own.
    Held,
    /// The queue in which it failed is not there any more.
    NoTarget,
    /// It is in the queue in which it failed.
    SameQueue,
    /// The user may not send it there, or it would lose its safety.
    NotAllowed,
    /// The target is full: the redrive waits.
    TargetFull,
    /// An alarm of memory, disk or journal stands: the redrive waits.
    Alarm,
}

/// What would become of a message, and why.
#[derive(Clone, PartialEq, Debug)]
pub struct Foresight {
    /// What becomes of it.
    pub becomes: Becomes,
    /// The reason of its death; none: it does not die.
    pub reason: Option<Reason>,
    /// Exchange and keys its dead letter is sent with; none: it is sent nowhere.
    pub way: Option<Arc<Route>>,
    /// The queues that it enters, in the order in which they are asked.
    pub targets: Vec<ForeseenTarget>,
    /// The queues that are passed over.
    pub skipped: Vec<(QueueId, Skipped)>,
    /// Whether it stays in its queue, dead, for the targets that are full, or until there is one.
    pub waits: bool,
}

/// A queue that a dead letter would enter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForeseenTarget {
    /// The queue's id; none if the queue is only made then, as the quarantine is.
    pub id: Option<QueueId>,
    /// The queue's name.
    pub queue: Name,
    /// Whether it dies there at once: the queue is full and dead-letters what it refuses.
    pub dies: bool,
}

/// Why a dead letter does not enter a queue that its way leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Skipped {
    /// It would go round in a cycle without a rejection.
    Cycle,
    /// The queue is full and refuses it.
    Full,
    /// The queue that it waited for was deleted.
    Gone,
}

/// What an explanation supposes beside the message itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked<'a> {
    /// The error that a consumer would reject the message with; none: it gives none.
    pub error: Option<&'a Arc<Evidence>>,
    /// The rights of whoever would redrive it; none: nothing is foreseen of a redrive.
    pub redriver: Option<&'a RedriveRights>,
}

/// One message at one moment, and what may happen to it next.
#[derive(Clone, Debug)]
pub struct Explained {
    /// The moment for which this holds.
    pub as_of: Now,
    /// The queue it is in.
    pub queue: Arc<ExplainedQueue>,
    /// Its position in the queue.
    pub position: Position,
    /// Its state in that queue.
    pub state: MessageState,
    /// The reason of its death, if it is dead and waits for a target.
    pub waits: Option<Reason>,
    /// The identity of the consumer that holds it, if one does.
    pub holder: Option<Arc<Evidence>>,
    /// When it arrived in this queue.
    pub arrived: Millis,
    /// When it expires; none: never.
    pub deadline: Option<Millis>,
    /// Whether that is its own time to live rather than the queue's.
    pub is_deadline_own: bool,
    /// Until when it waits for its time, if it does.
    pub delayed_until: Option<Timestamp>,
    /// Ready messages that are served before it, as far as positions and priorities tell.
    pub ahead: u64,
    /// Failed deliveries in this queue.
    pub failures: u32,
    /// Requeues in this queue.
    pub acquired: u32,
    /// The arguments of the queue.
    pub arguments: QueueArguments,
    /// The effective settings of the queue.
    pub settings: EffectiveSettings,
    /// What happens to dead letters without a target unless their queue sets it.
    pub undeliverable: OnUndeliverable,
    /// All policies, to find which rule gave a setting.
    pub policies: Policies,
    /// The key of the binding by which its route leads to this queue now; none: by none directly.
    pub entered_by: Option<Name>,
    /// If it died: how it was published, the queue it died in first, and the key of the binding by
    /// which that way leads there now.
    pub published: Option<(Route, Name, Option<Name>)>,
    /// What may happen to it next, and what would become of it.
    pub next: Vec<(Event, Foresight)>,
    /// The queues that these lead to or pass over.
    pub queues: BTreeMap<QueueId, ExplainedQueue>,
    /// The message, or where to read it.
    pub content: Content,
}

/// The numbers of a queue that an explanation names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExplainedQueue {
    /// The queue's name.
    pub name: Name,
    /// Number of its consumers.
    pub consumers: u64,
    /// Number of its ready messages.
    pub ready: u64,
    /// Limit of ready messages; none: unlimited.
    pub max_length: Option<u64>,
}

impl Becomes {
    /// The word for it in answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Requeued => "requeued",
            Self::DeadLettered => "dead_lettered",
            Self::DeadPending => "dead_pending",
            Self::Quarantined(_) => "quarantined",
            Self::Dropped(_) => "dropped",
            Self::Moved => "moved",
            Self::NotMoved(NotMoved::TargetFull | NotMoved::Alarm) => "waiting",
            Self::NotMoved(_) => "skipped",
        }
    }

    /// The word for why it is quarantined, dropped or not moved; none if it is none of these.
    pub const fn cause(self) -> Option<&'static str> {
        match self {
            Self::Quarantined(cause) | Self::Dropped(cause) => Some(cause.as_str()),
            Self::NotMoved(why) => Some(why.as_str()),
            _ => None,
        }
    }
}

impl NotMoved {
    /// The word for it, as a redrive counts or states it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::NoTarget => "no_target",
            Self::SameQueue => "same_queue",
            Self::NotAllowed => "not_allowed",
            Self::TargetFull => "target_full",
            Self::Alarm => "alarm",
        }
    }
}

impl Skipped {
    /// The word for it in answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cycle => "cycle",
            Self::Full => "full",
            Self::Gone => "gone",
        }
    }
}

impl Foresight {
    /// That of a message that neither dies nor is sent anywhere.
    pub(super) const fn without_death(becomes: Becomes) -> Self {
        Self {
            becomes,
            reason: None,
            way: None,
            targets: Vec::new(),
            skipped: Vec::new(),
            waits: false,
        }
    }
}
