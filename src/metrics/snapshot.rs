//! What metrics are made from: plain counts, copied out of the other modules.

use std::collections::BTreeMap;

use crate::access::{LoginCounts, LoginWay};
use crate::base::{Millis, Name, QueueId};
use crate::broker::death_counts::TimesToDeath;
use crate::broker::names::QUARANTINE;
use crate::broker::queue::Queue;
use crate::broker::{Counters, QueueCounters};
use crate::deaths::Reason;
use crate::store::{StoreState, StoreStats};

/// Bounds of the histogram of lock holds, in nanoseconds. Close together, so that p99.99 can be told,
/// and with the two that count: 200 us for a command, 1 ms for p99.99.
pub const LOCK_HOLD_BOUNDS_NS: [u64; 31] = {
    const US: u64 = 1_000;
    const MS: u64 = 1_000 * US;
    [
        250,
        500,
        US,
        US + 500,
        2 * US,
        3 * US,
        5 * US,
        7 * US,
        10 * US,
        15 * US,
        20 * US,
        30 * US,
        50 * US,
        70 * US,
        100 * US,
        150 * US,
        200 * US,
        300 * US,
        500 * US,
        700 * US,
        MS,
        MS + 500 * US,
        2 * MS,
        3 * MS,
        5 * MS,
        10 * MS,
        20 * MS,
        50 * MS,
        100 * MS,
        500 * MS,
        2_000 * MS,
    ]
};

/// All counts of a broker at one moment. Vhosts are looked at one after the other.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Version of this broker.
    pub version: &'static str,
    /// Milliseconds since the start.
    pub uptime_ms: u64,
    /// Bytes of memory of the process, if the system says.
    pub resident_bytes: Option<u64>,
    /// The name of this node.
    pub node: String,
    /// Bytes of address space of the process, if the system says.
    pub virtual_bytes: Option<u64>,
    /// Time of processors that the process took, in milliseconds.
    pub processor_ms: u64,
    /// When the broker started, in seconds since 1970.
    pub started_s: u64,
    /// Files that are open, if the system says.
    pub open_files: Option<u64>,
    /// Files that may be open; none: any number.
    pub open_files_max: Option<u64>,
    /// Memory that the alarm looks at, in bytes.
    pub memory_used_bytes: u64,
    /// The setting `memory-limit`, in bytes.
    pub memory_limit_bytes: u64,
    /// The setting `memory-budget`, in bytes.
    pub memory_budget_bytes: u64,
    /// Bytes free on the disk of the data directory, if they could be told.
    pub disk_free_bytes: Option<u64>,
    /// The setting `disk-free-limit`, in bytes.
    pub disk_free_limit_bytes: u64,
    /// Connections open now.
    pub connections: u64,
    /// Connections taken since the start.
    pub connections_opened: u64,
    /// Connections dropped because there were too many.
    pub connections_refused: u64,
    /// Connections that may be open: the setting `connections-max`.
    pub connections_max: u64,
    /// Messages taken over HTTP.
    pub gets: Gets,
    /// Attempts to log in, by way.
    pub logins: Vec<(LoginWay, LoginCounts)>,
    /// Passwords that were checked against a dear hash.
    pub passwords_hashed: u64,
    /// Links attached now.
    pub links: Links,
    /// Invariants found broken since the process began.
    pub invariants_broken: u64,
    /// Publishers get no credit because of memory.
    pub memory_alarm: bool,
    /// Publishers get no credit because too little of the disk is free.
    pub disk_free_alarm: bool,
    /// Each vhost, by name.
    pub vhosts: Vec<Vhost>,
    /// The journal; none: messages live in memory only.
    pub journal: Option<(StoreState, StoreStats)>,
}

/// Messages taken over HTTP, as RabbitMQ counts what it calls `basic.get`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Gets {
    /// Taken for good (`ack_requeue_false`).
    pub auto_ack: u64,
    /// Taken to be given back or rejected.
    pub manual_ack: u64,
    /// Requests that found no message.
    pub empty: u64,
}

/// Links attached now, by what they are for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Links {
    /// Of publishers.
    pub publishers: u64,
    /// Of consumers.
    pub consumers: u64,
    /// Halves of management pairs.
    pub management: u64,
}

/// Counts of one vhost.
#[derive(Clone, Debug, Default)]
pub struct Vhost {
    /// Its name.
    pub name: Name,
    /// Its core works.
    pub up: bool,
    /// Connections in it.
    pub connections: u64,
    /// Sessions in it.
    pub sessions: u64,
    /// What happened in it.
    pub counters: Counters,
    /// How long messages that died had been in their queues, by reason.
    pub times_to_death: [TimesToDeath; Reason::ALL.len()],
    /// How long it was held: counts of holds of at most [`LOCK_HOLD_BOUNDS_NS`] that are in no lower
    /// bucket; the last takes all that are longer.
    pub lock_holds: Vec<u64>,
    /// All holds together, in nanoseconds.
    pub lock_held_ns: u64,
    /// Memory that its messages take, about, in bytes.
    pub memory_bytes: u64,
    /// Its queues.
    pub queues: Queues,
}

