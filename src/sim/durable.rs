//! The durable part of a core, as plain values to compare.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

use super::check::STATES;
use crate::base::{Lsn, Millis, Name, Position, QueueId, Timestamp};
use crate::broker::binding::Binding;
use crate::broker::queue::{DiskRef, MessageState, Queue};
use crate::broker::redrive::{RedriveJob, RedriveState};
use crate::broker::{ByReason, Core, Destination, PageIn, PagedIn, Record, Wanted};
use crate::deaths::{History, LastFailure, Reason, Redrives};
use crate::message::{Message, Route};
use crate::record::{self, RecordRead, Stored};
use crate::store::Payload;

/// What must be the same in a core rebuilt from the facts.
#[derive(Clone, Debug, Default)]
pub struct DurableState {
    queues: BTreeMap<QueueId, (Name, BTreeMap<Position, DurableMessage>)>,
    /// Of queues that count no death that the journal was not told of.
    deaths: BTreeMap<QueueId, (ByReason, ByReason, u64)>,
    exchanges: Vec<Name>,
    bindings: Vec<Binding>,
    policies: Vec<String>,
    redrives: Vec<RedriveJob>,
    /// What is remembered for operators.
    memos: Vec<String>,
    /// Publishers' links, with their unsettled deliveries.
    links: Vec<String>,
    events_below: u64,
}

/// Numbers of deaths are compared as far as both states have them.
impl PartialEq for DurableState {
    fn eq(&self, other: &Self) -> bool {
        self.queues == other.queues
            && self.exchanges == other.exchanges
            && self.bindings == other.bindings
            && self.policies == other.policies
            && self.redrives == other.redrives
            && self.memos == other.memos
            && self.links == other.links
            && self.events_below == other.events_below
            && self.counts_alike(other)
    }
}

impl DurableState {
    fn counts_alike(&self, other: &Self) -> bool {
        let mut deaths = self.deaths.iter();
        deaths.all(|(id, deaths)| other.deaths.get(id).is_none_or(|other| deaths == other))
    }

    /// Whether every message could be read.
    pub fn is_whole(&self) -> bool {
        let mut queues = self.queues.values();
        queues.all(|(_, messages)| messages.values().all(|message| message.read.is_some()))
    }

    /// The differences to another state, in few words.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut differences = Vec::new();
        let ids: BTreeSet<_> = self.queues.keys().chain(other.queues.keys()).collect();
        for id in ids {
            let (a, b) = (self.queues.get(id), other.queues.get(id));
            let (Some((name, a)), Some((_, b))) = (a, b) else {
                differences.push(format!("queue {id}: {} or {}", a.is_some(), b.is_some()));
                continue;
            };
            let positions: BTreeSet<_> = a.keys().chain(b.keys()).collect();
            for position in positions {
                let (a, b) = (a.get(position), b.get(position));
                if a != b {
                    differences.push(format!("{name} {position}:\n  {a:?}\n  {b:?}"));
                }
            }
        }
        if (&self.exchanges, &self.bindings) != (&other.exchanges, &other.bindings) {
            differences.push(format!("{:?}\n  {:?}", self.exchanges, self.bindings));
            differences.push(format!("{:?}\n  {:?}", other.exchanges, other.bindings));
        }
        if !self.counts_alike(other) {
            differences.push(format!("{:?}\n  {:?}", self.deaths, other.deaths));
        }
        if self.redrives != other.redrives {
            differences.push(format!("{:?}\n  {:?}", self.redrives, other.redrives));
        }
        if self.policies != other.policies {
            differences.push(format!("{:?}\n  {:?}", self.policies, other.policies));
        }
        if self.memos != other.memos {
            differences.push(format!("{:?}\n  {:?}", self.memos, other.memos));
        }
        if self.links != other.links {
            differences.push(format!("{:?}\n  {:?}", self.links, other.links));
        }
        differences
    }
}

impl DurableState {
    /// The same state at that time, when some messages need not wait any more.
    #[must_use]
    pub fn at(mut self, now: Timestamp) -> Self {
        let messages = self.queues.values_mut();
        for message in messages.flat_map(|(_, messages)| messages.values_mut()) {
            message.waits_until = message.waits_until.filter(|until| *until > now);
        }
        self
    }

    /// Removes a message, as if it had never existed.
    pub fn forget(&mut self, queue: QueueId, position: Position) {
        if let Some((_, messages)) = self.queues.get_mut(&queue) {
            messages.remove(&position);
        }
    }
}

