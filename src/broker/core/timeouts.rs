//! Deliveries that consumers hold for too long go back to their queues. [evidence part 5, consumer
//! timeout]
//!
//! ```text
//!   acquired --> slot: since when
//!                  |
//!   Core::looks --due--> Work::TimeOut: what is held in one queue, in slices
//!                  |                      | too old: back to its place, Effect::TimedOut,
//!                  +<---- next due -------+ and its consumer is passed over until it settles
//! ```

use std::sync::Arc;

use super::failure::Failure;
use super::recovery::LateSettler;
use super::settle::Requeued;
use super::work::{SLICE, Work};
use super::{Core, CoreOptions, Turn};
use crate::base::limits::CONSUMER_LOOK_IDLE_MS;
use crate::base::{ConsumerId, Millis, Name, Now, Position, QueueId, invariant};
use crate::broker::arguments::QueueType;
use crate::broker::event::EventKind;
use crate::broker::policy::EffectiveSettings;
use crate::broker::queue::MessageState;
use crate::broker::recovery::Acquisition;
use crate::broker::{Effect, LogEvent};
use crate::deaths::{Evidence, How};

/// A look at what consumers of one queue hold.
#[derive(Debug)]
pub(super) struct Look {
    queue: QueueId,
    /// The next position to look at.
    from: Position,
    /// When it began: what was acquired later may be passed.
    began: Millis,
    /// When the first of what was seen will be due.
    next: Millis,
    /// Whether nothing was held so far.
    is_idle: bool,
    /// Steps that it took: deliveries looked at, and blocks passed.
    steps: u64,
}

/// Blocks of messages that one slice passes in search of held ones.
const BLOCKS_MAX: usize = 512;
/// Blocks that may be passed for the cost of one message.
const BLOCKS_OF_MESSAGE: usize = 8;
/// Steps of a look for each millisecond until the next one may begin: with very many held
/// deliveries looks take a small share of the time, and come a little late.
const STEPS_OF_MS: u64 = 256;
/// Queues whose look one tick begins; the next one goes on.
const BEGIN_MAX: usize = 256;

impl CoreOptions {
    /// The settings of a queue, given those from arguments and policies.
    pub(super) fn settings_of(
        &self,
        name: &Name,
        settings: EffectiveSettings,
    ) -> EffectiveSettings {
        let mut settings = self.undeliverable.settings_of(name, settings);
        if settings.queue_type == QueueType::Quorum {
            let given_ms = settings.consumer_timeout_ms;
            settings.consumer_timeout_ms = given_ms.or(Some(self.consumer_timeout_ms));
        }
        settings
    }
}

impl Core {
    /// Sets the timeout of quorum queues for which neither argument nor policy says.
    pub(super) fn set_consumer_timeout(&mut self, timeout_ms: u64) {
        if self.options.consumer_timeout_ms != timeout_ms {
            self.options.consumer_timeout_ms = timeout_ms;
            self.policies_changed();
        }
    }

    /// Has a queue looked at before what is acquired from now on can be due.
    pub(super) fn look_in_time(&mut self, now: Now, id: QueueId) {
        let Some(queue) = self.queues.get(&id) else {
            return invariant!(broken, "a queue that got a consumer is there");
        };
        let shortest_ms = queue.timeouts.shortest_ms(queue.settings.timeout_ms());
        let at = shortest_ms.map_or(Millis::NEVER, |ms| now.mono.plus(ms.into()));
        self.look_at(id, at);
    }

    /// Has a queue looked at at once: other timeouts hold from now on.
    pub(super) fn look_now(&mut self, now: Now, id: QueueId) {
        self.look_at(id, now.mono);
    }

    /// Has a queue looked at at this time, or earlier if that was said.
    fn look_at(&mut self, id: QueueId, at: Millis) {
        if let Some(queue) = self.queues.get_mut(&id)
            && at < queue.timeouts.look_at
        {
            self.looks.remove(&(queue.timeouts.look_at, id));
            queue.timeouts.look_at = at;
            self.looks.insert((at, id));
        }
    }

