//! Redrives: dead letters go back, each once, and it is known what became of them. [evidence part 6]

use std::collections::BTreeMap;
use std::sync::Arc;

use super::scenario::{CONNECTION, SESSION, Scenario, body_of, draft, number, text};
use crate::access::Permissions;
use crate::base::{ConsumerId, Lsn, Name, Position, QueueId, Seed};
use crate::broker::redrive::*;
use crate::broker::*;
use crate::deaths::Evidence;
use crate::message::{Message, Route};
use crate::search::DeathFilter;
use crate::wire::Value;

pub(super) fn rights() -> RedriveRights {
    RedriveRights {
        permissions: Arc::new(Permissions::all().unwrap()),
        topics: None,
        users_by_token: None,
    }
}

pub(super) fn spec(queue: &str, target: RedriveTarget) -> RedriveSpec {
    RedriveSpec {
        queue: Name::from(queue),
        filter: None,
        target,
        rate_milli: None,
        max: None,
        ramp: Some(false),
        stop: Some(RedriveStop::DEFAULT),
        note: None,
        is_unsafe: false,
    }
}

pub(super) fn start(s: &mut Scenario, id: &str, spec: RedriveSpec) -> Reply {
    s.apply(Command::Redrive(RedriveCommand::Start(Box::new(
        NewRedrive {
            id: Name::from(id),
            by: Name::from("alice"),
            spec,
            matched: None,
            rights: rights(),
        },
    ))))
}

pub(super) fn begin(s: &mut Scenario, id: &str, spec: RedriveSpec) {
    let reply = start(s, id, spec);
    assert!(
        matches!(reply, Reply::RedriveSet { created: true, .. }),
        "{reply:?}"
    );
}

pub(super) fn steer(s: &mut Scenario, id: &str, steering: Steering) -> Reply {
    let id = Name::from(id);
    s.apply(Command::Redrive(RedriveCommand::Steer { id, steering }))
}

pub(super) fn job<'a>(s: &'a Scenario, id: &str) -> &'a RedriveJob {
    s.core.redrive(id).unwrap()
}

pub(super) fn state(s: &Scenario, id: &str) -> (RedriveState, Option<RedriveCause>) {
    (job(s, id).state, job(s, id).cause)
}

pub(super) const COMPLETED: (RedriveState, Option<RedriveCause>) = (RedriveState::Completed, None);

/// `work` dead-letters by the exchange `dead` to `dlq`; `shop` brings messages to `work` by the key
/// of the order.
pub(super) fn shop() -> Scenario {
    let mut s = Scenario::new();
    shop_in(&mut s);
    s
}

pub(super) fn shop_in(s: &mut Scenario) {
    s.exchange("shop", "topic");
    s.exchange("dead", "direct");
    s.queue("dlq", &[]);
    s.queue("work", &[("x-dead-letter-exchange", text("dead"))]);
    s.bind("shop", "work", "order.*");
    s.bind("dead", "dlq", "order.new");
}

/// Publishes these and rejects them in `work`.
pub(super) fn kill(s: &mut Scenario, bodies: &[&str]) {
    for body in bodies {
        let outcome = s.publish_to("shop", "order.new", &draft(body));
        assert_eq!(outcome, PublishOutcome::Accepted);
    }
    let id = 900_000 + s.records.len() as u64;
    for delivery in s.take(id, "work", u64::MAX) {
        s.reject(&delivery);
    }
    s.detach(ConsumerId(id));
}

