//! Where the dead go and what is written. [dead-lettering parts 2 to 4]

use std::sync::Arc;

use super::scenario::{Scenario, body_of, draft, number, text};
use crate::base::Name;
use crate::broker::*;
use crate::deaths::{Evidence, Reason};
use crate::wire::Value;

fn dead_lettering(exchange: &str, key: Option<&str>) -> Vec<(&'static str, Value)> {
    let mut arguments = vec![("x-dead-letter-exchange", text(exchange))];
    arguments.extend(key.map(|key| ("x-dead-letter-routing-key", text(key))));
    arguments
}

fn reject_all(s: &mut Scenario, id: u64, queue: &str) {
    for delivery in s.take(id, queue, 1_000) {
        s.reject(&delivery);
    }
    s.detach(crate::base::ConsumerId(id));
}

#[test]
fn a_rejected_message_goes_to_the_dead_letter_exchange_with_its_history() {
    let mut s = Scenario::new();
    s.exchange("dlx", "fanout");
    s.queue("dlq", &[]);
    s.bind("dlx", "dlq", "");
    s.queue("q", &dead_lettering("dlx", None));
    s.exchange("in", "direct");
    s.bind("in", "q", "k");
    s.publish_to("in", "k", &draft("a"));
    let taken = s.take(1, "q", 1).remove(0);
    let evidence = Arc::new(Evidence {
        link: Some(Name::from("l")),
        ..Evidence::default()
    });
    s.settle(
        &taken,
        Outcome::Rejected {
            evidence: Some(evidence.clone()),
        },
    );
    let copy = s.take(2, "dlq", 1).remove(0);
    assert_eq!(body_of(&copy), "a");
    assert_eq!((&*copy.route.exchange, &*copy.route.keys[0]), ("dlx", "k"));
    let entry = &copy.message.history().unwrap().entries()[0];
    assert_eq!(
        (&*entry.queue, entry.reason, entry.count),
        ("q", Reason::Rejected, 1)
    );
    assert_eq!((&*entry.exchange, &*entry.routing_keys[0]), ("in", "k"));
    assert_eq!(
        (entry.first_time, entry.last_time),
        (s.now.wall, s.now.wall)
    );
    let rule = Some(Name::from("argument"));
    let evidence = Evidence {
        rule,
        ..(*evidence).clone()
    };
    assert_eq!(entry.evidence.as_deref(), Some(&evidence));
}

#[test]
fn the_routing_key_of_the_queue_wins_and_the_empty_key_is_a_key() {
    for (key, target) in [(None, "k"), (Some("other"), "other"), (Some(""), "empty")] {
        let mut s = Scenario::new();
        s.exchange("dlx", "direct");
        for (queue, binding) in [("k", "k"), ("other", "other"), ("empty", "")] {
            s.queue(queue, &[]);
            s.bind("dlx", queue, binding);
        }
        s.exchange("in", "fanout");
        s.queue("q", &dead_lettering("dlx", key));
        s.bind("in", "q", "");
        s.publish_to("in", "k", &draft("a"));
        reject_all(&mut s, 1, "q");
        assert_eq!(s.bodies(target), ["a"], "{key:?}");
    }
}

#[test]
fn one_queue_gets_one_copy_however_many_ways_lead_there() {
    let mut s = Scenario::new();
    s.exchange("dlx", "topic");
    s.queue("dlq", &[]);
    s.bind("dlx", "dlq", "#");
    s.bind("dlx", "dlq", "q");
    s.queue("q", &dead_lettering("dlx", None));
    s.publish_all("q", &["a"]);
    reject_all(&mut s, 1, "q");
    assert_eq!(s.bodies("dlq"), ["a"]);
}

#[test]
fn a_range_of_rejections_keeps_its_order() {
    let mut s = Scenario::new();
    s.queue("dlq", &[]);
    s.queue("q", &dead_lettering("", Some("dlq")));
    let bodies: Vec<String> = (0..700).map(|n| n.to_string()).collect();
    for body in &bodies {
        s.publish("q", &draft(body));
    }
    reject_all(&mut s, 1, "q");
    assert_eq!(s.bodies("dlq"), bodies);
}

