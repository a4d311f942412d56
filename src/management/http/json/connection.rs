//! JSON of connections, sessions, links and consumers.

use serde_json::{Value, json};

use crate::broker::ConsumerInfo;

/// The connection of a consumer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChannelPlace {
    /// The connection's name.
    pub connection: String,
    /// The connection's user.
    pub user: String,
    /// The peer's address; none: it has no socket.
    pub peer: Option<std::net::SocketAddr>,
}

/// The JSON of a consumer.
pub fn consumer(
    (node, vhost): (&str, &str),
    consumer: &ConsumerInfo,
    place: &ChannelPlace,
) -> Value {
    json!({
        "queue": { "name": &*consumer.queue, "vhost": vhost },
        "consumer_tag": consumer.consumer.0.to_string(),
        "ack_required": !consumer.settled,
        "active": consumer.active,
        "activity_status": match (consumer.timed_out, consumer.active) {
            (1.., _) => "timeout",
            (0, true) => "up",
            (0, false) => "waiting",
        },
        "arguments": {},
        "exclusive": consumer.exclusive,
        "priority": consumer.priority,
        "prefetch_count": 0,
        "consumer_timeout": consumer.timeout_ms.unwrap_or(0),
        "messages_unacknowledged": consumer.held,
        "messages_timed_out": consumer.timed_out,
        "channel_details": {
            "name": place.connection,
            "connection_name": place.connection,
            "node": node,
            "number": 0,
            "user": place.user,
            "peer_host": place.peer.map(|peer| peer.ip().to_string()),
            "peer_port": place.peer.map(|peer| peer.port()),
        },
    })
}
