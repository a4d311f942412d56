//! Deliveries, settlements and what comes back.

use super::support::{Scene, message, options, receiver};
use crate::base::Name;
use crate::broker::policy::PolicySpec;
use crate::broker::{Command, Policy, QueueCommand, TopologyCommand};
use crate::gateway::{GatewayOptions, Written};
use crate::link::Event;
use crate::wire::performative::{Attach, DeliveryState, fields};
use crate::wire::{Value, ValueKind, decode_value, walk};

fn fill(scene: &mut Scene, client: usize, queue: &str, count: usize) {
    let link = scene.publisher(client, Some(&format!("/queues/{queue}")));
    for _ in 0..count {
        assert_eq!(
            scene.publish(client, link, &message(b"m")).as_deref(),
            Some("accepted")
        );
    }
}

#[test]
fn unsettled_disposition_is_answered_with_a_settled_one() {
    // [AMQP 2.6.12] and rule 7 of the link engine.
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("q", &[]);
    fill(&mut scene, client, "q", 2);
    let link = scene.consumer(client, "q", 2);
    let got = scene.deliveries(client);
    assert_eq!(got.len(), 2);
    for (_, delivery_id, _) in got {
        let engine = &mut scene.clients[client].engine;
        engine.decide_received(link, delivery_id, &DeliveryState::Accepted);
    }
    scene.drive();
    let settled = |event: &Event| matches!(event, Event::SenderSettled { .. });
    assert!(scene.take(client, settled).is_some());
    assert!(scene.take(client, settled).is_some());
    assert_eq!(scene.counts("q"), (0, 0));
}

#[test]
fn detach_returns_what_was_sent_and_counts_it_as_acquired() {
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("q", &[]);
    fill(&mut scene, client, "q", 1);
    let link = scene.consumer(client, "q", 1);
    assert_eq!(scene.counts("q"), (0, 1));
    scene.clients[client].engine.detach(link, true, None);
    scene.drive();
    assert_eq!(scene.counts("q"), (1, 0));
    scene.deliveries(client);
    scene.consumer(client, "q", 1);
    let (_, _, payload) = scene.deliveries(client).remove(0);
    let text = String::from_utf8_lossy(&payload).into_owned();
    assert!(text.contains("x-acquired-count"), "{text:?}");
}

/// [evidence part 5, poison isolation]
#[test]
fn what_a_lost_connection_held_comes_alone_and_marked_as_suspect() {
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("q", &[]);
    let spec = PolicySpec {
        name: Name::from("p"),
        pattern: "q",
        priority: 0,
        apply_to: "queues",
        definition: vec![(Name::from("poison-isolation"), Value::Bool(true))],
    };
    scene.ask(Command::Topology(TopologyCommand::PolicySet {
        operator: false,
        policy: Box::new(Policy::new(false, spec).unwrap()),
    }));
    fill(&mut scene, client, "q", 2);
    let lost = scene.client();
    scene.consumer(lost, "q", 10);
    assert_eq!(scene.deliveries(lost).len(), 2);
    scene.clients[lost]
        .gateway
        .handle_disconnect(scene.now, Written::All);
    scene.drive();
    assert_eq!(scene.counts("q"), (2, 0));
    let link = scene.consumer(client, "q", 10);
    for _ in 0..2 {
        let got = scene.deliveries(client);
        assert_eq!(got.len(), 1, "each alone");
        let text = String::from_utf8_lossy(&got[0].2).into_owned();
        assert!(text.contains("x-opt-suspect"), "{text:?}");
        let engine = &mut scene.clients[client].engine;
        engine.settle_received(link, got[0].1, &DeliveryState::Accepted);
        scene.drive();
    }
    assert_eq!(scene.counts("q"), (0, 0));
}

