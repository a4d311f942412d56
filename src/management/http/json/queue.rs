//! JSON of queues.

use serde_json::{Map, Value, json};

use super::overview::QueueTotals;
use super::stats::{self, Counted};
use super::value::{arguments, to_json};
use super::{no_rate, put};
use crate::base::{Name, Timestamp};
use crate::broker::arguments::QueueType;
use crate::broker::names::{QUARANTINE, QUARANTINE_IGNORES};
use crate::broker::policy::Policies;
use crate::broker::queue::DelayedSpan;
use crate::broker::{ByReason, DeadLetterTo, Drops, QueueCounters, QueueDetails, QueueInfo};
use crate::deaths::Reason;
use crate::management::samples::{self, VhostSample};
use crate::wire;

/// The context of a queue's JSON.
#[derive(Clone, Copy, Debug)]
pub struct QueueContext<'a> {
    /// The broker's name.
    pub node: &'a str,
    /// The vhost's name.
    pub vhost: &'a str,
    /// The vhost's policies.
    pub policies: &'a Policies,
    /// The vhost's sample, for the queue's rates.
    pub rates: &'a VhostSample,
}

/// The JSON of a queue, as in listings.
pub fn queue(place: QueueContext<'_>, details: &QueueDetails) -> Value {
    let info = &details.info;
    let messages = all(info);
    let bytes_unacknowledged = details
        .live_bytes
        .saturating_sub(info.ready_bytes + details.delayed.bytes);
    let bytes = info.ready_bytes + bytes_unacknowledged + details.delayed.bytes;
    let delayed_at = |end: fn(&DelayedSpan) -> Timestamp| {
        let span = details.delayed_span.as_ref();
        span.map(|span| end(span).0)
    };
    let delayed_retry = details.delayed_retry;
    let delayed_retry =
        delayed_retry.map_or_else(|| "disabled".to_owned(), |retry| retry.to_string());
    let on_disk = details.on_disk;
    let (persistent, persistent_bytes) = match details.queue_type {
        QueueType::Classic => (details.durable.messages, details.durable.bytes),
        QueueType::Quorum => (messages, bytes),
    };
    let mut body = json!({
        "name": &*info.name,
        "vhost": place.vhost,
        "node": place.node,
        "type": info.kind,
        "state": "running",
        "durable": info.durable,
        "auto_delete": info.auto_delete,
        "exclusive": info.exclusive,
        "arguments": arguments(&info.arguments),
        "consumers": info.consumer_count,
        "consumer_capacity": 0,
        "consumer_utilisation": 0,
        "memory": details.memory_bytes,
        "message_bytes": bytes,
        "message_bytes_ready": info.ready_bytes,
        "message_bytes_unacknowledged": bytes_unacknowledged,
        "message_bytes_ram": bytes.saturating_sub(on_disk.bytes),
        "message_bytes_persistent": persistent_bytes,
        "messages_ram": messages.saturating_sub(on_disk.messages),
        "messages_persistent": persistent,
        "reductions": 0,
        "reductions_details": no_rate(),
        "message_stats": stats::queue(Counted {
            counts: samples::of_queue(&details.counters),
            rates: place.rates.queues.of(&info.id),
        }),
        "dead_letters": dead_letters(&details.counters),
        "dead_letter_to": details.dead_letter_to.as_ref().map(dead_letter_to),
        "delayed_retry": delayed_retry,
        "next_delayed_at": delayed_at(|span| span.next),
        "last_delayed_at": delayed_at(|span| span.last),
    });
    if let Value::Object(fields) = &mut body {
        let rates = place.rates.queue_messages.of(&info.id);
        fields.extend(totals(details).fields(rates));
        of_kind(place.node, details, fields);
        policies(place.policies, details, fields);
    }
    body
}

/// The messages of a queue but for dead letters that wait.
const fn all(info: &QueueInfo) -> u64 {
    info.messages_ready + info.messages_unacknowledged + info.messages_delayed
}

/// The number that a listing sorts queues by, if the field is one: sorting needs it for all queues,
/// and describing them would take many times as long.
pub fn number(field: &str, details: &QueueDetails) -> Option<u64> {
    let info = &details.info;
    Some(match field {
        "messages" => all(info),
        "messages_delayed" => info.messages_delayed,
        "messages_ready" => info.messages_ready,
        "messages_unacknowledged" => info.messages_unacknowledged,
        "messages_dead_pending" => info.messages_dead_pending,
        "message_bytes_ready" => info.ready_bytes,
        "consumers" => info.consumer_count,
        "memory" => details.memory_bytes,
        "dead_letters.taken" => details.counters.dead_entered,
        _ => return None,
    })
}

/// The JSON of a queue by itself, with its consumers and its effective settings.
pub fn queue_alone(mut queue: Value, consumers: Value, settings: Value) -> Value {
    put(&mut queue, "consumer_details", consumers);
    put(&mut queue, "settings", settings);
    put(&mut queue, "deliveries", json!([]));
    put(&mut queue, "incoming", json!([]));
    put(&mut queue, "garbage_collection", json!({}));
    queue
}

/// The messages of a queue, as they count in totals.
pub const fn totals(details: &QueueDetails) -> QueueTotals {
    QueueTotals {
        ready: details.info.messages_ready,
        unacknowledged: details.info.messages_unacknowledged,
        dead_pending: details.info.messages_dead_pending,
        delayed: details.info.messages_delayed,
    }
}

