//! Consuming links: assigned messages become transfers, dispositions become settlements.

use std::sync::Arc;

use super::Gateway;
use super::errors;
use super::handshake::Login;
use super::links::{Consumer, Link, LinkId, LinkKind};
use super::resumable::ConsumerLifetime;
use super::work::Work;
use crate::base::limits::{ANSWER_BYTES_MAX, SETTLE_RUN_MAX};
use crate::base::{ConsumerId, Position, Serial, invariant};
use crate::broker::{Command, ConsumerEnd, Delivery, Effect, Outcome, Settle, SettleRun};
use crate::deaths::{DeathsView, Evidence};
use crate::link::{Event, LinkHandle, Sending, Unsendable};
use crate::message::DeliveryView;
use crate::wire::performative::{DeliveryState, Error, encode_fields};

/// Message format of an AMQP message. [AMQP 3.2.16]
const MESSAGE_FORMAT: u32 = 0;

impl Gateway {
    /// Sends a message that the core assigned to one of the consumers.
    pub(super) fn on_deliver(&mut self, delivery: &Delivery) {
        self.taken_bytes += delivery.room_bytes();
        self.tell_timed_out_before(delivery.consumer);
        let Some((handle, consumer)) = self.links.consumer(delivery.consumer) else {
            // The link has detached; the core has not been told yet.
            let unsent = (delivery.consumer, delivery.position);
            return self.batch.undelivered.push(unsent);
        };
        let view = DeliveryView {
            route: &delivery.route,
            first_acquirer: delivery.first_acquirer,
            delivery_count: delivery.delivery_count,
            failures: if consumer.counts_returns {
                delivery.acquired
            } else {
                delivery.failures
            },
            acquired: delivery.acquired,
            suspect: delivery.suspect,
            deaths: DeathsView {
                encoding: consumer.deaths.0,
                evidence: consumer.deaths.1,
                viewer: self.login.as_ref().map(Login::viewer).unwrap_or_default(),
            },
        };
        let settled = consumer.settled;
        let rest = consumer.rest_of(delivery);
        let tag = consumer.lifetime;
        let tag = tag.map(|_| ConsumerLifetime::tag(delivery, rest));
        let token = self.sent.insert(delivery.consumer, delivery.position);
        let sending = Sending {
            token,
            settled,
            message_format: MESSAGE_FORMAT,
            prefix: &[],
            bare: delivery.message.bare(),
            tag: tag.as_ref(),
        };
        let sent = if let Some(rest) = rest {
            self.send_rest(handle, sending, (delivery, rest))
        } else if let Some(body) = delivery.message.blob() {
            let mut prefix = std::mem::take(&mut self.prefix);
            let sending = Sending {
                prefix: prefix.of(&delivery.message, &view),
                ..sending
            };
            let sent = self.stream(handle, sending, (delivery, body));
            self.prefix = prefix;
            sent
        } else if !delivery.message.rest().is_empty() {
            let sending = Sending {
                prefix: self.prefix.of(&delivery.message, &view),
                ..sending
            };
            self.link
                .send_parts(handle, sending, delivery.message.rest())
        } else {
            let sending = Sending {
                prefix: self.prefix.of(&delivery.message, &view),
                ..sending
            };
            self.link
                .send(handle, sending, || delivery.message.bare_bytes())
        };
        match sent {
            Err(unsendable) => self.return_unsent(handle, token, delivery, unsendable),
            Ok(()) if settled => self.note_presettled(handle, token),
            Ok(()) => {}
        }
    }

    /// Returns a message that the link cannot send: its credit was withdrawn or it was detached
    /// meanwhile.
    fn return_unsent(
        &mut self,
        handle: LinkHandle,
        token: u64,
        delivery: &Delivery,
        unsendable: Unsendable,
    ) {
        self.sent.remove(token);
        let Delivery {
            consumer, position, ..
        } = *delivery;
        if let Unsendable::TooLarge { max_bytes } = unsendable {
            // The credit is set to 0 first, or the core would assign the message again at once.
            let stop = Command::ConsumerFlow {
                consumer,
                limit: 0,
                drain: false,
            };
            self.batch.push(Work::Command(stop));
            self.link
                .detach(handle, true, Some(errors::message_too_large(max_bytes)));
        }
        self.batch
            .push(Work::Command(Command::ReturnUnsent { consumer, position }));
    }

