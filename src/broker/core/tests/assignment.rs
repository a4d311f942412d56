//! Who gets what.

use super::scenario::{CONNECTION, Scenario, draft, number, text};
use crate::base::{ConnectionId, ConsumerId, Name, Seed, SessionId};
use crate::broker::*;
use crate::wire::Value;

fn bodies(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("m{n}")).collect()
}

#[test]
fn two_waiting_consumers_share_ten_messages_evenly() {
    for publish_first in [true, false] {
        let mut s = Scenario::new();
        s.queue("q", &[]);
        let (a, b) = (s.consumer(1, "q"), s.consumer(2, "q"));
        if publish_first {
            // Both get their credit before either is served: one batch.
            for n in bodies(10) {
                s.publish("q", &draft(&n));
            }
            let mut effects = Effects::new();
            for consumer in [a, b] {
                let flow = Command::ConsumerFlow {
                    consumer,
                    limit: 100,
                    drain: false,
                };
                s.core.handle_without_running(s.now, flow, &mut effects);
            }
            s.apply(Command::Upkeep(UpkeepCommand::Alarm { raised: false }));
        } else {
            s.credit(a, 100);
            s.credit(b, 100);
            for n in bodies(10) {
                s.publish("q", &draft(&n));
            }
        }
        assert_eq!(
            (s.taken(a).len(), s.taken(b).len()),
            (5, 5),
            "{publish_first}"
        );
    }
}

#[test]
fn a_turn_is_a_share_of_what_is_ready_and_at_most_64() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    for n in bodies(400) {
        s.publish("q", &draft(&n));
    }
    let (a, b) = (s.consumer(1, "q"), s.consumer(2, "q"));
    let mut effects = Effects::new();
    for consumer in [a, b] {
        let flow = Command::ConsumerFlow {
            consumer,
            limit: 1_000,
            drain: false,
        };
        s.core.handle_without_running(s.now, flow, &mut effects);
    }
    s.apply(Command::Upkeep(UpkeepCommand::Alarm { raised: false }));
    let order: Vec<u64> = s.deliveries.iter().map(|d| d.consumer.0).collect();
    let runs: Vec<usize> = order.chunk_by(|a, b| a == b).map(<[u64]>::len).collect();
    assert_eq!(runs.first(), Some(&64), "{runs:?}");
    assert!(runs.iter().all(|run| *run <= 64));
    assert!(s.taken(a).len().abs_diff(s.taken(b).len()) <= 64);
}

#[test]
fn a_higher_priority_is_served_first_while_it_has_credit() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    let low = s.consumer(1, "q");
    s.consume(2, "q", |c| c.priority = 10);
    let high = ConsumerId(2);
    s.credit(low, 100);
    s.credit(high, 3);
    for n in bodies(5) {
        s.publish("q", &draft(&n));
    }
    assert_eq!((s.taken(high).len(), s.taken(low).len()), (3, 2));
}

#[test]
fn a_single_active_consumer_passes_on_only_when_it_goes() {
    let mut s = Scenario::new();
    s.queue("q", &[("x-single-active-consumer", Value::Bool(true))]);
    let first = s.consumer(1, "q");
    s.consume(2, "q", |c| c.priority = 1);
    s.consume(3, "q", |c| c.priority = 5);
    for consumer in [1, 2, 3] {
        s.credit(ConsumerId(consumer), 1);
    }
    s.publish_all("q", &["a", "b", "c"]);
    assert_eq!(
        s.deliveries.len(),
        1,
        "the others get nothing though the first has no credit"
    );
    s.detach(first);
    assert_eq!(
        s.taken(ConsumerId(3)).len(),
        1,
        "the highest priority takes over"
    );
    assert_eq!(s.taken(ConsumerId(2)).len(), 0);
}

#[test]
fn an_exclusive_consumer_refuses_company_and_is_refused_in_it() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    let in_use = Reply::Refused(Error::InUse {
        name: Name::from("q"),
    });
    s.consume(1, "q", |c| c.exclusive = true);
    assert_eq!(s.consume(2, "q", |_| {}), in_use);
    s.detach(ConsumerId(1));
    s.consumer(3, "q");
    assert_eq!(s.consume(4, "q", |c| c.exclusive = true), in_use);
}

