//! Receivers that subscribe to exchanges and topics. [AMQP 3.5.3, JMS 2.0 8.3]

use rstest::rstest;

use super::support::{Scene, addressed, message, options, receiver, section, sender};
use crate::access::{Permissions, TopicPermissions};
use crate::base::{ConnectionId, Lsn, Name};
use crate::broker::registry::{DEFAULT_VHOST, RegistryFact};
use crate::broker::{
    Command, Destination, Error as CoreError, QueueCommand, Reply, TopologyCommand,
};
use crate::gateway::{GatewayOptions, Written};
use crate::link::{Event, LinkHandle};
use crate::wire::performative::{
    Attach, DistributionMode, Filter, Source, Symbol, Target, TargetArchetype, Value, filter,
    filter_fields,
};

/// What a subscriber asks for.
#[derive(Clone, Copy, Default)]
struct Wish {
    durable: bool,
    capabilities: &'static [&'static str],
    selector: Option<&'static str>,
    no_local: bool,
}

const DURABLE: Wish = Wish {
    durable: true,
    capabilities: &["topic"],
    selector: None,
    no_local: false,
};

fn capabilities(names: &[&str]) -> Option<Vec<Symbol>> {
    (!names.is_empty()).then(|| names.iter().copied().map(Symbol::from).collect())
}

/// The attach of a subscriber, as Qpid JMS writes it.
fn subscriber(name: &str, address: &str, wish: Wish) -> Attach {
    let mut attach = receiver(name, address);
    attach.source = Some(Box::new(Source {
        address: Some(address.to_owned()),
        durable: if wish.durable { 2 } else { 0 },
        expiry_policy: Some(Symbol::from(if wish.durable {
            "never"
        } else {
            "link-detach"
        })),
        distribution_mode: wish.durable.then_some(DistributionMode::Copy),
        capabilities: capabilities(wish.capabilities),
        filter: filter_fields(
            wish.selector.map(Filter::Selector).into_iter(),
            wish.no_local,
        ),
        ..Source::default()
    }));
    attach
}

/// The attach that asks for the durable subscription of a name: no source.
fn known(name: &str) -> Attach {
    Attach {
        source: None,
        ..receiver(name, "")
    }
}

/// Attaches a subscriber with credit; the source of the answer, or why it is refused.
fn subscribe(
    scene: &mut Scene,
    client: usize,
    attach: Attach,
) -> Result<(LinkHandle, Source), String> {
    let (link, result) = scene.attach(client, attach);
    let answer = scene.take(client, |event| match event {
        Event::AttachAnswered { link: of, .. } => *of == link,
        _ => false,
    });
    let Some(Event::AttachAnswered { attach, .. }) = answer else {
        panic!("no answer: {result:?}");
    };
    result?;
    scene.clients[client].engine.set_credit(link, 100);
    scene.drive();
    Ok((link, *attach.source.unwrap()))
}

fn detach(scene: &mut Scene, client: usize, link: LinkHandle, closed: bool) {
    scene.clients[client].engine.detach(link, closed, None);
    scene.drive();
}

/// A link to a target with capability `topic`.
fn topic_publisher(scene: &mut Scene, client: usize, address: &str) -> LinkHandle {
    let target = Target {
        address: Some(address.to_owned()),
        capabilities: capabilities(&["topic"]),
        ..Target::default()
    };
    let (link, result) = scene.attach(
        client,
        Attach {
            target: Some(Box::new(TargetArchetype::Target(target))),
            ..sender(&format!("to {address}"), None)
        },
    );
    assert_eq!(result, Ok(()), "{address}");
    link
}

fn send(scene: &mut Scene, client: usize, link: LinkHandle, body: &str) {
    let outcome = scene.publish(client, link, &message(body.as_bytes()));
    assert_eq!(outcome.as_deref(), Some("accepted"), "{body}");
}

/// The bodies that came on a link, which are accepted. What came on others is forgotten.
fn bodies(scene: &mut Scene, client: usize, link: LinkHandle) -> Vec<String> {
    let came = scene.deliveries(client);
    let mine = came.iter().filter(|(on, ..)| *on == link);
    let body = |bytes: &[u8]| {
        let at = bytes
            .windows(3)
            .rposition(|part| part == [0, 0x53, 0x75])
            .unwrap();
        String::from_utf8_lossy(&bytes[at + 5..]).into_owned()
    };
    mine.map(|(.., bytes)| body(bytes)).collect()
}