    /// Begins looks that are due.
    pub(super) fn begin_due_looks(&mut self, now: Now) {
        for _ in 0..BEGIN_MAX {
            let first = self.looks.first().copied();
            let Some((due, id)) = first.filter(|(due, _)| *due <= now.mono) else {
                return;
            };
            self.looks.remove(&(due, id));
            let Some(queue) = self.queues.get_mut(&id) else {
                invariant!(broken, "a queue that is to be looked at is there");
                continue;
            };
            queue.timeouts.look_at = Millis::NEVER;
            if std::mem::replace(&mut queue.timeouts.is_looking, true) {
                // Timeouts were changed while it is looked at.
                self.look_at(id, now.mono.plus(1));
                continue;
            }
            self.work.push_back(Work::TimeOut(Look {
                queue: id,
                from: Position(0),
                began: now.mono,
                next: Millis::NEVER,
                is_idle: true,
                steps: 0,
            }));
        }
    }

    /// Looks at some of the held deliveries of a queue, and takes those back that are due.
    pub(super) fn look_slice(&mut self, turn: &mut Turn<'_>, mut look: Look) {
        let (mut blocks, mut left) = (BLOCKS_MAX, SLICE);
        let mut is_over = false;
        while left > 0 {
            let Some(queue) = self.queues.get(&look.queue) else {
                return; // deleted meanwhile
            };
            let position = match queue.messages.find_held(look.from, &mut blocks) {
                Ok(position) => position,
                Err(next) => {
                    is_over = next.is_none();
                    look.from = next.unwrap_or(look.from);
                    break;
                }
            };
            let Some(slot) = queue.messages.slot(position) else {
                invariant!(fatal, "a message that is held is in memory");
            };
            (look.from, left) = (Position(position.0 + 1), left - 1);
            look.is_idle = false;
            let consumer = self.recoveries.consumer_of(slot.holder);
            let age_ms = slot.held_since.age_ms(turn.now.mono);
            // A consumer that is gone is about to give back what it held.
            let known = self.clients.consumers.get(&consumer);
            let timeout_ms = match known {
                Some(known) => known.timeout_of(queue),
                None => self.recoveries.timeout_of(consumer, queue),
            };
            let Some(timeout_ms) = timeout_ms else {
                continue;
            };
            match timeout_ms
                .checked_sub(age_ms)
                .filter(|left_ms| *left_ms > 0)
            {
                Some(left_ms) => {
                    look.next = look.next.min(turn.now.mono.plus(left_ms.into()));
                }
                None => self.time_out(turn, (consumer, timeout_ms), (look.queue, position)),
            }
        }
        let (seen, passed) = (SLICE - left, BLOCKS_MAX - blocks);
        let steps = seen + passed / BLOCKS_OF_MESSAGE;
        turn.budget = turn.budget.saturating_sub(steps);
        look.steps += steps as u64;
        if is_over {
            self.end_look(turn.now, &look);
        } else {
            self.work.push_back(Work::TimeOut(look));
        }
    }

    fn end_look(&mut self, now: Now, look: &Look) {
        let Some(queue) = self.queues.get_mut(&look.queue) else {
            return invariant!(broken, "a queue that was looked at is there");
        };
        queue.timeouts.is_looking = false;
        let shortest_ms = queue.timeouts.shortest_ms(queue.settings.timeout_ms());
        let Some(shortest_ms) = shortest_ms else {
            return;
        };
        let next = look.next.min(look.began.plus(shortest_ms.into()));
        let idle_ms = if look.is_idle {
            CONSUMER_LOOK_IDLE_MS
        } else {
            look.steps / STEPS_OF_MS
        };
        self.look_at(look.queue, next.max(now.mono.plus(idle_ms)));
    }