#[test]
fn nothing_is_assigned_beyond_credit_window_or_room() {
    let mut options = CoreOptions::new(Name::from("/"), Seed(1));
    options.unsettled_max = 4;
    let mut s = Scenario::with(options);
    s.queue("q", &[]);
    for n in bodies(20) {
        s.publish("q", &draft(&n));
    }
    let c = s.consumer(1, "q");
    let session = SessionId(1);
    s.apply(Command::SessionFlow { session, limit: 2 });
    s.credit(c, 1);
    assert_eq!(s.deliveries.len(), 1, "credit");
    s.credit(c, 20);
    assert_eq!(s.deliveries.len(), 2, "session window");
    s.apply(Command::SessionFlow {
        session,
        limit: 100,
    });
    assert_eq!(s.deliveries.len(), 4, "unsettled");
    let size = s.deliveries[0].message.bare_len() as u64;
    s.apply(Command::ConnectionRoom {
        connection: CONNECTION,
        limit_bytes: 5 * size,
    });
    for delivery in s.taken(c) {
        s.settle(&delivery, Outcome::Accepted);
    }
    assert_eq!(s.deliveries.len(), 1, "connection room");
    s.apply(Command::ConnectionRoom {
        connection: CONNECTION,
        limit_bytes: 5 * size + 1,
    });
    assert_eq!(
        s.deliveries.len(),
        2,
        "any room at all is room for one message"
    );
}

#[test]
fn a_reader_with_huge_credit_stays_within_the_room_of_its_connection() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    for _ in 0..5_000 {
        s.publish("q", &draft(&"x".repeat(1_000)));
    }
    let (connection, session) = (ConnectionId(9), SessionId(9));
    let user = Name::from("guest");
    s.apply(Command::ConnectionOpen {
        connection,
        user,
        client: Name::default(),
        limit_bytes: 1024 * 1024,
    });
    s.apply(Command::SessionOpen {
        connection,
        session,
        limit: u64::MAX,
    });
    s.consume(1, "q", |c| c.of(connection, session));
    s.credit(ConsumerId(1), 1 << 31);
    let bytes: usize = s.deliveries.iter().map(|d| d.message.bare_len()).sum();
    assert!(
        (1024 * 1024..1024 * 1024 + 1_100).contains(&bytes),
        "{bytes}"
    );
}

#[test]
fn drain_delivers_what_is_there_and_then_uses_the_credit_up() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    let c = s.consumer(1, "q");
    s.drain(c, 5);
    assert!(
        matches!(s.others.pop(), Some(Effect::Drained { .. })),
        "an empty queue drains at once"
    );
    s.publish_all("q", &["a", "b"]);
    assert_eq!(s.deliveries.len(), 0, "the credit is used up");
    s.drain(c, 10);
    assert_eq!(s.taken(c).len(), 2);
    assert!(matches!(s.others.pop(), Some(Effect::Drained { .. })));
    s.credit(c, 11);
    s.publish_all("q", &["c", "d"]);
    assert_eq!(s.taken(c).len(), 1);
}

#[test]
fn drain_waits_for_the_window_while_something_is_there() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    s.publish_all("q", &["a", "b"]);
    let c = s.consumer(1, "q");
    s.apply(Command::SessionFlow {
        session: SessionId(1),
        limit: 1,
    });
    s.drain(c, 5);
    assert_eq!((s.taken(c).len(), s.others.len()), (1, 0));
    s.apply(Command::SessionFlow {
        session: SessionId(1),
        limit: 2,
    });
    assert_eq!((s.taken(c).len(), s.others.len()), (1, 1));
}

/// It was told that it was drained when others had taken the rest, and lost the credit that it had given anew.
#[test]
fn who_takes_a_drain_back_keeps_its_credit() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    s.connect(ConnectionId(2), SessionId(2));
    s.publish_all("q", &["a"]);
    let c = s.consumer(1, "q");
    let window = |limit| Command::SessionFlow {
        session: SessionId(1),
        limit,
    };
    s.apply(window(0));
    s.drain(c, 5);
    s.credit(c, 10);
    s.consume(2, "q", |consume| {
        (consume.connection, consume.session) = (ConnectionId(2), SessionId(2));
    });
    s.credit(ConsumerId(2), 1);
    assert_eq!((s.taken(ConsumerId(2)).len(), s.others.len()), (1, 0));
    s.apply(window(10));
    s.publish_all("q", &["b", "c"]);
    assert_eq!(s.taken(c).len(), 2);
}

#[test]
fn who_drains_is_told_when_its_credit_is_used_up_though_others_go_on() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    s.publish_all("q", &["a", "b"]);
    let c = s.consumer(1, "q");
    let first = s.consumer(2, "q");
    s.drain(c, 1);
    assert_eq!((s.taken(c).len(), s.others.len()), (1, 1));
    s.credit(first, 1);
    assert_eq!(s.taken(first).len(), 1);
}

