//! Transactions in the crash matrix: whatever byte a crash cuts off, all of one has happened or
//! nothing of it. [AMQP 4.3]

use std::collections::{BTreeMap, BTreeSet};

use super::crash::{Left, crashes, cut_off};
use super::waiting::{Client, REJECTED, post, text};
use crate::base::plant::{Plant, plant};
use crate::base::{ConnectionId, Lsn, Name, Position, Seed};
use crate::broker::queue::MessageState;
use crate::broker::{Command, Commit, Core, CoreOptions, Outcome, Record, Settle};
use crate::sim::Archive;
use crate::store::sim_disk::Crash;

/// Three messages are taken; in one transaction one of them is accepted, one rejected, one fails, and two
/// are published.
fn records() -> Vec<(Record, Vec<Lsn>)> {
    let core = Core::new(CoreOptions::new(Name::from("sim"), Seed(1)));
    let mut client = Client::new(core, Archive::default());
    client.declare("dlq", &[]);
    client.declare("out", &[]);
    let to_dlq = [
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("dlq")),
    ];
    client.declare("work", &to_dlq);
    for message in ["a", "b", "c"] {
        client.publish("work", message);
    }
    let (consumer, held) = client.hold("work", 3);
    let failed = Outcome::Modified {
        delivery_failed: true,
        undeliverable_here: false,
        annotations: None,
    };
    let outcomes = held.into_iter().zip([Outcome::Accepted, REJECTED, failed]);
    let outcomes = outcomes.map(|(position, outcome)| Settle {
        consumer,
        position,
        outcome,
        confirm: None,
    });
    client.apply(Command::Commit(Commit {
        connection: ConnectionId(1),
        token: 1,
        posts: vec![post("out", "x"), post("out", "y")],
        outcomes: outcomes.collect(),
    }));
    client.records
}

/// Queue, failures and deaths of each message.
type Found = BTreeMap<String, Vec<(String, u32, usize)>>;

fn found(core: &Core, archive: &Archive) -> Found {
    let mut found = Found::new();
    for queue in core.queues() {
        let mut from = Position(0);
        while let Some(position) = queue.messages.find(MessageState::Ready, from) {
            from = Position(position.0 + 1);
            let (message, _) = archive.message(queue, position).unwrap();
            let failures = queue.messages.disk_ref(position).unwrap().failures;
            let deaths = message
                .history()
                .map_or(0, |history| history.entries().len());
            let name = String::from_utf8_lossy(&message.body()[5..]).into_owned();
            let place = (queue.name.to_string(), failures, deaths);
            found.entry(name).or_default().push(place);
        }
    }
    found
}

fn at(queue: &str, failures: u32, deaths: usize) -> Vec<(String, u32, usize)> {
    vec![(queue.to_owned(), failures, deaths)]
}

/// Whether all of the transaction has happened (or nothing of it); the error is what was found.
fn happened(here: &Found) -> Result<bool, String> {
    let before = |name: &str| {
        here.get(name)
            .is_none_or(|found| *found == at("work", 0, 0))
    };
    let nothing = here.keys().all(|name| before(name) && **name < *"x");
    let after = [
        ("b", at("dlq", 0, 1)),
        ("c", at("work", 1, 0)),
        ("x", at("out", 0, 0)),
        ("y", at("out", 0, 0)),
    ];
    let after: Found = after
        .map(|(name, place)| (name.to_owned(), place))
        .into_iter()
        .collect();
    match (*here == after, nothing) {
        (true, false) => Ok(true),
        (false, true) => Ok(false),
        _ => Err(format!("{here:?}")),
    }
}

/// Crashes behind bytes of the journal: what was found, or the first half transaction.
fn crash_everywhere(records: &[(Record, Vec<Lsn>)]) -> Result<BTreeSet<bool>, String> {
    let mut states = BTreeSet::new();
    for Left {
        context,
        core,
        archive,
        ..
    } in crashes(records)
    {
        let state = happened(&found(&core, &archive));
        states.insert(state.map_err(|found| format!("{context}: {found}"))?);
    }
    Ok(states)
}

#[test]
fn all_of_a_transaction_or_nothing_has_happened_whatever_byte_a_crash_cuts_off() {
    let states = crash_everywhere(&records()).unwrap();
    assert_eq!(states, BTreeSet::from([false, true]));
}

#[test]
fn a_transaction_that_is_written_in_parts_is_found() {
    plant(Some(Plant::CommitInParts));
    let records = records();
    plant(None);
    let found = crash_everywhere(&records);
    assert!(found.is_err(), "{found:?}");
}

/// A message is consumed and another one published in a transaction; that one dies at once, as a
/// rule before anything is written.
fn died_at_once() -> Vec<(Record, Vec<Lsn>)> {
    let core = Core::new(CoreOptions::new(Name::from("sim"), Seed(1)));
    let mut client = Client::new(core, Archive::default());
    client.declare("dlq", &[]);
    let to_dlq = [
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("dlq")),
    ];
    client.declare("out", &to_dlq);
    client.declare("work", &[]);
    client.publish("work", "a");
    let (consumer, held) = client.hold("work", 1);
    client.apply(Command::Commit(Commit {
        connection: ConnectionId(1),
        token: 1,
        posts: vec![post("out", "x")],
        outcomes: held
            .into_iter()
            .map(|position| Settle {
                consumer,
                position,
                outcome: Outcome::Accepted,
                confirm: None,
            })
            .collect(),
    }));
    client.take_once("out", &REJECTED);
    client.records
}

#[test]
fn what_dies_before_it_is_written_is_not_taken_out_of_its_transaction_whatever_byte_a_crash_cuts_off()
 {
    let records = died_at_once();
    for seed in 1..=6 {
        let mut was_there = false;
        for (byte, disk, life) in cut_off(seed, &records) {
            let context = format!("seed {seed}, byte {byte}");
            let next = life.check_crash(&disk, Crash::Process, byte, &context);
            let (core, archive) = next.into_core();
            let here = found(&core, &archive);
            // What was published last before the transaction is gone only if that has happened.
            let is_consumed = was_there && !here.contains_key("a");
            was_there |= here.contains_key("a");
            assert!(
                !is_consumed || here.contains_key("x"),
                "{context}: {here:?}"
            );
        }
    }
}
