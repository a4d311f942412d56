//! Consumers attach, get credit and detach; sessions and connections open and close.

use std::ops::Bound;
use std::vec::IntoIter;

use super::clients::Consumer;
use super::failure::Failure;
use super::recovery::{Inherited, Terms};
use super::work::{SLICE, Work};
use super::{Core, Turn};
use crate::base::{
    ConnectionId, ConsumerId, Name, Position, QueueId, SessionId, invariant, uncount,
};
use crate::broker::arguments::QueueType;
use crate::broker::queue::Queue;
use crate::broker::recovery::LinkEnd;
use crate::broker::{Consume, ConsumerInfo, ConsumerPlace, DropCause, Effect, Error, Reply};
use crate::deaths::How;

impl Core {
    pub(super) fn consume(&mut self, turn: &mut Turn<'_>, mut consume: Consume) -> Reply {
        let Some(id) = self.names.get(&consume.queue).copied() else {
            return Reply::Refused(Self::missing_queue(&consume.queue));
        };
        let Some(queue) = self.queues.get(&id) else {
            invariant!(broken, "a queue that has a name is there");
            return Reply::Refused(Self::missing_queue(&consume.queue));
        };
        let owner = queue.exclusive;
        if owner.is_some_and(|owner| owner != consume.connection) {
            return Reply::Refused(self.locked(&consume.queue));
        }
        // A queue that goes with a connection or with its consumers keeps nothing for one of them.
        let is_lasting = queue.exclusive.is_none() && !queue.auto_delete;
        let recovery = consume.recovery.take().filter(|_| is_lasting);
        if let Some(recovery) = &recovery {
            self.steal_link(turn, &recovery.key);
        }
        let Some(queue) = self.queues.get_mut(&id) else {
            return Reply::Refused(Self::missing_queue(&consume.queue));
        };
        if !queue.consumers.admits(consume.exclusive) {
            return Reply::Refused(Error::InUse {
                name: consume.queue,
            });
        }
        queue
            .consumers
            .add(consume.consumer, consume.priority, consume.exclusive);
        if let Some(selector) = consume.selector {
            queue.selecting.add(consume.consumer, selector);
        }
        // What is settled when it is sent is not held.
        let timeout_ms = Some(0).filter(|_| consume.settled).or(consume.timeout_ms);
        queue.timeouts.add(timeout_ms);
        let is_quorum = queue.settings.queue_type == QueueType::Quorum;
        let of = (consume.consumer, timeout_ms);
        let inherited = recovery.map(|recovery| self.inherit(id, of, *recovery));
        let inherited = inherited.unwrap_or_else(|| Inherited::nothing(consume.consumer));
        let kept = inherited.kept();
        let consumer = Consumer {
            connection: consume.connection,
            session: consume.session,
            queue: id,
            holder: inherited.holder,
            recovery: inherited.terms,
            settled: consume.settled,
            passing: consume.passing,
            browses: false,
            priority: consume.priority,
            limit: 0,
            assigned: 0,
            held: inherited.held,
            timed_out: 0,
            is_timeout_told: false,
            timeout_ms,
            waiting: false,
            evidence: consume.evidence,
            blocked: false,
            is_apart: false,
        };
        self.clients.attach(consume.consumer, consumer);
        self.look_in_time(turn.now, id);
        Reply::Consuming {
            queue: id,
            is_quorum,
            kept,
        }
    }

    pub(super) fn consumer_flow(
        &mut self,
        turn: &mut Turn<'_>,
        id: ConsumerId,
        limit: u64,
        drain: bool,
    ) {
        let Some(consumer) = self.clients.consumers.get_mut(&id) else {
            return; // its queue was deleted meanwhile
        };
        consumer.limit = limit;
        if consumer.browses {
            return self.browser_flow(turn, id, drain);
        }
        let queue_id = consumer.queue;
        let Some(queue) = self.queues.get_mut(&queue_id) else {
            return; // it was deleted, which its consumers are about to be told
        };
        if drain {
            queue.consumers.drain(id);
        } else {
            queue.consumers.end_drain(id); // it takes that back
        }
        self.wake(id);
        self.schedule(queue_id);
    }

