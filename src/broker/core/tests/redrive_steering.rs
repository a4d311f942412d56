//! Redrives that are steered, refused, or held up. [evidence part 6]

use std::sync::Arc;

use super::redrive::{
    COMPLETED, begin, job, journal, kill, paged_in, restored, rights, shop, shop_in, spec, start,
    state, steer,
};
use super::redrive_outcome::page_out_all;
use super::scenario::{CONNECTION, Scenario, text};
use crate::access::Permissions;
use crate::base::limits::REDRIVE_KEPT_MS;
use crate::base::{ConsumerId, Name, Position, Seed};
use crate::broker::redrive::*;
use crate::broker::*;
use crate::search::DeathFilter;
use crate::wire::Value;

#[test]
fn discarding_drops_and_counts_and_needs_a_note() {
    let mut s = shop();
    kill(&mut s, &["a", "b"]);
    let bare = spec("dlq", RedriveTarget::Discard);
    let refused = start(&mut s, "j", bare.clone());
    assert!(
        matches!(&refused, Reply::Refused(Error::BadRequest { why }) if why.contains("note")),
        "{refused:?}"
    );
    let note = Some(Name::from("test orders"));
    begin(&mut s, "j", RedriveSpec { note, ..bare });
    assert_eq!(state(&s, "j"), COMPLETED);
    assert_eq!(s.counts("dlq").0, 0);
    assert_eq!(s.dropped("dlq", DropCause::Discarded), 2);
    assert_eq!(s.core.counters().redriven.discarded, 2);
}

#[test]
fn what_cannot_be_done_is_refused_and_says_why() {
    let mut s = shop();
    let reply = s.apply(Command::Queue(QueueCommand::Declare {
        connection: Some(CONNECTION),
        name: Name::from("fleeting"),
        durable: false,
        exclusive: false,
        auto_delete: false,
        arguments: Vec::<(Name, Value)>::new(),
    }));
    assert!(matches!(reply, Reply::QueueDeclared { .. }));
    let queue = |name: &str| RedriveTarget::Queue(Name::from(name));
    let exchange = |name: &str| RedriveTarget::Exchange {
        exchange: Name::from(name),
        routing_key: Name::from("k"),
    };
    for (source, target, says) in [
        ("nowhere", RedriveTarget::Origin, "no queue 'nowhere'"),
        ("dlq", queue("dlq"), "source and target"),
        ("dlq", queue("nowhere"), "there is no queue 'nowhere'"),
        ("dlq", queue("fleeting"), "\"unsafe\": true"),
        ("dlq", exchange("nowhere"), "there is no exchange 'nowhere'"),
    ] {
        let Reply::Refused(error) = start(&mut s, "j", spec(source, target)) else {
            panic!("{says}")
        };
        assert!(error.to_string().contains(says), "{error}");
    }
    let risky = RedriveSpec {
        is_unsafe: true,
        ..spec("dlq", queue("fleeting"))
    };
    begin(&mut s, "j", risky.clone());
    // The same again is no second run, and something else under its id is refused.
    let again = start(&mut s, "j", risky);
    assert!(matches!(again, Reply::RedriveSet { created: false, .. }));
    let other = start(&mut s, "j", spec("dlq", RedriveTarget::Origin));
    assert!(matches!(other, Reply::Refused(Error::RedriveExists { .. })));
}

