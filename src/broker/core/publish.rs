//! Publishing: a message from a client is routed and enters its queues.

use std::sync::Arc;

use super::admission::{Arrival, Offered};
use super::death::Dying;
use super::delaying::asked;
use super::work::Work;
use super::{Core, Turn};
#[cfg(test)]
use crate::base::plant::{Plant, is_planted};
use crate::base::{ConnectionId, ExchangeId, Lsn, Name, Position, PublisherId, QueueId, Step};
use crate::broker::exchange::ExchangeKind;
use crate::broker::publisher_link::KeptPublish;
use crate::broker::queue::{Delay, MessageState};
use crate::broker::router::DEFAULT_EXCHANGE;
use crate::broker::subscription::NoLocal;
use crate::broker::{Effect, Publish, PublishOutcome, Target, TooManyQueues};
use crate::deaths::Reason;
use crate::message::{Message, Route};

/// Who is told the outcome of a publish: connection, link, and its token.
type Sender = (ConnectionId, PublisherId, u64);

impl Publish {
    const fn sender(&self) -> Sender {
        (self.connection, self.publisher, self.token)
    }
}

impl Core {
    pub(super) fn publish(&mut self, turn: &mut Turn<'_>, publish: Publish) {
        let (to, settled) = (publish.sender(), publish.settled);
        let outcome = self.take_publish(turn, publish);
        if settled {
            self.counters.presettled += 1;
            Self::tell_presettled(turn, to, outcome);
        } else {
            self.tell_published(turn, to, outcome);
        }
    }

    /// Publishes a message on a link that outlives the broker. Its outcome stands in the record that inserts
    /// it.
    #[cold]
    pub(super) fn publish_kept(&mut self, turn: &mut Turn<'_>, kept: KeptPublish) {
        let KeptPublish {
            publish,
            link,
            tag,
            settled,
        } = kept;
        let to = publish.sender();
        let outcome = self.take_publish(turn, publish);
        #[cfg(test)]
        if is_planted(Plant::DecidedApart) {
            self.recorder.finish(turn.now, turn.effects);
        }
        self.keep_decided((link, tag), &outcome, settled);
        self.tell_published(turn, to, outcome);
    }

    /// Tells the link of a message that was sent settled if no message of its kind can be published there.
    #[inline]
    fn tell_presettled(turn: &mut Turn<'_>, to: Sender, outcome: PublishOutcome) {
        if let PublishOutcome::NoExchange { .. }
        | PublishOutcome::Internal { .. }
        | PublishOutcome::Forbidden { .. } = outcome
        {
            let (connection, publisher, token) = to;
            let refused = Effect::PresettledRefused {
                publisher,
                token,
                outcome,
            };
            turn.effects.outgoing.push((connection, refused));
        }
    }

    #[inline]
    fn tell_published(&self, turn: &mut Turn<'_>, to: Sender, outcome: PublishOutcome) {
        let (connection, publisher, token) = to;
        let lsn = self.recorder.lsn();
        let effect = Effect::Published {
            publisher,
            token,
            outcome,
            lsn,
        };
        turn.effects.outgoing.push((connection, effect));
    }

