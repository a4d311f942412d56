//! What a lost connection held is delivered alone. [evidence part 5, poison isolation]

use super::scenario::{CONNECTION, Scenario, body_of, number, text};
use crate::base::limits::{ISOLATED_LINKS_MAX, SUSPECTS_MAX};
use crate::base::{ConnectionId, ConsumerId, Name, Position, SessionId};
use crate::broker::*;
use crate::deaths::Reason;
use crate::wire::Value;

/// A queue with a dead-letter queue, and a policy that isolates.
fn isolating() -> Scenario {
    let mut s = Scenario::new();
    s.queue("dlq", &[]);
    let arguments = [
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("dlq")),
        ("x-delivery-limit", number(2)),
    ];
    s.queue("q", &arguments);
    isolate(&mut s, true);
    s
}

fn isolate(s: &mut Scenario, isolates: bool) {
    let definition = [("poison-isolation", Value::Bool(isolates))];
    s.set_policy(false, "p", ("^q$", "queues"), &definition);
}

/// A consumer of `q` on a new connection, with so much credit.
fn consumer(s: &mut Scenario, id: u64, connection: u64, credit: u64) -> ConsumerId {
    let (connection, session) = (ConnectionId(connection), SessionId(connection));
    s.connect(connection, session);
    attach(s, id, (connection, session), credit)
}

fn attach(
    s: &mut Scenario,
    id: u64,
    (connection, session): (ConnectionId, SessionId),
    credit: u64,
) -> ConsumerId {
    let reply = s.consume(id, "q", |consume| {
        (consume.connection, consume.session) = (connection, session);
    });
    assert!(matches!(reply, Reply::Consuming { .. }), "{reply:?}");
    s.credit(ConsumerId(id), credit);
    ConsumerId(id)
}

fn lose(s: &mut Scenario, connection: u64) {
    let connection = ConnectionId(connection);
    s.apply(Command::ConnectionClose { connection });
}

fn bodies(deliveries: &[Delivery]) -> Vec<String> {
    deliveries.iter().map(body_of).collect()
}

/// What a consumer gets now: body, failures so far, whether it is suspected.
fn seen(deliveries: &[Delivery]) -> Vec<(String, u32, bool)> {
    let seen = |it: &Delivery| (body_of(it), it.failures, it.suspect);
    deliveries.iter().map(seen).collect()
}

/// Whoever gets `poison` loses its connection; what else it had is never blamed.
#[test]
fn of_many_messages_the_one_that_kills_its_consumers_dies_and_the_others_are_never_charged() {
    let mut s = isolating();
    let all: Vec<String> = (0..20).map(|n| format!("m{n}")).collect();
    let mut names: Vec<&str> = all.iter().map(String::as_str).collect();
    names[7] = "poison";
    s.publish_all("q", &names);
    let mut done = Vec::new();
    for connection in 10..30 {
        let id = consumer(&mut s, connection, connection, 100);
        loop {
            let got = s.taken(id);
            let Some(first) = got.first() else { break };
            if got.iter().any(|it| body_of(it) == "poison") {
                lose(&mut s, connection);
                break;
            }
            assert_eq!(first.failures, 0, "{}", body_of(first));
            for delivery in &got {
                s.settle(delivery, Outcome::Accepted);
                done.push(body_of(delivery));
            }
        }
        if s.counts("q") == (0, 0, 0) {
            break;
        }
    }
    done.sort();
    let mut good: Vec<_> = names.into_iter().filter(|it| *it != "poison").collect();
    good.sort_unstable();
    assert_eq!(done, good);
    let dead = s.take(99, "dlq", 10);
    assert_eq!(bodies(&dead), ["poison"]);
    let history = dead[0].message.history().unwrap();
    assert_eq!(history.last().reason, Reason::DeliveryLimit);
}

#[test]
fn a_lost_connection_with_several_messages_counts_no_failure_and_one_with_a_single_one_does() {
    let mut s = isolating();
    s.publish_all("q", &["a", "b"]);
    let first = consumer(&mut s, 10, 10, 10);
    assert_eq!(s.taken(first).len(), 2);
    lose(&mut s, 10);
    assert_eq!(s.counts("q"), (2, 0, 0));
    assert_eq!(s.core.queue("q").unwrap().details().suspects, 2);
    let second = consumer(&mut s, 11, 11, 10);
    let got = s.taken(second);
    assert_eq!(seen(&got), [("a".to_owned(), 0, true)]);
    assert_eq!(got[0].acquired, 1);
    lose(&mut s, 11);
    let third = consumer(&mut s, 12, 12, 10);
    let got = s.taken(third);
    assert_eq!(seen(&got), [("a".to_owned(), 1, true)], "it was alone");
}

