//! What is left out, and what has to stay.

use std::sync::Arc;

use bytes::Bytes;

use super::*;
use crate::base::Timestamp;
use crate::broker::death_counts::{DeathCount, DeathOutcome};
use crate::broker::memo::ImportMark;
use crate::broker::publisher_link::KeptDelivery;
use crate::deaths::{Reason, Redrive, Redrives};
use crate::message::{KeyRule, Message, Route};
use crate::store::sim_disk::{Faults, SimDisk};
use crate::store::{self, Journal, Restored};

const Q: QueueId = QueueId(1);
const OTHER: QueueId = QueueId(2);
const DEAD: QueueId = QueueId(3);

fn inserted(queues: &[QueueId], body: Body) -> Fact {
    let entry = |queue: &QueueId| Entry {
        queue: *queue,
        position: Position(7),
        arrived: Timestamp(1),
        ttl_ms: None,
    };
    let bytes = Bytes::from_static(b"\x00\x53\x77\xa1\x03abc");
    Fact::Inserted {
        message: Arc::new(Message::from_transfer(bytes, KeyRule::Specification).unwrap()),
        route: Arc::new(Route {
            exchange: Name::default(),
            keys: Arc::from([Name::from("k")]),
        }),
        body,
        entries: queues.iter().map(entry).collect(),
    }
}

/// The same message as a redrive puts it there.
fn redriven(inserted: Fact) -> Fact {
    let Fact::Inserted {
        message,
        route,
        body,
        entries,
    } = inserted
    else {
        unreachable!("it is inserted");
    };
    let redrive = Redrive {
        number: 0,
        job_number: 1,
        job: Name::from("redrive-1"),
        by: Name::from("alice"),
        from: Name::from("q"),
        to: Name::from("dead"),
        time: Timestamp(1),
        deaths: 0,
    };
    let redrives = Arc::new(Redrives::after(None, redrive));
    Fact::Inserted {
        message: Arc::new(message.redriven(None, redrives)),
        route,
        body,
        entries,
    }
}

/// The same message as it is told anew in its queue.
fn changed(queue: QueueId, body: u64) -> Fact {
    let Fact::Inserted { message, route, .. } = inserted(&[queue], Body::Named) else {
        unreachable!("it is inserted");
    };
    Fact::Changed {
        queue,
        position: Position(7),
        message,
        route,
        body: Body::At(Lsn(body)),
    }
}

fn removed(queue: QueueId, body: u64) -> Fact {
    Fact::Removed {
        queue,
        position: Position(7),
        body: Lsn(body),
    }
}

/// Facts in few words, as they are read back.
fn words(record: &Record) -> Vec<String> {
    let word = |fact: &Fact| match fact {
        Fact::Inserted { body, entries, .. } => {
            let queues: Vec<u64> = entries.iter().map(|entry| entry.queue.0).collect();
            format!("in {queues:?} {body:?}")
        }
        Fact::Removed { queue, .. } => format!("out {}", queue.0),
        Fact::Changed { queue, body, .. } => format!("changed {} {body:?}", queue.0),
        Fact::PublisherLink(_) => "accepted".to_owned(),
        Fact::Memo(_) => "imported".to_owned(),
        other => format!("{other:?}"),
    };
    record.facts.iter().map(word).collect()
}

