//! What a link may be. [AMQP 2.6.3]

use super::super::terminus::death_evidence;
use super::support::{Scene, receiver, section, sender};
use crate::base::{ConnectionId, HoldBudget, Lsn, Name, limits};
use crate::broker::{Command, Destination, QueueCommand, TopologyCommand};
use crate::deaths::{Encoding, EvidenceLevel};
use crate::link::Event;
use crate::wire::performative::{
    Attach, SenderSettleMode, Source, Symbol, Target, TargetArchetype, Value, fields,
};

fn check(scene: &mut Scene, client: usize, what: &str, attach: Attach, expect: &str) {
    let (link, result) = scene.attach(client, attach);
    let expect = if expect.is_empty() {
        Ok(())
    } else {
        Err(expect.to_owned())
    };
    assert_eq!(result, expect, "{what}");
    if result.is_ok() {
        scene.clients[client].engine.detach(link, true, None);
        scene.drive();
    }
}

/// Each address with what refuses it, or nothing.
fn check_all(
    scene: &mut Scene,
    client: usize,
    cases: &[(&str, &str)],
    attach: impl Fn(&str) -> Attach,
) {
    for (address, expect) in cases {
        check(scene, client, address, attach(address), expect);
    }
}

#[test]
fn refused_links_name_the_condition_and_leave_the_session_alive() {
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("q", &[]);
    scene.exchange("x", false);
    scene.exchange("inner", true);
    let targets = [
        ("/queues/q", ""),
        ("/exchanges/x", ""),
        ("/exchanges/x/key", ""),
        ("/queues/nosuch", "amqp:not-found"),
        ("/exchanges/nosuch/k", "amqp:not-found"),
        ("/exchanges/inner/k", "amqp:unauthorized-access"),
        ("/queues/", "amqp:invalid-field"),
        ("/exchanges/amq.default/q", "amqp:invalid-field"),
        ("/management", "amqp:invalid-field"),
        ("q", "amqp:not-found"),
        ("auto.q", ""),
    ];
    check_all(&mut scene, client, &targets, |address| {
        sender("s", Some(address))
    });
    let sources = [
        ("/queues/q", ""),
        ("/queues/nosuch", "amqp:not-found"),
        ("/exchanges/x", ""),
        ("/exchanges/nosuch/k", "amqp:not-found"),
        ("/exchanges/inner/k", ""),
        ("/exchanges/amq.default/q", "amqp:invalid-field"),
        ("/exchanges/", "amqp:invalid-field"),
        ("/management", "amqp:invalid-field"),
        ("auto.q", ""),
        ("", "amqp:invalid-field"),
    ];
    check_all(&mut scene, client, &sources, |address| {
        receiver("r", address)
    });
    assert_eq!(scene.counts("auto.q"), (0, 0), "the bare name made a queue");
}

#[test]
fn what_is_not_offered_is_refused_at_the_link() {
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("q", &[]);
    let attach = Attach {
        target: None,
        ..sender("s", None)
    };
    check(
        &mut scene,
        client,
        "no target",
        attach,
        "amqp:invalid-field",
    );
    let with = |key: &str, value: Value| Attach {
        properties: Some(fields([(key, value)])),
        ..receiver("r", "/queues/q")
    };
    let bad = Value::String("bad".to_owned());
    for key in ["rabbitmq:priority", "exclusive", "x-opt-deaths-encoding"] {
        check(
            &mut scene,
            client,
            key,
            with(key, bad.clone()),
            "amqp:invalid-field",
        );
    }
}

#[test]
fn deaths_encoding_is_an_attach_property() {
    for (word, expect) in [
        ("array", Encoding::Array),
        ("list", Encoding::List),
        ("none", Encoding::None),
    ] {
        let value = Value::String(word.to_owned());
        let properties = Some(fields([("x-opt-deaths-encoding", value)]));
        let attach = Attach {
            properties,
            ..receiver("r", "/queues/q")
        };
        assert_eq!(super::super::terminus::deaths_encoding(&attach), Ok(expect));
    }
}

