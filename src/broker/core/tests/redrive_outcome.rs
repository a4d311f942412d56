//! What became of moved messages, also of those that leave their queue from disk, unread, together
//! with others, or with the end of the broker. [evidence part 6]

use super::redrive::{begin, job, kill, restored, shop, spec};
use super::scenario::{CONNECTION, Draft, Scenario, draft, number, text};
use crate::base::{Lsn, Name, Position, Seed};
use crate::broker::event::{EventKind, VhostEvent};
use crate::broker::redrive::{RedriveFact, RedriveOutcome, RedriveSpec, RedriveTarget, RedrivenTo};
use crate::broker::*;
use crate::wire::Value;

/// Messages of one block.
const BLOCK: usize = 4;

/// A queue `dlq` with as many messages, and an empty one, `held`, whose blocks are small.
fn with_target(messages: usize, arguments: &[(&str, Value)]) -> Scenario {
    let mut s = Scenario::with(CoreOptions {
        block_shift: BLOCK.ilog2(),
        ..CoreOptions::new(Name::from("/"), Seed(7))
    });
    s.queue("dlq", &[]);
    s.queue("held", arguments);
    let bodies: Vec<String> = (0..messages).map(|n| n.to_string()).collect();
    let bodies: Vec<&str> = bodies.iter().map(String::as_str).collect();
    s.publish_all("dlq", &bodies);
    s
}

fn move_to_held(s: &mut Scenario) {
    let target = RedriveTarget::Queue(Name::from("held"));
    begin(s, "j", spec("dlq", target));
}

/// Evicts a block of `held`; the number of its messages that are on disk.
fn page_out(s: &mut Scenario) -> usize {
    page_out_all(s);
    let messages = &s.core.queue("held").unwrap().messages;
    let places = messages.ends()[0].0;
    (0..places)
        .filter(|at| messages.is_evicted(Position(*at)))
        .count()
}

/// Evicts what can be.
pub(super) fn page_out_all(s: &mut Scenario) {
    let written = s.core.last_lsn();
    for _ in 0..4 {
        s.apply(Command::Upkeep(UpkeepCommand::PageOut {
            bytes: u64::MAX,
            written,
            spill: false,
        }));
    }
}

/// Accepted, died again, outstanding, gone; they add up.
fn outcome(s: &Scenario) -> (u64, u64, u64, u64) {
    let job = job(s, "j");
    let outcome = job.outcome;
    assert_eq!(outcome.settled() + job.outstanding(), job.counts.moved);
    let (accepted, died_again) = (outcome.accepted, outcome.died_again);
    (accepted, died_again, job.outstanding(), outcome.gone)
}

pub(super) fn purge(s: &mut Scenario, queue: &str) {
    let reply = s.apply(Command::Queue(QueueCommand::Purge {
        connection: Some(CONNECTION),
        name: Name::from(queue),
        with_dead_pending: false,
    }));
    assert!(matches!(reply, Reply::Purged { .. }), "{reply:?}");
}

/// They stayed outstanding: what a redrive had moved was known of messages in memory only.
#[test]
fn what_dies_on_disk_unread_has_died_again() {
    let mut s = with_target(20, &[("x-message-ttl", number(1_000))]);
    move_to_held(&mut s);
    assert_eq!(outcome(&s), (0, 0, 20, 0));
    assert!(page_out(&mut s) >= 2 * BLOCK);
    s.pass(2_000);
    assert_eq!(s.counts("held"), (0, 0, 0));
    assert_eq!(outcome(&s), (0, 20, 0, 0));
}

#[test]
fn what_is_pushed_out_on_disk_has_died_again() {
    let mut s = with_target(20, &[("x-max-length", number(20))]);
    move_to_held(&mut s);
    assert!(page_out(&mut s) >= 2 * BLOCK);
    s.publish_all("held", &["new"; 9]);
    assert_eq!(s.counts("held").0, 20);
    assert_eq!(outcome(&s), (0, 9, 11, 0));
}

/// Those that a consumer held kept all the others outstanding for good.
#[test]
fn of_a_purged_queue_only_what_consumers_hold_is_outstanding() {
    let mut s = with_target(10, &[]);
    move_to_held(&mut s);
    let taken = s.take(1, "held", 3);
    s.publish_all("held", &["never moved"]);
    purge(&mut s, "held");
    assert_eq!(outcome(&s), (0, 0, 3, 7));
    for delivery in &taken[..2] {
        s.settle(delivery, Outcome::Accepted);
    }
    assert_eq!(outcome(&s), (2, 0, 1, 7));
    let deleted = s.apply(Command::Queue(QueueCommand::Delete {
        connection: None,
        name: Name::from("held"),
        if_unused: false,
        if_empty: false,
    }));
    assert!(matches!(deleted, Reply::QueueDeleted { .. }), "{deleted:?}");
    assert_eq!(outcome(&s), (2, 0, 0, 8));
}