#[test]
fn a_death_without_a_usable_target_is_a_counted_drop() {
    type Arrange = fn(&mut Scenario);
    type Case = (Vec<(&'static str, Value)>, Arrange, DropCause);
    let cases: [Case; 4] = [
        (vec![], |_| {}, DropCause::NoDeadLetterExchange),
        (
            dead_lettering("dlx", None),
            |_| {},
            DropCause::ExchangeMissing,
        ),
        (
            dead_lettering("dlx", None),
            |s| s.exchange("dlx", "fanout"),
            DropCause::Unroutable,
        ),
        (
            dead_lettering("", Some("full")),
            |s| {
                let reject = ("x-overflow", text("reject-publish"));
                s.queue("full", &[("x-max-length", number(0)), reject]);
            },
            DropCause::TargetFull,
        ),
    ];
    for (arguments, arrange, cause) in cases {
        let mut s = Scenario::new();
        s.queue("q", &arguments);
        arrange(&mut s);
        s.log.clear(); // what the declaration was warned of
        s.publish_all("q", &["a", "b"]);
        reject_all(&mut s, 1, "q");
        assert_eq!(s.dropped("q", cause), 2, "{cause:?}");
        assert_eq!(s.core.counters().drops.of(cause), 2);
        let log = |count| LogEvent::Dropped {
            queue: Name::from("q"),
            reason: Some(Reason::Rejected),
            cause,
            count,
        };
        assert_eq!(
            s.log,
            [log(1)],
            "the second within a second is not told apart"
        );
        // It was never told, unless another one followed.
        s.pass(1_000);
        assert_eq!(s.log, [log(1), log(1)], "{cause:?}");
        s.pass(10_000);
        assert_eq!(s.log.len(), 2, "there is nothing more to tell");
    }
}

/// What a queue dropped within its last second went untold with it.
#[test]
fn what_a_deleted_queue_dropped_is_told_before_it_goes() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    s.publish_all("q", &["a", "b", "c"]);
    reject_all(&mut s, 1, "q");
    s.apply(Command::Queue(QueueCommand::Delete {
        connection: None,
        name: Name::from("q"),
        if_unused: false,
        if_empty: false,
    }));
    let told: u64 = s
        .log
        .iter()
        .map(|event| match event {
            LogEvent::Dropped { count, .. } => *count,
            _ => 0,
        })
        .sum();
    assert_eq!(told, 3, "{:?}", s.log);
}

#[test]
fn the_exchange_and_key_are_those_of_the_moment_of_death() {
    let mut s = Scenario::new();
    s.queue("dlq", &[]);
    s.queue("q", &[]);
    s.publish_all("q", &["a", "b"]);
    let taken = s.take(1, "q", 2);
    s.reject(&taken[0]);
    let to_dlq = [
        ("dead-letter-exchange", text("")),
        ("dead-letter-routing-key", text("dlq")),
    ];
    s.policy("p", "^q$", &to_dlq);
    s.reject(&taken[1]);
    assert_eq!(s.bodies("dlq"), ["b"]);
}

#[test]
fn a_loop_that_turns_by_itself_is_broken_and_told_once() {
    let mut s = Scenario::new();
    let mut arguments = dead_lettering("", Some("q"));
    arguments.push(("x-message-ttl", number(10)));
    s.queue("q", &arguments);
    s.publish_all("q", &["a", "b"]);
    s.pass(100);
    assert_eq!(s.counts("q"), (0, 0, 0));
    assert_eq!(s.dropped("q", DropCause::Cycle), 2);
    let cycles = s
        .log
        .iter()
        .filter(|event| matches!(event, LogEvent::Cycle { .. }))
        .count();
    assert_eq!(cycles, 1);
}

#[test]
fn a_rejection_breaks_the_cycle() {
    let mut s = Scenario::new();
    s.queue("work", &dead_lettering("", Some("wait")));
    let mut arguments = dead_lettering("", Some("work"));
    arguments.push(("x-message-ttl", number(10)));
    s.queue("wait", &arguments);
    s.publish_all("work", &["a"]);
    let c = s.consumer(1, "work");
    s.credit(c, u64::MAX);
    for turn in 1..=5 {
        let delivery = s.taken(c).remove(0);
        s.reject(&delivery);
        s.pass(10);
        let history = s.deliveries[0].message.history().unwrap().clone();
        let counts: Vec<_> = history
            .entries()
            .iter()
            .map(|e| (&*e.queue, e.count))
            .collect();
        assert_eq!(counts, [("wait", turn), ("work", turn)]);
    }
}

#[test]
fn other_targets_still_get_what_a_cycle_skips() {
    let mut s = Scenario::new();
    s.exchange("dlx", "fanout");
    let mut arguments = dead_lettering("dlx", None);
    arguments.push(("x-message-ttl", number(10)));
    s.queue("q", &arguments);
    s.queue("dlq", &[]);
    s.bind("dlx", "q", "");
    s.bind("dlx", "dlq", "");
    s.publish_all("q", &["a"]);
    s.pass(100);
    assert_eq!(s.bodies("dlq"), ["a"]);
    assert_eq!(s.core.counters().drops.total(), 0);
}

#[test]
fn a_full_target_that_dead_letters_what_it_refuses_passes_the_copy_on() {
    let mut s = Scenario::new();
    s.queue("end", &[]);
    let mut arguments = dead_lettering("", Some("end"));
    arguments.extend([
        ("x-max-length", number(1)),
        ("x-overflow", text("reject-publish-dlx")),
    ]);
    s.queue("middle", &arguments);
    s.queue("q", &dead_lettering("", Some("middle")));
    s.publish_all("q", &["a", "b"]);
    reject_all(&mut s, 1, "q");
    assert_eq!(s.bodies("middle"), ["a"]);
    let copy = s.take(2, "end", 1).remove(0);
    let history = copy.message.history().unwrap();
    let entries: Vec<_> = history
        .entries()
        .iter()
        .map(|e| (&*e.queue, e.reason))
        .collect();
    assert_eq!(
        entries,
        [("middle", Reason::Maxlen), ("q", Reason::Rejected)]
    );
}

#[test]
fn a_hundred_thousand_turns_of_a_retry_pair_keep_the_history_constant() {
    let mut s = Scenario::new();
    s.queue("work", &dead_lettering("", Some("wait")));
    let mut arguments = dead_lettering("", Some("work"));
    arguments.push(("x-message-ttl", number(1)));
    s.queue("wait", &arguments);
    let mut message = draft("a");
    message.durable = false;
    s.publish("work", &message);
    let c = s.consumer(1, "work");
    s.credit(c, u64::MAX);
    for _ in 0..100_000 {
        let delivery = s.deliveries.pop().expect("the message comes round");
        s.reject(&delivery);
        s.pass(1);
    }
    let last = s.deliveries.pop().unwrap();
    let entries = last.message.history().unwrap().entries().to_vec();
    let counts: Vec<_> = entries.iter().map(|e| (&*e.queue, e.count)).collect();
    assert_eq!(counts, [("wait", 100_000), ("work", 100_000)]);
    assert_eq!(last.delivery_count, 100_000);
}
