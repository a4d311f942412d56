//! The arguments of queues, rule by rule.

use super::*;

const DURABLE: QueueProperties = QueueProperties {
    durable: true,
    exclusive: false,
    auto_delete: false,
};

fn string(text: &str) -> Value {
    Value::String(text.to_owned())
}

fn arguments(given: &[(&str, Value)]) -> Vec<(Name, Value)> {
    given
        .iter()
        .map(|(name, value)| (Name::from(*name), value.clone()))
        .collect()
}

fn parse(given: &[(&str, Value)]) -> Result<QueueArguments, Error> {
    QueueArguments::parse(&Name::from("q"), DURABLE, &arguments(given))
}

#[test]
fn each_argument_has_its_type_and_range() {
    let good = |argument: &str, value: Value| {
        let parsed = parse(&[(argument, value.clone())]);
        assert!(parsed.is_ok(), "{argument} {value:?} {parsed:?}");
    };
    let bad = |argument: &str, value: Value| match parse(&[(argument, value.clone())]) {
        Err(Error::BadArgument {
            argument: named, ..
        }) => assert_eq!(named, argument),
        other => panic!("{argument} {value:?} {other:?}"),
    };
    good("x-message-ttl", Value::Int(0));
    good("x-message-ttl", Value::Ulong(DURATION_MS_MAX));
    bad("x-message-ttl", Value::Ulong(DURATION_MS_MAX + 1));
    bad("x-message-ttl", Value::Int(-1));
    bad("x-message-ttl", string("10"));
    good("x-expires", Value::Ubyte(1));
    bad("x-expires", Value::Ubyte(0));
    good("x-max-length", Value::Ulong(u64::MAX));
    bad("x-max-length", Value::Double(1.0_f64.to_bits()));
    bad("x-max-length-bytes", Value::Long(-1));
    good("x-delivery-limit", Value::Long(-1));
    bad("x-delivery-limit", Value::Ulong(u64::MAX));
    good("x-max-priority", Value::Uint(255));
    bad("x-max-priority", Value::Uint(256));
    good("x-single-active-consumer", Value::Bool(true));
    bad("x-single-active-consumer", string("true"));
    good("x-overflow", Value::Symbol("reject-publish-dlx".to_owned()));
    bad("x-overflow", string("explode"));
    good("x-dead-letter-strategy", string("at-least-once"));
    bad("x-dead-letter-strategy", string("maybe"));
    bad("x-dead-letter-routing-key", string("k"));
    bad("x-dead-letter-exchange", string(&"n".repeat(257)));
    bad("x-queue-type", string("stream"));
    bad("x-queue-type", string("nope"));
    bad("x-queue-type", Value::Uint(1));
    good("x-delayed-retry-min", Value::Uint(1));
    bad("x-delayed-retry-min", Value::Uint(0));
    good("x-delayed-retry-type", string("failed"));
    bad("x-delayed-retry-type", string("always"));
    good(
        "x-delayed-retry-multiplier",
        Value::Double(1.5_f64.to_bits()),
    );
    bad("x-delayed-retry-multiplier", Value::Uint(101));
    good("x-delayed-retry-jitter", Value::Ubyte(100));
    bad("x-delayed-retry-jitter", Value::Ubyte(101));
    bad("x-max-age", string("1D"));
    good("x-queue-leader-locator", string("balanced"));
    good("x-whatever", Value::Null);
}

#[test]
fn what_cannot_be_understood_is_a_bad_request() {
    let refused = parse(&[("x-dead-letter-exchange", Value::Uint(1))]);
    assert!(
        matches!(refused, Err(Error::BadRequest { .. })),
        "{refused:?}"
    );
    let quorum = arguments(&[("x-queue-type", string("quorum"))]);
    for properties in [
        QueueProperties {
            durable: false,
            ..DURABLE
        },
        QueueProperties {
            exclusive: true,
            ..DURABLE
        },
        QueueProperties {
            auto_delete: true,
            ..DURABLE
        },
    ] {
        let refused = QueueArguments::parse(&Name::from("q"), properties, &quorum);
        assert!(
            matches!(refused, Err(Error::BadRequest { .. })),
            "{refused:?}"
        );
    }
}

#[test]
fn what_the_type_does_not_take_is_refused_by_name() {
    let quorum = ("x-queue-type", string("quorum"));
    let refused = parse(&[quorum.clone(), ("x-max-priority", Value::Uint(5))]);
    assert!(
        matches!(refused, Err(Error::BadArgument { argument, .. }) if argument == "x-max-priority")
    );
    assert!(parse(&[quorum, ("x-quorum-initial-group-size", Value::Uint(3))]).is_ok());
    assert!(parse(&[("x-quorum-initial-group-size", Value::Uint(3))]).is_err());
}

#[test]
fn every_type_takes_delivery_limit_and_strategy() {
    let parsed = parse(&[
        ("x-delivery-limit", Value::Uint(3)),
        ("x-dead-letter-strategy", string("at-least-once")),
    ])
    .unwrap();
    assert_eq!(parsed.delivery_limit, Some(3));
    assert_eq!(
        parsed.dead_letter_strategy,
        Some(DeadLetterStrategy::AtLeastOnce)
    );
}

#[test]
fn arguments_are_echoed_with_the_queue_type() {
    let echoed = |given: &[(&str, Value)]| parse(given).unwrap().echoed().to_vec();
    assert_eq!(
        echoed(&[("x-whatever", string("v")), ("a", Value::Ulong(1))]),
        arguments(&[
            ("a", Value::Long(1)),
            ("x-queue-type", string("classic")),
            ("x-whatever", string("v")),
        ])
    );
    let sent = [
        ("x-queue-type", string("classic")),
        ("x-max-length", Value::Uint(3)),
    ];
    assert_eq!(echoed(&sent), arguments(&sent), "the order sent");
}

#[test]
fn redeclaring_compares_meanings_and_names_the_difference() {
    let name = Name::from("q");
    let stored = parse(&[("x-max-length", Value::Ulong(10))]).unwrap();
    let check = |given: &[(&str, Value)]| stored.check_equivalent(&name, &parse(given).unwrap());
    assert_eq!(check(&[("x-max-length", Value::Uint(10))]), Ok(()));
    let unknown = ("x-whatever", string("v"));
    assert_eq!(check(&[("x-max-length", Value::Uint(10)), unknown]), Ok(()));
    let Err(Error::Inequivalent {
        field,
        stored,
        given,
        ..
    }) = check(&[("x-max-length", Value::Uint(11))])
    else {
        panic!("equivalent");
    };
    assert_eq!(
        (field.as_str(), stored.as_str(), given.as_str()),
        ("x-max-length", "10", "11")
    );
    assert!(check(&[]).is_err(), "absent is different");
    let transient = QueueProperties {
        durable: false,
        ..DURABLE
    };
    assert!(DURABLE.check_equivalent(&name, transient).is_err());
    assert_eq!(DURABLE.check_equivalent(&name, DURABLE), Ok(()));
}