#[test]
fn how_much_evidence_a_receiver_gets_is_an_attach_property() {
    let with = |value: Option<Value>| Attach {
        properties: value.map(|value| fields([("x-opt-death-evidence", value)])),
        ..receiver("r", "/queues/q")
    };
    for level in EvidenceLevel::ALL {
        for value in [
            Value::String(level.as_str().to_owned()),
            Value::symbol(level.as_str()),
        ] {
            let attach = with(Some(value));
            assert_eq!(death_evidence(&attach, EvidenceLevel::None), Ok(level));
        }
        for attach in [with(None), with(Some(Value::Null))] {
            assert_eq!(death_evidence(&attach, level), Ok(level));
        }
    }
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("q", &[]);
    for value in [Value::String("some".to_owned()), Value::Bool(true)] {
        let attach = with(Some(value));
        check(&mut scene, client, "evidence", attach, "amqp:invalid-field");
    }
}

#[test]
fn permissions_are_checked_by_name() {
    let mut scene = Scene::new();
    let client = scene.client_as("limited", "limited", None);
    for name in ["q", "mine-q"] {
        scene.queue(name, &[]);
    }
    for name in ["x", "mine-x"] {
        scene.exchange(name, false);
    }
    let senders = [
        ("/exchanges/mine-x/k", ""),
        ("/exchanges/x/k", "amqp:unauthorized-access"),
        // The default exchange itself may not be written to.
        ("/queues/mine-q", "amqp:unauthorized-access"),
    ];
    check_all(&mut scene, client, &senders, |address| {
        sender("s", Some(address))
    });
    let receivers = [
        ("/queues/mine-q", ""),
        ("/queues/q", "amqp:unauthorized-access"),
        ("/queues/nosuch", "amqp:not-found"),
    ];
    check_all(&mut scene, client, &receivers, |address| {
        receiver("r", address)
    });
}

#[test]
fn exclusive_queue_of_another_connection_is_locked_for_consumers_only() {
    let mut scene = Scene::new();
    let (owner, other) = (scene.client(), scene.client());
    scene.ask(Command::Queue(QueueCommand::Declare {
        connection: Some(ConnectionId(owner as u64 + 1)),
        name: Name::from("own"),
        durable: false,
        exclusive: true,
        auto_delete: false,
        arguments: Vec::new(),
    }));
    check(&mut scene, owner, "owner", receiver("r", "/queues/own"), "");
    check(
        &mut scene,
        other,
        "other",
        receiver("r", "/queues/own"),
        "amqp:resource-locked",
    );
    check(
        &mut scene,
        other,
        "other",
        sender("s", Some("/queues/own")),
        "",
    );
}

#[test]
fn unknown_vhost_and_vhost_without_permission_are_told_by_a_close() {
    let check = |hostname: &str, expect: &str| {
        let mut scene = Scene::new();
        let client = scene.client_as("guest", "guest", Some(hostname));
        let closed = scene.take(client, |event| matches!(event, Event::Closed { .. }));
        let Some(Event::Closed { error }) = closed else {
            panic!("{hostname} not closed")
        };
        assert_eq!(
            super::support::condition(error.as_deref()),
            expect,
            "{hostname}"
        );
    };
    check("vhost:nosuch", "amqp:not-found");
    check("vhost:closed", "amqp:unauthorized-access");
    let mut scene = Scene::new();
    let client = scene.client_as("guest", "guest", Some("localhost"));
    assert_eq!(
        scene.clients[client].gateway.vhost(),
        Some(&Name::from("/"))
    );
}

#[test]
fn wrong_password_is_told_once_its_check_ended() {
    let mut scene = Scene::new();
    let client = scene.client_as("guest", "wrong", None);
    assert!(scene.clients[client].gateway.is_closed());
    assert_eq!(scene.clients[client].gateway.user(), None);
}

#[test]
fn what_is_no_login_is_refused_after_a_pause() {
    let mut scene = Scene::new();
    let client = scene.client_as("guest", "a\0b", None);
    assert!(!scene.clients[client].gateway.is_closed());
    let due = scene.clients[client].gateway.next_deadline().unwrap();
    scene.now.mono = due;
    let now = scene.now;
    scene.clients[client].gateway.handle_timeout(now);
    scene.drive();
    assert!(scene.clients[client].gateway.is_closed());
    assert_eq!(scene.clients[client].gateway.user(), None);
}

