//! Policies: what they refuse, which one applies, and what a queue ends up with.

use super::*;
use crate::broker::arguments::QueueProperties;
use crate::broker::definition::Subject;

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
    check(false, ("p", "", 0, "topics"), &ttl, "apply-to");
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
    let alternate = [("alternate-exchange", string("x"))];
    check(true, ("p", "", 0, "all"), &alternate, "alternate-exchange");
}

/// The refusals that RabbitMQ 4.0.5 gives, word for word what follows "is not a valid".
#[test]
fn each_key_takes_what_rabbitmq_takes_and_is_named_with_what_it_is() {
    let good = |key: &str, value: Value| {
        let made = policy(false, ("p", "", 0, "all"), &[(key, value.clone())]);
        assert!(made.is_ok(), "{key} {value:?} {made:?}");
    };
    let bad = |key: &str, value: Value, noun: &str| {
        let made = policy(false, ("p", "", 0, "all"), &[(key, value.clone())]);
        let why = made
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        assert!(why.contains(&format!("'{key}'")), "{key} {value:?}: {why}");
        assert!(why.contains(&format!("not a valid {noun}: ")), "{why}");
    };
    let (text, number) = (string("x"), Value::Long(1));
    for (key, noun) in [
        ("dead-letter-exchange", "dead letter exchange name"),
        ("dead-letter-routing-key", "dead letter routing key"),
        ("alternate-exchange", "alternate exchange name"),
    ] {
        good(key, text.clone());
        good(key, string(""));
        bad(key, number.clone(), noun);
    }
    for (key, noun, least) in [
        ("message-ttl", "message TTL", 0),
        ("expires", "queue expiry", 1),
        ("max-length", "maximum length", 0),
        ("max-length-bytes", "maximum length in bytes", 0),
        ("consumer-timeout", "consumer timeout", 0),
        ("target-group-size", "qq target count value", 0),
    ] {
        good(key, Value::Long(least));
        good(key, Value::Ulong(99_999_999_999_999));
        bad(key, Value::Long(least - 1), noun);
        bad(key, Value::Double(1.5_f64.to_bits()), noun);
        bad(key, text.clone(), noun);
    }
    good("poison-isolation", Value::Bool(true));
    let noun = "choice of poison isolation";
    bad("poison-isolation", text.clone(), noun);
    good("delivery-limit", Value::Long(-1));
    bad("delivery-limit", text.clone(), "delivery limit");
    for (key, noun, word) in [
        (
            "dead-letter-strategy",
            "dead letter strategy",
            "at-least-once",
        ),
        ("overflow", "overflow value", "reject-publish-dlx"),
        ("queue-mode", "queue-mode value", "lazy"),
        (
            "queue-leader-locator",
            "queue leader locator value",
            "balanced",
        ),
        ("queue-master-locator", "master locator", "min-masters"),
        ("max-age", "max age", "7D"),
    ] {
        good(key, string(word));
        bad(key, text.clone(), noun);
        bad(key, number.clone(), noun);
    }
    good("queue-version", Value::Long(2));
    bad("queue-version", Value::Long(3), "queue-version value");
}

#[test]
fn unknown_keys_are_refused_by_name() {
    let number = Value::Long(1);
    for key in [
        "nonsense",
        "ha-mode",
        "max-priority",
        "x-max-length",
        "federation-upstream-set",
    ] {
        let made = policy(false, ("p", "", 0, "all"), &[(key, number.clone())]);
        let why = made
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        assert!(why.contains(&format!("'{key}'")), "{why}");
        assert!(why.contains("not a recognised policy setting"), "{why}");
    }
}

#[test]
fn a_ttl_beyond_what_arguments_may_say_is_taken_as_the_longest_one() {
    let found = settings(&[], &[("message-ttl", Value::Ulong(u64::MAX))], &[]);
    assert_eq!(
        found.message_ttl_ms,
        Some(crate::broker::arguments::DURATION_MS_MAX)
    );
}

#[test]
fn an_operator_policy_imposes_its_dead_letter_keys_key_by_key() {
    let found = settings(
        &[
            ("x-dead-letter-exchange", string("ax")),
            ("x-dead-letter-routing-key", string("ak")),
        ],
        &[("dead-letter-strategy", string("at-most-once"))],
        &[
            ("dead-letter-exchange", string("ox")),
            ("dead-letter-strategy", string("at-least-once")),
        ],
    );
    assert_eq!(found.dead_letter_exchange, Some(Name::from("ox")));
    assert_eq!(found.dead_letter_routing_key, Some(Name::from("ak")));
    assert_eq!(found.dead_letter_strategy, DeadLetterStrategy::AtLeastOnce);
}

