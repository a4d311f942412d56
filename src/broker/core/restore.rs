//! A core is rebuilt from the journal's records. Applying a fact twice equals applying it once.

use std::sync::Arc;

use bytes::Bytes;

use super::{Core, Options};
use crate::base::{HolderId, Lsn, Millis, Name, Now, Position, QueueId, Timestamp};
use crate::broker::arguments::{QueueArguments, QueueProperties};
use crate::broker::queue::{Pending, Queue, Slot, State, lane};
use crate::broker::{Body, DropCause, Entry, Fact, Record};
use crate::deaths::Reason;
use crate::message::{Message, Route};
use crate::wire::Value;

use super::admission::size_bytes;

/// Reads records into a new core, in the order of their LSNs.
#[derive(Debug)]
pub struct Restoring {
    core: Core,
    now: Now,
    /// Milliseconds between the last stamp of the journal and now that count as passed.
    down_ms: u64,
    /// The last stamp of the journal.
    stopped: Timestamp,
    /// Names of bodies and the messages that name them, sorted, once all records are read.
    named: Vec<(Lsn, QueueId, Position)>,
}

impl Restoring {
    /// Begins. `stopped` is the last wall-clock stamp of the journal: time until `now.wall` counts
    /// as spent down, never below 0, and above `down_max_ms` as 0. `now.mono` must be larger than
    /// the age of any message, else that message lives as much longer.
    pub fn new(options: Options, now: Now, stopped: Timestamp, down_max_ms: u64) -> Self {
        let down_ms = u64::try_from(now.wall.0.saturating_sub(stopped.0)).unwrap_or(0);
        let down_ms = if down_ms > down_max_ms { 0 } else { down_ms };
        let mut core = Core::new(options);
        core.router.keep_unused(true);
        Self {
            core,
            now,
            down_ms,
            stopped,
            named: Vec::new(),
        }
    }

    /// What was rebuilt so far, to look at.
    pub const fn core(&self) -> &Core {
        &self.core
    }

    /// Applies the facts of one record.
    pub fn record(&mut self, record: &Record) {
        for fact in &record.facts {
            self.fact(record.lsn, fact);
        }
        self.core.recorder.resume_after(record.lsn);
    }

    /// All records are read: the bodies that messages name, rising.
    pub fn bodies(&mut self) -> Vec<Lsn> {
        let mut named = Vec::new();
        for queue in self.core.queues() {
            for state in [State::Ready, State::Dying] {
                let mut from = Position(0);
                while let Some(position) = queue.messages.find(state, from, |_| true) {
                    from = Position(position.0 + 1);
                    if let Some(slot) = queue.messages.slot(position)
                        && slot.body > Lsn(0)
                    {
                        named.push((slot.body, queue.id, position));
                    }
                }
            }
        }
        named.sort_unstable();
        self.named = named;
        let mut bodies: Vec<Lsn> = self.named.iter().map(|(body, ..)| *body).collect();
        bodies.dedup();
        bodies
    }

    /// Of [`Restoring::bodies`], those whose bytes were not in the records, rising.
    pub fn missing(&self) -> Vec<Lsn> {
        let hollow = self.named.iter().filter(|(_, queue, position)| {
            let queue = self.core.queues.get(queue);
            let slot = queue.and_then(|queue| queue.messages.slot(*position));
            slot.is_some_and(|slot| slot.message.is_hollow())
        });
        let mut missing: Vec<Lsn> = hollow.map(|(body, ..)| *body).collect();
        missing.dedup();
        missing
    }

