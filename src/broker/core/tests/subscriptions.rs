//! What subscriptions take, and what asking them costs.

use std::sync::Arc;

use super::scenario::{CONNECTION, SESSION, Scenario, draft, number, text};
use crate::base::{ConsumerId, Meter, Name, Seed};
use crate::broker::subscription::{Lifetime, Subscribe, Topic};
use crate::broker::*;
use crate::filter::Selector;

/// Subscribes to `news` of the topic exchange, with a selector.
fn subscribe(s: &mut Scenario, id: u64, selector: &str) -> Reply {
    let consume = Consume {
        connection: CONNECTION,
        session: SESSION,
        consumer: ConsumerId(id),
        queue: Name::from(format!("amq.gen-{id}").as_str()),
        settled: false,
        priority: 0,
        exclusive: false,
        passing: false,
        selector: Some(Arc::new(Selector::parse(selector).unwrap())),
        timeout_ms: None,
        evidence: None,
        recovery: None,
    };
    let topic = Topic {
        exchange: Name::from("amq.topic"),
        key: Name::from("news"),
        ..Topic::default()
    };
    s.apply(Command::Subscribe(Box::new(Subscribe {
        consume,
        lifetime: Lifetime::Link,
        shared: false,
        client: Name::default(),
        topic: Some(topic),
    })))
}

/// The estimated time of publishing one message to the topic, and what became of it.
fn publish(s: &mut Scenario) -> (u64, PublishOutcome) {
    s.effects.meter = Meter::new(s.core.hold_budget());
    let outcome = s.publish_to("amq.topic", "news", &draft("m"));
    (s.effects.meter.spent_ns(), outcome)
}

#[test]
fn filters_that_say_no_are_charged() {
    let mut s = Scenario::new();
    let mut spent = Vec::new();
    for id in 1..=200 {
        let reply = subscribe(&mut s, id, "JMSType = 'other' OR JMSType = 'another'");
        assert!(matches!(reply, Reply::Subscribed { created: true, .. }));
        if id == 100 || id == 200 {
            let (spent_ns, outcome) = publish(&mut s);
            assert_eq!(outcome, PublishOutcome::Unroutable);
            spent.push(spent_ns);
        }
    }
    let (few, many) = (spent[0], spent[1]);
    assert!(few > 100 * 10, "each costs something: {few} ns");
    assert!(
        many > few + few / 2,
        "so more cost more: {few} and {many} ns"
    );
}

#[test]
fn a_subscription_that_an_operator_declares_takes_what_its_filter_wants() {
    let mut s = Scenario::new();
    let name = Name::from("amq.subscription.ada.news");
    let declare = |further: (&str, crate::wire::Value), connection| {
        let arguments = [
            ("x-subscription-exchange", text("amq.topic")),
            ("x-subscription-key", text("news")),
            further,
        ];
        let owned = arguments.map(|(name, value)| (Name::from(name), value));
        Command::Queue(QueueCommand::Declare {
            connection,
            name: name.clone(),
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments: owned.to_vec(),
        })
    };
    let selector = |wanted: &str| ("x-subscription-selector", text(wanted));
    // Not for clients: they subscribe.
    let of_client = s.apply(declare(selector("JMSType = 'red'"), Some(CONNECTION)));
    assert!(matches!(of_client, Reply::Refused(Error::Reserved { .. })));
    for wrong in [
        selector("JMSType ="),
        ("x-subscription-selector", number(1)),
    ] {
        let refused = s.apply(declare(wrong, None));
        assert!(
            matches!(refused, Reply::Refused(Error::BadArgument { .. })),
            "{refused:?}"
        );
    }
    let declared = s.apply(declare(selector("JMSPriority = 7"), None));
    assert!(
        matches!(declared, Reply::QueueDeclared { created: true, .. }),
        "{declared:?}"
    );
    s.bind("amq.topic", &name, "news");
    let mut message = draft("m");
    assert_eq!(
        s.publish_to("amq.topic", "news", &message),
        PublishOutcome::Unroutable
    );
    message.priority = Some(7);
    assert_eq!(
        s.publish_to("amq.topic", "news", &message),
        PublishOutcome::Accepted
    );
}

/// It took everything and nobody was told. It still does, as what its subscriber wanted would be
/// lost for good otherwise; which one it is, and why, can be told.
#[test]
fn a_restored_subscription_whose_filter_does_not_compile_takes_all_messages_and_is_named() {
    let mut s = Scenario::new();
    for (name, wanted) in [("ada", "JMSType = 'red'"), ("bob", "JMSPriority = 7")] {
        let queue = Name::from(format!("amq.subscription.{name}.news").as_str());
        let arguments = [
            ("x-subscription-exchange", text("amq.topic")),
            ("x-subscription-key", text("news")),
            ("x-subscription-selector", text(wanted)),
        ];
        let owned = arguments.map(|(name, value)| (Name::from(name), value));
        s.apply(Command::Queue(QueueCommand::Declare {
            connection: None,
            name: queue.clone(),
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments: owned.to_vec(),
        }));
        s.bind("amq.topic", &queue, "news");
    }
    let options = CoreOptions::new(Name::from("/"), Seed(3));
    let mut restoring = Restoring::new(options, s.now, s.now.wall, 0);
    for mut record in s.records.clone() {
        for fact in &mut record.facts {
            if let Fact::Topology(TopologyFact::QueueDeclared {
                name, arguments, ..
            }) = fact
                && name.contains("ada")
            {
                arguments[2].1 = text("JMSType =");
            }
        }
        restoring.record(&record);
    }
    let broken = restoring.broken_filters();
    let broken: Vec<_> = broken
        .map(|(queue, (filter, error))| format!("{queue}: {filter}: {error}"))
        .collect();
    let expected = "amq.subscription.ada.news: selector: ";
    assert!(
        broken.len() == 1 && broken[0].starts_with(expected),
        "{broken:?}"
    );
    s.core = restoring.finish();
    s.publish_to("amq.topic", "news", &draft("m"));
    let queues = s.core.queues_after(None, 10).into_iter();
    let ready: Vec<_> = queues.map(|queue| queue.messages_ready).collect();
    assert_eq!(ready, [1, 0], "of ada and bob");
}