#[test]
fn payload_of_a_management_request_needs_a_whole_pair() {
    let mut scene = Scene::new();
    let client = scene.client();
    let paired = |attach| Attach {
        snd_settle_mode: SenderSettleMode::Settled,
        properties: Some(fields([("paired", Value::Bool(true))])),
        ..attach
    };
    let (link, result) = scene.attach(client, paired(sender("pair", Some("/management"))));
    assert_eq!(result, Ok(()));
    scene.send_settled(client, link, &section(0x77, &Value::Null));
    assert_eq!(
        scene.detached(client, link).as_deref(),
        Some("amqp:precondition-failed")
    );
}

#[test]
fn a_selector_that_cannot_be_read_is_refused_with_its_place() {
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("q", &[]);
    for (text, expect) in [("colour = 'red'", ""), ("colour =", "amqp:invalid-field")] {
        let filter = Value::Described(Box::new((
            Value::symbol("apache.org:selector-filter:string"),
            Value::string(text),
        )));
        let mut attach = receiver("r", "/queues/q");
        if let Some(source) = attach.source.as_mut() {
            source.filter = Some([(Symbol::from("selector"), filter)].into_iter().collect());
        }
        check(&mut scene, client, text, attach, expect);
    }
}

/// A body of 15 million nulls, from a user without any right, took 6 seconds and 0.9 GB. The client's
/// engine keeps to what is announced, so that a broker which announced more would get it. [AMQP 2.7.3]
#[test]
fn requests_are_small_and_the_bound_is_announced() {
    let mut scene = Scene::new();
    let client = scene.client();
    let paired = |attach| Attach {
        snd_settle_mode: SenderSettleMode::Settled,
        properties: Some(fields([("paired", Value::Bool(true))])),
        ..attach
    };
    let (_, result) = scene.attach(client, paired(sender("pair", Some("/management"))));
    assert_eq!(result, Ok(()));
    let answered = scene.take(client, |event| {
        matches!(event, Event::AttachAnswered { .. })
    });
    let Some(Event::AttachAnswered { attach, .. }) = answered else {
        panic!("{answered:?}");
    };
    assert_eq!(attach.max_message_size, Some(64 * 1024));
}

/// What takes long ends a batch before its count does: the rest is for the next hold of the lock.
#[test]
fn a_batch_of_heavy_commands_ends_early_and_goes_on_in_the_next_hold() {
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("q", &[]);
    let session = scene.clients[client].session.unwrap();
    for n in 0..200 {
        let name = format!("r{n}");
        let engine = &mut scene.clients[client].engine;
        engine
            .attach(session, receiver(&name, "/queues/q"))
            .unwrap();
    }
    scene.move_out(client);
    let (mut holds, mut at_once) = (0, 0);
    while scene.clients[client].gateway.has_work() {
        let (now, gateway) = (scene.now, &mut scene.clients[client].gateway);
        let batch = gateway.batch();
        batch.apply(
            now,
            &mut scene.core,
            &mut scene.effects,
            HoldBudget::default(),
        );
        assert!(scene.effects.meter.is_used_up() || !gateway.has_work());
        holds += 1;
        let consumers = scene.core.queue("q").unwrap().consumers.len();
        at_once = consumers.max(at_once);
        scene.clients[client].gateway.handle_answers(now);
        if holds == 1 {
            assert!((20..100).contains(&consumers), "{consumers} in one hold");
        }
    }
    assert!(holds > 2, "{holds}");
    assert_eq!(at_once, 200, "all of them were added in the end");
}

#[test]
fn what_links_of_a_connection_keep_is_bounded_and_counted() {
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("q", &[]);
    let long = "x".repeat(limits::SELECTOR_BYTES_MAX - 6);
    let text = Value::String(format!("a = '{long}'"));
    let name = Value::symbol("apache.org:selector-filter:string");
    let selector = Value::Described(Box::new((name, text)));
    let mut links = Vec::new();
    let refused = (0..255).find_map(|number| {
        let mut attach = receiver(&format!("{number:01000}"), "/queues/q");
        let filter = (Symbol::from("selector"), selector.clone());
        attach.source.as_mut().unwrap().filter = Some([filter].into_iter().collect());
        let (link, result) = scene.attach(client, attach);
        links.push(link);
        result.err()
    });
    assert_eq!(refused.as_deref(), Some("amqp:resource-limit-exceeded"));
    let kept_bytes = scene.clients[client].gateway.kept_bytes();
    assert!(kept_bytes > limits::LINKS_KEPT_BYTES_MAX, "{kept_bytes}");
    for link in links {
        scene.clients[client].engine.detach(link, true, None);
    }
    scene.drive();
    let left_bytes = scene.clients[client].gateway.kept_bytes();
    assert!(left_bytes + 16_000_000 < kept_bytes, "{left_bytes}");
}

