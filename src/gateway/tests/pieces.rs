//! What one thing that a peer does may bring about is done in several holds of the core's lock.

use super::support::{Scene, message, receiver};
use crate::base::limits::BATCH_NS_MAX;
use crate::base::{HoldBudget, Name, Step};
use crate::broker::policy::{Policy, PolicySpec};
use crate::broker::{Command, Destination, TopologyCommand};
use crate::wire::Value;
use crate::wire::performative::{Attach, DeliveryState, Source};

/// Does what a client asks for; how many holds that takes, each as long as one may be.
fn holds(scene: &mut Scene, client: usize) -> usize {
    scene.move_out(client);
    let mut holds = 0;
    while scene.clients[client].gateway.has_work() {
        let (now, gateway) = (scene.now, &mut scene.clients[client].gateway);
        let batch = gateway.batch();
        batch.apply(
            now,
            &mut scene.core,
            &mut scene.effects,
            HoldBudget::default(),
        );
        let spent_ns = scene.effects.meter.spent_ns();
        assert!(spent_ns <= 2 * BATCH_NS_MAX, "{spent_ns} ns in one hold");
        gateway.handle_answers(now);
        holds += 1;
    }
    holds
}

fn ttl(index: u64) -> Vec<(Name, Value)> {
    vec![(Name::from("message-ttl"), Value::Ulong(index))]
}

/// All policies were matched with the name under one hold.
#[test]
fn the_queue_of_a_dynamic_node_takes_policies_that_are_matched_in_several_holds() {
    let mut scene = Scene::new();
    let client = scene.client();
    for index in 1..=200_u32 {
        let spec = PolicySpec {
            name: Name::from(format!("p{index:03}")),
            pattern: "(?!y)([a-z0-9.-]+)+$",
            priority: index.into(),
            apply_to: "queues",
            definition: ttl(index.into()),
        };
        let (operator, policy) = (false, Box::new(Policy::new(false, spec).unwrap()));
        scene.ask(Command::Topology(TopologyCommand::PolicySet {
            operator,
            policy,
        }));
    }
    let session = scene.clients[client].session.unwrap();
    let attach = Attach {
        source: Some(Box::new(Source {
            dynamic: true,
            ..Source::default()
        })),
        ..receiver("temporary", "")
    };
    let engine = &mut scene.clients[client].engine;
    engine.attach(session, attach).unwrap();
    let holds = holds(&mut scene, client);
    assert!(holds >= 8, "{holds}");
    let queue = scene.core.queues().next().unwrap();
    assert_eq!(queue.settings.message_ttl_ms, Some(200));
    assert_eq!(queue.consumers.len(), 1);
}

/// A simulated world found it: deliveries that arrived between two holds were given back behind their
/// consumer's end. They came back as if they had been sent, and the window of the session shrank for good.
#[test]
fn what_is_assigned_to_a_link_that_is_gone_returns_before_its_consumer_is_forgotten() {
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("q", &[("x-queue-type", Value::string("quorum"))]);
    let publisher = scene.publisher(client, Some("/queues/q"));
    for body in [b"a", b"b", b"c"] {
        scene.publish(client, publisher, &message(body));
    }
    let link = scene.consumer(client, "q", 0);
    scene.hold.commands = 1;
    let engine = &mut scene.clients[client].engine;
    engine.set_credit(link, 3);
    engine.detach(link, true, None);
    scene.drive();
    assert_eq!(scene.counts("q"), (3, 0));
    assert_eq!(scene.deliveries(client), []);
    scene.consumer(client, "q", 3);
    let delivered = scene.deliveries(client);
    assert_eq!(delivered.len(), 3);
    for (_, _, payload) in delivered {
        let text = String::from_utf8_lossy(&payload);
        assert!(!text.contains("x-acquired-count"), "{text}");
    }
}

/// A run of 64 settlements was one command, though each may enter as many queues as there are.
#[test]
fn messages_that_are_rejected_together_die_in_several_holds_if_they_go_far() {
    const QUEUES: u64 = 200;
    let mut scene = Scene::new();
    let client = scene.client();
    scene.exchange("fan", false);
    for index in 0..QUEUES {
        let name = format!("t{index}");
        scene.queue(&name, &[]);
        scene.ask(Command::Topology(TopologyCommand::Bind {
            connection: None,
            source: Name::from("fan"),
            destination: Destination::Queue(Name::from(&*name)),
            key: Name::from(""),
            arguments: Vec::new(),
        }));
    }
    scene.queue("d", &[("x-dead-letter-exchange", Value::string("fan"))]);
    let out = scene.publisher(client, Some("/queues/d"));
    for _ in 0..60 {
        scene.publish(client, out, &message(b"m"));
    }
    let link = scene.consumer(client, "d", 60);
    let got = scene.deliveries(client);
    assert_eq!(got.len(), 60);
    for (_, delivery_id, _) in got {
        let engine = &mut scene.clients[client].engine;
        engine.settle_received(link, delivery_id, &DeliveryState::Rejected { error: None });
    }
    let holds = holds(&mut scene, client);
    let least = 60 * QUEUES * Step::Entry.ns() / (2 * BATCH_NS_MAX);
    assert!(holds as u64 >= least, "{holds}, not {least}");
    assert_eq!(scene.counts("t199"), (60, 0));
    assert_eq!(scene.counts("d"), (0, 0));
}

/// All that was on its way to a consumer returned under one hold when its link went.
#[test]
fn what_was_not_sent_returns_in_several_holds_when_its_consumer_goes() {
    let mut scene = Scene::new();
    let (reader, other) = (scene.client(), scene.client());
    scene.queue("q", &[]);
    let out = scene.publisher(other, Some("/queues/q"));
    for _ in 0..400 {
        scene.publish(other, out, &message(b"m"));
    }
    scene.clients[reader].blocked = true;
    let owner = &mut scene.clients[reader];
    let session = owner.session.unwrap();
    let link = owner
        .engine
        .attach(session, receiver("r", "/queues/q"))
        .unwrap();
    scene.drive();
    scene.clients[reader].engine.set_credit(link, 400);
    scene.drive();
    while scene.core.has_work() {
        scene.core.tick(scene.now, 256, &mut scene.effects);
    }
    assert_eq!(scene.counts("q"), (0, 400));
    scene.clients[reader].engine.detach(link, true, None);
    let holds = holds(&mut scene, reader);
    assert!(holds >= 2, "{holds}");
    assert_eq!(scene.counts("q"), (400, 0));
    assert!(scene.core.queue("q").unwrap().consumers.is_empty());
}
