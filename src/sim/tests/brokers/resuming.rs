//! Links of the simulated clients that outlive their connections: what a client keeps of one, compares with
//! what the broker keeps of it, and sends again. [AMQP 2.6.13]

use std::collections::{BTreeMap, VecDeque};

use super::client::{Client, Event, HeldDelivery, Link, Partial, Role, Session};
use super::codec::{self, Answered, Outcome, Sent};
use super::points::section_start;
use super::trial::Fault;
use super::world::World;
use crate::base::Millis;

/// How much earlier a client gives a link up than the broker may, in milliseconds.
const MARGIN_MS: u64 = 500;

/// A publish that is not settled.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) payload: Vec<u8>,
    /// Its outcome is known, and it is not settled yet.
    pub(super) told: bool,
}

/// How a publish is sent again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Again {
    /// The broker does not have it.
    Anew,
    /// The broker has a part of it: up to this offset in this section.
    InPart(u32, u64),
    /// The broker has it.
    Resumed,
    /// The broker has it, and its outcome is known.
    Settled,
}

/// What a client has of a link that outlives its connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Recovery {
    pub(super) timeout_s: u32,
    /// It outlives the broker, too.
    pub(super) durable: bool,
    pub(super) open: BTreeMap<u64, Open>,
    pub(super) again: VecDeque<(u64, Again)>,
    /// Deliveries from before that were not resumed yet, by their tags.
    pub(super) held: BTreeMap<Vec<u8>, HeldDelivery>,
    /// The delivery of which a part has come, without an outcome: tag and bytes.
    pub(super) begun: Option<(Vec<u8>, Vec<u8>)>,
    /// One end did not name all that it has: the link is attached once more before it goes on. [AMQP 2.7.3]
    pub(super) is_incomplete: bool,
    /// It was detached when a transaction may have had outcomes of it: then the broker gives back what else
    /// it held.
    pub(super) may_linger: bool,
}

/// A link that is nowhere attached.
#[derive(Debug)]
pub(super) struct Kept {
    role: Role,
    address: String,
    pub(super) recovery: Recovery,
    since: Millis,
}

impl Kept {
    fn is_over(&self, now: Millis) -> bool {
        now.since(self.since) + MARGIN_MS >= u64::from(self.recovery.timeout_s) * 1_000
    }

    /// Whether it outlives the broker.
    pub(super) const fn is_durable(&self) -> bool {
        self.recovery.durable
    }

    fn has_any(&self) -> bool {
        let Recovery {
            open, held, begun, ..
        } = &self.recovery;
        !open.is_empty() || !held.is_empty() || begun.is_some()
    }
}

pub(super) fn tag_of(message: u64) -> [u8; 8] {
    message.to_be_bytes()
}

impl Recovery {
    /// Whether its publisher may send what is new.
    pub(super) fn is_settled(&self) -> bool {
        self.again.is_empty() && !self.is_incomplete
    }

