//! What the clients and the operator of a world do.

use super::client::{FRAME_BYTES, Phase, Role, Session, Subscribed};
use super::codec::{Outcome, Sent};
use super::ledger::{SUBSCRIBED, Sending};
use super::payload::{self, Extras};
use super::topology::{self, FANOUT, TOPICS};
use super::trial::Fault;
use super::world::World;
use crate::base::Name;
use crate::broker::names::QUARANTINE;
use crate::broker::{Command, QueueCommand, TopologyCommand};
use crate::wire::HeaderFields;

/// Links of each kind that a client has at most.
const LINKS: usize = 3;
/// Messages of one world at most.
const MESSAGES: u64 = 500;
/// The groups that messages belong to.
const GROUPS: [&str; 4] = ["red", "green", "blue", payload::ENDING_GROUP];
/// Large ones among them.
const LARGE_MESSAGES: u64 = 12;

impl World {
    /// A client does something.
    pub(super) fn act(&mut self, client: usize) {
        match self.clients[client].phase {
            Phase::Down => self.connect(client),
            Phase::Up => {
                if self.clients[client].session.is_none() {
                    self.clients[client].begin();
                } else if self.clients[client].is_ready() {
                    self.act_in_session(client);
                }
                self.flush_client(client);
            }
            _ => {}
        }
    }

    fn act_in_session(&mut self, client: usize) {
        match self.random.below(42) {
            40 | 41 => self.manage(client),
            37..40 if self.trial.has(Fault::Transactions) && self.random.one_in(2) => {
                self.transact(client);
            }
            38..40 if self.trial.has(Fault::Resume) && self.random.one_in(2) => self.resume(client),
            2..16 => {
                for _ in 0..=self.random.below(8) {
                    self.publish(client);
                }
            }
            16..21 => self.give_credit(client),
            21..37 => self.settle(client),
            37 => {
                let handle = u32::try_from(self.random.below(6)).unwrap();
                let link = self.link(client, handle);
                if link.is_some_and(|(attached, _)| attached) && self.random.one_in(3) {
                    let closed = !self.random.one_in(4);
                    self.clients[client].detach(handle, closed || !self.quiet);
                }
            }
            38 if self.random.one_in(8) => {
                self.fail_held(client);
                self.clients[client].end();
            }
            39 if self.random.one_in(12) => {
                self.note(&format!("client {client} closes"));
                self.fail_held(client);
                self.clients[client].close();
            }
            _ => self.attach(client),
        }
    }

    /// Whether a link is attached and not detaching, and its role.
    fn link(&self, client: usize, handle: u32) -> Option<(bool, Role)> {
        let session = self.clients[client].session.as_ref()?;
        let link = session.links.get(&handle)?;
        Some((link.attached && !link.detaching, link.role.clone()))
    }

    fn fail_held(&mut self, client: usize) {
        self.abandon(client);
        let session = self.clients[client].session.as_mut();
        for message in session.map(Session::failing).unwrap_or_default() {
            self.ledger.fail(message);
        }
    }

    pub(super) fn handles(&self, client: usize, wanted: impl Fn(&Role) -> bool) -> Vec<u32> {
        let session = self.clients[client].session.as_ref();
        let links = session.into_iter().flat_map(|session| &session.links);
        links
            .filter(|(_, link)| wanted(&link.role) && !link.detaching)
            .map(|(handle, _)| *handle)
            .collect()
    }

    fn attach(&mut self, client: usize) {
        let publishes = self.random.one_in(3);
        let role = |role: &Role| match role {
            Role::Publisher { .. } => publishes,
            Role::Consumer { .. } => !publishes,
            Role::Requests | Role::Answers | Role::Coordinator => false,
        };
        if self.handles(client, role).len() >= LINKS {
            return;
        }
        let names = self.topology.names();
        let queue = if self.trial.has(Fault::Groups) && self.random.one_in(2) {
            names[0] // so that several want the messages of one group
        } else {
            *self.random.pick(&names).unwrap()
        };
        let queue = queue.to_owned();
        self.attach_to(client, publishes, queue);
    }

