//! The snapshot that metrics are made from: plain counts, copied from the other modules.

use std::collections::BTreeMap;

use crate::access::{LoginCounts, LoginWay};
use crate::base::{Millis, Name, QueueId};
use crate::broker::death_counts::TimesToDeath;
use crate::broker::names::QUARANTINE;
use crate::broker::queue::Queue;
use crate::broker::{Counters, QueueCounters};
use crate::deaths::Reason;
use crate::store::{StoreState, StoreStats};

/// Bounds of the histogram of lock holds, in nanoseconds. Close together, so that p99.99 can be
/// read from it, and with the two that matter: 200 us for a command, 1 ms for p99.99.
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

/// All counts of a broker at one moment. Vhosts are read one after the other.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The broker's version.
    pub version: &'static str,
    /// Milliseconds since the start.
    pub uptime_ms: u64,
    /// Resident memory of the process, in bytes; none if the system does not tell it.
    pub resident_bytes: Option<u64>,
    /// The name of this node.
    pub node: String,
    /// Address space of the process, in bytes; none if the system does not tell it.
    pub virtual_bytes: Option<u64>,
    /// Processor time of the process, in milliseconds.
    pub processor_ms: u64,
    /// When the broker started, in seconds since 1970.
    pub started_s: u64,
    /// Number of open files; none if the system does not tell it.
    pub open_files: Option<u64>,
    /// Number of files that may be open; none: any number.
    pub open_files_max: Option<u64>,
    /// Memory that the alarm compares with its limit, in bytes.
    pub memory_used_bytes: u64,
    /// The setting `memory-limit`, in bytes.
    pub memory_limit_bytes: u64,
    /// The memory budget in force, in bytes: the setting, or half of `memory-limit` if that is less.
    pub memory_budget_bytes: u64,
    /// Bytes free on the disk of the data directory; none if they cannot be read.
    pub disk_free_bytes: Option<u64>,
    /// The setting `disk-free-limit`, in bytes.
    pub disk_free_limit_bytes: u64,
    /// Number of open connections.
    pub connections: u64,
    /// Connections accepted since the start.
    pub connections_opened: u64,
    /// Connections dropped because there were too many.
    pub connections_refused: u64,
    /// Connections that may be open: the setting `connections-max`.
    pub connections_max: u64,
    /// Messages taken over HTTP.
    pub gets: Gets,
    /// Login attempts, by way of login.
    pub logins: Vec<(LoginWay, LoginCounts)>,
    /// Passwords that were checked with a slow hash.
    pub passwords_hashed: u64,
    /// Numbers of attached links.
    pub links: Links,
    /// Number of broken invariants since the process began.
    pub invariants_broken: u64,
    /// Events that streams were not told.
    pub events_missed: u64,
    /// Whether the alarm of memory is in effect, so that publishers get no credit.
    pub memory_alarm: bool,
    /// Whether the alarm of the disk is in effect, so that publishers get no credit.
    pub disk_free_alarm: bool,
    /// The counts of each vhost, by name.
    pub vhosts: Vec<Vhost>,
    /// What was counted in vhosts that were deleted since the start: what no label tells apart by vhost
    /// never falls.
    pub gone: Counters,
    /// State and counters of the journal; none: messages live in memory only.
    pub journal: Option<(StoreState, StoreStats)>,
}

/// Messages taken over HTTP, by the kinds of RabbitMQ's `basic.get`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Gets {
    /// Messages removed when taken (`ack_requeue_false`).
    pub auto_ack: u64,
    /// Messages taken to be requeued or rejected.
    pub manual_ack: u64,
    /// Requests that found no message.
    pub empty: u64,
}

/// Numbers of attached links, by their purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Links {
    /// Links of publishers.
    pub publishers: u64,
    /// Links of consumers.
    pub consumers: u64,
    /// Halves of management pairs.
    pub management: u64,
}

