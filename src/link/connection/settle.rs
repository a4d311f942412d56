//! Dispositions both ways. [AMQP 2.6.12, 2.7.6]

use super::{Connection, Found, mark};
use crate::base::Serial;
use crate::link::error::Violation;
use crate::link::session::Session;
use crate::link::{Event, LinkHandle};
use crate::wire::performative::{DeliveryState, Disposition, Role};

impl Connection {
    pub(super) fn handle_disposition(
        &mut self,
        channel_in: u16,
        disposition: Disposition,
    ) -> Result<(), Violation> {
        let Some(session) = self.session_in(channel_in)? else {
            return Ok(());
        };
        let channel = session.channel;
        let Disposition {
            role,
            first,
            last,
            settled,
            state,
        } = disposition;
        match role {
            Role::Receiver => {
                // Choice: as RabbitMQ, a state that is no outcome ends the session, also for a
                // delivery that nobody knows.
                let state = state.ok_or(Violation::StateMissing)?;
                if !state.is_outcome() {
                    return Err(Violation::StateUnsupported);
                }
                self.handle_outcomes(channel, first, last, settled, &state);
            }
            Role::Sender if settled => self.handle_settled(channel, first, last),
            // A sender that only tells its state waits for our outcome.
            Role::Sender => {}
        }
        Ok(())
    }

    /// The receiver decided about deliveries that we sent. The range is clamped to those that are
    /// unsettled; ids that nobody knows are ignored.
    fn handle_outcomes(
        &mut self,
        channel: u16,
        first: Serial,
        last: Serial,
        settled: bool,
        state: &DeliveryState,
    ) {
        let session = self.sessions.get_mut(usize::from(channel));
        let Some(session) = session.and_then(Option::as_deref_mut) else {
            return;
        };
        for index in session.sent.range(first, last) {
            let Some(sent) = session.sent.at(index) else {
                continue;
            };
            let decided = std::mem::replace(&mut sent.decided, true);
            let (handle, token) = (sent.handle, sent.token);
            let delivery_id = session.sent.id(index);
            if settled {
                session.sent.take(index);
                forget_one(session, handle);
            }
            // The first outcome counts; a later one can only settle.
            if let (false, Some(link)) = (decided, session.named_link(handle)) {
                let state = state.clone();
                self.events.push_back(Event::Outcome {
                    link,
                    token,
                    delivery_id,
                    state,
                    settled,
                });
            }
        }
        session.sent.tidy();
    }

    /// The sender settled deliveries that we received.
    fn handle_settled(&mut self, channel: u16, first: Serial, last: Serial) {
        let session = self.sessions.get_mut(usize::from(channel));
        let Some(session) = session.and_then(Option::as_deref_mut) else {
            return;
        };
        for index in session.received.range(first, last) {
            let delivery_id = session.received.id(index);
            let Some(received) = session.received.take(index) else {
                continue;
            };
            forget_one(session, received.handle);
            if let Some(link) = session.named_link(received.handle) {
                self.events
                    .push_back(Event::SenderSettled { link, delivery_id });
            }
        }
        session.received.tidy();
    }

    /// Decides about a delivery that we received: settles it, or with `rcv-settle-mode` second waits
    /// for the sender to settle. Answers leave in ranges.
    pub fn settle_received(
        &mut self,
        handle: LinkHandle,
        delivery_id: Serial,
        state: DeliveryState,
    ) {
        let Some(Found { session, dirty, .. }) = self.find(handle) else {
            return;
        };
        let received = session.received.get_mut(delivery_id);
        let ours = received.filter(|received| received.handle == handle.handle);
        let Some(received) = ours.filter(|received| !received.decided) else {
            return;
        };
        received.decided = true;
        let settled = !received.second;
        if settled {
            session.received.remove(delivery_id);
            forget_one(session, handle.handle);
        }
        session.queue_disposition(Role::Receiver, delivery_id, settled, state);
        mark(dirty, session);
    }

    /// Settles a delivery that we sent, after an [`Event::Outcome`] that was not settled.
    pub fn settle_sent(&mut self, handle: LinkHandle, delivery_id: Serial, state: DeliveryState) {
        let Some(Found { session, dirty, .. }) = self.find(handle) else {
            return;
        };
        let sent = session.sent.get_mut(delivery_id);
        if sent.is_none_or(|sent| sent.handle != handle.handle) {
            return;
        }
        session.sent.remove(delivery_id);
        forget_one(session, handle.handle);
        session.queue_disposition(Role::Sender, delivery_id, true, state);
        mark(dirty, session);
    }

    /// Client, second settle mode, and consumers that want an answer: tells the outcome of a delivery
    /// without settling it; [`Event::SenderSettled`] follows.
    pub fn decide_received(
        &mut self,
        handle: LinkHandle,
        delivery_id: Serial,
        state: DeliveryState,
    ) {
        let Some(Found { session, .. }) = self.find(handle) else {
            return;
        };
        if let Some(received) = session.received.get_mut(delivery_id) {
            received.second = true;
        }
        self.settle_received(handle, delivery_id, state);
    }
}

/// Counts one delivery of a link as settled.
fn forget_one(session: &mut Session, handle: u32) {
    if let Some(link) = session.link_mut(handle) {
        link.unsettled = link.unsettled.saturating_sub(1);
    }
}
