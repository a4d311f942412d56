//! Outcomes and credit of publishers.

use bytes::Bytes;

use super::support::{Scene, addressed, message, options, section, sender};
use crate::base::limits::{ANONYMOUS_TAGS_MAX, PUBLISH_CREDIT_BYTES};
use crate::base::{Lsn, Name};
use crate::broker::{Command, QueueCommand, TopologyCommand, UpkeepCommand};
use crate::gateway::GatewayOptions;
use crate::link::{Event, LinkHandle, Sending};
use crate::wire::Value;
use crate::wire::performative::{
    Attach, DeliveryState, DeliveryTag, Error, ResumableTag, Source, Symbol,
};

#[test]
fn anonymous_terminus_answers_each_message_by_its_own_address() {
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("q", &[]);
    let link = scene.publisher(client, None);
    let cases = [
        (Some("/queues/q"), "accepted"),
        (Some("/exchanges/amq.fanout"), "released"),
        (Some("/queues/nosuch"), "released"),
        (Some("/exchanges/nosuch/k"), "rejected amqp:not-found"),
        (Some("/queues/"), "rejected amqp:precondition-failed"),
        (None, "rejected amqp:precondition-failed"),
        (Some("auto.q"), "accepted"),
    ];
    for (to, expect) in cases {
        let outcome = scene.publish(client, link, &addressed(to, None));
        assert_eq!(outcome.as_deref(), Some(expect), "{to:?}");
    }
}

/// The outcomes come when the link has long looked up the address of another message.
#[test]
fn a_rejection_names_the_exchange_of_its_own_message() {
    let mut scene = Scene::new();
    let client = scene.client();
    let link = scene.publisher(client, None);
    for exchange in ["first", "second", "amq.fanout"] {
        let to = format!("/exchanges/{exchange}/k");
        scene.send(client, link, &addressed(Some(&to), None));
    }
    scene.drive();
    for exchange in ["first", "second"] {
        let state = scene.outcome_state(client);
        let Some(DeliveryState::Rejected { error: Some(error) }) = state else {
            panic!("{state:?}");
        };
        let description = error.description.clone().unwrap_or_default();
        assert!(
            description.contains(&format!("'{exchange}'")),
            "{description}"
        );
    }
    assert_eq!(scene.outcome(client).as_deref(), Some("released"));
}

#[test]
fn message_in_another_users_name_is_unauthorized() {
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("q", &[]);
    let link = scene.publisher(client, Some("/queues/q"));
    let own = scene.publish(client, link, &addressed(None, Some("guest")));
    assert_eq!(own.as_deref(), Some("accepted"));
    assert_eq!(
        scene.publish(client, link, &addressed(None, Some("root"))),
        None
    );
    assert_eq!(
        scene.detached(client, link).as_deref(),
        Some("amqp:unauthorized-access")
    );
}

#[test]
fn bad_cc_is_released_and_detached_or_rejected_on_the_anonymous_terminus() {
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("q", &[]);
    let cc = Value::Map(vec![(Value::symbol("x-cc"), Value::string("k"))]);
    let mut bad = section(0x72, &cc);
    bad.extend(addressed(Some("/queues/q"), None));
    let link = scene.publisher(client, Some("/queues/q"));
    assert_eq!(
        scene.publish(client, link, &bad).as_deref(),
        Some("released")
    );
    assert_eq!(
        scene.detached(client, link).as_deref(),
        Some("amqp:invalid-field")
    );
    let link = scene.publisher(client, None);
    assert_eq!(
        scene.publish(client, link, &bad).as_deref(),
        Some("rejected amqp:invalid-field")
    );
    assert_eq!(scene.detached(client, link), None);
}

/// A message whose annotations have this one.
fn with_annotation(name: &str, value: Value) -> Vec<u8> {
    let map = Value::Map(vec![(Value::symbol(name), value)]);
    let mut message = section(0x72, &map);
    message.extend(addressed(Some("/queues/q"), None));
    message
}