#[test]
fn an_unsent_delivery_comes_back_as_if_nothing_had_happened() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    s.publish_all("q", &["a", "b"]);
    let c = s.consumer(1, "q");
    s.credit(c, 1);
    let unsent = s.taken(c).remove(0);
    s.apply(Command::ReturnUnsent {
        consumer: c,
        position: unsent.position,
    });
    let again = s.taken(c).remove(0);
    assert_eq!(
        (again.position, again.acquired, again.first_acquirer),
        (unsent.position, 0, true)
    );
}

/// A simulated world found it: a session's window shrank for good by what its consumers had not been
/// sent when their queue was deleted.
#[test]
fn what_was_unsent_of_a_deleted_queue_frees_the_window_of_its_session() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    s.queue("r", &[]);
    s.publish_all("q", &["a", "b"]);
    let c = s.consumer(1, "q");
    let other = s.consumer(2, "r");
    s.apply(Command::SessionFlow {
        session: SessionId(1),
        limit: 2,
    });
    s.credit(c, 2);
    s.credit(other, 2);
    let unsent = s.taken(c);
    assert_eq!(unsent.len(), 2);
    s.publish_all("r", &["c", "d"]);
    s.apply(Command::Queue(QueueCommand::Delete {
        connection: None,
        name: Name::from("q"),
        if_unused: false,
        if_empty: false,
    }));
    assert_eq!(s.taken(other).len(), 0, "the window is closed");
    for delivery in unsent {
        s.apply(Command::ReturnUnsent {
            consumer: c,
            position: delivery.position,
        });
    }
    s.detach(c);
    assert_eq!(s.taken(other).len(), 2);
}

#[test]
fn what_a_settled_consumer_was_written_is_gone_and_the_rest_comes_back() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    s.publish_all("q", &["a", "b", "c"]);
    let consumer = ConsumerId(1);
    s.consume(1, "q", |c| c.settled = true);
    s.credit(consumer, 2);
    assert_eq!(s.counts("q"), (1, 2, 0));
    let taken = s.taken(consumer);
    s.apply(Command::ConsumerFlow {
        consumer,
        limit: 0,
        drain: false,
    });
    s.apply(Command::SettleRun(SettleRun {
        consumer,
        positions: vec![taken[0].position],
        outcome: Outcome::Accepted,
    }));
    let position = taken[1].position;
    s.apply(Command::ReturnUnsent { consumer, position });
    let settled = &s.core.counters().settled;
    assert_eq!((settled.presettled, settled.accepted), (1, 0));
    s.detach(consumer);
    assert_eq!(s.bodies("q"), ["b", "c"]);
}

#[test]
fn a_classic_priority_queue_gives_the_highest_first() {
    let mut s = Scenario::new();
    s.queue("q", &[("x-max-priority", Value::Ubyte(5))]);
    for (body, priority) in [
        ("none", None),
        ("p9", Some(9)),
        ("p1", Some(1)),
        ("p5", Some(5)),
    ] {
        let mut message = draft(body);
        message.priority = priority;
        s.publish("q", &message);
    }
    assert_eq!(s.bodies("q"), ["p9", "p5", "p1", "none"]);
}

#[test]
fn a_quorum_queue_gives_two_high_for_one_normal() {
    let mut s = Scenario::new();
    s.queue("q", &[("x-queue-type", text("quorum"))]);
    for (body, priority) in [
        ("n1", 0),
        ("n2", 4),
        ("h1", 5),
        ("h2", 200),
        ("h3", 9),
        ("h4", 9),
        ("n3", 1),
    ] {
        s.publish("q", &draft(body).priority(priority));
    }
    assert_eq!(s.bodies("q"), ["h1", "h2", "n1", "h3", "h4", "n2", "n3"]);
}

#[test]
fn messages_return_to_their_place() {
    let mut s = Scenario::new();
    s.queue("q", &[("x-delivery-limit", number(100))]);
    let names = bodies(1_500);
    for n in &names {
        s.publish("q", &draft(n));
    }
    let c = s.consumer(1, "q");
    s.credit(c, 1_200);
    let taken = s.taken(c);
    for delivery in taken.iter().rev().step_by(2) {
        s.settle(delivery, Outcome::Released);
    }
    s.detach(c);
    assert_eq!(s.bodies("q"), names);
}