    /// Compares what the client has with what the broker answered. Returns the messages that the client had
    /// not decided about and the broker does not keep.
    fn compare(&mut self, sends: bool, answered: &Answered) -> Result<Vec<u64>, String> {
        if (answered.timeout_s, answered.durable) != (Some(self.timeout_s), self.durable) {
            let (durable, timeout_s) = (self.durable, self.timeout_s);
            return Err(format!(
                "[AMQP 3.5.5, 3.5.6] to be kept for {timeout_s} s, durable {durable}: {answered:?}"
            ));
        }
        let has = |tag: &[u8]| answered.unsettled.iter().any(|theirs| theirs == tag);
        let is_known = |tag: &Vec<u8>| {
            let mut open = self.open.keys().map(|message| tag_of(*message));
            if sends {
                open.any(|of| of == tag.as_slice())
            } else {
                let begun = self.begun.as_ref();
                self.held.contains_key(tag) || begun.is_some_and(|(of, _)| of == tag)
            }
        };
        let unknown = answered.unsettled.iter().find(|tag| !is_known(tag));
        if let (Some(tag), false) = (unknown, self.is_incomplete) {
            return Err(format!(
                "the broker names {tag:02x?}, which is settled: {self:?}"
            ));
        }
        self.is_incomplete |= answered.is_incomplete;
        let is_whole = !answered.is_incomplete;
        self.again.clear();
        self.open
            .retain(|message, open| !open.told || !is_whole || has(&tag_of(*message)));
        for (message, open) in &self.open {
            let mut begun = answered.begun.iter();
            if let Some((_, section, offset)) = begun.find(|(of, ..)| *of == tag_of(*message)) {
                if open.told {
                    return Err(format!("{message} was told, and has arrived in part"));
                }
                let in_part = Again::InPart(*section, *offset);
                self.again.push_back((*message, in_part));
                continue;
            }
            let again = match (has(&tag_of(*message)), open.told) {
                (true, true) => Again::Settled,
                (true, false) => Again::Resumed,
                (false, _) if self.is_incomplete => continue,
                (false, _) => Again::Anew,
            };
            self.again.push_back((*message, again));
        }
        let mut dropped = Vec::new();
        self.begun.take_if(|(tag, _)| is_whole && !has(tag));
        self.held.retain(|tag, held| {
            let stays = !is_whole || has(tag);
            if !stays && held.outcome.is_none() && !self.may_linger {
                dropped.push(held.message);
            }
            stays
        });
        self.may_linger &= !is_whole;
        Ok(dropped)
    }
}

impl Link {
    /// Takes the broker's answer to the attach of this link. Returns what it should have kept and did not.
    pub(super) fn on_answer(&mut self, answered: &Answered) -> Result<Vec<u64>, String> {
        let sends = self.role.sends();
        match &mut self.recovery {
            Some(recovery) if !answered.is_refused => recovery.compare(sends, answered),
            _ => Ok(Vec::new()),
        }
    }

    /// Takes a delivery that has come. Returns the outcome that it had before, if it is `resumed`.
    pub(super) fn take_resumed(
        &mut self,
        tag: &[u8],
        message: u64,
        resumed: bool,
    ) -> Result<Option<Outcome>, String> {
        let mut before = None;
        let mut is_begun = false;
        if let Some(recovery) = &mut self.recovery {
            before = recovery.held.remove(tag);
            is_begun = recovery.begun.take_if(|(of, _)| of == tag).is_some();
        }
        if (before.is_some() || is_begun) != resumed {
            return Err(format!(
                "[AMQP 2.7.5] resumed is {resumed}, and before: {before:?}, begun {is_begun}"
            ));
        }
        match before {
            Some(held) if held.message != message => {
                Err(format!("{held:?} comes back as message {message}"))
            }
            before => Ok(before.and_then(|held| held.outcome)),
        }
    }
}

impl Recovery {
    /// What has come of a delivery that goes on at this section and offset: nothing if it is sent from its
    /// beginning.
    pub(super) fn front_of(&self, tag: &[u8], at: Option<(u32, u64)>) -> Result<Vec<u8>, String> {
        let Some((section, offset)) = at.filter(|at| *at != (0, 0)) else {
            return Ok(Vec::new());
        };
        let begun = self.begun.as_ref().filter(|(of, _)| of == tag);
        let (_, bytes) = begun.ok_or("a delivery goes on of which nothing had come")?;
        let start = section_start(bytes, section);
        let end = start.and_then(|start| start.checked_add(usize::try_from(offset).ok()?));
        let front = end.and_then(|end| bytes.get(..end));
        let front = front.ok_or("[AMQP 3.4.1] a delivery goes on behind what had come")?;
        Ok(front.to_vec())
    }

    /// Keeps a delivery of which a part has come.
    fn keep_begun(&mut self, partial: Partial) {
        let held = self.held.get(&partial.tag);
        let is_open = held.is_none_or(|held| held.outcome.is_none());
        if is_open && !partial.settled && !partial.payload.is_empty() {
            self.begun = Some((partial.tag, partial.payload));
        }
    }
}

impl Session {
    /// What is left of the links that outlive it.
    pub(super) fn keep(&mut self, now: Millis) -> Vec<(String, Kept)> {
        let links = std::mem::take(&mut self.links);
        links
            .into_iter()
            .filter_map(|(handle, link)| self.keep_link(handle, link, now))
            .collect()
    }

