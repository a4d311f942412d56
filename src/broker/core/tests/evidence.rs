//! Who caused a death, why, and what sent the message on. [evidence part 2]

use std::sync::Arc;

use super::scenario::{CONNECTION, SESSION, Scenario, draft, number, text};
use crate::base::{Name, SessionId};
use crate::broker::*;
use crate::deaths::{Evidence, How, Reason};
use crate::wire::{Value, encode_value};

/// Both kinds of queue arguments: dead letters go to `dlq`.
fn dead_lettering() -> [(&'static str, Value); 2] {
    [
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("dlq")),
    ]
}

/// A consumer with a name, in a session; it has room for 100.
fn consumer(s: &mut Scenario, id: u64, queue: &str, session: SessionId) -> Vec<Delivery> {
    let name = Name::from(format!("container-{id}"));
    let user = Name::from("billing");
    let evidence = Evidence::of_consumer(&name, "link", Some(&user), Some("10.0.3.7:51234"));
    s.consume(id, queue, |consume| {
        consume.session = session;
        consume.evidence = Some(Arc::new(evidence));
    });
    let consumer = crate::base::ConsumerId(id);
    s.credit(consumer, 100);
    s.taken(consumer)
}

/// The evidence of the latest death of the one dead letter.
fn dead_letter(s: &mut Scenario) -> (Reason, Evidence) {
    let dead = s.take(900, "dlq", 10);
    assert_eq!(dead.len(), 1);
    let history = dead[0].message.history().unwrap();
    let evidence = history.latest_evidence().expect("evidence");
    (history.last().reason, evidence.clone())
}

#[test]
fn a_consumer_that_crashes_until_the_limit_is_named_with_the_way_it_went() {
    for (command, how) in [
        (
            Command::SessionEnd {
                session: SessionId(7),
            },
            How::SessionEnded,
        ),
        (
            Command::ConnectionClose {
                connection: crate::base::ConnectionId(7),
            },
            How::ConnectionLost,
        ),
    ] {
        let mut s = Scenario::new();
        s.queue("dlq", &[]);
        let limit = ("x-delivery-limit", number(0));
        s.queue("q", &[&dead_lettering()[..], &[limit]].concat());
        s.publish_all("q", &["a"]);
        s.connect(crate::base::ConnectionId(7), SessionId(7));
        assert_eq!(consumer(&mut s, 1, "q", SessionId(7)).len(), 1);
        s.apply(command);
        let (reason, evidence) = dead_letter(&mut s);
        assert_eq!(reason, Reason::DeliveryLimit);
        assert_eq!(evidence.how, Some(how));
        assert_eq!(evidence.container.as_deref(), Some("container-1"));
        assert_eq!(evidence.user.as_deref(), Some("billing"));
        assert_eq!(evidence.address.as_deref(), Some("10.0.3.7:51234"));
        assert_eq!(evidence.condition, None, "nothing is invented");
    }
}

/// RabbitMQ's clients cannot give an error: its blog has them put the reason into annotations.
#[test]
fn what_a_consumer_says_in_annotations_is_its_error() {
    let annotations = Value::Map(vec![
        (
            Value::symbol("x-opt-dead-letter-category"),
            text("app:schema"),
        ),
        (
            Value::symbol("x-opt-dead-letter-reason"),
            text("price is missing"),
        ),
        (Value::symbol("x-other"), Value::Uint(1)),
    ]);
    let mut encoded = Vec::new();
    encode_value(&annotations, &mut encoded);
    for (undeliverable_here, how, reason) in [
        (true, How::UndeliverableHere, Reason::Rejected),
        (false, How::Failed, Reason::DeliveryLimit),
    ] {
        let mut s = Scenario::new();
        s.queue("dlq", &[]);
        let limit = ("x-delivery-limit", number(0));
        s.queue("q", &[&dead_lettering()[..], &[limit]].concat());
        s.publish_all("q", &["a"]);
        let delivery = consumer(&mut s, 1, "q", SESSION).remove(0);
        let outcome = Outcome::Modified {
            delivery_failed: true,
            undeliverable_here,
            annotations: Some(encoded.clone().into()),
        };
        s.settle(&delivery, outcome);
        let (died, evidence) = dead_letter(&mut s);
        assert_eq!(died, reason);
        assert_eq!(evidence.how, Some(how));
        assert_eq!(evidence.condition.as_deref(), Some("app:schema"));
        assert_eq!(evidence.description.as_deref(), Some("price is missing"));
        assert_eq!(evidence.container.as_deref(), Some("container-1"));
    }
}

fn said(pairs: &[(&str, &str)]) -> bytes::Bytes {
    let pairs = pairs.iter();
    let pairs = pairs.map(|(key, value)| (Value::symbol(*key), text(value)));
    let mut encoded = Vec::new();
    encode_value(&Value::Map(pairs.collect()), &mut encoded);
    encoded.into()
}

