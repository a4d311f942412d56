//! Dispositions in both directions. [AMQP 2.6.12, 2.7.6]

use std::collections::VecDeque;

use bytes::Bytes;

use super::{Connection, LinkContext, mark_dirty};
use crate::base::Serial;
#[cfg(test)]
use crate::base::plant::{Plant, is_planted};
use crate::link::error::Violation;
use crate::link::session::{Session, queue_dispositions};
use crate::link::unsettled::Fate;
use crate::link::{Event, LinkHandle, SessionHandle};
use crate::wire::performative::{DeliveryState, Disposition, PerformativeError, Role};

/// Capacity for tokens allocated at once: in a range over many links each delivery may be a run of
/// its own.
const TOKENS_AT_ONCE: usize = 256;

impl Connection {
    pub(super) fn handle_disposition(
        &mut self,
        channel_in: u16,
        disposition: Disposition,
    ) -> Result<(), Violation> {
        if disposition.role == Role::Receiver
            && let Some(DeliveryState::Transactional { txn_id, .. }) = &disposition.state
        {
            self.tell_lost(channel_in, &disposition, txn_id)?;
        }
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
                let is_client = self.client.is_some();
                let Some(state) = outcome(state, settled, is_client)? else {
                    return Ok(());
                };
                self.handle_outcomes(channel, first, last, settled, &state);
            }
            Role::Sender if settled => self.handle_settled(channel, first, last),
            // A sender that only reports its state waits for the receiver's outcome.
            Role::Sender => {}
        }
        Ok(())
    }

    /// Tells of an outcome of a transaction for a delivery whose link or session was ended from here.
    #[cold]
    fn tell_lost(
        &mut self,
        channel_in: u16,
        disposition: &Disposition,
        txn_id: &[u8],
    ) -> Result<(), Violation> {
        let (first, last) = (disposition.first, disposition.last);
        let session = self.session_in(channel_in)?;
        if session.is_none_or(|session| session.has_dropped(first, last)) {
            let txn_id = Box::from(txn_id);
            self.events.push_back(Event::WorkLost { txn_id });
        }
        Ok(())
    }

    /// Handles a receiver's outcome for deliveries to it. The range is clamped to those that are
    /// unsettled; unknown ids are ignored.
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
        if settled {
            settle_outcomes(session, &mut self.events, (first, last), state);
            return;
        }
        let is_provisional = matches!(state, DeliveryState::Transactional { .. });
        for index in session.sent.range(first, last) {
            let Some(sent) = session.sent.at(index) else {
                continue; // settled before
            };
            // The first outcome counts; a later one can only settle.
            let decided = std::mem::replace(&mut sent.decided, true) && !is_provisional;
            let (handle, token) = (sent.handle, sent.token);
            let delivery_id = session.sent.id(index);
            if let (false, Some(link)) = (decided, session.named_link(handle)) {
                let state = state.clone();
                self.events.push_back(Event::Outcome {
                    link,
                    token,
                    delivery_id,
                    state,
                });
            }
        }
    }

    /// Handles a sender's settlement of deliveries from it.
    fn handle_settled(&mut self, channel: u16, first: Serial, last: Serial) {
        let session = self.sessions.get_mut(usize::from(channel));
        let Some(session) = session.and_then(Option::as_deref_mut) else {
            return;
        };
        for index in session.received.range(first, last) {
            let delivery_id = session.received.id(index);
            let Some(received) = session.received.take(index) else {
                continue; // settled before
            };
            if let Some(link) = session.named_link(received.handle) {
                self.events
                    .push_back(Event::SenderSettled { link, delivery_id });
            }
        }
        session.received.tidy();
    }

    /// Sends the outcome of a received delivery: settles it, or with `rcv-settle-mode` second waits
    /// for the sender to settle. Outcomes are sent in ranges.
    pub fn settle_received(
        &mut self,
        handle: LinkHandle,
        delivery_id: Serial,
        state: &DeliveryState,
    ) {
        self.settle_received_range(handle, delivery_id, delivery_id, state);
    }

    /// [`settle_received`](Self::settle_received) for all deliveries of the link from `first` to
    /// `last` that have no outcome yet.
    pub fn settle_received_range(
        &mut self,
        handle: LinkHandle,
        first: Serial,
        last: Serial,
        state: &DeliveryState,
    ) {
        let Some(LinkContext { session, dirty, .. }) = self.find(handle) else {
            return;
        };
        let Session {
            received,
            dispositions,
            ..
        } = session;
        let mut run: Option<(Serial, Serial, bool)> = None;
        let mut queue = |run: Option<(Serial, Serial, bool)>| {
            if let Some((first, last, settled)) = run {
                queue_dispositions(dispositions, Role::Receiver, (first, last), settled, state);
                #[cfg(test)]
                if is_planted(Plant::OutcomeTwice) {
                    queue_dispositions(dispositions, Role::Receiver, (first, last), settled, state);
                }
            }
        };
        received.visit(received.range(first, last), |id, received| {
            if received.handle != handle.handle || received.decided {
                return Fate::Kept;
            }
            received.decided = true;
            let settled = !received.second;
            match &mut run {
                Some((_, last, same)) if last.plus(1) == id && *same == settled => *last = id,
                other => queue(other.replace((id, id, settled))),
            }
            if settled { Fate::Taken } else { Fate::Kept }
        });
        queue(run);
        session.received.tidy();
        mark_dirty(dirty, session);
    }

    /// Settles a sent delivery, after an [`Event::Outcome`] that was not settled.
    pub fn settle_sent(&mut self, handle: LinkHandle, delivery_id: Serial, state: &DeliveryState) {
        let Some(LinkContext { session, dirty, .. }) = self.find(handle) else {
            return;
        };
        let sent = session.sent.get_mut(delivery_id);
        if sent.is_none_or(|sent| sent.handle != handle.handle) {
            return;
        }
        session.sent.remove(delivery_id);
        session.queue_disposition(Role::Sender, delivery_id, true, state);
        mark_dirty(dirty, session);
    }

    /// Forgets the outcome of a sent delivery, which was not settled: the receiver gives another.
    /// False if it is not there any more.
    pub fn reopen_sent(&mut self, handle: LinkHandle, delivery_id: Serial) -> bool {
        let found = self.find(handle);
        let sent = found.and_then(|found| found.session.sent.get_mut(delivery_id));
        match sent.filter(|sent| sent.handle == handle.handle) {
            Some(sent) => {
                sent.decided = false;
                true
            }
            None => false,
        }
    }

    /// Tells the peer that deliveries of a session are released, which their tokens pick: the peer
    /// is to settle them. Those that wait to be sent are told of once they have a delivery-id. [AMQP
    /// 2.7.6]
    pub fn release_sent(&mut self, session: SessionHandle, mut is_late: impl FnMut(u64) -> bool) {
        let found = self.sessions.get_mut(usize::from(session.channel));
        let found = found.and_then(Option::as_deref_mut);
        let Some(session) = found.filter(|found| found.generation == session.generation) else {
            return;
        };
        let Session {
            sent, dispositions, ..
        } = &mut *session;
        sent.visit(0..usize::MAX, |id, sent| {
            if !sent.decided && is_late(sent.token) {
                let (role, state) = (Role::Sender, &DeliveryState::Released);
                queue_dispositions(dispositions, role, (id, id), false, state);
            }
            Fate::Kept
        });
        for link in session.links_mut() {
            let waiting = link.sender.waiting.iter_mut();
            for waiting in waiting.filter(|waiting| waiting.delivery_id.is_none()) {
                waiting.is_released |= !waiting.settled && is_late(waiting.token);
            }
        }
        mark_dirty(&mut self.dirty, session);
    }

    /// Forgets a received delivery without an outcome: one that the peer resumed, and that is not known.
    pub fn forget_received(&mut self, handle: LinkHandle, delivery_id: Serial) {
        if let Some(LinkContext { session, .. }) = self.find(handle)
            && let Some(received) = session.received.get_mut(delivery_id)
            && received.handle == handle.handle
        {
            session.received.remove(delivery_id);
        }
    }

    /// For clients with second settle mode, and consumers that want an answer: sends the outcome of
    /// a delivery without settling it; [`Event::SenderSettled`] follows.
    pub fn decide_received(
        &mut self,
        handle: LinkHandle,
        delivery_id: Serial,
        state: &DeliveryState,
    ) {
        let Some(LinkContext { session, .. }) = self.find(handle) else {
            return;
        };
        if let Some(received) = session.received.get_mut(delivery_id) {
            received.second = true;
        }
        self.settle_received(handle, delivery_id, state);
    }
}