fn exists(scene: &mut Scene, queue: &str) -> bool {
    let name = Name::from(queue);
    let get = Command::Queue(QueueCommand::Get { name });
    matches!(scene.ask(get), Reply::Queue(_))
}

fn queues(scene: &Scene) -> usize {
    scene.core.queues().count()
}

#[rstest]
#[case("/exchanges/amq.fanout", "/exchanges/amq.fanout", true)]
#[case("/exchanges/amq.fanout/unused", "/exchanges/amq.fanout/k", true)]
#[case("/exchanges/amq.direct", "/exchanges/amq.direct", true)]
#[case("/exchanges/amq.direct/k", "/exchanges/amq.direct/k", true)]
#[case("/exchanges/amq.direct/k", "/exchanges/amq.direct/other", false)]
#[case("/exchanges/amq.topic/a.%23", "/exchanges/amq.topic/a.b.c", true)]
fn an_exchange_as_source_is_a_subscription_that_goes_with_its_link(
    #[case] source: &str,
    #[case] target: &str,
    #[case] comes: bool,
) {
    let mut scene = Scene::new();
    let client = scene.client();
    let (link, answer) = subscribe(&mut scene, client, receiver("in", source)).unwrap();
    assert_eq!(answer.address.as_deref(), Some(source));
    assert_eq!(queues(&scene), 1);
    let publisher = scene.publisher(client, Some(target));
    let outcome = scene.publish(client, publisher, &message(b"m"));
    let expected = if comes { "accepted" } else { "released" };
    assert_eq!(outcome.as_deref(), Some(expected), "no topic is asked for");
    assert_eq!(bodies(&mut scene, client, link).len(), usize::from(comes));
    detach(&mut scene, client, link, false);
    assert_eq!(queues(&scene), 0, "it is gone with its link");
}

#[test]
fn a_source_that_is_an_exchange_that_does_not_exist_is_refused_and_nothing_is_left() {
    let mut scene = Scene::new();
    let client = scene.client();
    let refused = subscribe(&mut scene, client, receiver("in", "/exchanges/none/k"));
    assert_eq!(refused.unwrap_err(), "amqp:not-found");
    assert_eq!(queues(&scene), 0);
}

#[test]
fn every_subscriber_of_a_topic_gets_what_its_selector_wants() {
    let mut scene = Scene::new();
    let client = scene.client();
    let wish = |selector| Wish {
        capabilities: &["topic"],
        selector,
        ..Wish::default()
    };
    let all = subscribe(&mut scene, client, subscriber("all", "news", wish(None)));
    let some = subscriber("some", "news", wish(Some("JMSCorrelationID = 'x'")));
    let (some, answer) = subscribe(&mut scene, client, some).unwrap();
    let filters = answer.filter.as_ref().unwrap();
    assert_eq!(filters.iter().len(), 1);
    let (all, answer) = all.unwrap();
    assert_eq!(answer.capabilities, capabilities(&["topic"]));
    let publisher = topic_publisher(&mut scene, client, "news");
    send(&mut scene, client, publisher, "unwanted by one");
    let came = scene.deliveries(client);
    assert_eq!(came.iter().map(|(on, ..)| *on).collect::<Vec<_>>(), [all]);
    // What a selector does not want is not kept for it.
    detach(&mut scene, client, all, true);
    send(&mut scene, client, publisher, "unwanted by all");
    assert_eq!(scene.core.counters().unheard, 1);
    assert_eq!(bodies(&mut scene, client, some).len(), 0);
    let mut wanted = section(
        0x73,
        &Value::List([vec![Value::Null; 5], vec![Value::string("x")]].concat()),
    );
    wanted.extend(message(b"wanted"));
    scene.publish(client, publisher, &wanted);
    assert_eq!(bodies(&mut scene, client, some), ["wanted"]);
}