    pub(super) fn attach_to(&mut self, client: usize, publishes: bool, queue: String) {
        let copies = publishes && self.random.one_in(4);
        let settled =
            !publishes && !self.quiet && self.trial.has(Fault::Settled) && self.random.one_in(4);
        let browses =
            !publishes && !self.quiet && self.trial.has(Fault::Browse) && self.random.one_in(4);
        let selects = !publishes
            && !browses
            && !self.quiet
            && self.trial.has(Fault::Selectors)
            && self.random.one_in(3);
        let subscribed = if publishes || browses || self.quiet {
            None
        } else {
            self.subscribed()
        };
        let address = if copies || subscribed.is_some() {
            format!("/exchanges/{FANOUT}")
        } else if publishes && self.trial.has(Fault::Routes) && self.random.one_in(2) {
            format!("/exchanges/{TOPICS}/{queue}")
        } else {
            format!("/queues/{queue}")
        };
        let timeout_s = if browses || subscribed.is_some() {
            0
        } else {
            self.timeout_s(settled)
        };
        let role = if publishes {
            let copies = if copies { self.topology.copies } else { 1 };
            Role::Publisher { copies }
        } else {
            let second = !settled && self.random.one_in(3);
            let queue = match subscribed {
                Some(_) => SUBSCRIBED.to_owned(),
                None => queue,
            };
            Role::Consumer {
                queue,
                second,
                browses,
                selects,
                subscribed,
            }
        };
        self.clients[client].attach(role, &address, settled, timeout_s);
    }

    /// How the next consumer is subscribed, if it is.
    fn subscribed(&mut self) -> Option<Subscribed> {
        let subscribes = self.trial.has(Fault::Subscriptions) && self.random.one_in(3);
        let subscribed = subscribes.then(|| self.random.pick(&Subscribed::ALL).copied());
        subscribed.flatten()
    }

    /// How long a link is to outlive its connection, in seconds.
    fn timeout_s(&mut self, settled: bool) -> u32 {
        if settled || !self.trial.has(Fault::Resume) || self.random.one_in(3) {
            return 0;
        }
        if self.random.one_in(3) { 1 } else { 60 }
    }

    pub(super) fn publish(&mut self, client: usize) {
        let handles = self.handles(client, |role| matches!(role, Role::Publisher { .. }));
        let Some(handle) = self.random.pick(&handles).copied() else {
            return;
        };
        let Some((_, Role::Publisher { copies })) = self.link(client, handle) else {
            return;
        };
        let recovery = self.clients[client].recovery(handle);
        if recovery.is_some_and(|recovery| !recovery.is_settled()) {
            return;
        }
        let is_large = self.trial.has(Fault::Large)
            && !self.trial.has(Fault::Arguments)
            && self.random.one_in(10)
            && self.ledger.large < LARGE_MESSAGES;
        let bytes = match self.random.below(8) {
            _ if is_large => 200_000 + usize::try_from(self.random.below(400_000)).unwrap(),
            0 => 700 + usize::try_from(self.random.below(1_500)).unwrap(),
            _ => usize::try_from(self.random.below(400)).unwrap(),
        };
        if self.ledger.sent() >= MESSAGES || !self.clients[client].may_send(handle, bytes + 60) {
            return;
        }
        let header = self.header();
        let cc = self.second_key(client, handle);
        let copies = copies + usize::from(cc.is_some());
        let is_copied = copies > 1;
        let sending = Sending {
            durable: header.durable == Some(true),
            copies,
            all_enter: !is_copied || !self.trial.loses_queues(),
            subscribed: is_copied && cc.is_none() && self.trial.has(Fault::Subscriptions),
        };
        let id = self.ledger.send(sending);
        self.ledger.large += u64::from(is_large);
        let extras = Extras {
            group: self.group(),
            delay_ms: self.delay_ms(),
            cc: cc.as_deref(),
        };
        let payload = payload::message(id, bytes, &header, extras);
        let transaction = match self.clients[client].recovery(handle) {
            Some(_) => None,
            None => self.pick_transaction(client),
        };
        if let Some((_, transaction)) = transaction {
            self.ledger.post(transaction, id);
        }
        let sent = Sent {
            settled: self.random.one_in(15),
            resume: false,
            at: None,
            transaction: transaction.as_ref().map(|(id, _)| &**id),
        };
        self.clients[client].send(handle, id, &payload, &sent);
        let is_kept = self.clients[client].recovery(handle).is_some();
        if is_kept && bytes > FRAME_BYTES && self.trial.has(Fault::Cut) && self.random.one_in(3) {
            self.cut_under_message(client);
        }
    }

