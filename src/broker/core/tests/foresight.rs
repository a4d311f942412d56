//! Foresight in cases that the simulator has not: routing by the death itself, queues that are
//! their own target, targets that are gone, random exchanges, messages on disk. [evidence part 7]

use std::sync::Arc;

use super::scenario::{CONNECTION, Scenario, number, text};
use crate::base::{Lsn, Meter, Name, Position, QueueId, Seed};
use crate::broker::*;
use crate::deaths::{Evidence, How, Reason};
use crate::wire::Value;

/// What the core foresees for a message of a queue.
fn foresee(s: &Scenario, queue: &str, position: Position, event: &Event) -> Option<Foresight> {
    let id = s.core.queue(queue)?.id;
    let meter = &mut Meter::default();
    s.core.foresee(s.now, (id, position), event, None, meter)
}

fn targets(foresight: &Foresight) -> Vec<&str> {
    let targets = foresight.targets.iter();
    targets.map(|target| target.queue.as_str()).collect()
}

fn to(exchange: &str) -> (&'static str, Value) {
    ("x-dead-letter-exchange", text(exchange))
}

fn key(key: &str) -> (&'static str, Value) {
    ("x-dead-letter-routing-key", text(key))
}

/// An error with this condition.
fn error(condition: &str) -> Arc<Evidence> {
    Arc::new(Evidence {
        how: Some(How::Rejected),
        condition: Some(condition.into()),
        ..Evidence::default()
    })
}

/// Binds a queue by headers, all of which must be there.
fn bind_headers(s: &mut Scenario, exchange: &str, queue: &str, headers: &[(&str, &str)]) {
    let mut arguments = vec![(Name::from("x-match"), text("all-with-x"))];
    let headers = headers.iter();
    arguments.extend(headers.map(|(name, value)| (Name::from(*name), text(value))));
    let reply = s.apply(Command::Topology(TopologyCommand::Bind {
        connection: Some(CONNECTION),
        source: Name::from(exchange),
        destination: Destination::Queue(Name::from(queue)),
        key: Name::from(""),
        arguments,
    }));
    assert!(matches!(reply, Reply::Done { .. }), "{reply:?}");
}

#[test]
fn a_headers_exchange_is_asked_with_the_very_death_that_is_foreseen() {
    let mut s = Scenario::new();
    s.exchange("dlx", "headers");
    for queue in ["timeouts", "expired", "q"] {
        let arguments = if queue == "q" {
            vec![to("dlx")]
        } else {
            vec![]
        };
        s.queue(queue, &arguments);
    }
    let timeout = [("x-opt-last-death-condition", "app:timeout")];
    bind_headers(&mut s, "dlx", "timeouts", &timeout);
    let aged = [
        ("x-last-death-reason", "expired"),
        ("x-last-death-queue", "q"),
    ];
    bind_headers(&mut s, "dlx", "expired", &aged);
    s.publish_all("q", &["a"]);
    let position = s.take(1, "q", 1)[0].position;
    let rejected = |condition: &str| Event::Rejected {
        failed: true,
        evidence: Some(error(condition)),
    };
    let found = foresee(&s, "q", position, &rejected("app:timeout")).unwrap();
    assert_eq!(found.becomes, Becomes::DeadLettered);
    assert_eq!(targets(&found), ["timeouts"]);
    assert_eq!(&*found.way.unwrap().exchange, "dlx");
    let found = foresee(&s, "q", position, &rejected("app:schema")).unwrap();
    assert_eq!(found.becomes, Becomes::Dropped(DropCause::Unroutable));
    let found = foresee(&s, "q", position, &Event::Dies(Reason::Expired)).unwrap();
    assert_eq!(targets(&found), ["expired"]);
    let position = s.core.queue("q").unwrap().messages.held();
    assert_eq!(
        (position, s.counts("expired"), s.counts("timeouts")),
        (1, (0, 0, 0), (0, 0, 0))
    );
}

#[test]
fn a_queue_that_is_its_own_target_has_room_for_the_message_that_leaves_it() {
    let mut s = Scenario::new();
    let limits = [
        ("x-max-length", number(1)),
        ("x-overflow", text("reject-publish")),
    ];
    s.queue("q", &[&[to(""), key("q")][..], &limits].concat());
    s.publish_all("q", &["a"]);
    let position = Position(0);
    // It was not rejected, so this is a cycle, full or not.
    let found = foresee(&s, "q", position, &Event::Dies(Reason::Expired)).unwrap();
    assert_eq!(
        found.skipped,
        [(s.core.queue("q").unwrap().id, Skipped::Cycle)]
    );
    let rejected = Event::Rejected {
        failed: true,
        evidence: None,
    };
    let found = foresee(&s, "q", position, &rejected).unwrap();
    assert_eq!(
        (found.becomes, targets(&found)),
        (Becomes::DeadLettered, vec!["q"])
    );
    let delivery = s.take(1, "q", 1).remove(0);
    s.reject(&delivery);
    assert_eq!(s.counts("q"), (1, 0, 0), "it is there again");
}

