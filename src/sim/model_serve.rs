//! The model's queues at work: serving, dying, entering, waiting.

use std::sync::Arc;

use super::model::{Deaths, Model, ModelMessage, ModelState, ModelWork, Scene};
use crate::base::{Name, Position, QueueId};
use crate::broker::DropCause;
use crate::broker::arguments::{DeadLetterStrategy, Overflow};
use crate::deaths::Reason;
use crate::message::{Message, Route};

/// A message about to enter queues.
pub(super) struct Letter {
    pub(super) message: Arc<Message>,
    pub(super) route: Arc<Route>,
    pub(super) ttl_ms: Option<u64>,
    pub(super) carried: u32,
    pub(super) deaths: Deaths,
}

/// What came of offering a message to queues.
#[derive(Default)]
pub(super) struct Offered {
    pub(super) accepted: usize,
    pub(super) refused: Vec<QueueId>,
    /// Full queues that took what was published only to kill it.
    pub(super) killed: Vec<(QueueId, Position)>,
    cycled: usize,
}

impl Model {
    /// Works until nothing is left to do.
    pub fn run(&mut self, scene: Scene<'_>) {
        while let Some(work) = self.work.pop_front() {
            match work {
                ModelWork::Serve(id) => self.serve(scene, id),
                ModelWork::Die(id, position, reason) => self.die(scene, id, position, reason),
                ModelWork::Retry(id) => {
                    for position in self.pending_of(id) {
                        self.retry(scene, id, position);
                    }
                }
                ModelWork::RetryWaiter(target, id, position) => {
                    self.retry(scene, id, position);
                    self.schedule(target);
                }
                ModelWork::GiveBack(id, consumer, failed) => {
                    let Some(queue) = self.queues.get(&id) else {
                        continue;
                    };
                    let held = ModelState::Held(consumer);
                    let back = queue.messages.iter().filter(|m| m.state == held);
                    let mut back: Vec<Position> = back.map(|m| m.position).collect();
                    back.sort_unstable();
                    for position in back {
                        self.give_back(scene, id, position, failed);
                    }
                }
                ModelWork::ApplyPolicies => self.apply_policies(scene),
            }
        }
        let observed = std::mem::take(&mut self.observed);
        for (place, consumer) in observed {
            self.complaints
                .push(format!("delivered {place:?} to {consumer} out of turn"));
        }
    }

    fn pending_of(&self, id: QueueId) -> Vec<Position> {
        let Some(queue) = self.queues.get(&id) else {
            return Vec::new();
        };
        let pending = |m: &&ModelMessage| matches!(m.state, ModelState::Pending { .. });
        let mut positions: Vec<_> = queue
            .messages
            .iter()
            .filter(pending)
            .map(|m| m.position)
            .collect();
        positions.sort_unstable();
        positions
    }

    /// By name, as the core does it.
    fn apply_policies(&mut self, scene: Scene<'_>) {
        let mut ids: Vec<_> = self
            .queues
            .iter()
            .map(|(id, q)| (q.name.clone(), *id))
            .collect();
        ids.sort_unstable();
        for (_, id) in ids {
            let Some(queue) = self.queues.get_mut(&id) else {
                continue;
            };
            let Some(real) = scene.core.queue(&queue.name) else {
                continue;
            };
            let settings = scene.core.policies().settings(&queue.name, &real.arguments);
            if queue.settings != settings {
                queue.settings = settings;
                queue.grown = true;
                self.schedule(id);
            }
        }
        self.retry_all();
    }

    fn serve(&mut self, scene: Scene<'_>, id: QueueId) {
        let now_ms = scene.now.mono.0;
        let Some(queue) = self.queues.get_mut(&id) else {
            return;
        };
        queue.scheduled = false;
        let unused = queue.consumers.is_empty();
        if let Some(expires_ms) = queue.settings.expires_ms
            && unused
            && queue.unused_since_ms + expires_ms <= now_ms
        {
            self.remove_queue(id, DropCause::QueueExpired);
            return;
        }
        let mut dead = self.assign(now_ms, id);
        dead.extend(self.expire(now_ms, id));
        dead.extend(self.enforce(id));
        let dying = dead
            .into_iter()
            .map(|(at, reason)| ModelWork::Die(id, at, reason));
        self.work.extend(dying);
        self.wake_waiter(id);
        let Some(queue) = self.queues.get_mut(&id) else {
            return;
        };
        let ready = queue.ready();
        let single = queue.settings.single_active_consumer;
        for (index, consumer) in queue.consumers.iter_mut().enumerate() {
            let fed = !single || index == 0;
            let hungry = consumer.assigned < consumer.limit;
            if consumer.draining && !(hungry && fed && ready > 0) {
                consumer.draining = false;
                consumer.assigned = consumer.assigned.max(consumer.limit);
            }
        }
    }