#[test]
fn a_dead_letter_goes_back_to_the_queue_it_failed_in_as_it_came_there() {
    let mut s = shop();
    kill(&mut s, &["a", "b"]);
    assert_eq!(s.counts("dlq").0, 2);
    begin(&mut s, "j", spec("dlq", RedriveTarget::Origin));
    assert_eq!(state(&s, "j"), COMPLETED);
    assert_eq!((s.counts("dlq").0, s.counts("work").0), (0, 2));
    let deliveries = s.take(1, "work", 2);
    let first = &deliveries[0];
    assert_eq!(body_of(first), "a");
    assert_eq!(&*first.route.exchange, "shop");
    assert_eq!(first.route.first_key(), "order.new");
    assert_eq!(
        (first.delivery_count, first.failures, first.acquired),
        (0, 0, 0)
    );
    assert!(!first.first_acquirer, "a consumer had it before");
    let history = first.message.history().unwrap();
    assert_eq!((history.entries().len(), history.deaths()), (1, 1));
    let redrives = first.message.redrives().unwrap();
    let latest = redrives.latest();
    assert_eq!(
        (latest.number, &*latest.job, &*latest.by, latest.deaths),
        (1, "j", "alice", 1)
    );
    assert_eq!((&*latest.from, &*latest.to), ("dlq", "work"));
    assert!(
        Arc::ptr_eq(redrives, deliveries[1].message.redrives().unwrap()),
        "those that move alike share what is said of it"
    );
    // A second death finds its way, and is told of beside the first.
    s.reject(first);
    let again = s.take(2, "dlq", 1).remove(0);
    assert_eq!(again.message.history().unwrap().deaths(), 2);
    s.settle(&again, Outcome::Released);
    s.detach(ConsumerId(2));
    begin(&mut s, "k", spec("dlq", RedriveTarget::Origin));
    s.credit(ConsumerId(1), 10);
    let third = s.taken(ConsumerId(1)).remove(0);
    let told: Vec<_> = (third.message.redrives().unwrap().list().iter())
        .map(|one| (one.number, one.job.to_string(), one.deaths))
        .collect();
    assert_eq!(told, [(2, "k".to_owned(), 2), (1, "j".to_owned(), 1)]);
}

#[test]
fn a_move_is_one_record_with_the_count_of_the_job() {
    let mut s = shop();
    kill(&mut s, &["a"]);
    s.records.clear();
    begin(&mut s, "j", spec("dlq", RedriveTarget::Origin));
    let kinds = |record: &Record| record.facts.iter().map(Fact::kind).collect::<Vec<_>>();
    let records: Vec<_> = s.records.iter().map(kinds).collect();
    assert_eq!(
        records.concat(),
        [
            "redrive set",
            "inserted",
            "removed",
            "moved",
            "redrive ended"
        ]
    );
    let moved = |record: &&Record| kinds(record).contains(&"inserted");
    let record = s.records.iter().find(moved).unwrap();
    assert!(kinds(record).contains(&"removed") && kinds(record).contains(&"moved"));
    let body = record.facts.iter().find_map(|fact| match fact {
        Fact::Inserted { body, .. } => Some(*body),
        _ => None,
    });
    assert!(matches!(body, Some(Body::At(_))), "bodies are not copied");
}

pub(super) fn restored(records: &[Record], s: &Scenario) -> Core {
    let options = CoreOptions::new(Name::from("/"), Seed(3));
    let mut restoring = Restoring::new(options, s.now, s.now.wall, u64::MAX);
    for record in records {
        restoring.record(record);
    }
    restoring.finish()
}

/// Bare message and route of everything that ever entered, as the journal has it.
pub(super) type Journal = BTreeMap<(QueueId, Position), (Arc<Message>, Arc<Route>)>;

pub(super) fn journal(records: &[Record]) -> Journal {
    let mut known = Journal::new();
    for fact in records.iter().flat_map(|record| &record.facts) {
        if let Fact::Inserted {
            message,
            route,
            entries,
            ..
        } = fact
        {
            for entry in entries {
                let place = (entry.queue, entry.position);
                known.insert(place, (Arc::clone(message), Arc::clone(route)));
            }
        }
    }
    known
}

/// The block that is asked for, as the journal has it.
pub(super) fn paged_in(load: &PageIn, known: &Journal) -> Command {
    let read = |wanted: &Wanted| {
        let (message, route) = known.get(&(load.queue, wanted.position))?.clone();
        Some((wanted.position, message, route))
    };
    Command::Upkeep(UpkeepCommand::PagedIn(PagedIn {
        queue: load.queue,
        block: load.block,
        messages: load.wanted.iter().filter_map(read).collect(),
    }))
}

/// Ticks a core, and gives it the blocks that it asks for, until nothing is left to be done.
fn drive(s: &mut Scenario, known: &mut Journal) {
    for _ in 0..1_000 {
        let mut effects = std::mem::take(&mut s.effects);
        s.core.tick(s.now, 100, &mut effects);
        for load in std::mem::take(&mut effects.loads) {
            s.core.apply(s.now, paged_in(&load, known), &mut effects);
        }
        let is_over = !s.core.has_work() && effects.loads.is_empty();
        known.extend(journal(&effects.records));
        s.records.append(&mut effects.records);
        if is_over {
            return;
        }
    }
    panic!("it does not end");
}

