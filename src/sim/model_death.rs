//! The model's messages dying, entering queues and waiting for them.

use std::sync::Arc;

use super::model::{Deaths, Model, ModelMessage, ModelState, ModelWork, Scene};
use crate::base::{Name, Position, QueueId};
use crate::broker::DropCause;
use crate::broker::arguments::{DeadLetterStrategy, Overflow};
use crate::deaths::Reason;
use crate::message::{Message, Route};

/// A message about to enter queues.
struct Letter {
    message: Arc<Message>,
    route: Arc<Route>,
    /// A dead letter has none.
    ttl_ms: Option<u64>,
    carried: u32,
    deaths: Deaths,
}

/// What came of offering a message to queues.
#[derive(Default)]
struct Offered {
    accepted: usize,
    refused: Vec<QueueId>,
    /// Full queues that took what was published only to kill it.
    killed: Vec<(QueueId, Position)>,
    cycled: usize,
}

impl Model {
    /// A message dies: recorded, sent on, dropped or left waiting.
    pub(super) fn die(&mut self, scene: Scene<'_>, id: QueueId, position: Position, why: Reason) {
        let Some(queue) = self.queues.get(&id) else {
            return;
        };
        let Some(message) = queue.index(position).and_then(|at| queue.messages.get(at)) else {
            return;
        };
        self.deaths.add(why);
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
            ttl_ms: None,
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
        let Some(exchange) = queue.settings.dead_letter_exchange.clone() else {
            return self.drop_message(id, position, reason, DropCause::PendingAbandoned);
        };
        let letter = Letter {
            message: message.message.clone(),
            route: self.dead_route(id, &exchange, &message.route),
            ttl_ms: None,
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
                continue;
            }
            let Some(queue) = self.queues.get(&target) else {
                continue;
            };
            let overflow = queue.settings.overflow;
            let refuses = queue.refuses(size) && {
                self.serve(scene, target);
                let queue = self.queues.get(&target);
                queue.is_some_and(|queue| queue.refuses(size))
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
    router.route(exchange.id, &letter.route, &letter.message, 0, &mut targets);
    (false, targets)
}

/// What is left of a message's absolute expiry, if it has one: 0 is none.
fn absolute_ttl_ms(scene: Scene<'_>, message: &Message) -> Option<u64> {
    match message.absolute_expiry_time()?.0 {
        0 => None,
        expiry => Some((expiry - scene.now.wall.0).max(0).cast_unsigned()),
    }
}