/// The receiver's outcome; none as long as there is none. A delivery settled before it reached an
/// outcome gets the default-outcome of the source, which is `released` in all attaches of the
/// broker. [AMQP 3.4, 3.5.3]
fn outcome(
    state: Option<DeliveryState>,
    settled: bool,
    is_client: bool,
) -> Result<Option<DeliveryState>, Violation> {
    match state {
        None | Some(DeliveryState::Received { .. }) => {
            Ok(settled.then_some(DeliveryState::Released))
        }
        Some(state) if state.is_outcome() => Ok(Some(state)),
        // Part of a transaction, and not decided yet. [AMQP 4.5.8]
        Some(DeliveryState::Transactional { outcome: None, .. }) if !settled => Ok(None),
        Some(DeliveryState::Transactional { txn_id, outcome }) => {
            provisional(txn_id, outcome).map(Some)
        }
        // What a coordinator tells its controller. [AMQP 4.2]
        Some(state @ DeliveryState::Declared { .. }) if is_client => Ok(Some(state)),
        // Choice: as RabbitMQ, any other state ends the session, also for an unknown delivery.
        Some(_) => Err(Violation::StateUnsupported),
    }
}

/// An outcome that holds once a transaction is committed; without one it is that of a delivery
/// settled without an outcome. [AMQP 4.5.6]
fn provisional(txn_id: Bytes, outcome: Option<Bytes>) -> Result<DeliveryState, Violation> {
    let outcome = outcome.unwrap_or_else(|| {
        let mut released = Vec::new();
        DeliveryState::Released.write(&mut released);
        released.into()
    });
    let state = DeliveryState::decode(&outcome).map_err(PerformativeError::Decode)?;
    if !state.is_outcome() {
        return Err(Violation::StateUnsupported);
    }
    let outcome = Some(outcome);
    Ok(DeliveryState::Transactional { txn_id, outcome })
}

