//! Dispatch of the engine's events and the core's effects to their handlers.
#![deny(clippy::wildcard_enum_match_arm)]

use std::collections::VecDeque;

use super::connection::{AwaitedAnswer, Gateway};
use super::errors;
use super::links::LinkKind;
use super::resumable::end_of_detach;
use super::work::{Ask, Leaving, Work};
use crate::base::{Millis, Now, PublisherId, SessionId, invariant, uncount};
use crate::broker::recovery::LinkEnd;
use crate::broker::{Command, Effect, PublishOutcome, Reply};
use crate::link::{Arrived, Event, Fates, LinkHandle, SessionHandle};
use crate::wire::performative::Error;

impl Gateway {
    /// Handles the engine's events.
    pub(super) fn handle_events(&mut self, now: Now) {
        while let Some(event) = self.link.poll_event() {
            self.on_event(now, event);
        }
        self.last_outcome = None;
    }

    fn on_event(&mut self, now: Now, event: Event) {
        match event {
            Event::Delivery {
                link,
                delivery_id,
                settled,
                payload,
                ..
            } => {
                let arrived = Arrived {
                    delivery_id,
                    settled,
                    payload,
                };
                self.on_delivery(now, link, arrived);
            }
            Event::Settled {
                link,
                tokens,
                state,
            } => self.on_consumer_settled(link, &tokens, &state),
            Event::Outcome {
                link,
                token,
                delivery_id,
                state,
            } => self.on_consumer_outcome(link, token, delivery_id, state),
            flow @ Event::LinkFlow { .. } => self.on_link_flow(&flow),
            Event::SessionFlow { session } => self.on_session_flow(session),
            Event::SaslInit {
                mechanism,
                response,
                ..
            } => self.on_sasl_init(now, &mechanism, response.as_deref()),
            Event::SaslResponse { response } => self.on_sasl_response(now, &response),
            Event::Opened(open) => self.on_opened(now, &open),
            Event::SessionBegun { session } => self.on_session_begun(session),
            Event::SessionEnded { session, fates, .. } => {
                self.on_session_ended(now.mono, session, &fates);
            }
            Event::Attached {
                link,
                session,
                role,
                attach,
            } => self.on_attached((link, session), &role, &attach),
            Event::Detached {
                link,
                closed,
                by_peer,
                error,
                fates,
            } => self.on_detached(now.mono, link, (closed, by_peer, error.as_deref()), &fates),
            Event::DetachAnswered { link } => self.on_detach_answered(link),
            Event::Posted(posted) => self.on_posted(*posted),
            Event::WorkLost { txn_id } => self.on_work_lost(&txn_id),
            Event::Partial { link } => self.on_partial(link),
            Event::Aborted { link } => self.on_aborted(link),
            Event::Foreign { protocol } => self.environment.foreign.note(&self.peer, protocol),
            Event::Closed { .. } => self.on_closed(now.mono),
            Event::Tagged(tagged) => self.on_tagged(*tagged),
            Event::Continued { link, is_resumed } => self.on_continued(link, is_resumed),
            Event::Unfinished(unfinished) => self.on_unfinished(&unfinished),
            Event::Resumed(resumed) => self.on_resumed(&resumed),
            Event::SenderSettled { link, delivery_id } => self.on_sender_settled(link, delivery_id),
            Event::SenderFlow { .. } | Event::AttachAnswered { .. } => {} // for clients
        }
    }

    /// Handles an incoming message: a publish, a management request, or one to the coordinator.
    fn on_delivery(&mut self, now: Now, handle: LinkHandle, arrived: Arrived) {
        match self.links.by_handle(handle).map(|link| &link.kind) {
            Some(LinkKind::Request(_)) => {
                self.on_request(handle, arrived.settled, &arrived.payload.joined());
            }
            Some(LinkKind::Controller(_)) => self.on_control(now, handle, arrived),
            Some(LinkKind::PutToken(_)) => self.on_put_token(handle, arrived),
            Some(
                LinkKind::Publisher(_)
                | LinkKind::Consumer(_)
                | LinkKind::Response(_)
                | LinkKind::TokenStatus(_),
            )
            | None => {
                self.on_messages(handle, arrived);
            }
        }
    }

