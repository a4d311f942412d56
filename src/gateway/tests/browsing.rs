//! Receivers that only want to look: distribution-mode copy. [AMQP 3.5.7]

use super::support::{Scene, message, receiver};
use crate::access::Permissions;
use crate::base::Name;
use crate::broker::registry::{DEFAULT_VHOST, RegistryFact};
use crate::link::{Event, LinkHandle};
use crate::wire::performative::{
    Attach, DeliveryState, DistributionMode, SenderSettleMode, Value, fields,
};

/// An attach that asks for copies of what is in `q`.
fn browsing(name: &str) -> Attach {
    let mut attach = receiver(name, "/queues/q");
    if let Some(source) = &mut attach.source {
        source.distribution_mode = Some(DistributionMode::Copy);
    }
    attach
}

/// A scene with a client and messages of these bodies in `q`.
fn scene(bodies: &[&[u8]]) -> (Scene, usize) {
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("q", &[]);
    let publisher = scene.publisher(client, Some("/queues/q"));
    for body in bodies {
        scene.publish(client, publisher, &message(body));
    }
    (scene, client)
}

fn browser(scene: &mut Scene, client: usize, attach: Attach) -> LinkHandle {
    let (link, result) = scene.attach(client, attach);
    assert_eq!(result, Ok(()));
    link
}

fn count(scene: &mut Scene, client: usize) -> usize {
    scene.deliveries(client).len()
}

// [AMQP 3.5.7, 2.6.7] JMS `QueueBrowser` and `cli-proton --recv-browse` end like this.
#[test]
fn copies_come_until_the_drain_is_answered_and_the_messages_stay() {
    let (mut scene, client) = scene(&[b"a", b"b", b"c"]);
    let link = browser(&mut scene, client, browsing("b"));
    let answer = scene.take(client, |event| match event {
        Event::AttachAnswered { link: of, .. } => *of == link,
        _ => false,
    });
    let Some(Event::AttachAnswered { attach, .. }) = answer else {
        panic!("{answer:?}");
    };
    let mode = attach
        .source
        .as_ref()
        .and_then(|it| it.distribution_mode.as_ref());
    assert_eq!(
        mode,
        Some(&DistributionMode::Copy),
        "it is kept, so it is repeated"
    );
    scene.clients[client].engine.set_credit(link, 2);
    scene.drive();
    assert_eq!(count(&mut scene, client), 2);
    scene.clients[client].engine.drain(link, 10);
    scene.drive();
    let rest = scene.deliveries(client);
    assert_eq!(rest.len(), 1);
    assert!(rest[0].2.ends_with(b"c"));
    let drained = |event: &Event| matches!(event, Event::SenderFlow { link: of, drained: true, .. } if *of == link);
    assert!(scene.take(client, drained).is_some(), "the end is told");
    assert_eq!(scene.counts("q"), (3, 0));
    scene.clients[client].engine.detach(link, true, None);
    scene.drive();
    assert_eq!(scene.counts("q"), (3, 0));
    scene.consumer(client, "q", 10);
    let payloads = scene.deliveries(client);
    let told = |payload: &[u8], key: &str| String::from_utf8_lossy(payload).contains(key);
    assert_eq!(payloads.len(), 3);
    for (_, _, payload) in payloads {
        assert!(!told(&payload, "x-acquired-count") && !told(&payload, "x-delivery-count"));
    }
}