    /// The second routing key of the next message, if it has two: another queue than that of its link.
    fn second_key(&mut self, client: usize, handle: u32) -> Option<String> {
        let session = self.clients[client].session.as_ref()?;
        let address = &session.links[&handle].address;
        let first = address.strip_prefix(&format!("/exchanges/{TOPICS}/"))?;
        let names = self.topology.names();
        let others = names.into_iter().filter(|name| *name != first);
        let others: Vec<String> = others.map(str::to_owned).collect();
        if self.random.one_in(3) {
            self.random.pick(&others).cloned()
        } else {
            None
        }
    }

    /// The header of the next message.
    fn header(&mut self) -> HeaderFields {
        let durable = !self
            .random
            .one_in(if self.trial.has(Fault::Memory) { 2 } else { 5 });
        let ttl = self.random.one_in(12);
        let priority = self
            .trial
            .has(Fault::Selectors)
            .then(|| self.random.below(10));
        HeaderFields {
            durable: Some(durable),
            priority: priority.map(|priority| u8::try_from(priority).unwrap()),
            ttl_ms: ttl.then(|| 1 + u32::try_from(self.random.below(40)).unwrap()),
            ..HeaderFields::default()
        }
    }

    /// The group of the next message, and whether it is the last of it.
    fn group(&mut self) -> Option<(&'static str, bool)> {
        if !self.trial.has(Fault::Groups) || self.random.one_in(3) {
            return None;
        }
        let group = *self.random.pick(&GROUPS)?;
        Some((
            group,
            payload::ends(group.as_bytes()) && self.random.one_in(4),
        ))
    }

    /// When the next message is to be delivered.
    fn delay_ms(&mut self) -> Option<u64> {
        let waits = self.trial.has(Fault::Scheduled) && self.random.one_in(4);
        waits.then(|| 1 + self.random.below(50))
    }

    fn give_credit(&mut self, client: usize) {
        let handles = self.handles(client, |role| matches!(role, Role::Consumer { .. }));
        let Some(handle) = self.random.pick(&handles).copied() else {
            return;
        };
        let session = self.clients[client].session.as_ref().unwrap();
        let link = &session.links[&handle];
        let left = link.limit.wrapping_sub(link.count);
        if link.draining || !link.attached {
            return;
        }
        let more = u32::try_from(self.random.below(12)).unwrap();
        let drain = !self.quiet && self.random.one_in(10);
        if left < 20 {
            self.clients[client].credit(handle, more, drain);
        }
    }

    fn settle(&mut self, client: usize) {
        let session = self.clients[client].session.as_ref().unwrap();
        let held: Vec<u32> = session
            .held
            .iter()
            .filter(|(_, held)| !held.decided && !session.links[&held.handle].detaching)
            .map(|(id, _)| *id)
            .collect();
        let Some(first) = self.random.pick(&held).copied() else {
            return;
        };
        let most = if self.random.one_in(3) { 5 } else { 0 };
        let handle = session.held[&first].handle;
        let same = |id: &u32| {
            let held = session.held.get(id);
            held.is_some_and(|held| held.handle == handle && !held.decided)
        };
        let last = (first..=first + most).take_while(same).last().unwrap();
        let second = match &session.links[&handle].role {
            Role::Consumer { second, .. } => *second,
            Role::Publisher { .. } | Role::Requests | Role::Answers | Role::Coordinator => false,
        };
        let outcome = self.outcome();
        let session = self.clients[client].session.as_ref().unwrap();
        let recovers = session.links[&handle].recovery.is_some();
        let is_plain = !second && !recovers;
        // What was settled first, and lost with the line, comes back without having failed if the link is attached
        // again before the broker sees the line end.
        let is_sure = (second || !recovers) && !session.links[&handle].transacted;
        let browsed = session.held[&first].browsed;
        let settled = session.held.range(first..=last);
        let settled: Vec<(u64, String)> = settled
            .filter(|(_, held)| !held.late)
            .map(|(_, held)| (held.message, held.queue.clone()))
            .collect();
        let transaction = if is_plain && !browsed {
            self.pick_transaction(client)
        } else {
            None
        };
        for (message, queue) in settled.into_iter().filter(|_| !browsed) {
            // Of a transaction that ended while this was on its way the link is closed, and what it held goes back.
            let is_sure = is_sure && transaction.is_none();
            self.ledger.settle(message, &queue, &outcome, is_sure);
            if let Some((_, transaction)) = transaction {
                self.ledger.retire(transaction, message, &outcome);
            }
        }
        if transaction.is_some()
            && let Some(session) = &mut self.clients[client].session
            && let Some(link) = session.links.get_mut(&handle)
        {
            link.transacted = true;
        }
        let transaction = transaction.as_ref().map(|(id, _)| &**id);
        self.clients[client].settle((first, last), &outcome, (second, transaction));
        // What it decided about is confirmed to nobody then.
        if second && !self.quiet && self.random.one_in(6) {
            self.clients[client].detach(handle, true);
        }
    }