    /// Tells a consumer how many messages wait for its credit.
    pub(super) fn consumer_echo(
        &self,
        turn: &mut Turn<'_>,
        connection: ConnectionId,
        id: ConsumerId,
    ) {
        let consumer = self.clients.consumers.get(&id);
        let queue = consumer.filter(|consumer| !consumer.browses);
        let queue = queue.and_then(|consumer| self.queues.get(&consumer.queue));
        let ready = queue.map_or(0, |queue| queue.messages.ready());
        let available = u32::try_from(ready).unwrap_or(u32::MAX);
        let consumer = id;
        let told = Effect::Available {
            consumer,
            available,
        };
        turn.effects.outgoing.push((connection, told));
    }

    pub(super) fn session_flow(&mut self, id: SessionId, limit: u64) {
        let Some(session) = self.clients.sessions.get_mut(&id) else {
            return;
        };
        session.limit = limit;
        for consumer in self.clients.take_blocked_by_session(id) {
            self.wake(consumer);
        }
    }

    pub(super) fn connection_room(
        &mut self,
        turn: &mut Turn<'_>,
        id: ConnectionId,
        limit_bytes: u64,
    ) {
        let Some(connection) = self.clients.connections.get_mut(&id) else {
            return;
        };
        connection.limit_bytes = limit_bytes;
        let blocked = self.clients.take_blocked_by_connection(id);
        self.wake_slice(turn, blocked.into_iter());
    }

    /// Wakes some of the consumers that were blocked: a connection may have thousands.
    pub(super) fn wake_slice(&mut self, turn: &mut Turn<'_>, mut blocked: IntoIter<ConsumerId>) {
        for consumer in blocked.by_ref().take(SLICE) {
            turn.budget = turn.budget.saturating_sub(1);
            self.wake(consumer);
        }
        if !blocked.as_slice().is_empty() {
            self.work.push_back(Work::Wake(blocked));
        }
    }

    /// Puts a consumer with credit into its queue's ring, unless it is not the active one, and
    /// schedules the queue. Whether session and connection have room is checked when it is served.
    pub(super) fn wake(&mut self, id: ConsumerId) {
        let Some(consumer) = self.clients.consumers.get_mut(&id) else {
            return; // it went while it waited for room
        };
        if consumer.browses {
            return self.wake_browser(id);
        }
        if consumer.recovery.as_deref().is_some_and(Terms::is_behind) {
            return self.wake_behind(id);
        }
        let queue_id = consumer.queue;
        let Some(queue) = self.queues.get_mut(&queue_id) else {
            return; // it was deleted, which its consumers are about to be told
        };
        let may_take = consumer.has_credit() && consumer.timed_out == 0;
        if consumer.waiting || !may_take || !queue.consumers.is_fed(id) {
            return;
        }
        (consumer.waiting, consumer.is_apart) = (true, false);
        queue.consumers.wait(id);
        self.schedule(queue_id);
    }

    /// Removes a consumer whose link ends. Its deliveries are requeued: as failed, if `failed` says how.
    /// Or they stay its link's, if that may be attached again.
    pub(super) fn consumer_detach(
        &mut self,
        turn: &mut Turn<'_>,
        id: ConsumerId,
        failed: Option<How>,
        end: LinkEnd,
    ) {
        let Some(consumer) = self.clients.detach(id) else {
            self.clients.forget_ended(id); // its queue was deleted meanwhile
            return;
        };
        if consumer.browses {
            return self.browser_detach(id, &consumer);
        }
        self.take_leave(turn, (id, consumer), failed, end);
    }

