//! A message arrives from a client.

use std::sync::Arc;

use super::admission::{Admission, Arrival, Entered, size_bytes};
use super::death::Dying;
use super::{Core, Turn};
use crate::base::limits::ROUTED_QUEUES_MAX;
#[cfg(test)]
use crate::base::plant::{Plant, is_planted};
use crate::base::{ExchangeId, Lsn, Name, Now, Position, QueueId, Step};
use crate::broker::exchange::{Exchange, ExchangeKind};
use crate::broker::queue::MessageState;
use crate::broker::router::DEFAULT_EXCHANGE;
use crate::broker::{Effect, Entries, Fact, Publish, PublishOutcome, Target};
use crate::deaths::Reason;
use crate::message::{Message, Route};

impl Core {
    pub(super) fn publish(&mut self, turn: &mut Turn<'_>, publish: Publish) {
        self.counters.published += 1;
        let blob = publish.message.blob().map(|body| **body);
        let exchange = self.publish_exchange(&publish);
        let Publish {
            connection,
            publisher,
            token,
            settled,
            message,
            route,
            ..
        } = publish;
        let outcome = match exchange {
            Ok(exchange) => self.route_publish(turn, exchange, message, route),
            Err(outcome) => outcome,
        };
        if let Some(body) = blob {
            // Those that it entered name it now; if there are none, it goes.
            self.recorder.unname(body);
        }
        match &outcome {
            PublishOutcome::Accepted => self.counters.accepted += 1,
            PublishOutcome::QueueFull { .. } | PublishOutcome::TooManyQueues { .. } => {
                self.counters.refused += 1;
            }
            _ => self.counters.unroutable += 1,
        }
        if !settled {
            let lsn = self.recorder.lsn();
            let effect = Effect::Published {
                publisher,
                token,
                outcome,
                lsn,
            };
            turn.effects.outgoing.push((connection, effect));
        }
    }

    fn publish_exchange(&self, publish: &Publish) -> Result<ExchangeId, PublishOutcome> {
        let exchange = match publish.target {
            Target::Attached(DEFAULT_EXCHANGE) => return Ok(DEFAULT_EXCHANGE),
            Target::Named if publish.route.exchange.is_empty() => return Ok(DEFAULT_EXCHANGE),
            Target::Attached(id) => self.router.exchange(id),
            Target::Named => self.router.exchange_named(&publish.route.exchange),
        };
        let name = || publish.route.exchange.clone();
        match exchange {
            None => Err(PublishOutcome::NoExchange { exchange: name() }),
            Some(exchange) if exchange.spec.internal => {
                Err(PublishOutcome::Internal { exchange: name() })
            }
            Some(exchange) => match forbidden_key(exchange, publish) {
                None => Ok(exchange.id),
                Some(key) => Err(PublishOutcome::Forbidden {
                    exchange: name(),
                    key: key.clone(),
                }),
            },
        }
    }

    fn route_publish(
        &mut self,
        turn: &mut Turn<'_>,
        exchange: ExchangeId,
        message: Arc<Message>,
        route: Arc<Route>,
    ) -> PublishOutcome {
        let meter = &mut turn.effects.meter;
        let targets = (self.routed).find(&self.router, exchange, (&route, &*message), meter);
        let (count, first) = (targets.len(), targets.first().copied());
        self.router.count(exchange, count);
        let Some(first) = first else {
            return PublishOutcome::Unroutable;
        };
        if count == 1 && self.has_room(first, size_bytes(&message)) {
            self.publish_to(turn.now, first, message, route);
            return PublishOutcome::Accepted;
        }
        if count > ROUTED_QUEUES_MAX {
            return PublishOutcome::TooManyQueues { count };
        }
        turn.effects.meter.charge(Step::Entry, count - 1);
        let routed = std::mem::take(&mut self.routed);
        let targets = routed.targets();
        #[cfg(test)]
        let targets = match targets.split_last() {
            Some((_, targets)) if is_planted(Plant::CopyForgotten) && count > 1 => targets,
            _ => targets,
        };
        let outcome = self.publish_into(turn, targets, message, route);
        self.routed = routed;
        outcome
    }