/// Attaches to the durable subscription `amq.subscription.ada.s`, alone.
fn attach(s: &mut Scenario, id: u64, exchange: &str, key: &str) -> Reply {
    let consume = Consume {
        connection: CONNECTION,
        session: SESSION,
        consumer: ConsumerId(id),
        queue: Name::from(DURABLE),
        settled: false,
        priority: 0,
        exclusive: true,
        passing: false,
        selector: None,
        timeout_ms: None,
        evidence: None,
        recovery: None,
    };
    let topic = Topic {
        exchange: Name::from(exchange),
        key: Name::from(key),
        ..Topic::default()
    };
    s.apply(Command::Subscribe(Box::new(Subscribe {
        consume,
        lifetime: Lifetime::Durable,
        shared: false,
        client: Name::from("ada"),
        topic: Some(topic),
    })))
}

const DURABLE: &str = "amq.subscription.ada.s";

/// Its messages were gone with it, for an attach that was refused.
#[test]
fn a_durable_subscription_that_cannot_be_made_anew_keeps_what_it_has() {
    let mut s = Scenario::new();
    s.exchange("random", "x-local-random");
    let settings = |queues_max, kind: Option<&str>| {
        Command::Upkeep(UpkeepCommand::VhostSettings {
            queues_max,
            default_queue_type: kind.map(Name::from),
        })
    };
    let made = attach(&mut s, 1, "amq.topic", "news");
    assert!(
        matches!(made, Reply::Subscribed { created: true, .. }),
        "{made:?}"
    );
    s.detach(ConsumerId(1));
    let mut ready = 0;
    for (what, exchange, key, queues_max, kind) in [
        ("a random exchange takes no key", "random", "k", None, None),
        ("and no quorum queue", "random", "", None, Some("quorum")),
        ("the default exchange is not bound", "", "k", None, None),
        ("no exchange", "missing", "k", None, None),
        ("the limit was lowered", "amq.topic", "other", Some(0), None),
    ] {
        s.apply(settings(queues_max, kind));
        assert_eq!(
            s.publish_to("amq.topic", "news", &draft("m")),
            PublishOutcome::Accepted
        );
        ready += 1;
        let refused = attach(&mut s, 2, exchange, key);
        assert!(matches!(refused, Reply::Refused(_)), "{what}: {refused:?}");
        assert_eq!(s.counts(DURABLE), (ready, 0, 0), "{what}");
    }
    // In its own place there is room for it.
    s.apply(settings(Some(1), None));
    let other = attach(&mut s, 2, "amq.topic", "other");
    assert!(
        matches!(other, Reply::Subscribed { created: true, .. }),
        "{other:?}"
    );
    assert_eq!(s.counts(DURABLE), (0, 0, 0));
}

#[test]
fn a_durable_subscription_outlives_the_refusal_of_a_second_consumer_with_what_it_has() {
    let mut s = Scenario::new();
    attach(&mut s, 1, "amq.topic", "news");
    s.publish_to("amq.topic", "news", &draft("m"));
    for key in ["news", "other"] {
        let refused = attach(&mut s, 2, "amq.topic", key);
        assert!(
            matches!(refused, Reply::Refused(Error::InUse { .. })),
            "{refused:?}"
        );
        assert_eq!(s.counts(DURABLE), (1, 0, 0), "{key}");
    }
    s.detach(ConsumerId(1));
    let again = attach(&mut s, 2, "amq.topic", "news");
    assert!(
        matches!(again, Reply::Subscribed { created: false, .. }),
        "{again:?}"
    );
    assert_eq!(s.counts(DURABLE), (1, 0, 0));
}

#[test]
fn a_subscription_that_cannot_be_bound_leaves_no_queue() {
    let mut s = Scenario::new();
    s.exchange("random", "x-local-random");
    let refused = attach(&mut s, 1, "random", "k");
    assert!(
        matches!(refused, Reply::Refused(Error::BadRequest { .. })),
        "{refused:?}"
    );
    assert!(s.core.queue(DURABLE).is_none());
    let made = attach(&mut s, 1, "random", "");
    assert!(
        matches!(made, Reply::Subscribed { created: true, .. }),
        "{made:?}"
    );
}