#[test]
fn a_subscription_has_an_sql_filter_unless_it_asks_for_the_time() {
    let mut scene = Scene::new();
    let client = scene.client();
    let filtered = |text| {
        let wish = Wish {
            capabilities: &["topic"],
            ..Wish::default()
        };
        let mut attach = subscriber("sql", "news", wish);
        let filter = filter_fields([Filter::Sql(text)].into_iter(), false);
        attach.source.as_mut().unwrap().filter = filter;
        attach
    };
    let late = filtered("p.creation_time < UTC()");
    let refused = subscribe(&mut scene, client, late);
    assert_eq!(refused.unwrap_err(), "amqp:invalid-field");
    assert_eq!(queues(&scene), 0);
    let wanted = filtered("p.correlation_id LIKE 'x%'");
    let (link, answer) = subscribe(&mut scene, client, wanted).unwrap();
    assert_eq!(answer.filter.unwrap().iter().len(), 1);
    let publisher = topic_publisher(&mut scene, client, "news");
    for correlation in ["y", "xy"] {
        let fields = [vec![Value::Null; 5], vec![Value::string(correlation)]];
        let mut sent = section(0x73, &Value::List(fields.concat()));
        sent.extend(message(correlation.as_bytes()));
        scene.publish(client, publisher, &sent);
    }
    assert_eq!(bodies(&mut scene, client, link), ["xy"]);
}

#[test]
fn a_message_to_a_topic_that_nobody_subscribed_to_is_accepted_and_counted() {
    let mut scene = Scene::new();
    let client = scene.client();
    for address in ["news", "/exchanges/amq.topic/news", "/exchanges/amq.fanout"] {
        let publisher = topic_publisher(&mut scene, client, address);
        send(&mut scene, client, publisher, address);
    }
    assert_eq!(scene.core.counters().unheard, 3);
    let publisher = scene.publisher(client, Some("/exchanges/amq.topic/news"));
    let outcome = scene.publish(client, publisher, &message(b"m"));
    assert_eq!(
        outcome.as_deref(),
        Some("released"),
        "no topic is asked for"
    );
    assert_eq!(scene.core.counters().unheard, 3);
}

/// The annotation `x-opt-jms-dest` and a `to`.
fn to_jms(to: &str, kind: i8) -> Vec<u8> {
    let annotations = vec![(Value::symbol("x-opt-jms-dest"), Value::Byte(kind))];
    [
        section(0x72, &Value::Map(annotations)),
        addressed(Some(to), None),
    ]
    .concat()
}

#[test]
fn an_anonymous_relay_takes_a_bare_name_for_a_topic_if_the_message_says_so() {
    let mut scene = Scene::new();
    let client = scene.client();
    let (link, _) = subscribe(&mut scene, client, subscriber("in", "news", DURABLE)).unwrap();
    let relay = scene.publisher(client, None);
    for (to, kind, expected) in [
        ("news", 1, "accepted"),
        ("other", 1, "accepted"),
        ("other", 3, "accepted"),
        ("/exchanges/amq.topic/other", 1, "accepted"),
        ("/exchanges/amq.topic/other", 0, "released"),
        ("news", 0, "rejected amqp:precondition-failed"),
        ("news", 2, "rejected amqp:precondition-failed"),
    ] {
        let outcome = scene.publish(client, relay, &to_jms(to, kind));
        assert_eq!(outcome.as_deref(), Some(expected), "{to} {kind}");
    }
    assert_eq!(bodies(&mut scene, client, link).len(), 1);
    assert_eq!(scene.core.counters().unheard, 3);
}

const OF_ADA: &str = "amq.subscription.ada%2Eb.my%20news";

#[test]
fn a_durable_subscription_outlives_its_link_and_its_connection_until_it_is_closed() {
    let mut scene = Scene::new();
    let (ada, other) = (scene.client_named("ada.b"), scene.client_named("other"));
    let attach = || subscriber("my news", "news", DURABLE);
    let (link, answer) = subscribe(&mut scene, ada, attach()).unwrap();
    assert_eq!(answer.durable, 1);
    assert!(answer.distribution_mode.is_none(), "{answer:?}");
    assert_eq!(answer.expiry_policy, Some(Symbol::from("never")));
    assert!(exists(&mut scene, OF_ADA));
    let publisher = topic_publisher(&mut scene, other, "news");
    detach(&mut scene, ada, link, false);
    send(&mut scene, other, publisher, "missed");
    let (link, _) = subscribe(&mut scene, ada, attach()).unwrap();
    assert_eq!(bodies(&mut scene, ada, link), ["missed"]);

    // The same client id on another connection, after the first is lost.
    scene.clients[ada]
        .gateway
        .handle_disconnect(scene.now, Written::All);
    scene.drive();
    let again = scene.client_named("ada.b");
    let (link, _) = subscribe(&mut scene, again, attach()).unwrap();
    assert_eq!(
        bodies(&mut scene, again, link),
        ["missed"],
        "it was not settled"
    );
    let second = scene.client_named("ada.b");
    let in_use = subscribe(&mut scene, second, known("my news"));
    assert_eq!(in_use.unwrap_err(), "amqp:resource-locked");
    detach(&mut scene, again, link, true);
    assert!(!exists(&mut scene, OF_ADA), "closed: it is gone");
}

