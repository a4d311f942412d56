//! A message arrives from a client.

use super::admission::{Admission, Arrival};
use super::death::Dying;
use super::{Core, Turn};
use crate::base::{ExchangeId, Name, Position, QueueId};
use crate::broker::exchange::{Exchange, ExchangeKind};
use crate::broker::queue::State;
use crate::broker::router::DEFAULT_EXCHANGE;
use crate::broker::{Effect, Fact, Publish, PublishOutcome, Target};
use crate::deaths::Reason;

impl Core {
    pub(super) fn publish(&mut self, turn: &mut Turn<'_>, publish: Publish) {
        self.counters.published += 1;
        let Publish {
            connection,
            publisher,
            token,
            settled,
            ..
        } = publish;
        let ahead = publish.message.ahead().map(|body| **body);
        let outcome = match self.publish_exchange(&publish) {
            Ok(exchange) => self.route_publish(turn, exchange, publish),
            Err(outcome) => outcome,
        };
        if let Some(body) = ahead {
            // Those that it entered name it now; if there are none, it goes.
            self.recorder.unname(body);
        }
        match &outcome {
            PublishOutcome::Accepted => self.counters.accepted += 1,
            PublishOutcome::QueueFull { .. } => self.counters.refused += 1,
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
        publish: Publish,
    ) -> PublishOutcome {
        let mut routed = std::mem::take(&mut self.routed);
        let goes = (&publish.route, &*publish.message);
        let targets = routed.find(&self.router, exchange, goes);
        self.router.count(exchange, targets.len());
        let outcome = if targets.is_empty() {
            PublishOutcome::Unroutable
        } else {
            self.publish_into(turn, targets, publish)
        };
        self.routed = routed;
        outcome
    }

    fn publish_into(
        &mut self,
        turn: &mut Turn<'_>,
        targets: &[QueueId],
        Publish { message, route, .. }: Publish,
    ) -> PublishOutcome {
        let body = match message.ahead() {
            Some(body) => **body,
            None => self.recorder.name_body(),
        };
        let arrival = Arrival::new(turn.now, message, route, body);
        let size_bytes = arrival.size_bytes;
        let insertion_at = self.recorder.len();
        let (mut entries, mut known) = (Vec::new(), None);
        let mut full: Option<Name> = None;
        let mut dead: Vec<(QueueId, Position)> = Vec::new();
        let copies = std::iter::repeat_n(arrival, targets.len());
        for (&target, arrival) in targets.iter().zip(copies) {
            let admission = self.admit(turn, target, size_bytes);
            if admission != Admission::Enter && full.is_none() {
                full = self.queues.get(&target).map(|queue| queue.name.clone());
            }
            let state = match admission {
                Admission::Enter => State::Ready,
                Admission::RefuseAndDie => State::Dying,
                Admission::Refuse => continue,
            };
            let Some(entered) = self.enter(turn.now, target, arrival, state) else {
                continue;
            };
            if entered.known.is_some() {
                if entries.is_empty() {
                    entries.reserve_exact(targets.len());
                }
                entries.push(entered.entry);
                known = entered.known;
            }
            if state == State::Dying {
                dead.push((target, entered.entry.position));
            }
        }
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
            let (from, reason) = (State::Dying, Reason::Maxlen);
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
}

/// The first key of a message that its publisher may not use on this exchange.
fn forbidden_key<'a>(exchange: &Exchange, publish: &'a Publish) -> Option<&'a Name> {
    let topic = publish.topic.as_ref()?;
    let mut keys = publish.route.keys.iter();
    keys.find(|key| exchange.spec.kind == ExchangeKind::Topic && !topic.write.matches(key))
}
