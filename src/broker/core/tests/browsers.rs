//! Browsers see what is ready and take nothing.

use std::sync::Arc;

use super::scenario::{CONNECTION, SESSION, Scenario, body_of, draft, number};
use crate::base::limits::BATCH_NS_MAX;
use crate::base::{ConnectionId, ConsumerId, Lsn, Meter, Name, Position, Seed, SessionId};
use crate::broker::*;
use crate::filter::Selector;

fn browser(s: &mut Scenario, id: u64, adjust: impl FnOnce(&mut Browse)) -> ConsumerId {
    let mut browse = Browse {
        connection: CONNECTION,
        session: SESSION,
        consumer: ConsumerId(id),
        queue: Name::from("q"),
        settled: false,
        selector: None,
    };
    adjust(&mut browse);
    let reply = s.apply(Command::Browse(browse));
    assert!(matches!(reply, Reply::Consuming { .. }), "{reply:?}");
    ConsumerId(id)
}

fn seen(s: &mut Scenario, browser: ConsumerId) -> Vec<String> {
    s.taken(browser).iter().map(body_of).collect()
}

/// How often the end was told since last asked, and the limits that were told.
fn drained(s: &mut Scenario, browser: ConsumerId) -> Vec<u64> {
    let others = std::mem::take(&mut s.others).into_iter();
    let limits = others.filter_map(|effect| match effect {
        Effect::Drained {
            consumer, limit, ..
        } if consumer == browser => Some(limit),
        _ => None,
    });
    limits.collect()
}

#[test]
fn everything_is_seen_in_order_and_stays_then_the_end_is_told() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    s.publish_all("q", &["a", "b", "c"]);
    let before = s.info("q");
    let b = browser(&mut s, 1, |_| {});
    s.drain(b, 2);
    assert_eq!(seen(&mut s, b), ["a", "b"]);
    assert_eq!(drained(&mut s, b), [2], "all credit is used up");
    s.drain(b, 10);
    assert_eq!(seen(&mut s, b), ["c"]);
    assert_eq!(drained(&mut s, b), [10], "the rest of the credit");
    s.drain(b, 20);
    assert_eq!(drained(&mut s, b), [20], "it is at the end already");
    let after = s.info("q");
    assert_eq!(
        format!("{before:?}"),
        format!("{after:?}"),
        "nothing changed"
    );
    assert_eq!(after.consumer_count, 0);
    assert_eq!(s.bodies("q"), ["a", "b", "c"]);
}

#[test]
fn with_credit_left_it_goes_on_with_what_arrives() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    let b = browser(&mut s, 1, |_| {});
    s.credit(b, 3);
    s.publish_all("q", &["a", "b"]);
    assert_eq!(seen(&mut s, b), ["a", "b"]);
    s.publish_all("q", &["c", "d"]);
    assert_eq!(seen(&mut s, b), ["c"], "and no further than its credit");
    s.credit(b, 10);
    assert_eq!(seen(&mut s, b), ["d"]);
    assert_eq!(drained(&mut s, b), [0; 0]);
}

/// Whatever a browser says of its copies: nothing is removed, counted, or dead-lettered.
#[test]
fn no_outcome_has_an_effect_and_each_is_settled_as_it_is_true() {
    let mut s = Scenario::new();
    s.queue(
        "q",
        &[
            ("x-delivery-limit", number(1)),
            ("x-queue-type", super::scenario::text("quorum")),
        ],
    );
    s.queue("dead", &[]);
    s.publish_all("q", &["a"; 4]);
    let outcomes = [
        (Outcome::Accepted, true),
        (Outcome::Released, false),
        (Outcome::Rejected { evidence: None }, false),
        (
            Outcome::Modified {
                delivery_failed: true,
                undeliverable_here: true,
                annotations: None,
            },
            false,
        ),
    ];
    let records = s.records.len();
    let b = browser(&mut s, 1, |_| {});
    s.credit(b, 10);
    for (token, (delivery, (outcome, expect))) in s.taken(b).iter().zip(outcomes).enumerate() {
        s.apply(Command::Settle(Settle {
            consumer: b,
            position: delivery.position,
            outcome,
            confirm: Some(token as u64),
        }));
        let told = s.others.pop();
        assert!(
            matches!(told, Some(Effect::Settled { consumer, token: t, took, .. })
                if consumer == b && t == token as u64 && took == expect),
            "{told:?}"
        );
    }
    assert_eq!(s.counts("q"), (4, 0, 0));
    assert_eq!(s.records.len(), records, "nothing is durable");
    let taken = s.take(2, "q", 10);
    let counts = |d: &Delivery| (d.first_acquirer, d.delivery_count, d.failures, d.acquired);
    assert!(taken.iter().map(counts).all(|it| it == (true, 0, 0, 0)));
    assert_eq!(s.core.counters().redelivered, 0);
    assert_eq!(s.core.counters().delivered, 4);
}

