//! Flow: session windows and link credit. [AMQP 2.5.6, 2.6.7 to 2.6.10, 2.7.4]

use super::{Connection, LinkContext, mark_dirty};
use crate::link::error::Violation;
use crate::link::link::LinkState;
use crate::link::{Event, LinkHandle};
use crate::wire::performative::{Flow, LinkFlow, Role};

impl Connection {
    pub(super) fn handle_flow(&mut self, channel_in: u16, flow: &Flow) -> Result<(), Violation> {
        let initial = self.options.initial_outgoing_id;
        let Some(session) = self.session_in(channel_in)? else {
            return Ok(());
        };
        let limit_before = session.limit();
        let was_closed = session.remote_incoming_window == 0;
        session.take_window(flow, initial);
        let changed = session.limit() != limit_before;
        let channel = session.channel;
        let handle = session.handle();
        if flow.echo && flow.link.is_none() {
            session.flow_due = true;
        }
        let found = flow
            .link
            .as_ref()
            .map(|link| (link, session.handle_for(link.handle)));
        if changed {
            self.events
                .push_back(Event::SessionFlow { session: handle });
        }
        if was_closed {
            self.resume(channel);
        }
        self.mark_channel(channel);
        match found {
            None => Ok(()),
            Some((link, None)) => Err(Violation::UnattachedHandle {
                handle: link.handle,
            }),
            Some((link, Some(handle))) => {
                self.handle_link_flow(channel, handle, link, flow.echo);
                Ok(())
            }
        }
    }

    fn handle_link_flow(&mut self, channel: u16, handle: u32, flow: &LinkFlow, echo: bool) {
        let Some(session) = self.session_at(channel) else {
            return;
        };
        let named = session.named_link(handle);
        let (Some(named), Some(link)) = (named, session.link_mut(handle)) else {
            return;
        };
        match (&link.role, link.state) {
            (_, LinkState::Detaching) => {}
            (Role::Sender, _) if flow.acquires => {
                self.fail_link(channel, handle, &Violation::Acquisition);
            }
            (Role::Sender, LinkState::Asked) => {
                let before = link.sender.early_flow.take();
                let echo = echo || before.is_some_and(|(_, echo)| echo);
                link.sender.early_flow = Some((flow.clone(), echo));
            }
            (Role::Sender, _) => self.handle_credit(named, flow, echo),
            (Role::Receiver, _) => self.handle_sender_flow(named, flow, echo),
        }
    }

    /// Handles a receiver's flow for a link on which the engine sends.
    pub(super) fn handle_credit(&mut self, link: LinkHandle, flow: &LinkFlow, echo: bool) {
        let initial = self.options.initial_delivery_count;
        let owner_echoes = self.options.owner_echoes;
        let Some(LinkContext {
            session,
            events,
            dirty,
            ..
        }) = self.find(link)
        else {
            return;
        };
        let Some(state) = session.link_mut(link.handle) else {
            return;
        };
        state.take_credit(flow, initial);
        let limit = state.limit();
        let drain = flow.drain;
        if echo && !drain && !owner_echoes {
            // A drain is answered when it is done.
            session.queue_flow(link.handle);
            mark_dirty(dirty, session);
        }
        events.push_back(Event::LinkFlow {
            link,
            limit,
            drain,
            echo,
        });
    }

    /// Handles a sender's flow for a link on which the engine receives. [AMQP 2.6.7]
    ///
    /// "The receiver's value is calculated based on the last known value from the sender and any
    /// subsequent messages received on the link."
    fn handle_sender_flow(&mut self, link: LinkHandle, flow: &LinkFlow, echo: bool) {
        let Some(LinkContext {
            session,
            events,
            dirty,
            ..
        }) = self.find(link)
        else {
            return;
        };
        let Some(state) = session.link_mut(link.handle) else {
            return;
        };
        let count = flow.delivery_count.unwrap_or(state.delivery_count);
        let used_up = count.distance_from(state.delivery_count);
        let drained = state.drain && used_up <= state.credit && flow.drain;
        if used_up <= state.credit {
            state.delivery_count = count;
            state.credit -= used_up;
        }
        if drained {
            state.drain = false;
        }
        if echo {
            session.queue_flow(link.handle);
            mark_dirty(dirty, session);
        }
        let available = flow.available;
        events.push_back(Event::SenderFlow {
            link,
            available,
            drained,
        });
    }

    pub(super) fn mark_channel(&mut self, channel: u16) {
        let session = self.sessions.get_mut(usize::from(channel));
        if let Some(session) = session.and_then(Option::as_deref_mut) {
            mark_dirty(&mut self.dirty, session);
        }
    }
}

/// Commands that change credit.
impl Connection {
    /// Where the engine receives: lets the sender send `credit` messages from now on. [AMQP 2.6.7]
    pub fn set_credit(&mut self, link: LinkHandle, credit: u32) {
        self.grant(link, credit, false);
    }

    /// Where the engine receives: lets the sender send `credit` messages, or report that it has no
    /// more. [AMQP 2.6.7]
    pub fn drain(&mut self, link: LinkHandle, credit: u32) {
        self.grant(link, credit, true);
    }

    fn grant(&mut self, handle: LinkHandle, credit: u32, drain: bool) {
        let Some(LinkContext { session, dirty, .. }) = self.find(handle) else {
            return;
        };
        let Some(link) = session.link_mut(handle.handle) else {
            return;
        };
        if link.role != Role::Receiver || link.state == LinkState::Detaching {
            return;
        }
        let revoked = link.credit.saturating_sub(credit);
        link.revoked = link.revoked.saturating_add(revoked);
        link.credit = credit;
        link.drain = drain;
        if link.state != LinkState::Asked {
            session.queue_flow(handle.handle);
            mark_dirty(dirty, session);
        }
    }

    /// Where the engine sends: tells the receiver the state of the link, and how many messages wait for its
    /// credit.
    pub fn tell_available(&mut self, handle: LinkHandle, available: u32) {
        let Some(LinkContext { session, dirty, .. }) = self.find(handle) else {
            return;
        };
        let Some(link) = session.link_mut(handle.handle) else {
            return;
        };
        if link.role != Role::Sender || link.state != LinkState::Attached {
            return;
        }
        link.sender.available = available;
        session.queue_flow(handle.handle);
        mark_dirty(dirty, session);
    }

    /// Where the engine sends: all ready messages were sent; uses up the credit and reports that.
    /// [AMQP 2.6.7]
    ///
    /// "the sender will (after sending all available messages) advance the delivery-count as much as
    /// possible, consuming all link-credit, and send the flow state to the receiver."
    ///
    /// `limit` is the one that was drained, in messages since the attach: the receiver may have
    /// given more credit since, which stays.
    pub fn drained(&mut self, handle: LinkHandle, limit: u64) {
        let Some(LinkContext { session, dirty, .. }) = self.find(handle) else {
            return;
        };
        let Some(link) = session.link_mut(handle.handle) else {
            return;
        };
        if link.role != Role::Sender || link.state != LinkState::Attached {
            return;
        }
        let left = limit.saturating_sub(link.sender.taken);
        let credit = link.credit.min(u32::try_from(left).unwrap_or(u32::MAX));
        link.credit -= credit;
        link.delivery_count = link.delivery_count.plus(credit);
        link.sender.taken += u64::from(credit);
        session.queue_flow(handle.handle);
        mark_dirty(dirty, session);
    }
}