#[test]
fn a_durable_subscription_is_told_once_it_is_durable_and_so_is_its_end() {
    let mut scene = Scene::new();
    let client = scene.client();
    scene.durable = Lsn(0);
    scene.drive();
    let attach = subscriber("orders", "t", DURABLE);
    let (link, _) = scene.attach(client, attach);
    let is_answered =
        |event: &Event| matches!(event, Event::AttachAnswered { link: of, .. } if *of == link);
    scene.clients[client].engine.set_credit(link, 1);
    scene.drive();
    assert_eq!(queues(&scene), 1);
    assert!(
        scene.take(client, is_answered).is_none(),
        "told before it is durable"
    );

    scene.durable = Lsn(u64::MAX);
    scene.drive();
    assert!(scene.take(client, is_answered).is_some());
    let to = topic_publisher(&mut scene, client, "t");
    send(&mut scene, client, to, "m");
    assert_eq!(bodies(&mut scene, client, link), ["m"]);

    scene.durable = Lsn(0);
    scene.drive();
    detach(&mut scene, client, link, true);
    assert_eq!(queues(&scene), 0);
    let is_told =
        |event: &Event| matches!(event, Event::DetachAnswered { link: of } if *of == link);
    assert!(
        scene.take(client, is_told).is_none(),
        "told before it is durable"
    );
    // Its name is free for another link at once.
    let (again, _) = scene.attach(client, subscriber("orders", "t", DURABLE));

    scene.durable = Lsn(u64::MAX);
    scene.drive();
    assert!(scene.take(client, is_told).is_some());
    send(&mut scene, client, to, "n");
    scene.clients[client].engine.set_credit(again, 1);
    scene.drive();
    assert_eq!(bodies(&mut scene, client, again), ["n"]);
}

// Qpid JMS unsubscribes so: it attaches without a source and closes.
#[test]
fn a_receiver_without_a_source_gets_the_durable_subscription_of_its_name() {
    let mut scene = Scene::new();
    let client = scene.client_named("ada.b");
    let unknown = subscribe(&mut scene, client, known("my news"));
    assert_eq!(unknown.unwrap_err(), "amqp:not-found");
    let wish = Wish {
        selector: Some("JMSType = 'a'"),
        no_local: true,
        ..DURABLE
    };
    let attach = subscriber("my news", "news/today", wish);
    let (link, _) = subscribe(&mut scene, client, attach).unwrap();
    detach(&mut scene, client, link, false);
    let (link, answer) = subscribe(&mut scene, client, known("my news")).unwrap();
    assert_eq!(
        answer.address.as_deref(),
        Some("/exchanges/amq.topic/news%2Ftoday")
    );
    assert_eq!(answer.durable, 1);
    let filters = answer.filter.as_ref().unwrap();
    assert!(answer.no_local.is_some(), "{answer:?}");
    let kinds: Vec<_> = filters.values().filter_map(filter).collect();
    assert_eq!(kinds, [Filter::Selector("JMSType = 'a'")]);
    detach(&mut scene, client, link, true);
    let unknown = subscribe(&mut scene, client, known("my news"));
    assert_eq!(unknown.unwrap_err(), "amqp:not-found");
    assert_eq!(queues(&scene), 0);
}

