//! What is counted of each kind of object: names, counts, rates.

use serde_json::{Map, Value, json};

use crate::management::rates::Rates;

/// What is counted of a vhost, and of all of them together.
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
/// What is counted of a queue.
const QUEUE: [&str; 7] = [
    "publish",
    "deliver_get",
    "ack",
    "redeliver",
    "dead",
    "dead_lettered",
    "dropped",
];
/// What is counted of an exchange.
const EXCHANGE: [&str; 2] = ["publish_in", "publish_out"];
/// What is counted of a connection.
const CONNECTION: [&str; 2] = ["recv_oct", "send_oct"];
/// Connections and queues that came and went.
const CHURN: [&str; 5] = [
    "connection_created",
    "connection_closed",
    "queue_declared",
    "queue_created",
    "queue_deleted",
];
/// The messages in queues.
const MESSAGES: [&str; 3] = ["messages", "messages_ready", "messages_unacknowledged"];

/// Counts of one object with their rates.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Counted<const N: usize> {
    /// In the order of the names.
    pub counts: [u64; N],
    /// In the same order.
    pub rates: Rates<N>,
}

/// Counts of a vhost.
pub type VhostCounts = Counted<9>;
/// Counts of a queue.
pub type QueueCounts = Counted<7>;
/// Counts of an exchange.
pub type ExchangeCounts = Counted<2>;
/// Octets of a connection.
pub type Octets = Counted<2>;
/// Connections and queues that came and went.
pub type Churn = Counted<5>;

impl<const N: usize> Counted<N> {
    /// Both together.
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

/// The fields that tell of a connection's octets.
pub fn octets(counted: Octets) -> Map<String, Value> {
    fields(CONNECTION, counted)
}

/// The fields that tell of connections and queues that came and went.
pub fn churn(counted: Churn) -> Map<String, Value> {
    fields(CHURN, counted)
}

/// The fields that tell of messages in queues.
pub fn messages(counted: Counted<3>) -> Map<String, Value> {
    fields(MESSAGES, counted)
}

/// Counts, each beside its rate.
fn fields<const N: usize>(names: [&str; N], counted: Counted<N>) -> Map<String, Value> {
    let mut fields = Map::new();
    for ((name, count), rate) in names.into_iter().zip(counted.counts).zip(counted.rates) {
        fields.insert(name.to_owned(), json!(count));
        fields.insert(format!("{name}_details"), json!({ "rate": rate }));
    }
    fields
}