#[test]
fn it_can_be_paused_resumed_cancelled_and_forgotten() {
    let mut s = shop();
    kill(&mut s, &["x"; 10]);
    let slow = RedriveSpec {
        rate_milli: Some(1_000),
        ..spec("dlq", RedriveTarget::Origin)
    };
    begin(&mut s, "j", slow);
    s.pass(2_000);
    let done = |reply: Reply| assert!(matches!(reply, Reply::Done { .. }), "{reply:?}");
    done(steer(&mut s, "j", Steering::Pause));
    done(steer(&mut s, "j", Steering::Pause));
    s.pass(60_000);
    assert_eq!(job(&s, "j").counts.moved, 3);
    assert_eq!(
        state(&s, "j"),
        (RedriveState::Paused, Some(RedriveCause::Asked))
    );
    let restored = restored(&s.records, &s);
    assert_eq!(restored.redrive("j").unwrap().state, RedriveState::Paused);
    done(steer(&mut s, "j", Steering::Resume));
    s.pass(1_000);
    assert!(job(&s, "j").counts.moved > 3);
    let early = steer(&mut s, "j", Steering::Forget);
    assert!(matches!(early, Reply::Refused(Error::RedriveState { .. })));
    done(steer(&mut s, "j", Steering::Cancel));
    done(steer(&mut s, "j", Steering::Cancel));
    let moved = job(&s, "j").counts.moved;
    s.pass(60_000);
    assert_eq!(
        (job(&s, "j").counts.moved, state(&s, "j").0),
        (moved, RedriveState::Cancelled)
    );
    assert_eq!(job(&s, "j").counts.left(), Some(10 - moved));
    let late = steer(&mut s, "j", Steering::Resume);
    assert!(matches!(late, Reply::Refused(Error::RedriveState { .. })));
    done(steer(&mut s, "j", Steering::Forget));
    let gone = steer(&mut s, "j", Steering::Pause);
    assert!(matches!(gone, Reply::Refused(Error::NoRedrive { .. })));
}

#[test]
fn a_hundred_that_are_over_are_kept_also_by_the_journal() {
    let mut s = shop();
    kill(&mut s, &["x"]);
    for number in 0..120 {
        let one = RedriveSpec {
            max: Some(0),
            ..spec("dlq", RedriveTarget::Origin)
        };
        begin(&mut s, &format!("over-{number}"), one);
    }
    assert_eq!(s.core.redrives().count(), 100);
    assert!(s.core.redrive("over-19").is_none() && s.core.redrive("over-20").is_some());
    let restored = restored(&s.records, &s);
    let ids = |core: &Core| {
        core.redrives()
            .map(|job| job.id.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&restored), ids(&s.core));
}

#[test]
fn a_ninth_is_refused_while_eight_are_not_over() {
    let mut s = shop();
    kill(&mut s, &["x"; 20]);
    let slow = RedriveSpec {
        rate_milli: Some(100),
        ..spec("dlq", RedriveTarget::Origin)
    };
    for number in 0..8 {
        begin(&mut s, &format!("j{number}"), slow.clone());
    }
    let Reply::Refused(error) = start(&mut s, "j8", slow.clone()) else {
        panic!("a ninth")
    };
    assert_eq!(error, Error::TooManyRedrives);
    assert!(error.to_string().contains('8'), "{error}");
    steer(&mut s, "j0", Steering::Cancel);
    begin(&mut s, "j8", slow);
}

#[test]
fn two_jobs_over_the_same_messages_move_each_once() {
    let mut s = shop();
    s.queue("other", &[]);
    kill(&mut s, &["x"; 100]);
    let rated = |target| RedriveSpec {
        rate_milli: Some(50_000),
        ..spec("dlq", target)
    };
    begin(&mut s, "j", rated(RedriveTarget::Origin));
    begin(
        &mut s,
        "k",
        rated(RedriveTarget::Queue(Name::from("other"))),
    );
    s.pass(10_000);
    let counts = ["j", "k"].map(|id| job(&s, id).counts);
    assert_eq!(counts[0].moved + counts[1].moved, 100);
    assert_eq!(s.counts("work").0, counts[0].moved);
    assert_eq!(s.counts("other").0, counts[1].moved);
    for counts in counts {
        assert_eq!(Some(counts.moved + counts.skipped_changed), counts.matched);
    }
}