#[test]
fn message_that_never_left_comes_back_uncounted() {
    // "What was never written to the socket returns with no count raised"
    let mut scene = Scene::new();
    let (reader, other) = (scene.client(), scene.client());
    scene.queue("q", &[]);
    fill(&mut scene, other, "q", 1);
    scene.clients[reader].blocked = true;
    let owner = &mut scene.clients[reader];
    let link = owner
        .engine
        .attach(owner.session.unwrap(), receiver("r", "/queues/q"))
        .unwrap();
    scene.drive();
    scene.clients[reader].engine.set_credit(link, 1);
    scene.drive();
    assert_eq!(
        scene.counts("q"),
        (0, 1),
        "assigned, and stuck in the gateway"
    );
    scene.clients[reader]
        .gateway
        .handle_disconnect(scene.now, Written::Nothing);
    scene.drive();
    assert_eq!(scene.counts("q"), (1, 0));
    scene.consumer(other, "q", 1);
    let (_, _, payload) = scene.deliveries(other).remove(0);
    let text = String::from_utf8_lossy(&payload).into_owned();
    assert!(
        !text.contains("x-acquired-count") && !text.contains("x-delivery-count"),
        "{text:?}"
    );
}

#[test]
fn peer_that_does_not_read_is_assigned_no_more_than_its_room() {
    let mut scene = Scene::with(GatewayOptions {
        outbox_bytes: 100,
        ..options()
    });
    let (reader, other) = (scene.client(), scene.client());
    scene.queue("q", &[]);
    let link = scene.publisher(other, Some("/queues/q"));
    for _ in 0..50 {
        scene.publish(other, link, &message(&[0; 20]));
    }
    let consumer = scene.consumer(reader, "q", 0);
    scene.clients[reader].blocked = true;
    scene.clients[reader].engine.set_credit(consumer, 1 << 31);
    scene.drive();
    let (ready, held) = scene.counts("q");
    assert!(held <= 10, "{held} are with a peer that does not read");
    assert_eq!(ready + held, 50);
    scene.clients[reader].blocked = false;
    scene.drive();
    assert_eq!(
        scene.counts("q"),
        (0, 50),
        "room comes back with the reading"
    );
}

#[test]
fn message_larger_than_the_consumer_takes_detaches_it_and_stays() {
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("q", &[]);
    fill(&mut scene, client, "q", 1);
    let attach = Attach {
        max_message_size: Some(3),
        ..receiver("r", "/queues/q")
    };
    let (link, result) = scene.attach(client, attach);
    assert_eq!(result, Ok(()));
    scene.clients[client].engine.set_credit(link, 5);
    scene.drive();
    let error = scene.detached(client, link);
    assert_eq!(error.as_deref(), Some("amqp:link:message-size-exceeded"));
    assert_eq!(scene.counts("q"), (1, 0));
}

#[test]
fn drain_delivers_what_is_there_and_uses_up_the_rest() {
    // [AMQP 2.6.7]
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("q", &[]);
    fill(&mut scene, client, "q", 2);
    let link = scene.consumer(client, "q", 0);
    scene.clients[client].engine.drain(link, 5);
    scene.drive();
    assert_eq!(scene.deliveries(client).len(), 2);
    let drained = |event: &Event| matches!(event, Event::SenderFlow { drained: true, .. });
    assert!(scene.take(client, drained).is_some());
    assert_eq!(scene.clients[client].engine.credit(link), 0);
}

/// The simulation of whole brokers found it. A drain used up all credit by deliveries that the peer had
/// not read, and the peer gave new credit; then the answer to the drain was handled and took the new
/// credit away, which the core went on counting. From then on the core assigned, the link had no
/// credit, the message came back and was assigned again, for ever, in one turn of a connection.
#[test]
fn credit_given_while_the_answer_to_a_drain_is_on_its_way_stays() {
    // [AMQP 2.6.7]
    let mut scene = Scene::new();
    let (client, publisher) = (scene.client(), scene.client());
    scene.queue("q", &[]);
    fill(&mut scene, publisher, "q", 1);
    let link = scene.consumer(client, "q", 0);
    scene.clients[client].blocked = true;
    scene.clients[client].engine.drain(link, 1);
    scene.drive();
    scene.clients[client].engine.set_credit(link, 5);
    scene.drive();
    scene.clients[client].blocked = false;
    scene.drive();
    assert_eq!(scene.deliveries(client).len(), 1);
    assert_eq!(scene.clients[client].engine.credit(link), 4, "of five");
    fill(&mut scene, publisher, "q", 2);
    assert_eq!(scene.deliveries(client).len(), 2);
}

