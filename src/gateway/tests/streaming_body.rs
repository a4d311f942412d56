//! Large durable messages: streamed to the journal, named by their publish, read back in pieces.

use std::sync::Arc;

use rstest::rstest;

use super::support::{BodyStore, Scene, message, section};
use crate::base::{Lsn, Name};
use crate::broker::{Command, Destination, QueueCommand, TopologyCommand, UpkeepCommand};
use crate::gateway::Written;
use crate::store::PIECE_BYTES_MAX;
use crate::wire::Value;
use crate::wire::performative::DeliveryState;

/// Header durable, a property, and data of so many bytes.
fn large(bytes: usize) -> Vec<u8> {
    let mut out = section(0x70, &Value::List(vec![Value::Bool(true)]));
    out.extend(section(0x73, &Value::List(vec![Value::string("id")])));
    out.extend(data(bytes));
    out
}

fn data(bytes: usize) -> Vec<u8> {
    let bytes: Vec<u8> = (0..bytes)
        .map(|at| u8::try_from(at % 251).unwrap())
        .collect();
    message(&bytes)
}

/// A message as it is delivered, without what the broker writes in front.
fn bare(sent: &[u8]) -> &[u8] {
    let header = section(0x70, &Value::List(vec![Value::Bool(true)]));
    sent.strip_prefix(&header[..]).unwrap()
}

/// Bodies that are whole, and all that was let go by gateways.
fn bodies(body_store: &BodyStore) -> Vec<Lsn> {
    let names = body_store.names().into_iter();
    let stored = body_store.look();
    let all = names.zip(&stored.appended);
    all.filter_map(|(name, (pieces, _))| pieces.is_some().then_some(name))
        .collect()
}

#[test]
fn a_large_durable_message_is_named_by_its_publish_and_delivered_as_it_came() {
    let (mut scene, body_store) = Scene::with_body_store();
    let (publisher, consumer) = (scene.client(), scene.client());
    scene.queue("q", &[]);
    let link = scene.publisher(publisher, Some("/queues/q"));
    let sent = large(3 * PIECE_BYTES_MAX);
    let outcome = scene.publish(publisher, link, &sent);
    assert_eq!(outcome.as_deref(), Some("accepted"));
    let pieces: Vec<usize> = {
        let stored = body_store.look();
        stored
            .appended
            .iter()
            .map(|(_, bytes)| bytes.len())
            .collect()
    };
    assert_eq!(pieces[..3], [PIECE_BYTES_MAX; 3]);
    assert_eq!(pieces.iter().sum::<usize>(), bare(&sent).len());
    let memory = scene.core.memory();
    assert!(memory.resident.bytes < 100, "only the head is in memory");

    let inbound = scene.consumer(consumer, "q", 2);
    let delivered = scene.deliveries(consumer);
    let (_, id, payload) = &delivered[0];
    assert!(payload.ends_with(bare(&sent)), "all of it comes back");
    let small = large(10);
    scene.publish(publisher, link, &small);
    let (_, _, behind) = &scene.deliveries(consumer)[0];
    assert!(behind.ends_with(bare(&small)), "what comes behind it too");
    assert_eq!(scene.released, []);
    scene.clients[consumer]
        .engine
        .settle_received(inbound, *id, &DeliveryState::Accepted);
    scene.drive();
    assert!(
        scene.released.contains(&bodies(&body_store)[0]),
        "{:?}",
        scene.released
    );
    assert_eq!(body_store.released(), []);
    assert_eq!(scene.core.memory().resident.messages, 1);
}

