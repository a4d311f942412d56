//! Redrives: jobs that move dead letters back. What a job is asked to do, and what is known of it.
//! [evidence part 6]

use std::sync::Arc;

use crate::access::{Permissions, Right};
use crate::base::{Name, Position, QueueId, Timestamp};
use crate::broker::registry::Topics;
use crate::search::{Candidate, DeathFilter, Judged, Verdict};

/// What a redrive is asked to do.
#[derive(Clone, PartialEq, Debug)]
pub struct RedriveSpec {
    /// The queue whose messages are moved.
    pub queue: Name,
    /// Which of them; none: all.
    pub filter: Option<Arc<DeathFilter>>,
    /// Where they go.
    pub target: RedriveTarget,
    /// Thousandths of a message that are moved in a second, evenly; none: as fast as it goes.
    pub rate_milli: Option<u64>,
    /// Messages that are moved at most; none: all.
    pub max: Option<u64>,
    /// Whether it begins with small batches and waits what becomes of each; none: if the target has
    /// consumers.
    pub ramp: Option<bool>,
    /// When it stops because messages die again; none: never.
    pub stop: Option<RedriveStop>,
    /// What whoever made it noted.
    pub note: Option<Name>,
    /// Whether durable messages may go to queues that a restart empties.
    pub is_unsafe: bool,
}

/// Where a redrive moves messages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RedriveTarget {
    /// To the queue in which each failed last.
    Origin,
    /// To the queue of its first death.
    First,
    /// To exchange and keys of its first death.
    Original,
    /// To this queue.
    Queue(Name),
    /// To this exchange.
    Exchange {
        /// The exchange's name.
        exchange: Name,
        /// The key that it is published with.
        routing_key: Name,
    },
    /// Nowhere: it is dropped, and counted.
    Discard,
}

impl RedriveTarget {
    /// The word for its kind.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Origin => "origin",
            Self::First => "first",
            Self::Original => "original",
            Self::Queue(_) => "queue",
            Self::Exchange { .. } => "exchange",
            Self::Discard => "discard",
        }
    }
}

/// When a redrive stops: when more messages died again than both say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RedriveStop {
    /// Number of messages that died again.
    pub deaths: u64,
    /// Of those of which it is known what became of them, in millionths.
    pub share_ppm: u32,
}

impl RedriveStop {
    /// Three deaths and a tenth of those settled.
    pub const DEFAULT: Self = Self {
        deaths: 3,
        share_ppm: 100_000,
    };

    /// Whether a job with this outcome stops.
    pub fn is_reached(self, outcome: &RedriveOutcome) -> bool {
        let settled = u128::from(outcome.accepted) + u128::from(outcome.died_again);
        let share = settled * u128::from(self.share_ppm);
        outcome.died_again > self.deaths && u128::from(outcome.died_again) * 1_000_000 > share
    }
}

/// The state of a redrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RedriveState {
    /// It moves messages, or is between two batches.
    Running,
    /// It goes on by itself, once its cause is gone.
    Waiting,
    /// Somebody has to resume it.
    Paused,
    /// It is over: all is done.
    Completed,
    /// It is over: too many messages died again.
    Stopped,
    /// It is over: somebody cancelled it.
    Cancelled,
    /// It is over: it cannot go on.
    Failed,
}

impl RedriveState {
    /// All states, in the order of a job's life.
    pub const ALL: [Self; 7] = [
        Self::Running,
        Self::Waiting,
        Self::Paused,
        Self::Completed,
        Self::Stopped,
        Self::Cancelled,
        Self::Failed,
    ];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::Stopped => "stopped",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }

    /// The state that a word names, if any.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// Whether the job is over.
    pub const fn is_over(self) -> bool {
        matches!(
            self,
            Self::Completed | Self::Stopped | Self::Cancelled | Self::Failed
        )
    }
}

/// Why a redrive is in its state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RedriveCause {
    /// The broker just started, and the job is about to go on.
    Starting,
    /// A target has no room.
    TargetFull,
    /// The memory or disk alarm stands.
    Alarm,
    /// Somebody paused it.
    Asked,
    /// The user who made it does not exist any more, or may not enter the vhost.
    UserGone,
    /// The user who made it may not read the source any more.
    NotAllowed,
    /// As many were moved as were asked for.
    Max,
    /// Too many of the moved messages died again.
    DiedAgain,
    /// The source queue was deleted.
    SourceGone,
}

