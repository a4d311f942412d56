//! Messages whose publisher says when they are delivered. [evidence part 5]

use super::delays::{delayed, rebuilt, waits};
use super::scenario::{Draft, Scenario, body_of, draft, number, text};
use crate::base::ConsumerId;
use crate::broker::*;
use crate::deaths::Reason;
use crate::wire::Value;

const YEAR_MS: u64 = 365 * 24 * 3600 * 1000;

/// A queue with a dead-letter queue.
fn scene(arguments: &[(&str, Value)]) -> Scenario {
    let mut s = Scenario::new();
    let mut all = vec![
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("dlq")),
    ];
    all.extend_from_slice(arguments);
    s.queue("q", &all);
    s.queue("dlq", &[]);
    s
}

fn accepted(s: &mut Scenario, message: &Draft) {
    assert_eq!(s.publish("q", message), PublishOutcome::Accepted);
}

#[test]
fn a_message_is_accepted_at_once_and_delivered_at_its_time_in_its_place() {
    let mut s = scene(&[]);
    let c = s.consumer(1, "q");
    s.credit(c, 100);
    let instant = s.now.wall.0 + 3_000;
    for message in [draft("a").at(instant), draft("a").after(3_000)] {
        let start = s.now.mono;
        accepted(&mut s, &message);
        assert_eq!((delayed(&s, "q"), s.counts("q")), (1, (0, 0, 0)));
        accepted(&mut s, &draft("b"));
        let other = s.taken(c).remove(0);
        assert_eq!(body_of(&other), "b", "others pass it");
        s.settle(&other, Outcome::Accepted);
        let (waited, delivery) = waits(&mut s, c);
        assert_eq!((waited, body_of(&delivery).as_str()), (3_000, "a"));
        assert_eq!((delivery.acquired, delivery.first_acquirer), (0, true));
        s.settle(&delivery, Outcome::Accepted);
        s.now.wall.0 -= i64::try_from(s.now.mono.since(start)).unwrap();
    }
    s.detach(c);
    accepted(&mut s, &draft("first").after(50));
    accepted(&mut s, &draft("second"));
    s.pass(50);
    assert_eq!(
        s.bodies("q"),
        ["first", "second"],
        "in the order of arrival"
    );
}

#[test]
fn a_time_that_has_passed_is_now_and_one_far_away_is_in_ten_years() {
    let mut s = scene(&[]);
    let now = s.now.wall.0;
    for past in [i64::MIN, -1, 0, now - 1, now] {
        accepted(&mut s, &draft("past").at(past));
        assert_eq!(s.bodies("q"), ["past"]);
    }
    accepted(&mut s, &draft("at once").after(0));
    assert_eq!(s.bodies("q"), ["at once"]);
    accepted(&mut s, &draft("a").at(i64::MAX));
    accepted(&mut s, &draft("b").after(u64::MAX));
    s.pass(10 * YEAR_MS - 1);
    assert_eq!(delayed(&s, "q"), 2);
    s.pass(1);
    assert_eq!(s.bodies("q"), ["a", "b"]);
}

#[test]
fn a_copy_waits_in_each_queue_and_the_order_of_the_times_is_kept() {
    let mut s = scene(&[]);
    s.exchange("all", "fanout");
    s.bind("all", "q", "");
    s.bind("all", "dlq", "");
    for (body, delay_ms) in [("c", 300), ("a", 100), ("b", 200)] {
        let outcome = s.publish_to("all", "", &draft(body).after(delay_ms));
        assert_eq!(outcome, PublishOutcome::Accepted);
    }
    for queue in ["q", "dlq"] {
        assert_eq!(delayed(&s, queue), 3);
    }
    let core = rebuilt(&s, (99_000_000, s.now.wall.0));
    for queue in ["q", "dlq"] {
        let queue = core.queue(queue).unwrap();
        assert_eq!(queue.messages.delayed().usage().messages, 3, "restored");
    }
    let consumers = [s.consumer(1, "q"), s.consumer(2, "dlq")];
    for c in consumers {
        s.credit(c, 10);
    }
    for body in ["a", "b", "c"] {
        s.pass(100);
        for c in consumers {
            let taken: Vec<_> = s.taken(c).iter().map(body_of).collect();
            assert_eq!(taken, [body]);
        }
    }
}

#[test]
fn a_full_queue_refuses_it_though_a_consumer_waits() {
    let full = [
        ("x-max-length", number(1)),
        ("x-overflow", text("reject-publish")),
    ];
    let mut s = scene(&full);
    accepted(&mut s, &draft("a").after(1_000));
    let c = s.consumer(1, "q");
    s.credit(c, 10);
    let refused = s.publish("q", &draft("b").after(1_000));
    assert!(
        matches!(refused, PublishOutcome::QueueFull { .. }),
        "{refused:?}"
    );
    accepted(&mut s, &draft("c"));
    assert_eq!(
        body_of(&s.taken(c)[0]),
        "c",
        "the consumer takes what is ready"
    );
    assert_eq!(delayed(&s, "q"), 1);
}