/// What a consumer holds is not shown; what comes back in front of a browser is, behind it is not.
#[test]
fn what_is_held_is_not_seen_and_a_place_that_died_is_passed() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    s.publish_all("q", &["a", "b", "c", "d", "e"]);
    let held = s.take(2, "q", 2);
    let b = browser(&mut s, 1, |_| {});
    s.credit(b, 1);
    assert_eq!(seen(&mut s, b), ["c"]);
    let next = s
        .core
        .queue("q")
        .unwrap()
        .messages
        .find(queue::MessageState::Ready, Position(3));
    s.apply(Command::Queue(QueueCommand::Discard {
        connection: None,
        name: Name::from("q"),
        position: next.unwrap(),
    }));
    s.settle(&held[0], Outcome::Released);
    s.credit(b, 10);
    assert_eq!(seen(&mut s, b), ["e"], "d is gone, a is behind it");
    let other = browser(&mut s, 3, |_| {});
    s.credit(other, 10);
    assert_eq!(seen(&mut s, other), ["a", "c", "e"]);
    s.settle(&held[1], Outcome::Released);
    assert_eq!(seen(&mut s, other), [""; 0], "it had passed b");
}

#[test]
fn the_highest_priority_is_seen_first_and_late_messages_are_not() {
    let mut s = Scenario::new();
    s.queue("q", &[("x-max-priority", number(5))]);
    for (body, priority) in [("a", 1), ("b", 5), ("c", 5)] {
        s.publish("q", &draft(body).priority(priority));
    }
    let b = browser(&mut s, 1, |_| {});
    s.credit(b, 2);
    assert_eq!(seen(&mut s, b), ["b", "c"]);
    s.publish("q", &draft("d").priority(5));
    s.credit(b, 10);
    assert_eq!(seen(&mut s, b), ["d", "a"]);
    // It is due in this millisecond, and was not removed yet.
    let slot = |s: &Scenario| s.core.queue("q").unwrap().messages.ready();
    s.publish("q", &draft("late").priority(5).ttl(10));
    assert_eq!(seen(&mut s, b), ["late"]);
    s.now.mono = s.now.mono.plus(20);
    let ready = slot(&s);
    let mut effects = Effects::new();
    let other = Browse {
        connection: CONNECTION,
        session: SESSION,
        consumer: ConsumerId(2),
        queue: Name::from("q"),
        settled: false,
        selector: None,
    };
    s.core
        .handle_without_running(s.now, Command::Browse(other), &mut effects);
    assert_eq!(ready, slot(&s));
    s.credit(ConsumerId(2), 10);
    assert!(!seen(&mut s, ConsumerId(2)).contains(&"late".to_owned()));
}

#[test]
fn a_selector_says_what_is_seen() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    for (body, priority) in [("a", 1), ("b", 2), ("c", 1)] {
        s.publish("q", &draft(body).priority(priority));
    }
    let selector = Arc::new(Selector::parse("JMSPriority = 1").unwrap());
    let b = browser(&mut s, 1, |browse| browse.selector = Some(selector));
    s.drain(b, 10);
    assert_eq!(seen(&mut s, b), ["a", "c"]);
    assert_eq!(drained(&mut s, b), [10]);
}

/// It has no turn, activates nobody, holds no queue back from anything.
#[test]
fn a_browser_is_no_consumer_of_its_queue() {
    let mut s = Scenario::new();
    let arguments = [
        ("x-single-active-consumer", crate::wire::Value::Bool(true)),
        ("x-expires", number(1_000)),
    ];
    s.queue("q", &arguments);
    let b = browser(&mut s, 1, |_| {});
    s.credit(b, 10);
    let active = s.consumer(2, "q");
    s.credit(active, 1);
    s.publish_all("q", &["a", "b"]);
    assert_eq!(s.taken(active).len(), 1, "the consumer is the active one");
    assert_eq!(seen(&mut s, b), ["b"]);
    assert_eq!(s.info("q").consumer_count, 1);
    let delete = Command::Queue(QueueCommand::Delete {
        connection: None,
        name: Name::from("q"),
        if_unused: true,
        if_empty: false,
    });
    s.detach(active);
    s.pass(999);
    assert!(s.core.queue("q").is_some());
    s.pass(2);
    assert!(s.core.queue("q").is_none(), "it expires");
    let ended = |effect: &Effect| matches!(effect, Effect::ConsumerEnded { consumer, .. } if *consumer == b);
    assert!(s.others.iter().any(ended), "which its browser is told");
    s.detach(b);
    s.queue("q", &[]);
    let exclusive = |s: &mut Scenario| s.consume(3, "q", |consume| consume.exclusive = true);
    let b = browser(&mut s, 4, |_| {});
    assert!(matches!(exclusive(&mut s), Reply::Consuming { .. }));
    browser(&mut s, 5, |_| {});
    s.detach(ConsumerId(3));
    let reply = s.apply(delete);
    assert!(matches!(reply, Reply::QueueDeleted { .. }), "{reply:?}");
    s.detach(b);
}