    /// Takes a delivery back that was held for too long.
    fn time_out(
        &mut self,
        turn: &mut Turn<'_>,
        (id, timeout_ms): (ConsumerId, u32),
        (queue, position): (QueueId, Position),
    ) {
        let slot = self.queues.get(&queue);
        let slot = slot.and_then(|queue| queue.messages.slot(position));
        let acquisition = Acquisition {
            position,
            acquired: slot.map_or(0, |slot| slot.acquired),
        };
        if let LateSettler::Nobody(by) = self.time_out_unsent(id, acquisition) {
            self.free_groups(queue, id);
            return self.take_back(turn, (queue, position), timeout_ms, by);
        }
        let Some(consumer) = self.clients.time_out(id) else {
            return invariant!(broken, "who held a delivery for too long is there");
        };
        let is_first = consumer.timed_out == 1;
        let is_told = is_first && std::mem::replace(&mut consumer.is_timeout_told, true);
        let (connection, by) = (consumer.connection, consumer.evidence.clone());
        let was_waiting = is_first && std::mem::take(&mut consumer.waiting);
        if let Some(queue) = self.queues.get_mut(&queue) {
            if was_waiting {
                queue.consumers.park(id);
            }
            queue.consumers.check_drain(id);
            if is_first && !is_told {
                turn.effects.log.push(LogEvent::ConsumerTimedOut {
                    queue: queue.name.clone(),
                    by: by.clone(),
                    timeout_ms,
                });
            }
            if is_first && let Some(next) = queue.consumers.suspend(id) {
                self.wake(next);
            }
        }
        if is_first {
            self.free_groups(queue, id);
        }
        self.take_back(turn, (queue, position), timeout_ms, by);
        let effect = Effect::TimedOut {
            consumer: id,
            position,
        };
        turn.effects.outgoing.push((connection, effect));
    }

    /// Gives a delivery that was held for too long to its queue.
    fn take_back(
        &mut self,
        turn: &mut Turn<'_>,
        (queue, position): (QueueId, Position),
        timeout_ms: u32,
        by: Option<Arc<Evidence>>,
    ) {
        let seen = self.seen(turn.now, (queue, position), MessageState::Held);
        if let Some(queue) = self.queues.get_mut(&queue) {
            queue.counters.timed_out += 1;
            self.counters.timed_out += 1;
        }
        if let Some((queue, mut about)) = seen {
            if let Some(unwritten) = &mut about.unwritten {
                unwritten.evidence.clone_from(&by);
            }
            let late = EventKind::ConsumerTimeout { timeout_ms };
            self.tell(turn, queue, late, Some(about));
        }
        let failure = Failure::new(How::ConsumerTimeout, by);
        let late = Requeued {
            queue,
            position,
            failure: Some(&failure),
            is_counted: false,
            annotated: false,
            not_before: None,
        };
        self.requeue(turn, &late);
    }

    /// Frees the message groups of a consumer that held a message for too long.
    fn free_groups(&mut self, id: QueueId, consumer: ConsumerId) {
        let queue = self.queues.get_mut(&id);
        if let Some(queue) = queue.filter(|queue| queue.selecting.has_groups()) {
            queue.selecting.free_groups(consumer);
            self.schedule(id);
        }
    }

    /// Counts a delivery as settled that its consumer had held for too long, if it had: once all of
    /// them are settled it gets messages again. Also counts a copy as settled: nobody holds it.
    pub(super) fn release_timed_out(&mut self, id: ConsumerId, position: Position) {
        let Some((left, session)) = self.clients.release_timed_out(id, position) else {
            if self.browses(id) {
                self.release(id);
            }
            return;
        };
        if left == 0 {
            let queue = self.queue_of(id).and_then(|id| self.queues.get_mut(&id));
            if let Some(queue) = queue {
                queue.consumers.resume(id);
            }
            self.wake(id);
        }
        self.wake_released(session);
    }
}
