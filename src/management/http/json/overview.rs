//! JSON of the broker's totals and rates.

use serde_json::{Map, Value, json};

use super::stats::{self, Churn, Counted, VhostCounts};
use super::{no_rate, put};
use crate::management::rates::Rates;

/// The version of RabbitMQ with this API: clients check it.
pub const RABBITMQ_VERSION: &str = "4.0.5";
/// Types of exchanges with a description.
const EXCHANGE_TYPES: [(&str, &str); 5] = [
    ("direct", "the routing key is the binding key"),
    ("fanout", "every binding"),
    ("headers", "properties are the binding's arguments"),
    ("topic", "the routing key fits the binding key's pattern"),
    ("x-local-random", "one of the queues bound, whichever"),
];

/// Channels belong to AMQP 0-9-1: there are none, and RabbitMQ does not count sessions as such
/// either.
const CHANNELS: [&str; 2] = ["channel_created", "channel_closed"];

/// An address that the broker listens on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listener {
    /// The protocol: `amqp`, `http` and the like.
    pub protocol: &'static str,
    /// The address listened on.
    pub address: std::net::IpAddr,
    /// The port listened on.
    pub port: u16,
}

impl Listener {
    /// Whether it speaks TLS.
    pub fn is_secure(&self) -> bool {
        ["amqp/ssl", "https"].contains(&self.protocol)
    }
}

/// Numbers of objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ObjectTotals {
    /// Number of consumers attached.
    pub consumers: u64,
    /// Number of exchanges, predeclared ones included.
    pub exchanges: u64,
    /// Number of queues.
    pub queues: u64,
    /// Number of open connections.
    pub connections: u64,
    /// Number of open sessions.
    pub sessions: u64,
}

/// Numbers of messages in queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueueTotals {
    /// Messages waiting for a consumer.
    pub ready: u64,
    /// Messages held by consumers.
    pub unacknowledged: u64,
    /// Dead letters waiting for a target.
    pub dead_pending: u64,
    /// Messages waiting until it is their time.
    pub delayed: u64,
}

impl QueueTotals {
    /// The sum of both totals.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            ready: self.ready + other.ready,
            unacknowledged: self.unacknowledged + other.unacknowledged,
            dead_pending: self.dead_pending + other.dead_pending,
            delayed: self.delayed + other.delayed,
        }
    }

    /// Its fields, with rates, as RabbitMQ has them in several objects.
    pub fn fields(self, rates: Rates<3>) -> Map<String, Value> {
        let total = self.ready + self.unacknowledged + self.delayed;
        let counts = [total, self.ready, self.unacknowledged];
        let mut fields = stats::messages(Counted { counts, rates });
        fields.insert("messages_dead_pending".to_owned(), json!(self.dead_pending));
        fields.insert("messages_delayed".to_owned(), json!(self.delayed));
        fields
    }
}

/// The content of an overview.
#[derive(Debug)]
pub struct Overview<'a> {
    /// The broker's name.
    pub node: &'a str,
    /// The broker's version.
    pub version: &'a str,
    /// Type of queues declared without one.
    pub default_queue_type: &'a str,
    /// Numbers of objects.
    pub objects: ObjectTotals,
    /// Messages in queues.
    pub queues: QueueTotals,
    /// Rates of `queues`, per second.
    pub queue_rates: Rates<3>,
    /// Counters of all vhosts that the user sees.
    pub counted: VhostCounts,
    /// Connections and queues opened, closed, declared, created and deleted since the start.
    pub churn: Churn,
    /// Whether rates are measured.
    pub has_rates: bool,
    /// Addresses listened on; for monitors only.
    pub listeners: Option<&'a [Listener]>,
}

impl Overview<'_> {
    /// The overview as JSON.
    pub fn json(&self) -> Value {
        let objects = self.objects;
        let mut body = json!({
            "management_version": RABBITMQ_VERSION,
            "rabbitmq_version": RABBITMQ_VERSION,
            "product_name": "Coroner",
            "product_version": self.version,
            "cluster_name": self.node,
            "cluster_tags": {},
            "node_tags": {},
            "node": self.node,
            "erlang_version": "",
            "erlang_full_version": "",
            "rates_mode": rates_mode(self.has_rates),
            "sample_retention_policies": { "global": [], "basic": [], "detailed": [] },
            "disable_stats": false,
            "enable_queue_totals": false,
            "is_op_policy_updating_enabled": true,
            "default_queue_type": self.default_queue_type,
            "statistics_db_event_queue": 0,
            "exchange_types": exchange_types(),
            "queue_totals": self.queues.fields(self.queue_rates),
            "message_stats": stats::vhost(self.counted),
            "churn_rates": self.churn_rates(),
            "object_totals": {
                "channels": objects.sessions,
                "consumers": objects.consumers,
                "exchanges": objects.exchanges,
                "queues": objects.queues,
                "connections": objects.connections,
            },
        });
        if let Some(listeners) = self.listeners {
            let listed: Vec<Value> = listeners
                .iter()
                .map(|listener| {
                    json!({
                        "node": self.node,
                        "protocol": listener.protocol,
                        "ip_address": listener.address.to_string(),
                        "port": listener.port,
                        "socket_opts": {},
                    })
                })
                .collect();
            put(&mut body, "listeners", Value::Array(listed));
            put(&mut body, "contexts", json!([]));
        }
        body
    }

    fn churn_rates(&self) -> Value {
        let mut fields = stats::churn(self.churn);
        for name in CHANNELS {
            fields.insert(name.to_owned(), json!(0));
            fields.insert(format!("{name}_details"), no_rate());
        }
        Value::Object(fields)
    }
}

/// RabbitMQ's word for whether rates are measured.
pub const fn rates_mode(has_rates: bool) -> &'static str {
    if has_rates { "basic" } else { "none" }
}

/// The exchange types of this broker.
pub fn exchange_types() -> Value {
    let types = EXCHANGE_TYPES.iter().map(
        |(name, description)| json!({ "name": name, "description": description, "enabled": true }),
    );
    Value::Array(types.collect())
}