/// One message in one queue.
#[derive(Clone, Debug)]
struct DurableMessage {
    /// The content; none if it cannot be read.
    read: Option<Read>,
    failures: u32,
    acquired: u32,
    own_ttl_ms: Option<u64>,
    /// The redrive that learns what becomes of it; 0: none.
    moved_by: u32,
    pending: Option<(Reason, Option<Vec<QueueId>>)>,
    /// When it is ready, by the wall clock, if it is not.
    waits_until: Option<Timestamp>,
    /// Whether it is dead; of a death the journal is told when it is carried out.
    is_dying: bool,
}

impl PartialEq for DurableMessage {
    fn eq(&self, other: &Self) -> bool {
        let is_dying = self.is_dying || other.is_dying;
        self.read == other.read
            && (self.failures, self.acquired) == (other.failures, other.acquired)
            && (self.own_ttl_ms, self.moved_by) == (other.own_ttl_ms, other.moved_by)
            && self.pending == other.pending
            && (is_dying || self.waits_until == other.waits_until)
    }
}

/// Records as they were written, to page messages in from.
#[derive(Clone, Debug, Default)]
pub struct Archive {
    records: BTreeMap<Lsn, Bytes>,
    /// LSNs of bodies that were streamed in pieces.
    in_pieces: BTreeSet<Lsn>,
}

impl Archive {
    /// Adds a record.
    pub fn add(&mut self, record: &Record) {
        let stored = Stored::new(Name::from("sim"), record.clone());
        let mut bytes = Vec::new();
        stored.encode(&mut bytes);
        self.add_bytes(record.lsn, bytes.into());
    }

    /// Adds a record or a spilled piece.
    pub fn add_bytes(&mut self, lsn: Lsn, bytes: Bytes) {
        self.records.insert(lsn, bytes);
    }

    /// Adds a body that was streamed.
    pub fn add_body(&mut self, name: Lsn, bytes: Bytes) {
        self.in_pieces.insert(name);
        self.add_bytes(name, bytes);
    }

    /// Removes a record: references to it are broken from now on.
    pub fn remove(&mut self, lsn: Lsn) {
        self.records.remove(&lsn);
    }

    fn found(&self, name: Lsn) -> Option<RecordRead> {
        let bytes = self.records.get(&name)?.clone();
        let found = if self.in_pieces.contains(&name) {
            RecordRead::Beginning
        } else {
            RecordRead::Whole
        };
        Some(found(bytes))
    }

    /// Pages a block in.
    pub fn load(&self, load: &PageIn) -> PagedIn {
        let names = record::records_of(load);
        let found = names
            .into_iter()
            .filter_map(|name| Some((name, self.found(name)?)));
        record::loaded(load, found)
    }

    /// A message of a queue, in memory or not.
    pub fn message(&self, queue: &Queue, position: Position) -> Option<(Arc<Message>, Arc<Route>)> {
        if let Some(slot) = queue.messages.slot(position) {
            return Some((slot.message.clone(), slot.route.clone()));
        }
        let disk_ref = queue.messages.disk_ref(position)?;
        let wanted = Wanted {
            position,
            envelope: disk_ref.envelope,
            body: disk_ref.body,
        };
        let loaded = self.load(&PageIn {
            queue: queue.id,
            block: position,
            wanted: vec![wanted],
        });
        let (_, message, route) = loaded.messages.into_iter().next()?;
        Some((message, route))
    }
}

/// The content of a message.
#[derive(Clone, PartialEq, Debug)]
struct Read {
    bare: Vec<u8>,
    route: Route,
    history: Option<History>,
    last_failure: Option<LastFailure>,
    carried: u32,
    redrives: Option<Redrives>,
}