#[test]
fn a_publisher_may_say_when_a_message_is_delivered() {
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("q", &[]);
    let link = scene.publisher(client, Some("/queues/q"));
    let anonymous = scene.publisher(client, None);
    let times = [
        ("x-opt-delivery-time", Value::Timestamp(i64::MAX)),
        ("x-opt-delivery-time", Value::Long(i64::MAX)),
        ("x-opt-delivery-time", Value::Ulong(u64::MAX)),
        ("x-opt-delivery-delay", Value::Uint(3_000)),
        ("x-opt-delivery-delay", Value::Byte(100)),
    ];
    for (name, value) in &times {
        for link in [link, anonymous] {
            let later = with_annotation(name, value.clone());
            let outcome = scene.publish(client, link, &later);
            assert_eq!(outcome.as_deref(), Some("accepted"), "{name} {value:?}");
        }
    }
    assert_eq!(scene.counts("q"), (0, 0), "all of them wait");
    for now in [
        with_annotation("x-opt-delivery-time", Value::Timestamp(0)),
        with_annotation("x-opt-delivery-delay", Value::Long(-5)),
        with_annotation("x-opt-other", Value::Long(5)),
    ] {
        scene.publish(client, link, &now);
    }
    assert_eq!(scene.counts("q"), (3, 0));
}

#[test]
fn the_time_of_a_delivery_must_be_a_number_where_it_counts() {
    for (name, value) in [
        ("x-opt-delivery-time", Value::string("tomorrow")),
        ("x-opt-delivery-delay", Value::Timestamp(5)),
        ("x-opt-delivery-delay", Value::Null),
    ] {
        let bad = with_annotation(name, value);
        let mut scene = Scene::new();
        let client = scene.client();
        scene.queue("q", &[]);
        let link = scene.publisher(client, Some("/queues/q"));
        let outcome = scene.publish(client, link, &bad);
        assert_eq!(outcome.as_deref(), Some("released"));
        let detached = scene.detached(client, link);
        assert_eq!(detached.as_deref(), Some("amqp:invalid-field"));
        let link = scene.publisher(client, None);
        let outcome = scene.publish(client, link, &bad);
        assert_eq!(outcome.as_deref(), Some("rejected amqp:invalid-field"));
        assert_eq!(scene.counts("q"), (0, 0));

        let mut strict = Scene::with(GatewayOptions {
            delivery_times: false,
            ..options()
        });
        let client = strict.client();
        strict.queue("q", &[]);
        let link = strict.publisher(client, Some("/queues/q"));
        let outcome = strict.publish(client, link, &bad);
        assert_eq!(
            outcome.as_deref(),
            Some("accepted"),
            "an annotation like any other"
        );
        assert_eq!(strict.counts("q"), (1, 0));
    }
}

fn delete(scene: &mut Scene, queue: &str) {
    scene.ask(Command::Queue(QueueCommand::Delete {
        connection: None,
        name: Name::from(queue),
        if_unused: false,
        if_empty: false,
    }));
}

#[test]
fn a_publisher_to_a_queue_that_has_published_ends_with_it() {
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("q", &[]);
    scene.queue("other", &[]);
    let to_queue = scene.publisher(client, Some("/queues/q"));
    let to_other = scene.publisher(client, Some("/queues/other"));
    let anonymous = scene.publisher(client, None);
    for (link, to) in [
        (to_queue, None),
        (to_other, None),
        (anonymous, Some("/queues/q")),
    ] {
        let outcome = scene.publish(client, link, &addressed(to, None));
        assert_eq!(outcome.as_deref(), Some("accepted"));
    }
    delete(&mut scene, "q");
    scene.drive();
    let ended = scene.detached(client, to_queue);
    assert_eq!(ended.as_deref(), Some("amqp:resource-deleted"));
    for link in [to_other, anonymous] {
        assert_eq!(scene.detached(client, link), None);
    }
}