/// The crash matrix: a crash may cut the journal behind any record. Whatever is left of it, and
/// whatever of it is read twice, each message is in one queue, and the job goes on to move the rest.
#[test]
fn a_crash_behind_any_record_leaves_each_message_once_and_the_job_goes_on() {
    let mut s = shop();
    let bodies: Vec<String> = (0..150).map(|number| format!("m{number}")).collect();
    let bodies: Vec<&str> = bodies.iter().map(String::as_str).collect();
    kill(&mut s, &bodies);
    let before = s.records.len();
    begin(&mut s, "j", spec("dlq", RedriveTarget::Origin));
    let all = std::mem::take(&mut s.records);
    assert!(
        all.len() >= before + 3,
        "several slices make several records"
    );
    for cut in before..=all.len() {
        let (left, is_made) = (&all[..cut], cut > before);
        let mut twice = left.to_vec();
        twice.extend_from_slice(&left[before..]);
        for records in [left, &twice] {
            let mut next = Scenario::new();
            next.core = restored(records, &s);
            next.now = s.now;
            next.connect(CONNECTION, SESSION);
            let count = |s: &mut Scenario, queue| s.counts(queue).0;
            let moved = count(&mut next, "work");
            assert_eq!(moved + count(&mut next, "dlq"), 150, "cut at {cut}");
            let Some(job) = next.core.redrive("j") else {
                assert!(!is_made, "a job whose record is durable is known");
                continue;
            };
            assert_eq!(job.counts.moved, moved, "cut at {cut}");
            let rights = RedriveCommand::Rights {
                user: Name::from("alice"),
                rights: Some(rights()),
            };
            next.core
                .apply(next.now, Command::Redrive(rights), &mut next.effects);
            let mut known = journal(&all);
            drive(&mut next, &mut known);
            let job = next.core.redrive("j").unwrap();
            assert_eq!((job.state, job.cause), COMPLETED, "cut at {cut}");
            assert_eq!((job.counts.moved, job.counts.left()), (150, Some(0)));
            assert_eq!(count(&mut next, "work"), 150);
        }
    }
}

#[test]
fn a_restored_job_is_what_it_was_with_a_checkpoint_and_without() {
    let mut s = shop();
    kill(&mut s, &["a", "b", "c"]);
    let capped = RedriveSpec {
        max: Some(2),
        rate_milli: Some(500),
        note: Some(Name::from("fixed")),
        ..spec("dlq", RedriveTarget::Queue(Name::from("work")))
    };
    begin(&mut s, "capped", capped);
    s.pass(10_000);
    assert_eq!(state(&s, "capped").1, Some(RedriveCause::Max));
    let delivery = s.take(1, "work", 1).remove(0);
    s.settle(&delivery, Outcome::Accepted);
    let expected = job(&s, "capped").clone();
    assert_eq!((expected.outcome.accepted, expected.outstanding()), (1, 1));
    let read = restored(&s.records, &s);
    assert_eq!(read.redrive("capped"), Some(&expected));
    let mut snapshot = s.core.begin_snapshot(Lsn(0));
    let mut facts = Vec::new();
    while let Some(slice) = s.core.snapshot_slice(s.now, &mut snapshot) {
        facts.extend(slice.facts);
    }
    let record = Record {
        lsn: Lsn(1),
        wall: s.now.wall,
        facts: facts.into(),
        named: true,
    };
    assert_eq!(restored(&[record], &s).redrive("capped"), Some(&expected));
}

/// `hold` expires what a consumer of `work` rejected, into the parking lot: on its way back the
/// message passes `hold` again, which the cycle rule would forbid.
#[test]
fn the_cycle_rule_does_not_look_behind_a_redrive() {
    let mut s = Scenario::new();
    let to = |queue| {
        [
            ("x-dead-letter-exchange", text("")),
            ("x-dead-letter-routing-key", text(queue)),
        ]
    };
    s.queue("parked", &[]);
    let mut hold = to("parked").to_vec();
    hold.push(("x-message-ttl", number(100)));
    s.queue("hold", &hold);
    let mut work = to("hold").to_vec();
    work.push(("x-message-ttl", number(1_000)));
    s.queue("work", &work);
    s.publish_all("work", &["a"]);
    s.pass(5_000);
    assert_eq!(s.counts("parked").0, 1);
    begin(&mut s, "j", spec("parked", RedriveTarget::First));
    assert_eq!(s.counts("work").0, 1);
    s.pass(5_000);
    assert_eq!(s.counts("parked").0, 1, "it went the same way again");
    let delivery = s.take(1, "parked", 1).remove(0);
    assert_eq!(delivery.message.history().unwrap().deaths(), 4);
}

