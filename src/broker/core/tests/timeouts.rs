//! Deliveries that consumers hold for too long. [evidence part 5, consumer timeout]

use std::sync::Arc;

use super::scenario::{Scenario, body_of, draft, number, text};
use crate::base::{ConnectionId, ConsumerId, Name, Position, Seed, SessionId};
use crate::broker::*;
use crate::deaths::{Evidence, How};
use crate::wire::Value;

const TIMEOUT: &str = "x-consumer-timeout";

fn timed(timeout_ms: u64) -> Scenario {
    let mut s = Scenario::new();
    s.queue("q", &[(TIMEOUT, number(timeout_ms))]);
    s
}

/// A consumer with a name, and room for so many.
fn named(s: &mut Scenario, id: u64, limit: u64, own_ms: Option<u32>) -> ConsumerId {
    let evidence = Evidence::of_consumer(&Name::from("c"), "link", None, Some("10.0.0.1:5"));
    s.consume(id, "q", |consume| {
        consume.timeout_ms = own_ms;
        consume.evidence = Some(Arc::new(evidence));
    });
    s.credit(ConsumerId(id), limit);
    ConsumerId(id)
}

/// The deliveries that timed out since last asked, by consumer and position.
fn timed_out(s: &mut Scenario) -> Vec<(ConsumerId, Position)> {
    let mut found = Vec::new();
    s.others.retain(|effect| match effect {
        Effect::TimedOut { consumer, position } => {
            found.push((*consumer, *position));
            false
        }
        _ => true,
    });
    found
}

