//! Imports in the crash matrix: whatever the moment of the crash, the lines that are in the queue are
//! those that the import says are there, and sent again each line is there once. [evidence part 11]

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use super::crash::{Left, crashes};
use super::waiting::Client;
use crate::base::{Lsn, Name, Position, Seed};
use crate::broker::memo::ImportLine;
use crate::broker::queue::MessageState;
use crate::broker::{Command, Core, CoreOptions, Outcome, QueueCommand, Record};
use crate::message::{KeyRule, Message, Route};
use crate::sim::Archive;

const LINES: u64 = 4;
/// The line whose message a consumer accepts in between.
const ACCEPTED: u8 = 1;

/// A line whose message is not durable: no restart knows it, or says that it is there.
const LIGHT: u64 = LINES + 1;

fn import(client: &mut Client, line: u64) {
    // A message whose body is the number of its line.
    let mut payload = b"\x00\x53\x70\xc0\x02\x01\x41\x00\x53\x75\xa0\x01".to_vec();
    if line == LIGHT {
        payload[6] = 0x42; // `durable` false
    }
    payload.push(u8::try_from(line).unwrap());
    let message = Message::from_transfer(Bytes::from(payload), KeyRule::default()).unwrap();
    client.apply(Command::Queue(QueueCommand::Import {
        name: Name::from("dead"),
        message: Arc::new(message),
        route: Arc::new(Route {
            exchange: Name::from(""),
            keys: Arc::from([Name::from("dead")]),
        }),
        line: Some(ImportLine {
            id: Name::from("move"),
            line,
        }),
    }));
}

/// Four lines are imported, and a light one; the first message is accepted after the second.
fn records() -> Vec<(Record, Vec<Lsn>)> {
    let core = Core::new(CoreOptions::new(Name::from("sim"), Seed(1)));
    let mut client = Client::new(core, Archive::default());
    client.declare("dead", &[]);
    for line in 1..=LIGHT {
        import(&mut client, line);
        if line == 2 {
            client.take_once("dead", &Outcome::Accepted);
        }
    }
    client.records
}

/// The lines whose messages are in the queue, in order of place.
fn present(core: &Core, archive: &Archive) -> Vec<u8> {
    let mut lines = Vec::new();
    let Some(queue) = core.queue("dead") else {
        return lines;
    };
    let mut from = Position(0);
    while let Some(position) = queue.messages.find(MessageState::Ready, from) {
        from = Position(position.0 + 1);
        let (message, _) = archive.message(queue, position).unwrap();
        lines.extend(message.body().last());
    }
    lines
}

#[test]
fn each_line_is_imported_once_whatever_byte_a_crash_cuts_off() {
    let records = records();
    let mut states = BTreeSet::new();
    for Left {
        context,
        core,
        archive,
        ..
    } in crashes(&records)
    {
        let reached = core.imports().map(|mark| mark.line).max().unwrap_or(0);
        let mut lines = present(&core, &archive);
        lines.retain(|line| *line != ACCEPTED);
        let said: Vec<u8> = (2..=u8::try_from(reached).unwrap()).collect();
        assert_eq!(lines, said, "{context}: line {reached}");
        states.insert(reached);
        send_again(core, archive, reached, &context);
    }
    assert_eq!(states.len() as u64, LINES + 1, "{states:?}");
}

/// The whole file is sent again.
fn send_again(core: Core, archive: Archive, reached: u64, context: &str) {
    let mut client = Client::new(core, archive);
    if client.core.queue("dead").is_none() {
        client.declare("dead", &[]);
    }
    for line in 1..=LINES {
        import(&mut client, line);
    }
    for (record, _) in &client.records {
        client.archive.add(record);
    }
    let mut lines = present(&client.core, &client.archive);
    let all = lines.len();
    lines.retain(|line| *line != ACCEPTED);
    let first = all - lines.len();
    assert!(first <= 1 && (first == 1 || reached > 0), "{context}");
    assert_eq!(lines, [2, 3, 4], "{context}");
}