#[test]
fn queue_deleted_under_its_consumer_detaches_it() {
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("q", &[]);
    let link = scene.consumer(client, "q", 1);
    scene.ask(Command::Queue(QueueCommand::Delete {
        connection: None,
        name: Name::from("q"),
        if_unused: false,
        if_empty: false,
    }));
    assert_eq!(
        scene.detached(client, link).as_deref(),
        Some("amqp:resource-deleted")
    );
}

#[test]
fn ten_messages_and_two_waiting_consumers_give_five_and_five() {
    let mut scene = Scene::new();
    let (publisher, one, two) = (scene.client(), scene.client(), scene.client());
    scene.queue("q", &[]);
    scene.consumer(one, "q", 10);
    scene.consumer(two, "q", 10);
    fill(&mut scene, publisher, "q", 10);
    assert_eq!(scene.deliveries(one).len(), 5);
    assert_eq!(scene.deliveries(two).len(), 5);
}

#[test]
fn connection_that_fails_with_its_core_is_closed_with_an_internal_error() {
    let mut scene = Scene::new();
    let client = scene.client();
    let now = scene.now;
    scene.clients[client].gateway.fail(now);
    scene.drive();
    let closed = scene.take(client, |event| matches!(event, Event::Closed { .. }));
    let Some(Event::Closed { error }) = closed else {
        panic!("not closed")
    };
    assert_eq!(
        super::support::condition(error.as_deref()),
        "amqp:internal-error"
    );
    assert!(!scene.clients[client].gateway.has_work());
}

/// The kind of `x-opt-deaths` in a delivery, and how many annotations tell of deaths beside it.
fn history_of(payload: &[u8]) -> (Option<ValueKind>, usize) {
    let annotations = walk(payload).unwrap().message_annotations;
    let (value, _) = decode_value(&payload[annotations.value as usize..]).unwrap();
    let Value::Map(pairs) = value else {
        panic!("annotations are a map");
    };
    let named = |name: &str| {
        pairs
            .iter()
            .filter(|(key, _)| key.as_str().is_some_and(|key| key.contains(name)))
            .count()
    };
    let deaths = pairs
        .iter()
        .find(|(key, _)| key.as_str() == Some("x-opt-deaths"));
    let kind = deaths.map(|(_, value)| value.kind());
    (kind, named("x-first-death-") + named("x-last-death-"))
}

#[test]
fn each_receiver_gets_the_history_in_the_form_it_asked_for() {
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("dead", &[]);
    let to_dead = [
        ("x-dead-letter-exchange", Value::String(String::new())),
        (
            "x-dead-letter-routing-key",
            Value::String("dead".to_owned()),
        ),
    ];
    scene.queue("work", &to_dead);
    fill(&mut scene, client, "work", 4);
    let worker = scene.consumer(client, "work", 4);
    for (_, delivery_id, _) in scene.deliveries(client) {
        let engine = &mut scene.clients[client].engine;
        engine.settle_received(
            worker,
            delivery_id,
            &DeliveryState::Rejected { error: None },
        );
    }
    scene.drive();
    assert_eq!(scene.counts("dead"), (4, 0));
    let forms = [
        (None, Some(ValueKind::Array)),
        (Some("array"), Some(ValueKind::Array)),
        (Some("list"), Some(ValueKind::List)),
        (Some("none"), None),
    ];
    for (asked, expect) in forms {
        let properties =
            asked.map(|word| fields([("x-opt-deaths-encoding", Value::String(word.into()))]));
        let attach = Attach {
            properties,
            ..receiver(&format!("reader {asked:?}"), "/queues/dead")
        };
        let (link, result) = scene.attach(client, attach);
        assert_eq!(result, Ok(()), "{asked:?}");
        scene.clients[client].engine.set_credit(link, 1);
        scene.drive();
        let (_, _, payload) = scene.deliveries(client).remove(0);
        assert_eq!(history_of(&payload), (expect, 6), "{asked:?}");
    }
}

