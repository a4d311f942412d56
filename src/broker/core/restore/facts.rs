//! Application of each kind of fact to a core that is being rebuilt.

use super::Restoring;
use crate::base::{Lsn, Millis, Name, Position, QueueId, Timestamp};
use crate::broker::arguments::{QueueArguments, QueueProperties};
use crate::broker::core::admission::size_bytes;
use crate::broker::core::delaying::restored;
use crate::broker::memo::MemoFact;
use crate::broker::names::EVENT_EXCHANGE;
use crate::broker::queue::{DiskRef, MessageState, Pending, Queue, subqueue};
use crate::broker::subscription::Filter;
use crate::broker::{Body, CheckpointedMessage, Entry, Fact, Policy, TopologyFact};
use crate::deaths::Reason;
use crate::message::Message;
use crate::wire::Value;

/// Prefix of the name of a queue whose declaration is lost; its id follows.
const ORPHAN_PREFIX: &str = "recovered-queue-";

impl Restoring {
    pub(super) fn fact(&mut self, lsn: Lsn, fact: &Fact) {
        match fact {
            Fact::Inserted {
                message,
                body,
                entries,
                ..
            } => {
                // Of a message that a redrive moved to several queues the first copy counts.
                let mut moved_by = mark_of(message);
                for entry in entries {
                    let mark = std::mem::take(&mut moved_by);
                    self.insert((lsn, mark), message, *body, *entry);
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
            } => self.returned((*queue, *position), (*failures, *acquired)),
            Fact::Delayed {
                queue,
                position,
                until,
                left_ms,
            } => self.delay((*queue, *position), (*until, *left_ms)),
            Fact::DeadPending {
                queue,
                position,
                reason,
                targets,
            } => {
                self.dead_pending(*queue, *position, *reason, targets.clone());
            }
            Fact::Purged { queue, below, kept } => self.purge(*queue, below, kept),
            Fact::Checkpointed { queue, messages } => {
                for checkpointed in messages {
                    self.restore_checkpointed(*queue, checkpointed);
                }
            }
            Fact::Changed {
                queue,
                position,
                message,
                body,
                ..
            } => self.changed(lsn, (*queue, *position), message, *body),
            Fact::Died { queue, count } => {
                if let Some(queue) = self.core.queues.get_mut(queue) {
                    queue.counters.raise(count);
                }
            }
            Fact::VhostDeaths(deaths) => self.core.deaths.vhost.raise(deaths),
            Fact::Redrive(fact) => self.core.redrives.restore(self.now, fact),
            Fact::Memo(MemoFact::EventNumbers { below }) => self.core.events.restore(*below),
            Fact::Memo(fact) => self.core.memos.restore(fact),
            Fact::PublisherLink(fact) => self.core.restore_publisher_link(fact),
            Fact::ConsumerLink(fact) => self.links.fact(fact),
            Fact::Topology(fact) => self.topology(fact),
            // The registry is beside all vhosts; its facts are applied by `RestoringAll`.
            Fact::Registry(_) => {}
        }
    }

    /// Sets the counts of a message that came back; it does not wait for its time any more.
    fn returned(&mut self, (id, position): (QueueId, Position), counts: (u32, u32)) {
        self.links.let_go((id, position), counts.1);
        self.change(id, position, |disk_ref| {
            (disk_ref.failures, disk_ref.acquired) = counts;
        });
        if let Some(queue) = self.core.queues.get_mut(&id) {
            queue.messages.end_delay(position);
        }
    }

    /// Lets a message wait for its time, in place of the time it waited for before.
    fn delay(&mut self, (id, position): (QueueId, Position), told: (Timestamp, Option<u64>)) {
        let delay = restored(self.now, told, (self.stopped, self.down_ms));
        if let Some(queue) = self.core.queues.get_mut(&id) {
            queue.messages.end_delay(position);
            queue.messages.delay(position, MessageState::Ready, delay);
        }
    }

    /// Replaces the content of a message.
    fn changed(
        &mut self,
        lsn: Lsn,
        (queue, position): (QueueId, Position),
        message: &Message,
        body: Body,
    ) {
        let (size_bytes, body) = (size_bytes(message), name_of(lsn, body));
        self.change(queue, position, |disk_ref| {
            (disk_ref.envelope, disk_ref.body) = (lsn, body);
            disk_ref.size_bytes = size_bytes;
            if message.outstanding_job().is_none() {
                disk_ref.moved_by = 0; // it died
            }
        });
    }

    /// Applies topology as it was; what exists already, or is deleted already, stays so.
    fn topology(&mut self, fact: &TopologyFact) {
        let core = &mut self.core;
        match fact {
            TopologyFact::QueueDeclared {
                queue,
                name,
                auto_delete,
                arguments,
            } => {
                self.declare_queue(*queue, name, *auto_delete, arguments);
            }
            TopologyFact::QueueDeleted { queue } => self.delete_queue(*queue),
            TopologyFact::QueueIds { next } => {
                core.next_queue = core.next_queue.max(next.0);
            }
            TopologyFact::ExchangeDeclared(spec) => {
                core.durable_exchanges.insert(spec.name.clone());
                drop(core.router.declare(spec.clone()));
            }
            TopologyFact::ExchangeDeleted { name } => {
                core.durable_exchanges.remove(name);
                drop(core.router.delete(name, false));
            }
            TopologyFact::Bound {
                source,
                destination,
                key,
                arguments,
            } => {
                if *source == EVENT_EXCHANGE {
                    // Whoever bound it keeps the binding while events do not come as messages.
                    core.router.declare_event_exchange();
                }
                drop(core.router.bind(source, destination, key, arguments));
            }
            TopologyFact::Unbound {
                source,
                destination,
                key,
                arguments,
            } => {
                drop(core.router.unbind(source, destination, key, arguments));
            }
            TopologyFact::PolicySet { operator, policy } => {
                let policy = Policy::clone(policy);
                policy.charge(&core.options.kept);
                core.policies.set(*operator, policy);
            }
            TopologyFact::PolicyDeleted { operator, name } => {
                core.policies.delete(*operator, name);
            }
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
        self.install_queue(id, name, auto_delete, arguments);
    }

    fn install_queue(
        &mut self,
        id: QueueId,
        name: &Name,
        auto_delete: bool,
        arguments: &[(Name, Value)],
    ) {
        let properties = QueueProperties {
            durable: true,
            exclusive: false,
            auto_delete,
        };
        let Ok(parsed) = QueueArguments::parse(name, properties, arguments) else {
            return;
        };
        let settings = self.core.policies.settings(name, &parsed);
        let settings = self.core.options.undeliverable.settings_of(name, settings);
        let shift = self.core.options.block_shift;
        let mut queue = Queue::new(self.now, id, name.clone(), parsed, settings, shift);
        queue.durable = true;
        queue.declared_durable = true;
        queue.auto_delete = auto_delete;
        let (filter, broken) = Filter::restored(name, arguments, &self.core.options.kept);
        if let Some(broken) = broken {
            self.broken_filters.insert(id, broken);
        }
        self.core.install(queue);
        if filter.is_some() {
            self.core.router.set_filter(id, filter);
        }
    }

    /// Makes sure that a queue exists before a message enters it. A queue without a declaration
    /// lost it to damage: its messages are kept under another name. Or it is deleted later in the
    /// log, before the checkpoint that is being read was complete.
    fn expect_queue(&mut self, id: QueueId) {
        if self.core.queues.contains_key(&id) {
            return;
        }
        let name = Name::from(format!("{ORPHAN_PREFIX}{}", id.0));
        self.orphans.insert(id);
        self.core.next_queue = self.core.next_queue.max(id.0.saturating_add(1));
        self.install_queue(id, &name, false, &[]);
    }

    fn delete_queue(&mut self, id: QueueId) {
        let Some(queue) = self.core.queues.remove(&id) else {
            return;
        };
        self.core.names.remove(&queue.name);
        self.core.router.queue_removed(&queue.name);
        self.core.pending_queues.remove(&id);
        self.core.memos.notes.forget_queue(id);
        self.links.forget_queue(id);
    }

    /// Adds a message that entered. Its envelope is in this record.
    fn insert(&mut self, (lsn, moved_by): (Lsn, u32), message: &Message, body: Body, entry: Entry) {
        let arrived = self.arrived(entry.arrived);
        let disk_ref = DiskRef {
            arrived,
            deadline: deadline(arrived, entry.ttl_ms),
            envelope: lsn,
            body: name_of(lsn, body),
            size_bytes: size_bytes(message),
            failures: 0,
            acquired: 0,
            durable: true,
            moved_by,
        };
        self.expect_queue(entry.queue);
        if let Some(queue) = self.core.queues.get_mut(&entry.queue) {
            queue.messages.place_disk_ref(entry.position, disk_ref);
        }
    }

    fn restore_checkpointed(&mut self, id: QueueId, checkpointed: &CheckpointedMessage) {
        let arrived = self.arrived(checkpointed.arrived);
        let disk_ref = DiskRef {
            arrived,
            deadline: deadline(arrived, checkpointed.ttl_ms),
            envelope: checkpointed.envelope,
            body: checkpointed.body,
            size_bytes: checkpointed.size_bytes,
            failures: 0,
            acquired: 0,
            durable: true,
            moved_by: checkpointed.moved_by,
        };
        self.expect_queue(id);
        if let Some(queue) = self.core.queues.get_mut(&id) {
            queue
                .messages
                .place_disk_ref(checkpointed.position, disk_ref);
        }
    }

    fn arrived(&self, wall: Timestamp) -> Millis {
        let age_ms = u64::try_from(self.stopped.0.saturating_sub(wall.0)).unwrap_or(0);
        let age_ms = age_ms.saturating_add(self.down_ms);
        Millis(self.now.mono.0.saturating_sub(age_ms))
    }

    fn change(&mut self, id: QueueId, position: Position, change: impl FnOnce(&mut DiskRef)) {
        if let Some(queue) = self.core.queues.get_mut(&id) {
            queue.messages.change(position, change);
        }
    }

    pub(super) fn remove(&mut self, id: QueueId, position: Position) {
        self.links.let_go((id, position), u32::MAX);
        let Some(queue) = self.core.queues.get_mut(&id) else {
            return;
        };
        let waited = queue.pending.remove(position).is_some();
        let from = if waited {
            MessageState::Dying
        } else {
            queue.messages.end_delay(position);
            MessageState::Ready
        };
        queue
            .messages
            .take(position, from, &mut self.core.deferred_free);
        if queue.pending.is_empty() {
            self.core.pending_queues.remove(&id);
        }
    }

    fn dead_pending(
        &mut self,
        id: QueueId,
        position: Position,
        reason: Reason,
        targets: Option<Vec<QueueId>>,
    ) {
        let ticket = self.core.next_ticket;
        let Some(queue) = self.core.queues.get_mut(&id) else {
            return;
        };
        let known = queue.pending.entry(position).map(|pending| pending.ticket);
        queue.messages.end_delay(position);
        if known.is_none() && !queue.messages.kill(position, MessageState::Ready) {
            return;
        }
        self.core.next_ticket += u64::from(known.is_none());
        let size_bytes = queue
            .messages
            .disk_ref(position)
            .map(|disk_ref| disk_ref.size_bytes);
        let (ticket, size_bytes) = (known.unwrap_or(ticket), size_bytes.unwrap_or(0));
        queue.pending.put(
            position,
            Pending {
                reason,
                targets,
                refused: Box::default(), // it is tried again at once
                ticket,
                size_bytes,
            },
        );
        queue.messages.change(position, |disk_ref| {
            (disk_ref.failures, disk_ref.acquired) = (0, 0);
        });
        self.core.pending_queues.insert(id);
    }

    fn purge(&mut self, id: QueueId, below: &[Position], kept: &[Position]) {
        let Some(queue) = self.core.queues.get_mut(&id) else {
            return;
        };
        for state in [MessageState::Ready, MessageState::Delayed] {
            let mut from = Position(0);
            while let Some(position) = queue.messages.find(state, from) {
                from = Position(position.0 + 1);
                let gone = below
                    .iter()
                    .any(|end| subqueue(*end) == subqueue(position) && position < *end);
                if gone && kept.binary_search(&position).is_err() {
                    queue
                        .messages
                        .take(position, state, &mut self.core.deferred_free);
                }
            }
        }
    }
}

/// The redrive that moved a message and learns what becomes of it; 0: none.
fn mark_of(message: &Message) -> u32 {
    let job = message.outstanding_job();
    job.and_then(|job| u32::try_from(job).ok()).unwrap_or(0)
}

/// The LSN of the record that names the bare bytes of a message; 0: they are with its envelope.
const fn name_of(lsn: Lsn, body: Body) -> Lsn {
    match body {
        Body::Named => lsn,
        Body::Carried => Lsn(0),
        Body::At(body) => body,
    }
}

fn deadline(arrived: Millis, ttl_ms: Option<u64>) -> Millis {
    ttl_ms.map_or(Millis::NEVER, |ttl_ms| arrived.plus(ttl_ms))
}