/// Removes settled deliveries from the session. Those whose outcome was reported before are only
/// forgotten, unless they are settled in a transaction; the others are reported in runs of one link.
fn settle_outcomes(
    session: &mut Session,
    events: &mut VecDeque<Event>,
    (first, last): (Serial, Serial),
    state: &DeliveryState,
) {
    let is_provisional = matches!(state, DeliveryState::Transactional { .. });
    let mut range = session.sent.range(first, last);
    while !range.is_empty() {
        let mut handle = None;
        let mut tokens = Vec::with_capacity(range.len().min(TOKENS_AT_ONCE));
        range.start = session.sent.visit(range.clone(), |_, sent| {
            if *handle.get_or_insert(sent.handle) != sent.handle {
                return Fate::Beyond;
            }
            if !sent.decided || is_provisional {
                tokens.push(sent.token);
            }
            Fate::Taken
        });
        if let Some(handle) = handle {
            tell_settled(session, events, handle, tokens, state);
        }
    }
    session.sent.tidy();
}

/// Reports that a run of deliveries of a link was settled, unless the link has ended.
fn tell_settled(
    session: &Session,
    events: &mut VecDeque<Event>,
    handle: u32,
    tokens: Vec<u64>,
    state: &DeliveryState,
) {
    if let Some(link) = session.named_link(handle)
        && !tokens.is_empty()
    {
        let state = state.clone();
        events.push_back(Event::Settled {
            link,
            tokens,
            state,
        });
    }
}
