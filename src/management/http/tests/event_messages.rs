//! Events as messages: the binary mode of `CloudEvents`.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value as Json, json};

use crate::base::limits::EVENT_ROUTING_KEYS_MAX;
use crate::base::{Name, Position, Timestamp};
use crate::broker::DropCause;
use crate::broker::death_counts::DeathOutcome;
use crate::broker::event::{EventKind, EventMessage, EventTargets, Unwritten, VhostEvent};
use crate::deaths::{Evidence, How, Reason};
use crate::management::http::write_event;
use crate::message::{KeyRule, Message, Route};
use crate::wire::{PropertyField, Value};

/// A death without a history, by a consumer with an error, of a message with these routing keys.
fn death(keys: usize) -> VhostEvent {
    let payload = Bytes::from_static(b"\x00\x53\x75\xa0\x06secret");
    let message = Message::from_transfer(payload, KeyRule::default()).unwrap();
    let name = Name::from("billing");
    let by = Evidence::of_consumer(&name, "in", Some(&name), Some("10.0.3.7:51234"));
    let keys = (0..keys).map(|number| Name::from(format!("key-{number}")));
    let unwritten = Unwritten {
        route: Arc::new(Route {
            exchange: Name::from("orders"),
            keys: keys.collect(),
        }),
        evidence: Some(Arc::new(Evidence {
            how: Some(How::Rejected),
            ..by.with_error("app:schema", Some("no\nprice"), None)
        })),
    };
    VhostEvent {
        number: 17,
        time: Timestamp(1_700_000_000_123),
        queue: Name::from("a/b.c"),
        kind: EventKind::Death {
            reason: Reason::Rejected,
            outcome: Some(DeathOutcome::Dropped(DropCause::NoDeadLetterExchange)),
            targets: EventTargets::default(),
        },
        message: Some(EventMessage {
            position: Position(4),
            age_ms: 12,
            size_bytes: 11,
            message: Some(Arc::new(message)),
            history: None,
            unwritten: Some(unwritten),
        }),
    }
}

fn written(event: &VhostEvent) -> (Message, Json) {
    let message = write_event(&Name::from("/"), 0xab, event).unwrap();
    let body = message.body();
    let at = body.iter().position(|byte| *byte == b'{').unwrap();
    let data = serde_json::from_slice(&body[at..]).unwrap();
    (message, data)
}

#[test]
fn attributes_are_properties_and_the_body_is_the_data() {
    let (message, data) = written(&death(1));
    assert!(message.durable());
    let id = "00000000000000ab-17";
    assert_eq!(
        message.property(PropertyField::MessageId),
        Some(Value::string(id))
    );
    let json = Value::symbol("application/json");
    assert_eq!(message.property(PropertyField::ContentType), Some(json));
    for (name, value) in [
        ("specversion", Value::string("1.0")),
        ("type", Value::string("coroner.death.v1")),
        ("source", Value::string("/vhosts/%2F/queues/a%2Fb.c")),
        ("id", Value::string(id)),
        ("time", Value::Timestamp(1_700_000_000_123)),
    ] {
        let found = message.application_property(&format!("cloudEvents_{name}"));
        assert_eq!(found, Some(value), "{name}");
    }
    assert_eq!(data["queue"], "a/b.c");
    assert_eq!(data["outcome"], "dropped");
    assert_eq!(data["cause"], "no_dead_letter_exchange");
    assert_eq!(data["error"]["description"], "no\nprice");
    assert!(!data.to_string().contains("secret"), "never the body");
}

/// Whoever reads the queue is not known when it is written.
#[test]
fn nobody_is_told_users_and_addresses() {
    let (_, data) = written(&death(1));
    assert_eq!(
        data["by"],
        json!({"how": "rejected", "container": "billing", "link": "in"})
    );
}

#[test]
fn the_first_routing_keys_of_many_are_told() {
    let named = |keys: usize| {
        let (_, data) = written(&death(keys));
        let named = data["routing_keys"].as_array().map(Vec::len);
        (named, data["routing_keys_left_out"].as_u64())
    };
    let most = EVENT_ROUTING_KEYS_MAX;
    assert_eq!(named(most), (Some(most), None));
    assert_eq!(named(most + 3), (Some(most), Some(3)));
}
