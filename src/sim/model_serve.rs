//! The model's serving of queues.

use super::model::{Model, ModelMessage, ModelQueue, ModelState, ModelWork, Scene};
use crate::base::{Position, QueueId};
use crate::broker::DropCause;
use crate::broker::arguments::{Overflow, QueueType};
use crate::deaths::Reason;

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
                ModelWork::Requeue(id, consumer, failed) => {
                    let Some(queue) = self.queues.get(&id) else {
                        continue;
                    };
                    let held = ModelState::Held(consumer);
                    let back = queue.messages.iter().filter(|m| m.state == held);
                    let mut back: Vec<Position> = back.map(|m| m.position).collect();
                    back.sort_unstable();
                    for position in back {
                        self.requeue(scene, id, position, failed, None);
                    }
                }
                ModelWork::TimeOut(id, position, consumer) => {
                    self.time_out(scene, (id, position), consumer);
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

    /// Applies policies by name, as the core does.
    fn apply_policies(&mut self, scene: Scene<'_>) {
        let mut ids: Vec<_> = self
            .queues
            .iter()
            .map(|(id, q)| (q.name.clone(), *id))
            .collect();
        ids.sort_unstable();
        for (_, id) in ids {
            let Some(queue) = self.queues.get(&id) else {
                continue;
            };
            let Some(real) = scene.core.queue(&queue.name) else {
                continue;
            };
            let settings = scene.core.policies().settings(&queue.name, &real.arguments);
            let settings = self.settings_in(&queue.name, settings);
            let Some(queue) = self.queues.get_mut(&id) else {
                continue;
            };
            if queue.settings != settings {
                if queue.settings.expires_ms != settings.expires_ms {
                    queue.unused_since_ms = scene.now.mono.0;
                }
                queue.settings = settings;
                queue.grown = true;
                self.schedule(id);
            }
        }
        self.retry_all();
    }

    pub(super) fn serve(&mut self, scene: Scene<'_>, id: QueueId) {
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
        self.end_delays(now_ms, id);
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
        let fed = queue.consumers.iter().map(|it| queue.is_fed(it));
        let fed: Vec<bool> = fed.collect();
        for (consumer, fed) in queue.consumers.iter_mut().zip(fed) {
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
                .map(|consumer| consumer.id);
            let Some(consumer) = consumer else {
                self.complaints
                    .push(format!("{id} {position}: not delivered, or to {taker:?}"));
                return dead;
            };
            if let Some(consumer) = queue.consumers.iter_mut().find(|c| c.id == consumer) {
                consumer.assigned += 1;
            }
            if let Some(message) = queue.messages.get_mut(at) {
                message.state = ModelState::Held(consumer);
                message.held_since_ms = now_ms;
            }
        }
    }

    /// Expires messages in the order of the deadlines: first by the queue's own ttl, priority by
    /// priority, then by the messages' own.
    fn expire(&mut self, now_ms: u64, id: QueueId) -> Vec<(Position, Reason)> {
        let Some(queue) = self.queues.get_mut(&id) else {
            return Vec::new();
        };
        let queue_ttl_ms = queue.settings.message_ttl_ms;
        let mut due = Vec::new();
        let waits =
            |m: &&ModelMessage| matches!(m.state, ModelState::Ready | ModelState::Delayed(_));
        for message in queue.messages.iter().filter(waits) {
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

    /// Makes messages ready whose time has come.
    fn end_delays(&mut self, now_ms: u64, id: QueueId) {
        let Some(queue) = self.queues.get_mut(&id) else {
            return;
        };
        for message in &mut queue.messages {
            if matches!(message.state, ModelState::Delayed(due_ms) if due_ms <= now_ms) {
                message.state = ModelState::Ready;
            }
        }
    }

    fn enforce(&mut self, id: QueueId) -> Vec<(Position, Reason)> {
        let mut dead = Vec::new();
        let Some(queue) = self.queues.get_mut(&id) else {
            return dead;
        };
        if queue.grown && queue.settings.overflow == Overflow::DropHead {
            while queue.is_over(queue.load()) {
                let first = |is_wanted: fn(&ModelState) -> bool| {
                    let wanted = queue.messages.iter().filter(|m| is_wanted(&m.state));
                    wanted.map(|m| m.position).min()
                };
                let ready = first(|state| *state == ModelState::Ready);
                let delayed = || first(|state| matches!(state, ModelState::Delayed(_)));
                let Some(first) = ready.or_else(delayed) else {
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
            if size.is_some_and(|size| queue.has_no_room(size)) {
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
}

/// The next message: the highest priority first, the oldest within it; a quorum queue gives two
/// high for one normal.
fn next_to_deliver(queue: &ModelQueue) -> Option<usize> {
    let ready = |subqueue: Option<u64>| {
        let candidates = queue.messages.iter().filter(move |m| {
            m.state == ModelState::Ready
                && subqueue.is_none_or(|subqueue| m.position.0 >> 56 == subqueue)
        });
        candidates.map(|m| m.position)
    };
    let highest = ready(None).map(|position| position.0 >> 56).max()?;
    let quorum = queue.settings.queue_type == QueueType::Quorum;
    let turn_of_normal = quorum && queue.run == 2 && ready(Some(0)).next().is_some();
    let subqueue = if turn_of_normal { 0 } else { highest };
    queue.index(ready(Some(subqueue)).min()?)
}

fn advance_run(queue: &mut ModelQueue) {
    let waits = |subqueue: u64| {
        let mut ready = queue
            .messages
            .iter()
            .filter(|m| m.state == ModelState::Ready);
        ready.any(|m| m.position.0 >> 56 == subqueue)
    };
    if waits(0) && waits(1) {
        queue.run = (queue.run + 1) % 3;
    }
}

fn kill(queue: &mut ModelQueue, at: usize, reason: Reason) -> Option<(Position, Reason)> {
    let message = queue.messages.get_mut(at)?;
    message.state = ModelState::Dying;
    Some((message.position, reason))
}
