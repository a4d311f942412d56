//! What subscriptions take, and what asking them costs.

use std::sync::Arc;

use super::scenario::{CONNECTION, SESSION, Scenario, draft, number, text};
use crate::base::{ConsumerId, Meter, Name};
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
