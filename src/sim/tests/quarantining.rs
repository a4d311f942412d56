//! The quarantine in the crash matrix: whatever the moment of the crash, a dead letter that gets nowhere
//! is where it died, or in the quarantine with its cause, once. [evidence part 4]

use std::collections::{BTreeMap, BTreeSet};

use super::crash::{Left, crashes};
use super::waiting::{Client, REJECTED, text};
use crate::base::{Lsn, Name, Position, Seed};
use crate::broker::arguments::OnUndeliverable;
use crate::broker::names::QUARANTINE;
use crate::broker::queue::MessageState;
use crate::broker::{Core, CoreOptions, Fact, Record, Undeliverable};
use crate::sim::Archive;

const SOURCE: &str = "source";

/// Three messages are published, and two of them rejected: the first one makes the quarantine.
fn records() -> Vec<(Record, Vec<Lsn>)> {
    let undeliverable = Undeliverable {
        choice: OnUndeliverable::Quarantine,
        ..Undeliverable::default()
    };
    let core = Core::new(CoreOptions {
        undeliverable,
        ..CoreOptions::new(Name::from("sim"), Seed(1))
    });
    let mut client = Client::new(core, Archive::default());
    client.declare(SOURCE, &[("x-dead-letter-exchange", text("missing"))]);
    for message in ["a", "b", "c"] {
        client.publish(SOURCE, message);
    }
    client.take_once(SOURCE, &REJECTED);
    client.take_once(SOURCE, &REJECTED);
    client.records
}

/// What a message is, and why it is in the quarantine.
type Found = BTreeMap<Vec<u8>, Vec<(String, Option<&'static str>)>>;

/// Where each message is.
fn found(core: &Core, archive: &Archive) -> Found {
    let mut found = Found::new();
    for queue in core.queues() {
        let mut from = Position(0);
        while let Some(position) = queue.messages.find(MessageState::Ready, from) {
            from = Position(position.0 + 1);
            let (message, _) = archive.message(queue, position).unwrap();
            let why = message.history().and_then(|history| history.quarantined());
            let place = (queue.name.to_string(), why.map(|why| why.cause.as_str()));
            found
                .entry(message.body().to_vec())
                .or_default()
                .push(place);
        }
    }
    found
}

/// Messages that entered with these records.
fn entered(records: &[(Record, Vec<Lsn>)]) -> usize {
    let facts = records.iter().flat_map(|(record, _)| &record.facts);
    let bodies = facts.filter_map(|fact| match fact {
        Fact::Inserted { message, .. } => Some(message.body().to_vec()),
        _ => None,
    });
    bodies.collect::<BTreeSet<_>>().len()
}

#[test]
fn dead_letter_is_in_its_source_or_in_the_quarantine_whatever_byte_a_crash_cuts_off() {
    let records = records();
    let mut states = BTreeSet::new();
    for Left {
        context,
        core,
        archive,
        confirmed,
    } in crashes(&records)
    {
        let found = found(&core, &archive);
        let entered = entered(&records[..confirmed]);
        assert!(found.len() >= entered, "{context}: {found:?}");
        let mut quarantined = 0;
        for places in found.values() {
            let [(queue, why)] = &places[..] else {
                panic!("{context}: one message is there twice: {found:?}");
            };
            let expected = (queue == QUARANTINE).then_some("exchange_missing");
            assert_eq!(*why, expected, "{context}");
            quarantined += usize::from(queue == QUARANTINE);
        }
        states.insert((found.len(), quarantined));
    }
    for state in [(3, 0), (3, 1), (3, 2)] {
        assert!(states.contains(&state), "{state:?} is not in {states:?}");
    }
}