#[test]
fn without_the_policy_every_message_of_a_lost_connection_counts_as_failed() {
    let mut s = isolating();
    isolate(&mut s, false);
    s.publish_all("q", &["a", "b"]);
    let first = consumer(&mut s, 10, 10, 10);
    assert_eq!(s.taken(first).len(), 2);
    lose(&mut s, 10);
    let second = consumer(&mut s, 11, 11, 10);
    let got = s.taken(second);
    let expected = ["a", "b"].map(|body| (body.to_owned(), 1, false));
    assert_eq!(seen(&got), expected);
}

#[test]
fn who_holds_a_suspect_gets_nothing_else_until_it_is_settled_whatever_the_outcome() {
    let failed = Outcome::Modified {
        delivery_failed: true,
        undeliverable_here: false,
        annotations: None,
    };
    let outcomes = [
        (Outcome::Accepted, vec!["b"]),
        (Outcome::Rejected { evidence: None }, vec!["b"]),
        // It comes back to its place, and is suspected no more; the next one is.
        (Outcome::Released, vec!["a"]),
        (failed, vec!["a"]),
    ];
    for (outcome, next) in outcomes {
        let mut s = isolating();
        s.publish_all("q", &["a", "b"]);
        let lost = consumer(&mut s, 10, 10, 10);
        assert_eq!(s.taken(lost).len(), 2);
        lose(&mut s, 10);
        s.publish_all("q", &["c"]);
        let id = consumer(&mut s, 11, 11, 10);
        let got = s.taken(id);
        assert_eq!(bodies(&got), ["a"]);
        s.settle(&got[0], outcome);
        let got = s.taken(id);
        assert_eq!(bodies(&got), next);
        assert_eq!(got[0].suspect, next == ["b"]);
    }
}

#[test]
fn a_suspect_waits_for_a_connection_that_holds_nothing_of_the_queue() {
    let mut s = isolating();
    s.publish_all("q", &["a", "b"]);
    let lost = consumer(&mut s, 10, 10, 2);
    assert_eq!(s.taken(lost).len(), 2);
    let busy = consumer(&mut s, 11, 11, 1);
    s.publish_all("q", &["c"]);
    let held = s.taken(busy);
    assert_eq!(bodies(&held), ["c"]);
    lose(&mut s, 10);
    s.credit(busy, 10);
    assert_eq!(seen(&s.taken(busy)), [], "it holds c");
    // Another link of the same connection is the same consumer's process.
    let beside = attach(&mut s, 12, (ConnectionId(11), SessionId(11)), 10);
    assert_eq!(seen(&s.taken(beside)), []);
    s.settle(&held[0], Outcome::Accepted);
    let both: Vec<_> = [busy, beside]
        .into_iter()
        .flat_map(|id| s.taken(id))
        .collect();
    assert_eq!(bodies(&both), ["a"], "one of the two gets one");
    s.settle(&both[0], Outcome::Accepted);
    let both: Vec<_> = [busy, beside]
        .into_iter()
        .flat_map(|id| s.taken(id))
        .collect();
    assert_eq!(bodies(&both), ["b"]);
}

#[test]
fn links_in_two_sessions_of_one_connection_are_one_suspect_holder() {
    let mut s = isolating();
    s.publish_all("q", &["a", "b"]);
    let one = consumer(&mut s, 10, 10, 1);
    s.apply(Command::SessionOpen {
        connection: ConnectionId(10),
        session: SessionId(20),
        limit: u64::MAX,
    });
    let two = attach(&mut s, 11, (ConnectionId(10), SessionId(20)), 1);
    assert_eq!((s.taken(one).len(), s.taken(two).len()), (1, 1));
    lose(&mut s, 10);
    let next = consumer(&mut s, 12, 12, 10);
    assert_eq!(seen(&s.taken(next)), [("a".to_owned(), 0, true)]);
}

#[test]
fn a_session_that_ends_or_a_link_that_detaches_makes_no_suspects() {
    let mut s = isolating();
    s.publish_all("q", &["a", "b"]);
    let id = consumer(&mut s, 10, 10, 10);
    assert_eq!(s.taken(id).len(), 2);
    s.apply(Command::SessionEnd {
        session: SessionId(10),
    });
    let id = consumer(&mut s, 11, 11, 10);
    let expected = ["a", "b"].map(|body| (body.to_owned(), 1, false));
    assert_eq!(seen(&s.taken(id)), expected);
    s.apply(Command::ConsumerDetach { consumer: id });
    let id = consumer(&mut s, 12, 12, 10);
    assert_eq!(seen(&s.taken(id)), expected);
}

