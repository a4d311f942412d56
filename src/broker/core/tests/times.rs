//! Time to live and deadlines. [dead-lettering part 8]

use super::scenario::{Scenario, body_of, draft, number, text};
use crate::base::{Millis, Name, Now, Timestamp};
use crate::broker::*;
use crate::deaths::Reason;

const YEARS_10_MS: i64 = 10 * 365 * 24 * 3600 * 1000;

fn timed(ttl_ms: Option<u64>) -> Scenario {
    let mut s = Scenario::new();
    let mut arguments = vec![
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("dlq")),
    ];
    arguments.extend(ttl_ms.map(|ttl_ms| ("x-message-ttl", number(ttl_ms))));
    s.queue("q", &arguments);
    s.queue("dlq", &[]);
    s
}

#[test]
fn a_message_dies_exactly_on_its_time_at_any_position() {
    // queue ttl, own ttl, lives
    for (queue, own, lives) in [
        (Some(100), None, 100),
        (None, Some(50), 50),
        (Some(100), Some(50), 50),
        (Some(20), Some(50), 20),
    ] {
        let mut s = timed(queue);
        if queue.is_none() {
            s.publish_all("q", &["head without ttl"]);
        }
        let mut message = draft("a");
        message.ttl_ms = own;
        s.publish("q", &message);
        s.pass(lives - 1);
        assert_eq!(s.counts("dlq").0, 0);
        s.pass(1);
        let copy = s.take(1, "dlq", 1).remove(0);
        let history = copy.message.history().unwrap();
        assert_eq!(history.last().reason, Reason::Expired);
        assert_eq!(history.entries()[0].ttl, own);
        assert_eq!(copy.message.ttl_ms(), None, "ttl is removed from the copy");
    }
}

#[test]
fn nothing_is_delivered_after_its_time_even_before_the_timer_ran() {
    let mut s = timed(Some(100));
    s.publish_all("q", &["a", "b"]);
    s.now = Now::new(s.now.mono.plus(100), s.now.wall);
    assert_eq!(s.take(1, "q", 10).len(), 0);
    assert_eq!(s.bodies("dlq"), ["a", "b"]);
}

#[test]
fn ttl_0_goes_to_a_waiting_consumer_or_dies_at_once() {
    for by_queue in [true, false] {
        let mut s = timed(by_queue.then_some(0));
        let message = if by_queue {
            draft("a")
        } else {
            draft("a").ttl(0)
        };
        let c = s.consumer(1, "q");
        s.credit(c, 1);
        s.publish("q", &message);
        assert_eq!(s.taken(c).len(), 1);
        s.publish("q", &message);
        assert_eq!(s.counts("q"), (0, 1, 0));
        assert_eq!(s.bodies("dlq"), ["a"]);
    }
}

#[test]
fn a_held_message_that_comes_back_late_dies_then() {
    let mut s = timed(Some(100));
    s.publish_all("q", &["a", "b"]);
    let c = s.consumer(1, "q");
    s.credit(c, 2);
    let taken = s.taken(c);
    s.pass(60);
    s.settle(&taken[0], Outcome::Released);
    s.pass(39);
    assert_eq!(s.counts("q"), (1, 1, 0));
    s.pass(1);
    assert_eq!(s.counts("q"), (0, 1, 0), "the original deadline holds");
    s.pass(50);
    s.settle(&taken[1], Outcome::Released);
    assert_eq!(s.counts("q"), (0, 0, 0));
    assert_eq!(s.bodies("dlq"), ["a", "b"]);
}

#[test]
fn a_policy_re_times_what_is_in_the_queue() {
    let mut s = timed(None);
    s.publish_all("q", &["a"]);
    s.pass(50);
    s.policy("p", "^q$", &[("message-ttl", number(80))]);
    s.pass(29);
    assert_eq!(s.counts("q").0, 1);
    s.policy("p", "^q$", &[("message-ttl", number(200))]);
    s.pass(100);
    assert_eq!(s.counts("q").0, 1);
    s.no_policy("p");
    s.pass(1_000);
    assert_eq!(s.counts("q").0, 1);
    s.policy("p", "^q$", &[("message-ttl", number(80))]);
    assert_eq!(s.counts("q").0, 0);
}

#[test]
fn jumps_of_the_wall_clock_expire_nothing_early_or_late() {
    for jump in [YEARS_10_MS, -YEARS_10_MS] {
        let mut s = timed(Some(100));
        s.publish_all("q", &["a"]);
        s.publish("q", &draft("b").ttl(50));
        s.jump(jump);
        s.pass(49);
        assert_eq!(s.counts("q").0, 2);
        s.pass(1);
        assert_eq!(s.counts("q").0, 1);
        s.jump(-jump);
        s.pass(49);
        assert_eq!(s.counts("q").0, 1);
        s.pass(1);
        assert_eq!(s.counts("q").0, 0);
    }
}

#[test]
fn a_boot_in_1970_is_a_boot_like_any_other() {
    let mut s = timed(Some(100));
    s.now = Now::new(s.now.mono, Timestamp(0));
    s.publish_all("q", &["a"]);
    s.publish("q", &draft("b").expires_at(50));
    s.pass(49);
    assert_eq!(s.counts("q").0, 2);
    s.pass(1);
    assert_eq!(s.counts("q").0, 1);
    s.pass(50);
    assert_eq!(s.counts("q").0, 0);
}

#[test]
fn absolute_expiry_is_a_deadline() {
    let mut s = timed(None);
    let wall = s.now.wall.0;
    s.publish("q", &draft("none").expires_at(0));
    s.publish("q", &draft("soon").expires_at(wall + 10));
    s.publish("q", &draft("smaller ttl").expires_at(wall + 1_000).ttl(5));
    s.jump(YEARS_10_MS);
    s.pass(9);
    assert_eq!(s.bodies("dlq"), ["smaller ttl"]);
    s.pass(1);
    assert_eq!(s.bodies("dlq"), ["soon"]);
    s.pass(10_000);
    assert_eq!(s.bodies("q"), ["none"]);
}

