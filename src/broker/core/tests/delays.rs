//! Messages that wait until it is their time. [evidence part 5]

use std::sync::Arc;

use bytes::Bytes;

use super::scenario::{Scenario, body_of, draft, number, text};
use crate::base::{Millis, Name, Now, Seed, Timestamp};
use crate::broker::*;
use crate::deaths::Reason;
use crate::filter::Selector;
use crate::wire::Value;

const DAY_MS: u64 = 24 * 3600 * 1000;
const YEAR_MS: i64 = 365 * 24 * 3600 * 1000;

/// A queue that delays, with a dead-letter queue.
fn delaying(arguments: &[(&str, Value)]) -> Scenario {
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

fn retry(kind: &str, min_ms: u64) -> [(&'static str, Value); 2] {
    [
        ("x-delayed-retry-type", text(kind)),
        ("x-delayed-retry-min", number(min_ms)),
    ]
}

/// `modified` with an instant; failed or not.
fn modified(delivery_failed: bool, instant: &Value) -> Outcome {
    Outcome::Modified {
        delivery_failed,
        undeliverable_here: false,
        annotations: Some(instant_map(instant)),
    }
}

fn instant_map(instant: &Value) -> Bytes {
    let key = Value::Symbol("x-opt-delivery-time".to_owned());
    let map = Value::Map(vec![(key, instant.clone())]);
    let mut bytes = Vec::new();
    crate::wire::encode_value(&map, &mut bytes);
    bytes.into()
}

/// How long until a message is delivered to a consumer that waits, in milliseconds.
pub(super) fn waits(s: &mut Scenario, consumer: crate::base::ConsumerId) -> (u64, Delivery) {
    let start = s.now.mono;
    loop {
        if let Some(delivery) = s.taken(consumer).pop() {
            return (s.now.mono.since(start), delivery);
        }
        let next = s.core.next_deadline().expect("something is due");
        s.pass(next.since(s.now.mono).max(1));
    }
}

pub(super) fn delayed(s: &Scenario, queue: &str) -> u64 {
    let queue = s.core.queue(queue).unwrap();
    queue.messages.delayed().usage().messages
}

#[test]
fn a_message_that_fails_again_and_again_comes_back_later_each_time_by_the_formula() {
    let mut s = delaying(&retry("failed", 1_000));
    let double = ("delayed-retry-multiplier", Value::Double(2.0_f64.to_bits()));
    let policy = [
        ("delayed-retry-min", number(1_000)),
        ("delayed-retry-max", number(5_000)),
        double,
    ];
    s.policy("p", "^q$", &policy);
    s.publish_all("q", &["a"]);
    let c = s.consumer(1, "q");
    s.credit(c, 100);
    let mut delivery = s.taken(c).remove(0);
    for expected in [1_000, 2_000, 4_000, 5_000, 5_000, 5_000] {
        s.fail(&delivery);
        let (waited, next) = waits(&mut s, c);
        assert_eq!(waited, expected);
        delivery = next;
    }
    s.settle(&delivery, Outcome::Accepted);
    assert_eq!(s.counts("q"), (0, 0, 0));
    assert_eq!(s.core.next_deadline(), None, "nothing is left that is due");
}

#[test]
fn the_type_decides_which_outcomes_delay_and_rejected_never_does() {
    for (kind, failed_waits, returned_waits) in [
        ("all", true, true),
        ("failed", true, false),
        ("returned", false, true),
    ] {
        let mut s = delaying(&retry(kind, 100));
        s.publish_all("q", &["a", "b", "c", "d", "e"]);
        let taken = s.take(1, "q", 3);
        s.fail(&taken[0]);
        assert_eq!(delayed(&s, "q"), u64::from(failed_waits), "{kind} failed");
        s.settle(&taken[1], Outcome::Released);
        let both = u64::from(failed_waits) + u64::from(returned_waits);
        assert_eq!(delayed(&s, "q"), both, "{kind} released");
        s.reject(&taken[2]);
        assert_eq!(s.counts("dlq").0, 1, "a rejected one is dead at once");
        let two = s.take(2, "q", 1);
        s.settle(
            &two[0],
            Outcome::Modified {
                delivery_failed: true,
                undeliverable_here: true,
                annotations: Some(instant_map(&Value::Timestamp(i64::MAX))),
            },
        );
        assert_eq!(s.counts("dlq").0, 2, "so is one that is undeliverable here");
    }
}

#[test]
fn returns_by_detach_count_as_returned_and_lost_connections_as_failed() {
    for (kind, by_detach, by_loss) in [("failed", 0, 1), ("returned", 1, 0)] {
        let mut s = delaying(&retry(kind, 100));
        s.publish_all("q", &["a"]);
        s.take(1, "q", 1);
        s.detach(crate::base::ConsumerId(1));
        assert_eq!(delayed(&s, "q"), by_detach, "{kind}");
        s.pass(1_000);
        s.connect(crate::base::ConnectionId(2), crate::base::SessionId(2));
        let reply = s.consume(2, "q", |consume| {
            consume.connection = crate::base::ConnectionId(2);
            consume.session = crate::base::SessionId(2);
        });
        assert!(matches!(reply, Reply::Consuming { .. }));
        s.credit(crate::base::ConsumerId(2), 1);
        s.apply(Command::ConnectionClose {
            connection: crate::base::ConnectionId(2),
        });
        assert_eq!(delayed(&s, "q"), by_loss, "{kind}");
    }
}

#[test]
fn an_instant_that_a_consumer_names_wins_over_the_keys_in_any_type_of_integer() {
    for with_keys in [false, true] {
        let arguments = if with_keys {
            retry("all", 50_000).to_vec()
        } else {
            Vec::new()
        };
        let mut s = delaying(&arguments);
        s.publish_all("q", &["a"]);
        let c = s.consumer(1, "q");
        s.credit(c, 100);
        let mut delivery = s.taken(c).remove(0);
        let kinds: [fn(i64) -> Value; 3] = [Value::Timestamp, Value::Long, |ms| {
            Value::Ulong(ms.cast_unsigned())
        }];
        for kind in kinds {
            s.settle(&delivery, modified(false, &kind(s.now.wall.0 + 3_000)));
            let (waited, next) = waits(&mut s, c);
            assert_eq!(waited, 3_000);
            delivery = next;
        }
        // One that has passed: at once, whatever the keys say.
        for past in [s.now.wall.0, s.now.wall.0 - 1, i64::MIN, -1, 7] {
            s.settle(&delivery, modified(true, &Value::Timestamp(past)));
            delivery = s.taken(c).pop().expect("it is back at once");
        }
        let annotated = delivery.message.annotation_bytes();
        assert!(annotated > 0, "the annotation stays on the message");
        s.settle(&delivery, modified(false, &Value::Ulong(u64::MAX)));
        s.pass(10 * 365 * DAY_MS - 1);
        assert_eq!(s.taken(c).len(), 0);
        s.pass(1);
        assert_eq!(s.taken(c).len(), 1, "it waits ten years at most");
    }
}

#[test]
fn an_instant_of_another_type_is_no_instant_and_strict_brokers_know_none() {
    let mut s = delaying(&[]);
    s.publish_all("q", &["a"]);
    let c = s.consumer(1, "q");
    s.credit(c, 100);
    let first = s.taken(c).remove(0);
    s.settle(&first, modified(false, &text("tomorrow")));
    assert_eq!(s.taken(c).len(), 1);
    let options = CoreOptions {
        delivery_times: false,
        ..CoreOptions::new(Name::from("/"), Seed(7))
    };
    let mut s = Scenario::with(options);
    s.queue("q", &[]);
    s.publish_all("q", &["a"]);
    let c = s.consumer(1, "q");
    s.credit(c, 100);
    let first = s.taken(c).remove(0);
    s.settle(
        &first,
        modified(false, &Value::Timestamp(s.now.wall.0 + YEAR_MS)),
    );
    assert_eq!(s.taken(c).len(), 1);
}

#[test]
fn a_delayed_message_comes_back_to_its_place() {
    let mut s = delaying(&retry("all", 100));
    s.publish_all("q", &["a", "b", "c"]);
    let taken = s.take(1, "q", 1);
    s.fail(&taken[0]);
    s.detach(crate::base::ConsumerId(1));
    s.pass(99);
    assert_eq!(s.counts("q").0, 2);
    s.pass(1);
    let again = s.take(2, "q", 1);
    assert_eq!(body_of(&again[0]), "a", "in front of what came behind it");
}

#[test]
fn a_consumer_with_a_selector_sees_a_delayed_message_in_time_and_not_before() {
    let mut s = delaying(&retry("all", 100));
    s.publish_all("q", &["a", "b"]);
    let selector = Selector::parse("JMSPriority = 4").unwrap();
    s.consume(1, "q", |consume| {
        consume.selector = Some(Arc::new(selector));
    });
    let c = crate::base::ConsumerId(1);
    s.credit(c, 1);
    let first = s.taken(c).remove(0);
    s.fail(&first);
    s.credit(c, 10);
    let others: Vec<_> = s.taken(c).iter().map(body_of).collect();
    assert_eq!(others, ["b"]);
    let (waited, again) = waits(&mut s, c);
    assert_eq!((waited, body_of(&again).as_str()), (100, "a"));
}

#[test]
fn the_delivery_limit_and_expiry_come_before_a_delay() {
    let mut s = delaying(
        &[
            retry("all", 100).to_vec(),
            vec![("x-delivery-limit", number(1))],
        ]
        .concat(),
    );
    s.publish_all("q", &["a"]);
    let c = s.consumer(1, "q");
    s.credit(c, 100);
    let first = s.taken(c).remove(0);
    s.fail(&first);
    let (_, second) = waits(&mut s, c);
    s.settle(&second, modified(true, &Value::Timestamp(i64::MAX)));
    let dead = s.take(2, "dlq", 1).remove(0);
    let history = dead.message.history().unwrap();
    assert_eq!(history.last().reason, Reason::DeliveryLimit);
    let mut s = delaying(&retry("all", 100));
    s.publish("q", &draft("a").ttl(50));
    let taken = s.take(1, "q", 1);
    s.pass(50);
    s.fail(&taken[0]);
    let dead = s.take(2, "dlq", 1).remove(0);
    assert_eq!(
        dead.message.history().unwrap().last().reason,
        Reason::Expired
    );
}

#[test]
fn a_delayed_message_expires_on_time_by_its_own_ttl_and_by_the_queues() {
    for by_queue in [false, true] {
        let mut arguments = retry("all", 1_000).to_vec();
        if by_queue {
            arguments.push(("x-message-ttl", number(300)));
        }
        let mut s = delaying(&arguments);
        let message = if by_queue {
            draft("a")
        } else {
            draft("a").ttl(300)
        };
        s.publish("q", &message);
        s.publish_all("q", &["b"]);
        let taken = s.take(1, "q", 1);
        s.fail(&taken[0]);
        s.pass(299);
        assert_eq!(s.counts("dlq").0, 0);
        s.pass(1);
        let dead = s.take(2, "dlq", 1).remove(0);
        let history = dead.message.history().unwrap();
        assert_eq!(
            history.last().reason,
            Reason::Expired,
            "by queue: {by_queue}"
        );
        assert_eq!(delayed(&s, "q"), 0);
    }
}

#[test]
fn delayed_messages_count_for_limits_and_ready_ones_are_dropped_first() {
    let mut arguments = retry("all", 1_000).to_vec();
    arguments.push(("x-max-length", number(3)));
    let mut s = delaying(&arguments);
    s.publish_all("q", &["a", "b", "c"]);
    let taken = s.take(1, "q", 2);
    s.detach(crate::base::ConsumerId(1));
    assert_eq!(delayed(&s, "q"), 2, "a and b");
    assert_eq!(taken.len(), 2);
    s.publish_all("q", &["d"]);
    assert_eq!(s.bodies("dlq"), ["c"], "the oldest ready one");
    s.policy("p", "^q$", &[("max-length", number(1))]);
    assert_eq!(
        s.bodies("dlq"),
        ["d", "a"],
        "then delayed ones, from the front"
    );
    assert_eq!(delayed(&s, "q"), 1);
    s.pass(1_000);
    assert_eq!(s.bodies("q"), ["b"]);
}

#[test]
fn a_queue_full_of_delayed_messages_refuses_and_goes_on_when_they_are_taken() {
    let mut arguments = retry("all", 1_000).to_vec();
    arguments.push(("x-max-length", number(1)));
    arguments.push(("x-overflow", text("reject-publish")));
    let mut s = delaying(&arguments);
    s.publish_all("q", &["a"]);
    s.take(1, "q", 1);
    s.detach(crate::base::ConsumerId(1));
    let refused = s.publish("q", &draft("b"));
    assert!(
        matches!(refused, PublishOutcome::QueueFull { .. }),
        "{refused:?}"
    );
    s.pass(1_000);
    assert_eq!(s.bodies("q"), ["a"]);
    assert_eq!(s.publish("q", &draft("b")), PublishOutcome::Accepted);
}

#[test]
fn a_purge_takes_delayed_messages_and_a_queue_with_one_is_not_empty() {
    let mut s = delaying(&retry("all", 1_000));
    s.publish_all("q", &["a", "b", "c"]);
    let taken = s.take(1, "q", 2);
    s.fail(&taken[0]);
    let delete = |s: &mut Scenario| {
        s.apply(Command::Queue(QueueCommand::Delete {
            connection: None,
            name: Name::from("q"),
            if_unused: false,
            if_empty: true,
        }))
    };
    let reply = s.apply(Command::Queue(QueueCommand::Purge {
        connection: None,
        name: Name::from("q"),
        with_dead_pending: false,
    }));
    assert!(
        matches!(reply, Reply::Purged { messages: 2, .. }),
        "{reply:?}"
    );
    assert_eq!((delayed(&s, "q"), s.counts("q")), (0, (0, 1, 0)));
    s.fail(&taken[1]);
    assert_eq!(delayed(&s, "q"), 1);
    let refused = delete(&mut s);
    assert!(
        matches!(refused, Reply::Refused(Error::NotIdle { .. })),
        "{refused:?}"
    );
    s.pass(1_000);
    assert_eq!(s.bodies("q"), ["b"]);
    assert!(matches!(delete(&mut s), Reply::QueueDeleted { .. }));
    s.pass(10_000);
}

#[test]
fn jumps_of_the_wall_clock_move_no_delay_and_a_policy_does_not_either() {
    for jump in [YEAR_MS, -YEAR_MS] {
        let mut s = delaying(&retry("all", 1_000));
        s.publish_all("q", &["a", "b"]);
        let taken = s.take(1, "q", 2);
        s.fail(&taken[0]);
        let instant = Value::Timestamp(s.now.wall.0 + 1_000);
        s.settle(&taken[1], modified(false, &instant));
        s.detach(crate::base::ConsumerId(1));
        s.jump(jump);
        s.policy("p", "^q$", &[("delayed-retry-type", text("disabled"))]);
        s.pass(999);
        assert_eq!((delayed(&s, "q"), s.counts("q").0), (2, 0));
        s.pass(1);
        assert_eq!((delayed(&s, "q"), s.counts("q").0), (0, 2));
    }
}

/// The core as it is rebuilt from the records at another time.
pub(super) fn rebuilt(s: &Scenario, (mono, wall): (u64, i64)) -> Core {
    let now = Now::new(Millis(mono), Timestamp(wall));
    let options = CoreOptions::new(Name::from("/"), Seed(7));
    let mut restoring = Restoring::new(options, now, s.now.wall, u64::MAX);
    s.records.iter().for_each(|record| restoring.record(record));
    restoring.finish()
}

#[test]
fn a_delay_goes_on_over_a_restart_whatever_the_clocks_say() {
    let mut s = delaying(&retry("all", 10_000));
    s.publish("q", &draft("a"));
    s.publish("q", &draft("b"));
    let taken = s.take(1, "q", 2);
    s.fail(&taken[0]);
    let named = s.now.wall.0 + 10_000;
    s.settle(&taken[1], modified(false, &Value::Timestamp(named)));
    s.pass(2_000);
    let mono = 77_000_000;
    let dues = |down: i64| {
        let core = rebuilt(&s, (mono, s.now.wall.0 + down));
        let queue = core.queue("q").unwrap();
        let delayed = queue.messages.delayed();
        taken
            .iter()
            .map(|delivery| delayed.delay(delivery.position).unwrap().due.0 - mono)
            .collect::<Vec<_>>()
    };
    assert_eq!(dues(0), [8_000, 8_000]);
    assert_eq!(dues(3_000), [5_000, 5_000], "the time in between counts");
    assert_eq!(dues(9_000), [0, 0]);
    // Set back an hour: a duration goes on, an instant is an hour away again.
    assert_eq!(dues(-3_600_000), [8_000, 3_608_000]);
}

#[test]
fn a_message_that_waited_is_delivered_once_after_a_restart() {
    let mut s = delaying(&retry("all", 1_000));
    s.publish("q", &draft("a"));
    let c = s.consumer(1, "q");
    s.credit(c, 10);
    let first = s.taken(c).remove(0);
    s.fail(&first);
    let (_, second) = waits(&mut s, c);
    // While it is held, and after it came back without a delay.
    let held = rebuilt(&s, (99_000_000, s.now.wall.0));
    assert_eq!(held.queue("q").unwrap().messages.live(), 1);
    s.policy("p", "^q$", &[("delayed-retry-type", text("disabled"))]);
    s.detach(c);
    s.settle(&second, Outcome::Released);
    let back = rebuilt(&s, (99_000_000, s.now.wall.0 - 3_600_000));
    let queue = back.queue("q").unwrap();
    assert_eq!(
        (queue.messages.ready(), queue.messages.live()),
        (1, 1),
        "its last return counts"
    );
}

#[test]
fn an_argument_without_the_shortest_delay_is_warned_of_and_off() {
    let mut s = Scenario::new();
    let reply = s.declare("q", &[("x-delayed-retry-type", text("all"))]);
    let Reply::QueueDeclared { warnings, .. } = reply else {
        panic!("{reply:?}");
    };
    let expected = "x-delayed-retry-type: no effect, x-delayed-retry-min is missing";
    assert_eq!(
        warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [expected]
    );
    s.publish_all("q", &["a"]);
    let taken = s.take(1, "q", 1);
    s.fail(&taken[0]);
    assert_eq!(s.counts("q").0, 1);
}

#[test]
fn a_million_may_be_due_in_one_millisecond_and_are_made_ready_in_pieces() {
    let mut s = delaying(&[]);
    let count = 3_000;
    let bodies: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    s.publish_all("q", &bodies.iter().map(String::as_str).collect::<Vec<_>>());
    let taken = s.take(1, "q", count);
    let instant = s.now.wall.0 + 500;
    for delivery in &taken {
        s.settle(delivery, modified(false, &Value::Timestamp(instant)));
    }
    assert_eq!(delayed(&s, "q"), count);
    s.now = Now::new(s.now.mono.plus(500), s.now.wall);
    let mut ticks = 0;
    while delayed(&s, "q") > 0 {
        let before = delayed(&s, "q");
        s.core.tick(s.now, 100, &mut s.effects);
        assert!(before - delayed(&s, "q") <= 256, "a tick has a bound");
        ticks += 1;
    }
    assert!(ticks >= 12);
    assert_eq!(s.counts("q").0, count);
}

/// What became due was ready only after that round's assignments: a consumer that waited got it in
/// the next one.
#[test]
fn a_consumer_that_waits_gets_a_message_in_the_round_in_which_it_is_due() {
    let mut s = delaying(&retry("all", 100));
    s.publish_all("q", &["a"]);
    let c = s.consumer(1, "q");
    s.credit(c, 10);
    let first = s.taken(c).remove(0);
    s.fail(&first);
    s.now = Now::new(s.now.mono.plus(100), s.now.wall);
    s.core.tick(s.now, 1, &mut s.effects);
    let is_delivery = |(_, effect): &(_, Effect)| matches!(effect, Effect::Deliver(_));
    assert_eq!(
        s.effects
            .outgoing
            .iter()
            .filter(|it| is_delivery(it))
            .count(),
        1
    );
}

/// Thousands that are due at once do not keep back the first of them.
#[test]
fn messages_are_delivered_while_others_are_made_ready() {
    let mut s = delaying(&[]);
    for number in 0..1_000 {
        s.publish("q", &draft(&number.to_string()).after(500));
    }
    let c = s.consumer(1, "q");
    s.credit(c, 1_000);
    assert_eq!(s.taken(c).len(), 0);
    s.now = Now::new(s.now.mono.plus(500), s.now.wall);
    s.core.tick(s.now, 100, &mut s.effects);
    let delivered = s.effects.outgoing.len();
    assert!(
        (32..=100).contains(&delivered),
        "{delivered} in the first round"
    );
    s.pass(0);
    let bodies: Vec<_> = s.taken(c).iter().map(body_of).collect();
    let expected: Vec<_> = (0..1_000).map(|number| number.to_string()).collect();
    assert_eq!(bodies, expected);
}
