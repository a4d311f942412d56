//! Facts and what is rebuilt from them.

use super::scenario::{Scenario, draft, number, text};
use crate::base::{Lsn, Millis, Name, Now, QueueId, Seed, Timestamp};
use crate::broker::memo::MemoFact;
use crate::broker::*;
use crate::deaths::Reason;

fn rebuild(s: &Scenario, now: Now, stopped: Timestamp) -> Core {
    let options = CoreOptions::new(Name::from("/"), Seed(3));
    let mut restoring = Restoring::new(options, now, stopped, u64::MAX);
    for record in &s.records {
        restoring.record(record);
    }
    restoring.finish()
}

#[test]
fn only_durable_messages_in_durable_queues_make_facts() {
    for (kind, durable, facts) in [
        ("classic", true, 1),
        ("classic", false, 0),
        ("quorum", true, 1),
        ("quorum", false, 1),
    ] {
        let mut s = Scenario::new();
        s.queue("q", &[("x-queue-type", text(kind))]);
        s.records.clear();
        let mut message = draft("a");
        message.durable = durable;
        s.publish("q", &message);
        assert_eq!(s.records.len(), facts, "{kind} {durable}");
    }
}

/// The simulation of whole brokers had it come back: the settlement made no record and was confirmed at
/// once, while the record that took the message out of the quorum queue was not durable yet.
#[test]
fn settling_a_dead_letter_that_its_queue_does_not_keep_waits_until_it_is_gone_where_it_died() {
    for (kind, settled) in [("classic", false), ("quorum", true)] {
        let mut s = Scenario::new();
        s.queue("dlq", &[]);
        s.queue(
            "q",
            &[
                ("x-queue-type", text(kind)),
                ("x-dead-letter-exchange", text("")),
                ("x-dead-letter-routing-key", text("dlq")),
            ],
        );
        let mut message = draft("a");
        message.durable = false;
        s.publish("q", &message);
        let delivery = s.take(1, "q", 1).remove(0);
        s.reject(&delivery);
        let moved = s.core.last_lsn();
        // What is written later has nothing to do with it.
        s.publish_all("q", &["b"]);
        let delivery = s.take(2, "dlq", 1).remove(0);
        s.apply(Command::Settle(Settle {
            consumer: delivery.consumer,
            position: delivery.position,
            outcome: Outcome::Accepted,
            confirm: Some(1),
        }));
        let confirmed = s.others.iter().find_map(|effect| match effect {
            Effect::Settled { lsn, .. } => Some(*lsn),
            _ => None,
        });
        let expected = if settled { moved } else { Lsn(0) };
        assert_eq!(confirmed, Some(expected), "{kind}");
    }
}

#[test]
fn a_move_is_one_record() {
    let mut s = Scenario::new();
    s.queue("dlq", &[]);
    s.queue(
        "q",
        &[
            ("x-dead-letter-exchange", text("")),
            ("x-dead-letter-routing-key", text("dlq")),
        ],
    );
    s.publish_all("q", &["a"]);
    let delivery = s.take(1, "q", 1).remove(0);
    s.records.clear();
    s.reject(&delivery);
    let facts: Vec<_> = s.records.iter().flat_map(|record| &record.facts).collect();
    assert_eq!(s.records.len(), 1);
    let [
        Fact::Inserted { body, entries, .. },
        Fact::Removed { .. },
        Fact::Died { count, .. },
        Fact::Memo(MemoFact::EventNumbers { .. }), // as it is the first event
    ] = facts[..]
    else {
        panic!("{facts:?}")
    };
    assert_eq!((count.reason, count.dead), (Reason::Rejected, 1));
    assert!(
        matches!(body, Body::At(lsn) if lsn.0 > 0 && *lsn < s.records[0].lsn),
        "the body is named, not written again"
    );
    assert_eq!(entries.len(), 1);
}

/// The journal may leave a message's first record out: then another one names its body.
#[test]
fn a_body_is_let_go_under_its_new_name() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    s.publish_all("q", &["a"]);
    let delivery = s.take(1, "q", 1).remove(0);
    let (queue, from) = (s.info("q").id, s.core.last_lsn());
    let (position, to) = (delivery.position, Lsn(77));
    for from in [Lsn(from.0 + 1), from] {
        let renamed = Renamed {
            queue,
            position,
            from,
            to,
        };
        s.core.rename_bodies(renames(renamed, &[]));
    }
    s.records.clear();
    s.settle(&delivery, Outcome::Accepted);
    let facts = &s.records[0].facts;
    assert!(
        matches!(facts[..], [Fact::Removed { body, .. }] if body == to),
        "{facts:?}"
    );
}