    fn assign(&mut self, now_ms: u64, id: QueueId) -> Vec<(Position, Reason)> {
        let mut dead = Vec::new();
        loop {
            let Some(queue) = self.queues.get_mut(&id) else {
                return dead;
            };
            if queue.takers().next().is_none() {
                return dead;
            }
            let Some(at) = next_to_deliver(queue) else {
                return dead;
            };
            let Some(message) = queue.messages.get(at) else {
                return dead;
            };
            let position = message.position;
            let late = queue.end_of(message).is_some_and(|end| end <= now_ms);
            if late && message.arrived_ms != now_ms {
                dead.extend(kill(queue, at, Reason::Expired));
                continue;
            }
            advance_run(queue);
            let taker = self.observed.remove(&(id, position));
            let consumer = queue
                .takers()
                .find(|consumer| Some(consumer.id) == taker)
                .map(|consumer| (consumer.id, consumer.settled));
            let Some((consumer, settled)) = consumer else {
                self.complaints
                    .push(format!("{id} {position}: not delivered, or to {taker:?}"));
                return dead;
            };
            if let Some(consumer) = queue.consumers.iter_mut().find(|c| c.id == consumer) {
                consumer.assigned += 1;
            }
            if settled {
                queue.messages.remove(at);
            } else if let Some(message) = queue.messages.get_mut(at) {
                message.state = ModelState::Held(consumer);
            }
        }
    }

    /// What is due goes in the order of the deadlines: first by the queue's own ttl, priority by
    /// priority, then by the messages' own.
    fn expire(&mut self, now_ms: u64, id: QueueId) -> Vec<(Position, Reason)> {
        let Some(queue) = self.queues.get_mut(&id) else {
            return Vec::new();
        };
        let queue_ttl_ms = queue.settings.message_ttl_ms;
        let mut due = Vec::new();
        for message in queue
            .messages
            .iter()
            .filter(|m| m.state == ModelState::Ready)
        {
            let by_queue = queue_ttl_ms.is_some_and(|ttl| message.arrived_ms + ttl <= now_ms);
            let own = message.ends_ms.filter(|end| *end <= now_ms);
            if by_queue {
                due.push((0, 0, message.position));
            } else if let Some(end) = own {
                due.push((1, end, message.position));
            }
        }
        due.sort_unstable();
        let positions = due.into_iter().map(|(_, _, position)| position);
        positions
            .filter_map(|position| kill(queue, queue.index(position)?, Reason::Expired))
            .collect()
    }

    fn enforce(&mut self, id: QueueId) -> Vec<(Position, Reason)> {
        let mut dead = Vec::new();
        let Some(queue) = self.queues.get_mut(&id) else {
            return dead;
        };
        if queue.grown && queue.settings.overflow == Overflow::DropHead {
            while queue.is_over(queue.load()) {
                let ready = queue
                    .messages
                    .iter()
                    .filter(|m| m.state == ModelState::Ready);
                let Some(first) = ready.map(|m| m.position).min() else {
                    break;
                };
                let Some(at) = queue.index(first) else { break };
                dead.extend(kill(queue, at, Reason::Maxlen));
            }
        }
        queue.grown = false;
        dead
    }

