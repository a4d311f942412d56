//! At-least-once: dead letters that wait in their queue. [dead-lettering part 6]

use super::scenario::{Scenario, draft, number, text};
use crate::base::Name;
use crate::base::limits::{PENDING_OVERHEAD_BYTES, PENDING_TARGET_BYTES};
use crate::broker::*;
use crate::wire::Value;

fn at_least_once(exchange: &str, key: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("x-dead-letter-exchange", text(exchange)),
        ("x-dead-letter-routing-key", text(key)),
        ("x-dead-letter-strategy", text("at-least-once")),
    ]
}

fn full_target(s: &mut Scenario, name: &str, max: u64) {
    s.queue(
        name,
        &[
            ("x-max-length", number(max)),
            ("x-overflow", text("reject-publish")),
        ],
    );
}

fn reject_all(s: &mut Scenario, queue: &str) {
    for delivery in s.take(1, queue, 1_000) {
        s.reject(&delivery);
    }
    s.detach(crate::base::ConsumerId(1));
}

#[test]
fn a_dead_letter_waits_visibly_and_goes_when_a_target_appears() {
    type Appear = fn(&mut Scenario);
    let ways: [(&str, &str, Appear); 3] = [
        ("", "dlq", |s| s.queue("dlq", &[])),
        ("dlx", "k", |s| {
            s.queue("dlq", &[]);
            s.exchange("dlx", "fanout");
            assert_eq!(s.counts("q"), (0, 0, 2));
            s.bind("dlx", "dlq", "");
        }),
        ("dlx", "k", |s| {
            s.queue("dlq", &[]);
            let policy = [("dead-letter-exchange", text(""))];
            s.policy("p", "^none$", &policy);
            s.exchange("dlx", "direct");
            s.bind("dlx", "dlq", "k");
        }),
    ];
    for (exchange, key, appear) in ways {
        let mut s = Scenario::new();
        s.queue("q", &at_least_once(exchange, key));
        s.publish_all("q", &["a", "b"]);
        reject_all(&mut s, "q");
        assert_eq!(s.counts("q"), (0, 0, 2));
        assert_eq!(s.take(2, "q", 10).len(), 0, "it is not delivered");
        s.pass(1_000_000);
        assert_eq!(s.counts("q"), (0, 0, 2), "it does not expire");
        appear(&mut s);
        assert_eq!(s.counts("q"), (0, 0, 0));
        assert_eq!(s.bodies("dlq"), ["a", "b"]);
    }
}

#[test]
fn it_goes_in_turn_when_a_full_target_has_room() {
    let mut s = Scenario::new();
    full_target(&mut s, "dlq", 1);
    s.queue("q", &at_least_once("", "dlq"));
    s.publish_all("q", &["a", "b", "c"]);
    reject_all(&mut s, "q");
    assert_eq!(s.counts("q"), (0, 0, 2));
    for body in ["a", "b", "c"] {
        let taken = s.take(5, "dlq", 1);
        assert_eq!(super::scenario::body_of(&taken[0]), body);
        s.settle(&taken[0], Outcome::Accepted);
        s.detach(taken[0].consumer);
    }
    assert_eq!(s.counts("q"), (0, 0, 0));
}

/// A dead letter of `q` is in `open` and waits for room in `full`.
fn one_target_is_full() -> Scenario {
    let mut s = Scenario::new();
    s.exchange("dlx", "fanout");
    s.queue("open", &[]);
    full_target(&mut s, "full", 0);
    s.bind("dlx", "open", "");
    s.bind("dlx", "full", "");
    s.queue("q", &at_least_once("dlx", ""));
    s.publish_all("q", &["a"]);
    reject_all(&mut s, "q");
    s
}

#[test]
fn one_record_moves_it_to_all_that_accept_and_it_waits_for_exactly_the_others() {
    let mut s = one_target_is_full();
    assert_eq!((s.counts("open").0, s.counts("q").2), (1, 1));
    s.queue("late", &[]);
    s.bind("dlx", "late", "");
    assert_eq!(
        (s.counts("open").0, s.counts("late").0),
        (1, 0),
        "no target gets it twice or new"
    );
    let c = s.consumer(3, "full");
    s.credit(c, 1);
    assert_eq!(
        s.counts("q").2,
        1,
        "a waiting consumer alone wakes nobody: no message came or went"
    );
    s.queue("other", &[]);
    assert_eq!((s.taken(c).len(), s.counts("q").2), (1, 0));
}

#[test]
fn waiting_letters_count_for_the_limit_and_fill_it_alone() {
    for overflow in ["drop-head", "reject-publish", "reject-publish-dlx"] {
        let mut s = Scenario::new();
        let mut arguments = at_least_once("", "missing");
        arguments.extend([("x-max-length", number(2)), ("x-overflow", text(overflow))]);
        s.queue("q", &arguments);
        s.publish_all("q", &["a", "b"]);
        reject_all(&mut s, "q");
        assert_eq!(s.counts("q"), (0, 0, 2));
        let full = PublishOutcome::QueueFull {
            queue: Name::from("q"),
        };
        if overflow == "reject-publish-dlx" {
            assert_eq!(s.publish("q", &draft("c")), full);
            continue;
        }
        assert_eq!(s.publish("q", &draft("c")), full, "{overflow}");
        assert_eq!(s.counts("q"), (0, 0, 2));
    }
}