/// Reads the durable part of a core; evicted messages from the archive.
pub fn durable_state(core: &Core, archive: &Archive) -> DurableState {
    let router = core.router();
    let is_durable = |name: &Name| {
        router
            .exchange_named(name)
            .is_some_and(|exchange| exchange.spec.durable)
    };
    let kept = |binding: &Binding| {
        !binding.source.is_empty()
            && is_durable(&binding.source)
            && match &binding.destination {
                Destination::Queue(name) => core.queue(name).is_some_and(|queue| queue.durable),
                Destination::Exchange(name) => is_durable(name),
            }
    };
    let mut policies = Vec::new();
    for operator in [false, true] {
        let list = core.policies().list(operator);
        policies.extend(list.map(|policy| format!("{operator} {policy:?}")));
    }
    DurableState {
        queues: core
            .queues()
            .filter(|queue| queue.durable)
            .map(|queue| (queue.id, (queue.name.clone(), messages(queue, archive))))
            .collect(),
        deaths: core
            .queues()
            .filter(|queue| queue.durable && !queue.has_unwritten_deaths)
            .map(|queue| (queue.id, deaths(queue)))
            .collect(),
        exchanges: router
            .exchanges()
            .filter(|exchange| exchange.spec.durable)
            .map(|exchange| exchange.spec.name.clone())
            .collect(),
        bindings: router
            .bindings(None, None, None)
            .into_iter()
            .filter(kept)
            .collect(),
        policies,
        redrives: core.redrives().map(durable_job).collect(),
        memos: memos(core),
        links: links(core),
        events_below: core.event_numbers_below(),
    }
}

/// What is remembered for operators, but for notes on queues that a restart does not keep.
fn links(core: &Core) -> Vec<String> {
    let links = core.publisher_links();
    let links =
        links.map(|(link, unsettled)| format!("{link:?} {:?}", unsettled.collect::<Vec<_>>()));
    // A start forgets those that hold nothing.
    let holding = core.consumer_links().filter(|(_, held)| !held.is_empty());
    links
        .chain(holding.map(|(link, held)| format!("{link:?} {held:?}")))
        .collect()
}

fn memos(core: &Core) -> Vec<String> {
    let imports = core.kept_imports().map(|mark| format!("{mark:?}"));
    let durable = |id| core.queue_by_id(id).is_some_and(|queue| queue.durable);
    let notes = core.notes().filter(|note| durable(note.queue));
    imports
        .chain(notes.map(|note| format!("{note:?}")))
        .collect()
}

/// A job as a start finds it: why it stands still is found out anew, and messages that the journal did
/// not keep are gone.
fn durable_job(job: &RedriveJob) -> RedriveJob {
    let mut job = job.clone();
    if !job.state.is_over() {
        (job.state, job.cause) = (RedriveState::Running, None);
    }
    job.outcome.gone = 0;
    for to in &mut job.targets {
        to.settled = 0;
    }
    job
}

/// Deaths as a queue counts them: all, dead-lettered ones, and those with a condition.
fn deaths(queue: &Queue) -> (ByReason, ByReason, u64) {
    let counters = &queue.counters;
    let with_condition = counters.conditions.total();
    (counters.dead, counters.dead_lettered, with_condition)
}

fn messages(queue: &Queue, archive: &Archive) -> BTreeMap<Position, DurableMessage> {
    let mut messages = BTreeMap::new();
    for state in STATES {
        let mut from = Position(0);
        while let Some(position) = queue.messages.find_durable(state, from) {
            from = Position(position.0 + 1);
            if let Some(disk_ref) = queue.messages.disk_ref(position) {
                let read = archive.message(queue, position);
                messages.insert(
                    position,
                    message(queue, (position, &disk_ref), read, archive),
                );
            }
        }
    }
    messages
}

fn message(
    queue: &Queue,
    (position, disk_ref): (Position, &DiskRef),
    read: Option<(Arc<Message>, Arc<Route>)>,
    archive: &Archive,
) -> DurableMessage {
    let own_ttl_ms = disk_ref.deadline.since(disk_ref.arrived);
    let pending = queue.pending.entry(position);
    let delay = queue.messages.delayed().delay(position);
    let read = read.map(|(message, route)| Read {
        bare: match message.blob() {
            Some(body) => archive
                .records
                .get(body)
                .map_or(Vec::new(), |bytes| bytes.to_vec()),
            None => message.bare().to_vec(),
        },
        route: (*route).clone(),
        history: message.history().map(|history| (**history).clone()),
        last_failure: message.last_failure().cloned(),
        carried: message.carried_delivery_count(),
        redrives: message.redrives().map(|redrives| (**redrives).clone()),
    });
    DurableMessage {
        read,
        failures: disk_ref.failures,
        acquired: disk_ref.acquired,
        own_ttl_ms: (disk_ref.deadline != Millis::NEVER).then_some(own_ttl_ms),
        moved_by: disk_ref.moved_by,
        pending: pending.map(|pending| (pending.reason, pending.targets.clone())),
        waits_until: delay.map(|delay| delay.until),
        is_dying: queue.messages.is(position, MessageState::Dying),
    }
}
