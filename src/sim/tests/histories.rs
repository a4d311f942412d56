//! Long histories in the journal: what a message writes that dies again and again, and a crash in the
//! record of a death that folds an entry. [dead-lettering part 3]

use std::collections::BTreeSet;
use std::sync::Arc;

use super::crash::Life;
use super::waiting::{Client, NOW, REJECTED, text};
use crate::base::limits::HISTORY_ENTRIES_MAX;
use crate::base::{Lsn, Name, Position, Seed, Timestamp};
use crate::broker::queue::MessageState;
use crate::broker::{Core, CoreOptions, Fact, Record, Restoring};
use crate::deaths::{Death, Folded, History, Reason};
use crate::record::Stored;
use crate::sim::{Archive, durable_state};
use crate::store::Payload;
use crate::store::sim_disk::{Crash, Faults, SimDisk};

fn options() -> CoreOptions {
    CoreOptions::new(Name::from("sim"), Seed(1))
}

fn client() -> Client {
    Client::new(Core::new(options()), Archive::default())
}

/// Queues that dead-letter to one another, each to the next one, the last one to the first.
fn ring(client: &mut Client, queues: &[String]) {
    let next = queues.iter().cycle().skip(1);
    for (queue, next) in queues.iter().zip(next) {
        let to_next = [
            ("x-dead-letter-exchange", text("")),
            ("x-dead-letter-routing-key", text(next)),
        ];
        client.declare(queue, &to_next);
    }
}

fn queues(count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("queue-{number:03}"))
        .collect()
}

/// Bytes of the records of so many deaths, one message in a ring of queues.
fn bytes_of_deaths(deaths: usize, ring_of: usize) -> usize {
    let mut client = client();
    let queues = queues(ring_of);
    ring(&mut client, &queues);
    client.publish(&queues[0], "m");
    client.records.clear();
    for queue in queues.iter().cycle().take(deaths) {
        client.take(queue, 1, &REJECTED);
    }
    let records = client.records.into_iter();
    let sizes = records.map(|(record, _)| {
        let mut bytes = Vec::new();
        Stored::new(Name::from("sim"), record).encode(&mut bytes);
        bytes.len()
    });
    sizes.sum()
}

/// A message through 3,000 queues wrote 169 MB, since the history that each death writes grew with it.
#[test]
fn what_a_message_writes_to_the_journal_grows_with_its_deaths_and_not_with_their_square() {
    let once = bytes_of_deaths(300, 300);
    let ten_times = bytes_of_deaths(3_000, 300);
    println!("journal: 300 deaths in 300 queues {once} bytes, 3,000 deaths {ten_times} bytes");
    assert!(once < 300 * 8 * 1024, "{once} bytes");
    assert!(ten_times < 3_000 * 8 * 1024, "{ten_times} bytes");
}

/// All deaths that the history of the only message tells, and the queue it is in.
fn only_message(core: &Core, archive: &Archive) -> Option<(Name, u64)> {
    let mut found = None;
    for queue in core.queues() {
        let Some(position) = queue.messages.find(MessageState::Ready, Position(0)) else {
            continue;
        };
        assert!(found.is_none(), "it is in two queues");
        let (message, _) = archive.message(queue, position).unwrap();
        let history = message.history().unwrap();
        assert!(history.entries().len() <= HISTORY_ENTRIES_MAX);
        let kept: u64 = history.entries().iter().map(|entry| entry.count).sum();
        let folded = history.folded().map_or(0, Folded::deaths);
        found = Some((queue.name.clone(), kept + folded));
    }
    found
}

/// A message with as many entries as there may be dies twice more, in new queues: each time one is
/// folded. All records, and how many of them were there before.
fn two_folds() -> (Vec<(Record, Vec<Lsn>)>, usize) {
    let mut client = client();
    ring(&mut client, &["a", "b", "c"].map(str::to_owned));
    client.publish("a", "m");
    let mut before = client.records;
    let mut history = None;
    for (number, queue) in (0..).zip(queues(HISTORY_ENTRIES_MAX)) {
        let death = Death {
            queue: Name::from(queue),
            reason: Reason::Expired,
            time: Timestamp(number),
            exchange: Name::default(),
            routing_keys: Arc::from([Name::from("k")]),
            ttl: None,
            evidence: None,
        };
        history = Some(History::record(history.as_ref(), &death).unwrap());
    }
    let history = Arc::new(history.unwrap());
    let mut core = Restoring::new(options(), NOW, NOW.wall, u64::MAX);
    let mut archive = Archive::default();
    for (record, _) in &mut before {
        for fact in &mut record.facts {
            if let Fact::Inserted { message, .. } = fact {
                *message = Arc::new(message.died(Arc::clone(&history), 0));
            }
        }
        core.record(record);
        archive.add(record);
    }
    let known = before.len();
    let mut client = Client::new(core.finish(), archive);
    client.take("a", 1, &REJECTED);
    client.take("b", 1, &REJECTED);
    before.append(&mut client.records);
    (before, known)
}

#[test]
fn death_that_folds_an_entry_is_one_record_and_twice_the_same_as_once() {
    let (records, known) = two_folds();
    let deaths: Vec<_> = records.iter().skip(known).collect();
    assert_eq!(deaths.len(), 2, "one record for each death");
    let restored = |times: usize| {
        let mut core = Restoring::new(options(), NOW, NOW.wall, u64::MAX);
        let mut archive = Archive::default();
        for (record, _) in &records {
            archive.add(record);
            for _ in 0..times {
                core.record(record);
            }
        }
        let core = core.finish();
        let (queue, deaths) = only_message(&core, &archive).unwrap();
        assert_eq!((queue.as_str(), deaths), ("c", 66));
        durable_state(&core, &archive)
    };
    assert_eq!(restored(1).differences(&restored(2)), Vec::<String>::new());
}

/// The record of a death that folds is cut off by a crash: the message is where it was, with all that
/// was told of it, or where it went, with one death more.
#[test]
fn crash_in_the_record_of_a_death_that_folds_leaves_the_history_before_or_behind_it() {
    let (records, _) = two_folds();
    let whole = SimDisk::default();
    let mut life = Life::begin(&whole, 1).unwrap();
    life.live(&records).unwrap();
    let mut seen = BTreeSet::new();
    for byte in (1..=whole.bytes_written()).step_by(23) {
        let disk = SimDisk::default();
        disk.set_faults(Faults {
            off_after_bytes: Some(byte),
            ..Faults::default()
        });
        let Ok(mut life) = Life::begin(&disk, 1) else {
            continue;
        };
        let _ = life.live(&records);
        for crash in [Crash::Process, Crash::Power] {
            let context = format!("byte {byte}, {crash:?}");
            let (core, archive) = life.check_crash(&disk, crash, byte, &context).into_core();
            seen.extend(only_message(&core, &archive));
        }
    }
    let expect = [("a", 64), ("b", 65), ("c", 66)];
    let expect = expect.map(|(queue, deaths)| (Name::from(queue), deaths));
    assert_eq!(seen, expect.into(), "no state but these, and each of them");
}