fn renames(renamed: Renamed, kept: &[Lsn]) -> Renames {
    Renames {
        renamed: vec![renamed],
        kept: kept.to_vec(),
    }
}

/// Two dead letters with their envelopes in one record; one died again since, and has its body in a record
/// that the journal leaves out.
fn two_in_one_record() -> (Scenario, [Delivery; 2], Lsn, Renamed) {
    let mut s = Scenario::new();
    s.queue("last", &[]);
    let dead_letters_to = |key| {
        let exchange = ("x-dead-letter-exchange", text(""));
        [exchange, ("x-dead-letter-routing-key", text(key))]
    };
    let mut mid = dead_letters_to("last").to_vec();
    mid.push(("x-max-length", number(1)));
    s.queue("mid", &mid);
    s.queue("first", &dead_letters_to("mid"));
    s.publish_all("mid", &["other"]);
    s.publish_all("first", &["moved"]);
    let from = s.core.last_lsn();
    let delivery = s.take(1, "first", 1).remove(0);
    s.reject(&delivery);
    let record = s.core.last_lsn();
    let delivery = s.take(2, "mid", 1).remove(0);
    s.reject(&delivery);
    let mut letters = s.take(3, "last", 2);
    let (other, moved) = (letters.remove(0), letters.remove(0));
    let renamed = Renamed {
        queue: s.info("last").id,
        position: moved.position,
        from,
        to: record,
    };
    (s, [other, moved], record, renamed)
}

/// The record was released with the other dead letter, and the body was lost. World 51000026 of the
/// simulation.
#[test]
fn a_record_that_got_a_body_is_kept_for_its_message_and_for_those_it_was_kept_for() {
    let (mut s, [other, moved], record, renamed) = two_in_one_record();
    s.core.rename_bodies(renames(renamed, &[]));
    s.settle(&other, Outcome::Accepted);
    assert!(!s.effects.released.contains(&record));
    s.settle(&moved, Outcome::Accepted);
    assert!(s.effects.released.contains(&record));
}

#[test]
fn a_record_that_is_kept_for_the_body_it_got_is_released_with_its_message() {
    let (mut s, [other, moved], record, renamed) = two_in_one_record();
    s.settle(&other, Outcome::Accepted);
    assert!(s.effects.released.contains(&record));
    s.effects.released.clear();
    s.core.rename_bodies(renames(renamed, &[record]));
    s.publish_all("last", &["another"]);
    assert_eq!(s.effects.released, []);
    s.settle(&moved, Outcome::Accepted);
    let released = s.effects.released.iter();
    assert_eq!(released.filter(|name| **name == record).count(), 1);
    // The message may be gone by the time that the core hears of it.
    let (mut s, [other, moved], record, renamed) = two_in_one_record();
    s.settle(&other, Outcome::Accepted);
    s.settle(&moved, Outcome::Accepted);
    s.effects.released.clear();
    s.core.rename_bodies(renames(renamed, &[record]));
    s.publish_all("last", &["another"]);
    assert_eq!(s.effects.released, [record]);
}

#[test]
fn lsns_rise_by_record() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    s.publish_all("q", &["a", "b", "c"]);
    let lsns: Vec<_> = s.records.iter().map(|record| record.lsn.0).collect();
    assert_eq!(lsns, [1, 2, 3, 4]);
}

#[test]
fn time_spent_down_counts_and_a_clock_set_back_does_not() {
    let mut s = Scenario::new();
    s.queue("q", &[("x-message-ttl", number(1_000))]);
    s.publish_all("q", &["a"]);
    s.pass(300);
    let stopped = s.now.wall;
    // down for, then alive for
    for (down_ms, left_ms) in [(0, 700), (500, 200), (-1_000_000, 700)] {
        let now = Now::new(Millis(9_000_000_000), Timestamp(stopped.0 + down_ms));
        let mut core = rebuild(&s, now, stopped);
        let mut effects = Effects::new();
        while core.tick(now, 100, &mut effects) == More::Yes {}
        assert_eq!(
            core.next_deadline(),
            Some(now.mono.plus(left_ms)),
            "down {down_ms}"
        );
    }
}

