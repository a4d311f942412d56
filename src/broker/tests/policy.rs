//! Policies: what they refuse, which one applies, and what a queue ends up with.

use super::*;
use crate::broker::arguments::QueueProperties;

fn string(text: &str) -> Value {
    Value::String(text.to_owned())
}

fn named(pairs: &[(&str, Value)]) -> Vec<(Name, Value)> {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| (Name::from(*key), value.clone()))
        .collect()
}

fn policy(
    operator: bool,
    (name, pattern, priority, apply_to): (&str, &str, i64, &str),
    definition: &[(&str, Value)],
) -> Result<Policy, Error> {
    Policy::new(
        operator,
        PolicySpec {
            name: Name::from(name),
            pattern,
            priority,
            apply_to,
            definition: named(definition),
        },
    )
}

fn arguments(given: &[(&str, Value)]) -> QueueArguments {
    let properties = QueueProperties {
        durable: true,
        exclusive: false,
        auto_delete: false,
    };
    QueueArguments::parse(&Name::from("q"), properties, &named(given)).unwrap()
}

fn settings(
    argument: &[(&str, Value)],
    user: &[(&str, Value)],
    operator: &[(&str, Value)],
) -> EffectiveSettings {
    let mut policies = Policies::default();
    for (is_operator, definition) in [(false, user), (true, operator)] {
        if !definition.is_empty() {
            let policy = policy(is_operator, ("p", "^q$", 0, "queues"), definition).unwrap();
            assert!(policies.set(is_operator, policy));
        }
    }
    policies.settings("q", &arguments(argument))
}

#[test]
fn argument_beats_policy_key_by_key() {
    let by_policy = [
        ("dead-letter-exchange", string("px")),
        ("dead-letter-routing-key", string("pk")),
        ("overflow", string("reject-publish")),
    ];
    let settings = settings(&[("x-dead-letter-exchange", string("ax"))], &by_policy, &[]);
    assert_eq!(settings.dead_letter_exchange, Some(Name::from("ax")));
    assert_eq!(settings.dead_letter_routing_key, Some(Name::from("pk")));
    assert_eq!(settings.overflow, Overflow::RejectPublish);
    assert_eq!(
        settings.dead_letter_strategy,
        DeadLetterStrategy::AtMostOnce
    );
}

#[test]
fn the_smallest_limit_counts() {
    let check = |argument: Option<u64>, user: Option<u64>, operator: Option<u64>, expect| {
        let one = |key: &'static str, value: Option<u64>| {
            value
                .map(|n| (key, Value::Ulong(n)))
                .into_iter()
                .collect::<Vec<_>>()
        };
        let found = settings(
            &one("x-max-length", argument),
            &one("max-length", user),
            &one("max-length", operator),
        );
        assert_eq!(found.max_length, expect);
    };
    check(Some(3), Some(1), None, Some(1));
    check(Some(1), Some(3), None, Some(1));
    check(Some(3), Some(2), Some(0), Some(0));
    check(None, None, Some(7), Some(7));
    check(None, None, None, None);
}

#[test]
fn a_negative_delivery_limit_only_counts_without_another() {
    use QueueType::{Classic, Quorum};
    let check = |queue_type, given, expect| {
        assert_eq!(delivery_limit(queue_type, given), expect, "{given:?}");
    };
    check(Quorum, [None, None, None], Some(20));
    check(Classic, [None, None, None], None);
    check(Quorum, [Some(-1), None, None], None);
    check(Quorum, [Some(-1), Some(-5), None], None);
    check(Quorum, [Some(-1), Some(3), None], Some(3));
    check(Quorum, [Some(5), Some(-1), None], Some(5));
    check(Quorum, [Some(5), Some(1), None], Some(1));
    check(Quorum, [None, None, Some(0)], Some(0));
    check(Classic, [Some(i64::MAX), None, None], Some(u32::MAX));
}

#[test]
fn the_highest_priority_that_matches_applies() {
    let mut policies = Policies::default();
    for (name, pattern, priority, apply_to, ttl) in [
        ("a", "^q", 1, "queues", 1),
        ("b", "^q", 5, "classic_queues", 2),
        ("c", "^q", 9, "quorum_queues", 3),
        ("d", "^other", 99, "all", 4),
        ("e", "q", 99, "exchanges", 5),
    ] {
        let definition = [("message-ttl", Value::Int(ttl))];
        let policy = policy(false, (name, pattern, priority, apply_to), &definition).unwrap();
        policies.set(false, policy);
    }
    let found = |queue_type| {
        policies
            .of_queue(false, "q1", queue_type)
            .unwrap()
            .name
            .clone()
    };
    assert_eq!(found(QueueType::Classic), "b");
    assert_eq!(found(QueueType::Quorum), "c");
    assert_eq!(policies.of_exchange("q1").unwrap().name, "e");
    assert!(policies.of_queue(false, "z", QueueType::Classic).is_none());
    assert!(policies.of_queue(true, "q1", QueueType::Classic).is_none());
    assert!(policies.delete(false, &Name::from("b")).is_some());
    assert!(policies.delete(false, &Name::from("b")).is_none());
    assert_eq!(
        policies
            .of_queue(false, "q1", QueueType::Classic)
            .unwrap()
            .name,
        "a"
    );
}

#[test]
fn bad_policies_are_refused_by_the_name_of_what_is_wrong() {
    let ttl = [("message-ttl", Value::Int(1))];
    let check = |operator, head, definition: &[(&str, Value)], expect: &str| match policy(
        operator, head, definition,
    ) {
        Err(Error::BadArgument { argument, .. }) => assert_eq!(argument, expect),
        other => panic!("{head:?} {other:?}"),
    };
    check(false, ("p", "(", 0, "all"), &ttl, "pattern");
    check(false, ("p", "", 0, "streams"), &ttl, "apply-to");
    check(false, ("", "", 0, "all"), &ttl, "name");
    check(false, ("p", "", 0, "all"), &[], "definition");
    check(
        false,
        ("p", "", 0, "all"),
        &[("ha-mode", string("all"))],
        "ha-mode",
    );
    check(
        false,
        ("p", "", 0, "all"),
        &[("expires", Value::Int(0))],
        "expires",
    );
    let exchange = [("dead-letter-exchange", string("x"))];
    assert!(policy(false, ("p", "", 0, "all"), &exchange).is_ok());
    check(true, ("p", "", 0, "all"), &exchange, "dead-letter-exchange");
}