    /// What a consumer had decided about is released only if it had held it for too long.
    pub(super) fn check_late(&self, message: u64) -> Result<(), String> {
        if self.trial.times_out() {
            return Ok(());
        }
        Err(format!(
            "message {message} is released, in spite of its outcome"
        ))
    }

    fn outcome(&mut self) -> Outcome {
        if self.quiet {
            return Outcome::Accepted;
        }
        match self.random.below(10) {
            0..3 => Outcome::Accepted,
            3..6 => Outcome::Rejected,
            6 => Outcome::Released,
            _ => Outcome::Modified {
                failed: self.random.one_in(2),
                here: self.random.one_in(4),
            },
        }
    }

    /// An operator sets a policy, or takes it away.
    pub(super) fn change_policy(&mut self) -> Result<(), String> {
        let command = if self.random.one_in(2) {
            let policy = Box::new(topology::policy(&mut self.random, &self.topology));
            let mut keys = policy.given.iter().map(|(key, _)| key.as_str());
            self.ledger.isolates |= keys.any(|key| key == "poison-isolation");
            Command::Topology(TopologyCommand::PolicySet {
                operator: false,
                policy,
            })
        } else {
            Command::Topology(TopologyCommand::PolicyDelete {
                operator: false,
                name: Name::from("p"),
            })
        };
        let told: String = format!("{command:?}").chars().take(200).collect();
        self.note(&told);
        self.machine.ask(command).map(drop)
    }

    /// An operator purges a queue, deletes it, or declares what is missing.
    pub(super) fn change_queue(&mut self) -> Result<(), String> {
        let names = self.topology.names();
        let name = Name::from(*self.random.pick(&names).unwrap());
        let command = match self.random.below(4) {
            0 => Command::Queue(QueueCommand::Delete {
                connection: None,
                name,
                if_unused: false,
                if_empty: false,
            }),
            1 => Command::Queue(QueueCommand::Purge {
                connection: None,
                name,
                with_dead_pending: self.random.one_in(2),
            }),
            _ => return self.topology.declare(&self.machine),
        };
        self.note(&format!("{command:?}"));
        self.machine.ask(command).map(drop)
    }

    /// A client does its part of the draining.
    pub(super) fn drain(&mut self, client: usize) {
        if !self.clients[client].is_ready() {
            return;
        }
        self.resume(client);
        // What they do not want of a group that they have waits until they go.
        let ends = |role: &Role| matches!(role, Role::Consumer { selects, subscribed, .. } if *selects || subscribed.is_some());
        for handle in self.handles(client, ends) {
            if self
                .link(client, handle)
                .is_some_and(|(attached, _)| attached)
            {
                self.clients[client].detach(handle, true);
            }
        }
        if !self.clients[client].transactions.is_empty() {
            self.transact(client);
        }
        let mut names = self.topology.names();
        let has_quarantine = self.machine.look(|core| core.queue(QUARANTINE).is_some());
        if has_quarantine == Ok(true) {
            names.push(QUARANTINE);
        }
        let missing: Vec<String> = names
            .iter()
            .filter(|name| {
                let consumes = |role: &Role| {
                    let Role::Consumer {
                        queue,
                        browses: false,
                        selects: false,
                        subscribed: None,
                        ..
                    } = role
                    else {
                        return false;
                    };
                    queue == *name
                };
                client == 0 && self.handles(client, consumes).is_empty()
            })
            .map(|name| (*name).to_owned())
            .collect();
        for queue in missing {
            self.attach_to(client, false, queue);
        }
        for _ in 0..4 {
            self.give_credit(client);
            self.settle(client);
        }
        self.flush_client(client);
    }
}