/// The engine kept the name of a link that it had detached until the peer's detach, which may never come.
#[test]
fn links_that_are_refused_or_ended_leave_no_names_behind() {
    let mut scene = Scene::new();
    let client = scene.client();
    let before = scene.clients[client].gateway.kept_bytes();
    for number in 0..200 {
        let name = format!("{number:01000}");
        let (_, result) = scene.attach(client, receiver(&name, "/queues/missing"));
        assert_eq!(result.unwrap_err(), "amqp:not-found");
    }
    let kept_bytes = scene.clients[client].gateway.kept_bytes() - before;
    assert!(kept_bytes < 50_000, "{kept_bytes}");
    scene.queue("q", &[]);
    for number in 0..200 {
        let name = format!("{number:01000}");
        let (_, result) = scene.attach(client, receiver(&name, "/queues/q"));
        assert_eq!(result, Ok(()));
    }
    let links: Vec<_> = scene.clients[client]
        .gateway
        .links
        .iter()
        .map(|link| link.handle)
        .collect();
    assert_eq!(links.len(), 200);
    scene.tell(Command::Queue(QueueCommand::Delete {
        connection: None,
        name: Name::from("q"),
        if_unused: false,
        if_empty: false,
    }));
    while scene.core.has_work() {
        scene.core.tick(scene.now, 256, &mut scene.effects);
    }
    scene.tell(Command::Queue(QueueCommand::Get {
        name: Name::from("q"),
    }));
    let gateway = &scene.clients[client].gateway;
    assert_eq!(gateway.links.iter().count(), 0, "all are detached");
    let named = |link: &crate::link::LinkHandle| {
        let name = gateway.link.link_name(*link);
        name.is_some_and(|name| !name.is_empty())
    };
    assert_eq!(links.iter().filter(|link| named(link)).count(), 0);
}

/// Answers that wait for the journal were counted and not bounded: a peer went on asking.
#[test]
fn a_peer_gets_no_credit_to_ask_while_256_kib_of_its_answers_wait_for_the_journal() {
    let mut scene = Scene::new();
    let client = scene.client();
    let paired = |attach: Attach| Attach {
        snd_settle_mode: SenderSettleMode::Settled,
        source: Some(Box::new(Source {
            address: Some("/management".into()),
            ..Source::default()
        })),
        target: Some(Box::new(TargetArchetype::Target(Target {
            address: Some("/management".into()),
            ..Target::default()
        }))),
        properties: Some(fields([("paired", Value::Bool(true))])),
        ..attach
    };
    let (asking, result) = scene.attach(client, paired(sender("pair", None)));
    assert_eq!(result, Ok(()));
    let (answering, result) = scene.attach(client, paired(receiver("pair", "")));
    assert_eq!(result, Ok(()));
    scene.clients[client].engine.set_credit(answering, 10_000);
    let long = Value::String("x".repeat(20_000));
    scene.queue("q", &[]);
    scene.ask(Command::Topology(TopologyCommand::Bind {
        connection: None,
        source: Name::from("amq.headers"),
        destination: Destination::Queue(Name::from("q")),
        key: Name::from("k"),
        arguments: vec![(Name::from("a"), long)],
    }));
    // Nothing is durable from now on, and the gateway knows it.
    scene.deliveries(client);
    scene.durable = Lsn(0);
    scene.drive();
    let to = Value::string("/bindings?src=amq.headers&dstq=q&key=k");
    let properties = [
        Value::Ulong(1),
        Value::Null,
        to,
        Value::string("GET"),
        Value::string("$me"),
    ];
    let mut request = section(0x73, &Value::List(properties.to_vec()));
    request.extend(section(0x77, &Value::Null));
    let mut asked: u64 = 0;
    while scene.clients[client].engine.credit(asking) > 0 {
        scene.send_settled(client, asking, &request);
        asked += 1;
        assert!(asked < 100, "it may go on asking");
    }
    let waiting_bytes = scene.clients[client].gateway.answers_bytes;
    let most = limits::CONTROL_BYTES_MAX as u64 + 9 * 21_000;
    assert!(
        waiting_bytes >= limits::CONTROL_BYTES_MAX as u64,
        "{waiting_bytes}"
    );
    assert!(waiting_bytes < most, "{waiting_bytes}");
    assert!(scene.deliveries(client).is_empty());
    scene.durable = Lsn(u64::MAX);
    scene.drive();
    assert_eq!(scene.deliveries(client).len() as u64, asked);
    assert_eq!(scene.clients[client].gateway.answers_bytes, 0);
    assert!(scene.clients[client].engine.credit(asking) > 0);
}