    /// Handles a delivery that the peer aborted: it used up a credit. [AMQP 2.7.5]
    fn on_aborted(&mut self, handle: LinkHandle) {
        let Some(link) = self.links.by_handle(handle) else {
            return;
        };
        let id = link.id;
        match &mut link.kind {
            LinkKind::Publisher(publisher) => {
                publisher.aborted();
                publisher.streaming = None;
                if let Some(resumable) = &mut publisher.resumable {
                    resumable.forget_front();
                }
                self.give_credit(id.publisher());
            }
            LinkKind::Request(half) | LinkKind::PutToken(half) => {
                uncount!(half.credit, 1, "a request begins on credit");
                self.give_request_credit(handle);
            }
            LinkKind::Controller(_) => self.on_control_aborted(handle),
            LinkKind::Consumer(_) | LinkKind::Response(_) | LinkKind::TokenStatus(_) => {}
        }
    }

    fn on_session_flow(&mut self, session: SessionHandle) {
        if let Some(id) = self.sessions.get(&session) {
            let limit = self.link.session_limit(session);
            let command = Command::SessionFlow {
                session: *id,
                limit,
            };
            self.batch.push(Work::Command(command));
        }
    }

    fn on_session_begun(&mut self, session: SessionHandle) {
        let id = SessionId(self.environment.next_id());
        self.sessions.insert(session, id);
        let limit = self.link.session_limit(session);
        let command = Command::SessionOpen {
            connection: self.id,
            session: id,
            limit,
        };
        self.batch.push(Work::Command(command));
    }

    fn on_session_ended(
        &mut self,
        now: Millis,
        session: SessionHandle,
        Fates { unsent, unsettled }: &Fates,
    ) {
        let Some(id) = self.sessions.remove(&session) else {
            return invariant!(broken, "a session that ends has begun");
        };
        let mut gone = self.links.remove_session(session);
        let consumers: Vec<_> = gone
            .iter()
            .filter(|link| matches!(link.kind, LinkKind::Consumer(_)))
            .map(|link| link.id.consumer())
            .collect();
        self.end_consumers(session, &consumers);
        let settled: Vec<_> = gone
            .iter_mut()
            .filter_map(|link| link.kind.take_presettled())
            .collect();
        self.batch.push(Work::Command(Command::SessionFlow {
            session: id,
            limit: 0,
        }));
        self.forget_sent(unsent, unsettled);
        for tokens in settled {
            self.settle_leaving(tokens, unsent);
        }
        self.batch
            .push(Work::Leave(Leaving::Session(id, consumers)));
        for mut link in gone {
            self.leave_resumable(now, &mut link, (LinkEnd::SessionEnded, true));
            self.streams.forget(link.handle);
            self.forget_publisher(&link);
            self.end_controller(link.handle);
            self.delete_dynamic(link.handle);
        }
        self.end_resumable_of(now, session);
    }

    /// Handles the end of a link: whether it was closed, by the peer or from here, and the error.
    fn on_detached(
        &mut self,
        now: Millis,
        handle: LinkHandle,
        (closed, by_peer, error): (bool, bool, Option<&Error>),
        Fates { unsent, unsettled }: &Fates,
    ) {
        let Some(mut link) = self.links.remove(handle) else {
            return; // its attach was refused
        };
        let end = end_of_detach(closed, error);
        self.leave_resumable(now, &mut link, (end, by_peer));
        self.streams.forget(handle);
        self.forget_publisher(&link);
        let presettled = link.kind.take_presettled();
        if let LinkKind::Consumer(gone) = &link.kind {
            let is_kept = gone.lifetime.is_some() && end == LinkEnd::Detached;
            let consumer = link.id.consumer();
            let stop = Command::ConsumerFlow {
                consumer,
                limit: 0,
                drain: false,
            };
            self.batch.push(Work::Command(stop));
            let lingers = self.lingers(consumer, link.session, unsettled);
            self.forget_sent(unsent, unsettled);
            if let Some(tokens) = presettled {
                self.settle_leaving(tokens, unsent);
            }
            let leaving = if lingers {
                Leaving::Link(consumer)
            } else if is_kept {
                Leaving::Suspended(consumer)
            } else {
                Leaving::Consumer(consumer)
            };
            self.batch.push(Work::Leave(leaving));
        }
        if let LinkKind::Consumer(consumer) = &link.kind
            && closed
            && error.is_none()
        {
            self.close_subscription(handle, consumer);
        }
        self.end_controller(handle);
        self.delete_dynamic(handle);
    }

    /// Returns deliveries that the engine never began to write, and forgets those that it did: the
    /// core knows what each consumer holds.
    pub(super) fn forget_sent(&mut self, unsent: &[u64], unsettled: &[u64]) {
        for token in unsent {
            if let Some((consumer, position)) = self.sent.remove(*token) {
                let command = Command::ReturnUnsent { consumer, position };
                self.batch.push(Work::Command(command));
            }
        }
        for token in unsettled {
            self.sent.remove(*token);
        }
    }