/// A client of a RabbitMQ before 4.3 takes `x-delivery-count` for the number of all returns: one that gave
/// up after so many tries went on for ever, since what it released did not count.
#[test]
fn with_rabbitmq_announced_the_delivery_count_of_quorum_queues_counts_every_return() {
    let check = |kind: &str, counts_returns: bool, expect: [bool; 2]| {
        let mut scene = Scene::with(GatewayOptions {
            counts_returns,
            ..options()
        });
        let client = scene.client();
        scene.queue("q", &[("x-queue-type", Value::string(kind))]);
        fill(&mut scene, client, "q", 1);
        let link = scene.consumer(client, "q", 1);
        scene.clients[client].engine.detach(link, true, None);
        scene.drive();
        scene.deliveries(client);
        scene.consumer(client, "q", 1);
        let (_, _, payload) = scene.deliveries(client).remove(0);
        let text = String::from_utf8_lossy(&payload).into_owned();
        let told = ["x-delivery-count", "x-acquired-count"].map(|name| text.contains(name));
        assert_eq!(told, expect, "{kind} {counts_returns}: {text:?}");
    };
    check("quorum", true, [true, true]);
    check("quorum", false, [false, true]);
    check("classic", true, [false, true]);
}

/// An attach with `rabbitmq:consumer-timeout`.
fn timed(timeout: Value) -> Attach {
    Attach {
        properties: Some(fields([("rabbitmq:consumer-timeout", timeout)])),
        ..receiver("timed", "/queues/q")
    }
}

// [AMQP 2.7.6], [AMQP 3.4.4] The sender tells `released` and leaves settling to the receiver.
#[test]
fn delivery_held_for_too_long_is_released_and_the_link_waits_until_it_is_settled() {
    for is_told_first in [true, false] {
        let mut scene = Scene::new();
        let client = scene.client();
        scene.queue("q", &[]);
        fill(&mut scene, client, "q", 2);
        let (link, result) = scene.attach(client, timed(Value::Uint(500)));
        assert_eq!(result, Ok(()));
        scene.clients[client].engine.set_credit(link, 1);
        scene.drive();
        let (_, late, _) = scene.deliveries(client).remove(0);
        scene.pass(499);
        assert_eq!(scene.counts("q"), (1, 1));
        scene.pass(1);
        assert_eq!(scene.counts("q"), (2, 0));
        scene.clients[client].engine.set_credit(link, 5);
        scene.drive();
        assert!(
            scene.deliveries(client).is_empty(),
            "it has to settle first"
        );
        let engine = &mut scene.clients[client].engine;
        if is_told_first {
            engine.decide_received(link, late, &DeliveryState::Accepted);
        } else {
            engine.settle_received(link, late, &DeliveryState::Accepted);
        }
        scene.drive();
        let settled = |event: &Event| matches!(event, Event::SenderSettled { .. });
        assert_eq!(scene.take(client, settled).is_some(), is_told_first);
        assert_eq!(scene.deliveries(client).len(), 2, "accepted too late");
        assert_eq!(scene.counts("q"), (0, 2));
        assert!(scene.detached(client, link).is_none());
    }
}