/// Each start told of every redrive that was over, as if it had ended then: readers of events, and whoever had
/// bound a queue to them, got each twice.
#[test]
fn the_end_of_a_redrive_is_told_once_also_across_restarts() {
    let mut s = shop();
    kill(&mut s, &["a", "b"]);
    s.queue("held", &[]);
    move_to_held(&mut s);
    let is_end = |event: &VhostEvent| match &event.kind {
        EventKind::Redrive(news) => news.state.is_over(),
        _ => false,
    };
    assert_eq!(s.events.iter().filter(|event| is_end(event)).count(), 1);
    let mut next = Scenario::new();
    next.core = restored(&s.records, &s);
    next.now = s.now;
    next.pass(1_000);
    assert!(next.events.is_empty(), "{:?}", next.events);
}

/// What the journal does not keep is gone with the broker, and so is its place among the outstanding.
#[test]
fn a_restart_knows_which_moved_messages_are_gone_with_it() {
    let mut s = shop();
    kill(&mut s, &["a", "b"]);
    s.queue("held", &[]);
    for body in ["t", "u", "v"] {
        let transient = Draft {
            durable: false,
            ..draft(body)
        };
        s.publish("dlq", &transient);
    }
    move_to_held(&mut s);
    assert_eq!(outcome(&s), (0, 0, 5, 0));
    let mut facts = Vec::new();
    let mut snapshot = s.core.begin_snapshot(Lsn(0));
    while let Some(slice) = s.core.snapshot_slice(s.now, &mut snapshot) {
        facts.extend(slice.facts);
    }
    let checkpoint = Record {
        lsn: s.core.last_lsn(),
        wall: s.now.wall,
        facts: facts.into(),
        named: true,
    };
    for records in [s.records.clone(), vec![checkpoint]] {
        let mut next = Scenario::new();
        next.core = restored(&records, &s);
        next.now = s.now;
        next.pass(1);
        assert_eq!(next.counts("held").0, 2);
        assert_eq!(outcome(&next), (0, 0, 2, 3));
        // And the journal was told, once.
        let told = [records, next.records.clone()].concat();
        let mut again = Scenario::new();
        again.core = restored(&told, &s);
        again.now = s.now;
        again.pass(1);
        assert_eq!(outcome(&again), (0, 0, 2, 3));
        assert!(again.has_told_event_numbers_only(), "{:?}", again.records);
        // The marks of the others came back: they expire on disk.
        again.policy("short", "held", &[("message-ttl", number(10))]);
        again.pass(100);
        assert_eq!(outcome(&again), (0, 2, 0, 3));
    }
}

#[test]
fn a_move_into_a_queue_that_a_restart_does_not_keep_is_gone_with_it() {
    let mut s = with_target(3, &[("x-queue-type", text("classic"))]);
    let declared = s.apply(Command::Queue(QueueCommand::Declare {
        connection: None,
        name: Name::from("fleeting"),
        durable: false,
        exclusive: false,
        auto_delete: false,
        arguments: Vec::new(),
    }));
    assert!(matches!(declared, Reply::QueueDeclared { .. }));
    let risky = RedriveSpec {
        is_unsafe: true,
        ..spec("dlq", RedriveTarget::Queue(Name::from("fleeting")))
    };
    begin(&mut s, "j", risky);
    assert_eq!(outcome(&s), (0, 0, 3, 0));
    let mut next = Scenario::new();
    next.core = restored(&s.records, &s);
    next.now = s.now;
    next.pass(1);
    assert_eq!(outcome(&next), (0, 0, 0, 3));
}

/// The simulation of whole brokers had a job know of seven messages, and say of six what became of them: what
/// is learned twice of a target in one record stands where it was told first, in front of the other target's.
#[test]
fn what_is_told_of_one_target_in_front_of_another_does_not_go_back() {
    let mut s = shop();
    kill(&mut s, &["a", "b", "c"]);
    s.queue("held", &[]);
    move_to_held(&mut s);
    let mut two = job(&s, "j").clone();
    two.targets[0].followed = 2;
    two.targets.push(RedrivenTo {
        queue: Name::from("other"),
        moved: 1,
        followed: 1,
        settled: 0,
    });
    let learned = |target: &str, settled, accepted| {
        Fact::Redrive(RedriveFact::Learned {
            job: two.number,
            settled: (Name::from(target), settled),
            outcome: RedriveOutcome {
                accepted,
                ..RedriveOutcome::default()
            },
        })
    };
    let facts = vec![
        Fact::Redrive(RedriveFact::Set(Box::new(two.clone()))),
        learned("held", 2, 3),
        learned("other", 1, 2),
    ];
    let record = Record {
        lsn: s.core.last_lsn(),
        wall: s.now.wall,
        facts: facts.into(),
        named: false,
    };
    let core = restored(&[record], &s);
    let job = core.redrives().next().unwrap();
    assert_eq!((job.outcome.accepted, job.outstanding()), (3, 0));
}