#[test]
fn an_auto_delete_queue_stays_when_its_browser_goes() {
    let mut s = Scenario::new();
    s.apply(Command::Queue(QueueCommand::Declare {
        connection: None,
        name: Name::from("q"),
        durable: true,
        exclusive: false,
        auto_delete: true,
        arguments: Vec::new(),
    }));
    let b = browser(&mut s, 1, |_| {});
    s.detach(b);
    assert!(s.core.queue("q").is_some());
}

#[test]
fn the_queue_of_another_connection_is_locked_and_a_missing_one_is_not_found() {
    let mut s = Scenario::new();
    let (other, session) = (ConnectionId(2), SessionId(2));
    s.connect(other, session);
    s.apply(Command::Queue(QueueCommand::Declare {
        connection: Some(other),
        name: Name::from("q"),
        durable: false,
        exclusive: true,
        auto_delete: false,
        arguments: Vec::new(),
    }));
    let browse = |queue: &str| Browse {
        connection: CONNECTION,
        session: SESSION,
        consumer: ConsumerId(1),
        queue: Name::from(queue),
        settled: false,
        selector: None,
    };
    let locked = s.apply(Command::Browse(browse("q")));
    assert!(
        matches!(locked, Reply::Refused(Error::Locked { .. })),
        "{locked:?}"
    );
    let missing = s.apply(Command::Browse(browse("none")));
    assert!(
        matches!(missing, Reply::Refused(Error::NotFound { .. })),
        "{missing:?}"
    );
    browser(&mut s, 1, |browse| {
        (browse.connection, browse.session) = (other, session);
    });
}

/// Copies count against the session's window and unsettled deliveries and the connection's bytes, until
/// they are settled, returned unsent, or their link goes.
#[test]
fn copies_in_flight_are_bounded_like_deliveries() {
    let mut s = Scenario::with(CoreOptions {
        unsettled_max: 2,
        ..CoreOptions::new(Name::from("/"), Seed(7))
    });
    s.queue("q", &[]);
    s.publish_all("q", &["a", "b", "c", "d", "e"]);
    let b = browser(&mut s, 1, |_| {});
    s.credit(b, 10);
    let first = s.taken(b);
    assert_eq!(
        first.len(),
        2,
        "no more unsettled ones than a session may have"
    );
    s.apply(Command::SettleRun(SettleRun {
        consumer: b,
        positions: vec![first[0].position],
        outcome: Outcome::Accepted,
    }));
    assert_eq!(seen(&mut s, b), ["c"]);
    s.detach(b);
    let b = browser(&mut s, 2, |_| {});
    s.credit(b, 10);
    assert_eq!(
        seen(&mut s, b),
        ["a", "b"],
        "its unsettled copies went with it"
    );
    s.detach(b);
    s.apply(Command::ConnectionRoom {
        connection: CONNECTION,
        limit_bytes: 0,
    });
    let b = browser(&mut s, 3, |_| {});
    s.drain(b, 10);
    assert_eq!((seen(&mut s, b).len(), drained(&mut s, b).len()), (0, 0));
    s.apply(Command::ConnectionRoom {
        connection: CONNECTION,
        limit_bytes: u64::MAX,
    });
    let copies = s.taken(b);
    assert_eq!(copies.len(), 2);
    for copy in &copies[1..] {
        s.apply(Command::Discard {
            consumer: b,
            position: copy.position,
            cause: DropCause::ConnectionLost,
        });
    }
    assert_eq!(seen(&mut s, b), ["c"], "what was lost is settled");
    assert_eq!(s.counts("q"), (5, 0, 0), "and stays in its queue");
}