/// What is in a queue, or in several.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Depth {
    /// Messages that wait for a consumer.
    pub ready: u64,
    /// Messages with consumers.
    pub held: u64,
    /// Dead letters that wait for a target.
    pub dead_pending: u64,
    /// Bytes of the bare messages that are ready.
    pub ready_bytes: u64,
    /// Consumers.
    pub consumers: u64,
    /// When the oldest message came in, in milliseconds of the clock of the core; none: there is none.
    pub oldest: Option<Millis>,
}

/// Counts of one queue.
#[derive(Clone, Debug)]
pub struct QueueFigures {
    /// Its name.
    pub name: Name,
    /// What is in it.
    pub depth: Depth,
    /// What happened in it.
    pub counters: QueueCounters,
}

/// The queues of one vhost: all of them summed, some of them by themselves.
///
/// Those that were declared first are kept by themselves, so that a new queue never takes another
/// one's place.
#[derive(Clone, Debug, Default)]
pub struct Queues {
    /// How many there are.
    pub count: u64,
    /// All of them together.
    pub total: Depth,
    /// When the oldest message came into one of those that are not named.
    pub unnamed_oldest: Option<Millis>,
    /// What the clock of the core said.
    pub now: Millis,
    /// Those that are named, in the order of their declaration.
    pub named: BTreeMap<QueueId, QueueFigures>,
    /// Those that took dead letters, summed.
    pub receiving_total: Depth,
    /// The first of them, by themselves.
    pub receiving: BTreeMap<QueueId, QueueFigures>,
    named_max: usize,
    all: bool,
}

impl Depth {
    /// What is in a queue.
    pub fn of(queue: &Queue) -> Self {
        Self {
            ready: queue.messages.ready(),
            held: queue.messages.held(),
            dead_pending: queue.pending.len(),
            ready_bytes: queue.messages.ready_bytes(),
            consumers: queue.consumers.len() as u64,
            oldest: queue.messages.oldest(),
        }
    }

    /// Seconds since the oldest message came in.
    pub fn oldest_s(&self, now: Millis) -> u64 {
        self.oldest.map_or(0, |oldest| now.since(oldest) / 1_000)
    }

    fn add(&mut self, other: Self) {
        self.ready += other.ready;
        self.held += other.held;
        self.dead_pending += other.dead_pending;
        self.ready_bytes += other.ready_bytes;
        self.consumers += other.consumers;
        self.oldest = [self.oldest, other.oldest].into_iter().flatten().min();
    }

    /// What is left of it without the other, but for the oldest message.
    #[must_use]
    pub fn without(mut self, other: Self) -> Self {
        self.ready = self.ready.saturating_sub(other.ready);
        self.held = self.held.saturating_sub(other.held);
        self.dead_pending = self.dead_pending.saturating_sub(other.dead_pending);
        self.ready_bytes = self.ready_bytes.saturating_sub(other.ready_bytes);
        self.consumers = self.consumers.saturating_sub(other.consumers);
        self
    }
}

impl Queues {
    /// None yet. At most `named_max` will be named: of `all`, or of those in which messages died.
    pub fn new(now: Millis, named_max: usize, all: bool) -> Self {
        Self {
            now,
            named_max,
            all,
            ..Self::default()
        }
    }

    /// Takes a queue in.
    pub fn add(&mut self, queue: &Queue) {
        let depth = Depth::of(queue);
        self.count += 1;
        self.total.add(depth);
        // What lies in the quarantine is told after a start, too.
        if queue.counters.dead_entered > 0 || queue.name == QUARANTINE {
            self.receiving_total.add(depth);
            keep(&mut self.receiving, self.named_max, queue, depth);
        }
        if self.all || queue.counters.dead.total() > 0 {
            let unnamed = keep(&mut self.named, self.named_max, queue, depth);
            self.note_unnamed(unnamed);
        } else {
            self.note_unnamed(Some(depth));
        }
    }

    fn note_unnamed(&mut self, depth: Option<Depth>) {
        let oldest = [self.unnamed_oldest, depth.and_then(|depth| depth.oldest)];
        self.unnamed_oldest = oldest.into_iter().flatten().min();
    }
}

/// Keeps a queue by itself, if it is one of the `max` that were declared first; what is in the one that is
/// not kept then.
fn keep(
    kept: &mut BTreeMap<QueueId, QueueFigures>,
    max: usize,
    queue: &Queue,
    depth: Depth,
) -> Option<Depth> {
    let mut other = None;
    if kept.len() >= max {
        let newest = kept.last_key_value().map(|(id, _)| *id);
        if newest.is_none_or(|newest| queue.id > newest) {
            return Some(depth);
        }
        other = kept.pop_last().map(|(_, figures)| figures.depth);
    }
    let figures = QueueFigures {
        name: queue.name.clone(),
        depth,
        counters: queue.counters.clone(),
    };
    kept.insert(queue.id, figures);
    other
}
