//! A naive model of one vhost: plain vectors, searched from the front every time.
//!
//! It shares no code with the queues: no blocks, no bits, no timer index, no waiters. It takes two
//! things from the core, which are not under test here: settings computed from arguments and
//! policies, and routing (both have tests of their own).

use std::collections::{BTreeMap, VecDeque};

use crate::base::limits::CONSUMER_LOOK_IDLE_MS;
use crate::base::{ConsumerId, Now, Position, QueueId, Seed, Timestamp};
use crate::broker::arguments::{DURATION_MS_MAX, Overflow};
use crate::broker::delay::Draw;
use crate::broker::policy::EffectiveSettings;
use crate::broker::{ByReason, Core, DropCause, Outcome, Undeliverable};
use crate::deaths::Reason;

/// The entries of a message's history: queue, reason, count.
pub(super) type Deaths = Vec<(String, Reason, u64)>;

/// The state of a message in a queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum ModelState {
    Ready,
    Held(ConsumerId),
    Dying,
    /// It waits until this time, in milliseconds of the monotonic clock.
    Delayed(u64),
    Pending {
        reason: Reason,
        targets: Option<Vec<QueueId>>,
    },
}

/// One message in one queue.
#[derive(Clone, Debug)]
pub(super) struct ModelMessage {
    pub(super) position: Position,
    pub(super) state: ModelState,
    /// The message as published, to encode and route it again.
    pub(super) message: std::sync::Arc<crate::message::Message>,
    pub(super) route: std::sync::Arc<crate::message::Route>,
    pub(super) arrived_ms: u64,
    /// The end of its own time to live, on the monotonic clock.
    pub(super) ends_ms: Option<u64>,
    /// When it was delivered, if it is held.
    pub(super) held_since_ms: u64,
    pub(super) failures: u32,
    pub(super) acquired: u32,
    pub(super) carried: u32,
    pub(super) deaths: Deaths,
    /// Why it is in the quarantine, and the queues of its cycle.
    pub(super) quarantined: Option<(DropCause, Vec<String>)>,
    pub(super) size: u64,
}

/// A consumer as the model knows it.
#[derive(Clone, Debug)]
pub(super) struct ModelConsumer {
    pub(super) id: ConsumerId,
    pub(super) limit: u64,
    pub(super) assigned: u64,
    pub(super) draining: bool,
    /// How long it may hold a delivery: 0: for ever, none: as its queue says.
    pub(super) timeout_ms: Option<u32>,
    /// Deliveries that it held for too long and has not settled.
    pub(super) timed_out: u32,
}

/// One queue of the model.
#[derive(Clone, Debug)]
pub(super) struct ModelQueue {
    pub(super) name: String,
    pub(super) settings: EffectiveSettings,
    pub(super) messages: Vec<ModelMessage>,
    pub(super) consumers: Vec<ModelConsumer>,
    /// The consumer that gets messages, of a queue where only one does.
    pub(super) active: Option<ConsumerId>,
    /// Number of messages that each priority ever had.
    pub(super) places: BTreeMap<u64, u64>,
    /// Number of high-priority deliveries in a row, in a quorum queue.
    pub(super) run: u8,
    pub(super) grown: bool,
    pub(super) scheduled: bool,
    pub(super) unused_since_ms: u64,
    pub(super) auto_delete: bool,
}

/// Work that follows, first in, first out, as the core promises.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum ModelWork {
    Serve(QueueId),
    Die(QueueId, Position, Reason),
    Retry(QueueId),
    RetryWaiter(QueueId, QueueId, Position),
    Requeue(QueueId, ConsumerId, bool),
    TimeOut(QueueId, Position, ConsumerId),
    ApplyPolicies,
}

