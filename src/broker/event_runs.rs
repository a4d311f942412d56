//! Events in runs: what several messages share that died alike is kept once. [evidence part 10]
//!
//! ```text
//!   runs   [ numbers from 7 on, queue, kind, history: 3 ] [ from 10 on, ...: 1 ] ...
//!   items  [ position, age, size ] [ ... ] [ ... ]        [ ... ]                ...
//! ```
//!
//! A consumer that rejects a batch, or a queue whose head expires, makes runs: an event then costs what one
//! message has of its own, and no count of references.

use std::sync::Arc;

use smallvec::SmallVec;

use super::death_counts::DeathOutcome;
use super::event::{EventKind, EventMessage, EventTargets, Unwritten, VhostEvent};
use crate::base::limits::{EVENT_HEAD_BYTES_MAX, EVENT_TARGETS_MAX};
use crate::base::{Name, Position, QueueId, Timestamp};
use crate::deaths::{History, Reason};
use crate::message::Message;

/// What the events of one run share: they have numbers in a row and happened within one millisecond.
#[derive(Clone, Debug)]
pub struct EventRun {
    /// The number of its first event.
    pub first: u64,
    /// Number of its events.
    pub count: usize,
    time: Timestamp,
    queue: Name,
    kind: EventKind,
    /// Whether its events are of a message each.
    has_message: bool,
    history: Option<Arc<History>>,
    unwritten: Option<Unwritten>,
}

/// What an event has of its own.
#[derive(Clone, Debug, Default)]
pub struct EventItem {
    position: Position,
    age_ms: u64,
    size_bytes: u32,
    /// The message, later only what is in front of its body; none if there is nothing, or too much.
    message: Option<Arc<Message>>,
}

/// An event without its number.
#[derive(Debug)]
pub enum EventDraft {
    /// The next of the run with this index.
    Next(usize, EventItem),
    /// The first of a run.
    First(Box<FirstOfRun>, EventItem),
}

/// A run that begins.
#[derive(Debug)]
pub struct FirstOfRun {
    run: EventRun,
    /// What the next death is compared with; none: by its names.
    death: Option<DeathKey>,
}

/// The queues that took a dead letter: the first [`EVENT_TARGETS_MAX`] by id.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TargetIds {
    /// Ids of the first of them.
    pub first: SmallVec<[QueueId; 2]>,
    /// Number of all.
    pub count: u32,
}

/// A death that was told, with ids in place of names: deaths that come one after the other are compared
/// by it, without a look at a queue or a count of references.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeathKey {
    /// The queue that it happened in.
    pub source: QueueId,
    /// Why the message died.
    pub reason: Reason,
    /// What became of the dead letter; none: it waits.
    pub outcome: Option<DeathOutcome>,
    /// The queues that took it.
    pub targets: TargetIds,
}

/// Events in the order of their numbers.
#[derive(Debug, Default)]
pub struct EventRuns {
    runs: Vec<EventRun>,
    items: Vec<EventItem>,
    /// The death that the last run tells of, if it is known by ids.
    last_death: Option<DeathKey>,
}

/// Estimated memory of what a run points to besides its history: an allocation for a kind that is rare.
const RUN_BYTES: usize = size_of::<EventRun>() + 32;
/// Estimated memory of the allocation of a message, in bytes.
const MESSAGE_BYTES: usize = 160;

impl EventItem {
    /// What an event has of a message of this age.
    #[inline]
    pub const fn new(position: Position, age_ms: u64, size_bytes: u32) -> Self {
        Self {
            position,
            age_ms,
            size_bytes,
            message: None,
        }
    }

    /// The same with what is in front of the body of this message, unless it is nothing or too much.
    #[inline]
    #[must_use]
    pub fn with(mut self, message: Arc<Message>) -> Self {
        self.message = Some(message).filter(|message| message.has_head(EVENT_HEAD_BYTES_MAX));
        self
    }

    /// Lets go of the body of its message, and keeps what is in front of it.
    #[inline]
    #[must_use]
    pub fn keep(mut self) -> Self {
        if let Some(message) = self.message.take() {
            self.message = message.head(EVENT_HEAD_BYTES_MAX).map(Arc::new);
        }
        self
    }

    /// Whether the message was at this position.
    pub fn is_at(&self, position: Position) -> bool {
        self.position == position
    }

    /// Estimated memory of a kept item, in bytes.
    #[inline]
    pub fn kept_bytes(&self) -> usize {
        let head = self.message.as_ref().map_or(0, |message| {
            MESSAGE_BYTES + message.head_bytes() + message.annotation_bytes()
        });
        size_of::<Self>() + head
    }
}

impl EventRun {
    /// The number behind that of its last event.
    #[inline]
    pub fn end(&self) -> u64 {
        self.first + self.count as u64
    }

    /// The queue that its events happened in, if they are of a message each.
    pub fn queue_of_messages(&self) -> Option<&Name> {
        self.has_message.then_some(&self.queue)
    }