#[test]
fn a_full_target_makes_it_wait_and_nothing_is_pushed_out() {
    for overflow in ["drop-head", "reject-publish", "reject-publish-dlx"] {
        let mut s = Scenario::new();
        s.queue("dlq", &[]);
        s.queue(
            "work",
            &[
                ("x-max-length", number(2)),
                ("x-overflow", text(overflow)),
                ("x-dead-letter-exchange", text("")),
                ("x-dead-letter-routing-key", text("dlq")),
            ],
        );
        s.publish_all("dlq", &["never died"]);
        for body in ["a", "b", "c"] {
            s.publish_all("work", &[body]);
            let delivery = s.take(1, "work", 1).remove(0);
            s.reject(&delivery);
            s.detach(ConsumerId(1));
        }
        s.publish_all("work", &["live"]);
        begin(&mut s, "j", spec("dlq", RedriveTarget::Origin));
        let waiting = (RedriveState::Waiting, Some(RedriveCause::TargetFull));
        assert_eq!(state(&s, "j"), waiting, "{overflow}");
        assert_eq!((s.counts("work").0, s.counts("dlq").0), (2, 3));
        s.pass(1_000);
        assert_eq!((s.counts("work").0, s.counts("dlq").0), (2, 3));
        // It is woken by the first that leaves, and does not look again and again.
        let all = ["live", "a", "b", "c"];
        assert_eq!(s.bodies("work"), all, "{overflow}");
        assert_eq!(state(&s, "j"), COMPLETED);
        let counts = job(&s, "j").counts;
        assert_eq!((counts.moved, counts.skipped_no_target), (3, 1));
        assert_eq!(s.bodies("dlq"), ["never died"]);
    }
}

/// What `rate_now` tells is what is moved, over the last second or two; 0 while it stands still.
#[test]
fn the_rate_that_is_told_is_the_rate_at_which_messages_are_moved() {
    for rate_milli in [2_000, 50_000, 300_000] {
        let mut s = shop();
        let bodies: Vec<String> = (0..rate_milli / 100).map(|n| n.to_string()).collect();
        kill(
            &mut s,
            &bodies.iter().map(String::as_str).collect::<Vec<_>>(),
        );
        let rated = RedriveSpec {
            rate_milli: Some(rate_milli),
            ..spec("dlq", RedriveTarget::Origin)
        };
        begin(&mut s, "j", rated);
        let told = |s: &Scenario| s.core.redrive_rate(job(s, "j"), s.now.mono);
        for second in 1..=6_u64 {
            let before = job(&s, "j").counts.moved;
            for _ in 0..50 {
                s.pass(20);
            }
            let moved = (job(&s, "j").counts.moved - before) * 1_000;
            let (told, most) = (told(&s), rate_milli / 4 + 1_000);
            assert!(
                moved.abs_diff(rate_milli) <= most,
                "{second}: {moved} are moved"
            );
            assert!(
                told.abs_diff(moved) <= most,
                "{second}: {told} of {moved} are told"
            );
        }
        steer(&mut s, "j", Steering::Pause);
        assert_eq!(told(&s), 0);
    }
}

#[test]
fn messages_are_moved_evenly_at_the_rate_asked_for_also_below_one_a_second() {
    for (rate_milli, ms, moved) in [(10_000, 1_000, 11), (100_000, 1_000, 101), (500, 6_000, 4)] {
        let mut s = shop();
        let bodies = vec!["x"; 150];
        kill(&mut s, &bodies);
        let rated = RedriveSpec {
            rate_milli: Some(rate_milli),
            ..spec("dlq", RedriveTarget::Origin)
        };
        begin(&mut s, "j", rated);
        assert_eq!(job(&s, "j").counts.moved, 1, "the first goes at once");
        s.pass(ms);
        assert_eq!(job(&s, "j").counts.moved, moved, "{rate_milli}");
        s.jump(-3_600_000);
        s.pass(ms);
        let later = job(&s, "j").counts.moved;
        assert_eq!(
            later,
            (2 * moved - 1).min(150),
            "the wall clock is not asked"
        );
    }
}

