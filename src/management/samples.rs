//! Samples of the counters of vhosts, queues, exchanges and connections, for rates.

use super::minute::LastMinute;
use super::rates::Sample;
use crate::base::{ConnectionId, ExchangeId, QueueId};
use crate::broker::exchange::Passed;
use crate::broker::queue::Queue;
use crate::broker::{Counters, QueueCounters};
use crate::deaths::Reason;

/// The sample of one vhost.
#[derive(Debug, Default)]
pub struct VhostSample {
    /// The vhost's own counters.
    pub counters: Sample<(), 9>,
    /// Messages in all queues: all, ready, unacknowledged.
    pub messages: Sample<(), 3>,
    /// The counters of each queue.
    pub queues: Sample<QueueId, 7>,
    /// Messages in each queue: all, ready, unacknowledged.
    pub queue_messages: Sample<QueueId, 3>,
    /// The counters of each exchange.
    pub exchanges: Sample<ExchangeId, 2>,
    /// Deaths in each queue.
    pub deaths: LastMinute,
}

/// Octets received and sent, of each connection.
pub type ConnectionSample = Sample<ConnectionId, 2>;
/// Connections and queues opened, closed, declared, created and deleted.
pub type ChurnSample = Sample<(), 5>;

impl VhostSample {
    /// Begins a sample, at this time after the one before.
    pub fn new(before: &Self, interval_ms: Option<u32>) -> Self {
        Self {
            counters: Sample::new(interval_ms),
            messages: Sample::new(interval_ms),
            queues: Sample::new(interval_ms),
            queue_messages: Sample::new(interval_ms),
            exchanges: Sample::new(interval_ms),
            deaths: LastMinute::behind(&before.deaths, interval_ms),
        }
    }

    /// Adds a queue's counters.
    pub fn add_queue(&mut self, before: &Self, queue: &QueueSeen) {
        self.queues.add(&before.queues, queue.id, queue.counts);
        self.queue_messages
            .add(&before.queue_messages, queue.id, queue.messages);
        self.deaths.add(&before.deaths, queue.id, queue.dead);
    }

    /// Adds the vhost's counters, and the messages of all its queues.
    pub fn add_vhost(&mut self, before: &Self, counters: &Counters, messages: [u64; 3]) {
        self.counters.add(&before.counters, (), of_vhost(counters));
        self.messages.add(&before.messages, (), messages);
    }

    /// Adds an exchange's counters.
    pub fn add_exchange(&mut self, before: &Self, id: ExchangeId, passed: Passed) {
        self.exchanges
            .add(&before.exchanges, id, of_exchange(passed));
    }
}

/// The values of a queue for a sample.
#[derive(Clone, Copy, Debug)]
pub struct QueueSeen {
    id: QueueId,
    counts: [u64; 7],
    /// All messages, ready, unacknowledged.
    pub messages: [u64; 3],
    /// Deaths, by reason.
    dead: [u64; 4],
}

impl QueueSeen {
    /// Copies the values of a queue.
    pub fn of(queue: &Queue) -> Self {
        let (ready, unacknowledged) = (queue.messages.ready(), queue.messages.held());
        let delayed = queue.messages.delayed().usage().messages;
        Self {
            id: queue.id,
            counts: of_queue(&queue.counters),
            messages: [ready + unacknowledged + delayed, ready, unacknowledged],
            dead: Reason::ALL.map(|reason| queue.counters.dead.of(reason)),
        }
    }
}

/// The counts of a vhost, in the order of their names.
pub fn of_vhost(counters: &Counters) -> [u64; 9] {
    let settled = counters.settled;
    [
        counters.published,
        counters.accepted,
        counters.unroutable,
        counters.delivered,
        settled.accepted + settled.presettled,
        counters.redelivered,
        counters.dead.total(),
        counters.dead_lettered.total(),
        counters.drops.total(),
    ]
}

/// The counts of a queue, in the order of their names.
pub fn of_queue(counters: &QueueCounters) -> [u64; 7] {
    [
        counters.entered,
        counters.delivered,
        counters.accepted,
        counters.redelivered,
        counters.dead.total(),
        counters.dead_lettered.total(),
        counters.drops.total(),
    ]
}

/// The counts of an exchange, in the order of their names.
pub const fn of_exchange(passed: Passed) -> [u64; 2] {
    [passed.published_in, passed.published_out]
}