impl RedriveCause {
    /// All causes, in the order of declaration.
    pub const ALL: [Self; 9] = [
        Self::Starting,
        Self::TargetFull,
        Self::Alarm,
        Self::Asked,
        Self::UserGone,
        Self::NotAllowed,
        Self::Max,
        Self::DiedAgain,
        Self::SourceGone,
    ];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::TargetFull => "target_full",
            Self::Alarm => "alarm",
            Self::Asked => "asked",
            Self::UserGone => "user_gone",
            Self::NotAllowed => "not_allowed",
            Self::Max => "max",
            Self::DiedAgain => "died_again",
            Self::SourceGone => "source_gone",
        }
    }

    /// The cause that a word names, if any.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.as_str() == word)
    }
}

/// What a redrive did with the messages of its source. Each is counted once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RedriveCounts {
    /// Messages that were meant when it began; none: they were too many to be counted before.
    pub matched: Option<u64>,
    /// Messages that were moved, or discarded.
    pub moved: u64,
    /// Messages that were passed since a consumer held them, or they waited for a target of their
    /// own.
    pub skipped_held: u64,
    /// Messages that no queue takes.
    pub skipped_no_target: u64,
    /// Messages that the user may not send to their target.
    pub skipped_not_allowed: u64,
    /// Messages that left the source before they were looked at.
    pub skipped_changed: u64,
}

impl RedriveCounts {
    /// Messages that were looked at.
    pub const fn passed(&self) -> u64 {
        self.moved
            + self.skipped_held
            + self.skipped_no_target
            + self.skipped_not_allowed
            + self.skipped_changed
    }

    /// Counts those as meant that came, or came to be meant, after it was counted how many are.
    pub fn raise_matched(&mut self) {
        let passed = self.passed();
        self.matched = self.matched.map(|matched| matched.max(passed));
    }

    /// Messages that were not looked at yet, or never; none: not known.
    pub fn left(&self) -> Option<u64> {
        let passed = self.passed();
        self.matched.map(|matched| matched.saturating_sub(passed))
    }
}

/// What became of moved messages, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RedriveOutcome {
    /// Messages that a consumer accepted.
    pub accepted: u64,
    /// Messages that died before that.
    pub died_again: u64,
    /// Messages that were removed otherwise: purged, discarded, moved by another job.
    pub gone: u64,
}

impl RedriveOutcome {
    /// Messages of which it is known what became of them.
    pub const fn settled(&self) -> u64 {
        self.accepted + self.died_again + self.gone
    }

    /// What is known after both: each number only rises.
    pub(super) fn max(self, other: Self) -> Self {
        Self {
            accepted: self.accepted.max(other.accepted),
            died_again: self.died_again.max(other.died_again),
            gone: self.gone.max(other.gone),
        }
    }
}

/// What may become of a moved message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Learned {
    /// A consumer accepted it.
    Accepted,
    /// It died before a consumer accepted it.
    DiedAgain,
    /// It was removed otherwise.
    Gone,
}

/// A queue that a redrive moved messages to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RedrivenTo {
    /// The queue's name.
    pub queue: Name,
    /// Messages that entered it.
    pub moved: u64,
    /// Of these, those of which it is learned what becomes of them: of a message that enters several
    /// queues the first copy.
    pub followed: u64,
    /// Of these, those of which it is known.
    pub settled: u64,
}