#[test]
fn a_queue_that_was_deleted_does_not_come_back_and_its_id_is_not_used_again() {
    let mut s = Scenario::new();
    s.queue("q", &[]);
    let old = s.info("q").id;
    let (connection, name) = (None, Name::from("q"));
    s.apply(Command::Queue(QueueCommand::Delete {
        connection,
        name,
        if_unused: false,
        if_empty: false,
    }));
    let mut core = rebuild(&s, s.now, s.now.wall);
    assert!(core.queue("q").is_none());
    let declare = Command::Queue(QueueCommand::Declare {
        connection: None,
        name: Name::from("q"),
        durable: true,
        exclusive: false,
        auto_delete: false,
        arguments: Vec::new(),
    });
    core.apply(s.now, declare, &mut Effects::new());
    assert!(core.queue("q").is_some_and(|queue| queue.id > old));
}

/// A listing of all queues under one hold of the lock would stop everybody for long.
#[test]
fn snapshot_goes_in_slices_and_holds_what_was_there_when_it_began() {
    let mut s = Scenario::new();
    let count = 700;
    for number in 0..count {
        s.queue(&format!("q{number}"), &[]);
        s.bind("amq.topic", &format!("q{number}"), "key");
    }
    s.publish_all("q5", &["a"]);
    let began = s.records.len();
    let mut snapshot = s.core.begin_snapshot(Lsn(0));
    let mut blocks = Vec::new();
    let mut slices = 0;
    while let Some(slice) = s.core.snapshot_slice(s.now, &mut snapshot) {
        let facts = slice.facts;
        assert!(facts.len() <= 520, "{} facts in a slice", facts.len());
        blocks.push(facts);
        slices += 1;
        // The topology changes behind and before what is being copied.
        s.queue(&format!("a{slices}"), &[]);
        s.queue(&format!("z{slices}"), &[]);
        s.bind("amq.topic", &format!("z{slices}"), "key");
    }
    let options = CoreOptions::new(Name::from("/"), Seed(3));
    let mut restoring = Restoring::new(options, s.now, s.now.wall, u64::MAX);
    let records = blocks.into_iter().map(|facts| Record {
        lsn: Lsn(1),
        wall: s.now.wall,
        facts: facts.into(),
        named: true,
    });
    for record in records.chain(s.records.iter().skip(began).cloned()) {
        restoring.record(&record);
    }
    let core = restoring.finish();
    let names = |core: &Core| -> Vec<(QueueId, Name)> {
        let queues = core.queues().map(|queue| (queue.id, queue.name.clone()));
        queues.collect()
    };
    assert_eq!(names(&core), names(&s.core));
    let bindings = |core: &Core| core.router().bindings(None, None, None).len();
    assert_eq!(bindings(&core), bindings(&s.core));
    assert!(slices > 9, "{slices} slices");
}

#[test]
fn messages_of_a_queue_whose_declaration_is_lost_are_in_a_new_one() {
    let mut s = Scenario::new();
    s.queue("first", &[]);
    s.queue("lost", &[]);
    s.publish_all("first", &["a"]);
    s.publish_all("lost", &["b", "c", "d"]);
    s.queue("last", &[]);
    let taken = s.take(1, "lost", 1).remove(0);
    s.reject(&taken);
    let is_declaration = |fact: &Fact| matches!(fact, Fact::Topology(TopologyFact::QueueDeclared { name, .. }) if &**name == "lost");
    let mut restoring = Restoring::new(
        CoreOptions::new(Name::from("/"), Seed(3)),
        s.now,
        s.now.wall,
        0,
    );
    for mut record in s.records.clone() {
        record.facts.retain(|fact| !is_declaration(fact));
        restoring.record(&record);
    }
    let orphans: Vec<_> = restoring.orphans().collect();
    assert_eq!(orphans, [(QueueId(2), &Name::from("recovered-queue-2"), 2)]);
    let core = restoring.finish();
    let queues: Vec<_> = core
        .queues_after(None, 10)
        .into_iter()
        .map(|queue| (queue.name.to_string(), queue.messages_ready))
        .collect();
    let expected = [("first", 1), ("last", 0), ("recovered-queue-2", 2)];
    assert_eq!(
        queues,
        expected.map(|(name, ready)| (name.to_owned(), ready))
    );
}