// [AMQP 2.6.12, 3.4] Each is settled, and none has an effect on the message.
#[test]
fn outcomes_are_settled_and_change_nothing() {
    let (mut scene, client) = scene(&[b"a", b"b", b"c", b"d"]);
    let link = browser(&mut scene, client, browsing("b"));
    scene.clients[client].engine.set_credit(link, 10);
    scene.drive();
    let modified = DeliveryState::Modified {
        delivery_failed: Some(true),
        undeliverable_here: Some(true),
        message_annotations: None,
    };
    let states = [
        DeliveryState::Accepted,
        DeliveryState::Rejected { error: None },
        modified,
        DeliveryState::Released,
    ];
    for ((_, delivery_id, _), state) in scene.deliveries(client).into_iter().zip(states) {
        let engine = &mut scene.clients[client].engine;
        engine.decide_received(link, delivery_id, &state);
        scene.drive();
        let settled = |event: &Event| match event {
            Event::SenderSettled {
                delivery_id: id, ..
            } => *id == delivery_id,
            _ => false,
        };
        assert!(scene.take(client, settled).is_some(), "{state:?}");
    }
    assert_eq!(scene.counts("q"), (4, 0));
}

#[test]
fn copies_that_are_settled_when_sent_remove_nothing() {
    let (mut scene, client) = scene(&[b"a", b"b"]);
    let attach = Attach {
        snd_settle_mode: SenderSettleMode::Settled,
        ..browsing("b")
    };
    let link = browser(&mut scene, client, attach);
    scene.clients[client].engine.set_credit(link, 10);
    scene.drive();
    assert_eq!(count(&mut scene, client), 2);
    scene.drive();
    assert_eq!(scene.counts("q"), (2, 0));
}

// A peer that loses its connection with copies on their way takes nothing with it.
#[test]
fn a_connection_that_breaks_takes_nothing_with_it() {
    let (mut scene, other) = scene(&[b"a", b"b"]);
    let reader = scene.client();
    for (name, mode) in [
        ("u", SenderSettleMode::Mixed),
        ("s", SenderSettleMode::Settled),
    ] {
        let attach = Attach {
            snd_settle_mode: mode,
            ..browsing(name)
        };
        let link = browser(&mut scene, reader, attach);
        scene.clients[reader].blocked = true;
        scene.clients[reader].engine.set_credit(link, 1);
        scene.drive();
        scene.clients[reader].blocked = false;
    }
    scene.clients[reader]
        .gateway
        .handle_disconnect(scene.now, crate::gateway::Written::Part);
    scene.drive();
    assert_eq!(scene.counts("q"), (2, 0));
    scene.consumer(other, "q", 10);
    assert_eq!(count(&mut scene, other), 2);
}

#[test]
fn looking_needs_the_right_to_read_and_takes_no_queue_for_itself() {
    let (mut scene, client) = scene(&[b"a"]);
    let alone = Attach {
        properties: Some(fields([("exclusive", Value::Bool(true))])),
        ..browsing("alone")
    };
    let (_, refused) = scene.attach(client, alone);
    assert_eq!(refused, Err("amqp:invalid-field".to_owned()));
    // Beside a consumer that has the queue for itself.
    let alone = Attach {
        properties: Some(fields([("exclusive", Value::Bool(true))])),
        ..receiver("alone", "/queues/q")
    };
    let (_, accepted) = scene.attach(client, alone);
    assert_eq!(accepted, Ok(()));
    browser(&mut scene, client, browsing("b"));
    let permissions = Permissions::new(".*", ".*", "^other$").unwrap();
    scene
        .environment
        .change_registry([RegistryFact::PermissionsSet {
            vhost: Name::from(DEFAULT_VHOST),
            user: Name::from("limited"),
            permissions,
        }]);
    let limited = scene.client_as("limited", "limited", None);
    let (_, refused) = scene.attach(limited, browsing("b"));
    assert_eq!(refused, Err("amqp:unauthorized-access".to_owned()));
}

#[test]
fn a_queue_that_goes_ends_its_browsers() {
    let (mut scene, client) = scene(&[b"a"]);
    let link = browser(&mut scene, client, browsing("b"));
    scene.ask(crate::broker::Command::Queue(
        crate::broker::QueueCommand::Delete {
            connection: None,
            name: Name::from("q"),
            if_unused: true,
            if_empty: false,
        },
    ));
    scene.drive();
    assert_eq!(
        scene.detached(client, link).as_deref(),
        Some("amqp:resource-deleted")
    );
}
