//! What each outcome does to a message, line by line.

use super::scenario::{Scenario, draft, number, text};
use crate::base::{ConnectionId, SessionId};
use crate::broker::*;

/// What a delivery shows after something was done with the one before.
#[derive(Debug, PartialEq)]
struct Shown {
    delivery_count: u32,
    failures: u32,
    acquired: u32,
    first_acquirer: bool,
}

fn redelivered(queue_type: &str, act: impl FnOnce(&mut Scenario, &Delivery)) -> Option<Shown> {
    let mut s = Scenario::new();
    s.queue("q", &[("x-queue-type", text(queue_type))]);
    s.connect(ConnectionId(2), SessionId(2));
    s.publish_all("q", &["a"]);
    s.consume(1, "q", |c| c.of(ConnectionId(2), SessionId(2)));
    s.credit(crate::base::ConsumerId(1), 1);
    let first = s.deliveries.remove(0);
    assert!(first.first_acquirer && first.delivery_count == 0 && first.acquired == 0);
    act(&mut s, &first);
    let again = s.take(2, "q", 1);
    again.first().map(|d| Shown {
        delivery_count: d.delivery_count,
        failures: d.failures,
        acquired: d.acquired,
        first_acquirer: d.first_acquirer,
    })
}

fn modified(delivery_failed: bool, undeliverable_here: bool) -> Outcome {
    Outcome::Modified {
        delivery_failed,
        undeliverable_here,
        annotations: None,
    }
}

#[test]
fn a_large_message_that_was_accepted_is_left_to_be_freed_without_the_lock() {
    for (bytes, left) in [(1_000, 0), (300_000, 1)] {
        let mut s = Scenario::new();
        s.queue("q", &[]);
        let consumer = s.consumer(1, "q");
        s.credit(consumer, 1);
        s.publish("q", &draft(&"x".repeat(bytes)));
        let delivery = s.deliveries.remove(0);
        s.settle(&delivery, Outcome::Accepted);
        assert_eq!(s.effects.garbage.len(), left, "{bytes} bytes");
    }
}

#[test]
fn every_queue_type_counts_by_the_table_of_outcomes() {
    let back = |failures| {
        Some(Shown {
            delivery_count: failures,
            failures,
            acquired: 1,
            first_acquirer: false,
        })
    };
    for kind in ["classic", "quorum"] {
        let settled = |outcome: Outcome| redelivered(kind, |s, d| s.settle(d, outcome));
        assert_eq!(settled(Outcome::Accepted), None);
        assert_eq!(settled(Outcome::Released), back(0));
        assert_eq!(settled(modified(false, false)), back(0));
        assert_eq!(settled(modified(true, false)), back(1));
        assert_eq!(settled(Outcome::Rejected { evidence: None }), None);
        assert_eq!(settled(modified(false, true)), None);
        let detached = redelivered(kind, |s, d| s.detach(d.consumer));
        assert_eq!(detached, back(0));
        let ended = redelivered(kind, |s, _| {
            s.apply(Command::SessionEnd {
                session: SessionId(2),
            });
        });
        assert_eq!(ended, back(1));
        let closed = redelivered(kind, |s, _| {
            s.apply(Command::ConnectionClose {
                connection: ConnectionId(2),
            });
        });
        assert_eq!(closed, back(1));
    }
}

#[test]
fn a_dead_letter_carries_the_count_it_died_with_and_begins_anew() {
    let cases = [
        (Outcome::Rejected { evidence: None }, 2),
        (modified(true, true), 2),
        (modified(false, true), 1),
    ];
    for (outcome, count) in cases {
        let mut s = Scenario::new();
        s.queue("q", &[("x-dead-letter-exchange", text("")), dead_to("dlq")]);
        s.queue("dlq", &[]);
        s.publish_all("q", &["a"]);
        let c = s.consumer(1, "q");
        s.credit(c, 2);
        let first = s.taken(c).remove(0);
        s.fail(&first);
        let second = s.taken(c).remove(0);
        s.settle(&second, outcome.clone());
        let copy = s.take(2, "dlq", 1).remove(0);
        assert_eq!(copy.delivery_count, count, "{outcome:?}");
        assert_eq!(
            (copy.failures, copy.acquired, copy.first_acquirer),
            (0, 0, false)
        );
    }
}

fn dead_to(queue: &str) -> (&'static str, crate::wire::Value) {
    ("x-dead-letter-routing-key", text(queue))
}

#[test]
fn the_delivery_limit_counts_failures_only() {
    // limit, failures survived
    for (limit, survived) in [(0, 0), (1, 1), (3, 3)] {
        let mut s = Scenario::new();
        let limit = ("x-delivery-limit", number(limit));
        s.queue(
            "q",
            &[("x-dead-letter-exchange", text("")), dead_to("dlq"), limit],
        );
        s.queue("dlq", &[]);
        s.publish_all("q", &["a"]);
        let c = s.consumer(1, "q");
        s.credit(c, 1_000);
        for _ in 0..50 {
            let delivery = s.taken(c).remove(0);
            s.settle(&delivery, Outcome::Released);
        }
        let mut failures = 0;
        while let Some(delivery) = s.taken(c).pop() {
            s.fail(&delivery);
            failures += 1;
        }
        assert_eq!(failures, survived + 1);
        let copy = s.take(2, "dlq", 1).remove(0);
        let reason = copy.message.history().unwrap().last().reason;
        assert_eq!(reason, crate::deaths::Reason::DeliveryLimit);
        assert_eq!(u64::from(copy.delivery_count), survived + 1);
    }
}