#[test]
fn what_waits_for_a_queue_that_was_deleted_is_foreseen_to_leave_without_it() {
    let mut s = Scenario::new();
    let full = [
        ("x-max-length", number(0)),
        ("x-overflow", text("reject-publish")),
    ];
    s.exchange("dlx", "fanout");
    let strategy = ("x-dead-letter-strategy", text("at-least-once"));
    s.queue("q", &[to("dlx"), strategy]);
    s.queue("open", &[]);
    for queue in ["full", "other"] {
        s.queue(queue, &full);
    }
    for queue in ["open", "full", "other"] {
        s.bind("dlx", queue, "");
    }
    s.publish_all("q", &["a"]);
    let delivery = s.take(1, "q", 1).remove(0);
    let rejected = Event::Rejected {
        failed: true,
        evidence: None,
    };
    let found = foresee(&s, "q", delivery.position, &rejected).unwrap();
    assert_eq!((found.becomes, found.waits), (Becomes::DeadLettered, true));
    assert_eq!(targets(&found), ["open"]);
    let id = |s: &Scenario, name: &str| -> QueueId { s.core.queue(name).unwrap().id };
    let [gone, other] = ["full", "other"].map(|name| id(&s, name));
    assert_eq!(
        found.skipped,
        [(gone, Skipped::Full), (other, Skipped::Full)]
    );
    s.reject(&delivery);
    assert_eq!(s.counts("q"), (0, 0, 1));
    let delete = Command::Queue(QueueCommand::Delete {
        connection: None,
        name: Name::from("full"),
        if_unused: false,
        if_empty: false,
    });
    // Before the work that follows from the deletion.
    s.core.apply_alone(s.now, delete, &mut Effects::new());
    let found = foresee(&s, "q", delivery.position, &Event::Retried).unwrap();
    assert_eq!((found.becomes, found.waits), (Becomes::DeadPending, true));
    assert_eq!(
        found.skipped,
        [(gone, Skipped::Gone), (other, Skipped::Full)]
    );
    assert_eq!(
        foresee(&s, "open", Position(0), &Event::Retried),
        None,
        "it is not dead"
    );
}

#[test]
fn a_random_exchange_picks_the_queue_that_was_foreseen() {
    let mut s = Scenario::new();
    s.exchange("dlx", "x-local-random");
    s.queue("q", &[to("dlx")]);
    for queue in ["a", "b", "c", "d"] {
        s.queue(queue, &[]);
        s.bind("dlx", queue, "");
    }
    let rejected = Event::Rejected {
        failed: true,
        evidence: None,
    };
    let mut reached = std::collections::BTreeSet::new();
    for id in 0..20 {
        s.publish_all("q", &["a"]);
        let delivery = s.take(id, "q", 1).remove(0);
        let found = foresee(&s, "q", delivery.position, &rejected).unwrap();
        let [target] = targets(&found)[..] else {
            panic!("{found:?}");
        };
        let before = s.counts(target).0;
        s.reject(&delivery);
        assert_eq!(s.counts(target).0, before + 1, "{id}");
        reached.insert(target.to_owned());
        s.detach(delivery.consumer);
    }
    assert!(reached.len() > 1, "{reached:?}");
}

#[test]
fn a_message_on_disk_is_foreseen_by_its_bytes_as_they_are_given() {
    let mut s = Scenario::with(CoreOptions {
        block_shift: 0,
        ..CoreOptions::new(Name::from("/"), Seed(7))
    });
    s.queue("q", &[to(""), key("dlq"), ("x-delivery-limit", number(1))]);
    s.queue("dlq", &[]);
    s.publish_all("q", &["a", "b", "c"]);
    let slot = s
        .core
        .queue("q")
        .unwrap()
        .messages
        .slot(Position(1))
        .unwrap();
    let content = (Arc::clone(&slot.message), Arc::clone(&slot.route));
    s.apply(Command::Upkeep(UpkeepCommand::PageOut {
        bytes: 1,
        written: Lsn(u64::MAX),
        spill: false,
    }));
    let queue = s.core.queue("q").unwrap();
    assert!(queue.messages.is_evicted(Position(1)));
    let place = (queue.id, Position(1));
    let failed = Event::Returned {
        failed: true,
        evidence: None,
    };
    let meter = &mut Meter::default();
    assert_eq!(s.core.foresee(s.now, place, &failed, None, meter), None);
    let content = Some((&content.0, &content.1));
    let found = s
        .core
        .foresee(s.now, place, &failed, content, meter)
        .unwrap();
    assert_eq!(found.becomes, Becomes::Requeued);
    let expired = Event::Dies(Reason::Expired);
    let found = s
        .core
        .foresee(s.now, place, &expired, content, meter)
        .unwrap();
    assert_eq!(targets(&found), ["dlq"]);
}

#[test]
fn of_two_reasons_at_once_the_delivery_limit_is_foreseen_before_age() {
    let mut s = Scenario::new();
    let arguments = [
        ("x-delivery-limit", number(0)),
        ("x-message-ttl", number(10)),
    ];
    s.queue("q", &arguments);
    s.publish_all("q", &["a"]);
    let delivery = s.take(1, "q", 1).remove(0);
    let returned = |failed| Event::Returned {
        failed,
        evidence: None,
    };
    let reason =
        |s: &Scenario, event: Event| foresee(s, "q", delivery.position, &event).unwrap().reason;
    assert_eq!(reason(&s, returned(false)), None);
    s.pass(10);
    assert_eq!(reason(&s, returned(true)), Some(Reason::DeliveryLimit));
    assert_eq!(reason(&s, returned(false)), Some(Reason::Expired));
    let found = foresee(&s, "q", delivery.position, &returned(true)).unwrap();
    let dropped = Becomes::Dropped(DropCause::NoDeadLetterExchange);
    assert_eq!(found.becomes, dropped);
    s.fail(&delivery);
    assert_eq!(s.dropped("q", DropCause::NoDeadLetterExchange), 1);
}