    fn wake_waiter(&mut self, target: QueueId) {
        while let Some(&(ticket, id, position)) = self
            .waiters
            .get(&target)
            .and_then(|waiters| waiters.first())
        {
            let Some(queue) = self.queues.get(&target) else {
                return;
            };
            let waiting = self.tickets.get(&(id, position)) == Some(&ticket);
            let size = self.pending_size(id, position).filter(|_| waiting);
            if size.is_some_and(|size| queue.would_overflow(size)) {
                return;
            }
            if let Some(waiters) = self.waiters.get_mut(&target) {
                waiters.remove(0);
            }
            if size.is_some() {
                self.work
                    .push_back(ModelWork::RetryWaiter(target, id, position));
                return;
            }
        }
    }

    fn pending_size(&self, id: QueueId, position: Position) -> Option<u64> {
        let queue = self.queues.get(&id)?;
        let message = queue.messages.get(queue.index(position)?)?;
        matches!(message.state, ModelState::Pending { .. }).then_some(message.size)
    }

    /// A message dies: recorded, sent on, dropped or left waiting.
    pub(super) fn die(&mut self, scene: Scene<'_>, id: QueueId, position: Position, why: Reason) {
        let Some(queue) = self.queues.get(&id) else {
            return;
        };
        let Some(message) = queue.index(position).and_then(|at| queue.messages.get(at)) else {
            return;
        };
        self.deaths += 1;
        let Some(exchange) = queue.settings.dead_letter_exchange.clone() else {
            return self.drop_message(id, position, why, DropCause::NoDeadLetterExchange);
        };
        let mut deaths = message.deaths.clone();
        let known = deaths
            .iter()
            .position(|(q, reason, _)| *q == queue.name && *reason == why);
        let count = known.map_or(0, |at| deaths.remove(at).2);
        deaths.insert(0, (queue.name.clone(), why, count + 1));
        let letter = Letter {
            message: message.message.clone(),
            route: self.dead_route(id, &exchange, &message.route),
            ttl_ms: absolute_ttl_ms(scene, &message.message),
            carried: message.carried + message.failures,
            deaths,
        };
        self.send(scene, (id, position), why, letter, None);
    }

    fn dead_route(&self, id: QueueId, exchange: &Name, came_by: &Route) -> Arc<Route> {
        let key = self
            .queues
            .get(&id)
            .and_then(|q| q.settings.dead_letter_routing_key.clone());
        let keys = key.map_or_else(|| came_by.keys.clone(), |key| Arc::from([key]));
        Arc::new(Route {
            exchange: exchange.clone(),
            keys,
        })
    }

    fn retry(&mut self, scene: Scene<'_>, id: QueueId, position: Position) {
        let Some(queue) = self.queues.get(&id) else {
            return;
        };
        let Some(message) = queue.index(position).and_then(|at| queue.messages.get(at)) else {
            return;
        };
        let ModelState::Pending { reason, targets } = message.state.clone() else {
            return;
        };
        let Some(exchange) = queue.settings.dead_letter_exchange.clone() else {
            return self.drop_message(id, position, reason, DropCause::PendingAbandoned);
        };
        let letter = Letter {
            message: message.message.clone(),
            route: self.dead_route(id, &exchange, &message.route),
            ttl_ms: absolute_ttl_ms(scene, &message.message),
            carried: message.carried,
            deaths: message.deaths.clone(),
        };
        self.send(scene, (id, position), reason, letter, targets);
    }

    fn send(
        &mut self,
        scene: Scene<'_>,
        (id, position): (QueueId, Position),
        reason: Reason,
        letter: Letter,
        only: Option<Vec<QueueId>>,
    ) {
        let narrowed = only.is_some();
        let mut gone = 0;
        let (exchange_missing, targets) = if let Some(only) = only {
            let there: Vec<_> = only
                .iter()
                .copied()
                .filter(|id| self.queues.contains_key(id))
                .collect();
            gone = only.len() - there.len();
            (false, there)
        } else {
            find_targets(scene, &letter)
        };
        let offered = self.offer(scene, &letter, &targets, Some(reason));
        let taken = offered.accepted > 0 || narrowed;
        self.dead_lettered += u64::from(offered.accepted > 0 && !narrowed);
        let strategy = self
            .queues
            .get(&id)
            .map(|q| q.settings.dead_letter_strategy);
        let waits = strategy == Some(DeadLetterStrategy::AtLeastOnce);
        let none_way = !taken && offered.refused.is_empty() && offered.cycled == 0;
        if waits && (!offered.refused.is_empty() || none_way) {
            let targets = taken.then(|| offered.refused.clone());
            self.keep((id, position), letter, reason, targets, &offered.refused);
        } else if taken {
            self.copies_refused += (offered.refused.len() + gone) as u64;
            self.forget(id, position);
        } else if !offered.refused.is_empty() {
            self.drop_message(id, position, reason, DropCause::TargetFull);
        } else if offered.cycled > 0 {
            self.drop_message(id, position, reason, DropCause::Cycle);
        } else if exchange_missing {
            self.drop_message(id, position, reason, DropCause::ExchangeMissing);
        } else {
            self.drop_message(id, position, reason, DropCause::Unroutable);
        }
    }