    /// Handles a change of a consumer's credit. `echo`: it asks for the state of its link; the core tells what
    /// waits in the queue behind what this credit is used for. A drain is answered when it is done.
    pub(super) fn on_link_flow(&mut self, flow: &Event) {
        let Event::LinkFlow {
            link: handle,
            limit,
            drain,
            echo,
        } = *flow
        else {
            return;
        };
        let Some(Link { id, kind, .. }) = self.links.by_handle(handle) else {
            if echo {
                self.link.tell_available(handle, 0);
            }
            return;
        };
        let echo = echo && !drain;
        match kind {
            LinkKind::Consumer(state) => {
                let consumer = id.consumer();
                // One answer is enough for all that ask meanwhile: it tells the state in which the link is then.
                let echo = echo && !state.echo_due;
                state.echo_due |= echo;
                let command = Command::ConsumerFlow {
                    consumer,
                    limit,
                    drain,
                };
                self.batch.push(Work::Command(command));
                if echo {
                    let echo = Command::ConsumerEcho(self.id, consumer);
                    self.batch.push(Work::Command(echo));
                }
            }
            // Answers are sent as they are made, so all that could be sent was sent.
            LinkKind::Response(_) | LinkKind::TokenStatus(_) if drain => {
                self.link.drained(handle, u64::MAX);
            }
            LinkKind::Response(_)
            | LinkKind::TokenStatus(_)
            | LinkKind::PutToken(_)
            | LinkKind::Publisher(_)
            | LinkKind::Request(_)
            | LinkKind::Controller(_)
                if echo =>
            {
                self.link.tell_available(handle, 0);
            }
            LinkKind::Response(_)
            | LinkKind::TokenStatus(_)
            | LinkKind::PutToken(_)
            | LinkKind::Publisher(_)
            | LinkKind::Request(_)
            | LinkKind::Controller(_) => {}
        }
    }

    /// Tells a consumer that drains that its credit up to a limit is used up, and how many messages wait for more.
    pub(super) fn on_drained(&mut self, id: ConsumerId, limit: u64, available: u32) {
        if let Some((handle, _)) = self.links.consumer(id) {
            self.link.drained(handle, limit);
            self.link.tell_available(handle, available);
        }
    }

    /// Tells a consumer that asked for it how many messages wait for its credit.
    pub(super) fn on_available(&mut self, told: &Effect) {
        if let Effect::Available {
            consumer,
            available,
        } = told
            && let Some((handle, state)) = self.links.consumer(*consumer)
        {
            state.echo_due = false;
            self.link.tell_available(handle, *available);
        }
    }

    /// Handles deliveries that the peer settled with one outcome.
    pub(super) fn on_consumer_settled(
        &mut self,
        handle: LinkHandle,
        tokens: &[u64],
        state: &DeliveryState,
    ) {
        let Some(Link {
            id,
            kind: LinkKind::Consumer(consumer),
            ..
        }) = self.links.by_handle(handle)
        else {
            return self.forget_sent(&[], tokens);
        };
        let Some(outcome) = outcome(consumer, state) else {
            return self.on_settled_in_transaction(handle, tokens, state);
        };
        let consumer = id.consumer();
        // In runs, so that the core's lock is held for a bounded number of messages.
        for tokens in tokens.chunks(SETTLE_RUN_MAX) {
            let mut positions = Vec::with_capacity(tokens.len());
            let sent = tokens.iter().filter_map(|token| self.sent.remove(*token));
            positions.extend(sent.map(|(_, position)| position));
            invariant!(
                positions.len() == tokens.len(),
                "each token of a delivery is told once"
            );
            let outcome = outcome.clone();
            self.batch.push(Work::Settle(SettleRun {
                consumer,
                positions,
                outcome,
            }));
        }
    }

    /// Handles an outcome that the peer has not settled: it waits for the broker to settle.
    pub(super) fn on_consumer_outcome(
        &mut self,
        handle: LinkHandle,
        token: u64,
        delivery_id: Serial,
        state: DeliveryState,
    ) {
        if let DeliveryState::Transactional { .. } = state {
            return self.on_outcome_in_transaction(handle, (token, delivery_id), &state);
        }
        let Some((id, position)) = self.sent.remove(token) else {
            return invariant!(broken, "the token of a delivery is told once");
        };
        let Some((_, consumer)) = self.links.consumer(id) else {
            return; // the link went: the core takes back all that it held
        };
        let before = self.last_outcome.take();
        let known = before.filter(|before| before.is_of(id, &state));
        let (outcome, answer) =
            if let Some(before) = known {
                let said = (before.outcome.clone(), before.answer.clone());
                self.last_outcome = Some(before);
                said
            } else {
                let Some(outcome) = outcome(consumer, &state) else {
                    return self.refuse_state(handle);
                };
                let answer = answer(state.clone());
                self.last_outcome = matches!(state, DeliveryState::Rejected { error: Some(_) })
                    .then(|| SharedOutcome {
                        consumer: id,
                        state,
                        outcome: outcome.clone(),
                        answer: answer.clone(),
                    });
                (outcome, answer)
            };
        consumer.answers.push_back((delivery_id, answer));
        let settle = Settle {
            consumer: id,
            position,
            outcome,
            confirm: Some(u64::from(delivery_id.0)),
        };
        self.batch.push(Work::Command(Command::Settle(settle)));
    }

    fn refuse_state(&mut self, handle: LinkHandle) {
        let error = errors::not_implemented("this delivery state is not offered");
        self.link.detach(handle, true, Some(error));
    }