/// Appends records in one batch under the LSNs 2, 3, ..., writes them, and reads back what was
/// written and which names changed.
fn check(
    records: Vec<Vec<Fact>>,
    released: &[u64],
    expect: &[&[&str]],
    names: &[(QueueId, u64, u64)],
) {
    let disk = SimDisk::default();
    let options = store::StoreOptions::default();
    let opened = store::open(disk.clone(), options.clone(), 1, |_| ()).unwrap();
    let (journal, mut writer) = opened.start();
    let last = Lsn(records.len() as u64 + 1);
    let records = (2..).zip(records).map(|(lsn, facts)| Record {
        lsn: Lsn(lsn),
        wall: Timestamp(1),
        facts: facts.into(),
        named: true,
    });
    let (renames, wake) = journal.fill_with(journal.reserve(), |appending| {
        let released = released.iter().map(|body| Lsn(*body));
        append(appending, &Name::from("v"), records, released, last)
    });
    assert_ne!(wake, store::Wake::No, "somebody waits for the confirmation");
    writer.write(Timestamp(1)).unwrap();
    writer.sync().unwrap();
    assert!(journal.durable_lsn() >= last, "all of it is confirmed");
    let mut found = Vec::new();
    store::open::<Stored, _>(disk, options, 1, |restored| {
        if let Restored::Facts { lsn, payload } = restored {
            found.push(words(&crate::record::decode(lsn, payload).unwrap().1));
        }
    })
    .unwrap();
    assert_eq!(found, expect);
    let renamed: Vec<_> = renames
        .renamed
        .iter()
        .map(|name| (name.queue, name.from.0, name.to.0))
        .collect();
    assert_eq!(renamed, names);
}

/// What is told of a message that waits goes with it: its record is not written.
#[test]
fn message_that_waits_and_is_removed_before_it_is_written_is_left_out() {
    let delayed = |queue: QueueId| Fact::Delayed {
        queue,
        position: Position(7),
        until: Timestamp(9),
        left_ms: Some(8),
    };
    check(
        vec![
            vec![inserted(&[Q], Body::Named), delayed(Q)],
            vec![removed(Q, 2)],
        ],
        &[2],
        &[],
        &[],
    );
    check(
        vec![
            vec![
                inserted(&[Q, OTHER], Body::Named),
                delayed(Q),
                delayed(OTHER),
            ],
            vec![removed(Q, 2)],
        ],
        &[],
        &[&[
            "in [2] Named",
            "Delayed { queue: QueueId(2), position: Position(7), until: Timestamp(9), left_ms: Some(8) }",
        ]],
        &[],
    );
}

#[test]
fn a_message_accepted_before_it_was_written_leaves_no_trace() {
    let records = vec![vec![inserted(&[Q], Body::Named)], vec![removed(Q, 2)]];
    check(records, &[2], &[], &[]);
}

#[test]
fn a_message_taken_as_it_arrives_leaves_no_trace() {
    let record = vec![inserted(&[Q], Body::Named), removed(Q, 2)];
    check(vec![record], &[2], &[], &[]);
}

#[test]
fn a_copy_in_another_queue_stays() {
    let records = vec![
        vec![inserted(&[Q, OTHER], Body::Named)],
        vec![removed(Q, 2)],
    ];
    check(records, &[], &[&["in [2] Named"]], &[]);
}

/// A redrive learns of the first copy. Without that one a start took the next for it: more messages of the
/// redrive were in a queue than could be. World 48005196 of the simulation.
#[test]
fn the_copy_of_which_a_redrive_learns_stays_in_front_of_the_others() {
    let records = |first| {
        let both = redriven(inserted(&[Q, OTHER], Body::Named));
        vec![vec![both], vec![removed(first, 2)]]
    };
    check(records(Q), &[], &[&["in [1, 2] Named"], &["out 1"]], &[]);
    check(records(OTHER), &[], &[&["in [1] Named"]], &[]);
    let mut both = records(OTHER);
    both.push(vec![removed(Q, 2)]);
    check(both, &[2], &[], &[]);
}

#[test]
fn a_death_takes_over_the_body_of_an_unwritten_message() {
    let records = vec![
        vec![inserted(&[Q], Body::Named)],
        vec![inserted(&[DEAD], Body::At(Lsn(2))), removed(Q, 2)],
    ];
    check(records, &[], &[&["in [3] Named"]], &[(DEAD, 2, 3)]);
}