    /// Estimated memory of it, in bytes. A history that it shares with `before` counts there.
    pub fn kept_bytes(&self, before: Option<&Self>) -> usize {
        let mut bytes = RUN_BYTES;
        if let Some(targets) = self.kind.targets() {
            bytes += targets.names.len().saturating_sub(1) * size_of::<Name>();
        }
        let shared = before.and_then(|before| before.history.as_ref());
        if let Some(history) = &self.history
            && !shared.is_some_and(|shared| Arc::ptr_eq(shared, history))
        {
            bytes += history.about_bytes();
        }
        if let Some(unwritten) = &self.unwritten {
            bytes += unwritten.evidence.as_ref().map_or(0, |it| it.bytes());
        }
        bytes
    }

    /// The event with this number, of which `item` is the rest.
    pub fn event(&self, number: u64, item: &EventItem) -> VhostEvent {
        let message = self.has_message.then(|| EventMessage {
            position: item.position,
            age_ms: item.age_ms,
            size_bytes: item.size_bytes,
            message: item.message.clone(),
            history: self.history.clone(),
            unwritten: self.unwritten.clone(),
        });
        VhostEvent {
            number,
            time: self.time,
            queue: self.queue.clone(),
            kind: self.kind.clone(),
            message,
        }
    }

    /// Whether an event with this history can be the next of it, compared by allocation.
    #[inline]
    fn is_alike(
        &self,
        (time, queue): (Timestamp, &Name),
        kind: &EventKind,
        (history, unwritten): (Option<&Arc<History>>, Option<&Unwritten>),
    ) -> bool {
        self.time == time
            && self.has_message
            && self.queue.same(queue)
            && is_alike(&self.kind, kind)
            && match (&self.history, history) {
                (Some(one), Some(other)) => Arc::ptr_eq(one, other),
                (one, other) => one.is_none() && other.is_none(),
            }
            && match (&self.unwritten, unwritten) {
                (Some(one), Some(other)) => one.is_same(other),
                (one, other) => one.is_none() && other.is_none(),
            }
    }
}

/// Whether two kinds say the same of one message each; false for those that are rare.
#[inline]
fn is_alike(one: &EventKind, other: &EventKind) -> bool {
    match (one, other) {
        (
            EventKind::Death {
                reason,
                outcome,
                targets,
            },
            EventKind::Death {
                reason: other_reason,
                outcome: other_outcome,
                targets: other_targets,
            },
        ) => reason == other_reason && outcome == other_outcome && targets.is_same(other_targets),
        (
            EventKind::DeadLettered { reason, targets },
            EventKind::DeadLettered {
                reason: other_reason,
                targets: other_targets,
            },
        ) => reason == other_reason && targets.is_same(other_targets),
        (
            EventKind::Quarantined { reason, cause },
            EventKind::Quarantined {
                reason: other_reason,
                cause: other_cause,
            },
        ) => reason == other_reason && cause == other_cause,
        (
            EventKind::Redriven { job, by, targets },
            EventKind::Redriven {
                job: other_job,
                by: other_by,
                targets: other_targets,
            },
        ) => job.same(other_job) && by.same(other_by) && targets.is_same(other_targets),
        _ => false, // a run of its own tells as much
    }
}

impl EventTargets {
    #[inline]
    fn is_same(&self, other: &Self) -> bool {
        let mut both = self.names.iter().zip(&other.names);
        self.count == other.count
            && self.names.len() == other.names.len()
            && both.all(|(one, other)| one.same(other))
    }
}

impl Unwritten {
    fn is_same(&self, other: &Self) -> bool {
        let is_same_evidence = match (&self.evidence, &other.evidence) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        Arc::ptr_eq(&self.route, &other.route) && is_same_evidence
    }
}

impl TargetIds {
    /// Adds a queue.
    #[inline]
    pub fn add(&mut self, id: QueueId) {
        self.count = self.count.saturating_add(1);
        if self.first.len() < EVENT_TARGETS_MAX {
            self.first.push(id);
        }
    }
}

impl EventDraft {
    /// The same draft; deaths that come next are compared with this key.
    #[must_use]
    pub fn of_death(mut self, key: DeathKey) -> Self {
        if let Self::First(first, _) = &mut self {
            first.death = Some(key);
        }
        self
    }

    /// An event of a queue and of a message in it, if it is of one.
    pub fn new(
        runs: &EventRuns,
        (time, queue): (Timestamp, Name),
        kind: EventKind,
        message: Option<EventMessage>,
    ) -> Self {
        let Some(about) = message else {
            let run = EventRun {
                first: 0,
                count: 0,
                time,
                queue,
                kind,
                has_message: false,
                history: None,
                unwritten: None,
            };
            return Self::First(
                Box::new(FirstOfRun { run, death: None }),
                EventItem::default(),
            );
        };
        let written = about.message.as_ref().and_then(|message| message.history());
        let history = written.or(about.history.as_ref());
        let message = about.message.as_ref();
        let item = EventItem {
            position: about.position,
            age_ms: about.age_ms,
            size_bytes: about.size_bytes,
            message: message
                .filter(|it| it.has_head(EVENT_HEAD_BYTES_MAX))
                .cloned(),
        };
        runs.draft((time, &queue), kind, (history, about.unwritten), item)
    }
}

