//! Declaring, describing, purging and deleting queues.

use std::borrow::Cow;
use std::vec::IntoIter;

use super::warnings::cycle_meter;
use super::work::{SLICE, Work};
use super::{Core, Turn};
use crate::base::limits::PURGE_SPARED_MAX;
use crate::base::{ConnectionId, ConsumerId, Lsn, Name, Position, QueueId, invariant};
use crate::broker::arguments::{QueueArguments, QueueProperties};
use crate::broker::event::EventKind;
use crate::broker::names::{QUARANTINE, check_form, check_new_name, is_temporary};
use crate::broker::policy::EffectiveSettings;
use crate::broker::queue::{MessageState, Queue, Usage};
use crate::broker::subscription::{self, Filter};
use crate::broker::{ConsumerEnd, DropCause, Effect, Error, Fact, ObjectKind, Reply, TopologyFact};
use crate::wire::Value;

/// The argument with the type of a queue.
const QUEUE_TYPE: &str = "x-queue-type";
/// Time that a purge takes for a message that it spares, about, in nanoseconds.
const SPARED_NS: u64 = 14;

impl Core {
    pub(super) fn queue_declare(
        &mut self,
        turn: &mut Turn<'_>,
        connection: Option<ConnectionId>,
        name: &Name,
        properties: QueueProperties,
        arguments: &[(Name, Value)],
    ) -> Result<Reply, Error> {
        let existing = self.find_queue(connection, name)?;
        let arguments = &*self.with_default_type(properties, arguments);
        let given = QueueArguments::parse(name, properties, arguments)?;
        let Some(id) = existing else {
            // Operators bring subscriptions back from exported definitions.
            let is_subscription = connection.is_none() && subscription::is_name(name);
            if is_subscription {
                subscription::check(name, properties, arguments)?;
            }
            if is_subscription || (properties.exclusive && is_temporary(name)) {
                check_form(ObjectKind::Queue, name)?;
            } else {
                check_new_name(ObjectKind::Queue, name)?;
            }
            self.check_queue_limit(name)?;
            let settings = self.settings_of_new(turn, name, &given);
            let given = (given, settings);
            let id = self.add_queue(turn, connection, name, properties, given, arguments);
            if is_subscription {
                let (filter, broken) = Filter::restored(name, arguments, &self.options.kept);
                invariant!(
                    broken.is_none(),
                    "the filter of a subscription that is declared compiles"
                );
                self.router.set_filter(id, filter);
            }
            return self.declared(turn, id, name, true);
        };
        let queue = self
            .queues
            .get_mut(&id)
            .ok_or_else(|| Self::missing_queue(name))?;
        queue.properties().check_equivalent(name, properties)?;
        queue.arguments.check_equivalent(name, &given)?;
        queue.unused_since = turn.now.mono;
        self.declared(turn, id, name, false)
    }