/// A returned delivery told nobody why it had failed: the next one who looked at the queue saw a count.
#[test]
fn a_message_that_waits_keeps_its_latest_failure_until_it_dies() {
    let mut s = Scenario::new();
    s.queue("dlq", &[]);
    s.queue("q", &dead_lettering());
    s.publish_all("q", &["a"]);
    let delivery = consumer(&mut s, 1, "q", SESSION).remove(0);
    assert_eq!(delivery.message.last_failure(), None);
    let words = said(&[("x-opt-dead-letter-reason", "try later")]);
    let failed = Outcome::Modified {
        delivery_failed: true,
        undeliverable_here: false,
        annotations: Some(words),
    };
    s.settle(&delivery, failed);
    let delivery = s.taken(crate::base::ConsumerId(1)).remove(0);
    let failure = delivery.message.last_failure().unwrap();
    assert_eq!(failure.at, s.now.wall);
    assert_eq!(failure.evidence.how, Some(How::Failed));
    assert_eq!(failure.evidence.description.as_deref(), Some("try later"));
    assert_eq!(failure.evidence.container.as_deref(), Some("container-1"));
    assert_eq!(failure.evidence.rule, None);

    // What is released did not fail; who is gone with it did.
    s.settle(&delivery, Outcome::Released);
    let delivery = s.taken(crate::base::ConsumerId(1)).remove(0);
    assert!(delivery.message.last_failure().is_some());
    s.detach(crate::base::ConsumerId(1));
    s.connect(crate::base::ConnectionId(7), SessionId(7));
    assert_eq!(consumer(&mut s, 2, "q", SessionId(7)).len(), 1);
    s.pass(10);
    s.apply(Command::ConnectionClose {
        connection: crate::base::ConnectionId(7),
    });
    let delivery = consumer(&mut s, 3, "q", SESSION).remove(0);
    let failure = delivery.message.last_failure().unwrap();
    assert_eq!(failure.evidence.how, Some(How::ConnectionLost));
    assert_eq!(failure.evidence.container.as_deref(), Some("container-2"));
    assert_eq!(failure.at, s.now.wall);

    s.reject(&delivery);
    let dead = s.take(900, "dlq", 10).remove(0);
    assert_eq!(dead.message.last_failure(), None, "it is in the history");
}

#[test]
fn what_one_connection_failed_shares_its_evidence_and_is_counted_once() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    let bodies: Vec<String> = (0..300).map(|number| number.to_string()).collect();
    for body in &bodies {
        s.publish_all("q", &[body]);
    }
    s.connect(crate::base::ConnectionId(7), SessionId(7));
    consumer(&mut s, 1, "q", SessionId(7));
    s.credit(crate::base::ConsumerId(1), 400);
    let before = s.core.memory().shared_bytes;
    let records = s.records.len();
    s.apply(Command::ConnectionClose {
        connection: crate::base::ConnectionId(7),
    });
    s.pass(1);
    let taken = s.take(900, "q", 400);
    assert_eq!(taken.len(), 300);
    let evidence = |delivery: &Delivery| {
        let failure = delivery.message.last_failure().unwrap();
        Arc::as_ptr(&failure.evidence)
    };
    let one: std::collections::BTreeSet<_> = taken.iter().map(evidence).collect();
    assert_eq!(one.len(), 1, "all share it");
    let after = s.core.memory().shared_bytes;
    assert!((1..1_000).contains(&(after - before)), "{before} {after}");
    // As many records as before failures were kept: each has what it returns and how it failed.
    assert!(
        s.records.len() - records <= 8,
        "{}",
        s.records.len() - records
    );
}

#[test]
fn who_returned_a_message_does_not_make_it_expire() {
    let mut s = Scenario::new();
    s.queue("dlq", &[]);
    s.queue("q", &dead_lettering());
    s.publish("q", &draft("a").ttl(100));
    let delivery = consumer(&mut s, 1, "q", SESSION).remove(0);
    s.pass(200);
    s.fail(&delivery);
    let (reason, evidence) = dead_letter(&mut s);
    assert_eq!(reason, Reason::Expired);
    let rule = Evidence {
        rule: Some(Name::from("argument")),
        ..Evidence::default()
    };
    assert_eq!(evidence, rule);
}

#[test]
fn the_rule_is_what_named_the_dead_letter_exchange_when_it_died() {
    let mut s = Scenario::new();
    s.queue("dlq", &[]);
    s.queue("q", &[]);
    let to_default = [
        ("dead-letter-exchange", text("")),
        ("dead-letter-routing-key", text("dlq")),
    ];
    s.policy("DLX", "^q$", &to_default);
    s.publish_all("q", &["a"]);
    let delivery = consumer(&mut s, 1, "q", SESSION).remove(0);
    s.reject(&delivery);
    let (_, evidence) = dead_letter(&mut s);
    assert_eq!(evidence.rule.as_deref(), Some("policy DLX"));

    let mut s = Scenario::new();
    s.queue("dlq", &[]);
    s.queue("q", &dead_lettering());
    s.set_policy(true, "all", ("^q$", "queues"), &to_default);
    s.publish_all("q", &["a"]);
    let delivery = consumer(&mut s, 1, "q", SESSION).remove(0);
    s.reject(&delivery);
    let (_, evidence) = dead_letter(&mut s);
    assert_eq!(evidence.rule.as_deref(), Some("operator-policy all"));
}

#[test]
fn a_headers_exchange_routes_by_the_condition_of_this_death() {
    let mut s = Scenario::new();
    s.exchange("dlx", "headers");
    s.queue("dlq", &[]);
    s.queue("rest", &[]);
    for (queue, condition) in [("dlq", "app:timeout"), ("rest", "app:schema")] {
        let arguments = vec![
            (Name::from("x-match"), text("any-with-x")),
            (Name::from("x-opt-last-death-condition"), text(condition)),
        ];
        s.apply(Command::Topology(TopologyCommand::Bind {
            connection: Some(CONNECTION),
            source: Name::from("dlx"),
            destination: Destination::Queue(Name::from(queue)),
            key: Name::default(),
            arguments,
        }));
    }
    s.queue("q", &[("x-dead-letter-exchange", text("dlx"))]);
    s.publish_all("q", &["a"]);
    let delivery = consumer(&mut s, 1, "q", SESSION).remove(0);
    let who = Evidence::of_consumer(&Name::from("c"), "l", None, None);
    let evidence = Some(Arc::new(who.with_error("app:timeout", None, None)));
    s.settle(&delivery, Outcome::Rejected { evidence });
    assert_eq!(s.counts("dlq").0, 1);
    assert_eq!(s.counts("rest").0, 0);
}