/// The state of the model.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// The seed of the core, from which jitter is drawn.
    pub(super) seed: u64,
    pub(super) queues: BTreeMap<QueueId, ModelQueue>,
    pub(super) work: VecDeque<ModelWork>,
    /// Dead letters that wait for room: by target, in order of their first waiting.
    pub(super) waiters: BTreeMap<QueueId, Vec<(u64, QueueId, Position)>>,
    pub(super) tickets: BTreeMap<(QueueId, Position), u64>,
    pub(super) next_ticket: u64,
    pub(super) drops: BTreeMap<(Option<Reason>, DropCause), u64>,
    /// What happens to dead letters without a target.
    pub(super) undeliverable: Undeliverable,
    pub(super) quarantined: BTreeMap<(Option<Reason>, DropCause), u64>,
    /// Number of copies that ever entered a queue; the number that left because others took the
    /// letter follows.
    pub(super) entered: u64,
    pub(super) moved: u64,
    pub(super) deaths: ByReason,
    pub(super) dead_lettered: u64,
    pub(super) copies_refused: u64,
    /// How long consumers of quorum queues may hold a delivery, where nothing else says.
    pub(super) consumer_timeout_ms: u64,
    /// Deliveries that consumers held for too long.
    pub timed_out: u64,
    /// Those of them that were settled afterwards.
    pub settled_late: u64,
    /// Messages that somebody made ready before their time.
    pub retried: u64,
    /// Deliveries that the core made in this step, by position, with the consumer. The model must
    /// predict all.
    pub(super) observed: BTreeMap<(QueueId, Position), ConsumerId>,
    /// Deliveries that the model predicted and the core did not make, and other contradictions.
    pub(super) complaints: Vec<String>,
}

/// The inputs of the model's decisions.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// The current time.
    pub now: Now,
    /// The core, for routing and settings only.
    pub core: &'a Core,
}

impl ModelQueue {
    pub(super) fn index(&self, position: Position) -> Option<usize> {
        self.messages
            .iter()
            .position(|message| message.position == position)
    }

    pub(super) fn count(&self, wanted: impl Fn(&ModelState) -> bool) -> u64 {
        self.messages
            .iter()
            .filter(|message| wanted(&message.state))
            .count() as u64
    }

    pub(super) fn ready(&self) -> u64 {
        self.count(|state| *state == ModelState::Ready)
    }

    pub(super) fn subqueue(&self, message: &crate::message::Message) -> u64 {
        use crate::broker::arguments::QueueType;
        let priority = u64::from(message.priority().unwrap_or(0));
        match (self.settings.queue_type, self.settings.max_priority) {
            (QueueType::Quorum, _) => u64::from(message.priority().unwrap_or(4) > 4),
            (QueueType::Classic, max) => priority.min(u64::from(max.unwrap_or(0))),
        }
    }

    /// Number and bytes of messages that count for the limits.
    pub(super) fn load(&self) -> (u64, u64) {
        let counts = |m: &&ModelMessage| {
            matches!(
                m.state,
                ModelState::Ready | ModelState::Delayed(_) | ModelState::Pending { .. }
            )
        };
        let counted = self.messages.iter().filter(counts);
        counted.fold((0, 0), |(count, bytes), m| (count + 1, bytes + m.size))
    }

    pub(super) fn is_over(&self, (count, bytes): (u64, u64)) -> bool {
        self.settings.max_length.is_some_and(|max| count > max)
            || self
                .settings
                .max_length_bytes
                .is_some_and(|max| bytes > max)
    }

    fn would_overflow(&self, size: u64) -> bool {
        let (count, bytes) = self.load();
        self.is_over((count + 1, bytes + size))
    }

    /// Whether it would refuse a message: it is full, and no consumer waits for just this message.
    pub(super) fn refuses(&self, size: u64) -> bool {
        let taker = self.ready() == 0 && self.takers().next().is_some();
        self.has_no_room(size) && !taker
    }

    /// Whether it is too full for one more, unless a consumer waits for it.
    pub(super) fn has_no_room(&self, size: u64) -> bool {
        let drops = self.settings.overflow == Overflow::DropHead && !self.is_full_of_pending();
        self.would_overflow(size) && !drops
    }

    fn is_full_of_pending(&self) -> bool {
        let pending = |m: &&ModelMessage| matches!(m.state, ModelState::Pending { .. });
        let count = self.messages.iter().filter(pending).count() as u64;
        let bytes: u64 = self.messages.iter().filter(pending).map(|m| m.size).sum();
        count > 0
            && (self.settings.max_length.is_some_and(|max| count >= max)
                || self
                    .settings
                    .max_length_bytes
                    .is_some_and(|max| bytes >= max))
    }