    /// Takes a consumer that is gone out of its queue.
    pub(super) fn take_leave(
        &mut self,
        turn: &mut Turn<'_>,
        (id, consumer): (ConsumerId, Consumer),
        failed: Option<How>,
        end: LinkEnd,
    ) {
        let queue_id = consumer.queue;
        let Some(queue) = self.queues.get_mut(&queue_id) else {
            // The queue was deleted; its consumers are about to be told.
            self.forget_link(id, &consumer);
            self.wake_released(consumer.session);
            return;
        };
        let next = queue.consumers.remove(id);
        queue.selecting.remove(id);
        if queue.consumers.is_empty() {
            queue.unused_since = turn.now.mono;
            if queue.auto_delete && !consumer.passing {
                self.remove_queue(turn, queue_id, DropCause::QueueDeleted);
                return;
            }
        }
        let session = consumer.session;
        if let Some(consumer) = self.suspend_link(turn.now.mono, (id, consumer), failed, end) {
            self.release_all(queue_id, id, consumer, failed);
        }
        if let Some(next) = next {
            self.wake(next);
        }
        self.wake_released(session);
        self.schedule(queue_id);
    }

    /// Frees what a consumer had that is gone: what it held is requeued.
    fn release_all(
        &mut self,
        id: QueueId,
        consumer_id: ConsumerId,
        mut consumer: Consumer,
        failed: Option<How>,
    ) {
        let reserved = self.forget_reserved(id, consumer.holder);
        uncount!(
            consumer.held,
            reserved,
            "what is reserved for a link it held"
        );
        let Some(queue) = self.queues.get_mut(&id) else {
            return invariant!(broken, "the queue of a consumer that parts is there");
        };
        queue.timeouts.remove(consumer.timeout_ms);
        if consumer.held > 0 {
            self.requeue_all(id, consumer_id, consumer, failed);
        } else {
            queue.selecting.free_groups(consumer_id);
        }
    }

    /// Requeues what a consumer held that is gone.
    fn requeue_all(
        &mut self,
        queue: QueueId,
        id: ConsumerId,
        consumer: Consumer,
        failed: Option<How>,
    ) {
        let held = (queue, consumer.held);
        let suspected =
            failed == Some(How::ConnectionLost) && self.suspects_of(consumer.connection, held);
        self.work.push_back(Work::Requeue {
            queue,
            consumer: id,
            holder: consumer.holder,
            from: Position(0),
            left: consumer.held,
            failure: failed.map(|how| Box::new(Failure::new(how, consumer.evidence))),
            suspected,
        });
    }

    pub(super) fn session_end(&mut self, turn: &mut Turn<'_>, id: SessionId, how: How) {
        let Some(session) = self.clients.sessions.get_mut(&id) else {
            return;
        };
        let connection = session.connection;
        let end = match how {
            How::ConnectionLost => LinkEnd::ConnectionClosed,
            _ => LinkEnd::SessionEnded,
        };
        // There are at most as many as handles in a session.
        for consumer in std::mem::take(&mut session.consumers) {
            turn.budget = turn.budget.saturating_sub(1);
            self.consumer_detach(turn, consumer, Some(how), end);
        }
        self.clients.remove_session(id);
        self.recoveries.begin(turn.now.mono, connection, Some(id));
        if let Some(connection) = self.clients.connections.get_mut(&connection) {
            connection.sessions.retain(|other| *other != id);
        }
    }

    pub(super) fn connection_close(&mut self, turn: &mut Turn<'_>, id: ConnectionId) {
        let Some(connection) = self.clients.connections.get_mut(&id) else {
            return;
        };
        connection.limit_bytes = 0; // it is assigned nothing more
        self.close_slice(turn, id);
    }