#[test]
fn quorum_queues_have_a_delivery_limit_of_20_unless_told() {
    for (arguments, expected) in [(vec![], 21), (vec![("x-delivery-limit", number(2))], 3)] {
        let mut s = Scenario::new();
        let mut all = vec![("x-queue-type", text("quorum"))];
        all.extend(arguments);
        s.queue("q", &all);
        s.publish_all("q", &["a"]);
        let c = s.consumer(1, "q");
        s.credit(c, 1_000);
        let mut failures = 0;
        while let Some(delivery) = s.taken(c).pop() {
            s.fail(&delivery);
            failures += 1;
        }
        assert_eq!(failures, expected);
    }
}

#[test]
fn a_settlement_of_what_one_does_not_hold_changes_nothing() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    s.publish_all("q", &["a"]);
    let (a, b) = (s.consumer(1, "q"), s.consumer(2, "q"));
    s.credit(a, 1);
    let mut forged = s.taken(a).remove(0);
    forged.consumer = b;
    s.settle(&forged, Outcome::Accepted);
    assert_eq!(s.counts("q"), (0, 1, 0));
    forged.consumer = a;
    s.settle(&forged, Outcome::Accepted);
    s.settle(&forged, Outcome::Accepted);
    assert_eq!(s.counts("q"), (0, 0, 0));
}

#[test]
fn a_confirmed_settlement_names_the_record_of_its_consequences() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    s.publish("q", &draft("durable"));
    let mut transient = draft("transient");
    transient.durable = false;
    s.publish("q", &transient);
    let c = s.consumer(1, "q");
    s.credit(c, 2);
    for (delivery, durable) in s.taken(c).into_iter().zip([true, false]) {
        s.apply(Command::Settle(Settle {
            consumer: c,
            position: delivery.position,
            outcome: Outcome::Accepted,
            confirm: Some(1),
        }));
        let Some(Effect::Settled { lsn, .. }) = s.others.pop() else {
            panic!()
        };
        assert_eq!(lsn.0 > 0, durable);
        if durable {
            assert_eq!(s.records.last().map(|record| record.lsn), Some(lsn));
        }
    }
}

#[test]
fn what_a_connection_held_comes_back_in_slices() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    s.connect(ConnectionId(2), SessionId(2));
    for n in 0..2_000 {
        s.publish("q", &draft(&n.to_string()));
    }
    s.consume(1, "q", |c| c.of(ConnectionId(2), SessionId(2)));
    s.credit(crate::base::ConsumerId(1), 2_000);
    let mut effects = Effects::new();
    let close = Command::ConnectionClose {
        connection: ConnectionId(2),
    };
    s.core.apply(s.now, close, &mut effects);
    let held = s.core.queue("q").unwrap().messages.held();
    assert!(held >= 1_500, "one command does not do it all: {held}");
    while s.core.tick(s.now, 100, &mut effects) == More::Yes {}
    assert_eq!(s.counts("q"), (2_000, 0, 0));
}

/// All that five deliveries come to when three of them are settled, together or one by one: what is
/// left in both queues, the counters, the records.
fn after_settling(outcome: &Outcome, together: bool) -> String {
    let mut s = Scenario::new();
    let dead = [
        ("x-queue-type", text("quorum")),
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("dead")),
    ];
    s.queue("q", &dead);
    s.queue("dead", &[]);
    s.publish_all("q", &["a", "b", "c", "d", "e"]);
    let taken = s.take(1, "q", 5);
    let chosen = [&taken[3], &taken[0], &taken[1], &taken[3]];
    if together {
        s.apply(Command::SettleRun(SettleRun {
            consumer: taken[0].consumer,
            positions: chosen.iter().map(|delivery| delivery.position).collect(),
            outcome: outcome.clone(),
        }));
    } else {
        for delivery in chosen {
            s.settle(delivery, outcome.clone());
        }
    }
    let records = std::mem::take(&mut s.records);
    let records = records.iter().map(|record| (record.lsn, &record.facts));
    let records = format!("{:?}", records.collect::<Vec<_>>());
    let counters = format!("{:?}", s.core.counters());
    let left = (s.counts("q"), s.bodies("q"), s.bodies("dead"));
    format!("{left:?}\n{counters}\n{records}")
}

#[test]
fn run_of_settlements_is_what_they_are_one_by_one() {
    for outcome in [
        Outcome::Accepted,
        Outcome::Released,
        Outcome::Rejected { evidence: None },
        modified(true, false),
        modified(false, true),
    ] {
        assert_eq!(
            after_settling(&outcome, true),
            after_settling(&outcome, false),
            "{outcome:?}"
        );
    }
}