/// Places rise as a checkpoint is read: nothing may be copied from behind what came into the last
/// block while the checkpoint was made.
#[test]
fn snapshot_of_a_queue_that_grows_ends_and_loses_nothing_of_the_block_that_was_its_last() {
    let options = || CoreOptions {
        block_shift: 2,
        ..CoreOptions::new(Name::from("/"), Seed(3))
    };
    let mut s = Scenario::with(options());
    s.queue("q", &[]);
    s.publish_all("q", &["a"; 30]);
    let mut pieces: Vec<Record> = Vec::new();
    for round in 0..5 {
        let began = s.records.len();
        let mut restoring = Restoring::new(options(), s.now, s.now.wall, u64::MAX);
        let mut snapshot = s.core.begin_snapshot(Lsn(0));
        let mut slices = 0;
        while let Some(slice) = s.core.snapshot_slice(s.now, &mut snapshot) {
            for kept in slice.kept {
                let piece = pieces.iter().find(|piece| piece.lsn == kept);
                restoring.checkpoint(piece.expect("a copy"));
            }
            let lsn = Lsn(1_000_000 + pieces.len() as u64);
            if let Some(block) = slice.block {
                s.core.note_copied(block, lsn);
            }
            pieces.push(Record {
                lsn,
                wall: s.now.wall,
                facts: slice.facts.into(),
                named: true,
            });
            restoring.checkpoint(&pieces[pieces.len() - 1]);
            // More than a slice takes.
            s.publish_all("q", &["b"; 5]);
            slices += 1;
            assert!(slices < 200, "it goes on for ever");
        }
        for record in s.records.iter().skip(began) {
            restoring.record(record);
        }
        let ready = |core: &Core| core.queue("q").map(|queue| queue.messages.ready());
        assert_eq!(ready(restoring.core()), ready(&s.core), "round {round}");
    }
}

/// The queue `q` after a start, and what is ready in it once it was served.
fn ready_after_start(s: &Scenario) -> Option<u64> {
    let mut core = rebuild(s, s.now, s.now.wall);
    let mut effects = Effects::new();
    while core.has_work() {
        core.tick(s.now, 100, &mut effects);
    }
    core.queue("q").map(|queue| queue.messages.ready())
}

#[test]
fn a_start_holds_a_queue_to_its_limit_where_the_drop_was_not_written() {
    let mut s = Scenario::new();
    s.queue("q", &[("x-max-length", number(2))]);
    s.publish_all("q", &["a", "b", "c"]);
    for record in &mut s.records {
        record
            .facts
            .retain(|fact| !matches!(fact, Fact::Removed { .. }));
    }
    assert_eq!(ready_after_start(&s), Some(2));
}

/// The third message costs the first its place, the fourth two more: one dead letter waits already.
#[test]
fn a_start_drops_what_is_too_much_and_not_once_more_what_dead_letters_cost_that_wait() {
    let limit = [("max-length", number(2))];
    for (by_policy, written, ready) in [
        (false, true, 1),
        (true, true, 1),
        (false, false, 2),
        (true, false, 2),
    ] {
        let mut s = Scenario::new();
        let to_nowhere = ("x-dead-letter-exchange", text("nowhere"));
        let waiting = ("x-dead-letter-strategy", text("at-least-once"));
        let argument = ("x-max-length", number(2));
        if by_policy {
            s.queue("q", &[to_nowhere, waiting]);
            s.policy("p", "^q$", &limit);
        } else {
            s.queue("q", &[to_nowhere, waiting, argument]);
        }
        s.publish_all("q", &["a", "b", "c"]);
        let before = s.records.len();
        s.publish_all("q", &["d"]);
        let counts = s.counts("q");
        assert_eq!(counts, (1, 0, 3), "before the start");
        for record in s.records.iter_mut().skip(before).filter(|_| !written) {
            record
                .facts
                .retain(|fact| matches!(fact, Fact::Inserted { .. }));
        }
        assert_eq!(ready_after_start(&s), Some(ready), "{by_policy} {written}");
    }
}
