//! Samples of what vhosts, queues, exchanges and connections counted, from which rates come.

use super::rates::Sample;
use crate::base::{ConnectionId, ExchangeId, QueueId};
use crate::broker::exchange::Passed;
use crate::broker::queue::Queue;
use crate::broker::{Counters, QueueCounters};

/// The rates in one vhost.
#[derive(Debug, Default)]
pub struct VhostSample {
    /// Of the vhost.
    pub counters: Sample<(), 9>,
    /// Of all messages in queues.
    pub messages: Sample<(), 3>,
    /// Of each queue.
    pub queues: Sample<QueueId, 7>,
    /// Of the messages in each queue.
    pub queue_messages: Sample<QueueId, 3>,
    /// Of each exchange.
    pub exchanges: Sample<ExchangeId, 2>,
}

/// The octets of each connection.
pub type ConnectionSample = Sample<ConnectionId, 2>;
/// Connections and queues that came and went.
pub type ChurnSample = Sample<(), 5>;

impl VhostSample {
    /// Begins a sample, so long after the one before.
    pub const fn new(interval_ms: Option<u32>) -> Self {
        Self {
            counters: Sample::new(interval_ms),
            messages: Sample::new(interval_ms),
            queues: Sample::new(interval_ms),
            queue_messages: Sample::new(interval_ms),
            exchanges: Sample::new(interval_ms),
        }
    }

    /// Takes a queue in.
    pub fn add_queue(&mut self, before: &Self, queue: &QueueSeen) {
        self.queues.add(&before.queues, queue.id, queue.counts);
        self.queue_messages
            .add(&before.queue_messages, queue.id, queue.messages);
    }

    /// Takes the vhost in, with the messages of all its queues.
    pub fn add_vhost(&mut self, before: &Self, counters: &Counters, messages: [u64; 3]) {
        self.counters.add(&before.counters, (), of_vhost(counters));
        self.messages.add(&before.messages, (), messages);
    }

    /// Takes an exchange in.
    pub fn add_exchange(&mut self, before: &Self, id: ExchangeId, passed: Passed) {
        self.exchanges
            .add(&before.exchanges, id, of_exchange(passed));
    }
}

/// What a sample needs of a queue.
#[derive(Clone, Copy, Debug)]
pub struct QueueSeen {
    id: QueueId,
    counts: [u64; 7],
    /// All, ready, unacknowledged.
    pub messages: [u64; 3],
}

impl QueueSeen {
    /// Copies it.
    pub fn of(queue: &Queue) -> Self {
        let (ready, unacknowledged) = (queue.messages.ready(), queue.messages.held());
        Self {
            id: queue.id,
            counts: of_queue(&queue.counters),
            messages: [ready + unacknowledged, ready, unacknowledged],
        }
    }
}

/// The counts of a vhost.
pub fn of_vhost(counters: &Counters) -> [u64; 9] {
    let settled = counters.settled;
    [
        counters.published,
        counters.accepted,
        counters.unroutable,
        counters.delivered,
        settled.accepted + settled.presettled,
        settled.released + settled.modified,
        counters.dead.total(),
        counters.dead_lettered.total(),
        counters.drops.total(),
    ]
}

/// The counts of a queue.
pub fn of_queue(counters: &QueueCounters) -> [u64; 7] {
    [
        counters.entered,
        counters.delivered,
        counters.accepted,
        counters.returned,
        counters.dead.total(),
        counters.dead_lettered.total(),
        counters.drops.total(),
    ]
}

/// The counts of an exchange.
pub const fn of_exchange(passed: Passed) -> [u64; 2] {
    [passed.published_in, passed.published_out]
}
