//! JSON of vhosts, users, permissions and limits.

use serde_json::{Map, Value, json};

use super::overview::QueueTotals;
use super::stats::{self, VhostCounts};
use crate::access::{Password, Permissions, Tag, TopicPermissions, User};
use crate::broker::registry::{VhostLimits, VhostSpec};
use crate::management::rates::Rates;

/// The JSON of a vhost.
pub fn vhost(
    (node, default_queue_type): (&str, &str),
    name: &str,
    spec: &VhostSpec,
    totals: QueueTotals,
    (counted, message_rates): (VhostCounts, Rates<3>),
) -> Value {
    let queue_type = spec.default_queue_type.as_deref();
    let queue_type = queue_type.unwrap_or(default_queue_type);
    let tags: Vec<&str> = spec.tags.iter().map(|tag| &**tag).collect();
    let mut body = json!({
        "name": name,
        "description": spec.description,
        "tags": tags,
        "default_queue_type": queue_type,
        "metadata": {
            "description": spec.description,
            "tags": tags,
            "default_queue_type": queue_type,
        },
        "tracing": false,
        "cluster_state": { node: "running" },
    });
    if let Value::Object(fields) = &mut body {
        fields.extend(totals.fields(message_rates));
        fields.insert("message_stats".to_owned(), stats::vhost(counted));
    }
    body
}

/// The JSON of a user. Its password hash is for administrators only, which the route ensures.
pub fn user(user: &User) -> Value {
    let (hash, algorithm) = user
        .password
        .as_ref()
        .map_or_else(|| (String::new(), SHA256), Password::to_text);
    let tags: Vec<&str> = user.tags.iter().map(Tag::as_str).collect();
    json!({
        "name": &*user.name,
        "password_hash": hash,
        "hashing_algorithm": algorithm,
        "tags": tags,
        "limits": user_limits(user),
    })
}

/// The algorithm shown for a user without a password (as RabbitMQ).
const SHA256: &str = "rabbit_password_hashing_sha256";

/// Permissions of a user in a vhost.
pub fn permissions(user: &str, vhost: &str, permissions: &Permissions) -> Value {
    json!({
        "user": user,
        "vhost": vhost,
        "configure": permissions.configure.as_str(),
        "write": permissions.write.as_str(),
        "read": permissions.read.as_str(),
    })
}

/// Permissions of a user on the keys of a topic exchange.
pub fn topic_permissions(
    (user, vhost): (&str, &str),
    exchange: &str,
    permissions: &TopicPermissions,
) -> Value {
    json!({
        "user": user,
        "vhost": vhost,
        "exchange": exchange,
        "write": permissions.write.as_str(),
        "read": permissions.read.as_str(),
    })
}

/// The limits of a user, as fields.
pub fn user_limits(user: &User) -> Map<String, Value> {
    let limits = user.limits;
    given([
        ("max-connections", limits.connections_max.map(u64::from)),
        ("max-channels", limits.sessions_max.map(u64::from)),
    ])
}

/// The limits of a vhost, as fields.
pub fn vhost_limits(limits: VhostLimits) -> Map<String, Value> {
    given([
        ("max-connections", limits.connections_max),
        ("max-queues", limits.queues_max),
    ])
}

fn given<const N: usize>(limits: [(&str, Option<u64>); N]) -> Map<String, Value> {
    let limits = limits.into_iter();
    limits
        .filter_map(|(name, limit)| Some((name.to_owned(), json!(limit?))))
        .collect()
}