    /// When a message expires in this queue.
    pub(super) fn end_of(&self, message: &ModelMessage) -> Option<u64> {
        let by_queue = self
            .settings
            .message_ttl_ms
            .map(|ttl_ms| message.arrived_ms + ttl_ms);
        match (by_queue, message.ends_ms) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// The consumers that could take a message now.
    pub(super) fn takers(&self) -> impl Iterator<Item = &ModelConsumer> {
        let hungry = |consumer: &&ModelConsumer| consumer.assigned < consumer.limit;
        let fed = self.consumers.iter().filter(|it| self.is_fed(it));
        fed.filter(hungry)
    }

    /// Whether a consumer gets messages at all.
    pub(super) fn is_fed(&self, consumer: &ModelConsumer) -> bool {
        let is_active = self.active == Some(consumer.id);
        consumer.timed_out == 0 && (is_active || !self.settings.single_active_consumer)
    }

    /// Chooses who is active, if nobody is: the longest attached that settled in time.
    pub(super) fn choose_active(&mut self) {
        let is_able = |consumer: &&ModelConsumer| consumer.timed_out == 0;
        let active = self.consumers.iter().find(|it| Some(it.id) == self.active);
        if active.is_none_or(|active| !is_able(&active)) {
            let next = self.consumers.iter().find(is_able);
            self.active = next.map(|next| next.id);
        }
    }

    /// How long this consumer may hold a delivery; none: for ever.
    fn timeout_of(&self, consumer: ConsumerId) -> Option<u64> {
        let consumer = self.consumers.iter().find(|it| it.id == consumer)?;
        let own = consumer.timeout_ms.map(u64::from);
        own.or(self.settings.consumer_timeout_ms)
            .filter(|timeout_ms| *timeout_ms > 0)
    }

    /// Whether a message is held for longer than it may be.
    pub(super) fn is_overdue(&self, message: &ModelMessage, now_ms: u64) -> bool {
        let ModelState::Held(consumer) = message.state else {
            return false;
        };
        let timeout_ms = self.timeout_of(consumer);
        timeout_ms.is_some_and(|ms| message.held_since_ms + ms <= now_ms)
    }
}

impl Model {
    /// A consumer settled a delivery.
    pub fn settle(
        &mut self,
        scene: Scene<'_>,
        queue: QueueId,
        position: Position,
        consumer: ConsumerId,
        outcome: &Outcome,
    ) {
        let Some(at) = self.held_at(queue, position, consumer) else {
            return self.settle_late(queue, consumer);
        };
        match outcome {
            Outcome::Accepted => {
                if let Some(queue) = self.queues.get_mut(&queue) {
                    queue.messages.remove(at);
                }
            }
            Outcome::Released => self.requeue(scene, queue, position, false, None),
            Outcome::Rejected { .. } => self.reject(scene, queue, position, true),
            Outcome::Modified {
                delivery_failed,
                undeliverable_here: true,
                ..
            } => {
                self.reject(scene, queue, position, *delivery_failed);
            }
            Outcome::Modified {
                delivery_failed,
                annotations,
                ..
            } => {
                let named = annotations.as_ref();
                let named = named.and_then(|map| crate::message::delivery_time(map));
                self.requeue(scene, queue, position, *delivery_failed, named);
            }
        }
    }

    /// A consumer settled a delivery that it had held for too long, if it had.
    fn settle_late(&mut self, id: QueueId, consumer: ConsumerId) {
        let Some(queue) = self.queues.get_mut(&id) else {
            return;
        };
        let found = queue.consumers.iter_mut().find(|it| it.id == consumer);
        if let Some(consumer) = found.filter(|consumer| consumer.timed_out > 0) {
            consumer.timed_out -= 1;
            self.settled_late += 1;
            if consumer.timed_out == 0 {
                queue.choose_active();
                self.schedule(id);
            }
        }
    }

    /// A consumer held a delivery for too long, as the core says.
    pub(super) fn time_out(
        &mut self,
        scene: Scene<'_>,
        (id, position): (QueueId, Position),
        consumer: ConsumerId,
    ) {
        let overdue = self.held_at(id, position, consumer).and_then(|at| {
            let queue = self.queues.get_mut(&id)?;
            let message = queue.messages.get(at)?;
            queue.is_overdue(message, scene.now.mono.0).then_some(queue)
        });
        let Some(queue) = overdue else {
            let complaint = format!("{id} {position}: taken from {consumer} too early");
            return self.complaints.push(complaint);
        };
        let mut consumers = queue.consumers.iter_mut();
        if let Some(consumer) = consumers.find(|it| it.id == consumer) {
            consumer.timed_out += 1;
            self.timed_out += 1;
        }
        queue.choose_active();
        self.requeue(scene, id, position, false, None);
    }

