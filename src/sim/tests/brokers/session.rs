//! What a session of a client makes of the broker's frames.

use std::collections::BTreeSet;

use super::client::{Event, HeldDelivery, Link, Partial, Role, Session, before};
use super::codec::{self, Answered, FlowState, Incoming, Outcome, State};
use super::payload;
use super::resuming::Kept;
use super::transacting;
use crate::base::Millis;

/// A link that is detached.
#[derive(Debug)]
pub(super) struct Gone {
    pub(super) handle: u32,
    /// We began it.
    pub(super) was_detaching: bool,
    /// The publishes that no outcome is known of.
    pub(super) publishes: Vec<u64>,
    /// It outlives this.
    pub(super) kept: Option<(String, Kept)>,
    pub(super) was_coordinator: bool,
}

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
            let fails = link.is_some_and(|link| !link.detaching && link.recovery.is_none());
            let is_kept = link.is_some_and(|link| link.recovery.is_some());
            if !is_kept && !held.browsed && !std::mem::replace(&mut held.decided, true) && fails {
                failing.push(held.message);
            }
        }
        failing
    }

    /// A link is attached. Returns what it should have kept and did not.
    pub(super) fn on_attach(&mut self, answered: &Answered) -> Result<Vec<u64>, String> {
        let Answered {
            name,
            receives,
            handle: remote,
            count,
            ..
        } = answered;
        let (receives, remote, count) = (*receives, *remote, *count);
        if self.remote.contains_key(&remote) {
            return Err("a handle is used twice".to_owned());
        }
        let mut links = self.links.iter_mut();
        let (own, link) = links
            .find(|(_, link)| link.name == *name && link.role.sends() == receives)
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
        link.on_answer(answered)
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
        let delivery = if let Some(mut partial) = link.partial.take() {
            if transfer.id.is_some_and(|other| other != partial.id) {
                return Err("another delivery in the middle of one".to_owned());
            }
            partial.payload.extend_from_slice(&transfer.payload);
            partial
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
            let mut payload = match &link.recovery {
                Some(recovery) if transfer.resumed => {
                    recovery.front_of(&transfer.tag, transfer.at)?
                }
                _ => Vec::new(),
            };
            let in_part = !payload.is_empty();
            payload.extend_from_slice(&transfer.payload);
            Partial {
                id,
                settled: transfer.settled,
                resumed: transfer.resumed,
                tag: transfer.tag,
                in_part,
                payload,
            }
        };
        if transfer.more {
            link.partial = Some(delivery);
            return Ok(None);
        }
        self.on_delivery(own, delivery, is_closing).map(Some)
    }

    /// All of a delivery has come.
    fn on_delivery(
        &mut self,
        handle: u32,
        delivery: Partial,
        is_closing: bool,
    ) -> Result<Event, String> {
        let Partial {
            id,
            settled,
            resumed,
            tag,
            in_part,
            payload,
        } = delivery;
        let link = self
            .links
            .get_mut(&handle)
            .ok_or("a delivery on a dead link")?;
        let Role::Consumer {
            queue,
            browses,
            selects,
            ..
        } = link.role.clone()
        else {
            let (request, status) = codec::read_answer(&payload)?;
            return Ok(Event::Answered { request, status });
        };
        let message = payload::read_message(&payload)?.id;
        let stale = is_closing || link.detaching || self.ending;
        if !stale {
            let outcome = link.take_resumed(&tag, message, resumed)?;
            let held = HeldDelivery {
                handle,
                message,
                queue,
                tag,
                decided: outcome.is_some(),
                outcome,
                browsed: browses,
                late: false,
            };
            if !settled {
                self.hold(id, held)?;
            }
        }
        Ok(Event::Delivery {
            handle,
            id,
            settled,
            stale,
            resumed,
            in_part,
            browsed: browses,
            selected: selects,
            payload,
        })
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
        state: Option<State>,
    ) -> Result<Vec<Event>, String> {
        let Some(state) = state else {
            return if settled {
                Err("a publish is settled without an outcome".to_owned())
            } else {
                Ok(Vec::new())
            };
        };
        let mut events = Vec::new();
        for id in first..=last {
            if let Some(control) = self.controls.remove(&id) {
                events.push(transacting::answered(control, &state)?);
                continue;
            }
            match (self.sent.remove(&id), &state) {
                // It would be accepted, or its transaction is refused.
                (Some(_), State::Provisional) if settled => {}
                (Some((handle, message)), State::Outcome(outcome)) => {
                    let outcome = outcome.clone();
                    self.note_told(id, (handle, message), settled)?;
                    events.push(Event::Told { message, outcome });
                }
                (None, _) if self.forgotten.remove(&id) => {}
                (None, _) => return Err(format!("an outcome for {id}, which is settled")),
                (Some(_), state) => {
                    return Err(format!("a publish is {state:?}, settled {settled}"));
                }
            }
        }
        Ok(events)
    }

    /// On a link that outlives its connection the broker tells an outcome, and the publisher settles.
    fn note_told(
        &mut self,
        id: u32,
        (handle, message): (u32, u64),
        settled: bool,
    ) -> Result<(), String> {
        let link = self.links.get_mut(&handle);
        let recovery = link.and_then(|link| link.recovery.as_mut());
        match (recovery, settled) {
            (None, false) => Err(format!("an outcome of {id}, and it is not settled")),
            (None, true) => Ok(()),
            (Some(recovery), true) => {
                recovery.open.remove(&message);
                Ok(())
            }
            (Some(recovery), false) => {
                let open = recovery.open.get_mut(&message);
                open.ok_or("an outcome of what is settled")?.told = true;
                self.told.insert(id, (handle, message));
                Ok(())
            }
        }
    }

    /// The broker settled what this client decided about, or released what it held for too long.
    pub(super) fn on_confirmed(
        &mut self,
        (first, last): (u32, u32),
        settled: bool,
        state: Option<&State>,
    ) -> Result<Vec<Event>, String> {
        let is_released = state == Some(&State::Outcome(Outcome::Released));
        if !settled {
            for (_, held) in self.held.range_mut(first..=last) {
                held.late |= is_released;
            }
            return Ok(Vec::new());
        }
        let mut events = Vec::new();
        for id in first..=last {
            match self.held.remove(&id) {
                Some(held) if held.browsed && held.decided => {}
                // It may have decided before it was told.
                Some(held)
                    if held.late || is_released && held.outcome != Some(Outcome::Released) =>
                {
                    if !is_released || !held.decided {
                        return Err(format!("what was held for too long is {state:?}"));
                    }
                    let message = held.message;
                    events.push(Event::Late { message });
                }
                Some(held) if held.outcome == Some(Outcome::Accepted) => {
                    let message = held.message;
                    events.push(Event::Confirmed { message });
                }
                Some(held) if held.decided => {}
                Some(_) => return Err("the broker settles what was not decided".to_owned()),
                None if self.forgotten_held.remove(&id) => {}
                None => return Err(format!("{id} is settled twice by the broker")),
            }
        }
        Ok(events)
    }

    /// A link is gone.
    pub(super) fn on_detach(&mut self, remote: u32, now: Millis) -> Result<Gone, String> {
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
        let was_detaching = link.detaching;
        let was_coordinator = link.role == Role::Coordinator;
        let kept = self.keep_link(own, link, now).filter(|_| was_detaching);
        self.told.retain(|_, (handle, _)| *handle != own);
        self.held.retain(|_, held| held.handle != own);
        Ok(Gone {
            handle: own,
            was_detaching,
            publishes,
            kept,
            was_coordinator,
        })
    }
}