/// A dead letter that overflowed its queue in the record of its death, and waited there for a target,
/// referred to the body by the record that the journal left out: after a crash it was lost.
#[test]
fn a_dead_letter_that_waits_at_once_or_comes_back_refers_to_the_body_where_it_is() {
    let records = vec![
        vec![inserted(&[Q], Body::Named)],
        vec![
            inserted(&[DEAD], Body::At(Lsn(2))),
            removed(Q, 2),
            changed(DEAD, 2),
        ],
        vec![changed(DEAD, 2)],
    ];
    let expect: &[&[&str]] = &[
        &["in [3] Named", "changed 3 At(Lsn(3))"],
        &["changed 3 At(Lsn(3))"],
    ];
    let renamed = (DEAD, 2, 3);
    check(records, &[], expect, &[renamed, renamed, renamed]);
}

#[test]
fn a_dead_letter_accepted_before_its_life_was_written_leaves_no_trace() {
    let records = vec![
        vec![inserted(&[Q], Body::Named)],
        vec![inserted(&[DEAD], Body::At(Lsn(2))), removed(Q, 2)],
        // In the same batch the core does not know the new name yet.
        vec![removed(DEAD, 2)],
    ];
    check(records, &[2], &[], &[(DEAD, 2, 3)]);
}

#[test]
fn a_body_that_others_name_is_written() {
    // The letter was copied to one target and waits for another.
    let records = vec![
        vec![inserted(&[Q], Body::Named)],
        vec![inserted(&[DEAD], Body::At(Lsn(2)))],
        vec![removed(Q, 2)],
    ];
    let expect: &[&[&str]] = &[&["in [1] Named"], &["in [3] At(Lsn(2))"], &["out 1"]];
    check(records, &[], expect, &[]);
}

#[test]
fn removals_that_follow_one_another_are_one_record() {
    let records = vec![
        vec![removed(Q, 1)],
        vec![removed(OTHER, 1), removed(DEAD, 1)],
        vec![inserted(&[Q], Body::Named)],
        vec![removed(Q, 1)],
    ];
    let expect: &[&[&str]] = &[&["out 1", "out 2", "out 3"], &["in [1] Named"], &["out 1"]];
    check(records, &[], expect, &[]);
}

/// The record had the LSN of its last removal, so that those before it were confirmed while it waited for
/// room: what a client had accepted came again after a power cut. World 46001217 of the simulation.
#[test]
fn no_removal_is_confirmed_before_the_record_that_has_it() {
    let disk = SimDisk::default();
    let options = store::StoreOptions {
        segment_bytes: 4096,
        reserved_segments: 0,
        ..store::StoreOptions::default()
    };
    let (journal, mut writer) = store::open(disk.clone(), options, 1, |_| ())
        .unwrap()
        .start();
    disk.set_faults(Faults {
        capacity_bytes: Some(4096),
        ..Faults::default()
    });
    let reservation = journal.reserve();
    let first = reservation.first();
    let records = [Q, OTHER, DEAD].into_iter().zip(first.0..);
    let records = records.map(|(queue, lsn)| Record {
        lsn: Lsn(lsn),
        wall: Timestamp(1),
        facts: vec![removed(queue, 1)].into(),
        named: false,
    });
    let last = Lsn(first.0 + 2);
    journal.fill_with(reservation, |appending| {
        append(appending, &Name::from("v"), records, [].into_iter(), last)
    });
    assert!(writer.write(Timestamp(1)).unwrap().stalled);
    assert!(journal.durable_lsn() < first);
    disk.set_faults(Faults::default());
    writer.retry_room();
    assert!(!writer.write(Timestamp(1)).unwrap().stalled);
    writer.sync().unwrap();
    assert!(journal.durable_lsn() >= last);
    let after = journal.reserve();
    assert!(after.first() > last, "an LSN is used twice");
}

fn died(queue: QueueId, dead: u64) -> Fact {
    let count = DeathCount {
        reason: Reason::Rejected,
        dead,
        outcome: Some((DeathOutcome::DeadLettered, dead)),
        condition: None,
    };
    Fact::Died { queue, count }
}