/// The counts of one vhost.
#[derive(Clone, Debug, Default)]
pub struct Vhost {
    /// The vhost's name.
    pub name: Name,
    /// Whether its core works; false after a failure.
    pub up: bool,
    /// Number of open connections.
    pub connections: u64,
    /// Number of open sessions.
    pub sessions: u64,
    /// What was counted since the core was made.
    pub counters: Counters,
    /// How long messages that died had been in their queues, by reason.
    pub times_to_death: [TimesToDeath; Reason::ALL.len()],
    /// How long it was held: counts of holds of at most [`LOCK_HOLD_BOUNDS_NS`] that are in no lower
    /// bucket; the last takes all that are longer.
    pub lock_holds: Vec<u64>,
    /// Sum of all holds, in nanoseconds.
    pub lock_held_ns: u64,
    /// Estimated memory of its messages, in bytes.
    pub memory_bytes: u64,
    /// The counts of its queues.
    pub queues: Queues,
    /// Findings of the linter that are not silenced, by the number of their rule.
    pub findings: Vec<(&'static str, u64)>,
}

/// The content of a queue, or of several.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Depth {
    /// Number of ready messages.
    pub ready: u64,
    /// Number of messages held by consumers.
    pub held: u64,
    /// Number of dead letters waiting for a target.
    pub dead_pending: u64,
    /// Messages that wait until it is their time.
    pub delayed: u64,
    /// Bytes of the bare messages that are ready.
    pub ready_bytes: u64,
    /// Number of consumers attached.
    pub consumers: u64,
    /// When the oldest message came in, in milliseconds of the clock of the core; none: there is none.
    pub oldest: Option<Millis>,
}

/// The counts of one queue.
#[derive(Clone, Debug)]
pub struct QueueFigures {
    /// The queue's name.
    pub name: Name,
    /// The messages and consumers it has.
    pub depth: Depth,
    /// What was counted since it was declared.
    pub counters: QueueCounters,
}

/// The queues of one vhost: the sum of all, and some by themselves.
///
/// The queues that were declared first are given by themselves, so that a new queue never replaces
/// another one.
#[derive(Clone, Debug, Default)]
pub struct Queues {
    /// Number of queues.
    pub count: u64,
    /// The sum over all of them.
    pub total: Depth,
    /// When the oldest message came into one of those that are not named.
    pub unnamed_oldest: Option<Millis>,
    /// What the clock of the core said.
    pub now: Millis,
    /// Those that are named, in the order of their declaration.
    pub named: BTreeMap<QueueId, QueueFigures>,
    /// The sum of the queues that received dead letters.
    pub receiving_total: Depth,
    /// The first of these queues, by themselves.
    pub receiving: BTreeMap<QueueId, QueueFigures>,
    named_max: usize,
    all: bool,
}

impl Depth {
    /// The content of a queue.
    pub fn of(queue: &Queue) -> Self {
        Self {
            ready: queue.messages.ready(),
            held: queue.messages.held(),
            dead_pending: queue.pending.len(),
            delayed: queue.messages.delayed().usage().messages,
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
        self.delayed += other.delayed;
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
        self.delayed = self.delayed.saturating_sub(other.delayed);
        self.ready_bytes = self.ready_bytes.saturating_sub(other.ready_bytes);
        self.consumers = self.consumers.saturating_sub(other.consumers);
        self
    }
}

impl Queues {
    /// None yet. At most `named_max` will be named: of `all`, or of those in which messages
    /// died or consumers held some for too long.
    pub fn new(now: Millis, named_max: usize, all: bool) -> Self {
        Self {
            now,
            named_max,
            all,
            ..Self::default()
        }
    }

    /// Adds a queue.
    pub fn add(&mut self, queue: &Queue) {
        let depth = Depth::of(queue);
        self.count += 1;
        self.total.add(depth);
        // The quarantine's records are reported even if none was added since the start.
        if queue.counters.dead_entered > 0 || queue.name == QUARANTINE {
            self.receiving_total.add(depth);
            keep(&mut self.receiving, self.named_max, queue, depth);
        }
        let is_named = queue.counters.dead.total() > 0 || queue.counters.timed_out > 0;
        if self.all || is_named {
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
