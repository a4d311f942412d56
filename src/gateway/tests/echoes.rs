//! Flows that ask for the state of a link. [AMQP 2.7.4 echo]

use super::support::{Scene, message};
use crate::broker::Command;
use crate::gateway::links::LinkKind;
use crate::gateway::work::Work;
use crate::link::{Event, LinkHandle};

/// The broker's handle of a client's only consumer.
fn handle(scene: &Scene, client: usize) -> LinkHandle {
    let mut links = scene.clients[client].gateway.links.iter();
    let consumer = links.find(|link| matches!(link.kind, LinkKind::Consumer(_)));
    consumer.unwrap().handle
}

/// A flow arrives that asks, and nothing is done about it yet.
fn ask(scene: &mut Scene, client: usize, drain: bool) {
    let flow = Event::LinkFlow {
        link: handle(scene, client),
        limit: 0,
        drain,
        echo: true,
    };
    scene.clients[client].gateway.on_link_flow(&flow);
}

/// What was answered: how many messages wait, once for each answer.
fn answers(scene: &mut Scene, client: usize) -> Vec<u32> {
    let mut told = Vec::new();
    scene.clients[client].events.retain(|event| match event {
        Event::SenderFlow { available, .. } => {
            told.push(available.unwrap_or(u32::MAX));
            false
        }
        _ => true,
    });
    told
}

/// A queue with two messages, and a client that consumes from it without credit.
fn scene() -> (Scene, usize) {
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("q", &[]);
    let link = scene.publisher(client, Some("/queues/q"));
    for _ in 0..2 {
        scene.publish(client, link, &message(b"m"));
    }
    scene.consumer(client, "q", 0);
    answers(&mut scene, client);
    (scene, client)
}

#[test]
fn a_flow_that_asks_is_answered_once() {
    let (mut scene, client) = scene();
    for _ in 0..3 {
        ask(&mut scene, client, false);
        scene.drive();
        assert_eq!(answers(&mut scene, client), [2]);
    }
}

/// Each of them made a question for the core and a flow, however fast they came.
#[test]
fn flows_that_ask_before_the_answer_are_answered_together() {
    let (mut scene, client) = scene();
    for _ in 0..5 {
        ask(&mut scene, client, false);
    }
    let work = scene.clients[client].gateway.batch().take_work();
    let is_question = |work: &&Work| matches!(work, Work::Command(Command::ConsumerEcho(..)));
    assert_eq!(work.iter().filter(is_question).count(), 1);
    for work in work {
        scene.clients[client].gateway.batch().push(work);
    }
    scene.drive();
    assert_eq!(answers(&mut scene, client), [2]);
    ask(&mut scene, client, false);
    scene.drive();
    assert_eq!(answers(&mut scene, client), [2], "the next one is another");
}

#[test]
fn a_drain_that_asks_is_answered_when_it_is_done_and_not_besides() {
    let (mut scene, client) = scene();
    ask(&mut scene, client, true);
    scene.drive();
    assert_eq!(answers(&mut scene, client).len(), 1);
}
