//! What the vhost tells of deaths, drops, redrives and consumers when it happens. [evidence part 10]

use std::sync::Arc;

use super::death::Letter;
use super::event_messages::{EventMessages, is_of_event};
use super::{Core, CoreOptions, Turn};
use crate::base::limits::EVENT_NUMBERS_RESERVED;
use crate::base::{Name, Now, Position, QueueId};
use crate::broker::Fact;
use crate::broker::death_counts::DeathOutcome;
use crate::broker::event::{
    EventKind, EventMessage, EventNumbers, EventTargets, Unwritten, VhostEvent,
};
use crate::broker::event_runs::{DeathKey, EventDraft, EventItem, TargetIds};
use crate::broker::memo::MemoFact;
use crate::broker::queue::MessageState;

/// Gives events their numbers.
#[derive(Debug)]
pub(super) struct EventCounter {
    numbers: EventNumbers,
    /// The journal knows that all numbers below this one may be in use.
    below: u64,
    /// How they come as messages, if they do.
    pub(super) messages: Option<Box<EventMessages>>,
}

impl EventCounter {
    pub(super) fn new(options: &CoreOptions) -> Self {
        let write = options.event_writer;
        Self {
            numbers: options.events.clone(),
            below: 0,
            messages: write.map(|write| Box::new(EventMessages::new(options.seed, write))),
        }
    }

    /// What tells this start of the broker from all others.
    pub(super) const fn origin(&self) -> u64 {
        self.numbers.origin()
    }

    /// The reserved numbers as a fact of a checkpoint.
    pub(super) fn facts(&self) -> impl Iterator<Item = Fact> {
        let below = self.below;
        (below > 0)
            .then_some(Fact::Memo(MemoFact::EventNumbers { below }))
            .into_iter()
    }

    /// Takes note of numbers that the journal says are in use.
    pub(super) fn restore(&mut self, below: u64) {
        self.below = self.below.max(below);
        self.numbers.raise(self.below);
    }
}

impl Core {
    /// Numbers of events from this one on are not known to the journal; 0: there was no event yet.
    pub const fn event_numbers_below(&self) -> u64 {
        self.events.below
    }

    /// Has events numbered beside those of other vhosts.
    pub fn number_events_by(&mut self, numbers: EventNumbers) {
        self.events.numbers = numbers;
    }

    /// Tells that something happened in a queue.
    pub(super) fn tell(
        &mut self,
        turn: &mut Turn<'_>,
        queue: Name,
        kind: EventKind,
        message: Option<EventMessage>,
    ) {
        let draft = EventDraft::new(&turn.effects.events, (turn.now.wall, queue), kind, message);
        self.tell_draft(turn, draft);
    }

    /// Gives an event its number, and tells it.
    pub(super) fn tell_draft(&mut self, turn: &mut Turn<'_>, draft: EventDraft) {
        let as_message = self.events.messages.is_some();
        let event = if as_message {
            turn.effects.events.event_of(&draft)
        } else {
            None
        };
        if event.as_ref().is_some_and(is_of_event) {
            return; // or it would make another one, and that the next
        }
        let number = self.next_event_number();
        if let Some(event) = event {
            self.publish_event(turn, &VhostEvent { number, ..event });
        }
        turn.effects.events.push(number, draft);
    }

    /// The number of an event that is told now.
    #[inline]
    fn next_event_number(&mut self) -> u64 {
        let number = self.events.numbers.take();
        if number >= self.events.below {
            // In the record of this event: a restart goes on behind it.
            let below = number + EVENT_NUMBERS_RESERVED;
            self.events.below = below;
            self.recorder
                .push(Fact::Memo(MemoFact::EventNumbers { below }));
        }
        number
    }

    /// Tells of a dead letter that has left its queue, or of one that its targets took.
    #[inline]
    pub(super) fn tell_sent(
        &mut self,
        turn: &mut Turn<'_>,
        letter: Letter,
        outcome: Option<DeathOutcome>,
        targets: TargetIds,
    ) {
        let death = (letter.source, letter.reason, outcome);
        let what = (turn.now.wall, letter.message.history());
        if letter.waited.is_none()
            && self.events.messages.is_none()
            && turn.effects.events.is_next_death(death, &targets, what)
        {
            // As a rule: it tells the same as the one before, so no draft is made.
            let number = self.next_event_number();
            let item = item_of(turn.now, &letter).with(letter.message);
            turn.effects.events.push_next(number, item);
        } else if let Some(draft) = self.draft_of_sent(turn, &letter, outcome, targets) {
            self.tell_draft(turn, draft);
        }
    }