    /// Removes a part of what a closed connection had: it may have had thousands of links and any
    /// number of queues.
    pub(super) fn close_slice(&mut self, turn: &mut Turn<'_>, id: ConnectionId) {
        for _ in 0..SLICE {
            let Some(connection) = self.clients.connections.get_mut(&id) else {
                return;
            };
            turn.budget = turn.budget.saturating_sub(1);
            if let Some(session) = connection.sessions.first().copied() {
                if let Some(consumer) = self.clients.pop_consumer(session) {
                    let (how, end) = (How::ConnectionLost, LinkEnd::ConnectionClosed);
                    self.consumer_detach(turn, consumer, Some(how), end);
                } else {
                    self.session_end(turn, session, How::ConnectionLost);
                }
                continue;
            }
            if self.publishers.leave_one(id) {
                continue;
            }
            let Some(queue) = connection.exclusive_queues.pop_first() else {
                self.clients.connections.remove(&id);
                self.recoveries.begin(turn.now.mono, id, None);
                return;
            };
            self.remove_queue(turn, queue, DropCause::QueueDeleted);
        }
        self.work.push_back(Work::Close(id));
    }

    /// Wakes consumers of a session after some of its deliveries were settled or requeued.
    pub(super) fn wake_released(&mut self, session: SessionId) {
        for consumer in self.clients.take_blocked_by_session(session) {
            self.wake(consumer);
        }
    }

    /// Describes a consumer.
    pub fn consumer_info(&self, id: ConsumerId) -> Option<ConsumerInfo> {
        let consumer = self.clients.consumers.get(&id)?;
        let queue = self.queues.get(&consumer.queue)?;
        Some(ConsumerInfo {
            consumer: id,
            queue: queue.name.clone(),
            connection: consumer.connection,
            settled: consumer.settled,
            priority: consumer.priority,
            exclusive: queue.consumers.is_exclusive(),
            active: queue.consumers.is_fed(id) && consumer.timed_out == 0,
            held: consumer.held,
            timeout_ms: consumer.timeout_of(queue),
            timed_out: consumer.timed_out,
        })
    }

    /// Up to `count` consumers of a queue with a higher arrival number (0: from the first on), and
    /// where to go on if there may be more. A queue may have very many, so they are listed in
    /// pages.
    pub fn consumers_of(
        &self,
        queue: &Queue,
        after: u64,
        count: usize,
    ) -> (Vec<ConsumerInfo>, Option<u64>) {
        let (mut found, mut last) = (Vec::new(), None);
        for (index, (arrival, id)) in queue.consumers.ids_after(after).take(count).enumerate() {
            found.extend(self.consumer_info(id));
            last = (index + 1 == count).then_some(arrival);
        }
        (found, last)
    }

    /// Consumers of all queues, by the queues' names, behind `after`: up to `count` queues and
    /// consumers together; and where to go on if there may be more.
    pub fn consumers_after(
        &self,
        after: Option<&ConsumerPlace>,
        count: usize,
    ) -> (Vec<ConsumerInfo>, Option<ConsumerPlace>) {
        let (mut found, mut left) = (Vec::new(), count.max(1));
        let start = after.map_or(Bound::Unbounded, |place| Bound::Included(&place.queue));
        let names = self.names.range::<Name, _>((start, Bound::Unbounded));
        for (name, queue) in names.filter_map(|(name, id)| Some((name, self.queues.get(id)?))) {
            let from = after
                .filter(|place| place.queue == *name)
                .map_or(0, |place| place.arrival);
            let (some, last) = self.consumers_of(queue, from, left);
            left = left.saturating_sub(some.len() + 1);
            found.extend(some);
            if left == 0 || last.is_some() {
                let place = ConsumerPlace {
                    queue: name.clone(),
                    arrival: last.unwrap_or(u64::MAX),
                };
                return (found, Some(place));
            }
        }
        (found, None)
    }

    /// The queue that a consumer reads.
    pub(super) fn queue_of(&self, consumer: ConsumerId) -> Option<QueueId> {
        self.clients
            .consumers
            .get(&consumer)
            .map(|consumer| consumer.queue)
    }
}