#[test]
fn a_drain_is_answered_while_a_suspect_is_held() {
    let mut s = isolating();
    s.publish_all("q", &["a", "b"]);
    let lost = consumer(&mut s, 10, 10, 10);
    assert_eq!(s.taken(lost).len(), 2);
    lose(&mut s, 10);
    let id = consumer(&mut s, 11, 11, 0);
    s.others.clear();
    s.drain(id, 10);
    let got = s.taken(id);
    assert_eq!(bodies(&got), ["a"]);
    let is_drained = |effect: &Effect| matches!(effect, Effect::Drained { consumer, limit: 10, .. } if *consumer == id);
    assert!(s.others.iter().any(is_drained), "{:?}", s.others);
    s.settle(&got[0], Outcome::Accepted);
    assert_eq!(seen(&s.taken(id)), [], "its credit is used up");
    s.credit(id, 11);
    assert_eq!(bodies(&s.taken(id)), ["b"]);
}

#[test]
fn what_left_the_queue_is_suspected_no_more() {
    let mut s = isolating();
    s.publish_all("q", &["a", "b", "c"]);
    let lost = consumer(&mut s, 10, 10, 10);
    assert_eq!(s.taken(lost).len(), 3);
    lose(&mut s, 10);
    s.apply(Command::Queue(QueueCommand::Purge {
        connection: Some(CONNECTION),
        name: Name::from("q"),
        with_dead_pending: false,
    }));
    // It was stale until a consumer came.
    assert_eq!(s.core.queue("q").unwrap().details().suspects, 0);
    s.publish_all("q", &["d", "e", "f", "g"]);
    let id = consumer(&mut s, 11, 11, 10);
    assert_eq!(bodies(&s.taken(id)), ["d", "e", "f", "g"]);
    assert_eq!(s.core.queue("q").unwrap().details().suspects, 0);
}

/// Without a consumer nobody looked, and the dead were told as suspects.
#[test]
fn what_died_in_the_queue_or_was_discarded_is_suspected_no_more() {
    for strategy in ["at-most-once", "at-least-once"] {
        let mut s = isolating();
        s.publish_all("q", &["a", "b", "c", "d"]);
        let lost = consumer(&mut s, 10, 10, 10);
        assert_eq!(s.taken(lost).len(), 4);
        lose(&mut s, 10);
        let suspects = |s: &Scenario| s.core.queue("q").unwrap().details().suspects;
        assert_eq!(suspects(&s), 4);
        s.apply(Command::Queue(QueueCommand::Discard {
            connection: None,
            name: Name::from("q"),
            position: Position(1),
        }));
        assert_eq!(suspects(&s), 3);
        let shorter = [
            ("poison-isolation", Value::Bool(true)),
            ("max-length", number(1)),
            ("dead-letter-strategy", text(strategy)),
        ];
        s.set_policy(false, "p", ("^q$", "queues"), &shorter);
        assert_eq!(s.counts("q").0, 1, "{strategy}");
        assert_eq!(suspects(&s), 1, "{strategy}");
    }
}

#[test]
fn there_is_a_bound_on_suspects_and_what_is_beyond_it_counts_as_failed() {
    let mut s = isolating();
    let names = vec!["x"; SUSPECTS_MAX + 3];
    s.publish_all("q", &names);
    let lost = consumer(&mut s, 10, 10, u64::MAX);
    assert_eq!(s.taken(lost).len(), SUSPECTS_MAX + 3);
    lose(&mut s, 10);
    assert_eq!(s.core.queue("q").unwrap().details().suspects, SUSPECTS_MAX);
    let last = s.core.queue("q").unwrap();
    let failures = |queue: &queue::Queue| {
        let mut from = Position(0);
        let mut failed = 0;
        while let Some(position) = queue.messages.find(queue::MessageState::Ready, from) {
            from = Position(position.0 + 1);
            failed += queue.messages.disk_ref(position).unwrap().failures;
        }
        failed
    };
    assert_eq!(failures(last), 3);
}

/// With more links than are looked at each link is on its own: it is still decided by what it held.
#[test]
fn with_very_many_links_each_is_on_its_own() {
    let mut s = isolating();
    s.publish_all("q", &["a", "b", "c"]);
    let first = consumer(&mut s, 1_000, 10, 2);
    for id in 0..ISOLATED_LINKS_MAX as u64 {
        attach(&mut s, 2_000 + id, (ConnectionId(10), SessionId(10)), 0);
    }
    let other = attach(&mut s, 5_000, (ConnectionId(10), SessionId(10)), 1);
    assert_eq!((s.taken(first).len(), s.taken(other).len()), (2, 1));
    lose(&mut s, 10);
    let id = consumer(&mut s, 11, 11, 1);
    let got = s.taken(id);
    assert_eq!(seen(&got), [("a".to_owned(), 0, true)]);
}