    /// What is left of a link, if it outlives its end.
    pub(super) fn keep_link(
        &mut self,
        handle: u32,
        link: Link,
        now: Millis,
    ) -> Option<(String, Kept)> {
        let mut recovery = link.recovery.filter(|_| !link.closing)?;
        recovery.again.clear();
        let held = self.held.values().filter(|held| held.handle == handle);
        let held = held.map(|held| (held.tag.clone(), held.clone()));
        recovery.held.extend(held);
        if let Some(partial) = link.partial {
            recovery.keep_begun(partial);
        }
        let kept = Kept {
            role: link.role,
            address: link.address,
            recovery,
            since: link.leaving.or(self.leaving).unwrap_or(now),
        };
        Some((link.name, kept))
    }
}

impl Client {
    /// Whether nothing is left of links that are nowhere attached, or to be sent again.
    pub(super) fn has_resumed_all(&self) -> bool {
        let links = self
            .session
            .iter()
            .flat_map(|session| session.links.values());
        let mut attached = links.filter_map(|link| link.recovery.as_ref());
        !self.kept.values().any(Kept::has_any)
            && attached.all(|it| it.open.is_empty() && it.held.is_empty() && it.begun.is_none())
    }

    /// Whether a part of a delivery has come on a link that outlives its connection.
    pub(super) fn receives_in_part(&self) -> bool {
        let mut links = self.session.iter().flat_map(|it| it.links.values());
        links.any(|link| link.partial.is_some() && link.recovery.is_some())
    }

    /// Whether this message waits for its consumer to come back.
    pub(super) fn awaits(&self, message: u64, now: Millis) -> bool {
        let is_kept = |kept: &&Kept| !kept.is_over(now) && !kept.recovery.may_linger;
        let kept = self.kept.values().filter(is_kept);
        let mut held = kept.flat_map(|kept| kept.recovery.held.values());
        held.any(|held| held.message == message && held.outcome.is_none())
    }

    /// Sends a publish of the link once more: which, and how. None if it cannot be sent now.
    fn send_again(&mut self, handle: u32) -> Option<(u64, Again)> {
        let next = self.session.as_ref().and_then(|session| {
            let recovery = session.links.get(&handle)?.recovery.as_ref()?;
            let (message, again) = *recovery.again.front()?;
            let payload = recovery.open.get(&message)?.payload.clone();
            Some((message, again, payload))
        });
        let (message, again, payload) = next?;
        let (payload, at) = match again {
            Again::Anew => (payload, None),
            Again::Resumed | Again::Settled => (Vec::new(), None),
            Again::InPart(section, offset) => rest_of(message, payload, (section, offset)),
        };
        if !self.may_send(handle, payload.len()) {
            return None;
        }
        let settled = again == Again::Settled;
        let sent = Sent {
            settled,
            resume: again != Again::Anew,
            at,
            transaction: None,
        };
        self.transfer(handle, message, &payload, &sent);
        if let Some(recovery) = self.recovery(handle) {
            recovery.again.pop_front();
            if settled {
                recovery.open.remove(&message);
            }
        }
        Some((message, again))
    }

    pub(super) fn recovery(&mut self, handle: u32) -> Option<&mut Recovery> {
        let session = self.session.as_mut()?;
        session.links.get_mut(&handle)?.recovery.as_mut()
    }

    /// Settles publishes whose outcome is known: `all`, or those that are settled at once.
    pub(super) fn settle_told(&mut self, all: bool) {
        let Some(session) = &mut self.session else {
            return;
        };
        let told = session.told.iter();
        let now = told.filter(|(_, (_, message))| all || !message.is_multiple_of(4));
        let now: Vec<_> = now.map(|(id, of)| (*id, *of)).collect();
        for (id, (handle, message)) in now {
            session.told.remove(&id);
            codec::settle_sent(&mut self.output, id);
            let link = session.links.get_mut(&handle);
            if let Some(recovery) = link.and_then(|link| link.recovery.as_mut()) {
                recovery.open.remove(&message);
            }
        }
    }