    /// Gives the messages that name a body its bytes. Without bytes, or with others than theirs,
    /// they are dropped as damaged; returns how many were.
    pub fn fill(&mut self, body: Lsn, bytes: Option<&Bytes>) -> u64 {
        let first = self.named.partition_point(|(name, ..)| *name < body);
        let mut damaged = 0;
        let mut last: Option<(Arc<Message>, Arc<Message>)> = None;
        for (name, id, position) in self.named.iter().skip(first) {
            if *name != body {
                break;
            }
            let Some(queue) = self.core.queues.get_mut(id) else {
                continue;
            };
            let Some(slot) = queue.messages.slot_mut(*position) else {
                continue;
            };
            if !slot.message.is_hollow() {
                continue;
            }
            let known = last
                .as_ref()
                .filter(|(hollow, _)| Arc::ptr_eq(hollow, &slot.message));
            let whole = match known {
                Some((_, whole)) => Some(whole.clone()),
                None => bytes
                    .and_then(|bytes| slot.message.filled(bytes))
                    .map(Arc::new),
            };
            if let Some(whole) = whole {
                let hollow = std::mem::replace(&mut slot.message, whole.clone());
                last = Some((hollow, whole));
                continue;
            }
            let waited = queue.pending.remove(*position).is_some();
            let state = if waited { State::Dying } else { State::Ready };
            queue.messages.take(*position, state);
            let drops = &mut queue.counters.drops;
            drops.add(self.now.mono, None, DropCause::Damaged, 1);
            damaged += 1;
        }
        damaged
    }

    /// Ends: settings are worked out, queues are scheduled to be served. [`Restoring::bodies`]
    /// comes before it.
    pub fn finish(mut self) -> Core {
        for pair in self.named.windows(2) {
            if let [(a, ..), (b, ..)] = pair
                && a == b
            {
                self.core.recorder.share(*a);
            }
        }
        self.core.router.keep_unused(false);
        self.core.policies_changed();
        for id in self.core.names.values().copied().collect::<Vec<_>>() {
            self.core.schedule(id);
        }
        self.core
    }

    fn fact(&mut self, lsn: Lsn, fact: &Fact) {
        match fact {
            Fact::Inserted {
                message,
                route,
                body,
                entries,
            } => {
                let body = match *body {
                    Body::Named => lsn,
                    Body::Carried => Lsn(0),
                    Body::At(body) => body,
                };
                for entry in entries {
                    self.insert(message, route, body, *entry);
                }
            }
            Fact::Removed {
                queue, position, ..
            } => self.remove(*queue, *position),
            Fact::Returned {
                queue,
                position,
                failures,
                acquired,
                message,
            } => {
                if let Some(slot) = self.slot(*queue, *position) {
                    slot.failures = *failures;
                    slot.acquired = *acquired;
                    if let Some(message) = message {
                        slot.message = message.with_body_of(&slot.message);
                    }
                }
            }
            Fact::DeadPending {
                queue,
                position,
                reason,
                message,
                targets,
            } => {
                self.dead_pending(*queue, *position, *reason, message, targets.clone());
            }
            Fact::Purged { queue, below, kept } => self.purge(*queue, below, kept),
            Fact::QueueDeclared {
                queue,
                name,
                auto_delete,
                arguments,
            } => {
                self.declare_queue(*queue, name, *auto_delete, arguments);
            }
            Fact::QueueDeleted { queue } => self.delete_queue(*queue),
            Fact::QueueIds { next } => {
                self.core.next_queue = self.core.next_queue.max(next.0);
            }
            _ => self.topology(fact),
        }
    }

    /// Topology is applied as it was; what is there already, or gone already, stays so.
    fn topology(&mut self, fact: &Fact) {
        let core = &mut self.core;
        match fact {
            Fact::ExchangeDeclared(spec) => {
                core.durable_exchanges.insert(spec.name.clone());
                drop(core.router.declare(spec.clone()));
            }
            Fact::ExchangeDeleted { name } => {
                core.durable_exchanges.remove(name);
                drop(core.router.delete(name, false));
            }
            Fact::Bound {
                source,
                destination,
                key,
                arguments,
            } => {
                drop(core.router.bind(source, destination, key, arguments));
            }
            Fact::Unbound {
                source,
                destination,
                key,
                arguments,
            } => {
                drop(core.router.unbind(source, destination, key, arguments));
            }
            Fact::PolicySet { operator, policy } => {
                core.policies.set(*operator, (**policy).clone());
            }
            Fact::PolicyDeleted { operator, name } => {
                core.policies.delete(*operator, name);
            }
            _ => {}
        }
    }