#[test]
fn operator_policies_take_what_rabbitmq_gives_them_and_dead_letter_keys() {
    let expect = [
        "dead-letter-exchange",
        "dead-letter-routing-key",
        "dead-letter-strategy",
        "delayed-retry-jitter",
        "delayed-retry-max",
        "delayed-retry-min",
        "delayed-retry-multiplier",
        "delayed-retry-type",
        "delivery-limit",
        "expires",
        "max-in-memory-bytes",
        "max-in-memory-length",
        "max-length",
        "max-length-bytes",
        "message-ttl",
        "on-undeliverable",
        "overflow",
        "queue-version",
        "target-group-size",
    ];
    let taken = crate::broker::definition::KEYS
        .iter()
        .filter(|key| key.operator);
    assert_eq!(taken.map(|key| key.name).collect::<Vec<_>>(), expect);
}

#[test]
fn a_policy_that_delays_names_its_shortest_delay_and_no_longest_below_it() {
    let refused =
        |definition: &[(&str, Value)]| match policy(false, ("p", "", 0, "queues"), definition) {
            Err(Error::BadArgument { argument, why, .. }) => (argument.to_string(), why),
            other => panic!("{other:?}"),
        };
    let kind = ("delayed-retry-type", Value::string("all"));
    let min = |ms| ("delayed-retry-min", Value::Uint(ms));
    let (key, why) = refused(std::slice::from_ref(&kind));
    assert_eq!(key, "delayed-retry-type");
    assert!(why.contains("needs the key delayed-retry-min"), "{why}");
    let max = ("delayed-retry-max", Value::Uint(9));
    let (key, why) = refused(&[kind.clone(), min(10), max]);
    assert_eq!(key, "delayed-retry-max");
    assert!(why.contains("which is 10, and is 9"), "{why}");
    assert!(policy(false, ("p", "", 0, "queues"), &[kind, min(10)]).is_ok());
    let off = ("delayed-retry-type", Value::string("disabled"));
    assert!(policy(true, ("p", "", 0, "queues"), &[off]).is_ok());
}

#[test]
fn a_policy_for_streams_matches_nothing() {
    let mut policies = Policies::default();
    let ttl = [("message-ttl", Value::Int(1))];
    policies.set(false, policy(false, ("p", "", 0, "streams"), &ttl).unwrap());
    for queue_type in [QueueType::Classic, QueueType::Quorum] {
        assert!(policies.of_queue(false, "q", queue_type).is_none());
    }
    assert!(policies.of_exchange("q").is_none());
}

#[test]
fn the_page_of_policies_lists_every_key_as_it_is() {
    let page = include_str!("../../../docs/POLICIES.md");
    for key in crate::broker::definition::KEYS {
        let name = format!("`{}`", key.name);
        let row = page
            .lines()
            .find(|line| line.starts_with("| `") && line.contains(&name));
        let cells: Vec<_> = row.expect(key.name).split(" | ").collect();
        let subject = match key.subject {
            Subject::Queues => "queues",
            Subject::Exchanges => "exchanges",
            Subject::Nothing => "nothing here",
        };
        assert_eq!(cells[1], subject, "{name}");
        assert_eq!(cells[2].trim() == "yes", key.operator, "{name}");
    }
}

/// Listings copied all policies, with what they say, under the lock.
#[test]
fn a_copy_shares_the_policies_and_does_not_see_later_changes() {
    let mut policies = Policies::default();
    let ttl = [("message-ttl", Value::Ulong(5))];
    let one = |name| policy(false, (name, "^q$", 0, "queues"), &ttl).unwrap();
    assert!(policies.set(false, one("p")));
    let copy = policies.clone();
    assert!(policies.set(false, one("other")));
    let name = Name::from("p");
    let (here, there) = (policies.get(false, &name), copy.get(false, &name));
    assert!(Arc::ptr_eq(here.unwrap(), there.unwrap()));
    assert!(policies.delete(false, &name).is_some());
    assert_eq!((policies.count(false), copy.count(false)), (1, 1));
    assert!(copy.get(false, &name).is_some());
}