#[rstest]
#[case::not_durable(data(600_000))]
#[case::small(large(200_000))]
#[case::text(section(0x77, &Value::String("t".repeat(600_000))))]
fn other_messages_stay_in_memory_and_are_delivered_as_they_came(#[case] sent: Vec<u8>) {
    let (mut scene, body_store) = Scene::with_body_store();
    let client = scene.client();
    scene.queue("q", &[]);
    let link = scene.publisher(client, Some("/queues/q"));
    let outcome = scene.publish(client, link, &sent);
    assert_eq!(outcome.as_deref(), Some("accepted"));
    assert_eq!(body_store.look().appended.len(), 0);
    let header = section(0x70, &Value::List(vec![Value::Bool(true)]));
    let bare = sent.strip_prefix(&header[..]).unwrap_or(&sent);
    scene.consumer(client, "q", 1);
    let (_, _, payload) = scene.deliveries(client).remove(0);
    assert!(payload.ends_with(bare));
}

#[test]
fn a_large_durable_message_of_text_is_put_there_once_it_is_whole() {
    let (mut scene, body_store) = Scene::with_body_store();
    let client = scene.client();
    scene.queue("q", &[]);
    let link = scene.publisher(client, Some("/queues/q"));
    let mut sent = section(0x70, &Value::List(vec![Value::Bool(true)]));
    let annotations = Value::Map(vec![(Value::symbol("x-opt-a"), Value::string("b"))]);
    sent.extend(section(0x72, &annotations));
    let text = section(0x77, &Value::String("t".repeat(600_000)));
    sent.extend_from_slice(&text);
    scene.publish(client, link, &sent);
    assert_eq!(body_store.look().appended.len(), 3);
    assert!(scene.core.memory().resident.bytes < 100);
    scene.consumer(client, "q", 1);
    let (_, _, payload) = scene.deliveries(client).remove(0);
    let head = payload
        .strip_suffix(&text[..])
        .expect("all of it comes back");
    assert!(head.windows(7).any(|part| part == b"x-opt-a"));
}

#[test]
fn what_goes_nowhere_is_let_go() {
    let sent = large(600_000);
    for (address, expect) in [
        (Some("/queues/q"), "rejected amqp:resource-limit-exceeded"),
        (Some("/exchanges/amq.fanout"), "released"),
        (None, "rejected amqp:precondition-failed"),
    ] {
        let (mut scene, body_store) = Scene::with_body_store();
        let client = scene.client();
        let full = [
            ("x-max-length", Value::Long(0)),
            ("x-overflow", Value::string("reject-publish")),
        ];
        scene.queue("q", &full);
        let link = scene.publisher(client, address);
        assert_eq!(scene.publish(client, link, &sent).as_deref(), Some(expect));
        let mut released = body_store.released();
        released.append(&mut scene.released);
        assert_eq!(released, bodies(&body_store), "{address:?}");
    }
}

#[test]
fn what_is_no_message_after_all_is_let_go() {
    let (mut scene, body_store) = Scene::with_body_store();
    let client = scene.client();
    scene.queue("q", &[]);
    let link = scene.publisher(client, Some("/queues/q"));
    let mut sent = large(600_000);
    sent.extend_from_slice(&[0xff; 80]);
    assert_eq!(scene.publish(client, link, &sent), None);
    let condition = scene.detached(client, link);
    assert_eq!(condition.as_deref(), Some("amqp:decode-error"));
    assert_eq!(body_store.released(), body_store.names());
    assert_eq!(scene.counts("q"), (0, 0));
}

/// A client in the middle of sending a large message; perhaps it consumes as well.
fn in_the_middle(consumes: bool) -> (Scene, Arc<BodyStore>, usize) {
    let (mut scene, body_store) = Scene::with_body_store();
    let client = scene.client();
    scene.queue("q", &[]);
    if consumes {
        scene.consumer(client, "q", 1);
    }
    let link = scene.publisher(client, Some("/queues/q"));
    scene.send(client, link, &large(16 * PIECE_BYTES_MAX));
    for _ in 0..4 {
        scene.turn(client);
    }
    assert!(body_store.look().appended.len() > 2);
    assert_eq!(bodies(&body_store), []);
    (scene, body_store, client)
}

#[test]
fn pieces_of_a_message_whose_end_never_comes_are_let_go() {
    let (mut scene, body_store, client) = in_the_middle(false);
    scene.clients[client]
        .gateway
        .handle_disconnect(scene.now, Written::All);
    scene.turn(client);
    scene.clients.clear();
    assert_eq!(body_store.released(), body_store.names());
}

