//! What a consumer says when it rejects reaches who reads the dead letter, typed. [evidence part 2]

use std::sync::Arc;

use super::support::{Scene, message, receiver};
use crate::base::Position;
use crate::broker::queue::MessageState;
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

fn to_dead() -> [(&'static str, Value); 2] {
    [
        ("x-dead-letter-exchange", Value::string("")),
        ("x-dead-letter-routing-key", Value::string("mine-dead")),
    ]
}

/// The message annotations of a delivery.
fn annotations(payload: &[u8]) -> Value {
    let section = walk(payload).unwrap().message_annotations;
    decode_value(&payload[section.value as usize..]).unwrap().0
}

/// What a user gets of the dead letter who asks for so much.
fn read(scene: &mut Scene, user: &str, level: Option<&str>) -> Value {
    let client = scene.client_as(user, user, None);
    read_with(scene, client, level)
}

fn read_with(scene: &mut Scene, client: usize, level: Option<&str>) -> Value {
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
    scene.queue("work", &to_dead());
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

/// The whole error was ignored for the sake of its condition, and with it all that said why.
#[test]
fn what_a_rejection_describes_is_kept_without_a_condition_and_not_sent_back() {
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("mine-dead", &[]);
    scene.queue("work", &to_dead());
    let publisher = scene.publisher(client, Some("/queues/work"));
    scene.publish(client, publisher, &message(b"m"));
    let worker = scene.consumer(client, "work", 1);
    let (_, delivery_id, _) = scene.deliveries(client).remove(0);
    let error = Error::new("", Some("no price".to_owned()), None);
    let rejected = DeliveryState::Rejected {
        error: Some(Arc::new(error)),
    };
    let engine = &mut scene.clients[client].engine;
    engine.settle_received(worker, delivery_id, &rejected);
    scene.drive();
    let read = read(&mut scene, "guest", None);
    assert_eq!(read.get("x-opt-last-death-condition"), None);
    let description = read.get("x-opt-last-death-description");
    assert_eq!(description, Some(&Value::string("no price")));
}

/// What is said of a death may be longer than a frame: it comes in several.
#[test]
fn all_that_is_said_of_a_death_arrives_in_frames_of_512_bytes() {
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("mine-dead", &[]);
    scene.queue("work", &to_dead());
    let publisher = scene.publisher(client, Some("/queues/work"));
    scene.publish(client, publisher, &message(b"m"));
    let worker = scene.consumer(client, "work", 1);
    let (_, delivery_id, _) = scene.deliveries(client).remove(0);
    let description = "\u{20ac}".repeat(64 * 1024 / 3);
    let error = Error {
        condition: Symbol::from("c".repeat(300)),
        description: Some(description.clone()),
        info: Some(Box::new(
            [(Symbol::from("long"), Value::string("i".repeat(3_000)))]
                .into_iter()
                .collect(),
        )),
    };
    let rejected = DeliveryState::Rejected {
        error: Some(Arc::new(error)),
    };
    let engine = &mut scene.clients[client].engine;
    engine.settle_received(worker, delivery_id, &rejected);
    scene.drive();

    let small = scene.client_with(("guest", "guest"), None, 512);
    let full = read_with(&mut scene, small, Some("full"));
    let unhurried = read(&mut scene, "guest", Some("full"));
    assert!(full.get("x-opt-deaths") == unhurried.get("x-opt-deaths"));
    let condition = Value::symbol("c".repeat(255));
    assert_eq!(full.get("x-opt-last-death-condition"), Some(&condition));
    let Some(Value::String(kept)) = full.get("x-opt-last-death-description") else {
        panic!("{full:?}");
    };
    let beginning = kept.strip_suffix('\u{2026}').expect("it was cut");
    assert!(description.starts_with(beginning) && kept.len() <= 2_048);
    let entry = full.get("x-opt-deaths").unwrap().as_elements().unwrap()[0].clone();
    let info = entry.get("error-info").unwrap();
    assert_eq!(info.get("long"), Some(&Value::string("i".repeat(3_000))));
}

/// One disposition rejects many: each dead letter has the evidence, which is in memory once.
#[test]
fn an_error_on_a_settled_range_is_the_evidence_of_each_message_and_one_allocation() {
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("mine-dead", &[]);
    scene.queue("work", &to_dead());
    let publisher = scene.publisher(client, Some("/queues/work"));
    for _ in 0..100 {
        scene.publish(client, publisher, &message(b"m"));
    }
    let worker = scene.consumer(client, "work", 100);
    let deliveries = scene.deliveries(client);
    assert_eq!(deliveries.len(), 100);
    let error = Error {
        condition: Symbol::from("app:schema"),
        description: Some("no price".to_owned()),
        info: None,
    };
    let rejected = DeliveryState::Rejected {
        error: Some(Arc::new(error)),
    };
    for (_, delivery_id, _) in deliveries {
        let engine = &mut scene.clients[client].engine;
        engine.settle_received(worker, delivery_id, &rejected);
    }
    scene.drive();
    let queue = scene.core.queue("mine-dead").unwrap();
    let mut evidence = Vec::new();
    let mut from = Position(0);
    while let Some(position) = queue.messages.find(MessageState::Ready, from) {
        from = Position(position.0 + 1);
        let slot = queue.messages.slot(position).unwrap();
        let history = slot.message.history().unwrap();
        evidence.push(Arc::clone(history.entries()[0].evidence.as_ref().unwrap()));
    }
    assert_eq!(evidence.len(), 100);
    assert_eq!(evidence[0].condition.as_deref(), Some("app:schema"));
    assert!(evidence.iter().all(|one| Arc::ptr_eq(one, &evidence[0])));
}
