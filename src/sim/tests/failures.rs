//! The last failure of a message that waits outlives a restart, and stands in the evidence of the death
//! that the next one may be. [evidence part 2]

use super::waiting::{Client, NOW, text};
use crate::base::{Name, Position, Seed};
use crate::broker::{Core, CoreOptions, Outcome, Restoring};
use crate::deaths::{How, LastFailure, Reason};
use crate::sim::{Archive, durable_state};

/// The consumer says that it failed, as its one word.
const FAILED: Outcome = Outcome::Modified {
    delivery_failed: true,
    undeliverable_here: false,
    annotations: None,
};

/// A core made of all records of a client, each applied twice.
fn restarted(client: &Client) -> Client {
    let options = CoreOptions::new(Name::from("v"), Seed(1));
    let mut restoring = Restoring::new(options, NOW, NOW.wall, u64::MAX);
    let mut archive = Archive::default();
    for (record, _) in &client.records {
        archive.add(record);
        restoring.record(record);
        restoring.record(record);
    }
    restoring.names();
    Client::new(restoring.finish(), archive)
}

fn last_failure(client: &Client, queue: &str) -> Option<LastFailure> {
    let queue = client.core.queue(&Name::from(queue)).unwrap();
    let (message, _) = client.archive.message(queue, Position(0)).unwrap();
    message.last_failure().cloned()
}

#[test]
fn the_last_failure_outlives_a_restart_and_a_death_has_the_one_that_was_too_many() {
    let core = Core::new(CoreOptions::new(Name::from("v"), Seed(1)));
    let mut client = Client::new(core, Archive::default());
    client.declare("dlq", &[]);
    client.declare(
        "q",
        &[
            ("x-delivery-limit", crate::wire::Value::Ulong(1)),
            ("x-dead-letter-exchange", text("")),
            ("x-dead-letter-routing-key", text("dlq")),
        ],
    );
    client.publish("q", "a");
    client.take_once("q", &FAILED);
    let before = last_failure(&client, "q").expect("it failed");
    assert_eq!(before.evidence.container.as_deref(), Some("container-1"));

    let mut next = restarted(&client);
    assert_eq!(last_failure(&next, "q").as_ref(), Some(&before));
    let there = durable_state(&client.core, &client.archive);
    let found = durable_state(&next.core, &next.archive);
    assert_eq!(there.differences(&found), Vec::<String>::new());

    // The second failure is one too many: what the message died of is that one, not the first.
    next.take_once("q", &Outcome::Released);
    next.take_once("q", &FAILED);
    for (record, _) in &client.records {
        next.archive.add(record);
    }
    for (record, _) in &next.records {
        next.archive.add(record);
    }
    assert_eq!(last_failure(&next, "dlq"), None);
    let queue = next.core.queue(&Name::from("dlq")).unwrap();
    let (message, _) = next.archive.message(queue, Position(0)).unwrap();
    let history = message.history().unwrap();
    assert_eq!(history.last().reason, Reason::DeliveryLimit);
    let evidence = history.latest_evidence().unwrap();
    assert_eq!(evidence.how, Some(How::Failed));
    assert_eq!(evidence.container.as_deref(), Some("container-2"));
}