    /// The usual case: a message for one queue, which has room for it.
    #[inline]
    fn publish_to(&mut self, now: Now, target: QueueId, message: Arc<Message>, route: Arc<Route>) {
        let body = self.name_body(&message);
        let arrival = Arrival::new(now, message, route, body);
        let at = self.recorder.len();
        let entered = self.enter(now, target, arrival, MessageState::Ready);
        let Some(Entered { entry, known }) = entered else {
            return;
        };
        if let Some((message, route)) = known {
            let insertion = Fact::Inserted {
                message,
                route,
                body: self.recorder.body(body),
                entries: Entries::from_elem(entry, 1),
            };
            self.recorder.push_insertion(at, insertion);
        }
    }

    /// What names the bare bytes of a message that arrives.
    fn name_body(&mut self, message: &Message) -> Lsn {
        match message.blob() {
            Some(body) => **body,
            None => self.recorder.name_body(),
        }
    }

    fn publish_into(
        &mut self,
        turn: &mut Turn<'_>,
        targets: &[QueueId],
        message: Arc<Message>,
        route: Arc<Route>,
    ) -> PublishOutcome {
        let Some((last, others)) = targets.split_last() else {
            return PublishOutcome::Unroutable;
        };
        let body = self.name_body(&message);
        let arrival = Arrival::new(turn.now, message, route, body);
        let insertion_at = self.recorder.len();
        let mut offered = Offered::default();
        for target in others {
            self.offer(turn, *target, arrival.clone(), &mut offered);
        }
        self.offer(turn, *last, arrival, &mut offered);
        let Offered {
            entries,
            known,
            full,
            dead,
        } = offered;
        if let Some((message, route)) = known {
            let body = self.recorder.body(body);
            let insertion = Fact::Inserted {
                message,
                route,
                body,
                entries,
            };
            self.recorder.push_insertion(insertion_at, insertion);
        }
        for (queue, position) in dead {
            let (from, reason) = (MessageState::Dying, Reason::Maxlen);
            self.die(
                turn,
                Dying {
                    queue,
                    position,
                    from,
                    reason,
                    evidence: None,
                },
            );
        }
        full.map_or(PublishOutcome::Accepted, |queue| {
            PublishOutcome::QueueFull { queue }
        })
    }

    /// Gives a message to a queue, if that takes it.
    fn offer(
        &mut self,
        turn: &mut Turn<'_>,
        target: QueueId,
        arrival: Arrival,
        offered: &mut Offered,
    ) {
        let admission = self.admit(turn, target, arrival.size_bytes);
        if admission != Admission::Enter && offered.full.is_none() {
            offered.full = self.queues.get(&target).map(|queue| queue.name.clone());
        }
        let state = match admission {
            Admission::Enter => MessageState::Ready,
            Admission::RefuseAndDie => MessageState::Dying,
            Admission::Refuse => return,
        };
        let Some(entered) = self.enter(turn.now, target, arrival, state) else {
            return;
        };
        if entered.known.is_some() {
            offered.entries.push(entered.entry);
            offered.known = entered.known;
        }
        if state == MessageState::Dying {
            offered.dead.push((target, entered.entry.position));
        }
    }
}

/// What came of giving a message to its queues.
#[derive(Default)]
struct Offered {
    /// Where it is, of what the journal is to know.
    entries: Entries,
    /// What the journal is to know, if it is to know it.
    known: Option<(Arc<Message>, Arc<Route>)>,
    /// The first queue that was full.
    full: Option<Name>,
    /// Where it entered only to die.
    dead: Vec<(QueueId, Position)>,
}

/// The first key of a message that its publisher may not use on this exchange.
fn forbidden_key<'a>(exchange: &Exchange, publish: &'a Publish) -> Option<&'a Name> {
    let topic = publish.topic.as_ref()?;
    let mut keys = publish.route.keys.iter();
    keys.find(|key| exchange.spec.kind == ExchangeKind::Topic && !topic.write.matches(key))
}
