//! Browsers: links that get copies of what is ready in a queue, in order, and take nothing.
//!
//! A browser is no consumer of its queue: it is not counted, has no turn, keeps no queue from
//! expiring or from being deleted as unused, and holds nothing. What it does share with consumers
//! are credit, its session's window and the bytes that its connection may be assigned.

use super::clients::{Consumer, NoRoom, holder};
use super::serve::describe;
use super::work::{SLICE, Work};
use super::{Core, Turn};
use crate::base::{ConsumerId, Now, Position, QueueId, invariant};
use crate::broker::arguments::QueueType;
use crate::broker::queue::{Browsers, Sight, Slot};
use crate::broker::recovery::Kept;
use crate::broker::{Browse, Effect, Reply};

impl Core {
    pub(super) fn browse_attach(&mut self, browse: Browse) -> Reply {
        let queue = self.names.get(&browse.queue);
        let Some(queue) = queue.and_then(|id| self.queues.get_mut(id)) else {
            return Reply::Refused(Self::missing_queue(&browse.queue));
        };
        let id = queue.id;
        if queue
            .exclusive
            .is_some_and(|owner| owner != browse.connection)
        {
            return Reply::Refused(self.locked(&browse.queue));
        }
        let entered = queue.counters.entered;
        queue
            .selecting
            .add_browser(browse.consumer, browse.selector, entered);
        let is_quorum = queue.settings.queue_type == QueueType::Quorum;
        let consumer = Consumer {
            connection: browse.connection,
            session: browse.session,
            queue: id,
            holder: holder(browse.consumer),
            recovery: None,
            settled: browse.settled,
            passing: false,
            browses: true,
            priority: 0,
            limit: 0,
            assigned: 0,
            held: 0,
            timed_out: 0,
            is_timeout_told: false,
            timeout_ms: None,
            waiting: false,
            evidence: None,
            blocked: false,
            is_apart: false,
        };
        self.clients.attach(browse.consumer, consumer);
        Reply::Consuming {
            queue: id,
            is_quorum,
            kept: Kept::No,
        }
    }

    /// Handles a change of a browser's credit.
    pub(super) fn browser_flow(&mut self, turn: &mut Turn<'_>, id: ConsumerId, drain: bool) {
        let queue_id = self.queue_of(id);
        let queue = queue_id.and_then(|id| self.queues.get_mut(&id));
        let Some(queue) = queue else {
            return; // it was deleted, which its browsers are about to be told
        };
        let entered = queue.counters.entered;
        let Some(browsers) = queue.selecting.browsers() else {
            return invariant!(broken, "the queue of a browser has it");
        };
        if drain && browsers.drain(id, entered) {
            self.end_drain(turn, id);
        }
        self.wake_browser(id);
    }

    /// Looks at a browser again: it may have room now.
    pub(super) fn wake_browser(&mut self, id: ConsumerId) {
        let queue_id = self.queue_of(id);
        if let Some(queue) = queue_id.and_then(|id| self.queues.get_mut(&id))
            && let Some(browsers) = queue.selecting.browsers()
        {
            browsers.wake(id);
            self.schedule_browsers(queue_id);
        }
    }

    fn schedule_browsers(&mut self, id: Option<QueueId>) {
        if let Some(queue) = id.and_then(|id| self.queues.get_mut(&id))
            && queue.selecting.wakes_browsers(queue.counters.entered)
        {
            self.work.push_back(Work::Browse(queue.id));
        }
    }

    /// Tells a browser that it has seen everything; the rest of its credit is used up.
    fn end_drain(&mut self, turn: &mut Turn<'_>, consumer: ConsumerId) {
        if let Some(state) = self.clients.consumers.get_mut(&consumer) {
            state.assigned = state.assigned.max(state.limit);
            let limit = state.limit;
            let drained = Effect::Drained {
                consumer,
                limit,
                available: 0,
            };
            turn.effects.outgoing.push((state.connection, drained));
        }
    }

