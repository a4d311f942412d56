//! Whoever comes back to its link and drains is told, when all was sent again that it knows of. [AMQP 2.6.7]

use super::{Client, wanted};
use crate::base::{Name, Seed, SessionId};
use crate::broker::core::tests::scenario::{Scenario, draft};
use crate::broker::recovery::{ExpiryPolicy, Recovery};
use crate::broker::*;

/// It was told that everything was sent after a slice of what it was to be sent again, and its credit was gone.
#[test]
fn who_comes_back_and_drains_is_told_when_all_was_sent_again() {
    let bodies: Vec<String> = (0..200).map(|number| number.to_string()).collect();
    let bodies: Vec<&str> = bodies.iter().map(String::as_str).collect();
    let mut c = Client::new(&[], &bodies);
    assert_eq!(c.attach(vec![]), None);
    let held = c.positions(200);
    c.lose();
    c.attach(held.iter().map(|at| (*at, None)).collect());
    let consumer = c.consumer();
    c.s.drain(consumer, 500);
    let again = c.s.taken(consumer);
    assert!(again.iter().all(|delivery| delivery.resumed));
    assert_eq!(again.len(), 200);
    let drained =
        |effect: &Effect| matches!(effect, Effect::Drained { consumer: of, .. } if *of == consumer);
    assert!(c.s.others.iter().any(drained));
    c.s.publish_all("q", &["new"]);
    assert_eq!(c.take(501).len(), 1, "its credit was used up");
}

/// It never was, and who drained was told at once that everything was sent.
#[test]
fn who_holds_as_much_as_it_may_is_sent_all_of_it_again() {
    let mut c = Client::new(&[], &[]);
    c.s = Scenario::with(CoreOptions {
        unsettled_max: 2,
        ..CoreOptions::new(Name::from("/"), Seed(7))
    });
    c.s.queue("q", &[]);
    c.s.publish_all("q", &["a", "b", "c"]);
    c.attach(vec![]);
    let held = c.positions(5);
    assert_eq!(held.len(), 2);
    c.lose();
    c.attach(held.iter().map(|at| (*at, None)).collect());
    let consumer = c.consumer();
    c.s.drain(consumer, 5);
    assert_eq!(c.s.taken(consumer).len(), 2);
    assert!(is_drained(&c), "{:?}", c.s.others);
}

/// It waited until the queue was empty, though it gets nothing of it.
#[test]
fn who_came_back_with_an_incomplete_map_and_drains_is_told() {
    let mut c = Client::new(&[], &["a", "b"]);
    c.attach(vec![]);
    let held = c.positions(1);
    c.lose();
    let incomplete = Recovery {
        is_incomplete: true,
        ..wanted(ExpiryPolicy::ConnectionClose, vec![(held[0], None)])
    };
    c.attach_as(incomplete, |_| {});
    let consumer = c.consumer();
    c.s.drain(consumer, 5);
    assert_eq!(c.s.taken(consumer).len(), 1, "it gets nothing new");
    assert!(is_drained(&c), "{:?}", c.s.others);
}

/// The queue was served for ever: a drain that waits for what is sent again was looked at with each turn.
#[test]
fn a_drain_that_waits_for_what_is_sent_again_lets_its_queue_rest() {
    let mut c = Client::new(&[], &["a"]);
    c.attach(vec![]);
    let held = c.positions(1);
    c.lose();
    c.attach(vec![(held[0], None)]);
    let (consumer, session) = (c.consumer(), SessionId(c.at));
    assert_eq!(c.take(2).len(), 1);
    let other = c.s.consumer(500, "q");
    c.s.credit(other, 5);
    c.s.credit(consumer, 0);
    c.s.apply(Command::ReturnUnsent {
        consumer,
        position: held[0],
    });
    c.s.apply(Command::SessionFlow { session, limit: 0 });
    c.s.drain(consumer, 5);
    let publish = Command::Publish(draft("b").post("", "q", 999));
    c.s.core.apply_alone(c.s.now, publish, &mut c.s.effects);
    let mut ticks = 0;
    while c.s.core.has_work() {
        c.s.core.tick(c.s.now, 100, &mut c.s.effects);
        ticks += 1;
        assert!(ticks < 1_000, "it is served for ever");
    }
    c.s.apply(Command::SessionFlow { session, limit: 9 });
    assert_eq!(c.s.taken(consumer).len(), 1);
    assert!(is_drained(&c), "{:?}", c.s.others);
}

fn is_drained(c: &Client) -> bool {
    let of = c.consumer();
    let drained =
        |effect: &Effect| matches!(effect, Effect::Drained { consumer, .. } if *consumer == of);
    c.s.others.iter().any(drained)
}