/// The fields that only queues of this type have.
fn of_kind(node: &str, details: &QueueDetails, fields: &mut Map<String, Value>) {
    let info = &details.info;
    let own = match details.queue_type {
        QueueType::Classic => json!({
            "storage_version": 2,
            "messages_paged_out": details.on_disk.messages,
            "message_bytes_paged_out": details.on_disk.bytes,
            "messages_ready_ram": info.messages_ready.saturating_sub(details.on_disk.messages),
            "messages_unacknowledged_ram": info.messages_unacknowledged,
        }),
        QueueType::Quorum => json!({
            "leader": node,
            "members": [node],
            "online": [node],
            "open_files": { node: 0 },
            "publishers": 0,
            "messages_dlx": info.messages_dead_pending,
            "message_bytes_dlx": 0,
            "messages_ready_high": details.ready_high,
            "messages_ready_normal": info.messages_ready.saturating_sub(details.ready_high),
            "messages_ready_returned": 0,
        }),
    };
    if let Value::Object(own) = own {
        fields.extend(own);
    }
    if let Some(limit) = details.delivery_limit {
        fields.insert("delivery_limit".to_owned(), json!(limit));
    }
    if let Some(timeout_ms) = details.consumer_timeout_ms {
        fields.insert("consumer_timeout".to_owned(), json!(timeout_ms));
    }
    if details.message_groups > 0 {
        let groups = details.message_groups;
        fields.insert("message_groups".to_owned(), json!(groups));
    }
    if details.suspects > 0 {
        fields.insert("messages_suspect".to_owned(), json!(details.suspects));
    }
}

/// The fields with the policies that apply, and what they set together.
fn policies(policies: &Policies, details: &QueueDetails, fields: &mut Map<String, Value>) {
    let of = |operator| policies.of_queue(operator, &details.info.name, details.queue_type);
    let (user, operator) = (of(false), of(true));
    for (field, policy) in [("policy", user), ("operator_policy", operator)] {
        if let Some(policy) = policy {
            fields.insert(field.to_owned(), json!(&*policy.name));
        }
    }
    let mut effective = Map::new();
    for (key, value) in user.into_iter().flat_map(|policy| &policy.given) {
        effective.insert(key.to_string(), to_json(value));
    }
    for (key, value) in operator.into_iter().flat_map(|policy| &policy.given) {
        merge_operator(&mut effective, key, value);
    }
    if details.info.name == QUARANTINE {
        effective.retain(|key, _| !QUARANTINE_IGNORES.contains(&&**key));
    }
    fields.insert("effective_policy_definition".to_owned(), effective.into());
}

/// The operator's limit counts unless the user's is smaller; any other key of the operator counts.
fn merge_operator(effective: &mut Map<String, Value>, key: &Name, value: &wire::Value) {
    let given = to_json(value);
    let smaller =
        |known: &Value| matches!((known.as_i64(), given.as_i64()), (Some(a), Some(b)) if a < b);
    if !effective.get(key.as_str()).is_some_and(smaller) {
        effective.insert(key.to_string(), given);
    }
}

/// Where dead letters are sent, and by which rule.
fn dead_letter_to(to: &DeadLetterTo) -> Value {
    json!({
        "exchange": &*to.exchange,
        "routing_key": to.routing_key.as_deref(),
        "rule": &*to.rule.words(),
    })
}

/// Dead letters that entered; deaths, and dead letters that reached a target, by reason; quarantined and dropped messages by
/// reason and cause.
fn dead_letters(counters: &QueueCounters) -> Value {
    let by_cause = |counts: &Drops| -> Vec<Value> {
        let kinds = counts.kinds().iter();
        let kinds = kinds.map(|kind| {
            json!({
                "reason": kind.reason.map(Reason::as_str),
                "cause": kind.cause.as_str(),
                "count": kind.count,
            })
        });
        kinds.collect()
    };
    json!({
        "taken": counters.dead_entered,
        "deaths": by_reason(counters.dead),
        "dead_lettered": by_reason(counters.dead_lettered),
        "quarantined": by_cause(&counters.quarantined),
        "dropped": by_cause(&counters.drops),
    })
}

fn by_reason(counts: ByReason) -> Value {
    json!({
        "rejected": counts.rejected,
        "expired": counts.expired,
        "maxlen": counts.maxlen,
        "delivery_limit": counts.delivery_limit,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Name, Now, Seed};
    use crate::broker::{Command, Core, CoreOptions, Effects, QueueCommand};

    #[test]
    fn numbers_to_sort_by_are_those_of_the_description() {
        let mut core = Core::new(CoreOptions::new(Name::from("v"), Seed(1)));
        let declare = Command::Queue(QueueCommand::Declare {
            connection: None,
            name: Name::from("q"),
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments: Vec::new(),
        });
        core.apply(Now::default(), declare, &mut Effects::new());
        let mut details = core.queue("q").unwrap().details();
        let info = &mut details.info;
        (info.messages_ready, info.messages_unacknowledged) = (3, 4);
        (info.messages_dead_pending, info.ready_bytes) = (5, 6);
        (info.consumer_count, details.memory_bytes) = (8, 9);
        let place = QueueContext {
            node: "node",
            vhost: "v",
            policies: core.policies(),
            rates: &VhostSample::default(),
        };
        let described = queue(place, &details);
        for field in [
            "messages",
            "messages_ready",
            "messages_unacknowledged",
            "messages_dead_pending",
            "message_bytes_ready",
            "consumers",
            "memory",
        ] {
            let number = number(field, &details).unwrap();
            assert_eq!(described[field], json!(number), "{field}");
        }
        details.counters.dead_entered = 10;
        let described = queue(place, &details);
        assert_eq!(number("dead_letters.taken", &details), Some(10));
        assert_eq!(described["dead_letters"]["taken"], json!(10));
        assert_eq!(number("name", &details), None);
    }
}