    fn held_at(&self, queue: QueueId, position: Position, consumer: ConsumerId) -> Option<usize> {
        let queue = self.queues.get(&queue)?;
        let at = queue.index(position)?;
        (queue.messages.get(at)?.state == ModelState::Held(consumer)).then_some(at)
    }

    fn reject(&mut self, scene: Scene<'_>, queue: QueueId, position: Position, failed: bool) {
        if let Some(message) = self.message_mut(queue, position) {
            message.failures += u32::from(failed);
        }
        self.die(scene, queue, position, Reason::Rejected);
    }

    pub(super) fn message_mut(
        &mut self,
        queue: QueueId,
        position: Position,
    ) -> Option<&mut ModelMessage> {
        let queue = self.queues.get_mut(&queue)?;
        let at = queue.index(position)?;
        queue.messages.get_mut(at)
    }

    pub(super) fn requeue(
        &mut self,
        scene: Scene<'_>,
        id: QueueId,
        position: Position,
        failed: bool,
        named: Option<Timestamp>,
    ) {
        let Some(message) = self.message_mut(id, position) else {
            return;
        };
        message.failures += u32::from(failed);
        message.acquired += 1;
        let failures = message.failures;
        let Some(queue) = self.queues.get(&id) else {
            return;
        };
        let end = queue
            .index(position)
            .and_then(|at| queue.end_of(queue.messages.get(at)?));
        let limit = queue.settings.delivery_limit;
        if failed && limit.is_some_and(|limit| failures > limit) {
            self.die(scene, id, position, Reason::DeliveryLimit);
        } else if end.is_some_and(|end| end <= scene.now.mono.0) {
            self.die(scene, id, position, Reason::Expired);
        } else {
            let due_ms = self.due_ms(scene, (id, position), (failed, failures), named);
            if let Some(message) = self.message_mut(id, position) {
                message.state = due_ms.map_or(ModelState::Ready, ModelState::Delayed);
            }
            if let Some(queue) = self.queues.get_mut(&id) {
                queue.grown = true;
            }
            self.schedule(id);
        }
    }

    /// When a message that comes back is ready again, if not at once.
    fn due_ms(
        &self,
        scene: Scene<'_>,
        (queue, position): (QueueId, Position),
        (failed, failures): (bool, u32),
        named: Option<Timestamp>,
    ) -> Option<u64> {
        let now_ms = scene.now.mono.0;
        if let Some(named) = named {
            let left_ms = u64::try_from(named.0.saturating_sub(scene.now.wall.0)).unwrap_or(0);
            return (left_ms > 0).then(|| now_ms + left_ms.min(DURATION_MS_MAX));
        }
        let draw = Draw {
            seed: Seed(self.seed),
            queue,
            position,
        };
        let retry = self.queues.get(&queue)?.settings.delayed_retry?;
        Some(now_ms + retry.delay_ms(failed, failures, draw)?)
    }

    /// Removes a detached consumer; its deliveries are requeued.
    pub fn detach(&mut self, scene: Scene<'_>, id: QueueId, consumer: ConsumerId, failed: bool) {
        let Some(queue) = self.queues.get_mut(&id) else {
            return;
        };
        queue.consumers.retain(|other| other.id != consumer);
        queue.choose_active();
        if queue.consumers.is_empty() {
            queue.unused_since_ms = scene.now.mono.0;
            if queue.auto_delete {
                self.remove_queue(id, DropCause::QueueDeleted);
                return;
            }
        }
        if queue.count(|state| *state == ModelState::Held(consumer)) > 0 {
            self.work
                .push_back(ModelWork::Requeue(id, consumer, failed));
        }
        self.schedule(id);
    }

    /// Removes a queue with its messages.
    pub fn remove_queue(&mut self, id: QueueId, cause: DropCause) {
        let Some(queue) = self.queues.remove(&id) else {
            return;
        };
        let pending = queue.count(|state| matches!(state, ModelState::Pending { .. }));
        self.drop_some(None, cause, queue.messages.len() as u64 - pending);
        self.drop_some(None, DropCause::PendingAbandoned, pending);
        self.retry_all();
    }