#[rstest]
#[case::another_topic("sports", None)]
#[case::another_selector("news", Some("JMSType = 'a'"))]
fn a_durable_subscription_to_something_else_is_made_anew(
    #[case] topic: &str,
    #[case] selector: Option<&'static str>,
) {
    let mut scene = Scene::new();
    let client = scene.client_named("ada.b");
    let (link, _) = subscribe(&mut scene, client, subscriber("my news", "news", DURABLE)).unwrap();
    let changed = || {
        subscriber(
            "my news",
            topic,
            Wish {
                selector,
                ..DURABLE
            },
        )
    };
    let publisher = topic_publisher(&mut scene, client, "news");
    let second = scene.client_named("ada.b");
    let in_use = subscribe(&mut scene, second, changed());
    assert!(in_use.is_err(), "not while it is used");
    detach(&mut scene, client, link, false);
    send(&mut scene, client, publisher, "of the old one");
    let (link, _) = subscribe(&mut scene, second, changed()).unwrap();
    send(&mut scene, client, publisher, "unwanted");
    assert_eq!(bodies(&mut scene, second, link).len(), 0);
    assert_eq!(queues(&scene), 1);
}

#[test]
fn consumers_of_a_shared_subscription_share_it_until_the_last_goes() {
    let mut scene = Scene::new();
    let (first, second) = (scene.client_named("1"), scene.client_named("2"));
    let wish = Wish {
        capabilities: &["topic", "shared", "global"],
        ..Wish::default()
    };
    let attach = |name: &str| subscriber(name, "news", wish);
    let (a, answer) = subscribe(&mut scene, first, attach("s|global-volatile1")).unwrap();
    assert_eq!(answer.capabilities, capabilities(wish.capabilities));
    let (b, _) = subscribe(&mut scene, second, attach("s|global-volatile1")).unwrap();
    assert_eq!(queues(&scene), 1);
    assert!(exists(&mut scene, "amq.subscription-volatile-global.s"));
    let publisher = topic_publisher(&mut scene, first, "news");
    send(&mut scene, first, publisher, "0");
    send(&mut scene, first, publisher, "1");
    let came = (bodies(&mut scene, first, a), bodies(&mut scene, second, b));
    assert_eq!((came.0.len(), came.1.len()), (1, 1));
    // Of one client only: another subscription.
    let own = Wish {
        capabilities: &["topic", "shared"],
        ..wish
    };
    let (own, _) = subscribe(&mut scene, first, subscriber("s|volatile1", "news", own)).unwrap();
    assert!(exists(&mut scene, "amq.subscription-volatile.1.s"));
    detach(&mut scene, first, own, true);
    detach(&mut scene, first, a, true);
    assert_eq!(queues(&scene), 1);
    detach(&mut scene, second, b, true);
    assert_eq!(queues(&scene), 0);
}

#[test]
fn a_shared_durable_subscription_outlives_its_consumers() {
    let mut scene = Scene::new();
    let (first, second) = (scene.client_named("1"), scene.client_named("2"));
    let wish = Wish {
        capabilities: &["topic", "shared", "global"],
        ..DURABLE
    };
    let (a, _) = subscribe(&mut scene, first, subscriber("s|global", "news", wish)).unwrap();
    let (b, _) = subscribe(&mut scene, second, subscriber("s|global2", "news", wish)).unwrap();
    detach(&mut scene, first, a, true);
    assert_eq!(queues(&scene), 1, "another consumer is there");
    let in_use = subscribe(&mut scene, first, known("s|global"));
    assert!(in_use.is_err());
    detach(&mut scene, second, b, false);
    assert!(exists(&mut scene, "amq.subscription-global.s"));
    let (link, answer) = subscribe(&mut scene, first, known("s|global")).unwrap();
    assert_eq!(answer.address.as_deref(), Some("/exchanges/amq.topic/news"));
    detach(&mut scene, first, link, true);
    assert_eq!(queues(&scene), 0);
}

