//! Length limits and overflow. [dead-lettering part 7]

use super::scenario::{Scenario, draft, number, text};
use crate::base::Name;
use crate::broker::*;
use crate::wire::Value;

fn full(queue: &str) -> PublishOutcome {
    PublishOutcome::QueueFull {
        queue: Name::from(queue),
    }
}

fn limited(overflow: &str, max: u64, more: &[(&'static str, Value)]) -> Scenario {
    let mut s = Scenario::new();
    let mut arguments = vec![
        ("x-max-length", number(max)),
        ("x-overflow", text(overflow)),
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("dlq")),
    ];
    arguments.extend(more.iter().cloned());
    s.queue("q", &arguments);
    s.queue("dlq", &[]);
    s
}

#[test]
fn each_overflow_is_exact_at_the_limit_on_every_queue_type() {
    for kind in ["classic", "quorum"] {
        let cases = [
            (
                "drop-head",
                vec!["c", "d"],
                vec!["a", "b"],
                PublishOutcome::Accepted,
            ),
            ("reject-publish", vec!["a", "b"], vec![], full("q")),
            (
                "reject-publish-dlx",
                vec!["a", "b"],
                vec!["c", "d"],
                full("q"),
            ),
        ];
        for (overflow, kept, dead, outcome) in cases {
            let mut s = limited(overflow, 2, &[("x-queue-type", text(kind))]);
            s.publish_all("q", &["a", "b"]);
            for body in ["c", "d"] {
                assert_eq!(s.publish("q", &draft(body)), outcome, "{overflow}");
            }
            assert_eq!(s.bodies("q"), kept, "{kind} {overflow}");
            assert_eq!(s.bodies("dlq"), dead, "{kind} {overflow}");
        }
    }
}

#[test]
fn what_goes_to_a_waiting_consumer_is_neither_dropped_nor_refused() {
    for overflow in ["drop-head", "reject-publish", "reject-publish-dlx"] {
        let mut s = limited(overflow, 0, &[]);
        let c = s.consumer(1, "q");
        s.credit(c, 2);
        s.publish_all("q", &["a", "b"]);
        assert_eq!(s.taken(c).len(), 2, "{overflow}");
        let third = s.publish("q", &draft("c"));
        let refused = overflow != "drop-head";
        assert_eq!(
            third,
            if refused {
                full("q")
            } else {
                PublishOutcome::Accepted
            }
        );
        let dead = if overflow == "reject-publish" {
            vec![]
        } else {
            vec!["c"]
        };
        assert_eq!(s.bodies("dlq"), dead, "{overflow}");
    }
}

#[test]
fn held_messages_do_not_count_but_may_be_too_many_when_they_return() {
    let mut s = limited("drop-head", 2, &[]);
    s.publish_all("q", &["a", "b"]);
    let c = s.consumer(1, "q");
    s.credit(c, 1);
    s.publish_all("q", &["c"]);
    assert_eq!(s.counts("q"), (2, 1, 0));
    s.detach(c);
    assert_eq!(s.bodies("q"), ["b", "c"], "the returned one is the oldest");
    assert_eq!(s.bodies("dlq"), ["a"]);
}

#[test]
fn bytes_are_those_of_the_bare_message() {
    let size = draft("0123456789").build().bare_len() as u64;
    let mut s = Scenario::new();
    s.queue("q", &[("x-max-length-bytes", number(2 * size))]);
    s.publish_all("q", &["0123456789", "1123456789", "2123456789"]);
    assert_eq!(s.bodies("q"), ["1123456789", "2123456789"]);
    s.publish_all("q", &["0123456789", &"x".repeat(1_000)]);
    assert_eq!(
        s.counts("q"),
        (0, 0, 0),
        "too large for the queue alone: nothing stays"
    );
}

#[test]
fn priority_queues_drop_the_lowest_first_and_the_oldest_within_it() {
    let mut s = limited("drop-head", 2, &[("x-max-priority", Value::Ubyte(9))]);
    for (body, priority) in [("a", 5), ("b", 1), ("c", 1), ("d", 9), ("e", 0)] {
        s.publish("q", &draft(body).priority(priority));
    }
    assert_eq!(s.bodies("q"), ["d", "a"]);
    assert_eq!(s.bodies("dlq"), ["b", "c", "e"]);
}

#[test]
fn other_targets_get_what_one_refused() {
    let mut s = limited("reject-publish", 0, &[]);
    s.exchange("x", "fanout");
    s.bind("x", "q", "");
    s.bind("x", "dlq", "");
    assert_eq!(s.publish_to("x", "", &draft("a")), full("q"));
    assert_eq!(s.bodies("dlq"), ["a"]);
}

#[test]
fn a_policy_that_lowers_the_limit_drops_the_head() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    s.publish_all("q", &["a", "b", "c"]);
    s.policy("p", "^q$", &[("max-length", number(1))]);
    assert_eq!(s.bodies("q"), ["c"]);
    assert_eq!(s.dropped("q", DropCause::NoDeadLetterExchange), 2);
}

#[test]
fn a_cascade_of_overflowing_queues_ends_and_keeps_order() {
    let mut s = Scenario::new();
    for n in 0..200 {
        s.queue(
            &format!("q{n}"),
            &[
                ("x-max-length", number(1)),
                ("x-dead-letter-exchange", text("")),
                ("x-dead-letter-routing-key", text(&format!("q{}", n + 1))),
            ],
        );
    }
    s.queue("q200", &[]);
    for n in 0..203 {
        s.publish("q0", &draft(&n.to_string()));
    }
    assert_eq!(s.bodies("q200"), ["0", "1", "2"]);
    assert_eq!(s.bodies("q0"), ["202"]);
}
