//! The four main paths of a message.

use bytes::Bytes;
use coroner::wire::performative::DeliveryState;
use coroner::wire::{HeaderFields, Value, encode_value, write_descriptor, write_header};

use super::broker::{Broker, counted_commit};
use super::client::Client;

/// Messages that a producer has on their way at once.
const BATCH: u64 = 128;
/// Descriptor of a data section. [AMQP 3.2.6]
const DATA: u64 = 0x75;

/// One path: what is published, and what becomes of it.
pub struct Path {
    pub name: &'static str,
    /// On disk: the message says durable, and there is a journal.
    durable: bool,
    queue_type: &'static str,
    body_bytes: usize,
    /// Each message is rejected once and taken from the dead-letter queue.
    dead_letter: bool,
}

/// As rows of the budgets: transient on classic queues, durable and at least once on quorum queues.
/// Each durable message is written before it is consumed, so that nothing is elided.
pub const PATHS: [Path; 4] = [
    Path {
        name: "transient",
        durable: false,
        queue_type: "classic",
        body_bytes: 100,
        dead_letter: false,
    },
    Path {
        name: "dead-letter",
        durable: false,
        queue_type: "classic",
        body_bytes: 100,
        dead_letter: true,
    },
    Path {
        name: "durable",
        durable: true,
        queue_type: "quorum",
        body_bytes: 1024,
        dead_letter: false,
    },
    Path {
        name: "durable-dead-letter",
        durable: true,
        queue_type: "quorum",
        body_bytes: 1024,
        dead_letter: true,
    },
];

/// Moves so many messages along a path, all the way.
pub fn run(path: &Path, messages: u64) {
    let message = message(path);
    let mut broker = Broker::new(path.durable);
    declare(&mut broker, path);
    let mut producer = Client::producer(&mut broker, "work");
    let rejected = DeliveryState::Rejected { error: None };
    let mut consumers = if path.dead_letter {
        vec![
            Client::consumer(&mut broker, "work", rejected),
            Client::consumer(&mut broker, "dead", DeliveryState::Accepted),
        ]
    } else {
        let outcome = DeliveryState::Accepted;
        vec![Client::consumer(&mut broker, "work", outcome)]
    };
    // More rounds than any run takes.
    for _ in 0..messages + BATCH {
        producer.send(&message, BATCH.min(messages - producer.sent));
        producer.exchange(&mut broker);
        counted_commit(&mut broker);
        for consumer in &mut consumers {
            // Takes what there is, then answers it.
            consumer.exchange(&mut broker);
            consumer.exchange(&mut broker);
            counted_commit(&mut broker);
        }
        broker.advance();
        let arrived = consumers.iter().all(|client| client.delivered == messages);
        if arrived && producer.accepted == messages {
            return;
        }
    }
    panic!("messages of path {} are missing", path.name);
}

fn declare(broker: &mut Broker, path: &Path) {
    let queue_type = ("x-queue-type", path.queue_type);
    broker.declare("dead", &[queue_type]);
    let mut arguments = vec![queue_type];
    if path.dead_letter {
        arguments.push(("x-dead-letter-exchange", ""));
        arguments.push(("x-dead-letter-routing-key", "dead"));
    }
    if path.dead_letter && path.durable {
        arguments.push(("x-dead-letter-strategy", "at-least-once"));
        arguments.push(("x-overflow", "reject-publish"));
    }
    broker.declare("work", &arguments);
}

/// A header and one data section.
fn message(path: &Path) -> Bytes {
    let mut bytes = Vec::new();
    let header = HeaderFields {
        durable: Some(path.durable),
        ..HeaderFields::default()
    };
    write_header(&mut bytes, &header);
    write_descriptor(&mut bytes, DATA);
    let body = Bytes::from(vec![b'.'; path.body_bytes]);
    encode_value(&Value::Binary(body), &mut bytes);
    Bytes::from(bytes)
}