    fn keep(
        &mut self,
        place: (QueueId, Position),
        letter: Letter,
        reason: Reason,
        targets: Option<Vec<QueueId>>,
        refused: &[QueueId],
    ) {
        let next = &mut self.next_ticket;
        let ticket = *self.tickets.entry(place).or_insert_with(|| {
            *next += 1;
            *next
        });
        if let Some(message) = self.message_mut(place.0, place.1) {
            if !matches!(message.state, ModelState::Pending { .. }) {
                message.carried = letter.carried;
            }
            (message.failures, message.acquired) = (0, 0);
            message.deaths = letter.deaths;
            message.state = ModelState::Pending { reason, targets };
        }
        for target in refused {
            let waiters = self.waiters.entry(*target).or_default();
            waiters.push((ticket, place.0, place.1));
            waiters.sort_unstable();
            waiters.dedup();
        }
    }

    fn forget(&mut self, id: QueueId, position: Position) {
        self.tickets.remove(&(id, position));
        let waited_for = self
            .waiters
            .get(&id)
            .is_some_and(|waiters| !waiters.is_empty());
        if let Some(queue) = self.queues.get_mut(&id) {
            queue
                .messages
                .retain(|message| message.position != position);
        }
        if waited_for {
            self.schedule(id);
        }
    }

    fn drop_message(&mut self, id: QueueId, position: Position, why: Reason, cause: DropCause) {
        self.forget(id, position);
        self.drop_some(Some(why), cause, 1);
    }

    /// A message arrives from a client; whether every queue took it.
    pub fn publish(
        &mut self,
        scene: Scene<'_>,
        message: &Arc<Message>,
        route: &Arc<Route>,
        targets: &[QueueId],
    ) -> bool {
        let own = message.ttl_ms().map(u64::from);
        let absolute = absolute_ttl_ms(scene, message);
        let letter = Letter {
            message: message.clone(),
            route: route.clone(),
            ttl_ms: own.into_iter().chain(absolute).min(),
            carried: 0,
            deaths: Deaths::new(),
        };
        let offered = self.offer(scene, &letter, targets, None);
        let all = offered.refused.is_empty() && offered.killed.is_empty();
        for (queue, position) in offered.killed {
            self.die(scene, queue, position, Reason::Maxlen);
        }
        all
    }

    /// Offers a message to queues, one after the other.
    pub(super) fn offer(
        &mut self,
        scene: Scene<'_>,
        letter: &Letter,
        targets: &[QueueId],
        reason: Option<Reason>,
    ) -> Offered {
        let mut offered = Offered::default();
        let size = letter.message.bare_len() as u64;
        for &target in targets {
            if reason.is_some_and(|why| why != Reason::Rejected) && self.loops(letter, target) {
                offered.cycled += 1;
                continue;
            }
            let Some(queue) = self.queues.get(&target) else {
                continue;
            };
            let full = |queue: &super::model::ModelQueue| {
                let overflow = queue.settings.overflow;
                queue.would_overflow(size)
                    && (overflow != Overflow::DropHead || queue.is_full_of_pending())
            };
            let overflow = queue.settings.overflow;
            let refuses = full(queue) && {
                self.serve(scene, target);
                let queue = self.queues.get(&target);
                queue.is_some_and(|queue| {
                    full(queue) && (queue.takers().next().is_none() || queue.ready() > 0)
                })
            };
            if refuses && overflow != Overflow::RejectPublishDlx {
                offered.refused.push(target);
                continue;
            }
            let state = if refuses {
                ModelState::Dying
            } else {
                ModelState::Ready
            };
            let Some(position) = self.enter(scene, target, letter, state) else {
                continue;
            };
            offered.accepted += 1;
            match (refuses, reason) {
                (false, _) => {}
                (true, None) => offered.killed.push((target, position)),
                (true, Some(_)) => {
                    let work = ModelWork::Die(target, position, Reason::Maxlen);
                    self.work.push_back(work);
                }
            }
        }
        offered
    }