#[test]
fn it_stops_when_moved_messages_die_again_and_loses_nothing() {
    let mut s = shop();
    kill(&mut s, &["x"; 200]);
    let consumer = s.consumer(5, "work");
    s.credit(consumer, u64::MAX);
    let ramped = RedriveSpec {
        ramp: None,
        ..spec("dlq", RedriveTarget::Origin)
    };
    begin(&mut s, "j", ramped);
    assert_eq!(job(&s, "j").counts.moved, 1, "the target has consumers");
    for _ in 0..100 {
        for delivery in s.taken(consumer) {
            s.reject(&delivery);
        }
        s.pass(10);
    }
    let stopped = (RedriveState::Stopped, Some(RedriveCause::DiedAgain));
    assert_eq!(state(&s, "j"), stopped);
    let (counts, outcome) = (job(&s, "j").counts, job(&s, "j").outcome);
    assert!(
        counts.moved < 16 && outcome.died_again >= 4,
        "{counts:?} {outcome:?}"
    );
    assert_eq!(counts.moved + counts.left().unwrap(), 200);
    let (ready, held, _) = s.counts("work");
    assert_eq!(s.counts("dlq").0 + ready + held, 200);
}

#[test]
fn batches_grow_as_long_as_what_was_moved_is_accepted() {
    let mut s = shop();
    kill(&mut s, &["x"; 100]);
    let consumer = s.consumer(5, "work");
    s.credit(consumer, u64::MAX);
    let ramped = RedriveSpec {
        ramp: Some(true),
        ..spec("dlq", RedriveTarget::Origin)
    };
    begin(&mut s, "j", ramped);
    let mut batches = Vec::new();
    while job(&s, "j").state == RedriveState::Running {
        let taken = s.taken(consumer);
        batches.push(taken.len());
        for delivery in &taken {
            s.settle(delivery, Outcome::Accepted);
        }
    }
    assert_eq!(batches, [1, 2, 4, 8, 16, 32]);
    for delivery in s.taken(consumer) {
        s.settle(&delivery, Outcome::Accepted);
    }
    let outcome = job(&s, "j").outcome;
    assert_eq!((outcome.accepted, outcome.settled()), (100, 100));
    assert_eq!(job(&s, "j").outstanding(), 0);
}

#[test]
fn a_batch_of_which_nothing_is_heard_ends_after_half_a_minute() {
    let mut s = shop();
    kill(&mut s, &["x"; 10]);
    let ramped = RedriveSpec {
        ramp: Some(true),
        ..spec("dlq", RedriveTarget::Origin)
    };
    begin(&mut s, "j", ramped);
    assert_eq!(job(&s, "j").counts.moved, 1);
    s.pass(29_000);
    assert_eq!(job(&s, "j").counts.moved, 1);
    s.pass(2_000);
    assert_eq!(job(&s, "j").counts.moved, 3);
}

#[test]
fn what_became_of_the_moved_adds_up() {
    let mut s = shop();
    s.queue("other", &[]);
    kill(&mut s, &["a", "b", "c", "d", "e", "f"]);
    begin(&mut s, "j", spec("dlq", RedriveTarget::Origin));
    let taken = s.take(1, "work", 2);
    s.settle(&taken[0], Outcome::Accepted);
    s.reject(&taken[1]);
    let sum = |s: &Scenario| {
        let job = job(s, "j");
        let outcome = job.outcome;
        let parts = (
            outcome.accepted,
            outcome.died_again,
            job.outstanding(),
            outcome.gone,
        );
        assert_eq!(parts.0 + parts.1 + parts.2 + parts.3, job.counts.moved);
        parts
    };
    assert_eq!(sum(&s), (1, 1, 4, 0));
    // Another job takes one of them.
    let one = RedriveSpec {
        max: Some(1),
        ..spec("work", RedriveTarget::Queue(Name::from("other")))
    };
    begin(&mut s, "k", one);
    assert_eq!(sum(&s), (1, 1, 3, 1));
    // Who moved it last learns what becomes of it.
    assert_eq!(s.bodies("other"), ["c"]);
    assert_eq!(job(&s, "k").outcome.accepted, 1);
    s.apply(Command::Queue(QueueCommand::Purge {
        connection: Some(CONNECTION),
        name: Name::from("work"),
        with_dead_pending: false,
    }));
    assert_eq!(sum(&s), (1, 1, 0, 4));
    let redriven = s.core.counters().redriven;
    assert_eq!((redriven.moved, redriven.accepted), (7, 2));
    assert_eq!((redriven.died_again, redriven.gone), (1, 4));
    // The one that died again is a dead letter like others.
    assert_eq!(s.counts("dlq").0, 1);
}