fn settle_and_ask(s: &mut Scenario, delivery: &Delivery, outcome: Outcome) -> bool {
    s.apply(Command::Settle(Settle {
        consumer: delivery.consumer,
        position: delivery.position,
        outcome,
        confirm: Some(7),
    }));
    match s.others.pop() {
        Some(Effect::Settled { took, token: 7, .. }) => took,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_delivery_held_for_too_long_goes_back_to_its_place_on_time() {
    let mut s = timed(1_000);
    s.publish_all("q", &["a", "b"]);
    let slow = named(&mut s, 1, 1, None);
    let held = s.taken(slow);
    s.pass(999);
    assert_eq!((timed_out(&mut s), s.counts("q")), (vec![], (1, 1, 0)));
    s.pass(1);
    assert_eq!(timed_out(&mut s), [(slow, held[0].position)]);
    assert_eq!(s.counts("q"), (2, 0, 0));
    let queue = s.core.queue("q").unwrap();
    assert_eq!(
        (queue.counters.timed_out, s.core.counters().timed_out),
        (1, 1)
    );
    let again = s.take(2, "q", 2);
    assert_eq!(body_of(&again[0]), "a", "in front of what came later");
    assert_eq!((again[0].failures, again[0].acquired), (0, 1));
    let failure = again[0].message.last_failure().unwrap();
    assert_eq!(failure.evidence.how, Some(How::ConsumerTimeout));
    assert_eq!(failure.evidence.container.as_deref(), Some("c"));
}

#[test]
fn who_timed_out_gets_nothing_until_all_of_it_is_settled_and_late_outcomes_change_nothing() {
    for outcome in [
        Outcome::Accepted,
        Outcome::Released,
        Outcome::Rejected { evidence: None },
        Outcome::Modified {
            delivery_failed: true,
            undeliverable_here: true,
            annotations: None,
        },
    ] {
        let mut s = timed(100);
        s.publish_all("q", &["a", "b", "c"]);
        let slow = named(&mut s, 1, 2, None);
        let held = s.taken(slow);
        s.pass(100);
        assert_eq!(timed_out(&mut s).len(), 2);
        s.credit(slow, 10);
        assert!(s.taken(slow).is_empty());
        assert!(!settle_and_ask(&mut s, &held[0], outcome.clone()));
        assert!(s.taken(slow).is_empty(), "one is left to be settled");
        s.apply(Command::SettleRun(SettleRun {
            consumer: slow,
            positions: vec![held[1].position],
            outcome,
        }));
        let bodies: Vec<_> = s.taken(slow).iter().map(body_of).collect();
        assert_eq!(bodies, ["a", "b", "c"], "nothing was lost, nothing died");
        assert_eq!(s.core.counters().dead.total(), 0);
    }
}

/// The same position is delivered to others meanwhile: a late outcome must not touch it.
#[test]
fn a_late_outcome_does_not_settle_what_another_consumer_holds() {
    let mut s = timed(100);
    s.publish_all("q", &["a"]);
    let slow = named(&mut s, 1, 1, None);
    let late = s.taken(slow).remove(0);
    s.pass(100);
    let taken = s.take(2, "q", 1);
    assert_eq!(taken[0].position, late.position);
    assert!(!settle_and_ask(&mut s, &late, Outcome::Accepted));
    assert_eq!(s.counts("q"), (0, 1, 0));
    assert!(settle_and_ask(&mut s, &taken[0], Outcome::Accepted));
    assert_eq!(s.counts("q"), (0, 0, 0));
}

#[test]
fn link_beats_queue_and_of_argument_and_policy_the_smaller_counts() {
    // argument and policy, link, what counts; all in milliseconds
    type Case = ([Option<u64>; 2], Option<u32>, Option<u64>);
    let cases: [Case; 9] = [
        ([Some(500), None], None, Some(500)),
        ([None, Some(300)], None, Some(300)),
        ([Some(500), Some(300)], None, Some(300)),
        ([Some(200), Some(300)], None, Some(200)),
        ([Some(0), Some(300)], None, Some(300)),
        ([Some(500), None], Some(900), Some(900)),
        ([None, None], Some(50), Some(50)),
        ([Some(500), None], Some(0), None),
        ([Some(1 << 32), None], None, None),
    ];
    for case in cases {
        let ([argument, policy], link, counts) = case;
        let mut s = Scenario::new();
        let argument = argument.map(|ms| (TIMEOUT, number(ms)));
        s.queue("q", &argument.into_iter().collect::<Vec<_>>());
        if let Some(ms) = policy {
            s.policy("p", "^q$", &[("consumer-timeout", number(ms))]);
        }
        s.publish_all("q", &["a"]);
        named(&mut s, 1, 1, link);
        let info = s.core.consumer_info(ConsumerId(1)).unwrap();
        assert_eq!(info.timeout_ms.map(u64::from), counts, "{case:?}");
        let before = counts.unwrap_or(100_000_000);
        s.pass(before - 1);
        assert_eq!(timed_out(&mut s).len(), 0, "{case:?}");
        s.pass(1);
        let expect = usize::from(counts.is_some());
        assert_eq!(timed_out(&mut s).len(), expect, "{case:?}");
    }
}

#[test]
fn the_setting_is_for_quorum_queues_only_and_follows_changes() {
    let mut s = Scenario::new();
    let quorum = [("x-queue-type", text("quorum"))];
    s.queue("before", &quorum);
    s.apply(Command::Upkeep(UpkeepCommand::ConsumerTimeout(700)));
    s.queue("after", &quorum);
    s.queue("classic", &[]);
    let own = [("x-queue-type", text("quorum")), (TIMEOUT, number(0))];
    s.queue("none", &own);
    let counts = |s: &Scenario, queue: &str| s.core.queue(queue).unwrap().settings.timeout_ms();
    let all = |s: &Scenario| ["before", "after", "classic", "none"].map(|queue| counts(s, queue));
    assert_eq!(all(&s), [Some(700), Some(700), None, None]);
    s.publish_all("before", &["a"]);
    s.take(1, "before", 1);
    s.pass(500);
    s.apply(Command::Upkeep(UpkeepCommand::ConsumerTimeout(400)));
    s.pass(0);
    assert_eq!(
        timed_out(&mut s).len(),
        1,
        "it is held for that long already"
    );
    s.apply(Command::Upkeep(UpkeepCommand::ConsumerTimeout(0)));
    assert_eq!(all(&s), [None; 4]);
}

#[test]
fn a_shorter_policy_counts_for_what_is_held_already() {
    let mut s = timed(10_000);
    s.publish_all("q", &["a"]);
    named(&mut s, 1, 1, None);
    s.pass(600);
    s.policy("p", "^q$", &[("consumer-timeout", number(1_000))]);
    s.pass(399);
    assert!(timed_out(&mut s).is_empty());
    s.pass(1);
    assert_eq!(timed_out(&mut s).len(), 1);
    let idle = s.core.next_deadline().expect("consumers are looked at");
    s.detach(ConsumerId(1));
    s.pass(idle.since(s.now.mono));
    assert_eq!(
        s.core.next_deadline(),
        None,
        "nobody is left to be looked at"
    );
}

#[test]
fn each_delivery_has_its_own_time_and_others_stay_with_the_consumer() {
    let mut s = timed(100);
    s.publish_all("q", &["a"]);
    let slow = named(&mut s, 1, 10, None);
    s.pass(40);
    s.publish_all("q", &["b"]);
    let held = s.taken(slow);
    s.pass(60);
    assert_eq!(timed_out(&mut s), [(slow, held[0].position)]);
    assert_eq!(s.counts("q"), (1, 1, 0));
    assert!(
        settle_and_ask(&mut s, &held[1], Outcome::Accepted),
        "in time"
    );
    assert!(s.taken(slow).is_empty());
    s.detach(slow);
    assert_eq!(s.counts("q"), (1, 0, 0));
    let again = s.take(2, "q", 5);
    assert_eq!(again[0].acquired, 1, "the detach gave back nothing twice");
}

#[test]
fn detach_session_end_and_loss_after_a_timeout_count_it_once() {
    for command in [
        Command::ConsumerDetach {
            consumer: ConsumerId(1),
        },
        Command::SessionEnd {
            session: SessionId(7),
        },
        Command::ConnectionClose {
            connection: ConnectionId(7),
        },
    ] {
        let mut s = timed(100);
        let (connection, session) = (ConnectionId(7), SessionId(7));
        s.connect(connection, session);
        s.publish_all("q", &["a", "b"]);
        s.consume(1, "q", |consume| consume.of(connection, session));
        s.credit(ConsumerId(1), 1);
        s.pass(100);
        assert_eq!(timed_out(&mut s).len(), 1);
        s.apply(command);
        let again = s.take(2, "q", 5);
        assert_eq!(again.len(), 2);
        assert_eq!((again[0].failures, again[0].acquired), (0, 1));
    }
}

#[test]
fn a_single_active_consumer_hands_over_and_takes_over_again_when_nobody_else_can() {
    let mut s = Scenario::new();
    let single = ("x-single-active-consumer", Value::Bool(true));
    s.queue("q", &[single, (TIMEOUT, number(100))]);
    s.publish_all("q", &["a", "b"]);
    let first = named(&mut s, 1, 1, None);
    let second = named(&mut s, 2, 1, None);
    let slow = s.taken(first);
    s.pass(60);
    assert!(s.taken(second).is_empty());
    s.pass(40);
    let taken = s.taken(second);
    assert_eq!(body_of(&taken[0]), "a");
    let is_active = |s: &Scenario, id| s.core.consumer_info(id).unwrap().active;
    assert!(is_active(&s, second) && !is_active(&s, first));
    s.settle(&slow[0], Outcome::Accepted);
    s.credit(first, 10);
    assert!(s.taken(first).is_empty(), "the second one stays active");
    s.pass(100);
    assert_eq!(s.taken(first).len(), 2);
}

#[test]
fn a_drain_is_answered_and_credit_given_meanwhile_counts_afterwards() {
    let mut s = timed(100);
    s.publish_all("q", &["a", "b", "c"]);
    let slow = named(&mut s, 1, 1, None);
    let held = s.taken(slow);
    s.pass(100);
    timed_out(&mut s);
    s.drain(slow, 5);
    let drained = |effect: &Effect| matches!(effect, Effect::Drained { limit: 5, .. });
    assert!(s.others.iter().any(drained), "{:?}", s.others);
    s.credit(slow, 7);
    s.settle(&held[0], Outcome::Released);
    assert_eq!(
        s.taken(slow).len(),
        2,
        "two beyond the five that were drained"
    );
}

/// Each timeout left a delivery that counted as unsettled for good: after a few the session would have
/// got nothing more.
#[test]
fn the_room_of_a_session_does_not_shrink() {
    let mut s = Scenario::with(CoreOptions {
        unsettled_max: 3,
        ..CoreOptions::new(Name::from("/"), Seed(7))
    });
    s.queue("q", &[(TIMEOUT, number(100))]);
    s.publish_all("q", &["a", "b", "c", "d"]);
    let slow = named(&mut s, 1, 1_000, None);
    for _ in 0..5 {
        let held = s.taken(slow);
        assert_eq!(held.len(), 3);
        s.pass(100);
        assert_eq!(timed_out(&mut s).len(), 3);
        let other = s.take(2, "q", 4);
        assert!(other.is_empty(), "what timed out is unsettled still");
        s.detach(ConsumerId(2));
        for delivery in &held {
            s.settle(delivery, Outcome::Released);
        }
    }
}

#[test]
fn deliveries_that_never_left_or_are_dropped_free_the_consumer_too() {
    for is_returned in [true, false] {
        let mut s = timed(100);
        s.publish_all("q", &["a", "b"]);
        let slow = named(&mut s, 1, 1, None);
        let held = s.taken(slow).remove(0);
        s.pass(100);
        let (consumer, position) = (slow, held.position);
        s.apply(if is_returned {
            Command::ReturnUnsent { consumer, position }
        } else {
            let cause = DropCause::Damaged;
            Command::Discard {
                consumer,
                position,
                cause,
            }
        });
        s.credit(slow, 2);
        let taken = s.taken(slow);
        assert_eq!(taken.len(), 1 + usize::from(is_returned));
        assert_eq!(body_of(&taken[0]), "a", "it is in its queue, whole");
    }
}

#[test]
fn presettled_links_have_no_timeout() {
    let mut s = timed(100);
    s.publish_all("q", &["a"]);
    s.consume(1, "q", |consume| {
        (consume.settled, consume.timeout_ms) = (true, Some(50));
    });
    s.credit(ConsumerId(1), 1);
    assert_eq!(s.core.next_deadline(), None);
    s.pass(10_000);
    assert!(timed_out(&mut s).is_empty());
}

#[test]
fn delayed_retry_takes_a_timeout_for_a_return() {
    for (kind, is_delayed) in [("returned", true), ("failed", false)] {
        let mut s = Scenario::new();
        let retry = ("x-delayed-retry-type", text(kind));
        let min = ("x-delayed-retry-min", number(500));
        s.queue("q", &[retry, min, (TIMEOUT, number(100))]);
        s.publish_all("q", &["a"]);
        named(&mut s, 1, 1, None);
        s.pass(100);
        assert_eq!(s.info("q").messages_delayed, u64::from(is_delayed));
    }
}

#[test]
fn a_message_that_expired_meanwhile_dies_instead() {
    let mut s = Scenario::new();
    let ttl = ("x-message-ttl", number(50));
    s.queue("q", &[ttl, (TIMEOUT, number(100))]);
    let slow = named(&mut s, 1, 1, None);
    s.publish_all("q", &["a"]);
    s.pass(100);
    assert_eq!(timed_out(&mut s).len(), 1);
    assert_eq!(s.counts("q"), (0, 0, 0));
    let held = s.taken(slow).remove(0);
    assert!(!settle_and_ask(&mut s, &held, Outcome::Accepted));
    s.publish_all("q", &["b"]);
    s.credit(slow, 2);
    assert_eq!(s.taken(slow).len(), 1);
}

#[test]
fn the_log_tells_once_for_each_link() {
    let mut s = timed(100);
    s.publish_all("q", &["a", "b"]);
    let slow = named(&mut s, 1, 2, None);
    for round in 1..=2 {
        let held = s.taken(slow);
        s.pass(100);
        for delivery in &held {
            s.settle(delivery, Outcome::Released);
        }
        s.credit(slow, 2 * (round + 1));
    }
    let told = |event: &&LogEvent| matches!(event, LogEvent::ConsumerTimedOut { .. });
    let lines: Vec<_> = s.log.iter().filter(told).collect();
    let [
        LogEvent::ConsumerTimedOut {
            queue,
            by,
            timeout_ms,
        },
    ] = &lines[..]
    else {
        panic!("{lines:?}")
    };
    assert_eq!((&**queue, *timeout_ms), ("q", 100));
    assert_eq!(by.as_ref().unwrap().link.as_deref(), Some("link"));
}

/// A consumer with a selector, or without, that waits in its queue's ring must leave it.
#[test]
fn a_timed_out_consumer_does_not_count_as_one_that_waits() {
    let mut s = Scenario::new();
    s.queue("q", &[("x-max-length", number(0)), (TIMEOUT, number(100))]);
    let slow = named(&mut s, 1, 2, None);
    s.publish_all("q", &["a"]);
    assert_eq!(s.taken(slow).len(), 1);
    s.pass(100);
    s.publish("q", &draft("b"));
    assert_eq!(s.counts("q"), (0, 0, 0), "nobody waits for it");
    assert!(s.taken(slow).is_empty());
}

/// The look goes over all that is held, in slices.
#[test]
fn thousands_of_deliveries_of_many_consumers_time_out_together() {
    let mut s = timed(1_000);
    let bodies = vec!["a"; 3_000];
    s.publish_all("q", &bodies);
    for id in 1..=30 {
        named(&mut s, id, 100, None);
    }
    assert_eq!(s.counts("q"), (0, 3_000, 0));
    s.pass(1_000);
    while s.core.has_work() {
        s.pass(0);
    }
    assert_eq!(timed_out(&mut s).len(), 3_000);
    assert_eq!(s.counts("q"), (3_000, 0, 0));
}

/// Thousands of idle consumers that ask for 1 ms kept the broker busy.
#[test]
fn idle_queues_are_not_looked_at_all_the_time() {
    let mut s = timed(1);
    named(&mut s, 1, 1, None);
    let mut looks = 0;
    let end = s.now.mono.plus(10_000);
    while let Some(due) = s.core.next_deadline().filter(|due| *due <= end) {
        s.pass(due.since(s.now.mono).max(1));
        looks += 1;
    }
    assert!((90..=110).contains(&looks), "{looks}");
    s.publish_all("q", &["a"]);
    s.pass(100);
    assert_eq!(timed_out(&mut s).len(), 1);
}