/// Each was woken by a block that was read for the other one, asked for its own again, though its rate
/// let it move nothing, and pushed the other's out: a broker short of memory did nothing else.
#[test]
fn jobs_that_wait_for_their_rate_do_not_read_blocks_because_of_each_other() {
    let mut s = Scenario::with(CoreOptions {
        block_shift: 2,
        ..CoreOptions::new(Name::from("/"), Seed(7))
    });
    shop_in(&mut s);
    s.queue("other", &[]);
    s.publish_all("dlq", &["x"; 24]);
    let slow = |positions: [u64; 3]| {
        let positions = Value::List(positions.map(Value::Ulong).into());
        let filter = DeathFilter::of_parts([("position", &positions)]).unwrap();
        RedriveSpec {
            filter: Some(Arc::new(filter)),
            rate_milli: Some(1_000),
            ..spec("dlq", RedriveTarget::Queue(Name::from("other")))
        }
    };
    begin(&mut s, "first", slow([8, 9, 10]));
    begin(&mut s, "behind", slow([16, 17, 18]));
    let known = journal(&s.records);
    page_out_all(&mut s);
    s.effects.loads.clear();
    s.pass(1_000);
    let mut reads = 0;
    while !s.effects.loads.is_empty() {
        let load = s.effects.loads.remove(0);
        s.apply(paged_in(&load, &known));
        page_out_all(&mut s);
        reads += 1;
        assert!(reads < 100, "they read for each other without an end");
    }
    assert!(reads >= 2, "each reads the block of its next message");
    let moved = ["first", "behind"].map(|id| job(&s, id).counts.moved);
    assert_eq!(moved, [2, 2]);
}

#[test]
fn a_source_that_is_deleted_ends_it_and_a_target_that_is_not_there_is_passed() {
    let mut s = shop();
    kill(&mut s, &["a", "b"]);
    let delete = |s: &mut Scenario, name: &str| {
        s.apply(Command::Queue(QueueCommand::Delete {
            connection: Some(CONNECTION),
            name: Name::from(name),
            if_unused: false,
            if_empty: false,
        }));
    };
    delete(&mut s, "work");
    begin(&mut s, "j", spec("dlq", RedriveTarget::Origin));
    assert_eq!(job(&s, "j").counts.skipped_no_target, 2);
    assert_eq!(s.counts("dlq").0, 2);
    s.queue("work", &[]);
    let slow = RedriveSpec {
        rate_milli: Some(100),
        ..spec("dlq", RedriveTarget::Origin)
    };
    begin(&mut s, "k", slow);
    assert_eq!(
        s.counts("work").0,
        1,
        "a queue that was declared again is a target"
    );
    delete(&mut s, "dlq");
    s.queue("dlq", &[]);
    let failed = (RedriveState::Failed, Some(RedriveCause::SourceGone));
    assert_eq!(state(&s, "k"), failed);
}

/// The next queue that was declared had the id of the one that was gone, and the job took its messages.
#[test]
fn a_paused_redrive_of_a_queue_that_a_restart_does_not_keep_touches_no_other() {
    let mut s = shop();
    let declare = |s: &mut Scenario, name: &str, durable: bool| {
        let reply = s.apply(Command::Queue(QueueCommand::Declare {
            connection: Some(CONNECTION),
            name: Name::from(name),
            durable,
            exclusive: false,
            auto_delete: false,
            arguments: Vec::new(),
        }));
        assert!(matches!(reply, Reply::QueueDeclared { created: true, .. }));
    };
    declare(&mut s, "passing", false);
    let slow = RedriveSpec {
        rate_milli: Some(100),
        ..spec("passing", RedriveTarget::Queue(Name::from("work")))
    };
    s.publish_all("passing", &["x", "y"]);
    begin(&mut s, "j", slow);
    steer(&mut s, "j", Steering::Pause);
    let source = job(&s, "j").source;
    s.core = restored(&s.records.clone(), &s);
    declare(&mut s, "another", true);
    let another = s.core.queue("another").unwrap().id;
    assert!(another > source, "{another:?} {source:?}");
    s.pass(1);
    let failed = (RedriveState::Failed, Some(RedriveCause::SourceGone));
    assert_eq!(state(&s, "j"), failed);
}

