//! Deaths are counted, and the journal is told their numbers: those of messages that it knows in the record
//! of each death, all others within a second and when the broker stops. [evidence part 12]

use super::{Core, Turn};
use crate::base::limits::CONDITIONS_OF_VHOST_MAX;
use crate::base::{Millis, Name, Now, Position, QueueId, invariant, uncount};
use crate::broker::Fact;
use crate::broker::counters::Counters;
use crate::broker::death_counts::{ConditionPlace, DeathOutcome, VhostDeaths};
use crate::broker::queue::Queue;
use crate::deaths::{Evidence, Reason};

/// What is not in the record of a death is written at most so much later, in milliseconds.
const WRITE_EVERY_MS: u64 = 1_000;
/// Queues whose numbers are written in one tick; the next one goes on. A queue may have some 40 numbers.
const WRITE_MAX: usize = 16;

/// What a death counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted<'a> {
    pub(super) reason: Reason,
    /// When the message came into its queue.
    pub(super) arrived: Millis,
    /// What the consumer gave.
    pub(super) condition: Option<&'a Name>,
    /// The journal knows the message.
    pub(super) durable: bool,
}

impl<'a> Counted<'a> {
    pub(super) fn new(
        arrived: Millis,
        durable: bool,
        (reason, evidence): (Reason, Option<&'a Evidence>),
    ) -> Self {
        Self {
            reason,
            arrived,
            condition: evidence.and_then(|it| it.condition.as_ref()),
            durable,
        }
    }
}

/// Numbers of deaths beside those of the queues, and which the journal does not have yet.
#[derive(Debug)]
pub(super) struct DeathLedger {
    pub(super) vhost: VhostDeaths,
    /// Conditions that queues tell apart, together.
    conditions: usize,
    /// The condition of the death that is being recorded.
    condition: Option<(QueueId, ConditionPlace)>,
    /// Queues with numbers that the journal does not have.
    unwritten: Vec<QueueId>,
    /// When to write them.
    write_at: Millis,
    /// There is a journal.
    is_kept: bool,
}

impl DeathLedger {
    pub(super) const fn new(is_kept: bool) -> Self {
        Self {
            vhost: VhostDeaths::NONE,
            conditions: 0,
            condition: None,
            unwritten: Vec::new(),
            write_at: Millis::NEVER,
            is_kept,
        }
    }

    /// Counts a death in its queue and in the vhost.
    #[inline]
    pub(super) fn count(
        &mut self,
        now: Now,
        counters: &mut Counters,
        queue: &mut Queue,
        death: Counted<'_>,
    ) {
        let reason = death.reason;
        queue.counters.dead.add(reason);
        counters.dead.add(reason);
        if !queue.durable {
            self.vhost.dead.add(reason);
        }
        if let Some(times) = self.vhost.times_mut(reason) {
            times.add(now.mono.since(death.arrived));
        }
        self.condition = death.condition.map(|condition| {
            counters.with_condition += 1;
            if !queue.durable {
                self.vhost.with_condition += 1;
            }
            let has_room = self.conditions < CONDITIONS_OF_VHOST_MAX;
            let (place, is_new) = queue.counters.conditions.add(condition, has_room);
            self.conditions += usize::from(is_new);
            (queue.id, place)
        });
        self.set_timer(now);
        if !death.durable {
            self.note_unwritten(now, queue);
        }
    }

    #[inline]
    const fn set_timer(&mut self, now: Now) {
        if self.write_at.0 == Millis::NEVER.0 && self.is_kept {
            self.write_at = now.mono.plus(WRITE_EVERY_MS);
        }
    }

    /// A number of a queue rose, and no record says so.
    pub(super) fn note_unwritten(&mut self, now: Now, queue: &mut Queue) {
        self.set_timer(now);
        if self.is_kept && queue.durable && !queue.has_unwritten_deaths {
            queue.has_unwritten_deaths = true;
            self.unwritten.push(queue.id);
        }
    }

    /// Whether something is to be written by itself, and when.
    pub(super) const fn due(&self) -> Millis {
        self.write_at
    }

    /// A queue is gone; whether the journal is to be told what it counted.
    pub(super) fn forget(&mut self, queue: &Queue) -> bool {
        let named = queue.counters.conditions.named().len();
        uncount!(
            self.conditions,
            named,
            "conditions of a queue were counted in the vhost"
        );
        if !queue.durable || queue.counters.dead.total() == 0 {
            return false;
        }
        self.vhost.absorb(&queue.counters);
        true
    }