/// What the broker writes on a timeout, and as the answer to an outcome that comes late.
#[test]
fn released_is_what_a_late_outcome_is_answered_with() {
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("q", &[]);
    fill(&mut scene, client, "q", 1);
    let (link, _) = scene.attach(client, timed(Value::Uint(500)));
    scene.clients[client].engine.set_credit(link, 1);
    scene.drive();
    let (_, late, _) = scene.deliveries(client).remove(0);
    // Role sender, first and no last, settled, state. [AMQP 2.7.6]
    let disposition = |settled: u8| {
        let id = u8::try_from(late.0).unwrap();
        let first = if id == 0 { vec![0x43] } else { vec![0x52, id] };
        [&[0x42][..], &first, &[0x40, settled, 0x00, 0x53, 0x26]].concat()
    };
    let has = |out: &[u8], part: &[u8]| out.windows(part.len()).any(|window| window == part);
    scene.pass(500);
    let out = &scene.clients[client].written;
    assert!(has(out, &disposition(0x42)), "{out:x?}");
    let engine = &mut scene.clients[client].engine;
    engine.decide_received(link, late, &DeliveryState::Accepted);
    scene.drive();
    // The message itself comes behind the answer.
    let out = &scene.clients[client].written;
    assert!(has(out, &disposition(0x41)), "{out:x?}");
}

/// A simulated world found it: what the consumer got next was told to be released, and was its own.
#[test]
fn a_message_that_comes_again_in_the_turn_in_which_it_timed_out_is_not_told_to_be_released() {
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("q", &[]);
    fill(&mut scene, client, "q", 1);
    let (link, _) = scene.attach(client, timed(Value::Uint(500)));
    scene.clients[client].engine.set_credit(link, 5);
    scene.drive();
    let (_, late, _) = scene.deliveries(client).remove(0);
    scene.pass(499);
    // On its way when the time is over.
    let engine = &mut scene.clients[client].engine;
    engine.settle_received(link, late, &DeliveryState::Released);
    scene.pass(1);
    let (_, again, _) = scene.deliveries(client).remove(0);
    let id = u8::try_from(again.0).unwrap();
    let released = [0x42, 0x52, id, 0x40, 0x42, 0x00, 0x53, 0x26];
    let out = &scene.clients[client].written;
    let is_told = out.windows(released.len()).any(|part| part == released);
    assert!(!is_told, "{out:x?}");
    assert_eq!(scene.counts("q"), (0, 1));
}

/// A delivery that waits in the gateway when it times out goes out, and is released behind it.
#[test]
fn delivery_that_timed_out_before_it_left_is_released_when_it_leaves() {
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("q", &[]);
    fill(&mut scene, client, "q", 1);
    let (link, _) = scene.attach(client, timed(Value::Uint(500)));
    scene.clients[client].engine.set_credit(link, 1);
    scene.clients[client].blocked = true;
    scene.drive();
    scene.pass(500);
    assert_eq!(scene.counts("q"), (1, 0));
    scene.clients[client].blocked = false;
    scene.drive();
    let (_, late, _) = scene.deliveries(client).remove(0);
    scene.clients[client].engine.set_credit(link, 1);
    scene.drive();
    assert!(scene.deliveries(client).is_empty());
    let engine = &mut scene.clients[client].engine;
    engine.settle_received(link, late, &DeliveryState::Released);
    scene.drive();
    assert_eq!(scene.deliveries(client).len(), 1);
}

#[test]
fn consumer_timeout_is_a_number_of_milliseconds() {
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("q", &[]);
    for (value, expect) in [
        (Value::Uint(1), None),
        (Value::Int(1), None),
        (Value::Ulong(0), None),
        (Value::Null, None),
        (Value::Int(-1), Some("amqp:invalid-field")),
        (Value::Ulong(1 << 32), Some("amqp:invalid-field")),
        (Value::String("1".to_owned()), Some("amqp:invalid-field")),
    ] {
        let (link, result) = scene.attach(client, timed(value.clone()));
        let refused = result.err();
        assert_eq!(refused.as_deref(), expect, "{value:?}");
        scene.clients[client].engine.detach(link, true, None);
        scene.drive();
    }
}