#[test]
fn rights_are_those_that_the_user_has_at_the_time() {
    let mut s = shop();
    kill(&mut s, &["x"; 10]);
    let slow = RedriveSpec {
        rate_milli: Some(1_000),
        ..spec("dlq", RedriveTarget::Origin)
    };
    begin(&mut s, "j", slow);
    let told = |s: &mut Scenario, user: &str, permissions: Option<(&str, &str)>| {
        let rights = permissions.map(|(write, read)| RedriveRights {
            permissions: Arc::new(Permissions::new("", write, read).unwrap()),
            topics: None,
            users_by_token: None,
        });
        let user = Name::from(user);
        s.apply(Command::Redrive(RedriveCommand::Rights { user, rights }));
    };
    told(&mut s, "bob", None);
    s.pass(1_000);
    assert_eq!(job(&s, "j").counts.moved, 2, "that is another user");
    told(&mut s, "alice", None);
    assert_eq!(
        state(&s, "j"),
        (RedriveState::Paused, Some(RedriveCause::UserGone))
    );
    // It said that it waited, and looked as if it went on.
    let refused = |s: &mut Scenario, says: &str| {
        let reply = steer(s, "j", Steering::Resume);
        let Reply::Refused(error) = reply else {
            panic!("{reply:?}");
        };
        assert_eq!(
            error.to_string(),
            format!("redrive 'j' stays paused: {says}")
        );
        s.pass(5_000);
        assert_eq!(state(s, "j").0, RedriveState::Paused);
    };
    refused(&mut s, "its user is gone");
    assert_eq!(state(&s, "j").1, Some(RedriveCause::UserGone));
    told(&mut s, "alice", Some((".*", "^other$")));
    refused(&mut s, "its user may not read its queue");
    assert_eq!(state(&s, "j").1, Some(RedriveCause::NotAllowed));
    assert_eq!(job(&s, "j").counts.moved, 2);
    // Without the right to write, messages are passed, each counted.
    told(&mut s, "alice", Some(("^other$", ".*")));
    steer(&mut s, "j", Steering::Resume);
    s.pass(10_000);
    assert_eq!(state(&s, "j"), COMPLETED);
    let counts = job(&s, "j").counts;
    assert_eq!((counts.moved, counts.skipped_not_allowed), (2, 8));
    assert_eq!(s.counts("dlq").0, 8);
}

#[test]
fn an_alarm_holds_it_up() {
    let mut s = shop();
    kill(&mut s, &["x"; 3]);
    let alarm = |s: &mut Scenario, raised| {
        s.apply(Command::Upkeep(UpkeepCommand::Alarm { raised }));
    };
    alarm(&mut s, true);
    begin(&mut s, "j", spec("dlq", RedriveTarget::Origin));
    s.pass(1_000);
    assert_eq!(
        state(&s, "j"),
        (RedriveState::Waiting, Some(RedriveCause::Alarm))
    );
    alarm(&mut s, false);
    assert_eq!(state(&s, "j"), COMPLETED, "it is woken");
    // With nothing to move it need not wait.
    alarm(&mut s, true);
    begin(&mut s, "k", spec("dlq", RedriveTarget::Origin));
    assert_eq!(state(&s, "k"), COMPLETED);
}

