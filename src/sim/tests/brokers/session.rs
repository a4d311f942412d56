//! What a session of a client makes of the broker's frames.

use std::collections::BTreeSet;

use super::client::{Event, HeldDelivery, Link, Role, Session, before};
use super::codec::{self, FlowState, Incoming, Outcome};

impl Link {
    /// A delivery uses one credit.
    fn begin_delivery(&mut self) -> Result<(), String> {
        if self.count == self.limit {
            return Err("[AMQP 2.6.7] a delivery beyond the link's credit".to_owned());
        }
        self.count = self.count.wrapping_add(1);
        self.draining &= self.count != self.limit;
        Ok(())
    }
}

impl Session {
    /// The messages that come back as failed when the session goes now. Those of links that detach
    /// come back otherwise.
    pub(super) fn failing(&mut self) -> Vec<u64> {
        let mut failing = Vec::new();
        for held in self.held.values_mut() {
            let link = self.links.get(&held.handle);
            if !std::mem::replace(&mut held.decided, true) && link.is_some_and(|l| !l.detaching) {
                failing.push(held.message);
            }
        }
        failing
    }

    pub(super) fn on_attach(
        &mut self,
        name: &str,
        receives: bool,
        remote: u32,
        count: Option<u32>,
    ) -> Result<(), String> {
        if self.remote.contains_key(&remote) {
            return Err("a handle is used twice".to_owned());
        }
        let mut links = self.links.iter_mut();
        let (own, link) = links
            .find(|(_, link)| link.name == name && link.role.sends() == receives)
            .ok_or("a link that was not asked for")?;
        if link.attached {
            return Err("attached twice".to_owned());
        }
        link.attached = true;
        if let (false, Some(count)) = (link.role.sends(), count) {
            let credit = link.limit.wrapping_sub(link.count);
            link.count = count;
            link.limit = count.wrapping_add(credit);
        }
        self.remote.insert(remote, *own);
        Ok(())
    }

    pub(super) fn on_flow(&mut self, flow: FlowState) -> Result<(), String> {
        let next = flow.next_incoming.unwrap_or(0);
        self.window_end = next.wrapping_add(flow.window);
        let Some((remote, count, credit)) = flow.link else {
            return Ok(());
        };
        let own = self.remote.get(&remote).ok_or("flow of an unknown link")?;
        let Some(link) = self.links.get_mut(own) else {
            return Ok(());
        };
        if link.role.sends() {
            link.limit = count.unwrap_or(0).wrapping_add(credit.unwrap_or(0));
            return Ok(());
        }
        let count = count.ok_or("a sender's flow without delivery-count")?;
        if before(link.limit, count) || before(count, link.count) {
            return Err(format!(
                "delivery-count {count} is not between {} and {}",
                link.count, link.limit
            ));
        }
        link.count = count;
        link.draining &= link.count != link.limit;
        Ok(())
    }

    pub(super) fn on_transfer(
        &mut self,
        transfer: Incoming,
        is_closing: bool,
    ) -> Result<Option<Event>, String> {
        if self.next_incoming == self.incoming_end {
            return Err("[AMQP 2.5.6] a transfer beyond the session's window".to_owned());
        }
        self.next_incoming = self.next_incoming.wrapping_add(1);
        let own = *self
            .remote
            .get(&transfer.handle)
            .ok_or("a transfer on an unknown link")?;
        let link = self
            .links
            .get_mut(&own)
            .ok_or("a transfer on a dead link")?;
        if link.role.sends() {
            return Err("a transfer to a publisher".to_owned());
        }
        let (id, settled, tag, payload) =
            if let Some((id, settled, tag, mut payload)) = link.partial.take() {
                if transfer.id.is_some_and(|other| other != id) {
                    return Err("another delivery in the middle of one".to_owned());
                }
                payload.extend_from_slice(&transfer.payload);
                (id, settled, tag, payload)
            } else {
                let id = transfer.id.ok_or("a delivery without delivery-id")?;
                link.begin_delivery()?;
                if self
                    .expected_delivery
                    .is_some_and(|expected| expected != id)
                {
                    return Err(format!("delivery-id {:?} expected", self.expected_delivery));
                }
                self.expected_delivery = Some(id.wrapping_add(1));
                (id, transfer.settled, transfer.tag, transfer.payload)
            };
        if transfer.more {
            link.partial = Some((id, settled, tag, payload));
            return Ok(None);
        }
        let Role::Consumer { queue, .. } = link.role.clone() else {
            let (request, status) = codec::read_answer(&payload)?;
            return Ok(Some(Event::Answered { request, status }));
        };
        let message = codec::read_message(&payload)?.id;
        let stale = is_closing || link.detaching || self.ending;
        if !settled && !stale {
            self.hold(
                id,
                HeldDelivery {
                    handle: own,
                    message,
                    queue,
                    tag,
                    decided: false,
                    accepted: false,
                },
            )?;
        }
        Ok(Some(Event::Delivery {
            handle: own,
            id,
            settled,
            stale,
            payload,
        }))
    }

