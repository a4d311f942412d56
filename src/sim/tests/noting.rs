//! Notes on groups in the crash matrix: whatever byte a crash cuts off, the notes are those that were
//! confirmed, or later ones. [evidence part 8]

use std::collections::BTreeSet;

use super::crash::{Left, crashes};
use super::waiting::Client;
use crate::base::{Lsn, Name, Seed};
use crate::broker::{Command, Core, CoreOptions, QueueCommand, Record, UpkeepCommand};
use crate::sim::Archive;

const KEYS: [&str; 2] = ["1:9c2e41aa", "none"];

fn note(client: &mut Client, queue: &str, key: &str, text: Option<&str>) {
    client.apply(Command::Queue(QueueCommand::NoteGroup {
        name: Name::from(queue),
        key: Name::from(key),
        note: text.map(|text| (Name::from(text), Name::from("alice"))),
    }));
}

fn seen(client: &mut Client, (present, absent): (&[&str], &[&str])) {
    let names = |keys: &[&str]| keys.iter().map(|key| Name::from(*key)).collect();
    let queue = client.core.queue("dead").unwrap().id;
    client.apply(Command::Upkeep(UpkeepCommand::NotesSeen {
        queue,
        present: names(present),
        absent: names(absent),
    }));
}

/// Notes are written, replaced, seen, removed, and go with their queue.
fn records() -> Vec<(Record, Vec<Lsn>)> {
    let core = Core::new(CoreOptions::new(Name::from("sim"), Seed(1)));
    let mut client = Client::new(core, Archive::default());
    client.declare("dead", &[]);
    client.declare("other", &[]);
    note(&mut client, "dead", KEYS[0], Some("ask Bob"));
    note(&mut client, "other", KEYS[0], Some("see the other"));
    note(&mut client, "dead", KEYS[1], Some("never died, why here?"));
    seen(&mut client, (&KEYS[..1], &KEYS[1..]));
    note(&mut client, "dead", KEYS[0], Some("fixed in 2.14.1"));
    seen(&mut client, (&KEYS[1..], &KEYS[..1]));
    note(&mut client, "dead", KEYS[1], None);
    client.apply(Command::Queue(QueueCommand::Delete {
        connection: None,
        name: Name::from("dead"),
        if_unused: false,
        if_empty: false,
    }));
    client.records
}

#[test]
fn notes_are_those_that_were_confirmed_whatever_byte_a_crash_cuts_off() {
    let records = records();
    let mut found = BTreeSet::new();
    for Left { core, .. } in crashes(&records) {
        // Each state was compared in all that is durable, the notes with it.
        let notes = core.notes();
        found.insert(notes.map(|note| format!("{note:?}")).collect::<Vec<_>>());
    }
    // One after each of the eight steps, and none at all.
    assert_eq!(found.len(), 9, "{found:#?}");
}
