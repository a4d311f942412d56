//! Redrives in the crash matrix: whatever the moment of the crash, a dead letter is where it lay, or
//! where it was moved to, once; the jobs say so, and go on. [evidence part 6]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::crash::{Left, crashes};
use super::waiting::{Client, REJECTED, text};
use crate::access::Permissions;
use crate::base::{Lsn, Name, Position, Seed};
use crate::broker::queue::MessageState;
use crate::broker::redrive::{
    NewRedrive, RedriveCommand, RedriveRights, RedriveSpec, RedriveState, RedriveTarget,
};
use crate::broker::{Command, Core, CoreOptions, Outcome, Record};
use crate::sim::Archive;

fn rights() -> RedriveRights {
    RedriveRights {
        permissions: Arc::new(Permissions::all().unwrap()),
        topics: None,
        users_by_token: None,
    }
}

/// A redrive of at most one message, so that each move is a record of its own.
fn redrive(client: &mut Client, id: &str) {
    client.apply(Command::Redrive(RedriveCommand::Start(Box::new(
        NewRedrive {
            id: Name::from(id),
            by: Name::from("alice"),
            spec: RedriveSpec {
                queue: Name::from("dlq"),
                filter: None,
                target: RedriveTarget::Origin,
                rate_milli: None,
                max: Some(1),
                ramp: Some(false),
                stop: None,
                note: None,
                is_unsafe: false,
            },
            matched: None,
            rights: rights(),
        },
    ))));
}

/// Three messages die, are brought back one by one, and one of them is accepted.
fn records() -> Vec<(Record, Vec<Lsn>)> {
    let core = Core::new(CoreOptions::new(Name::from("sim"), Seed(1)));
    let mut client = Client::new(core, Archive::default());
    client.declare("dlq", &[]);
    let to_dlq = [
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("dlq")),
    ];
    client.declare("work", &to_dlq);
    for message in ["a", "b", "c"] {
        client.publish("work", message);
    }
    for _ in 0..3 {
        client.take_once("work", &REJECTED);
    }
    redrive(&mut client, "one");
    redrive(&mut client, "two");
    client.take_once("work", &Outcome::Accepted);
    redrive(&mut client, "three");
    client.records
}

/// Where each message is, and whether it was brought back.
type Found = BTreeMap<Vec<u8>, Vec<(String, bool)>>;

fn found(core: &Core, archive: &Archive) -> Found {
    let mut found = Found::new();
    for queue in core.queues() {
        let mut from = Position(0);
        while let Some(position) = queue.messages.find(MessageState::Ready, from) {
            from = Position(position.0 + 1);
            let (message, _) = archive.message(queue, position).unwrap();
            let place = (queue.name.to_string(), message.redrives().is_some());
            found
                .entry(message.body().to_vec())
                .or_default()
                .push(place);
        }
    }
    found
}

/// Messages that the jobs say they moved, and that were accepted since.
fn told(core: &Core) -> (u64, u64) {
    let jobs = || core.redrives();
    let accepted = jobs().map(|job| job.outcome.accepted).sum();
    (jobs().map(|job| job.counts.moved).sum(), accepted)
}

#[test]
fn a_moved_message_is_in_one_queue_and_counted_whatever_byte_a_crash_cuts_off() {
    let records = records();
    let mut states = BTreeSet::new();
    for Left {
        context,
        core,
        archive,
        ..
    } in crashes(&records)
    {
        let here = found(&core, &archive);
        assert!(
            here.values().all(|places| places.len() == 1),
            "{context}: {here:?}"
        );
        let back = here.values().filter(|places| places[0].1).count() as u64;
        let (moved, accepted) = told(&core);
        assert_eq!(back + accepted, moved, "{context}: {here:?}");
        states.insert((here.len(), moved, accepted));
        goes_on(core, archive, (here.len(), accepted), &context);
    }
    for state in [(3, 0, 0), (3, 1, 0), (3, 2, 0), (2, 2, 1), (2, 3, 1)] {
        assert!(states.contains(&state), "{state:?} is not in {states:?}");
    }
}

/// Jobs that were not over go on after the start, and nothing is lost by that.
fn goes_on(core: Core, archive: Archive, (messages, accepted): (usize, u64), context: &str) {
    let mut client = Client::new(core, archive);
    client.apply(Command::Redrive(RedriveCommand::Rights {
        user: Name::from("alice"),
        rights: Some(rights()),
    }));
    let jobs = client.core.redrives();
    let over = jobs.filter(|job| job.state == RedriveState::Completed);
    assert_eq!(over.count(), client.core.redrives().count(), "{context}");
    let ready: u64 = client
        .core
        .queues()
        .map(|queue| queue.messages.ready())
        .sum();
    assert_eq!(ready, messages as u64, "{context}");
    let (moved, _) = told(&client.core);
    let work = client
        .core
        .queue("work")
        .map_or(0, |work| work.messages.ready());
    assert!(work + accepted >= moved, "{context}: {work} of {moved}");
}
