//! Cycles without a rejection that are warned of beforehand, and what then happens to a message in
//! them. [evidence part 9, DL004]

use super::scenario::{Scenario, draft, number, text};
use crate::base::limits::{BATCH_NS_MAX, CYCLE_QUEUES_MAX, CYCLE_WARNINGS_MAX};
use crate::base::{Meter, Name, Seed};
use crate::broker::*;
use crate::wire::Value;

type Given = Vec<(&'static str, Value)>;

fn to(exchange: &str, key: Option<&str>) -> Given {
    let mut given = vec![("x-dead-letter-exchange", text(exchange))];
    given.extend(key.map(|key| ("x-dead-letter-routing-key", text(key))));
    given
}

fn with(mut given: Given, name: &'static str, value: u64) -> Given {
    given.push((name, number(value)));
    given
}

/// The warnings about cycles that follow from a policy, as far as one search goes, and in how many
/// slices it was made.
fn closed_by(s: &Scenario, operator: bool, policy: &str) -> (Vec<String>, usize) {
    let (mut search, mut slices) = (CycleSearch::default(), 1);
    let policy = (operator, &Name::from(policy));
    loop {
        let mut meter = Meter::default();
        let is_over = s.core.find_cycles(policy, &mut search, &mut meter);
        // What was begun within the budget is followed to its end.
        assert!(meter.spent_ns() < 2 * BATCH_NS_MAX, "{}", meter.spent_ns());
        if is_over {
            let warnings = search.into_warnings();
            return (warnings.iter().map(ToString::to_string).collect(), slices);
        }
        slices += 1;
    }
}

/// The warnings about cycles in the reply to a declaration.
fn declared(s: &mut Scenario, queue: &str, given: &Given) -> Vec<String> {
    let Reply::QueueDeclared { warnings, .. } = s.declare(queue, given) else {
        panic!("refused");
    };
    let cycles = warnings
        .iter()
        .filter(|one| matches!(one, Warning::Cycle(_)));
    cycles.map(ToString::to_string).collect()
}

/// A queue of work and a queue of its dead letters.
fn pair(work: &Given) -> Scenario {
    let mut s = Scenario::new();
    s.queue("orders.dlq", &[]);
    s.queue("orders", work);
    s
}

/// The trick: dead letters expire back.
fn back(ttl: u64) -> Vec<(&'static str, Value)> {
    vec![
        ("message-ttl", number(ttl)),
        ("dead-letter-exchange", text("")),
        ("dead-letter-routing-key", text("orders")),
    ]
}

// 4,000 of 6,000 messages were lost when an operator let a dead-letter queue expire back: those that
// had not been rejected.
#[test]
fn a_policy_that_expires_dead_letters_back_is_warned_of_and_loses_them() {
    let work = with(to("", Some("orders.dlq")), "x-max-length", 1);
    for operator in [false, true] {
        let mut s = pair(&work);
        let definition = if operator { &back(10)[..1] } else { &back(10) };
        if operator {
            s.policy("letters", "^orders.dlq$", &back(10)[1..]);
        }
        s.set_policy(operator, "again", ("^orders.dlq$", "queues"), definition);
        let (told, _) = closed_by(&s, operator, "again");
        assert_eq!(
            told,
            [
                "DL004: dead letters go in a circle by themselves, orders -> orders.dlq -> orders: \
              what died in 'orders' without a rejection (maxlen) is dropped in 'orders.dlq' instead \
              of coming back; to move dead letters back use 'coroner redrive orders.dlq'"
            ]
        );
        s.publish_all("orders", &["1", "2"]);
        assert_eq!(s.counts("orders.dlq"), (1, 0, 0));
        s.pass(10);
        assert_eq!(s.dropped("orders.dlq", DropCause::Cycle), 1);
    }
}

#[test]
fn an_argument_that_closes_the_same_cycle_is_warned_of_whichever_queue_comes_last() {
    let work = with(to("", Some("orders.dlq")), "x-max-length", 1);
    let letters = with(to("", Some("orders")), "x-message-ttl", 10);
    let mut s = Scenario::new();
    assert_eq!(declared(&mut s, "orders", &work), [""; 0]);
    let told = declared(&mut s, "orders.dlq", &letters);
    assert!(
        told[0].contains("orders -> orders.dlq -> orders: what died in 'orders'"),
        "{told:?}"
    );
    let mut s = Scenario::new();
    assert_eq!(declared(&mut s, "orders.dlq", &letters), [""; 0]);
    let told = declared(&mut s, "orders", &work);
    assert!(
        told[0].contains("orders.dlq -> orders -> orders.dlq: "),
        "{told:?}"
    );
    assert_eq!(declared(&mut s, "orders", &work), told, "declared again");
}

#[test]
fn a_retry_pair_in_which_only_a_consumer_rejects_is_not_warned_of_and_comes_back() {
    let mut s = pair(&to("", Some("orders.dlq")));
    s.policy("again", "^orders.dlq$", &back(10));
    assert_eq!(closed_by(&s, false, "again").0, [""; 0]);
    s.publish("orders", &draft("1"));
    for round in 1..=3 {
        let taken = s.take(round, "orders", 1);
        s.reject(&taken[0]);
        s.detach(taken[0].consumer);
        s.pass(10);
        assert_eq!(s.counts("orders"), (1, 0, 0), "round {round}");
    }
}

#[test]
fn a_delivery_limit_in_the_queue_of_work_is_a_death_without_a_rejection() {
    let work = with(to("", Some("orders.dlq")), "x-delivery-limit", 1);
    let mut s = pair(&work);
    s.policy("again", "^orders.dlq$", &back(10));
    let (told, _) = closed_by(&s, false, "again");
    assert!(told[0].contains("(delivery_limit) is dropped"), "{told:?}");
    s.publish("orders", &draft("1"));
    for consumer in 1..=2 {
        let taken = s.take(consumer, "orders", 1);
        s.fail(&taken[0]);
        s.detach(taken[0].consumer);
    }
    s.pass(10);
    assert_eq!(s.dropped("orders.dlq", DropCause::Cycle), 1);
    // Between queues that nothing but a consumer makes turn there is nothing to warn of.
    let mut s = pair(&with(to("", Some("orders.dlq")), "x-delivery-limit", 1));
    s.policy(
        "again",
        "^orders.dlq$",
        &[back(10), vec![("delivery-limit", number(2))]].concat()[1..],
    );
    assert_eq!(closed_by(&s, false, "again").0, [""; 0]);
}

#[test]
fn a_chain_without_a_cycle_and_a_cycle_with_another_way_out_are_not_warned_of() {
    let mut s = Scenario::new();
    s.queue("end", &[]);
    for (queue, next) in [("third", "end"), ("second", "third"), ("first", "second")] {
        let given = with(to("", Some(next)), "x-message-ttl", 10);
        assert_eq!(declared(&mut s, queue, &given), [""; 0], "{queue}");
    }
    s.policy("ttl", ".", &[("message-ttl", number(10))]);
    assert_eq!(closed_by(&s, false, "ttl").0, [""; 0]);
    // What is skipped in the cycle is still in the other queue.
    let mut s = Scenario::new();
    s.exchange("both", "fanout");
    let given = with(to("both", None), "x-message-ttl", 10);
    for queue in ["turns", "keeps"] {
        let given = if queue == "turns" { &given[..] } else { &[] };
        s.queue(queue, given);
        s.bind("both", queue, "");
    }
    assert_eq!(declared(&mut s, "turns", &given), [""; 0]);
    s.publish("turns", &draft("1"));
    s.pass(10);
    assert_eq!(s.bodies("keeps"), ["1"]);
    assert_eq!(s.dropped("turns", DropCause::Cycle), 0);
}

#[test]
fn keys_of_bindings_are_followed_and_longer_cycles_and_queues_that_are_their_own_target() {
    let mut s = Scenario::new();
    for (exchange, kind) in [("shop", "topic"), ("dead", "fanout"), ("wait", "fanout")] {
        s.exchange(exchange, kind);
    }
    s.queue("orders", &with(to("dead", None), "x-max-length", 1));
    s.queue("dead", &with(to("wait", None), "x-message-ttl", 5));
    s.queue("wait", &[]);
    for (exchange, queue, key) in [
        ("shop", "orders", "order.*"),
        ("dead", "dead", ""),
        ("wait", "wait", ""),
    ] {
        s.bind(exchange, queue, key);
    }
    let shop = [
        ("message-ttl", number(10)),
        ("dead-letter-exchange", text("shop")),
    ];
    s.policy("again", "^wait$", &shop);
    let (told, _) = closed_by(&s, false, "again");
    assert!(
        told[0].contains("orders -> dead -> wait -> orders: "),
        "{told:?}"
    );
    assert!(told[0].contains("'coroner redrive wait'"), "{told:?}");
    for body in ["1", "2"] {
        s.publish_to("shop", "order.new", &draft(body));
    }
    s.pass(15);
    assert_eq!(s.dropped("wait", DropCause::Cycle), 1);

    let own = with(to("", None), "x-message-ttl", 10);
    let told = declared(&mut s, "own", &own);
    assert!(
        told[0].contains("own -> own: what died in 'own' "),
        "{told:?}"
    );
    assert!(
        told[0].ends_with("(expired) is dropped when it is to enter 'own' again"),
        "{told:?}"
    );
}

/// The exchange "" and no key: the key by which a message came names the queue, and only a message
/// that begins there has it.
#[test]
fn a_policy_that_reaches_one_queue_of_a_cycle_is_found_from_the_others() {
    let mut s = Scenario::new();
    s.exchange("dead", "fanout");
    s.queue("letters", &[]);
    s.bind("dead", "letters", "");
    s.queue("work", &with(to("dead", None), "x-max-length", 1));
    s.policy(
        "again",
        "^letters$",
        &[back(10)[0].clone(), back(10)[1].clone()],
    );
    let (told, _) = closed_by(&s, false, "again");
    let named = |path: &str| told.iter().any(|one| one.contains(path));
    assert!(named("work -> letters -> work: "), "{told:?}");
    // What is published straight to it has its name as key.
    assert!(named("letters -> letters: "), "{told:?}");
    assert_eq!(told.len(), 2);
    s.publish_all("work", &["1", "2"]);
    s.pass(10);
    assert_eq!(s.dropped("letters", DropCause::Cycle), 1);
    // Another policy has no part in it.
    s.policy("other", "^others$", &back(10));
    assert_eq!(closed_by(&s, false, "other").0, [""; 0]);
    s.policy("lengths", "^letters$", &[("max-length", number(5))]);
    s.no_policy("again");
    assert_eq!(closed_by(&s, false, "lengths").0, [""; 0]);
}

#[test]
fn what_is_quarantined_is_said_to_be() {
    let undeliverable = Undeliverable {
        choice: arguments::OnUndeliverable::Quarantine,
        ..Undeliverable::default()
    };
    let options = CoreOptions {
        undeliverable,
        ..CoreOptions::new(Name::from("/"), Seed(7))
    };
    let mut s = Scenario::with(options);
    let told = declared(&mut s, "own", &with(to("", None), "x-message-ttl", 10));
    assert!(
        told[0].contains("(expired) is quarantined when"),
        "{told:?}"
    );
    s.publish("own", &draft("1"));
    s.pass(10);
    assert_eq!(s.bodies("amq.quarantine"), ["1"]);
}

#[test]
fn ten_thousand_queues_under_one_policy_are_looked_at_in_slices() {
    let mut s = Scenario::new();
    s.queue("end", &[]);
    let key = |key: &str| ("dead-letter-routing-key", text(key));
    for index in 0..10_000 {
        s.queue(&format!("q{index:05}"), &[]);
    }
    let ttl_and_letters = [
        ("message-ttl", number(60_000)),
        ("dead-letter-exchange", text("")),
    ];
    let straight = [&ttl_and_letters[..], &[key("end")]].concat();
    s.policy("p", "^q", &straight);
    let (told, slices) = closed_by(&s, false, "p");
    assert_eq!(told, [""; 0]);
    assert!(slices > 100, "{slices}");
    const { assert!(10_001 < CYCLE_QUEUES_MAX) }
    // Without a key each is its own target: some are named.
    s.policy("p", "^q", &ttl_and_letters);
    let (told, _) = closed_by(&s, false, "p");
    assert_eq!(told.len(), CYCLE_WARNINGS_MAX);
    assert!(told[0].contains("q00000 -> q00000"), "{told:?}");
}

/// However many queues a fanout has, a declaration follows some of their deaths only.
#[test]
fn a_declaration_stays_within_its_budget_however_many_queues_follow() {
    let mut s = Scenario::new();
    s.exchange("all", "fanout");
    let given = with(to("all", None), "x-message-ttl", 60_000);
    for index in 0..500 {
        let queue = format!("q{index:03}");
        s.queue(&queue, &given);
        s.bind("all", &queue, "");
    }
    s.effects.meter = Meter::default();
    let command = Command::Queue(QueueCommand::Declare {
        connection: None,
        name: Name::from("q000"),
        durable: true,
        exclusive: false,
        auto_delete: false,
        arguments: given
            .into_iter()
            .map(|(name, value)| (Name::from(name), value))
            .collect(),
    });
    let reply = s.core.apply(s.now, command, &mut s.effects);
    assert!(matches!(reply, Reply::QueueDeclared { .. }), "{reply:?}");
    let spent = s.effects.meter.spent_ns();
    assert!(spent < 2 * BATCH_NS_MAX, "{spent}");
}