/// The addresses of source and target in the answer to an attach; none for a terminus that is null,
/// or has no address.
fn addresses(scene: &mut Scene, client: usize, attach: Attach) -> [Option<String>; 2] {
    let (link, result) = scene.attach(client, attach);
    assert_eq!(result, Ok(()));
    let answer = super::filters::answer(scene, client, link);
    let target = match answer.target.map(|target| *target) {
        Some(TargetArchetype::Target(target)) => target.address,
        other => {
            assert_eq!(other, None);
            None
        }
    };
    [answer.source.and_then(|source| source.address), target]
}

/// The attach with these addresses where it has none.
fn addressed(mut attach: Attach, address: &str) -> Attach {
    let source = attach.source.get_or_insert_default();
    if !source.dynamic {
        source.address.get_or_insert_with(|| address.into());
    }
    if let Some(TargetArchetype::Target(target)) = attach.target.as_deref_mut()
        && !target.dynamic
    {
        target.address.get_or_insert_with(|| address.into());
    }
    attach
}

// Azure's client for Python fails on an attach without source or target. [AMQP 2.6.3]
#[test]
fn the_answer_repeats_the_addresses_of_both_termini() {
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("q", &[]);
    let text = |text: &str| Some(text.to_owned());
    let consumes = addressed(receiver("r", "/queues/q"), "receiver-link");
    let got = addresses(&mut scene, client, consumes);
    assert_eq!(got, [text("/queues/q"), text("receiver-link")]);
    let publishes = addressed(sender("s", Some("/queues/q")), "sender-link");
    let got = addresses(&mut scene, client, publishes);
    assert_eq!(got, [text("sender-link"), text("/queues/q")]);
}

// [AMQP 2.6.3, 3.5.3]
#[test]
fn dynamic_nodes_have_their_addresses_in_the_answer_and_the_other_terminus_its_own() {
    let mut scene = Scene::new();
    let client = scene.client();
    let mut consumes = receiver("r", "");
    consumes.source = Some(Box::new(Source {
        dynamic: true,
        ..Source::default()
    }));
    let [source, target] = addresses(&mut scene, client, addressed(consumes, "receiver-link"));
    assert!(source.is_some_and(|address| address.starts_with("/queues/")));
    assert_eq!(target.as_deref(), Some("receiver-link"));
    let mut publishes = sender("s", None);
    publishes.target = Some(Box::new(TargetArchetype::Target(Target {
        dynamic: true,
        ..Target::default()
    })));
    let [source, target] = addresses(&mut scene, client, addressed(publishes, "sender-link"));
    assert_eq!(source.as_deref(), Some("sender-link"));
    assert!(target.is_some_and(|address| address.starts_with("/queues/")));
}

// As RabbitMQ, which never has one in it.
#[test]
fn the_answer_to_a_receiver_has_no_target_without_an_address() {
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("q", &[]);
    let (link, result) = scene.attach(client, receiver("r", "/queues/q"));
    assert_eq!(result, Ok(()));
    assert_eq!(
        super::filters::answer(&mut scene, client, link).target,
        None
    );
}

/// RabbitMQ asks only the requesting half to be settled.
#[test]
fn the_answering_half_of_a_pair_is_settled_whatever_it_asks_for() {
    let mut scene = Scene::new();
    let client = scene.client();
    let answering = Attach {
        snd_settle_mode: SenderSettleMode::Unsettled,
        properties: Some(fields([("paired", Value::Bool(true))])),
        ..receiver("pair", "/management")
    };
    let (_, result) = scene.attach(client, answering);
    assert_eq!(result, Ok(()));
    let answered = scene.take(client, |event| {
        matches!(event, Event::AttachAnswered { .. })
    });
    let Some(Event::AttachAnswered { attach, .. }) = answered else {
        panic!("{answered:?}");
    };
    assert_eq!(attach.snd_settle_mode, SenderSettleMode::Settled);
}
