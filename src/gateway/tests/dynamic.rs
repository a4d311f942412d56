//! Temporary queues. [AMQP 3.5.3, 3.5.4]

use rstest::rstest;

use super::support::{Scene, message, options, receiver, sender};
use crate::base::Name;
use crate::broker::{Command, QueueCommand, Reply};
use crate::gateway::GatewayOptions;
use crate::link::{Event, LinkHandle};
use crate::wire::performative::{Attach, Source, Symbol, Target, TargetArchetype, Value, fields};

fn dynamic_receiver(source: Source) -> Attach {
    Attach {
        source: Some(Box::new(Source {
            dynamic: true,
            ..source
        })),
        ..receiver("temporary", "")
    }
}

fn dynamic_sender() -> Attach {
    let target = Target {
        dynamic: true,
        ..Target::default()
    };
    Attach {
        target: Some(Box::new(TargetArchetype::Target(target))),
        ..sender("temporary", None)
    }
}

/// Attaches a link with a dynamic terminus: its handle, the address it was told, the queue's name.
fn open(scene: &mut Scene, client: usize, attach: Attach) -> (LinkHandle, String, Name) {
    let (link, result) = scene.attach(client, attach);
    assert_eq!(result, Ok(()));
    let attached = scene.take(client, |event| match event {
        Event::AttachAnswered { link: other, .. } => *other == link,
        _ => false,
    });
    let Some(Event::AttachAnswered { attach, .. }) = attached else {
        panic!("no answer to the attach");
    };
    let source = attach.source.as_deref().filter(|source| source.dynamic);
    let address = match (source, attach.target.as_deref()) {
        (Some(source), _) => source.address.clone(),
        (None, Some(TargetArchetype::Target(target))) => target.address.clone(),
        _ => None,
    };
    let address = address.unwrap();
    let queue = Name::from(address.strip_prefix("/queues/").unwrap());
    (link, address, queue)
}

fn exists(scene: &mut Scene, queue: &Name) -> bool {
    let name = queue.clone();
    matches!(
        scene.ask(Command::Queue(QueueCommand::Get { name })),
        Reply::Queue(_)
    )
}

#[test]
fn a_dynamic_source_is_a_queue_that_others_publish_to() {
    let mut scene = Scene::new();
    let (asks, answers) = (scene.client(), scene.client());
    let (link, address, queue) = open(&mut scene, asks, dynamic_receiver(Source::default()));
    scene.clients[asks].engine.set_credit(link, 10);
    scene.drive();
    let publisher = scene.publisher(answers, Some(&address));
    let outcome = scene.publish(answers, publisher, &message(b"answer"));
    assert_eq!(outcome.as_deref(), Some("accepted"));
    assert_eq!(scene.deliveries(asks).len(), 1);
    let (_, stolen) = scene.attach(answers, receiver("thief", &address));
    assert_eq!(stolen, Err("amqp:resource-locked".to_owned()));
    assert!(exists(&mut scene, &queue));
}

#[test]
fn a_dynamic_target_is_a_queue_that_its_connection_reads() {
    let mut scene = Scene::new();
    let client = scene.client();
    let (link, _, queue) = open(&mut scene, client, dynamic_sender());
    let outcome = scene.publish(client, link, &message(b"note"));
    assert_eq!(outcome.as_deref(), Some("accepted"));
    let reader = scene.consumer(client, &queue, 10);
    assert_eq!(scene.deliveries(client).len(), 1);
    scene.clients[client].engine.detach(link, true, None);
    scene.drive();
    let ended = scene.detached(client, reader);
    assert_eq!(ended.as_deref(), Some("amqp:resource-deleted"));
}

#[rstest]
#[case::link("link")]
#[case::session("session")]
#[case::connection("connection")]
fn a_temporary_queue_goes_with_its(#[case] what: &str) {
    for attach in [dynamic_receiver(Source::default()), dynamic_sender()] {
        let mut scene = Scene::new();
        let client = scene.client();
        let (link, _, queue) = open(&mut scene, client, attach);
        let session = scene.clients[client].session.unwrap();
        let now = scene.now;
        let engine = &mut scene.clients[client].engine;
        match what {
            "link" => engine.detach(link, true, None),
            "session" => engine.end(session, None),
            _ => engine.close(now, None),
        }
        scene.drive();
        assert!(!exists(&mut scene, &queue), "{what}");
    }
}

#[test]
fn every_temporary_queue_has_a_name_of_its_own() {
    let mut scene = Scene::new();
    let client = scene.client();
    let (_, first, _) = open(&mut scene, client, dynamic_receiver(Source::default()));
    let (_, second, _) = open(&mut scene, client, dynamic_sender());
    assert_ne!(first, second);
}

#[test]
fn what_no_temporary_queue_can_be_is_refused() {
    let policy = Value::String("for ever".to_owned());
    let topic = vec![Symbol::from("temporary-topic")];
    let cases = [
        (
            "a lifetime of its own",
            Source {
                dynamic_node_properties: Some(fields([("lifetime-policy", policy)])),
                ..Source::default()
            },
            "amqp:not-implemented",
        ),
        (
            "a topic, without subscriptions",
            Source {
                capabilities: Some(topic),
                ..Source::default()
            },
            "amqp:not-implemented",
        ),
        (
            "an address of the peer's choice",
            Source {
                address: Some("/queues/mine".to_owned()),
                ..Source::default()
            },
            "amqp:invalid-field",
        ),
    ];
    for (what, source, condition) in cases {
        let mut scene = Scene::with(GatewayOptions {
            subscriptions: false,
            ..options()
        });
        let client = scene.client();
        let (_, result) = scene.attach(client, dynamic_receiver(source));
        assert_eq!(result, Err(condition.to_owned()), "{what}");
    }
}