    /// The arguments, with the vhost's default queue type added if none is given and the queue can
    /// be of it.
    pub(super) fn with_default_type<'a>(
        &self,
        properties: QueueProperties,
        arguments: &'a [(Name, Value)],
    ) -> Cow<'a, [(Name, Value)]> {
        let QueueProperties {
            durable,
            exclusive,
            auto_delete,
        } = properties;
        let is_given = arguments.iter().any(|(key, _)| *key == QUEUE_TYPE);
        let can_be_any = durable && !exclusive && !auto_delete;
        match &self.default_queue_type {
            Some(kind) if !is_given && can_be_any => {
                let kind = (Name::from(QUEUE_TYPE), Value::string(kind.as_str()));
                Cow::Owned(arguments.iter().cloned().chain([kind]).collect())
            }
            _ => Cow::Borrowed(arguments),
        }
    }

    /// Checks that there may be a queue of this name beside all others.
    pub(super) fn check_queue_limit(&self, name: &Name) -> Result<(), Error> {
        let is_counted = *name != QUARANTINE && self.names.contains_key(name);
        let others = self.counted_queues() - u64::from(is_counted);
        match self.queues_max {
            Some(limit) if others >= limit => Err(Error::QueueLimit {
                name: name.clone(),
                vhost: self.options.vhost.clone(),
                limit,
            }),
            _ => Ok(()),
        }
    }

    fn declared(
        &mut self,
        turn: &mut Turn<'_>,
        id: QueueId,
        name: &Name,
        created: bool,
    ) -> Result<Reply, Error> {
        let queue = self
            .queues
            .get(&id)
            .ok_or_else(|| Self::missing_queue(name))?;
        self.counters.queues.declared += 1;
        self.counters.queues.created += u64::from(created);
        let lsn = if created { self.recorder.lsn() } else { Lsn(0) };
        let mut meter = cycle_meter();
        let warnings = self.queue_warnings(queue, &mut meter);
        turn.charge_ns(meter.spent_ns());
        if created {
            turn.warn(ObjectKind::Queue, name, &warnings);
        }
        Ok(Reply::QueueDeclared {
            created,
            lsn,
            info: Box::new(queue.info()),
            warnings,
        })
    }

    /// The queue of this name; an error if it is exclusive to another connection.
    pub(super) fn find_queue(
        &self,
        connection: Option<ConnectionId>,
        name: &Name,
    ) -> Result<Option<QueueId>, Error> {
        let Some(queue) = self.queue(name) else {
            return Ok(None);
        };
        match queue.exclusive {
            Some(owner) if Some(owner) != connection => Err(self.locked(name)),
            _ => Ok(Some(queue.id)),
        }
    }

    /// The error for a queue that is exclusive to another connection.
    pub(super) fn locked(&self, name: &Name) -> Error {
        Error::Locked {
            name: name.clone(),
            vhost: self.options.vhost.clone(),
        }
    }

    /// The effective settings of a queue that is being declared.
    pub(super) fn settings_of_new(
        &mut self,
        turn: &mut Turn<'_>,
        name: &Name,
        parsed: &QueueArguments,
    ) -> EffectiveSettings {
        let matching = self.policies_of(turn, ObjectKind::Queue, name);
        let settings = matching.settings(parsed);
        self.options.settings_of(name, settings)
    }

    /// Passes the ids of queues that a start does not keep, and that redrives and imports name: no other queue is
    /// taken for one of them.
    pub(super) fn pass_queue_ids(&mut self) {
        let sources = self.redrives().map(|job| job.source);
        let named = sources.chain(self.memos.imported_to()).max();
        if let Some(last) = named {
            self.next_queue = self.next_queue.max(last.0.saturating_add(1));
        }
    }

    /// Adds a queue with these settings; `arguments` are parsed, and kept as given.
    pub(super) fn add_queue(
        &mut self,
        turn: &mut Turn<'_>,
        connection: Option<ConnectionId>,
        name: &Name,
        properties: QueueProperties,
        (parsed, settings): (QueueArguments, EffectiveSettings),
        given: &[(Name, Value)],
    ) -> QueueId {
        let id = QueueId(self.next_queue);
        self.next_queue += 1;
        let QueueProperties {
            durable,
            exclusive,
            auto_delete,
        } = properties;
        let mut queue = Queue::new(
            turn.now,
            id,
            name.clone(),
            parsed,
            settings,
            self.options.block_shift,
        );
        queue.auto_delete = auto_delete;
        queue.exclusive = connection.filter(|_| exclusive);
        // The journal has no queue that ends with its connection.
        queue.durable = durable && !exclusive;
        queue.declared_durable = durable;
        if let Some(owner) = queue.exclusive
            && let Some(owner) = self.clients.connections.get_mut(&owner)
        {
            owner.exclusive_queues.insert(id);
        }
        if queue.durable {
            let (name, arguments) = (name.clone(), given.to_vec());
            self.recorder
                .push(Fact::Topology(TopologyFact::QueueDeclared {
                    queue: id,
                    name,
                    auto_delete,
                    arguments,
                }));
        }
        self.install(queue);
        id
    }

    /// Adds a queue to the vhost.
    pub(super) fn install(&mut self, mut queue: Queue) {
        queue.charge(&self.options.kept);
        let (id, name) = (queue.id, queue.name.clone());
        self.router.queue_added(name.clone(), id);
        self.names.insert(name, id);
        self.queues.insert(id, Box::new(queue));
        self.schedule(id);
        self.retry_all();
    }

    pub(super) fn queue_get(&self, name: &Name) -> Result<Reply, Error> {
        let queue = self.queue(name).ok_or_else(|| Self::missing_queue(name))?;
        Ok(Reply::Queue(Box::new(queue.info())))
    }

    pub(super) fn queue_delete(
        &mut self,
        turn: &mut Turn<'_>,
        connection: Option<ConnectionId>,
        name: &Name,
        if_unused: bool,
        if_empty: bool,
    ) -> Result<Reply, Error> {
        let found = self
            .find_queue(connection, name)?
            .and_then(|id| self.queues.get(&id));
        let Some(queue) = found else {
            return Ok(Reply::QueueDeleted {
                messages: 0,
                lsn: Lsn(0),
            });
        };
        let busy = |state| Error::NotIdle {
            kind: ObjectKind::Queue,
            name: name.clone(),
            state,
        };
        if if_unused && !queue.consumers.is_empty() {
            return Err(busy("in use"));
        }
        let messages = queue.messages.ready() + queue.messages.delayed().usage().messages;
        if if_empty && messages + queue.messages.held() + queue.pending.len() > 0 {
            return Err(busy("not empty"));
        }
        let id = queue.id;
        self.remove_queue(turn, id, DropCause::QueueDeleted);
        Ok(Reply::QueueDeleted {
            messages,
            lsn: self.recorder.lsn(),
        })
    }

    pub(super) fn queue_purge(
        &mut self,
        turn: &mut Turn<'_>,
        connection: Option<ConnectionId>,
        name: &Name,
        with_dead_pending: bool,
    ) -> Result<Reply, Error> {
        let id = self
            .find_queue(connection, name)?
            .ok_or_else(|| Self::missing_queue(name))?;
        let queue = self
            .queues
            .get_mut(&id)
            .ok_or_else(|| Self::missing_queue(name))?;
        let spared = queue.messages.held() + queue.pending.len();
        check_spared(name, spared)?;
        turn.effects.meter.charge_ns(spared * SPARED_NS);
        let before = queue.messages.usage();
        let reserved = queue.reserved();
        let (messages, kept) = (queue.messages).purge_but(&reserved, &mut self.deferred_free);
        self.memory.change(before, queue.messages.usage());
        queue.selecting.forget_gone_suspects(&queue.messages);
        if queue.durable && messages > 0 {
            let below = queue.messages.ends();
            self.recorder.push(Fact::Purged {
                queue: id,
                below,
                kept,
            });
        }
        if with_dead_pending {
            let before_ticket = self.next_ticket;
            self.drop_pending_slice(turn, id, Position(0), before_ticket);
        }
        self.count_drops(turn, id, DropCause::Purged, messages);
        self.learn_of_lost(name, Some(id));
        self.schedule(id);
        Ok(Reply::Purged {
            messages,
            lsn: self.recorder.lsn(),
        })
    }

    /// Drops some of the dead letters that were waiting when the queue was purged.
    pub(super) fn drop_pending_slice(
        &mut self,
        turn: &mut Turn<'_>,
        id: QueueId,
        mut from: Position,
        before_ticket: u64,
    ) {
        for _ in 0..SLICE {
            let Some(queue) = self.queues.get(&id) else {
                return;
            };
            let Some(position) = queue.pending.next(from) else {
                return;
            };
            let pending = queue.pending.entry(position);
            let purged = pending.filter(|pending| pending.ticket < before_ticket);
            if let Some(reason) = purged.map(|pending| pending.reason) {
                let why = (Some(reason), DropCause::Purged);
                self.remove_dropped(turn, id, position, MessageState::Dying, why);
            }
            turn.budget = turn.budget.saturating_sub(1);
            from = Position(position.0 + 1);
        }
        self.work.push_back(Work::DropPending {
            queue: id,
            from,
            before_ticket,
        });
    }

    /// Counts messages that were dropped together without dying.
    fn count_drops(&mut self, turn: &mut Turn<'_>, id: QueueId, cause: DropCause, count: u64) {
        if count == 0 {
            return;
        }
        self.note_drops(turn, id, (None, cause), count);
        if let Some(queue) = self.queues.get(&id).map(|queue| queue.name.clone()) {
            let dropped = EventKind::Dropped {
                reason: None,
                cause,
                messages: count,
            };
            self.tell(turn, queue, dropped, None);
        }
    }

    /// Removes a queue with its messages: one fact now, its memory is freed later in slices.
    pub(super) fn remove_queue(&mut self, turn: &mut Turn<'_>, id: QueueId, cause: DropCause) {
        let Some(queue) = self.queues.get(&id) else {
            return;
        };
        let (waiting, in_it) = (
            queue.pending.len(),
            queue.messages.live() - queue.pending.len(),
        );
        self.count_drops(turn, id, cause, in_it);
        self.count_drops(turn, id, DropCause::PendingAbandoned, waiting);
        self.tell_last_drops(turn, id);
        let Some(queue) = self.queues.remove(&id) else {
            return invariant!(broken, "a queue that is removed is there");
        };
        self.counters.queues.deleted += 1;
        let queue = *queue;
        self.names.remove(&queue.name);
        self.learn_of_lost(&queue.name, None);
        self.wake_redrives_of(id);
        self.pending_queues.remove(&id);
        self.deadlines.remove(&(queue.registered, id));
        self.looks.remove(&(queue.timeouts.look_at, id));
        let links = queue.consumers.ids().chain(queue.selecting.browser_ids());
        let consumers: Vec<ConsumerId> = links.collect();
        self.end_consumers(turn, consumers.into_iter());
        if let Some(owner) = queue.exclusive
            && let Some(owner) = self.clients.connections.get_mut(&owner)
        {
            owner.exclusive_queues.remove(&id);
        }
        if queue.durable {
            self.recorder
                .push(Fact::Topology(TopologyFact::QueueDeleted { queue: id }));
        }
        self.memos.notes.forget_queue(id);
        if self.deaths.forget(&queue) {
            self.write_vhost_deaths();
        }
        self.end_publishers(turn, id, self.recorder.lsn());
        let removed = self.router.queue_removed(&queue.name);
        self.exchanges_went(&removed.exchanges);
        let nothing = (Usage::default(), Usage::default());
        self.memory.change(queue.messages.usage(), nothing);
        queue.messages.scrap(&mut self.deferred_free);
        if !queue.pending.is_empty() {
            self.forget_waiters(turn, id, Box::new(queue.pending));
        }
        self.retry_all();
    }

    /// Ends some of the consumers of a deleted queue: a queue may have any number.
    pub(super) fn end_consumers(&mut self, turn: &mut Turn<'_>, mut left: IntoIter<ConsumerId>) {
        for consumer in left.by_ref().take(SLICE) {
            turn.budget = turn.budget.saturating_sub(1);
            let Some(state) = self.clients.end(consumer) else {
                continue; // it left by itself meanwhile
            };
            self.forget_link(consumer, &state);
            let end = Effect::ConsumerEnded {
                consumer,
                cause: ConsumerEnd::QueueDeleted,
            };
            turn.effects.outgoing.push((state.connection, end));
            self.wake_released(state.session);
        }
        if !left.as_slice().is_empty() {
            self.work.push_back(Work::EndConsumers(left));
        }
    }
}

/// Refuses to purge a queue with more messages than one step may spare.
fn check_spared(name: &Name, spared: u64) -> Result<(), Error> {
    if spared <= PURGE_SPARED_MAX {
        return Ok(());
    }
    Err(Error::NotIdle {
        kind: ObjectKind::Queue,
        name: name.clone(),
        state: "not to be purged now: more than 1048576 of its messages are unsettled or are dead letters that wait",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purge_that_would_spare_too_many_messages_is_refused_with_their_number() {
        let name = Name::from("q");
        assert_eq!(check_spared(&name, PURGE_SPARED_MAX), Ok(()));
        let refused = check_spared(&name, PURGE_SPARED_MAX + 1)
            .unwrap_err()
            .to_string();
        assert!(refused.contains(&PURGE_SPARED_MAX.to_string()), "{refused}");
    }
}