#[test]
fn what_the_same_connection_or_client_publishes_is_left_out_if_it_asks_for_that() {
    let mut scene = Scene::new();
    let (ada, other) = (scene.client_named("ada"), scene.client_named("other"));
    let wish = Wish {
        capabilities: &["topic"],
        no_local: true,
        ..Wish::default()
    };
    let plain = subscriber("plain", "news", wish);
    let (plain, answer) = subscribe(&mut scene, ada, plain).unwrap();
    assert!(answer.no_local.is_some(), "it is in force");
    let to_all = topic_publisher(&mut scene, ada, "news");
    let of_other = topic_publisher(&mut scene, other, "news");
    send(&mut scene, ada, to_all, "own");
    send(&mut scene, other, of_other, "other's");
    assert_eq!(bodies(&mut scene, ada, plain), ["other's"]);
    detach(&mut scene, ada, plain, true);
    let durable = subscriber(
        "durable",
        "news",
        Wish {
            durable: true,
            ..wish
        },
    );
    let (durable, _) = subscribe(&mut scene, ada, durable).unwrap();
    // Another connection of the same client id is the same client.
    let again = scene.client_named("ada");
    let of_again = topic_publisher(&mut scene, again, "news");
    send(&mut scene, again, of_again, "own");
    send(&mut scene, other, of_other, "other's");
    assert_eq!(bodies(&mut scene, ada, durable), ["other's"]);
    // The filter is of subscriptions only: on a queue it is not named in the answer.
    scene.queue("q", &[]);
    let on_queue = subscriber(
        "queue",
        "/queues/q",
        Wish {
            no_local: true,
            ..Wish::default()
        },
    );
    let (_, answer) = subscribe(&mut scene, ada, on_queue).unwrap();
    assert!(answer.no_local.is_none(), "{answer:?}");
}

fn rights(scene: &Scene, [configure, write, read]: [&str; 3]) {
    scene
        .environment
        .change_registry([RegistryFact::PermissionsSet {
            vhost: Name::from(DEFAULT_VHOST),
            user: Name::from("limited"),
            permissions: Permissions::new(configure, write, read).unwrap(),
        }]);
}

#[rstest]
#[case::all(["^amq\\.gen", "^amq\\.gen", "^amq\\."], true)]
#[case::no_declaring(["", "^amq\\.gen", "^amq\\."], false)]
#[case::no_binding(["^amq\\.gen", "", "^amq\\."], false)]
#[case::no_consuming(["^amq\\.gen", "^amq\\.gen", "^amq\\.topic"], false)]
#[case::not_from_the_exchange(["^amq\\.gen", "^amq\\.gen", "^amq\\.gen"], false)]
fn a_subscriber_needs_the_rights_of_declaring_binding_and_consuming(
    #[case] given: [&str; 3],
    #[case] may: bool,
) {
    let mut scene = Scene::new();
    rights(&scene, given);
    let client = scene.client_as("limited", "limited", None);
    let attach = receiver("in", "/exchanges/amq.topic/news");
    let result = subscribe(&mut scene, client, attach).map(|_| ());
    let refused = Err("amqp:unauthorized-access".to_owned());
    assert_eq!(result, if may { Ok(()) } else { refused });
    assert_eq!(queues(&scene), usize::from(may));
}

#[test]
fn a_subscriber_to_a_topic_exchange_needs_the_right_to_read_its_key() {
    let mut scene = Scene::new();
    rights(&scene, [".*", ".*", ".*"]);
    let set = RegistryFact::TopicPermissionsSet {
        vhost: Name::from(DEFAULT_VHOST),
        user: Name::from("limited"),
        exchange: Name::from("amq.topic"),
        permissions: TopicPermissions::new(".*", "^mine", "limited", "/").unwrap(),
    };
    scene.environment.change_registry([set]);
    let client = scene.client_as("limited", "limited", None);
    let attach = |name: &str| receiver(name, &format!("/exchanges/amq.topic/{name}"));
    assert!(subscribe(&mut scene, client, attach("mine.a")).is_ok());
    let refused = subscribe(&mut scene, client, attach("yours"));
    assert_eq!(refused.unwrap_err(), "amqp:unauthorized-access");
    assert_eq!(queues(&scene), 1);
}

#[test]
fn the_name_of_a_subscription_has_a_bound_and_clients_cannot_take_it() {
    let mut scene = Scene::new();
    let client = scene.client_named("c");
    let prefix = "amq.subscription.c.".len();
    let name = |bytes: usize| "n".repeat(bytes - prefix);
    let longest = subscribe(&mut scene, client, subscriber(&name(256), "news", DURABLE));
    assert!(longest.is_ok());
    let longer = subscribe(&mut scene, client, subscriber(&name(257), "news", DURABLE));
    assert_eq!(longer.unwrap_err(), "amqp:invalid-field");
    let taken = scene.ask(Command::Queue(QueueCommand::Declare {
        connection: None,
        name: Name::from("amq.subscription.c.mine"),
        durable: true,
        exclusive: false,
        auto_delete: false,
        arguments: Vec::new(),
    }));
    assert!(matches!(taken, Reply::Refused(_)), "{taken:?}");
}