#[test]
fn what_a_consumer_holds_is_passed_and_not_touched_when_it_comes_back() {
    let mut s = shop();
    kill(&mut s, &["a", "b", "c"]);
    let held = s.take(7, "dlq", 1).remove(0);
    begin(&mut s, "j", spec("dlq", RedriveTarget::Origin));
    assert_eq!(state(&s, "j"), COMPLETED);
    let counts = job(&s, "j").counts;
    assert_eq!(
        (counts.matched, counts.moved, counts.skipped_held),
        (Some(3), 2, 1)
    );
    s.settle(&held, Outcome::Released);
    s.detach(ConsumerId(7));
    kill(&mut s, &["later"]);
    s.pass(60_000);
    assert_eq!(
        s.counts("dlq").0,
        4,
        "what came back, later, and what died again with it"
    );
}

#[test]
fn all_priorities_are_looked_at_up_to_what_was_there() {
    let mut s = Scenario::new();
    s.queue("dlq", &[("x-max-priority", number(5))]);
    s.queue(
        "work",
        &[
            ("x-dead-letter-exchange", text("")),
            ("x-dead-letter-routing-key", text("dlq")),
        ],
    );
    for priority in [5, 0, 3, 5] {
        s.publish("work", &draft("x").priority(priority));
        let delivery = s.take(1, "work", 1).remove(0);
        s.reject(&delivery);
        s.detach(ConsumerId(1));
    }
    begin(&mut s, "j", spec("dlq", RedriveTarget::Origin));
    assert_eq!(state(&s, "j"), COMPLETED);
    assert_eq!((s.counts("work").0, s.counts("dlq").0), (4, 0));
}

#[test]
fn in_a_fan_out_only_the_queue_that_failed_gets_it_unless_asked_for() {
    let mut s = Scenario::new();
    s.exchange("news", "fanout");
    s.queue("dlq", &[]);
    let to_dlq = [
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("dlq")),
    ];
    for queue in ["one", "two"] {
        s.queue(queue, &to_dlq);
        s.bind("news", queue, "");
    }
    s.publish_to("news", "k", &draft("a"));
    assert_eq!(s.bodies("one"), ["a"]);
    let delivery = s.take(1, "two", 1).remove(0);
    s.reject(&delivery);
    s.detach(ConsumerId(1));
    begin(&mut s, "j", spec("dlq", RedriveTarget::Origin));
    assert_eq!((s.counts("one").0, s.counts("two").0), (0, 1));
    let delivery = s.take(1, "two", 1).remove(0);
    s.reject(&delivery);
    s.detach(ConsumerId(1));
    begin(&mut s, "k", spec("dlq", RedriveTarget::Original));
    assert_eq!((s.counts("one").0, s.counts("two").0), (1, 1));
    let job = job(&s, "k");
    assert_eq!((job.counts.moved, job.outstanding()), (1, 1));
    let targets: Vec<_> = job
        .targets
        .iter()
        .map(|to| (&*to.queue, to.moved))
        .collect();
    assert_eq!(targets, [("one", 1), ("two", 1)]);
}

/// It took the dead letters of the bearer of a token with that name, too, which its user is not shown.
#[test]
fn who_redrives_its_own_dead_letters_leaves_those_of_the_bearer_of_a_token_with_its_name() {
    for (users_by_token, expect) in [(Some(false), (1, 1)), (None, (0, 2))] {
        let mut s = shop();
        for by_token in [false, true] {
            s.publish_to("shop", "order.new", &draft("a"));
            let delivery = s.take(u64::from(by_token) + 1, "work", 1).remove(0);
            let ada = Name::from("alice");
            let evidence = Evidence {
                by_token,
                ..Evidence::of_consumer(&Name::from("c"), "l", Some(&ada), None)
            };
            let evidence = Some(Arc::new(evidence));
            s.settle(&delivery, Outcome::Rejected { evidence });
            s.detach(delivery.consumer);
        }
        let own = Value::Map(vec![(Value::string("user"), Value::string("alice"))]);
        let filter = DeathFilter::of_value(&own).unwrap();
        s.apply(Command::Redrive(RedriveCommand::Start(Box::new(
            NewRedrive {
                id: Name::from("j"),
                by: Name::from("alice"),
                spec: RedriveSpec {
                    filter: Some(Arc::new(filter)),
                    ..spec("dlq", RedriveTarget::Origin)
                },
                matched: None,
                rights: RedriveRights {
                    users_by_token,
                    ..rights()
                },
            },
        ))));
        assert_eq!(state(&s, "j"), COMPLETED);
        assert_eq!((s.counts("dlq").0, s.counts("work").0), expect);
    }
}