    /// Drops the ready messages of a queue.
    pub fn purge(&mut self, id: QueueId, with_dead_pending: bool) {
        let Some(queue) = self.queues.get_mut(&id) else {
            return;
        };
        let is_purged =
            |state: &ModelState| matches!(state, ModelState::Ready | ModelState::Delayed(_));
        let ready = queue.count(is_purged);
        queue.messages.retain(|message| !is_purged(&message.state));
        if with_dead_pending {
            let mut dropped = Vec::new();
            queue.messages.retain(|message| match message.state {
                ModelState::Pending { reason, .. } => {
                    dropped.push(reason);
                    false
                }
                _ => true,
            });
            for reason in dropped {
                self.drop_some(Some(reason), DropCause::Purged, 1);
            }
        }
        self.drop_some(None, DropCause::Purged, ready);
        self.schedule(id);
    }

    /// The name of the first queue with messages that wait for their time.
    pub fn delaying(&self) -> Option<&str> {
        let waits = |state: &ModelState| matches!(state, ModelState::Delayed(_));
        let mut queues = self.queues.values();
        let queue = queues.find(|queue| queue.count(waits) > 0);
        queue.map(|queue| &*queue.name)
    }

    /// Makes messages ready before their time, those due first; the core says that it made so many.
    pub fn retry_delayed(&mut self, id: QueueId, count: u64, told: u64) {
        let Some(queue) = self.queues.get_mut(&id) else {
            return;
        };
        let mut waiting: Vec<(u64, Position)> = Vec::new();
        for message in &queue.messages {
            if let ModelState::Delayed(due_ms) = message.state {
                waiting.push((due_ms, message.position));
            }
        }
        waiting.sort_unstable();
        waiting.truncate(usize::try_from(count).unwrap_or(usize::MAX));
        if waiting.len() as u64 != told {
            let why = format!(
                "{told} messages of queue {} were retried, not {waiting:?}",
                id.0
            );
            self.complaints.push(why);
        }
        for (_, position) in waiting {
            if let Some(index) = queue.index(position)
                && let Some(message) = queue.messages.get_mut(index)
            {
                message.state = ModelState::Ready;
                self.retried += 1;
            }
        }
        self.schedule(id);
    }

    pub(super) fn drop_some(&mut self, reason: Option<Reason>, cause: DropCause, count: u64) {
        if count > 0 {
            *self.drops.entry((reason, cause)).or_default() += count;
        }
    }

    pub(super) fn schedule(&mut self, id: QueueId) {
        if let Some(queue) = self.queues.get_mut(&id)
            && !std::mem::replace(&mut queue.scheduled, true)
        {
            self.work.push_back(ModelWork::Serve(id));
        }
    }

    /// Sends waiting dead letters again after a change of topology or policies.
    pub fn retry_all(&mut self) {
        for (id, queue) in &self.queues {
            let waits = queue.count(|state| matches!(state, ModelState::Pending { .. })) > 0;
            if waits && !self.work.contains(&ModelWork::Retry(*id)) {
                self.work.push_back(ModelWork::Retry(*id));
            }
        }
    }

    /// Notes deliveries that are held for too long and were not taken back, also not at the next
    /// look that is due in a queue of which nothing was held.
    pub fn complain_of_overdue(&mut self, now_ms: u64) {
        for (id, queue) in &self.queues {
            let overdue =
                |message: &&ModelMessage| queue.is_overdue(message, now_ms - CONSUMER_LOOK_IDLE_MS);
            for message in queue.messages.iter().filter(overdue) {
                let position = message.position;
                self.complaints
                    .push(format!("{id} {position}: held for too long"));
            }
        }
    }

    /// Serves queues with passed deadlines.
    pub fn wake_due(&mut self, now_ms: u64) {
        let due = |queue: &ModelQueue| {
            queue.messages.iter().any(|message| {
                let ends = queue.end_of(message).is_some_and(|end| end <= now_ms);
                match message.state {
                    ModelState::Ready => ends,
                    ModelState::Delayed(due_ms) => ends || due_ms <= now_ms,
                    _ => false,
                }
            })
        };
        let due: Vec<_> = self
            .queues
            .iter()
            .filter(|(_, q)| due(q))
            .map(|(id, _)| *id)
            .collect();
        for id in due {
            self.schedule(id);
        }
    }

    /// Applies changed policies: all queues get their settings, then waiting dead letters are sent
    /// again.
    pub fn policies_changed(&mut self) {
        // A waiting pass includes this change.
        if !self.work.contains(&ModelWork::ApplyPolicies) {
            self.work.push_back(ModelWork::ApplyPolicies);
        }
    }
}
