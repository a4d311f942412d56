//! Publishers' links on the anonymous terminus that outlive their connection, and links whose attach fails
//! though the gateway accepted it. [anonterm 1.0, AMQP 2.6.3, 3.5.6]

use std::collections::BTreeMap;

use super::super::support::{addressed, receiver, sender};
use super::world::{World, lasting, lifetime, told, transfer, unsettled};
use crate::base::Name;
use crate::broker::{Command, QueueCommand, Reply};
use crate::wire::performative::{
    Attach, DeliveryState, Error, Handle, Performative, Source, Symbol, Target, TargetArchetype,
    Transfer, Value, fields,
};

/// The attach of a durable publisher that names the address in each message, with these deliveries unsettled.
fn anonymous(outcomes: Option<&[&str]>, tags: &[&[u8]]) -> Attach {
    let mut attach = lasting(Some("never"), 60, tags);
    if let Some(TargetArchetype::Target(target)) = attach.target.as_deref_mut() {
        (target.address, target.durable) = (None, 2);
    }
    let outcomes = outcomes.map(|names| names.iter().copied().map(Symbol::from).collect());
    attach.source = Some(Box::new(Source {
        outcomes,
        ..Source::default()
    }));
    attach
}

/// The error of the next detach.
fn end_of(world: &mut World, line: usize) -> Error {
    let got = &mut world.lines[line].got;
    let at = got
        .iter()
        .position(|it| matches!(it, Performative::Detach(_)));
    match at.and_then(|at| got.remove(at)) {
        Some(Performative::Detach(detach)) if detach.closed => detach.error.unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_anonymous_publisher_gets_the_outcomes_that_its_line_lost() {
    let mut world = World::new();
    let first = world.line("c");
    let answer = world.attach(first, &anonymous(None, &[]));
    assert_eq!(lifetime(&answer), told("connection-close", 86_400));
    for (id, tag, to) in [
        (0, b"a", "/queues/q"),
        (1, b"b", "/exchanges/nosuch/k"),
        (2, b"c", "/queues/"),
    ] {
        let message = addressed(Some(to), None);
        world.part(first, &transfer(id, tag), &message);
    }
    world.cut(first);
    let second = world.line("c");
    let answer = world.attach(second, &anonymous(None, &[b"a", b"b", b"c"]));
    let known = unsettled(&answer);
    assert_eq!(known[&b"a"[..]], Some(DeliveryState::Accepted));
    for tag in [b"b", b"c"] {
        let state = &known[&tag[..]];
        assert!(matches!(state, Some(DeliveryState::Rejected { .. })));
    }
    assert_eq!(world.ready(), 1);
}

/// What ends the link is no outcome: its publisher is not told later that the message is settled, and the
/// broker keeps nothing of it. [anonterm 1.0, Routing Errors]
#[test]
fn a_message_that_ends_its_link_is_named_and_not_kept_for_who_attaches_it_again() {
    let taken = ["amqp:accepted:list", "amqp:released:list"];
    for (to, condition) in [
        ("/exchanges/nosuch/k", "amqp:not-found"), // as the core says
        ("/queues/", "amqp:precondition-failed"),  // as the address says
    ] {
        let mut world = World::new();
        let first = world.line("c");
        world.attach(first, &anonymous(Some(&taken), &[]));
        let good = addressed(Some("/queues/q"), None);
        world.part(first, &transfer(0, b"a"), &good);
        let bad = addressed(Some(to), None);
        world.part(first, &transfer(1, b"b"), &bad);
        assert_eq!(world.outcomes(first), [(0, DeliveryState::Accepted)]);
        let error = end_of(&mut world, first);
        assert_eq!(error.condition.as_str(), condition);
        let tag = Value::Binary(b"b"[..].into());
        let info = error.info.as_ref().unwrap();
        assert_eq!(info.get("delivery-tag"), Some(&tag), "{to}");
        world.cut(first);
        let second = world.line("c");
        let answer = world.attach(second, &anonymous(Some(&taken), &[b"a", b"b"]));
        let expect = BTreeMap::from([(b"a".to_vec(), Some(DeliveryState::Accepted))]);
        assert_eq!(unsettled(&answer), expect, "{to}");
        // Its tag is free, and it arrives once its address is right.
        world.part(second, &transfer(0, b"b"), &good);
        assert_eq!(world.outcomes(second), [(0, DeliveryState::Accepted)]);
        assert_eq!(world.ready(), 2);
    }
}

#[test]
fn a_link_whose_attach_is_refused_is_not_kept() {
    let mut world = World::new();
    let line = world.line("c");
    let mut attach = lasting(Some("never"), 60, &[]);
    attach.target = Some(Box::new(TargetArchetype::Target(Target {
        address: Some("/exchanges/nosuch".to_owned()),
        expiry_policy: Some(Symbol::from("never")),
        timeout_s: 60,
        ..Target::default()
    })));
    let answer = world.attach(line, &attach);
    assert!(answer.target.is_none(), "{answer:?}");
    assert_eq!(world.detached(line).unwrap().1, "amqp:not-found");
    assert_eq!(world.scene.environment.resumable.len(), 0);
}

/// The engine refused it, and the gateway did not learn that: the link stood in its table, its name among
/// those that are kept, until the session ended.
#[test]
fn a_publisher_whose_answer_does_not_fit_a_frame_is_refused_and_nothing_of_it_is_kept() {
    let mut world = World::new();
    let line = world.line_with("c", 512);
    let mut attach = anonymous(None, &[]);
    if let Some(TargetArchetype::Target(target)) = attach.target.as_deref_mut() {
        let long = [("long", Value::string("x".repeat(600)))];
        target.dynamic_node_properties = Some(fields(long));
    }
    let answer = world.attach(line, &attach);
    assert!(answer.target.is_none(), "{answer:?}");
    assert_eq!(world.detached(line).map(|(closed, _)| closed), Some(true));
    world.detach(line, true);
    assert_eq!(world.lines[line].gateway.links.iter().count(), 0);
    assert_eq!(world.scene.environment.resumable.len(), 0);
}

/// The same for a consumer: its queue had a consumer that nobody could end but with the session.
#[test]
fn a_consumer_whose_answer_does_not_fit_a_frame_is_none_of_its_queue() {
    let mut world = World::new();
    let line = world.line_with("c", 512);
    let long = "x".repeat(200);
    let mut attach = receiver("in", &format!("/queues/{long}"));
    attach.properties = Some(fields([("exclusive", Value::Bool(true))]));
    if let Some(source) = attach.source.as_deref_mut() {
        let text = format!("amqp.annotation.x = '{}'", "y".repeat(400));
        let filter = Value::Described(Box::new((
            Value::symbol("apache.org:selector-filter:string"),
            Value::string(text),
        )));
        source.filter = Some(fields([("selector", filter)]));
    }
    world.scene.queue(&long, &[]);
    let answer = world.attach(line, &attach);
    assert!(answer.source.is_none(), "{answer:?}");
    assert_eq!(world.detached(line).map(|(closed, _)| closed), Some(true));
    let get = QueueCommand::Get {
        name: Name::from(long.as_str()),
    };
    let now = world.scene.now;
    let reply = (world.scene.core).apply(now, Command::Queue(get), &mut world.scene.effects);
    match reply {
        Reply::Queue(info) => assert_eq!(info.consumer_count, 0),
        other => panic!("{other:?}"),
    }
}

/// The attach of a controller, on handle 1.
fn controller() -> Attach {
    Attach {
        name: "control".to_owned(),
        handle: Handle(1),
        target: Some(Box::new(TargetArchetype::Coordinator {
            capabilities: None,
        })),
        ..sender("control", None)
    }
}

/// Declares a transaction with delivery 0 of a line; returns its id.
fn declare(world: &mut World, line: usize) -> Box<[u8]> {
    world.attach(line, &controller());
    let declared = Transfer {
        handle: 1,
        ..transfer(0, b"declare")
    };
    let mut message = vec![0x00, 0x53, 0x77];
    message.extend([0x00, 0x53, 0x31, 0x45]); // declare: an empty list
    world.part(line, &declared, &message);
    let declared = world.lines[line].got.drain(..).find_map(|got| match got {
        Performative::Disposition(told) => told.state,
        _ => None,
    });
    match declared {
        Some(DeliveryState::Declared { txn_id }) => txn_id[..].into(),
        other => panic!("{other:?}"),
    }
}

/// The errors of what is posted in a transaction did not name it, and who does not take `rejected` was told a
/// provisional one. [anonterm 1.0, Routing Errors]
#[test]
fn a_posted_message_that_ends_its_link_is_named_as_any_other_is() {
    let taken = ["amqp:accepted:list", "amqp:released:list"];
    for (to, txn, condition) in [
        ("/queues/", None, "amqp:precondition-failed"),
        (
            "/queues/q",
            Some(&b"none"[..]),
            "amqp:transaction:unknown-id",
        ),
    ] {
        let mut world = World::new();
        let line = world.line("c");
        world.attach(line, &anonymous(Some(&taken), &[]));
        let declared = declare(&mut world, line);
        let post = Transfer {
            txn_id: Some(txn.map_or(declared, Into::into)),
            ..transfer(1, b"b")
        };
        world.part(line, &post, &addressed(Some(to), None));
        assert_eq!(world.outcomes(line), []);
        let error = end_of(&mut world, line);
        assert_eq!(error.condition.as_str(), condition);
        let tag = Value::Binary(b"b"[..].into());
        let info = error.info.as_ref().unwrap();
        assert_eq!(info.get("delivery-tag"), Some(&tag), "{to}");
    }
}