    /// An event of a dead letter that was offered to its targets; none: nothing says where it died.
    pub(super) fn draft_of_sent(
        &self,
        turn: &Turn<'_>,
        letter: &Letter,
        outcome: Option<DeathOutcome>,
        targets: TargetIds,
    ) -> Option<EventDraft> {
        let item = item_of(turn.now, letter).with(Arc::clone(&letter.message));
        let (source, reason) = (letter.source, letter.reason);
        let names = self.names_of(&targets);
        if letter.waited.is_some() {
            let kind = EventKind::DeadLettered {
                reason,
                targets: names,
            };
            return self.draft_of(turn, letter, kind, item);
        }
        let kind = EventKind::Death {
            reason,
            outcome,
            targets: names,
        };
        let key = DeathKey {
            source,
            reason,
            outcome,
            targets,
        };
        let draft = self.draft_of(turn, letter, kind, item)?;
        Some(draft.of_death(key))
    }

    /// The names of queues that took a dead letter just now.
    fn names_of(&self, ids: &TargetIds) -> EventTargets {
        let queues = ids.first.iter().filter_map(|id| self.queues.get(id));
        EventTargets {
            names: queues.map(|queue| queue.name.clone()).collect(),
            count: ids.count,
        }
    }

    /// An event of a dead letter; none: nothing says where it died.
    fn draft_of(
        &self,
        turn: &Turn<'_>,
        letter: &Letter,
        kind: EventKind,
        item: EventItem,
    ) -> Option<EventDraft> {
        let history = letter.message.history();
        let queue = self.name_of_source(letter)?;
        let what = (history, None);
        Some(
            turn.effects
                .events
                .draft((turn.now.wall, queue), kind, what, item),
        )
    }

    /// The same of a dead letter.
    pub(super) fn tell_of(&mut self, turn: &mut Turn<'_>, letter: &Letter, kind: EventKind) {
        let item = item_of(turn.now, letter).with(Arc::clone(&letter.message));
        if let Some(draft) = self.draft_of(turn, letter, kind, item) {
            self.tell_draft(turn, draft);
        }
    }

    /// The name of the queue that a dead letter died in. One that was its own target, and expired when it
    /// was asked for room, is in the history.
    fn name_of_source<'a>(&'a self, letter: &'a Letter) -> Option<&'a Name> {
        if let Some(queue) = self.queues.get(&letter.source) {
            return Some(&queue.name);
        }
        let latest = letter.message.history()?.entries().first()?;
        Some(&latest.queue)
    }

    /// A message in its queue as an event has it. Of one on disk only the size is known.
    pub(super) fn seen(
        &self,
        now: Now,
        (id, position): (QueueId, Position),
        state: MessageState,
    ) -> Option<(Name, EventMessage)> {
        let queue = self.queues.get(&id)?;
        let about = if let Some(slot) = queue.messages.slot_if(position, state) {
            EventMessage {
                position,
                age_ms: now.mono.since(slot.arrived),
                size_bytes: slot.size_bytes,
                message: Some(slot.message.clone()),
                history: None,
                unwritten: Some(Unwritten {
                    route: slot.route.clone(),
                    evidence: None,
                }),
            }
        } else {
            let disk_ref = queue.messages.disk_ref(position)?;
            EventMessage {
                position,
                age_ms: now.mono.since(disk_ref.arrived),
                size_bytes: disk_ref.size_bytes,
                message: None,
                history: None,
                unwritten: None,
            }
        };
        Some((queue.name.clone(), about))
    }
}

/// What an event has of a dead letter alone, but for its message.
#[inline]
fn item_of(now: Now, letter: &Letter) -> EventItem {
    let age_ms = now.mono.since(letter.arrived);
    let size_bytes = super::admission::size_bytes(&letter.message);
    EventItem::new(letter.position, age_ms, size_bytes)
}