/// The records of a message that dies in a queue and is accepted as a dead letter, from this LSN on.
fn life(queue: QueueId, first: u64, dead: u64) -> [Vec<Fact>; 3] {
    let body = Body::At(Lsn(first));
    [
        vec![inserted(&[queue], Body::Named)],
        vec![
            inserted(&[DEAD], body),
            removed(queue, first),
            died(queue, dead),
        ],
        vec![removed(DEAD, first)],
    ]
}

/// Each of them left a record with its number: a tenth of what a dead letter costs the journal.
#[test]
fn deaths_that_are_over_before_they_were_written_leave_one_number() {
    let number = |queue, dead| format!("{:?}", died(queue, dead));
    let lives = |other: QueueId| [life(Q, 2, 1), life(other, 5, 2), life(Q, 8, 3)].concat();
    let names = [(DEAD, 2, 3), (DEAD, 5, 6), (DEAD, 8, 9)];
    let last = number(Q, 3);
    check(lives(Q), &[2, 5, 8], &[&[&last]], &names);
    // Numbers of another queue tell nothing of this one's.
    let [first, other] = [number(Q, 1), number(OTHER, 2)];
    let expect: &[&[&str]] = &[&[&first], &[&other], &[&last]];
    check(lives(OTHER), &[2, 5, 8], expect, &names);
    // A record between them may be all that is written before a crash.
    let mut between = lives(Q);
    between.insert(3, vec![inserted(&[OTHER], Body::Named)]);
    between.truncate(4);
    between.extend(life(Q, 6, 2));
    let second = number(Q, 2);
    let expect: &[&[&str]] = &[&[&first], &["in [2] Named"], &[&second]];
    check(between, &[2, 6], expect, &[(DEAD, 2, 3), (DEAD, 6, 7)]);
}

/// They waited for the journal's thread one by one, as many as there were deaths.
#[test]
fn of_deaths_that_are_over_only_one_number_waits() {
    let opened = store::open(
        SimDisk::default(),
        store::StoreOptions::default(),
        1,
        |_| (),
    );
    let (journal, _writer) = opened.unwrap().start();
    let lives = [life(Q, 2, 1), life(Q, 3, 2), life(Q, 4, 3)];
    let step = |step: usize| lives.iter().map(move |life| life[step].clone());
    let records = (2..).zip((0..3).flat_map(step)).map(|(lsn, facts)| Record {
        lsn: Lsn(lsn),
        wall: Timestamp(1),
        facts: facts.into(),
        named: true,
    });
    journal.fill_with(journal.reserve(), |appending| {
        append(
            appending,
            &Name::from("v"),
            records,
            [].into_iter(),
            Lsn(10),
        )
    });
    assert_eq!(journal.waiting().records, 1);
    let one_number = Record {
        lsn: Lsn(2),
        wall: Timestamp(1),
        facts: vec![died(Q, 3)].into(),
        named: false,
    };
    let one_number = Stored::new(Name::from("v"), one_number);
    assert_eq!(
        journal.waiting().bytes,
        store::Payload::size_hint(&one_number)
    );
}

#[test]
fn what_overflows_goes_without_what_made_room_for() {
    let records = vec![
        vec![inserted(&[Q], Body::Named)],
        vec![inserted(&[OTHER], Body::Named), removed(Q, 2)],
    ];
    check(records, &[2], &[&["in [2] Named"]], &[]);
}