impl EventRuns {
    /// An event without its number.
    #[inline]
    pub fn draft(
        &self,
        (time, queue): (Timestamp, &Name),
        kind: EventKind,
        (history, unwritten): (Option<&Arc<History>>, Option<Unwritten>),
        item: EventItem,
    ) -> EventDraft {
        if let Some(last) = self.runs.last()
            && last.is_alike((time, queue), &kind, (history, unwritten.as_ref()))
        {
            return EventDraft::Next(self.runs.len() - 1, item);
        }
        let run = EventRun {
            first: 0,
            count: 0,
            time,
            queue: queue.clone(),
            kind,
            has_message: true,
            history: history.cloned(),
            unwritten,
        };
        EventDraft::First(Box::new(FirstOfRun { run, death: None }), item)
    }

    /// Whether a death in this queue, for this reason and with this outcome, tells the same as the last event.
    #[inline]
    pub fn is_next_death(
        &self,
        (source, reason, outcome): (QueueId, Reason, Option<DeathOutcome>),
        targets: &TargetIds,
        (time, history): (Timestamp, Option<&Arc<History>>),
    ) -> bool {
        let (Some(run), Some(last)) = (self.runs.last(), &self.last_death) else {
            return false;
        };
        run.time == time
            && run.history.as_ref().map(Arc::as_ptr) == history.map(Arc::as_ptr)
            && last.source == source
            && last.reason == reason
            && last.outcome == outcome
            && last.targets == *targets
    }

    /// Adds an event that tells the same as the last one, with its number.
    #[inline]
    pub fn push_next(&mut self, number: u64, item: EventItem) {
        match self.runs.last_mut() {
            Some(run) if run.end() == number => {
                run.count += 1;
                self.items.push(item);
            }
            // Another vhost has the numbers between them.
            Some(_) => self.push(number, EventDraft::Next(self.runs.len() - 1, item)),
            None => {}
        }
    }

    /// The event of a draft, without its number and without a body.
    #[cold]
    pub fn event_of(&self, draft: &EventDraft) -> Option<VhostEvent> {
        let (run, item) = match draft {
            EventDraft::Next(index, item) => (self.runs.get(*index)?, item),
            EventDraft::First(first, item) => (&first.run, item),
        };
        Some(run.event(0, &item.clone().keep()))
    }

    /// Adds an event, with its number.
    #[inline]
    pub fn push(&mut self, number: u64, draft: EventDraft) {
        let (mut run, item) = match draft {
            EventDraft::Next(index, item) => {
                let is_last = index + 1 == self.runs.len();
                match self.runs.get_mut(index) {
                    Some(run) if is_last && run.end() == number => {
                        run.count += 1;
                        self.items.push(item);
                        return;
                    }
                    // Others came between them, of this vhost or of another.
                    Some(run) => {
                        let run = run.clone();
                        if !is_last {
                            self.last_death = None;
                        }
                        (run, item)
                    }
                    None => return, // a draft is of these runs
                }
            }
            EventDraft::First(first, item) => {
                self.last_death = first.death;
                (first.run, item)
            }
        };
        run.first = number;
        run.count = 1;
        self.runs.push(run);
        self.items.push(item);
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Adds those of `other`, which is empty afterwards and keeps its memory.
    pub fn append(&mut self, other: &mut Self) {
        if self.is_empty() {
            std::mem::swap(self, other);
        } else {
            self.runs.append(&mut other.runs);
            self.items.append(&mut other.items);
            self.last_death = other.last_death.take();
        }
    }

    /// Removes all events.
    pub fn clear(&mut self) {
        self.runs.clear();
        self.items.clear();
    }

    /// Number of events for which there is memory.
    pub const fn capacity(&self) -> usize {
        self.items.capacity()
    }

    /// Takes all events out, and keeps the memory: the runs, and the items of all of them.
    pub fn drain(
        &mut self,
    ) -> (
        impl Iterator<Item = EventRun>,
        impl Iterator<Item = EventItem>,
    ) {
        (self.runs.drain(..), self.items.drain(..))
    }

    /// Takes all events out as they will be kept.
    pub fn take(&mut self) -> Vec<VhostEvent> {
        let (runs, mut items) = self.drain();
        let mut events = Vec::new();
        for run in runs {
            let numbered = (run.first..run.end()).zip(items.by_ref());
            events.extend(numbered.map(|(number, item)| run.event(number, &item.keep())));
        }
        events
    }
}