    pub(super) fn on_closed(&mut self, now: Millis) {
        self.suspend_resumable(now);
        if self.vhost.is_some() && !self.closed {
            self.batch.push(Work::Leave(Leaving::Connection));
        }
        self.closed = true;
        self.delete_dynamic_topics();
        if let Some(login) = &mut self.login {
            login.leave_container();
        }
        self.forget_transactions();
    }

    /// Handles an effect, together with those `behind` it that report the same for the next
    /// publishes.
    pub(super) fn on_effect(&mut self, effect: Effect, behind: &mut VecDeque<Effect>) {
        match effect {
            Effect::Deliver(delivery) => self.on_deliver(&delivery),
            Effect::DeliverDurably { delivery, .. } => self.on_deliver(&delivery),
            Effect::Drained {
                consumer,
                limit,
                available,
            } => self.on_drained(consumer, limit, available),
            Effect::Available { .. } => self.on_available(&effect),
            Effect::ConsumerEnded { consumer, cause } => self.on_consumer_ended(consumer, cause),
            Effect::TimedOut { consumer, position } => {
                self.timed_out.insert((consumer, position)); // told of together
            }
            Effect::Published {
                publisher,
                token,
                outcome: PublishOutcome::Accepted,
                lsn,
            } if lsn <= self.durable => {
                let count = 1 + self.take_accepted(behind, publisher, token);
                self.on_accepted(publisher, token, count);
            }
            Effect::Published { lsn, .. }
            | Effect::Settled { lsn, .. }
            | Effect::Committed { lsn, .. }
            | Effect::Recovered { lsn, .. }
            | Effect::PublisherEnded { lsn, .. } => {
                if lsn <= self.durable {
                    self.on_outcome(effect);
                } else {
                    self.waiting.push_back((lsn, AwaitedAnswer::Effect(effect)));
                }
            }
            Effect::PresettledRefused {
                publisher,
                token,
                outcome,
            } => self.on_presettled_refused(publisher, token, &outcome),
            Effect::PublisherStolen { publisher } => self.on_publisher_stolen(publisher),
            Effect::Restate {
                consumer,
                acquisition,
            } => self.on_restate(consumer, acquisition),
            Effect::Alarm { raised } => self.on_alarm(raised),
        }
    }

    /// Takes the next effects as long as they report that the following publishes were accepted,
    /// too. Returns their number.
    fn take_accepted(&self, effects: &mut VecDeque<Effect>, of: PublisherId, first: u64) -> u32 {
        let mut count = 0;
        while let Some(Effect::Published {
            publisher,
            token,
            outcome: PublishOutcome::Accepted,
            lsn,
        }) = effects.front()
            && *publisher == of
            && *token == first + u64::from(count) + 1
            && *lsn <= self.durable
        {
            effects.pop_front();
            count += 1;
        }
        count
    }

    pub(super) fn on_outcome(&mut self, effect: Effect) {
        match effect {
            Effect::Published {
                publisher,
                token,
                outcome,
                ..
            } => {
                self.on_published(publisher, token, &outcome);
            }
            Effect::Settled {
                consumer,
                token,
                took,
                ..
            } => self.on_settled(consumer, token, took),
            Effect::Committed { token, refused, .. } => {
                let refused = refused.map(|why| errors::not_committed(&why));
                self.on_committed(token, refused);
            }
            Effect::PublisherEnded { publisher, .. } => self.on_publisher_ended(publisher),
            Effect::Recovered {
                consumer,
                recovered,
                ..
            } => self.on_recovered(consumer, &recovered),
            // These are not outcomes: they are not held back until a record is durable.
            Effect::Deliver(_)
            | Effect::DeliverDurably { .. }
            | Effect::Drained { .. }
            | Effect::Available { .. }
            | Effect::TimedOut { .. }
            | Effect::ConsumerEnded { .. }
            | Effect::PresettledRefused { .. }
            | Effect::PublisherStolen { .. }
            | Effect::Restate { .. }
            | Effect::Alarm { .. } => {}
        }
    }

    pub(super) fn on_reply(&mut self, ask: Ask, reply: Reply) {
        match ask {
            Ask::Publisher(link) => self.on_publisher_reply(link, reply),
            Ask::Consumer(link) => self.on_consumer_reply(link, reply),
            Ask::Subscriber(link) => self.on_subscriber_reply(link, reply),
            Ask::Unsubscribed(link) => self.on_unsubscribed(link, &reply),
            Ask::Forbidden(link) => self.on_forbidden_reply(link, reply),
        }
    }
}