/// A redrive, as the journal keeps it and as it is shown.
#[derive(Clone, PartialEq, Debug)]
pub struct RedriveJob {
    /// Its number in the vhost, never used again.
    pub number: u64,
    /// Its id, chosen by whoever made it.
    pub id: Name,
    /// The user that made it.
    pub by: Name,
    /// What was asked for.
    pub spec: RedriveSpec,
    /// The source queue: another one of the same name is not touched.
    pub source: QueueId,
    /// The positions behind the last messages that there were when it began, one for each priority.
    pub ends: Vec<Position>,
    /// The position at which it goes on.
    pub cursor: Position,
    /// The state that it is in.
    pub state: RedriveState,
    /// Why it is in that state; none: it runs, or all is done.
    pub cause: Option<RedriveCause>,
    /// Wall-clock time at which it was made.
    pub created_at: Timestamp,
    /// Wall-clock time at which it ended; none: it goes on.
    pub ended_at: Option<Timestamp>,
    /// What was done.
    pub counts: RedriveCounts,
    /// What became of it.
    pub outcome: RedriveOutcome,
    /// The queues that messages went to, in the order of their first.
    pub targets: Vec<RedrivenTo>,
    /// The size of the batch that it is in; 0: it has no batches.
    pub batch: u64,
    /// Messages of that batch that are still to be moved.
    pub batch_left: u64,
}

impl RedriveSpec {
    /// A redrive of all messages of a queue, each to the queue in which it failed last, with the
    /// defaults of the API.
    pub const fn to_origin(queue: Name) -> Self {
        Self {
            queue,
            filter: None,
            target: RedriveTarget::Origin,
            rate_milli: None,
            max: None,
            ramp: None,
            stop: Some(RedriveStop::DEFAULT),
            note: None,
            is_unsafe: false,
        }
    }

    /// Whether a message of the source is meant, by whoever has these rights.
    pub fn judge(&self, candidate: &Candidate<'_>, rights: Option<&RedriveRights>) -> Judged {
        let Some(filter) = &self.filter else {
            return Judged {
                verdict: Verdict::Matches,
                spent_ns: 0,
            };
        };
        let mut judged = filter.judge(candidate);
        if let Some(by_token) = rights.and_then(|rights| rights.users_by_token)
            && !filter.fits_login(candidate, by_token)
        {
            judged.verdict = Verdict::Differs;
        }
        judged
    }
}

impl RedrivenTo {
    /// In place of a name: all queues for which there is no room in the list.
    pub const REST: &'static str = "";

    /// Whether it stands for all queues for which there is no room in the list.
    pub fn is_rest(&self) -> bool {
        self.queue == Self::REST
    }
}

impl RedriveJob {
    /// Moved messages of which it is not known what became of them.
    pub fn outstanding(&self) -> u64 {
        let followed: u64 = self.targets.iter().map(|to| to.followed).sum();
        followed.saturating_sub(self.outcome.settled())
    }

    /// The same of those in one queue; none: none.
    pub fn outstanding_in(&self, queue: &Name) -> Option<u64> {
        let to = self.targets.iter().find(|to| to.queue == *queue)?;
        let left = to.followed.saturating_sub(to.settled);
        (left > 0).then_some(left)
    }

    /// How far it came, for the journal.
    pub fn progress(&self) -> RedriveProgress {
        RedriveProgress {
            job: self.number,
            cursor: self.cursor,
            counts: self.counts,
            targets: self.targets.clone(),
            batch: self.batch,
            batch_left: self.batch_left,
        }
    }
}

/// How far a redrive came, in absolute numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RedriveProgress {
    /// The job's number.
    pub job: u64,
    /// The position at which it goes on.
    pub cursor: Position,
    /// What was done.
    pub counts: RedriveCounts,
    /// The queues that messages went to.
    pub targets: Vec<RedrivenTo>,
    /// The size of the batch that it is in.
    pub batch: u64,
    /// Messages of that batch that are still to be moved.
    pub batch_left: u64,
}

/// A change of a redrive that the journal keeps.
#[derive(Clone, PartialEq, Debug)]
pub enum RedriveFact {
    /// A job was made, paused or resumed: it is this one from now on.
    Set(Box<RedriveJob>),
    /// Messages were moved or passed.
    Moved(Box<RedriveProgress>),
    /// It is known what became of moved messages.
    Learned {
        /// The job's number.
        job: u64,
        /// The target that the last of them was in, and how many of those in it are settled.
        settled: (Name, u64),
        /// The absolute numbers.
        outcome: RedriveOutcome,
    },
    /// A job is over.
    Ended {
        /// The job's number.
        job: u64,
        /// Its last state.
        state: RedriveState,
        /// Why it ended; none: all is done.
        cause: Option<RedriveCause>,
        /// Wall-clock time of its end.
        at: Timestamp,
    },
    /// A job that is over was forgotten.
    Forgotten {
        /// The job's number.
        job: u64,
    },
    /// Numbers below `next` were assigned to jobs; in a checkpoint.
    Numbers {
        /// The number of the next job.
        next: u64,
    },
}