#[test]
fn copies_that_were_never_sent_are_seen_again() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    s.publish_all("q", &["a", "b", "c"]);
    let b = browser(&mut s, 1, |_| {});
    s.credit(b, 10);
    let copies = s.taken(b);
    s.credit(b, 1); // the peer takes its credit back
    for copy in &copies[1..] {
        s.apply(Command::ReturnUnsent {
            consumer: b,
            position: copy.position,
        });
    }
    assert_eq!(seen(&mut s, b), [""; 0]);
    s.drain(b, 10);
    assert_eq!(seen(&mut s, b), ["b", "c"]);
    assert_eq!(drained(&mut s, b), [10]);
}

/// Evicted blocks come in one at a time, and only when the browser has room for their messages.
#[test]
fn evicted_messages_are_read_a_block_at_a_time() {
    let mut s = Scenario::with(CoreOptions {
        block_shift: 2,
        ..CoreOptions::new(Name::from("/"), Seed(7))
    });
    s.queue("q", &[]);
    let all: Vec<String> = (0..32).map(|n| format!("m{n}")).collect();
    for body in &all {
        s.publish("q", &draft(body));
    }
    let kept: Vec<_> = {
        let queue = s.core.queue("q").unwrap();
        let slots = (0..32).filter_map(|n| Some((Position(n), queue.messages.slot(Position(n))?)));
        let whole = slots.map(|(at, slot)| (at, slot.message.clone(), slot.route.clone()));
        whole.collect()
    };
    let page_out = |s: &mut Scenario| {
        for _ in 0..8 {
            s.apply(Command::Upkeep(UpkeepCommand::PageOut {
                bytes: u64::MAX,
                written: Lsn(u64::MAX),
                spill: false,
            }));
        }
    };
    page_out(&mut s);
    let out = |s: &Scenario| s.core.memory().evicted.messages;
    assert!(out(&s) >= 24, "{}", out(&s));
    let b = browser(&mut s, 1, |_| {});
    s.drain(b, 0);
    assert!(s.effects.loads.is_empty(), "without credit nothing is read");
    s.drain(b, 100);
    let mut got = seen(&mut s, b);
    for _ in 0..32 {
        let loads = std::mem::take(&mut s.effects.loads);
        assert!(loads.len() <= 1, "{}", loads.len());
        for load in loads {
            let wanted: Vec<_> = load.wanted.iter().map(|wanted| wanted.position).collect();
            let read = kept.iter().filter(|(at, ..)| wanted.contains(at)).cloned();
            s.apply(Command::Upkeep(UpkeepCommand::PagedIn(PagedIn {
                queue: load.queue,
                block: load.block,
                messages: read.collect(),
            })));
            got.extend(seen(&mut s, b));
            page_out(&mut s);
        }
    }
    assert_eq!(got, all);
    assert_eq!(drained(&mut s, b).last(), Some(&100));
    assert!(
        out(&s) >= 24,
        "what was read leaves memory again: {}",
        out(&s)
    );
}

/// Thousands of messages, and many browsers at the end of a queue, are looked at in slices.
#[test]
fn no_hold_is_long_and_many_browsers_come_to_rest() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    let terms = vec!["JMSPriority = 200"; 500].join(" OR ");
    let slow = Arc::new(Selector::parse(&terms).unwrap());
    for _ in 0..40 {
        s.publish("q", &draft("m").priority(1));
    }
    for id in 1..=100 {
        let slow = Arc::clone(&slow);
        browser(&mut s, id, |browse| browse.selector = Some(slow));
    }
    let mut effects = Effects::new();
    for id in 1..=100 {
        let flow = Command::ConsumerFlow {
            consumer: ConsumerId(id),
            limit: 10,
            drain: true,
        };
        s.core.handle_without_running(s.now, flow, &mut effects);
    }
    let (mut holds, mut told) = (0, 0);
    while s.core.has_work() {
        effects.meter = Meter::default();
        s.core.tick(s.now, 256, &mut effects);
        assert!(effects.meter.spent_ns() < 4 * BATCH_NS_MAX);
        told += effects.outgoing.drain(..).count();
        holds += 1;
        assert!(holds < 5_000, "it never ends");
    }
    assert!(holds >= 50, "{holds}");
    assert_eq!(told, 100, "each is told the end once");
    for id in 101..=600 {
        let b = browser(&mut s, id, |_| {});
        s.credit(b, 1_000);
        assert_eq!(seen(&mut s, b).len(), 40);
    }
    s.publish_all("q", &["new"]);
    let got: usize = (101..=600)
        .map(|id| seen(&mut s, ConsumerId(id)).len())
        .sum();
    assert_eq!(got, 500);
}