#[test]
fn what_a_full_queue_dead_letters_is_not_delayed_there() {
    let full = [
        ("x-max-length", number(0)),
        ("x-overflow", text("reject-publish-dlx")),
    ];
    let mut s = scene(&full);
    let refused = s.publish("q", &draft("a").after(1_000));
    assert!(
        matches!(refused, PublishOutcome::QueueFull { .. }),
        "{refused:?}"
    );
    assert_eq!((delayed(&s, "q"), delayed(&s, "dlq")), (0, 0));
    assert_eq!(s.bodies("dlq"), ["a"]);
}

#[test]
fn it_counts_for_the_length_and_pushes_ready_messages_out_first() {
    let mut s = scene(&[("x-max-length", number(2))]);
    accepted(&mut s, &draft("ready"));
    accepted(&mut s, &draft("a").after(1_000));
    accepted(&mut s, &draft("b").after(1_000));
    assert_eq!(s.bodies("dlq"), ["ready"]);
    accepted(&mut s, &draft("c").after(1_000));
    assert_eq!(s.bodies("dlq"), ["a"], "delayed ones from the front");
    s.pass(1_000);
    assert_eq!(s.bodies("q"), ["b", "c"]);
}

#[test]
fn its_time_to_live_runs_from_its_arrival_and_a_dead_letter_does_not_wait() {
    for (queue_ttl_ms, own_ttl_ms, dies_after_ms) in [
        (Some(0), None, 0),
        (Some(300), None, 300),
        (None, Some(200), 200),
        (None, Some(0), 0),
    ] {
        let ttl = queue_ttl_ms.map(|ttl_ms| ("x-message-ttl", number(ttl_ms)));
        let mut s = scene(ttl.as_slice());
        let mut message = draft("a").after(10_000);
        message.ttl_ms = own_ttl_ms;
        // With a ttl of 0 a ready message would go to a waiting consumer: this one is not ready.
        let c = s.consumer(1, "q");
        s.credit(c, 1);
        accepted(&mut s, &message);
        if dies_after_ms > 0 {
            s.pass(dies_after_ms - 1);
            assert_eq!(s.counts("dlq").0, 0);
            s.pass(1);
        }
        let dead = s.take(2, "dlq", 1).remove(0);
        let history = dead.message.history().unwrap();
        assert_eq!(history.last().reason, Reason::Expired);
        assert_eq!((delayed(&s, "q"), s.taken(c).len()), (0, 0));
    }
}

#[test]
fn once_delivered_it_is_a_message_like_any_other() {
    let mut s = scene(&[]);
    accepted(&mut s, &draft("a").after(100));
    s.pass(100);
    let c = s.consumer(1, "q");
    s.credit(c, 10);
    let first = s.taken(c).remove(0);
    s.settle(&first, Outcome::Released);
    let again = s.taken(c).remove(0);
    s.reject(&again);
    assert_eq!(s.bodies("dlq"), ["a"]);
}

#[test]
fn a_restart_keeps_the_time_of_durable_ones_to_the_millisecond() {
    let mut s = scene(&[]);
    let named = s.now.wall.0 + 10_000;
    accepted(&mut s, &draft("a").at(named));
    accepted(&mut s, &draft("b").after(10_000));
    let mut transient = draft("t").after(10_000);
    transient.durable = false;
    accepted(&mut s, &transient);
    s.pass(2_000);
    let mono = 77_000_000;
    let dues = |down: i64| {
        let core = rebuilt(&s, (mono, s.now.wall.0 + down));
        let delays = core.queue("q").unwrap().messages.delayed();
        let start = crate::base::Position(0);
        let end = crate::base::Position(u64::MAX);
        let mut at = start;
        let mut dues = Vec::new();
        while let Some(position) = delays.first_between(at, end) {
            dues.push(delays.delay(position).unwrap().due.0 - mono);
            at = crate::base::Position(position.0 + 1);
        }
        dues
    };
    assert_eq!(dues(0), [8_000, 8_000]);
    assert_eq!(dues(3_000), [5_000, 5_000]);
    // Set back an hour: a duration goes on, an instant is an hour away again.
    assert_eq!(dues(-3_600_000), [3_608_000, 8_000]);
}