/// A request about redrives.
#[derive(Debug)]
pub enum RedriveCommand {
    /// Makes a job. Reply: `RedriveSet`.
    Start(Box<NewRedrive>),
    /// Pauses, resumes, cancels or forgets a job. Reply: `Done`.
    Steer {
        /// The job's id.
        id: Name,
        /// What is to be done with it.
        steering: Steering,
    },
    /// Tells what a user may do now, since permissions were changed or the broker started.
    Rights {
        /// The user's name; empty: the program that embeds the broker.
        user: Name,
        /// Its permissions; none: it may not enter the vhost, or does not exist.
        rights: Option<RedriveRights>,
    },
}

/// What can be done with a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Steering {
    /// It moves nothing until it is resumed.
    Pause,
    /// It goes on.
    Resume,
    /// It ends; what is moved stays moved.
    Cancel,
    /// One that is over is forgotten.
    Forget,
}

/// A job to be made.
#[derive(Debug)]
pub struct NewRedrive {
    /// The id that was chosen for it.
    pub id: Name,
    /// The user that makes it.
    pub by: Name,
    /// What it is to do.
    pub spec: RedriveSpec,
    /// Messages that its filter matches, if they were counted before.
    pub matched: Option<u64>,
    /// What that user may do.
    pub rights: RedriveRights,
}

/// What the user of a job may do in the vhost, as it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RedriveRights {
    /// Permissions on queues and exchanges.
    pub permissions: Arc<Permissions>,
    /// Permissions on routing keys; none: all keys are permitted.
    pub topics: Option<Topics>,
    /// Which deaths a filter means that names users: those by bearers of tokens only (true), or by users of the
    /// registry only; none: both, for monitors. Others may ask for their own name only, and mean themselves.
    pub users_by_token: Option<bool>,
}

impl RedriveRights {
    /// The rights of the program that embeds the broker: all there are.
    pub fn all() -> Option<Self> {
        let permissions = Permissions::all().ok()?; // its patterns compile
        Some(Self {
            permissions: Arc::new(permissions),
            topics: None,
            users_by_token: None,
        })
    }

    /// Whether a queue may be read.
    pub fn may_read(&self, queue: &str) -> bool {
        self.permissions.allow(Right::Read, queue)
    }

    /// Whether an exchange may be published to; "" is the default exchange.
    pub fn may_write(&self, exchange: &str) -> bool {
        self.permissions.allow(Right::Write, exchange)
    }

    /// Whether these routing keys may be used on a topic exchange.
    pub fn may_use(&self, exchange: &str, keys: &[Name]) -> bool {
        let topic = self.topics.as_ref().and_then(|it| it.get(exchange));
        topic.is_none_or(|topic| topic.first_forbidden(keys).is_none())
    }

    /// Estimated cost of asking, in nanoseconds.
    pub fn write_ns(&self, exchange: &str, keys: &[Name]) -> u64 {
        let topic = self.topics.as_ref().and_then(|it| it.get(exchange));
        let topic = topic.as_ref();
        let key_ns = |key: &Name| topic.map_or(0, |topic| topic.write.match_ns(key));
        let keys_ns: u64 = keys.iter().map(key_ns).sum();
        let look_ns = self.topics.as_ref().map_or(0, Topics::get_ns);
        self.permissions.allow_ns(Right::Write, exchange) + look_ns + keys_ns
    }
}

/// Where one message would go. [evidence part 6]
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RedriveWay {
    /// To these queues.
    To(Vec<QueueId>),
    /// It would be dropped, and counted.
    Discarded,
    /// No queue takes it.
    NoTarget,
    /// It would go to where it is.
    SameQueue,
    /// The user may not send it there, or it would lose its safety.
    NotAllowed,
}