#[test]
fn a_body_whose_publish_never_reaches_the_core_is_let_go() {
    let (mut scene, body_store, client) = in_the_middle(false);
    for _ in 0..30 {
        scene.move_out(client);
    }
    assert_eq!(bodies(&body_store).len(), 1);
    assert!(scene.clients[client].gateway.has_work());
    scene.clients[client].gateway.fail(scene.now);
    assert_eq!(body_store.released(), bodies(&body_store));
}

#[test]
fn nothing_is_read_while_the_disk_is_behind() {
    let (mut scene, _, client) = in_the_middle(false);
    scene.durable = Lsn(0);
    for _ in 0..3 {
        scene.turn(client);
    }
    let gateway = &scene.clients[client].gateway;
    assert!(gateway.is_streaming_beyond_disk());
    assert!(
        gateway.awaits().is_some(),
        "it is told when the disk has caught up"
    );
    scene.durable = Lsn(u64::MAX);
    scene.drive();
    assert!(!scene.clients[client].gateway.is_streaming_beyond_disk());
    assert_eq!(scene.outcome(client).as_deref(), Some("accepted"));
}

#[test]
fn a_full_disk_ends_bodies_streamed_by_a_connection_that_consumes() {
    for consumes in [false, true] {
        let (mut scene, body_store, client) = in_the_middle(consumes);
        body_store.look().is_short = true;
        scene.tell(Command::Upkeep(UpkeepCommand::Alarm { raised: true }));
        let gateway = &scene.clients[client].gateway;
        assert_eq!(gateway.is_streaming_in_alarm(), !consumes);
        assert_eq!(body_store.released().is_empty(), !consumes);
    }
}

#[test]
fn a_body_in_two_queues_is_let_go_with_the_last() {
    let (mut scene, body_store) = Scene::with_body_store();
    let (publisher, consumer) = (scene.client(), scene.client());
    scene.exchange("x", false);
    for (name, durable) in [("a", true), ("b", false)] {
        scene.ask(Command::Queue(QueueCommand::Declare {
            connection: None,
            name: Name::from(name),
            durable,
            exclusive: false,
            auto_delete: false,
            arguments: Vec::new(),
        }));
        scene.ask(Command::Topology(TopologyCommand::Bind {
            connection: None,
            source: Name::from("x"),
            destination: Destination::Queue(Name::from(name)),
            key: Name::from(""),
            arguments: Vec::new(),
        }));
    }
    let link = scene.publisher(publisher, Some("/exchanges/x"));
    let sent = large(600_000);
    assert_eq!(
        scene.publish(publisher, link, &sent).as_deref(),
        Some("accepted")
    );
    let body = bodies(&body_store)[0];
    for (queue, expect) in [("a", false), ("b", true)] {
        let inbound = scene.consumer(consumer, queue, 1);
        let (_, id, payload) = scene.deliveries(consumer).remove(0);
        assert!(payload.ends_with(bare(&sent)), "{queue}");
        let accepted = DeliveryState::Accepted;
        scene.clients[consumer]
            .engine
            .settle_received(inbound, id, &accepted);
        scene.drive();
        assert_eq!(scene.released.contains(&body), expect, "{queue}");
    }
}

#[test]
fn a_message_that_cannot_be_read_back_is_dropped() {
    let (mut scene, body_store) = Scene::with_body_store();
    let client = scene.client();
    scene.queue("q", &[]);
    let link = scene.publisher(client, Some("/queues/q"));
    scene.publish(client, link, &large(600_000));
    scene.body_store = None;
    let inbound = scene.consumer(client, "q", 1);
    assert_eq!(
        scene.detached(client, inbound).as_deref(),
        Some("amqp:internal-error")
    );
    assert_eq!(scene.counts("q"), (0, 0));
    assert!(scene.released.contains(&bodies(&body_store)[0]));
}