/// Makes messages ready before their time; how many.
fn retry(s: &mut Scenario, count: u64) -> u64 {
    let reply = s.apply(Command::Queue(QueueCommand::Retry {
        connection: None,
        name: crate::base::Name::from("q"),
        count,
    }));
    match reply {
        Reply::Retried { messages, .. } => messages,
        other => panic!("{other:?}"),
    }
}

#[test]
fn delayed_messages_can_be_made_ready_now_those_due_first() {
    let mut s = scene(&[]);
    for (body, delay_ms) in [("a", 3_000), ("b", 1_000), ("c", 2_000)] {
        accepted(&mut s, &draft(body).after(delay_ms));
    }
    assert_eq!(retry(&mut s, 0), 0);
    assert_eq!(retry(&mut s, 2), 2);
    let core = rebuilt(&s, (99_000_000, s.now.wall.0));
    let messages = &core.queue("q").unwrap().messages;
    let counts = (messages.ready(), messages.delayed().usage().messages);
    assert_eq!(counts, (2, 1), "a restart does not delay them again");
    assert_eq!(s.bodies("q"), ["b", "c"]);
    assert_eq!(retry(&mut s, 10), 1);
    assert_eq!(s.bodies("q"), ["a"]);
    assert_eq!(retry(&mut s, 10), 0);
    s.pass(5_000);
    assert_eq!(s.counts("q"), (0, 0, 0), "none comes a second time");
    assert_eq!(s.core.next_deadline(), None);
    for _ in 0..100 {
        accepted(&mut s, &draft("many").after(1_000));
    }
    let slices = [
        retry(&mut s, u64::MAX),
        retry(&mut s, u64::MAX),
        retry(&mut s, u64::MAX),
    ];
    assert_eq!(slices, [64, 36, 0], "one command makes a slice ready");
    let missing = s.apply(Command::Queue(QueueCommand::Retry {
        connection: None,
        name: crate::base::Name::from("nosuch"),
        count: 1,
    }));
    assert!(
        matches!(missing, Reply::Refused(Error::NotFound { .. })),
        "{missing:?}"
    );
}

/// A checkpoint keeps copies of blocks in which nothing changed: what waited in one is ready now.
#[test]
fn a_copy_in_which_a_message_waits_is_not_kept_when_it_was_made_ready() {
    let mut s = scene(&[]);
    accepted(&mut s, &draft("a").after(60_000));
    let id = s.core.queue("q").unwrap().id;
    let position = crate::base::Position(0);
    s.core.note_copied((id, position), crate::base::Lsn(77));
    let copied = |s: &Scenario| s.core.queue("q").unwrap().messages.copied(position);
    assert_eq!(copied(&s), crate::base::Lsn(77));
    assert_eq!(retry(&mut s, 1), 1);
    assert_eq!(copied(&s), crate::base::Lsn(0));
}

/// The index of what waits was in no budget: it stays in memory when the messages are evicted.
#[test]
fn the_index_of_what_waits_is_counted_for_as_long_as_it_waits() {
    let mut s = scene(&[]);
    let before = s.core.kept().bytes();
    let fill = |s: &mut Scenario| {
        for _ in 0..100 {
            accepted(s, &draft("a").after(1_000));
        }
        let counted = s.core.kept().bytes() - before;
        assert_eq!(counted, 100 * crate::base::limits::DELAYED_OVERHEAD_BYTES);
    };
    fill(&mut s);
    s.pass(1_000);
    assert_eq!(s.core.kept().bytes(), before, "they are ready");
    for _ in 0..2 {
        fill(&mut s);
        s.apply(Command::Queue(QueueCommand::Purge {
            connection: None,
            name: crate::base::Name::from("q"),
            with_dead_pending: false,
        }));
        assert_eq!(s.core.kept().bytes(), before, "they are purged");
    }
    fill(&mut s);
    s.apply(Command::Queue(QueueCommand::Delete {
        connection: None,
        name: crate::base::Name::from("q"),
        if_unused: false,
        if_empty: false,
    }));
    s.pass(0);
    assert!(s.core.kept().bytes() < before, "their queue is deleted");
}

#[test]
fn a_purge_takes_it_and_nothing_is_due_afterwards() {
    let mut s = scene(&[]);
    accepted(&mut s, &draft("a").after(1_000));
    let reply = s.apply(Command::Queue(QueueCommand::Purge {
        connection: None,
        name: crate::base::Name::from("q"),
        with_dead_pending: false,
    }));
    assert!(
        matches!(reply, Reply::Purged { messages: 1, .. }),
        "{reply:?}"
    );
    s.pass(2_000);
    assert_eq!(s.counts("q"), (0, 0, 0));
    let c = ConsumerId(9);
    assert!(s.taken(c).is_empty());
}
