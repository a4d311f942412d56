//! The model's deaths, and messages entering queues and waiting for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::model::{Deaths, Model, ModelMessage, ModelQueue, ModelState, ModelWork, Scene};
use crate::base::{Name, Position, QueueId};
use crate::broker::DropCause;
use crate::broker::arguments::{
    DURATION_MS_MAX, DeadLetterStrategy, OnUndeliverable, Overflow, QueueType,
};
use crate::broker::names::QUARANTINE;
use crate::broker::policy::EffectiveSettings;
use crate::deaths::Reason;
use crate::message::{DeliveryTime, Message, Route};

/// A message about to enter queues.
struct Letter {
    message: Arc<Message>,
    route: Arc<Route>,
    /// The time to live; a dead letter has none.
    ttl_ms: Option<u64>,
    /// When it is ready, if its publisher said so; a dead letter is at once.
    due_ms: Option<u64>,
    carried: u32,
    deaths: Deaths,
}

/// The result of offering a message to queues.
#[derive(Default)]
struct Offered {
    accepted: usize,
    refused: Vec<QueueId>,
    /// Full queues that took a published message only to dead-letter it.
    killed: Vec<(QueueId, Position)>,
    cycled: usize,
    /// The first queue in which a cycle would have closed.
    closes_at: Option<QueueId>,
}

impl Model {
    /// Handles a death: records, sends, drops or keeps the message waiting.
    pub(super) fn die(&mut self, scene: Scene<'_>, id: QueueId, position: Position, why: Reason) {
        let Some(queue) = self.queues.get(&id) else {
            return;
        };
        let Some(message) = queue.index(position).and_then(|at| queue.messages.get(at)) else {
            return;
        };
        self.deaths.add(why);
        let exchange = queue.settings.dead_letter_exchange.clone();
        if exchange.is_none()
            && queue.settings.on_undeliverable != Some(OnUndeliverable::Quarantine)
        {
            let is_pushed_out = why == Reason::Maxlen && queue.name == QUARANTINE;
            let cause = if is_pushed_out {
                DropCause::QuarantineFull
            } else {
                DropCause::NoDeadLetterExchange
            };
            return self.drop_message(id, position, why, cause);
        }
        let mut deaths = message.deaths.clone();
        let known = deaths
            .iter()
            .position(|(q, reason, _)| *q == queue.name && *reason == why);
        let count = known.map_or(0, |at| deaths.remove(at).2);
        deaths.insert(0, (queue.name.clone(), why, count + 1));
        let letter = Letter {
            message: message.message.clone(),
            route: self.dead_route(id, exchange.as_ref(), &message.route),
            ttl_ms: None,
            due_ms: None,
            carried: message.carried + message.failures,
            deaths,
        };
        if exchange.is_some() {
            return self.send(scene, (id, position), why, letter, None);
        }
        let why = (why, DropCause::NoDeadLetterExchange);
        self.give_up(scene, (id, position), why, &letter, None);
    }

