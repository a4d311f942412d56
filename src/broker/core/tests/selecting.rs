//! Consumers that want only some messages.

use std::sync::Arc;

use super::scenario::{Scenario, body_of, draft, number, text};
use crate::base::limits::BATCH_NS_MAX;
use crate::base::{ConsumerId, Meter};
use crate::broker::*;
use crate::filter::Selector;

/// A consumer of messages with this priority, without credit.
fn select(s: &mut Scenario, id: u64, priority: u8) -> ConsumerId {
    let selector = Selector::parse(&format!("JMSPriority = {priority}")).unwrap();
    let reply = s.consume(id, "q", |consume| {
        consume.selector = Some(Arc::new(selector));
    });
    assert!(matches!(reply, Reply::Consuming { .. }), "{reply:?}");
    ConsumerId(id)
}

/// SQL filters ask for the time of the clock on the wall.
#[test]
fn a_filter_that_asks_for_the_time_gets_that_of_the_moment() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    s.publish("q", &draft("m"));
    let wall = s.now.wall.0;
    let taken_with = |s: &mut Scenario, id: u64, text: String| {
        let filter = Selector::parse_sql(&text).unwrap();
        let selector = Some(Arc::new(filter));
        s.consume(id, "q", |consume| consume.selector = selector);
        s.credit(ConsumerId(id), 1);
        taken(s, ConsumerId(id)).len()
    };
    assert_eq!(taken_with(&mut s, 1, format!("UTC() <> {wall}")), 0);
    s.now.wall.0 += 1;
    assert_eq!(taken_with(&mut s, 2, format!("UTC() = {wall}")), 0);
    assert_eq!(taken_with(&mut s, 3, format!("UTC() = {wall} + 1")), 1);
}

/// Publishes messages `m0`, `m1` ... of these priorities.
fn publish(s: &mut Scenario, priorities: &[u8]) {
    for (n, priority) in priorities.iter().enumerate() {
        s.publish("q", &draft(&format!("m{n}")).priority(*priority));
    }
}

fn taken(s: &mut Scenario, consumer: ConsumerId) -> Vec<String> {
    s.taken(consumer).iter().map(body_of).collect()
}

/// All were woken in one step by each message: 10 to 20 ms with 65,536.
#[test]
fn a_message_wakes_many_consumers_with_selectors_in_pieces_and_finds_the_one_that_wants_it() {
    const COUNT: u64 = 1_000;
    let mut s = Scenario::new();
    s.queue("q", &[]);
    for id in 1..=COUNT {
        let one = select(&mut s, id, if id == COUNT { 2 } else { 1 });
        s.credit(one, 1);
    }
    let unwanted = draft("unwanted").priority(3).post("", "q", 1);
    s.core
        .apply(s.now, Command::Publish(unwanted), &mut s.effects);
    let pieces = s.finish_in_pieces();
    assert!(pieces > 5, "{pieces}");
    // It is requeued to where all had looked already.
    let other = s.take(COUNT + 1, "q", 1).remove(0);
    s.publish("q", &draft("wanted").priority(2));
    s.settle(&other, Outcome::Released);
    s.pass(0);
    assert_eq!(taken(&mut s, ConsumerId(COUNT)), ["wanted"]);
}

#[test]
fn each_gets_what_it_wants_in_order_and_the_rest_waits() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    let (a, b) = (select(&mut s, 1, 1), select(&mut s, 2, 2));
    s.credit(a, 10);
    publish(&mut s, &[1, 2, 3, 1, 2, 3]);
    s.credit(b, 10);
    assert_eq!(taken(&mut s, a), ["m0", "m3"]);
    assert_eq!(taken(&mut s, b), ["m1", "m4"]);
    assert_eq!(s.counts("q").0, 2);
    let all = s.consumer(3, "q");
    s.credit(all, 10);
    assert_eq!(taken(&mut s, all), ["m2", "m5"]);
}

#[test]
fn what_comes_back_is_looked_at_again() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    let all = s.consumer(1, "q");
    publish(&mut s, &[1, 2]);
    s.credit(all, 2);
    let held = s.taken(all);
    let a = select(&mut s, 2, 1);
    s.credit(a, 10);
    assert_eq!(taken(&mut s, a), Vec::<String>::new());
    for delivery in &held {
        s.settle(delivery, Outcome::Released);
    }
    assert_eq!(taken(&mut s, a), ["m0"]);
}

/// The slice was taken below nothing, and so had no end, when looking for a message took all but one step of
/// it: a queue was served at once for as long as there was something in it.
#[test]
fn a_slice_that_ends_with_a_message_that_was_looked_for_ends() {
    for passed in 0..70 {
        let mut s = Scenario::new();
        s.queue("q", &[]);
        let mut priorities = vec![2; passed];
        priorities.extend([1; 100]);
        publish(&mut s, &priorities);
        let one = select(&mut s, 1, 1);
        s.credit(one, 1_000);
        assert_eq!(taken(&mut s, one).len(), 100, "behind {passed}");
    }
}

