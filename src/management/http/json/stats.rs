//! JSON of counters: names, counts, rates.

use serde_json::{Map, Value, json};

use crate::management::rates::Rates;

/// The names of a vhost's counters, and of the broker's.
const VHOST: [&str; 9] = [
    "publish",
    "confirm",
    "return_unroutable",
    "deliver_get",
    "ack",
    "redeliver",
    "dead",
    "dead_lettered",
    "dropped",
];
/// The names of a queue's counters.
const QUEUE: [&str; 7] = [
    "publish",
    "deliver_get",
    "ack",
    "redeliver",
    "dead",
    "dead_lettered",
    "dropped",
];
/// The names of an exchange's counters.
const EXCHANGE: [&str; 2] = ["publish_in", "publish_out"];
/// The names of a connection's counters.
const CONNECTION: [&str; 2] = ["recv_oct", "send_oct"];
/// The names of the churn counters.
const CHURN: [&str; 5] = [
    "connection_created",
    "connection_closed",
    "queue_declared",
    "queue_created",
    "queue_deleted",
];
/// The names of the message counts of queues.
const MESSAGES: [&str; 3] = ["messages", "messages_ready", "messages_unacknowledged"];

/// Counts of one object with their rates.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Counted<const N: usize> {
    /// The counts, in the order of the names.
    pub counts: [u64; N],
    /// The rates, in the same order.
    pub rates: Rates<N>,
}

/// The counters of a vhost.
pub type VhostCounts = Counted<9>;
/// The counters of a queue.
pub type QueueCounts = Counted<7>;
/// The counters of an exchange.
pub type ExchangeCounts = Counted<2>;
/// Octets of a connection, received and sent.
pub type Octets = Counted<2>;
/// Connections and queues opened, closed, declared, created and deleted.
pub type Churn = Counted<5>;

impl<const N: usize> Counted<N> {
    /// The sum of both, counts and rates.
    #[must_use]
    pub fn plus(mut self, other: Self) -> Self {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        for (rate, more) in self.rates.iter_mut().zip(other.rates) {
            *rate += more;
        }
        self
    }
}

impl<const N: usize> Default for Counted<N> {
    fn default() -> Self {
        Self {
            counts: [0; N],
            rates: [0.0; N],
        }
    }
}

/// `message_stats` of a vhost, or of the broker.
pub fn vhost(counted: VhostCounts) -> Value {
    Value::Object(fields(VHOST, counted))
}

/// `message_stats` of a queue.
pub fn queue(counted: QueueCounts) -> Value {
    Value::Object(fields(QUEUE, counted))
}

/// `message_stats` of an exchange.
pub fn exchange(counted: ExchangeCounts) -> Value {
    Value::Object(fields(EXCHANGE, counted))
}

/// The fields with a connection's octets.
pub fn octets(counted: Octets) -> Map<String, Value> {
    fields(CONNECTION, counted)
}

/// The fields with the churn of connections and queues.
pub fn churn(counted: Churn) -> Map<String, Value> {
    fields(CHURN, counted)
}

/// The fields with the messages in queues.
pub fn messages(counted: Counted<3>) -> Map<String, Value> {
    fields(MESSAGES, counted)
}

/// Counts with their rates, as fields.
fn fields<const N: usize>(names: [&str; N], counted: Counted<N>) -> Map<String, Value> {
    let mut fields = Map::new();
    for ((name, count), rate) in names.into_iter().zip(counted.counts).zip(counted.rates) {
        fields.insert(name.to_owned(), json!(count));
        fields.insert(format!("{name}_details"), json!({ "rate": rate }));
    }
    fields
}