#[test]
fn quarantined_messages_come_back_without_their_cause() {
    let mut s = Scenario::with(CoreOptions {
        undeliverable: Undeliverable {
            choice: arguments::OnUndeliverable::Quarantine,
            ..Undeliverable::default()
        },
        ..CoreOptions::new(Name::from("/"), Seed(7))
    });
    s.queue("work", &[("x-dead-letter-exchange", text("nowhere"))]);
    s.publish_all("work", &["a"]);
    let delivery = s.take(1, "work", 1).remove(0);
    s.reject(&delivery);
    s.detach(ConsumerId(1));
    assert_eq!(s.counts("amq.quarantine").0, 1);
    begin(&mut s, "j", spec("amq.quarantine", RedriveTarget::Origin));
    let delivery = s.take(2, "work", 1).remove(0);
    let history = delivery.message.history().unwrap();
    assert!(history.quarantined().is_none());
    assert_eq!(&*delivery.route.exchange, "");
}

#[test]
fn a_dry_run_says_where_each_would_go_and_changes_nothing() {
    let mut s = shop();
    kill(&mut s, &["a"]);
    s.publish_all("dlq", &["never died"]);
    let browsed = s
        .core
        .browse("dlq", queue::MessageState::Ready, Position(0), 10);
    let messages: Vec<_> = (browsed.unwrap().messages.into_iter())
        .filter_map(|seen| match seen.content {
            Content::Here(message, _) => Some(message),
            Content::OnDisk(_) => None,
        })
        .collect();
    let asked = spec("dlq", RedriveTarget::Origin);
    let messages = messages.iter().map(|message| &**message);
    let ways = s.core.foresee_redrive(&asked, &rights(), messages).unwrap();
    let work = s.core.queue("work").unwrap().id;
    assert_eq!(ways, [RedriveWay::To(vec![work]), RedriveWay::NoTarget]);
    assert_eq!((s.counts("dlq").0, s.core.redrives().count()), (2, 0));
}

#[test]
fn only_what_the_filter_means_is_moved_and_counted() {
    let mut s = shop();
    kill(&mut s, &["a", "b", "c"]);
    s.publish_all("dlq", &["never died", "neither did this"]);
    let parts = |name: &str, value: Value| {
        let filter = DeathFilter::of_parts([(name, &value)]).unwrap();
        Some(Arc::new(filter))
    };
    let rejected = RedriveSpec {
        filter: parts("reason", text("rejected")),
        max: Some(2),
        ..spec("dlq", RedriveTarget::Origin)
    };
    begin(&mut s, "j", rejected);
    let counts = job(&s, "j").counts;
    assert_eq!(
        (counts.moved, counts.matched),
        (2, None),
        "they were not counted before"
    );
    let read = restored(&s.records, &s);
    assert_eq!(read.redrive("j"), Some(job(&s, "j")));
    let again = RedriveSpec {
        filter: parts("reason", text("rejected")),
        ..spec("dlq", RedriveTarget::Origin)
    };
    begin(&mut s, "k", again);
    let counts = job(&s, "k").counts;
    assert_eq!(
        (counts.moved, counts.matched, counts.left()),
        (1, Some(1), Some(0))
    );
    let expired = RedriveSpec {
        filter: parts("reason", text("expired")),
        ..spec("dlq", RedriveTarget::Queue(Name::from("work")))
    };
    begin(&mut s, "none", expired);
    assert_eq!(job(&s, "none").counts.passed(), 0);
    assert_eq!(s.bodies("dlq"), ["never died", "neither did this"]);
}

/// A job did not forget itself: with no other one it was kept for good.
#[test]
fn one_that_is_over_is_kept_for_thirty_days_also_if_there_is_no_other() {
    const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
    let mut s = shop();
    kill(&mut s, &["x"]);
    begin(&mut s, "j", spec("dlq", RedriveTarget::Origin));
    assert_eq!(state(&s, "j"), COMPLETED);
    s.pass(REDRIVE_KEPT_MS - DAY_MS);
    assert_eq!(s.core.redrives().count(), 1);
    s.pass(2 * DAY_MS);
    assert_eq!(s.core.redrives().count(), 0);
    assert!(restored(&s.records, &s).redrive("j").is_none());
}