    fn hold(&mut self, id: u32, delivery: HeldDelivery) -> Result<(), String> {
        let same = |held: &HeldDelivery| held.handle == delivery.handle && held.tag == delivery.tag;
        if self.held.values().any(same) {
            return Err("a delivery-tag is used twice".to_owned());
        }
        match self.held.insert(id, delivery) {
            None => Ok(()),
            Some(_) => Err("[AMQP 2.6.12] a delivery-id is used twice".to_owned()),
        }
    }

    /// The broker told what became of publishes.
    pub(super) fn on_outcomes(
        &mut self,
        (first, last): (u32, u32),
        settled: bool,
        outcome: Option<Outcome>,
    ) -> Result<Vec<Event>, String> {
        if !settled {
            return Ok(Vec::new());
        }
        let outcome = outcome.ok_or("a publish is settled without an outcome")?;
        let mut events = Vec::new();
        for id in first..=last {
            match self.sent.remove(&id) {
                Some((_, message)) => {
                    let outcome = outcome.clone();
                    events.push(Event::Told { message, outcome });
                }
                None if self.forgotten.remove(&id) => {}
                None => return Err(format!("an outcome for {id}, which is settled")),
            }
        }
        Ok(events)
    }

    /// The broker settled what this client decided about.
    pub(super) fn on_confirmed(
        &mut self,
        (first, last): (u32, u32),
        settled: bool,
    ) -> Result<Vec<Event>, String> {
        if !settled {
            return Ok(Vec::new());
        }
        let mut events = Vec::new();
        for id in first..=last {
            match self.held.remove(&id) {
                Some(held) if held.accepted => events.push(Event::Confirmed {
                    message: held.message,
                }),
                Some(held) if held.decided => {}
                Some(_) => return Err("the broker settles what was not decided".to_owned()),
                None if self.forgotten_held.remove(&id) => {}
                None => return Err(format!("{id} is settled twice by the broker")),
            }
        }
        Ok(events)
    }

    /// A link is gone: whether we began it, and the publishes that no outcome is known of.
    pub(super) fn on_detach(&mut self, remote: u32) -> Result<(u32, bool, Vec<u64>), String> {
        let own = self
            .remote
            .remove(&remote)
            .ok_or("detach of an unknown link")?;
        let link = self.links.remove(&own).ok_or("detach of a dead link")?;
        let gone: BTreeSet<u32> = self
            .sent
            .iter()
            .filter(|(_, (handle, _))| *handle == own)
            .map(|(id, _)| *id)
            .collect();
        let publishes = gone.iter().filter_map(|id| self.sent.remove(id));
        let publishes = publishes.map(|(_, message)| message).collect();
        self.forgotten.extend(gone);
        let held = self.held.iter().filter(|(_, held)| held.handle == own);
        let held: Vec<u32> = held.map(|(id, _)| *id).collect();
        self.forgotten_held.extend(&held);
        self.held.retain(|_, held| held.handle != own);
        Ok((own, link.detaching, publishes))
    }
}