    fn declare_queue(
        &mut self,
        id: QueueId,
        name: &Name,
        auto_delete: bool,
        arguments: &[(Name, Value)],
    ) {
        if id.0 < self.core.next_queue {
            return;
        }
        self.core.next_queue = id.0 + 1;
        let properties = QueueProperties {
            durable: true,
            exclusive: false,
            auto_delete,
        };
        let Ok(parsed) = QueueArguments::parse(name, properties, arguments) else {
            return;
        };
        let settings = self.core.policies.settings(name, &parsed);
        let mut queue = Queue::new(self.now, id, name.clone(), parsed, settings);
        queue.durable = true;
        queue.declared_durable = true;
        queue.auto_delete = auto_delete;
        self.core.install(queue);
    }

    fn delete_queue(&mut self, id: QueueId) {
        let Some(queue) = self.core.queues.remove(&id) else {
            return;
        };
        self.core.names.remove(&queue.name);
        self.core.router.queue_removed(&queue.name);
        self.core.pending_queues.remove(&id);
    }

    fn insert(&mut self, message: &Arc<Message>, route: &Arc<Route>, body: Lsn, entry: Entry) {
        let age_ms = u64::try_from(self.stopped.0.saturating_sub(entry.arrived.0)).unwrap_or(0);
        let age_ms = age_ms.saturating_add(self.down_ms);
        let arrived = Millis(self.now.mono.0.saturating_sub(age_ms));
        let slot = Slot {
            message: message.clone(),
            route: route.clone(),
            arrived,
            deadline: entry
                .ttl_ms
                .map_or(Millis::NEVER, |ttl_ms| arrived.plus(ttl_ms)),
            body,
            holder: HolderId::default(),
            size_bytes: size_bytes(message),
            failures: 0,
            acquired: 0,
            durable: true,
        };
        if let Some(queue) = self.core.queues.get_mut(&entry.queue) {
            queue.messages.place(entry.position, slot, State::Ready);
        }
    }

    fn slot(&mut self, queue: QueueId, position: Position) -> Option<&mut Slot> {
        self.core
            .queues
            .get_mut(&queue)?
            .messages
            .slot_mut(position)
    }

    fn remove(&mut self, id: QueueId, position: Position) {
        let Some(queue) = self.core.queues.get_mut(&id) else {
            return;
        };
        let waited = queue.pending.remove(position).is_some();
        queue
            .messages
            .take(position, if waited { State::Dying } else { State::Ready });
        if queue.pending.is_empty() {
            self.core.pending_queues.remove(&id);
        }
    }

    fn dead_pending(
        &mut self,
        id: QueueId,
        position: Position,
        reason: Reason,
        message: &Arc<Message>,
        targets: Option<Vec<QueueId>>,
    ) {
        let ticket = self.core.next_ticket;
        let Some(queue) = self.core.queues.get_mut(&id) else {
            return;
        };
        let known = queue.pending.entry(position).map(|pending| pending.ticket);
        if known.is_none() && !queue.messages.kill(position, State::Ready) {
            return;
        }
        self.core.next_ticket += u64::from(known.is_none());
        let (ticket, size_bytes) = (known.unwrap_or(ticket), size_bytes(message));
        queue.pending.put(
            position,
            Pending {
                reason,
                targets,
                ticket,
                size_bytes,
            },
        );
        if let Some(slot) = queue.messages.slot_mut(position) {
            slot.message = message.with_body_of(&slot.message);
            (slot.failures, slot.acquired) = (0, 0);
        }
        self.core.pending_queues.insert(id);
    }

    fn purge(&mut self, id: QueueId, below: &[Position], kept: &[Position]) {
        let Some(queue) = self.core.queues.get_mut(&id) else {
            return;
        };
        let mut from = Position(0);
        while let Some(position) = queue.messages.find(State::Ready, from, |_| true) {
            from = Position(position.0 + 1);
            let gone = below
                .iter()
                .any(|end| lane(*end) == lane(position) && position < *end);
            if gone && kept.binary_search(&position).is_err() {
                queue.messages.take(position, State::Ready);
            }
        }
    }
}