#[test]
fn deleted_queue_releases_and_deleted_exchange_detaches() {
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("q", &[]);
    scene.exchange("x", false);
    let to_queue = scene.publisher(client, Some("/queues/q"));
    let to_exchange = scene.publisher(client, Some("/exchanges/x/k"));
    delete(&mut scene, "q");
    scene.ask(Command::Topology(TopologyCommand::ExchangeDelete {
        connection: None,
        name: Name::from("x"),
        if_unused: false,
    }));
    assert_eq!(
        scene.publish(client, to_queue, &message(b"m")).as_deref(),
        Some("released")
    );
    assert_eq!(scene.detached(client, to_queue), None);
    assert_eq!(
        scene
            .publish(client, to_exchange, &message(b"m"))
            .as_deref(),
        Some("released")
    );
    assert_eq!(
        scene.detached(client, to_exchange).as_deref(),
        Some("amqp:not-found")
    );
}

#[test]
fn full_queue_is_named_with_the_reason() {
    let mut scene = Scene::new();
    let client = scene.client();
    let limits = [
        ("x-max-length", Value::Uint(1)),
        ("x-overflow", Value::string("reject-publish")),
    ];
    scene.queue("full", &limits);
    let link = scene.publisher(client, Some("/queues/full"));
    assert_eq!(
        scene.publish(client, link, &message(b"1")).as_deref(),
        Some("accepted")
    );
    let second = scene.publish(client, link, &message(b"2"));
    assert_eq!(
        second.as_deref(),
        Some("rejected amqp:resource-limit-exceeded")
    );
}

#[test]
fn garbage_is_no_message() {
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("q", &[]);
    let link = scene.publisher(client, Some("/queues/q"));
    assert_eq!(scene.publish(client, link, b"garbage"), None);
    assert_eq!(
        scene.detached(client, link).as_deref(),
        Some("amqp:decode-error")
    );
}

#[test]
fn credit_is_given_by_bytes() {
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("q", &[]);
    let link = scene.publisher(client, Some("/queues/q"));
    assert_eq!(
        scene.clients[client].engine.credit(link),
        170,
        "sizes are unknown"
    );
    let large = message(&vec![0; 256 * 1024]);
    for _ in 0..86 {
        assert_eq!(
            scene.publish(client, link, &large).as_deref(),
            Some("accepted")
        );
    }
    let credit = u64::from(scene.clients[client].engine.credit(link));
    assert!(
        credit * large.len() as u64 <= 85 * large.len() as u64,
        "not topped up to 170"
    );
    for _ in 0..80 {
        assert_eq!(
            scene.publish(client, link, &large).as_deref(),
            Some("accepted")
        );
    }
    let credit = u64::from(scene.clients[client].engine.credit(link));
    assert!(
        (1..=PUBLISH_CREDIT_BYTES / (256 * 1024)).contains(&credit),
        "{credit}"
    );
}

#[test]
fn alarm_takes_credit_and_gives_it_back() {
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("q", &[]);
    let link = scene.publisher(client, Some("/queues/q"));
    scene.ask(Command::Upkeep(UpkeepCommand::Alarm { raised: true }));
    assert_eq!(scene.clients[client].engine.credit(link), 0);
    let late = scene.client();
    let stopped = scene.publisher(late, Some("/queues/q"));
    assert_eq!(
        scene.clients[late].engine.credit(stopped),
        0,
        "those who come later too"
    );
    scene.ask(Command::Upkeep(UpkeepCommand::Alarm { raised: false }));
    assert_eq!(scene.clients[client].engine.credit(link), 170);
    assert_eq!(scene.clients[late].engine.credit(stopped), 170);
}

