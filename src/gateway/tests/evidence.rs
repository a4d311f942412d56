//! What a consumer says when it rejects reaches who reads the dead letter, typed. [evidence part 2]

use std::sync::Arc;

use super::support::{Scene, message, receiver};
use crate::wire::performative::{Attach, DeliveryState, Error, Symbol, fields};
use crate::wire::{Value, decode_value, walk};

/// A value of every kind of `info` that clients send.
fn info() -> Value {
    let field = |name, value| (Value::symbol(name), value);
    Value::Map(vec![
        field("order", Value::Ulong(4711)),
        field("at", Value::Timestamp(1_700_000_000_000)),
        field("ok", Value::Bool(false)),
        field("why", Value::string("no price")),
        field("parts", Value::List(vec![Value::Int(-1), Value::Null])),
    ])
}

/// The message annotations of a delivery.
fn annotations(payload: &[u8]) -> Value {
    let section = walk(payload).unwrap().message_annotations;
    decode_value(&payload[section.value as usize..]).unwrap().0
}

/// What a user gets of the dead letter who asks for so much.
fn read(scene: &mut Scene, user: &str, level: Option<&str>) -> Value {
    let client = scene.client_as(user, user, None);
    let properties =
        level.map(|word| fields([("x-opt-death-evidence", Value::String(word.into()))]));
    let attach = Attach {
        properties,
        ..receiver("reader", "/queues/mine-dead")
    };
    let (link, result) = scene.attach(client, attach);
    assert_eq!(result, Ok(()));
    scene.clients[client].engine.set_credit(link, 1);
    scene.drive();
    let (_, _, payload) = scene.deliveries(client).remove(0);
    scene.clients[client].engine.detach(link, true, None);
    scene.drive();
    annotations(&payload)
}

#[test]
fn an_error_given_with_rejected_is_delivered_as_it_was_and_users_are_named_to_whom_they_may() {
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("mine-dead", &[]);
    let to_dead = [
        ("x-dead-letter-exchange", Value::string("")),
        ("x-dead-letter-routing-key", Value::string("mine-dead")),
    ];
    scene.queue("work", &to_dead);
    let publisher = scene.publisher(client, Some("/queues/work"));
    scene.publish(client, publisher, &message(b"m"));
    let worker = scene.consumer(client, "work", 1);
    let (_, delivery_id, _) = scene.deliveries(client).remove(0);
    let Value::Map(pairs) = info() else {
        panic!("no map")
    };
    let error = Error {
        condition: Symbol::from("app:schema"),
        description: Some("no price".to_owned()),
        info: Some(Box::new(
            pairs
                .into_iter()
                .map(|(key, value)| (Symbol::from(key.as_str().unwrap()), value))
                .collect(),
        )),
    };
    let rejected = DeliveryState::Rejected {
        error: Some(Arc::new(error)),
    };
    let engine = &mut scene.clients[client].engine;
    engine.settle_received(worker, delivery_id, &rejected);
    scene.drive();

    let condition = Value::symbol("app:schema");
    let unasked = read(&mut scene, "guest", None);
    assert_eq!(unasked.get("x-opt-last-death-condition"), Some(&condition));
    assert_eq!(
        unasked.get("x-opt-last-death-description"),
        Some(&Value::string("no price"))
    );
    assert_eq!(unasked.get("x-opt-last-death-by"), None);

    let none = read(&mut scene, "guest", Some("none"));
    assert_eq!(none.get("x-opt-last-death-condition"), None);
    assert_eq!(none.get("x-opt-last-death-description"), None);

    for (user, is_named) in [("guest", true), ("limited", false)] {
        let full = read(&mut scene, user, Some("full"));
        let entry = full.get("x-opt-deaths").unwrap().as_elements().unwrap()[0].clone();
        assert_eq!(entry.get("error-condition"), Some(&condition));
        assert_eq!(entry.get("error-info"), Some(&info()));
        let by = full.get("x-opt-last-death-by").unwrap();
        assert_eq!(entry.get("by"), Some(by));
        assert_eq!(by.get("how"), Some(&Value::symbol("rejected")));
        assert_eq!(by.get("container"), Some(&Value::string("client")));
        assert_eq!(by.get("user").is_some(), is_named, "{user}");
        assert_eq!(by.get("address").is_some(), is_named, "{user}");
    }
}