    /// The route of a dead letter; without a dead-letter exchange that by which it was published.
    fn dead_route(&self, id: QueueId, exchange: Option<&Name>, came_by: &Route) -> Arc<Route> {
        let Some(exchange) = exchange else {
            return Arc::new(came_by.clone());
        };
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

    pub(super) fn retry(&mut self, scene: Scene<'_>, id: QueueId, position: Position) {
        let Some(queue) = self.queues.get(&id) else {
            return;
        };
        let Some(message) = queue.index(position).and_then(|at| queue.messages.get(at)) else {
            return;
        };
        let ModelState::Pending { reason, targets } = message.state.clone() else {
            return;
        };
        let exchange = queue.settings.dead_letter_exchange.clone();
        let letter = Letter {
            message: message.message.clone(),
            route: self.dead_route(id, exchange.as_ref(), &message.route),
            ttl_ms: None,
            due_ms: None,
            carried: message.carried,
            deaths: message.deaths.clone(),
        };
        if exchange.is_some() {
            return self.send(scene, (id, position), reason, letter, targets);
        }
        let why = (reason, DropCause::PendingAbandoned);
        self.give_up(scene, (id, position), why, &letter, None);
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
            self.moved += u64::from(self.forget(id, position));
        } else {
            let (cause, closes_at) = if !offered.refused.is_empty() {
                (DropCause::TargetFull, None)
            } else if offered.cycled > 0 {
                (DropCause::Cycle, offered.closes_at)
            } else if exchange_missing {
                (DropCause::ExchangeMissing, None)
            } else {
                (DropCause::Unroutable, None)
            };
            self.give_up(scene, (id, position), (reason, cause), &letter, closes_at);
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

    /// Removes a message from its queue; whether it was there.
    fn forget(&mut self, id: QueueId, position: Position) -> bool {
        self.tickets.remove(&(id, position));
        let waited_for = self
            .waiters
            .get(&id)
            .is_some_and(|waiters| !waiters.is_empty());
        let mut was_there = false;
        if let Some(queue) = self.queues.get_mut(&id) {
            let before = queue.messages.len();
            queue
                .messages
                .retain(|message| message.position != position);
            was_there = queue.messages.len() < before;
        }
        if waited_for {
            self.schedule(id);
        }
        was_there
    }

    /// Handles a letter without a target: it moves to the quarantine, if that is set, or is
    /// dropped.
    fn give_up(
        &mut self,
        scene: Scene<'_>,
        (id, position): (QueueId, Position),
        (reason, cause): (Reason, DropCause),
        letter: &Letter,
        closes_at: Option<QueueId>,
    ) {
        let choice = self.undeliverable.choice;
        let said = self
            .queues
            .get(&id)
            .map(|queue| queue.settings.on_undeliverable);
        if said.is_none_or(|said| said.unwrap_or(choice) == OnUndeliverable::Drop) {
            return self.drop_message(id, position, reason, cause);
        }
        let closes_at = closes_at.and_then(|id| self.queues.get(&id));
        let path = closes_at.map_or_else(Vec::new, |queue| loop_of(&letter.deaths, &queue.name));
        let mut queues = self.queues.values();
        let known = queues.find(|queue| queue.name == QUARANTINE);
        let max = known.map_or(Some(self.undeliverable.bytes_max), |queue| {
            queue.settings.max_length_bytes
        });
        if max.is_some_and(|max| letter.message.bare_len() as u64 > max) {
            return self.drop_message(id, position, reason, DropCause::QuarantineFull);
        }
        let quarantine = self.quarantine(scene);
        let place = self.enter(scene, quarantine, letter, ModelState::Ready);
        if let Some(message) = place.and_then(|place| self.message_mut(quarantine, place)) {
            message.quarantined = Some((cause, path));
        }
        self.moved += u64::from(self.forget(id, position));
        let quarantined = self.quarantined.entry((Some(reason), cause));
        *quarantined.or_default() += 1;
    }

    /// The quarantine, which the core declared under the id that it assigned.
    fn quarantine(&mut self, scene: Scene<'_>) -> QueueId {
        let mut known = self.queues.iter();
        if let Some((id, _)) = known.find(|(_, queue)| queue.name == QUARANTINE) {
            return *id;
        }
        let Some(made) = scene.core.queue(QUARANTINE) else {
            self.complaints.push("no quarantine was made".to_owned());
            return QueueId(u64::MAX);
        };
        let settings = EffectiveSettings::of(&made.arguments, None, None);
        let queue = ModelQueue {
            name: QUARANTINE.to_owned(),
            settings: self.settings_in(QUARANTINE, settings),
            messages: Vec::new(),
            consumers: Vec::new(),
            active: None,
            places: BTreeMap::new(),
            run: 0,
            grown: false,
            scheduled: false,
            unused_since_ms: scene.now.mono.0,
            auto_delete: false,
        };
        self.queues.insert(made.id, queue);
        self.schedule(made.id);
        self.retry_all();
        if !scene.core.policies().is_empty() {
            self.policies_changed();
        }
        made.id
    }

    /// The settings of a queue of this name: the quarantine has rules of its own.
    pub(super) fn settings_in(&self, name: &str, settings: EffectiveSettings) -> EffectiveSettings {
        let mut settings = settings;
        if settings.queue_type == QueueType::Quorum {
            let given = settings.consumer_timeout_ms;
            settings.consumer_timeout_ms = given.or(Some(self.consumer_timeout_ms));
        }
        if name != QUARANTINE {
            return settings;
        }
        let least = |max: Option<u64>, own| Some(max.into_iter().fold(own, u64::min));
        EffectiveSettings {
            dead_letter_exchange: None,
            dead_letter_routing_key: None,
            dead_letter_rule: None,
            on_undeliverable: Some(OnUndeliverable::Drop),
            overflow: Overflow::DropHead,
            max_length: least(settings.max_length, self.undeliverable.length_max),
            max_length_bytes: least(settings.max_length_bytes, self.undeliverable.bytes_max),
            ..settings
        }
    }

    fn drop_message(&mut self, id: QueueId, position: Position, why: Reason, cause: DropCause) {
        self.forget(id, position);
        self.drop_some(Some(why), cause, 1);
    }

    /// Handles a message from a client; whether every queue took it.
    pub fn publish(
        &mut self,
        scene: Scene<'_>,
        (message, delivery_time): (&Arc<Message>, Option<DeliveryTime>),
        route: &Arc<Route>,
        targets: &[QueueId],
    ) -> bool {
        let own = message.ttl_ms().map(u64::from);
        let absolute = absolute_ttl_ms(scene, message);
        let letter = Letter {
            message: message.clone(),
            route: route.clone(),
            ttl_ms: own.into_iter().chain(absolute).min(),
            due_ms: delivery_time.and_then(|time| due_ms(scene, time)),
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
    fn offer(
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
                offered.closes_at.get_or_insert(target);
                continue;
            }
            let Some(queue) = self.queues.get(&target) else {
                continue;
            };
            let overflow = queue.settings.overflow;
            // No consumer can take what waits for its time.
            let is_full = |queue: &ModelQueue| match letter.due_ms {
                Some(_) => queue.has_no_room(size),
                None => queue.refuses(size),
            };
            let refuses = is_full(queue) && {
                self.serve(scene, target);
                self.queues.get(&target).is_some_and(is_full)
            };
            if refuses && overflow != Overflow::RejectPublishDlx {
                offered.refused.push(target);
                continue;
            }
            let state = if refuses {
                ModelState::Dying
            } else {
                letter.due_ms.map_or(ModelState::Ready, ModelState::Delayed)
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
        let subqueue = queue.subqueue(&letter.message);
        let place = queue.places.entry(subqueue).or_default();
        let position = Position((subqueue << 56) | *place);
        *place += 1;
        queue.messages.push(ModelMessage {
            position,
            state,
            message: letter.message.clone(),
            route: letter.route.clone(),
            arrived_ms: now_ms,
            ends_ms: letter.ttl_ms.map(|ttl_ms| now_ms + ttl_ms),
            held_since_ms: 0,
            failures: 0,
            acquired: 0,
            carried: letter.carried,
            deaths: letter.deaths.clone(),
            quarantined: None,
            size: letter.message.bare_len() as u64,
        });
        queue.grown = true;
        self.entered += 1;
        self.schedule(id);
        Some(position)
    }
}

/// The queues of the cycle that would close at `target`, in the order in which they were passed.
fn loop_of(deaths: &Deaths, target: &str) -> Vec<String> {
    let mut path = Vec::new();
    for (queue, _, _) in deaths {
        if path.last() != Some(queue) {
            path.push(queue.clone());
        }
        if queue == target {
            break;
        }
    }
    path.reverse();
    path.push(target.to_owned());
    path
}

fn find_targets(scene: Scene<'_>, letter: &Letter) -> (bool, Vec<QueueId>) {
    let mut targets = Vec::new();
    let router = scene.core.router();
    let Some(exchange) = router.exchange_named(&letter.route.exchange) else {
        return (true, targets);
    };
    router.route(exchange.id, &letter.route, &letter.message, 0, &mut targets);
    (false, targets)
}

/// When a message is ready whose publisher named a time, if not at once.
fn due_ms(scene: Scene<'_>, time: DeliveryTime) -> Option<u64> {
    let left_ms = match time {
        DeliveryTime::At(instant) => instant
            .0
            .saturating_sub(scene.now.wall.0)
            .max(0)
            .cast_unsigned(),
        DeliveryTime::After(delay_ms) => delay_ms,
    };
    (left_ms > 0).then(|| scene.now.mono.0 + left_ms.min(DURATION_MS_MAX))
}

/// The time left until a message's absolute expiry, if it has one: 0 is none.
fn absolute_ttl_ms(scene: Scene<'_>, message: &Message) -> Option<u64> {
    match message.absolute_expiry_time()?.0 {
        0 => None,
        expiry => Some((expiry - scene.now.wall.0).max(0).cast_unsigned()),
    }
}