    /// Routes a message into its queues, and counts what became of it.
    #[inline(always)]
    #[allow(
        clippy::inline_always,
        reason = "of two callers one is on the path of every message"
    )]
    fn take_publish(&mut self, turn: &mut Turn<'_>, publish: Publish) -> PublishOutcome {
        self.counters.published += 1;
        let blob = publish.message.blob().map(|body| **body);
        let exchange = self.publish_exchange(&publish);
        let Publish {
            connection,
            target,
            settled,
            message,
            route,
            delivery_time,
            ..
        } = publish;
        let delay = delivery_time.and_then(|time| asked(turn.now, time));
        let outcome = match exchange {
            Ok(exchange) => {
                self.route_publish(turn, (connection, exchange), (message, route), delay)
            }
            Err(outcome) => outcome,
        };
        if let Some(body) = blob {
            // The queues it entered refer to the body now; if there are none, the body is released.
            self.recorder.unname(body);
        }
        let outcome = match outcome {
            PublishOutcome::Unroutable if target.is_topic() => {
                self.counters.unheard += 1;
                PublishOutcome::Accepted
            }
            outcome => outcome,
        };
        match &outcome {
            PublishOutcome::Accepted => self.counters.accepted += 1,
            PublishOutcome::QueueFull { .. } | PublishOutcome::TooManyQueues(_) => {
                self.counters.refused += 1;
                self.counters.refused_presettled += u64::from(settled);
            }
            _ => {
                self.counters.unroutable += 1;
                self.counters.unroutable_presettled += u64::from(settled);
            }
        }
        outcome
    }

    #[inline(always)]
    #[allow(
        clippy::inline_always,
        reason = "of two callers one is on the path of every message"
    )]
    pub(super) fn publish_exchange(&self, publish: &Publish) -> Result<ExchangeId, PublishOutcome> {
        let exchange = match publish.target {
            Target::Attached(DEFAULT_EXCHANGE) => return Ok(DEFAULT_EXCHANGE),
            Target::Named if publish.route.exchange.is_empty() => return Ok(DEFAULT_EXCHANGE),
            Target::Attached(id) | Target::AttachedTopic(id) => self.router.exchange(id),
            Target::Named | Target::NamedTopic => {
                self.router.exchange_named(&publish.route.exchange)
            }
        };
        let name = || publish.route.exchange.clone();
        match exchange {
            None => Err(PublishOutcome::NoExchange { exchange: name() }),
            Some(exchange) if exchange.spec.internal => {
                Err(PublishOutcome::Internal { exchange: name() })
            }
            Some(exchange) => match publish.forbidden_key() {
                Some(key) if exchange.spec.kind == ExchangeKind::Topic => {
                    Err(PublishOutcome::Forbidden {
                        exchange: name(),
                        key: key.clone(),
                    })
                }
                _ => Ok(exchange.id),
            },
        }
    }

    fn route_publish(
        &mut self,
        turn: &mut Turn<'_>,
        (connection, exchange): (ConnectionId, ExchangeId),
        (message, route): (Arc<Message>, Arc<Route>),
        delay: Option<Delay>,
    ) -> PublishOutcome {
        let meter = &mut turn.effects.meter;
        let clients = &self.clients;
        let is_local = |no_local: &NoLocal| Self::is_local(clients, connection, no_local);
        let goes = (&route, &*message);
        let targets = (self.routed).find_for(&self.router, exchange, goes, is_local, meter);
        let (count, first) = (targets.len(), targets.first().copied());
        self.router.count(exchange, count);
        let Some(first) = first else {
            return if self.routed.are_too_many() {
                PublishOutcome::TooManyQueues(TooManyQueues {
                    queues_max: self.router.queues_max(),
                })
            } else {
                PublishOutcome::Unroutable
            };
        };
        if count == 1 {
            return self.publish_into_one(turn, first, (message, route), delay);
        }
        turn.charge_ns(Step::Entry.ns() * (count as u64 - 1));
        let routed = std::mem::take(&mut self.routed);
        let targets = routed.targets();
        #[cfg(test)]
        let targets = match targets.split_last() {
            Some((_, targets)) if is_planted(Plant::CopyForgotten) && count > 1 => targets,
            _ => targets,
        };
        let outcome = self.publish_into(turn, targets, (message, route), delay);
        self.routed = routed;
        outcome
    }

    /// Offers a message to its only target.
    #[inline]
    fn publish_into_one(
        &mut self,
        turn: &mut Turn<'_>,
        target: QueueId,
        (message, route): (Arc<Message>, Arc<Route>),
        delay: Option<Delay>,
    ) -> PublishOutcome {
        let mut insertion = self.insertion(message.blob().map_or(Lsn(0), |body| **body));
        insertion.delay = delay;
        let arrival = Arrival::new(turn.now, message, route);
        let offered = self.offer(turn, target, arrival, &mut insertion);
        self.record(insertion);
        if matches!(offered, Offered::Taken { .. }) {
            return PublishOutcome::Accepted;
        }
        let mut refused = Refused::default();
        self.note_refusal(&mut refused, target, offered);
        self.outcome(turn, refused, 1)
    }

    /// Offers a message to each of its targets.
    pub(super) fn publish_into(
        &mut self,
        turn: &mut Turn<'_>,
        targets: &[QueueId],
        (message, route): (Arc<Message>, Arc<Route>),
        delay: Option<Delay>,
    ) -> PublishOutcome {
        let mut insertion = self.insertion(message.blob().map_or(Lsn(0), |body| **body));
        insertion.delay = delay;
        let arrival = Arrival::new(turn.now, message, route);
        let mut refused = Refused::default();
        let copies = std::iter::repeat_n(arrival, targets.len());
        for (&target, arrival) in targets.iter().zip(copies) {
            let offered = self.offer(turn, target, arrival, &mut insertion);
            self.note_refusal(&mut refused, target, offered);
        }
        self.record(insertion);
        self.outcome(turn, refused, targets.len())
    }

    /// The outcome for the publisher, after its message was offered to this number of queues.
    fn outcome(&mut self, turn: &mut Turn<'_>, refused: Refused, targets: usize) -> PublishOutcome {
        match refused.full {
            // All of its targets expired while they were asked.
            None if refused.gone == targets => PublishOutcome::Unroutable,
            None => PublishOutcome::Accepted,
            Some(queue) => {
                self.die_of_overflow(turn, refused.dead);
                PublishOutcome::QueueFull { queue }
            }
        }
    }

    fn note_refusal(&self, refused: &mut Refused, target: QueueId, offered: Offered) {
        match offered {
            Offered::Taken { .. } => return,
            Offered::Gone => {
                refused.gone += 1;
                return;
            }
            Offered::TakenToDie { position, .. } => refused.dead.push((target, position)),
            Offered::Refused => {}
        }
        if refused.full.is_none() {
            refused.full = self.queues.get(&target).map(|queue| queue.name.clone());
        }
    }

    /// Dead-letters the messages that full queues under `reject-publish-dlx` refused.
    #[cold]
    fn die_of_overflow(&mut self, turn: &mut Turn<'_>, dead: Vec<(QueueId, Position)>) {
        for (queue, position) in dead {
            let (from, reason) = (MessageState::Dying, Reason::Maxlen);
            // Each of them may go to as many queues again.
            if turn.budget == 0 {
                self.work.push_back(Work::Die {
                    queue,
                    position,
                    reason,
                });
                continue;
            }
            turn.budget -= 1;
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
    }
}

/// The queues that refused a message.
#[derive(Default)]
struct Refused {
    /// The first queue that was full.
    full: Option<Name>,
    /// Positions where the message entered only to be dead-lettered.
    dead: Vec<(QueueId, Position)>,
    /// Number of queues that did not exist any more.
    gone: usize,
}