#[test]
fn accepted_waits_until_its_record_is_durable() {
    let mut scene = Scene::new();
    scene.durable = Lsn(0);
    let client = scene.client();
    scene.queue("q", &[("x-queue-type", Value::string("quorum"))]);
    let link = scene.publisher(client, Some("/queues/q"));
    assert_eq!(scene.publish(client, link, &message(b"m")), None);
    assert_eq!(scene.counts("q"), (1, 0), "deliveries do not wait");
    scene.durable = Lsn(u64::MAX);
    scene.drive();
    assert_eq!(scene.outcome(client).as_deref(), Some("accepted"));
}

#[test]
fn strict_mode_refuses_keys_without_x() {
    let key_rule = crate::message::KeyRule::Strict;
    let mut scene = Scene::with(GatewayOptions {
        key_rule,
        ..options()
    });
    let client = scene.client();
    scene.queue("q", &[]);
    let link = scene.publisher(client, Some("/queues/q"));
    let key = Value::Map(vec![(Value::symbol("colour"), Value::string("red"))]);
    let mut bad = section(0x72, &key);
    bad.extend(message(b"m"));
    assert_eq!(scene.publish(client, link, &bad), None);
    assert_eq!(
        scene.detached(client, link).as_deref(),
        Some("amqp:invalid-field")
    );
}

/// They vanished without a word.
#[test]
fn a_link_is_told_that_what_it_sends_settled_leads_nowhere() {
    for (to, expect) in [
        (Some("/exchanges/nosuch/k"), "amqp:not-found"),
        (Some("nothing known"), "amqp:precondition-failed"),
        (None, "amqp:precondition-failed"),
    ] {
        let mut scene = Scene::new();
        let client = scene.client();
        let link = scene.publisher(client, None);
        scene.send_settled(client, link, &addressed(to, None));
        assert_eq!(
            scene.detached(client, link).as_deref(),
            Some(expect),
            "{to:?}"
        );
    }
}

#[test]
fn a_link_whose_exchange_is_gone_ends_with_the_first_settled_message() {
    let mut scene = Scene::new();
    let client = scene.client();
    scene.ask(Command::Topology(TopologyCommand::ExchangeDeclare {
        name: Name::from("x"),
        kind: Name::from("fanout"),
        durable: true,
        auto_delete: false,
        internal: false,
        arguments: Vec::new(),
    }));
    let link = scene.publisher(client, Some("/exchanges/x"));
    scene.send_settled(client, link, &message(b"nobody wants it"));
    assert_eq!(scene.detached(client, link), None);
    scene.ask(Command::Topology(TopologyCommand::ExchangeDelete {
        connection: None,
        name: Name::from("x"),
        if_unused: false,
    }));
    scene.send_settled(client, link, &message(b"lost"));
    assert_eq!(
        scene.detached(client, link).as_deref(),
        Some("amqp:not-found")
    );
}

/// The error with which a link of a client was detached.
fn end_of(scene: &mut Scene, client: usize, link: LinkHandle) -> Error {
    let is_end = |event: &Event| matches!(event, Event::Detached { link: of, .. } if *of == link);
    let Some(Event::Detached {
        error: Some(error), ..
    }) = scene.take(client, is_end)
    else {
        panic!("the link is there, or ended without an error")
    };
    *error
}

/// The tag that an error names.
fn named(error: &Error) -> Option<&Value> {
    error.info.as_ref()?.get("delivery-tag")
}

/// It was told `rejected`, which it had not offered. [anonterm 1.0, Routing Errors]
#[test]
fn who_does_not_take_rejected_is_detached_with_the_tag_of_the_message_that_leads_nowhere() {
    let cases = [
        (Some("/exchanges/nosuch/k"), "amqp:not-found"),
        (Some("/queues/"), "amqp:precondition-failed"),
        (None, "amqp:precondition-failed"),
    ];
    for (to, condition) in cases {
        let mut scene = Scene::new();
        let client = scene.client();
        scene.queue("q", &[]);
        let link = attached_without_rejected(&mut scene, client, None);
        let good = scene.publish(client, link, &addressed(Some("/queues/q"), None));
        assert_eq!(good.as_deref(), Some("accepted"));
        let bad = scene.publish(client, link, &addressed(to, None));
        assert_eq!(bad, None, "{to:?}");
        let error = end_of(&mut scene, client, link);
        assert_eq!(error.condition.as_str(), condition);
        assert!(matches!(named(&error), Some(Value::Binary(_))), "{error:?}");
    }
}