    /// All was read from the journal: the vhost counts what its queues count, and what no queue does.
    pub(super) fn restored<'a>(
        &mut self,
        counters: &mut Counters,
        queues: impl Iterator<Item = &'a Queue>,
    ) {
        let mut all = self.vhost.clone();
        for queue in queues {
            all.absorb(&queue.counters);
            self.conditions += queue.counters.conditions.named().len();
        }
        counters.dead = all.dead;
        counters.dead_lettered = all.dead_lettered;
        counters.with_condition = all.with_condition;
        for (reason, outcome, count) in all.given_up {
            match outcome {
                DeathOutcome::Dropped(cause) => counters.drops.raise(Some(reason), cause, count),
                DeathOutcome::Quarantined(cause) => {
                    counters.quarantined.raise(Some(reason), cause, count);
                }
                DeathOutcome::DeadLettered => {}
            }
        }
    }
}

impl Core {
    /// Deaths beside those that queues count, and the times of all.
    pub const fn deaths(&self) -> &VhostDeaths {
        &self.deaths.vhost
    }

    /// The journal is told in this record how many deaths a queue counts after one of a message that it
    /// knows.
    pub(super) fn write_death(
        &mut self,
        id: QueueId,
        reason: Reason,
        outcome: Option<DeathOutcome>,
    ) {
        let condition = self.deaths.condition.take();
        let condition = condition.filter(|(queue, _)| *queue == id);
        let Some(queue) = self.queues.get(&id) else {
            return; // it was its own target, and expired when it was asked for room
        };
        let place = condition.map(|(_, place)| place);
        let count = queue.counters.death_count(reason, outcome, place);
        self.recorder.push_died(id, count);
    }

    /// The journal is told what became of a death: in this record, or later where it did not know the
    /// message.
    pub(super) fn write_outcome(
        &mut self,
        now: Now,
        id: QueueId,
        (reason, durable): (Reason, bool),
        outcome: DeathOutcome,
    ) {
        if durable {
            self.write_death(id, reason, Some(outcome));
        } else if let Some(queue) = self.queues.get_mut(&id) {
            self.deaths.note_unwritten(now, queue);
        }
    }

    /// Counts the death of a message that may be on disk.
    pub(super) fn count_on_disk(
        &mut self,
        now: Now,
        (id, position): (QueueId, Position),
        given: (Reason, Option<&Evidence>),
    ) {
        let Some(queue) = self.queues.get_mut(&id) else {
            return invariant!(broken, "the queue of a message that dies is there");
        };
        let Some(disk_ref) = queue.messages.disk_ref(position) else {
            return invariant!(broken, "a message that dies is in its queue");
        };
        let death = Counted::new(disk_ref.arrived, disk_ref.durable, given);
        self.deaths.count(now, &mut self.counters, queue, death);
    }

    /// A dead letter left for at least one queue.
    pub(super) fn count_dead_lettered(
        &mut self,
        now: Now,
        id: QueueId,
        (reason, durable): (Reason, bool),
    ) {
        self.counters.dead_lettered.add(reason);
        let Some(queue) = self.queues.get_mut(&id) else {
            self.deaths.vhost.dead_lettered.add(reason);
            return; // it was its own target, and expired when it was asked for room
        };
        queue.counters.dead_lettered.add(reason);
        if !queue.durable {
            self.deaths.vhost.dead_lettered.add(reason);
        }
        if !durable {
            self.deaths.note_unwritten(now, queue);
        }
    }

    /// Tells the journal what it does not know yet, if it is time.
    pub(super) fn write_due_deaths(&mut self, turn: &mut Turn<'_>) {
        if self.deaths.write_at > turn.now.mono {
            return;
        }
        self.write_some_deaths();
        if self.deaths.unwritten.is_empty() {
            self.deaths.write_at = Millis::NEVER;
        }
    }

    /// Tells the journal all that it does not know yet: the broker stops.
    pub(super) fn write_all_deaths(&mut self, turn: &mut Turn<'_>) {
        while self.deaths.write_at != Millis::NEVER {
            self.deaths.write_at = turn.now.mono;
            self.write_due_deaths(turn);
            self.recorder.finish(turn.now, turn.effects);
        }
    }

    fn write_some_deaths(&mut self) {
        let unwritten = &mut self.deaths.unwritten;
        let some = unwritten.split_off(unwritten.len().saturating_sub(WRITE_MAX));
        for id in some {
            let Some(queue) = self.queues.get_mut(&id) else {
                continue; // deleted meanwhile: what it counted was written then
            };
            queue.has_unwritten_deaths = false;
            for count in queue.counters.death_counts() {
                self.recorder.push_died(id, count);
            }
        }
        if self.deaths.unwritten.is_empty() {
            self.write_vhost_deaths();
        }
    }

    /// Numbers that no queue of the journal has.
    pub(super) fn write_vhost_deaths(&mut self) {
        let deaths = Box::new(self.deaths.vhost.clone());
        self.recorder.push(Fact::VhostDeaths(deaths));
    }
}