    fn loops(&self, letter: &Letter, target: QueueId) -> bool {
        let Some(queue) = self.queues.get(&target) else {
            return false;
        };
        let upto = letter
            .deaths
            .iter()
            .position(|(name, _, _)| *name == queue.name);
        upto.is_some_and(|at| {
            letter
                .deaths
                .iter()
                .take(at + 1)
                .all(|(_, reason, _)| *reason != Reason::Rejected)
        })
    }

    fn enter(
        &mut self,
        scene: Scene<'_>,
        id: QueueId,
        letter: &Letter,
        state: ModelState,
    ) -> Option<Position> {
        let now_ms = scene.now.mono.0;
        let queue = self.queues.get_mut(&id)?;
        let lane = queue.lane(&letter.message);
        let place = queue.places.entry(lane).or_default();
        let position = Position((lane << 56) | *place);
        *place += 1;
        queue.messages.push(ModelMessage {
            position,
            state,
            message: letter.message.clone(),
            route: letter.route.clone(),
            arrived_ms: now_ms,
            ends_ms: letter.ttl_ms.map(|ttl_ms| now_ms + ttl_ms),
            failures: 0,
            acquired: 0,
            carried: letter.carried,
            deaths: letter.deaths.clone(),
            size: letter.message.bare_len() as u64,
        });
        queue.grown = true;
        self.schedule(id);
        Some(position)
    }
}

fn find_targets(scene: Scene<'_>, letter: &Letter) -> (bool, Vec<QueueId>) {
    let mut targets = Vec::new();
    let router = scene.core.router();
    let Some(exchange) = router.exchange_named(&letter.route.exchange) else {
        return (true, targets);
    };
    router.route(exchange.id, &letter.route, &letter.message, &mut targets);
    (false, targets)
}

/// What is left of a message's absolute expiry, if that is in the future.
pub(super) fn absolute_ttl_ms(scene: Scene<'_>, message: &Message) -> Option<u64> {
    let expiry = message.absolute_expiry_time()?;
    u64::try_from(expiry.0 - scene.now.wall.0)
        .ok()
        .filter(|left| *left > 0)
}

/// The highest priority first, the oldest within it; a quorum queue gives two high for one normal.
fn next_to_deliver(queue: &super::model::ModelQueue) -> Option<usize> {
    let ready = |lane: Option<u64>| {
        let candidates = queue.messages.iter().filter(move |m| {
            m.state == ModelState::Ready && lane.is_none_or(|lane| m.position.0 >> 56 == lane)
        });
        candidates.map(|m| m.position)
    };
    let highest = ready(None).map(|position| position.0 >> 56).max()?;
    let quorum = queue.settings.queue_type == crate::broker::arguments::QueueType::Quorum;
    let turn_of_normal = quorum && queue.run == 2 && ready(Some(0)).next().is_some();
    let lane = if turn_of_normal { 0 } else { highest };
    queue.index(ready(Some(lane)).min()?)
}

fn advance_run(queue: &mut super::model::ModelQueue) {
    let waits = |lane: u64| {
        let mut ready = queue
            .messages
            .iter()
            .filter(|m| m.state == ModelState::Ready);
        ready.any(|m| m.position.0 >> 56 == lane)
    };
    if waits(0) && waits(1) {
        queue.run = (queue.run + 1) % 3;
    }
}

fn kill(
    queue: &mut super::model::ModelQueue,
    at: usize,
    reason: Reason,
) -> Option<(Position, Reason)> {
    let message = queue.messages.get_mut(at)?;
    message.state = ModelState::Dying;
    Some((message.position, reason))
}