#[test]
fn credit_is_kept_and_given_later() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    let a = select(&mut s, 1, 1);
    publish(&mut s, &[1, 2, 1, 2, 1]);
    s.credit(a, 1);
    assert_eq!(taken(&mut s, a), ["m0"]);
    s.credit(a, 3);
    assert_eq!(taken(&mut s, a), ["m2", "m4"]);
}

#[test]
fn a_drain_ends_when_nothing_more_is_wanted() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    let a = select(&mut s, 1, 1);
    publish(&mut s, &[1, 2, 1, 2]);
    s.drain(a, 10);
    assert_eq!(taken(&mut s, a), ["m0", "m2"]);
    let drained =
        |effect: &Effect| matches!(effect, Effect::Drained { consumer, .. } if *consumer == a);
    assert!(s.others.iter().any(drained));
}

#[test]
fn more_than_one_slice_is_looked_at() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    let mut priorities = vec![2; 3_000];
    priorities.push(1);
    publish(&mut s, &priorities);
    let a = select(&mut s, 1, 1);
    s.credit(a, 10);
    assert_eq!(taken(&mut s, a), ["m3000"]);
}

#[test]
fn the_highest_priority_comes_first() {
    let mut s = Scenario::new();
    s.queue("q", &[("x-max-priority", number(5))]);
    publish(&mut s, &[1, 3, 2, 3]);
    let selector = Selector::parse("JMSPriority <> 2").unwrap();
    s.consume(1, "q", |consume| {
        consume.selector = Some(Arc::new(selector));
    });
    s.credit(ConsumerId(1), 10);
    assert_eq!(taken(&mut s, ConsumerId(1)), ["m1", "m3", "m0"]);
}

#[test]
fn who_selects_stretches_no_limit() {
    let mut s = Scenario::new();
    let full = [
        ("x-max-length", number(0)),
        ("x-overflow", text("reject-publish")),
    ];
    s.queue("q", &full);
    let a = select(&mut s, 1, 1);
    s.credit(a, 10);
    let outcome = s.publish("q", &draft("m").priority(2));
    assert!(
        matches!(outcome, PublishOutcome::QueueFull { .. }),
        "{outcome:?}"
    );
    assert_eq!(s.counts("q").0, 0);
}

#[test]
fn a_message_that_is_late_dies_instead() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    s.publish("q", &draft("old").priority(1).ttl(50));
    s.pass(60);
    s.publish("q", &draft("new").priority(1));
    let a = select(&mut s, 1, 1);
    s.credit(a, 10);
    assert_eq!(taken(&mut s, a), ["new"]);
}

/// A hundred consumers that select, each over messages that take long: one command did all of it.
#[test]
fn selecting_goes_on_in_later_holds_when_it_takes_long() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    publish(&mut s, &[1; 40]);
    let terms = vec!["JMSPriority = 200"; 500].join(" OR ");
    let slow = Arc::new(Selector::parse(&terms).unwrap());
    let mut effects = Effects::new();
    for id in 1..=100 {
        let selector = Arc::clone(&slow);
        s.consume(id, "q", |consume| consume.selector = Some(selector));
    }
    for id in 1..=100 {
        let flow = Command::ConsumerFlow {
            consumer: ConsumerId(id),
            limit: 10,
            drain: false,
        };
        s.core.handle_without_running(s.now, flow, &mut effects);
    }
    let consumer = ConsumerId(1);
    s.core
        .apply(s.now, Command::ConsumerDetach { consumer }, &mut effects);
    let spent_ns = effects.meter.spent_ns();
    assert!((50_000..=BATCH_NS_MAX).contains(&spent_ns), "{spent_ns}");
    assert!(s.core.has_work(), "and the rest is done in ticks");
    let mut holds = 0;
    while s.core.has_work() {
        effects.meter = Meter::default();
        s.core.tick(s.now, 256, &mut effects);
        assert!(effects.meter.spent_ns() < 4 * BATCH_NS_MAX);
        holds += 1;
        assert!(holds < 1_000, "it never ends");
    }
    assert!(holds >= 50, "{holds}");
}

/// With more consumers than one piece asks, those that found nothing must not wake each other for ever.
#[test]
fn many_that_find_nothing_come_to_rest_and_get_what_comes_later() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    publish(&mut s, &[9; 3]);
    for id in 1..=500 {
        let consumer = select(&mut s, id, u8::try_from(id % 7).unwrap());
        s.credit(consumer, 10);
    }
    assert!(!s.core.has_work(), "all of them rest");
    publish(&mut s, &[3]);
    let got: usize = (1..=500)
        .map(|id| taken(&mut s, ConsumerId(id)).len())
        .sum();
    assert_eq!(got, 1);
}