    /// Handles the core's confirmation of a settlement that the consumer waits for.
    /// A delivery that the consumer had held for too long was released, whatever it says of it now.
    pub(super) fn on_settled(&mut self, id: ConsumerId, token: u64, took: bool) {
        let Some((handle, consumer)) = self.links.consumer(id) else {
            return;
        };
        // Nearly always the first one: the core settles in order.
        let found = consumer
            .answers
            .iter()
            .position(|(id, _)| u64::from(id.0) == token);
        if let Some((delivery_id, state)) = found.and_then(|at| consumer.answers.remove(at)) {
            let state = if took { state } else { DeliveryState::Released };
            self.link.settle_sent(handle, delivery_id, &state);
        }
    }

    /// Tells the peer of late deliveries before a consumer that is late gets another one: it has settled them
    /// by then, and the message may be the same.
    #[inline]
    fn tell_timed_out_before(&mut self, consumer: ConsumerId) {
        if self.timed_out.is_empty() {
            return; // as a rule
        }
        let all = (consumer, Position(0))..=(consumer, Position(u64::MAX));
        if self.timed_out.range(all).next().is_some() {
            self.tell_timed_out();
        }
    }

    /// Tells the peer of deliveries that consumers held for too long. Their tokens stay: each is
    /// settled by its receiver.
    pub(super) fn tell_timed_out(&mut self) {
        let late = std::mem::take(&mut self.timed_out);
        let mut sessions = Vec::new();
        for (id, _) in &late {
            // Their links may be gone: the core is about to be told.
            if let Some(link) = self.links.by_id(LinkId(id.0))
                && !sessions.contains(&link.session)
            {
                sessions.push(link.session);
            }
        }
        let sent = &self.sent;
        let is_late = |token| {
            let delivery = sent.get(token);
            delivery.is_some_and(|delivery| late.contains(&delivery))
        };
        for session in sessions {
            self.link.release_sent(session, is_late);
        }
    }

    /// Detaches a consumer that the core closed.
    pub(super) fn on_consumer_ended(&mut self, id: ConsumerId, cause: ConsumerEnd) {
        let Some((handle, _)) = self.links.consumer(id) else {
            return;
        };
        let error = match cause {
            ConsumerEnd::QueueDeleted => errors::queue_deleted(),
            ConsumerEnd::Stolen => errors::stolen(),
        };
        self.link.detach(handle, true, Some(error));
    }
}

/// The core's outcome for a delivery state; none for states that are not outcomes.
pub(super) fn outcome(consumer: &Consumer, state: &DeliveryState) -> Option<Outcome> {
    Some(match state {
        DeliveryState::Accepted => Outcome::Accepted,
        DeliveryState::Released => Outcome::Released,
        DeliveryState::Rejected { error } => Outcome::Rejected {
            evidence: Some(evidence(&consumer.evidence, error.as_deref())),
        },
        DeliveryState::Modified {
            delivery_failed,
            undeliverable_here,
            message_annotations,
        } => Outcome::Modified {
            delivery_failed: delivery_failed.unwrap_or(false),
            undeliverable_here: undeliverable_here.unwrap_or(false),
            annotations: message_annotations.clone(),
        },
        _ => return None,
    })
}

/// The error of one disposition, and the evidence that its deliveries share.
#[derive(Debug)]
pub(super) struct SharedOutcome {
    consumer: ConsumerId,
    state: DeliveryState,
    outcome: Outcome,
    answer: DeliveryState,
}

impl SharedOutcome {
    /// Whether this delivery state is of the same disposition, so that the evidence is shared.
    fn is_of(&self, consumer: ConsumerId, state: &DeliveryState) -> bool {
        let error = |state: &DeliveryState| match state {
            DeliveryState::Rejected { error: Some(error) } => Some(Arc::as_ptr(error)),
            _ => None,
        };
        self.consumer == consumer && error(&self.state).is_some_and(|it| error(state) == Some(it))
    }
}

/// The outcome that answers the peer's: the same, unless it is long; then without its error and
/// annotations. An error without a condition is none to send. [AMQP 2.8.14]
fn answer(state: DeliveryState) -> DeliveryState {
    match state {
        DeliveryState::Rejected { error: Some(error) }
            if error.condition.as_str().is_empty() || is_long(&error) =>
        {
            DeliveryState::Rejected { error: None }
        }
        DeliveryState::Modified {
            delivery_failed,
            undeliverable_here,
            message_annotations: Some(annotations),
        } if annotations.len() > ANSWER_BYTES_MAX => DeliveryState::Modified {
            delivery_failed,
            undeliverable_here,
            message_annotations: None,
        },
        state => state,
    }
}

/// Whether an error is too long to be sent back.
fn is_long(error: &Error) -> bool {
    let description = error.description.as_ref().map_or(0, String::len);
    let condition = error.condition.as_str().len();
    let info = error.info.as_ref().map(|info| encode_fields(info));
    description + condition + info.map_or(0, |info| info.len()) > ANSWER_BYTES_MAX
}

/// The consumer's evidence with the error it gave.
fn evidence(consumer: &Arc<Evidence>, error: Option<&Error>) -> Arc<Evidence> {
    let Some(error) = error else {
        return Arc::clone(consumer);
    };
    let condition = &error.condition;
    let info = error.info.as_ref().map(|info| encode_fields(info));
    let description = error.description.as_deref();
    Arc::new(consumer.with_error(condition.as_str(), description, info.as_ref()))
}