#[test]
fn a_temporary_topic_goes_with_its_link() {
    let mut scene = Scene::new();
    let (owner, other) = (scene.client_named("owner"), scene.client_named("other"));
    let target = Target {
        dynamic: true,
        capabilities: capabilities(&["temporary-topic"]),
        ..Target::default()
    };
    let made = Attach {
        target: Some(Box::new(TargetArchetype::Target(target))),
        ..sender("temporary", None)
    };
    let (link, result) = scene.attach(owner, made);
    assert_eq!(result, Ok(()));
    let answer = scene.take(owner, |event| matches!(event, Event::AttachAnswered { .. }));
    let Some(Event::AttachAnswered { attach, .. }) = answer else {
        panic!("{answer:?}");
    };
    let Some(TargetArchetype::Target(target)) = attach.target.as_deref() else {
        panic!("{attach:?}");
    };
    let address = target.address.clone().unwrap();
    let wish = Wish {
        capabilities: &["temporary-topic"],
        ..Wish::default()
    };
    let (a, _) = subscribe(&mut scene, owner, subscriber("a", &address, wish)).unwrap();
    send(&mut scene, owner, link, "to itself");
    assert_eq!(bodies(&mut scene, owner, a), ["to itself"]);
    let publisher = scene.publisher(other, Some(&address));
    send(&mut scene, other, publisher, "answer");
    assert_eq!(bodies(&mut scene, owner, a), ["answer"]);
    detach(&mut scene, owner, link, true);
    let gone = subscribe(&mut scene, owner, subscriber("c", &address, wish));
    assert_eq!(gone.unwrap_err(), "amqp:not-found");
}

/// Whoever had the right to configure `amq.gen-...`, which all have that make such topics, could
/// delete and read those of others.
#[test]
fn a_temporary_topic_is_read_and_deleted_by_its_connection_only() {
    let mut scene = Scene::new();
    let (owner, other) = (scene.client_named("owner"), scene.client_named("other"));
    let wish = Wish {
        capabilities: &["temporary-topic"],
        ..Wish::default()
    };
    let mut made = subscriber("temporary", "", wish);
    if let Some(source) = &mut made.source {
        (source.dynamic, source.address) = (true, None);
    }
    let (link, source) = subscribe(&mut scene, owner, made).unwrap();
    let address = source.address.unwrap();
    let refused = subscribe(&mut scene, other, subscriber("thief", &address, wish));
    assert_eq!(refused.unwrap_err(), "amqp:resource-locked");
    scene.queue("mine", &[]);
    let topic = Name::from(address.strip_prefix("/exchanges/").unwrap());
    let of_others = [
        TopologyCommand::ExchangeDelete {
            connection: Some(ConnectionId(u64::MAX)),
            name: topic.clone(),
            if_unused: false,
        },
        TopologyCommand::Bind {
            connection: None,
            source: topic.clone(),
            destination: Destination::Queue(Name::from("mine")),
            key: Name::default(),
            arguments: Vec::new(),
        },
    ];
    for command in of_others {
        let reply = scene.ask(Command::Topology(command));
        let expected = Reply::Refused(CoreError::OtherOwner {
            name: topic.clone(),
        });
        assert_eq!(reply, expected);
    }
    // Request and reply: anybody answers.
    let publisher = scene.publisher(other, Some(&address));
    send(&mut scene, other, publisher, "answer");
    assert_eq!(bodies(&mut scene, owner, link), ["answer"]);
    let now = scene.now;
    scene.clients[owner].engine.close(now, None);
    scene.drive();
    assert!(scene.core.router().exchange_named(&topic).is_none());
}

#[test]
fn a_strict_broker_has_no_subscriptions() {
    let mut scene = Scene::with(GatewayOptions {
        subscriptions: false,
        ..options()
    });
    let client = scene.client();
    for attach in [
        receiver("a", "/exchanges/amq.topic/k"),
        subscriber("b", "news", DURABLE),
        known("c"),
    ] {
        assert!(subscribe(&mut scene, client, attach).is_err());
    }
    assert_eq!(queues(&scene), 0);
}