#[test]
fn letters_are_dropped_and_counted_when_nothing_wants_them_any_more() {
    let mut s = Scenario::new();
    s.queue("q", &[("x-dead-letter-strategy", text("at-least-once"))]);
    s.policy("p", "^q$", &[("dead-letter-exchange", text("missing"))]);
    s.publish_all("q", &["a"]);
    reject_all(&mut s, "q");
    assert_eq!(s.counts("q"), (0, 0, 1));
    s.no_policy("p");
    assert_eq!(s.counts("q"), (0, 0, 0));
    assert_eq!(s.dropped("q", DropCause::PendingAbandoned), 1);
}

#[test]
fn deleting_the_queue_drops_and_counts_them_too() {
    let mut s = Scenario::new();
    s.queue("q", &at_least_once("", "missing"));
    s.publish_all("q", &["a", "b"]);
    for delivery in s.take(1, "q", 1) {
        s.reject(&delivery);
    }
    let name = Name::from("q");
    let delete = Command::Queue(QueueCommand::Delete {
        connection: None,
        name,
        if_unused: false,
        if_empty: false,
    });
    assert!(matches!(
        s.apply(delete),
        Reply::QueueDeleted { messages: 1, .. }
    ));
    assert_eq!(s.core.counters().drops.of(DropCause::PendingAbandoned), 1);
    assert_eq!(s.core.counters().drops.of(DropCause::QueueDeleted), 1);
}

#[test]
fn a_purge_spares_them_unless_asked() {
    let mut s = Scenario::new();
    s.queue("q", &at_least_once("", "missing"));
    s.publish_all("q", &["a", "b"]);
    for delivery in s.take(1, "q", 1) {
        s.reject(&delivery);
    }
    for (with_dead_pending, purged, left) in [(false, 1, 1), (true, 0, 0)] {
        let (connection, name) = (None, Name::from("q"));
        let reply = s.apply(Command::Queue(QueueCommand::Purge {
            connection,
            name,
            with_dead_pending,
        }));
        let Reply::Purged { messages, .. } = reply else {
            panic!("{reply:?}")
        };
        assert_eq!((messages, s.counts("q").2), (purged, left));
    }
}

#[test]
fn a_cycle_is_dropped_under_at_least_once_too() {
    let mut s = Scenario::new();
    let mut arguments = at_least_once("", "q");
    arguments.push(("x-message-ttl", number(5)));
    s.queue("q", &arguments);
    s.publish_all("q", &["a"]);
    s.pass(50);
    assert_eq!(s.counts("q"), (0, 0, 0));
    assert_eq!(s.dropped("q", DropCause::Cycle), 1);
}

#[test]
fn a_target_that_was_waited_for_and_goes_ends_the_waiting() {
    let mut s = one_target_is_full();
    let (connection, name) = (None, Name::from("full"));
    s.apply(Command::Queue(QueueCommand::Delete {
        connection,
        name,
        if_unused: false,
        if_empty: false,
    }));
    assert_eq!(s.counts("q"), (0, 0, 0));
    assert_eq!(s.core.counters().copies_refused, 1);
}

/// They stayed at a full target for as long as it was full, uncounted, and were then passed in one step.
#[test]
fn letters_whose_queue_goes_or_that_go_elsewhere_wait_at_no_target_any_more() {
    const COUNT: usize = 200;
    let mut s = Scenario::new();
    full_target(&mut s, "full", 1);
    s.publish_all("full", &["occupied"]);
    for queue in ["gone", "purged", "kept"] {
        s.queue(queue, &at_least_once("", "full"));
        for n in 0..COUNT {
            s.publish(queue, &draft(&format!("m{n}")));
        }
        reject_all(&mut s, queue);
    }
    let waiters = |s: &Scenario| s.core.queue(&Name::from("full")).unwrap().waiters.len();
    assert_eq!(waiters(&s), 3 * COUNT);
    let counted = s.core.kept().bytes();
    let of_each = PENDING_OVERHEAD_BYTES + PENDING_TARGET_BYTES;
    assert!(counted > 3 * COUNT as u64 * of_each, "{counted}");
    let (connection, name) = (None, Name::from("gone"));
    s.apply(Command::Queue(QueueCommand::Delete {
        connection,
        name,
        if_unused: false,
        if_empty: false,
    }));
    while s.core.has_work() {
        s.core.tick(s.now, 256, &mut s.effects);
    }
    assert_eq!(waiters(&s), 2 * COUNT);
    let freed = counted - s.core.kept().bytes();
    let of_letters = COUNT as u64 * of_each;
    assert!((of_letters..of_letters + 4_096).contains(&freed), "{freed}"); // and of their queue
    let (connection, name) = (None, Name::from("purged"));
    s.apply(Command::Queue(QueueCommand::Purge {
        connection,
        name,
        with_dead_pending: true,
    }));
    while s.core.has_work() {
        s.core.tick(s.now, 256, &mut s.effects);
    }
    assert_eq!(waiters(&s), COUNT);
    // Those that are left go as before.
    let room = s.take(1, "full", 1).remove(0);
    s.settle(&room, Outcome::Accepted);
    assert_eq!(s.counts("kept").2, COUNT as u64 - 1);
    assert_eq!(waiters(&s), COUNT - 1);
}