/// A record in which a dead letter had its envelope for a moment was let go under the name that its body
/// has now: that of a record with the envelope of another message, which was damaged once its segment was
/// rewritten. The simulation of whole brokers found it after a power cut (world 125167,1582,1,254).
#[test]
fn a_record_that_is_let_go_takes_no_other_with_it_that_has_its_body_by_now() {
    let live_bytes = |released: &[u64]| {
        let options = store::StoreOptions::default();
        let opened = store::open(SimDisk::default(), options, 1, |_| ()).unwrap();
        let (journal, mut writer) = opened.start();
        let records = vec![
            vec![inserted(&[Q], Body::Named)],
            vec![inserted(&[OTHER], Body::At(Lsn(2))), removed(Q, 2)],
            vec![
                inserted(&[DEAD], Body::At(Lsn(2))),
                removed(OTHER, 2),
                inserted(&[Q], Body::Carried),
            ],
        ];
        let last = Lsn(4);
        let records = (2..).zip(records).map(|(lsn, facts)| Record {
            lsn: Lsn(lsn),
            wall: Timestamp(1),
            facts: facts.into(),
            named: true,
        });
        journal.fill_with(journal.reserve(), |appending| {
            let released = released.iter().map(|name| Lsn(*name));
            let renames = append(appending, &Name::from("v"), records, released, last);
            assert_eq!(renames.renamed.last().map(|name| name.to), Some(last));
        });
        writer.write(Timestamp(1)).unwrap();
        writer.sync().unwrap();
        writer.maintain(0).unwrap();
        journal.stats().live_bytes
    };
    let kept = live_bytes(&[]);
    assert!(kept > 0);
    assert_eq!(live_bytes(&[3]), kept);
}

/// Else a start would tell that it is somewhere, and it would not be, if only the first record is written.
#[test]
fn what_says_that_a_message_is_somewhere_goes_with_its_body() {
    let accepted = || decided(&[]);
    let entered = || vec![inserted(&[Q], Body::Named), accepted()];
    let death = |body| vec![removed(Q, 2), inserted(&[DEAD], body)];
    let here = ["in [3] Named", "accepted"];
    check(
        vec![entered(), death(Body::At(Lsn(2)))],
        &[],
        &[&here],
        &[(DEAD, 2, 3)],
    );
    let here = ["in [3] Carried", "accepted"];
    check(vec![entered(), death(Body::Carried)], &[], &[&here], &[]);
    // A message that was settled is nowhere any more: that it was accepted stays true.
    let records = vec![entered(), vec![removed(Q, 2)]];
    check(records, &[], &[&["accepted"]], &[]);
    // One of two copies that moves stays in the record, where it is true that both are somewhere.
    let both = vec![inserted(&[Q, OTHER], Body::Named), accepted()];
    let records = vec![both, vec![removed(Q, 2), inserted(&[DEAD], Body::Carried)]];
    let first = ["in [1, 2] Named", "accepted"];
    check(records, &[], &[&first, &["out 1", "in [3] Carried"]], &[]);
}

fn decided(settled: &[&[u8]]) -> Fact {
    let accepted = KeptDelivery {
        link: 1,
        delivery: Some((Box::from(*b"a"), None)),
        settled: settled.iter().map(|tag| Box::from(*tag)).collect(),
    };
    Fact::PublisherLink(PublisherLinkFact::Decided(Box::new(accepted)))
}

/// The later record may not become durable where the earlier one does. A message was lost that had been confirmed: its
/// removal from one queue was written, and its insertion into the next had moved. A line of an import was lost, since the
/// mark of a later one said that it was there. A tag that was used again was forgotten.
#[test]
fn a_message_stays_in_a_record_that_says_what_is_true_only_with_it() {
    let imported = Fact::Memo(MemoFact::Imported(ImportMark {
        id: Name::from("i"),
        queue: OTHER,
        line: 1,
        at: Timestamp(1),
    }));
    for (fact, word) in [
        (removed(Q, 0), "out 1"),
        (imported, "imported"),
        (decided(&[b"t"]), "accepted"),
    ] {
        let dead = |body| vec![inserted(&[DEAD], body), removed(OTHER, 2)];
        let records = |body| {
            let entered = vec![inserted(&[OTHER], Body::Named), fact.clone()];
            vec![entered, dead(body)]
        };
        let first = ["in [2] Named", word];
        let at = ["in [3] At(Lsn(2))", "out 2"];
        check(records(Body::At(Lsn(2))), &[], &[&first, &at], &[]);
        let carried = ["in [3] Carried", "out 2"];
        check(records(Body::Carried), &[], &[&first, &carried], &[]);
    }
}
