//! What is told as it happens. [evidence part 10]

use std::sync::Arc;

use super::redrive::restored;
use super::redrive_outcome::purge;
use super::scenario::{Scenario, number, text};
use crate::base::Position;
use crate::broker::death_counts::DeathOutcome;
use crate::broker::event::{EventKind, EventType, VhostEvent};
use crate::broker::memo::MemoFact;
use crate::broker::{DropCause, Fact, Outcome};
use crate::deaths::Reason;

/// A queue `q` whose dead letters go to `dlq`, which takes one and refuses others while they wait.
fn with_a_full_target(s: &mut Scenario) {
    s.queue(
        "dlq",
        &[
            ("x-max-length", number(1)),
            ("x-overflow", text("reject-publish")),
        ],
    );
    s.queue(
        "q",
        &[
            ("x-queue-type", text("quorum")),
            ("x-dead-letter-exchange", text("")),
            ("x-dead-letter-routing-key", text("dlq")),
            ("x-dead-letter-strategy", text("at-least-once")),
            ("x-overflow", text("reject-publish")),
        ],
    );
}

fn kinds(s: &Scenario) -> Vec<EventType> {
    s.events.iter().map(VhostEvent::first_type).collect()
}

fn targets(event: &VhostEvent) -> Vec<&str> {
    let targets = event.targets().expect("it has targets");
    targets.names.iter().map(|name| &**name).collect()
}

#[test]
fn one_that_waits_is_told_when_it_died_and_when_it_arrived() {
    let mut s = Scenario::new();
    with_a_full_target(&mut s);
    s.publish_all("q", &["a", "b"]);
    for delivery in s.take(1, "q", 2) {
        s.reject(&delivery);
    }
    assert_eq!(kinds(&s), [EventType::Death, EventType::Death]);
    assert_eq!(targets(&s.events[0]), ["dlq"]);
    let EventKind::Death { outcome, .. } = &s.events[1].kind else {
        panic!("{:?}", s.events[1]);
    };
    assert_eq!(*outcome, None, "it waits");
    s.events.clear();
    let first = s.take(2, "dlq", 1).remove(0);
    s.settle(&first, Outcome::Accepted);
    assert_eq!(kinds(&s), [EventType::DeadLettered]);
    assert_eq!(targets(&s.events[0]), ["dlq"]);
    let about = s.events[0].message.as_ref().expect("a message");
    assert_eq!(about.position, Position(1));
}

#[test]
fn a_drop_is_told_with_the_death_that_it_ends_or_by_itself() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    s.publish_all("q", &["a", "b", "c"]);
    let delivery = s.take(1, "q", 1).remove(0);
    s.reject(&delivery);
    purge(&mut s, "q");
    assert_eq!(kinds(&s), [EventType::Death, EventType::Dropped]);
    let cause = DropCause::NoDeadLetterExchange;
    assert_eq!(s.events[0].cause(), Some(cause));
    assert!(s.events[0].types().contains(&EventType::Dropped));
    let EventKind::Death {
        reason, outcome, ..
    } = &s.events[0].kind
    else {
        panic!("{:?}", s.events[0]);
    };
    assert_eq!(
        (*reason, *outcome),
        (Reason::Rejected, Some(DeathOutcome::Dropped(cause)))
    );
    let EventKind::Dropped {
        messages, cause, ..
    } = &s.events[1].kind
    else {
        panic!("{:?}", s.events[1]);
    };
    assert_eq!((*messages, *cause), (2, DropCause::Purged));
}

/// The body goes, what is in front of it stays.
#[test]
fn a_kept_event_has_no_body_and_shares_its_history() {
    let mut s = Scenario::new();
    s.queue("dlq", &[]);
    s.queue(
        "q",
        &[
            ("x-dead-letter-exchange", text("")),
            ("x-dead-letter-routing-key", text("dlq")),
        ],
    );
    s.publish_all("q", &["a", "b"]);
    for delivery in s.take(1, "q", 2) {
        s.reject(&delivery);
    }
    let about = |index: usize| s.events[index].message.as_ref().expect("a message");
    assert!(
        about(0).message.is_none(),
        "nothing is in front of its body"
    );
    let history = about(1).history.clone().expect("it died");
    let in_target = s.take(2, "dlq", 2);
    let of_letter = in_target[1].message.history().expect("it died");
    assert!(Arc::ptr_eq(&history, of_letter), "no copy is kept");
}

#[test]
fn numbers_are_reserved_in_the_record_of_the_first_and_go_on_behind_a_restart() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    s.publish_all("q", &["a", "b", "c"]);
    let reserved = |s: &Scenario| {
        let facts = s.records.iter().flat_map(|record| &record.facts);
        let below = facts.filter_map(|fact| match fact {
            Fact::Memo(MemoFact::EventNumbers { below }) => Some(*below),
            _ => None,
        });
        below.collect::<Vec<u64>>()
    };
    for delivery in s.take(1, "q", 2) {
        s.reject(&delivery);
    }
    assert_eq!(reserved(&s), [10_001], "once for both");
    let numbers: Vec<u64> = s.events.iter().map(|event| event.number).collect();
    assert_eq!(numbers, [1, 2]);
    let mut next = Scenario::new();
    next.core = restored(&s.records, &s);
    next.now = s.now;
    purge(&mut next, "q");
    assert_eq!(next.events[0].number, 10_001);
    assert_eq!(reserved(&next), [20_001]);
}