    /// Whether the link is to be attached once more.
    fn is_to_attach_again(&self, handle: u32) -> bool {
        let session = self.session.as_ref();
        let Some((session, link)) = session.and_then(|s| Some((s, s.links.get(&handle)?))) else {
            return false;
        };
        let waits = session.sent.values().any(|(of, _)| *of == handle);
        let recovery = link.recovery.as_ref();
        link.attached
            && !link.detaching
            && !waits
            && recovery.is_some_and(|it| it.is_incomplete && it.again.is_empty())
    }
}

/// What is sent of a message that goes on at this section and offset, and where it says that it goes on: there,
/// there without saying so, or from its beginning.
fn rest_of(message: u64, payload: Vec<u8>, at: (u32, u64)) -> (Vec<u8>, Option<(u32, u64)>) {
    let offset = usize::try_from(at.1).unwrap_or(usize::MAX);
    let start = section_start(&payload, at.0);
    let rest = start.and_then(|start| payload.get(start.checked_add(offset)?..));
    match (rest, message % 4) {
        (Some(rest), 0 | 1) => (rest.to_vec(), Some(at)),
        (Some(rest), 2) => (rest.to_vec(), None),
        _ => (payload, Some((0, 0))),
    }
}

impl World {
    /// A client goes on with links that outlived their connections.
    pub(super) fn resume(&mut self, client: usize) {
        if !self.trial.has(Fault::Resume) || !self.clients[client].is_ready() {
            return;
        }
        let now = self.machine.now().mono;
        self.clients[client].now = now;
        self.clients[client]
            .kept
            .retain(|_, kept| !kept.is_over(now));
        if let Some((name, kept)) = self.clients[client].kept.pop_first() {
            let mut recovery = kept.recovery;
            let has_many = recovery.held.len() + recovery.open.len() > 2;
            recovery.is_incomplete = has_many && !self.quiet && self.random.one_in(4);
            let again = (kept.role, kept.address);
            if let Err((role, address)) =
                self.clients[client].attach_again(&name, again, recovery.clone())
            {
                let since = kept.since;
                let kept = Kept {
                    role,
                    address,
                    recovery,
                    since,
                };
                self.clients[client].kept.insert(name, kept);
            }
        }
        for handle in self.handles(client, |role| {
            matches!(role, Role::Publisher { .. } | Role::Consumer { .. })
        }) {
            while let Some((message, again)) = self.clients[client].send_again(handle) {
                self.resumed += 1;
                if matches!(again, Again::Anew | Again::InPart(..)) {
                    self.ledger.send_anew(message);
                }
                self.in_part.published += u64::from(matches!(again, Again::InPart(..)));
            }
            if self.clients[client].is_to_attach_again(handle) && self.random.one_in(3) {
                self.clients[client].detach(handle, false);
            }
        }
        let all = self.quiet || self.random.one_in(3);
        self.clients[client].settle_told(all);
    }

    /// What a consumer can still resume is nobody else's.
    pub(super) fn check_awaited(&self, message: u64) -> Result<(), String> {
        let now = self.machine.now().mono;
        let awaits = |client: &Client| client.awaits(message, now);
        match self.clients.iter().position(awaits) {
            // What is not durable may be anywhere after a crash, whoever had it.
            _ if self.crashes > 0 && !self.ledger.is_kept(message) => Ok(()),
            Some(holder) if self.ledger.has_one_copy(message) && !self.quiet => Err(format!(
                "message {message} waits for client {holder}, and came to another"
            )),
            _ => Ok(()),
        }
    }

    /// The broker does not keep what a consumer could resume: its queue is another one by now.
    pub(super) fn check_dropped(&self, event: &Event) -> Result<(), String> {
        match event {
            // One that is not durable may have been lost with the broker.
            Event::Dropped { message }
                if !self.trial.has(Fault::Queues) && self.ledger.is_kept(*message) =>
            {
                Err(format!("message {message} was to be kept for its consumer"))
            }
            _ => Ok(()),
        }
    }
}