/// One that had passed was taken for none: the message lived for ever.
#[test]
fn absolute_expiry_that_has_passed_is_like_ttl_0() {
    for before in [0, 1, YEARS_10_MS, i64::MAX] {
        let mut s = timed(None);
        let expiry = s.now.wall.0.saturating_sub(before);
        let late = draft("late").expires_at(expiry);
        let c = s.consumer(1, "q");
        s.credit(c, 1);
        s.publish("q", &late);
        assert_eq!(s.taken(c).len(), 1, "it goes to who waits for it");
        s.publish("q", &late);
        assert_eq!(s.counts("q"), (0, 1, 0));
        assert_eq!(s.counts("dlq").0, 1, "it is dead at once");
        s.publish("q", &late.ttl(1_000));
        assert_eq!(s.counts("dlq").0, 2, "the smaller one holds");
        let copy = s.take(2, "dlq", 1).remove(0);
        let history = copy.message.history().unwrap();
        assert_eq!(history.last().reason, Reason::Expired);
        assert_eq!(history.entries()[0].ttl, None);
    }
}

/// The properties keep it, so a dead letter would expire again wherever it goes.
#[test]
fn a_dead_letter_starts_anew_without_the_absolute_expiry_it_came_with() {
    let mut s = timed(None);
    let wall = s.now.wall.0;
    s.publish("q", &draft("late").expires_at(wall - 1));
    let c = s.consumer(1, "q");
    s.credit(c, 1);
    s.publish("q", &draft("refused").expires_at(wall + 10));
    let taken = s.taken(c).remove(0);
    s.reject(&taken);
    s.detach(c);
    s.publish("q", &draft("soon").expires_at(wall + 20));
    s.pass(20);
    s.jump(-YEARS_10_MS);
    s.pass(10_000);
    assert_eq!(s.core.counters().dead.of(Reason::Expired), 2);
    let copies = s.take(2, "dlq", 10);
    let bodies: Vec<_> = copies.iter().map(body_of).collect();
    assert_eq!(bodies, ["late", "refused", "soon"]);
    let kept = copies[2].message.absolute_expiry_time();
    assert_eq!(kept, Some(Timestamp(wall + 20)), "nobody changes it");
}

#[test]
fn an_unused_queue_expires_and_use_renews_it() {
    let mut s = Scenario::new();
    let arguments = [("x-expires", number(100))];
    s.queue("q", &arguments);
    s.publish_all("q", &["a"]);
    s.pass(99);
    s.queue("q", &arguments);
    s.pass(99);
    let c = s.consumer(1, "q");
    s.pass(1_000);
    s.detach(c);
    s.pass(99);
    assert_eq!(s.counts("q").0, 1);
    s.pass(1);
    let name = Name::from("q");
    assert!(matches!(
        s.apply(Command::Queue(QueueCommand::Get { name })),
        Reply::Refused(Error::NotFound { .. })
    ));
    assert_eq!(s.core.counters().drops.of(DropCause::QueueExpired), 1);
}

/// A full queue is served before it refuses; one that is due expires at that. What was published to it
/// was accepted and nowhere.
#[test]
fn what_is_published_to_a_full_queue_that_expires_at_that_moment_is_released() {
    for (bound, outcome) in [
        (false, PublishOutcome::Unroutable),
        (true, PublishOutcome::Accepted),
    ] {
        let mut s = Scenario::new();
        let arguments = [
            ("x-expires", number(100)),
            ("x-max-length", number(1)),
            ("x-overflow", text("reject-publish")),
        ];
        s.exchange("x", "fanout");
        s.queue("q", &arguments);
        s.bind("x", "q", "");
        if bound {
            s.queue("other", &[]);
            s.bind("x", "other", "");
        }
        s.publish_all("q", &["first"]);
        s.now = Now::new(s.now.mono.plus(100), s.now.wall);
        assert_eq!(s.publish_to("x", "", &draft("second")), outcome);
        assert!(s.core.queue("q").is_none(), "expired");
        if bound {
            assert_eq!(s.bodies("other"), ["second"]);
        }
    }
}

#[test]
fn a_message_that_fails_and_is_late_dies_of_the_delivery_limit() {
    let mut s = Scenario::new();
    s.queue(
        "q",
        &[
            ("x-dead-letter-exchange", text("")),
            ("x-dead-letter-routing-key", text("dlq")),
            ("x-delivery-limit", number(0)),
            ("x-message-ttl", number(10)),
        ],
    );
    s.queue("dlq", &[]);
    s.publish_all("q", &["a"]);
    let taken = s.take(1, "q", 1).remove(0);
    s.pass(20);
    s.fail(&taken);
    let copy = s.take(2, "dlq", 1).remove(0);
    assert_eq!(
        copy.message.history().unwrap().last().reason,
        Reason::DeliveryLimit
    );
}

#[test]
fn the_next_deadline_is_the_earliest_of_all() {
    let mut s = timed(Some(1_000));
    let start = s.now.mono;
    assert_eq!(s.core.next_deadline(), None);
    s.publish_all("q", &["a"]);
    assert_eq!(s.core.next_deadline(), Some(start.plus(1_000)));
    s.publish("q", &draft("b").ttl(10));
    assert_eq!(s.core.next_deadline(), Some(start.plus(10)));
    s.pass(10);
    assert_eq!(s.core.next_deadline(), Some(Millis(start.0 + 1_000)));
}