    /// Sends some copies to browsers of a queue.
    pub(super) fn browse_slice(&mut self, turn: &mut Turn<'_>, id: QueueId) {
        let mut left = SLICE;
        let queue = self.queues.get_mut(&id);
        let Some(browsers) = queue.and_then(|queue| queue.selecting.browsers()) else {
            return; // deleted, or all of them left since
        };
        browsers.begin();
        while left > 0
            && let Some(queue) = self.queues.get_mut(&id)
            && let Some(browser) = queue.selecting.browsers().and_then(Browsers::pop)
        {
            left -= 1;
            self.serve_browser(turn, (id, browser), &mut left);
        }
        turn.budget = turn.budget.saturating_sub(SLICE - left);
        self.schedule_browsers(Some(id));
    }

    /// Sends copies to one browser until it has no room, has seen everything or has to wait for the
    /// disk.
    fn serve_browser(
        &mut self,
        turn: &mut Turn<'_>,
        (id, consumer): (QueueId, ConsumerId),
        left: &mut usize,
    ) {
        let Now { mono: now, wall } = turn.now;
        loop {
            let Some(queue) = self.queues.get_mut(&id) else {
                return invariant!(broken, "a queue that is browsed is there");
            };
            let (settings, selecting) = (&queue.settings, &mut queue.selecting);
            let Some(browsers) = selecting.browsers() else {
                return invariant!(broken, "the queue of a browser has it");
            };
            if let Err(why) = self.clients.room(consumer) {
                browsers.rest(consumer);
                self.clients.block(consumer, why);
                if why == NoRoom::Credit && browsers.take_drain(consumer) {
                    self.end_drain(turn, consumer);
                }
                return;
            }
            let ttl_ms = settings.message_ttl_ms;
            let is_late = |slot: &Slot| {
                let by_queue = ttl_ms.is_some_and(|ttl_ms| slot.arrived.plus(ttl_ms) <= now);
                by_queue || slot.deadline <= now
            };
            let (sight, spent_ns) = browsers.look(wall, &queue.messages, consumer, left, is_late);
            if spent_ns > 0 {
                turn.charge_ns(spent_ns);
            }
            match sight {
                Sight::Message(position) => self.copy(turn, (id, position), consumer),
                Sight::Later => return browsers.push(consumer),
                Sight::OnDisk(position) => {
                    if let Some(block) = queue.messages.begin_load(position) {
                        self.load(turn, (id, block));
                    }
                    return;
                }
                Sight::End => {
                    if browsers.take_drain(consumer) {
                        self.end_drain(turn, consumer);
                    }
                    return;
                }
            }
        }
    }

    /// Sends a copy of one message to a browser that has room.
    fn copy(
        &mut self,
        turn: &mut Turn<'_>,
        (id, position): (QueueId, Position),
        consumer: ConsumerId,
    ) {
        let queue = self.queues.get(&id);
        let Some(slot) = queue.and_then(|queue| queue.messages.slot(position)) else {
            return invariant!(broken, "a message that is copied is in memory");
        };
        let Ok(taker) = self.clients.assign(consumer, slot.size_bytes) else {
            return invariant!(broken, "who had room has it");
        };
        let delivery = describe(consumer, position, slot);
        let copy = (taker.connection, Effect::Deliver(delivery));
        turn.effects.outgoing.push(copy);
    }

    /// Whether a link browses.
    pub(super) fn browses(&self, id: ConsumerId) -> bool {
        let consumer = self.clients.consumers.get(&id);
        consumer.is_some_and(|consumer| consumer.browses)
    }

    /// Takes a copy back that was never sent: its browser goes on with it.
    pub(super) fn return_copy(&mut self, id: ConsumerId, position: Position) {
        if !self.browses(id) {
            return;
        }
        let queue_id = self.queue_of(id);
        let queue = queue_id.and_then(|id| self.queues.get_mut(&id));
        if let Some(browsers) = queue.and_then(|queue| queue.selecting.browsers()) {
            browsers.step_back(id, position);
        }
        self.schedule_browsers(queue_id);
    }

    /// Removes a browser whose link is detached.
    pub(super) fn browser_detach(&mut self, id: ConsumerId, browser: &Consumer) {
        if let Some(queue) = self.queues.get_mut(&browser.queue) {
            queue.selecting.remove_browser(id);
        }
        self.wake_released(browser.session);
    }
}