#[test]
fn a_message_sent_settled_that_leads_nowhere_is_named_by_its_tag() {
    for to in ["/exchanges/nosuch/k", "/queues/"] {
        let mut scene = Scene::new();
        let client = scene.client();
        scene.queue("q", &[]);
        let link = scene.publisher(client, None);
        scene.send(client, link, &addressed(Some("/queues/q"), None));
        for (tag, to) in [(b"a", "/queues/q"), (b"b", to), (b"c", "/queues/q")] {
            let message = addressed(Some(to), None);
            let tag = ResumableTag {
                tag: DeliveryTag::new(tag).unwrap(),
                resumed: None,
            };
            let sending = Sending {
                token: 1,
                settled: true,
                message_format: 0,
                prefix: &[],
                bare: &message,
                tag: Some(&tag),
            };
            let engine = &mut scene.clients[client].engine;
            engine
                .send(link, sending, || Bytes::copy_from_slice(&message))
                .unwrap();
        }
        scene.drive();
        let error = end_of(&mut scene, client, link);
        let tag = Value::Binary(Bytes::from_static(b"b"));
        assert_eq!(named(&error), Some(&tag), "{to}");
    }
}

/// A publisher whose source does not offer `rejected`.
fn attached_without_rejected(
    scene: &mut Scene,
    client: usize,
    address: Option<&str>,
) -> LinkHandle {
    let outcomes = ["amqp:accepted:list", "amqp:released:list"];
    let source = Source {
        outcomes: Some(outcomes.map(Symbol::from).to_vec()),
        ..Source::default()
    };
    let attach = Attach {
        source: Some(Box::new(source)),
        ..sender("publisher", address)
    };
    let (link, result) = scene.attach(client, attach);
    assert_eq!(result, Ok(()));
    link
}

/// As RabbitMQ: the outcomes of its source are for who wants to know, and its link works. [AMQP 3.5.3]
#[test]
fn who_does_not_offer_rejected_is_told_all_the_same_that_a_queue_is_full() {
    for address in [Some("/queues/q"), None] {
        let mut scene = Scene::new();
        let client = scene.client();
        let limit = [
            ("x-max-length", Value::Uint(1)),
            ("x-overflow", Value::string("reject-publish")),
        ];
        scene.queue("q", &limit);
        let link = attached_without_rejected(&mut scene, client, address);
        let message = addressed(Some("/queues/q"), None);
        for expect in [
            "accepted",
            "rejected amqp:resource-limit-exceeded",
            "rejected amqp:resource-limit-exceeded",
        ] {
            let outcome = scene.publish(client, link, &message);
            assert_eq!(outcome.as_deref(), Some(expect), "{address:?}");
        }
        assert_eq!(scene.detached(client, link), None, "{address:?}");
    }
}

#[test]
fn the_tags_that_are_kept_for_errors_count_as_memory_of_the_connection() {
    let mut scene = Scene::new();
    let client = scene.client();
    scene.queue("q", &[]);
    let link = scene.publisher(client, None);
    let good = addressed(Some("/queues/q"), None);
    scene.send_settled(client, link, &good);
    let before = scene.clients[client].gateway.kept_bytes();
    for _ in 0..ANONYMOUS_TAGS_MAX {
        scene.send_settled(client, link, &good);
    }
    let counted = scene.clients[client].gateway.kept_bytes() - before;
    let least = ANONYMOUS_TAGS_MAX as u64 * 32; // of each its bytes
    assert!((least..4 * least).contains(&counted), "{counted}");
}
