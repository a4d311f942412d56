//! At-least-once in the crash matrix: dead letters that wait for a target that refuses, or for one
//! that is not there. Whatever the moment of the crash, once everything can go on each is in each of
//! its targets once, and what had not died is in its source. [dead-lettering part 6]

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::crash::crashes;
use crate::base::{
    ConnectionId, ConsumerId, Lsn, Millis, Name, Now, Position, PublisherId, Seed, SessionId,
    Timestamp,
};
use crate::broker::{
    Command, Consume, Core, CoreOptions, Destination, Effect, Effects, Fact, Outcome, Publish,
    QueueCommand, Record, Settle, Target, TopologyCommand, UpkeepCommand,
};
use crate::deaths::Evidence;
use crate::message::{KeyRule, Message, Route};
use crate::sim::Archive;
use crate::wire::Value;

pub(super) const NOW: Now = Now::new(Millis(10_000_000), Timestamp(1_700_000_000_000));
const CONNECTION: ConnectionId = ConnectionId(1);
const SESSION: SessionId = SessionId(1);
const CREDIT: u64 = 1_000;

/// A core with one client that publishes and consumes.
pub(super) struct Client {
    pub(super) core: Core,
    /// Messages that are not in memory.
    pub(super) archive: Archive,
    effects: Effects,
    pub(super) records: Vec<(Record, Vec<Lsn>)>,
    /// What came out of each queue, and was settled there and then.
    taken: BTreeMap<Name, Vec<String>>,
    consumers: u64,
}

impl Client {
    pub(super) fn new(core: Core, archive: Archive) -> Self {
        let mut client = Self {
            core,
            archive,
            effects: Effects::new(),
            records: Vec::new(),
            taken: BTreeMap::new(),
            consumers: 0,
        };
        client.apply(Command::ConnectionOpen {
            connection: CONNECTION,
            user: Name::from("sim"),
            client: Name::default(),
            limit_bytes: u64::MAX,
        });
        client.apply(Command::SessionOpen {
            connection: CONNECTION,
            session: SESSION,
            limit: u64::MAX,
        });
        client
    }

    /// Applies a command and all that follows; gives the deliveries.
    pub(super) fn apply(&mut self, command: Command) -> Vec<(Position, String)> {
        self.core.apply(NOW, command, &mut self.effects);
        loop {
            while self.core.has_work() {
                self.core.tick(NOW, 1_000, &mut self.effects);
            }
            let Some(load) = self.effects.loads.pop() else {
                break;
            };
            let loaded = Command::Upkeep(UpkeepCommand::PagedIn(self.archive.load(&load)));
            self.core.apply(NOW, loaded, &mut self.effects);
        }
        let mut deliveries = Vec::new();
        for (_, effect) in self.effects.outgoing.drain(..) {
            if let Effect::Deliver(delivery) = effect {
                deliveries.push((delivery.position, text_of(&delivery.message)));
            }
        }
        let mut released = std::mem::take(&mut self.effects.released);
        for record in self.effects.records.drain(..) {
            self.records.push((record, Vec::new()));
        }
        if let Some((_, bodies)) = self.records.last_mut() {
            bodies.append(&mut released);
        }
        self.effects.clear();
        deliveries
    }

    pub(super) fn declare(&mut self, name: &str, arguments: &[(&str, Value)]) {
        let typed = arguments.iter();
        self.apply(Command::Queue(QueueCommand::Declare {
            connection: Some(CONNECTION),
            name: Name::from(name),
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments: typed
                .map(|(key, value)| (Name::from(*key), value.clone()))
                .collect(),
        }));
    }

    fn exchange(&mut self, name: &str) {
        self.apply(Command::Topology(TopologyCommand::ExchangeDeclare {
            name: Name::from(name),
            kind: Name::from("fanout"),
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: Vec::new(),
        }));
    }

    fn bind(&mut self, source: &str, queue: &str) {
        self.apply(Command::Topology(TopologyCommand::Bind {
            connection: Some(CONNECTION),
            source: Name::from(source),
            destination: Destination::Queue(Name::from(queue)),
            key: Name::from(""),
            arguments: Vec::new(),
        }));
    }

    /// Publishes a durable message whose body is its name.
    pub(super) fn publish(&mut self, queue: &str, text: &str) {
        self.apply(Command::Publish(post(queue, text)));
    }

    /// Attaches a consumer with so much credit, and gives what it holds then.
    pub(super) fn hold(&mut self, queue: &str, credit: u64) -> (ConsumerId, Vec<Position>) {
        let consumer = self.attach(queue);
        let deliveries = self.apply(Command::ConsumerFlow {
            consumer,
            limit: credit,
            drain: false,
        });
        let held = deliveries.into_iter().map(|(position, _)| position);
        (consumer, held.collect())
    }

    /// Takes one message out of a queue, settles it, and leaves before it can come again.
    pub(super) fn take_once(&mut self, queue: &str, outcome: &Outcome) {
        self.take(queue, 1, outcome);
    }

    fn attach(&mut self, queue: &str) -> ConsumerId {
        self.consumers += 1;
        let consumer = ConsumerId(self.consumers);
        self.apply(Command::Consume(Consume {
            connection: CONNECTION,
            session: SESSION,
            consumer,
            queue: Name::from(queue),
            settled: false,
            priority: 0,
            exclusive: false,
            passing: false,
            selector: None,
            timeout_ms: None,
            evidence: Some(Arc::new(Evidence::of_consumer(
                &Name::from(format!("container-{}", self.consumers)),
                "link",
                None,
                None,
            ))),
            recovery: None,
        }));
        consumer
    }

    /// Takes messages out of a queue, settling one after the other, and leaves.
    pub(super) fn take(&mut self, queue: &str, credit: u64, outcome: &Outcome) {
        let consumer = self.attach(queue);
        let mut deliveries = self.apply(Command::ConsumerFlow {
            consumer,
            limit: credit,
            drain: false,
        });
        while let Some((position, text)) = deliveries.pop() {
            let taken = self.taken.entry(Name::from(queue)).or_default();
            taken.push(text);
            deliveries.extend(self.apply(Command::Settle(Settle {
                consumer,
                position,
                outcome: outcome.clone(),
                confirm: None,
            })));
        }
        self.apply(Command::ConsumerDetach { consumer });
    }
}

/// A durable message whose body is its name.
pub(super) fn post(queue: &str, text: &str) -> Publish {
    let mut payload = b"\x00\x53\x70\xc0\x02\x01\x41\x00\x53\x75\xa0".to_vec();
    payload.push(u8::try_from(text.len()).unwrap());
    payload.extend_from_slice(text.as_bytes());
    let message = Message::from_transfer(Bytes::from(payload), KeyRule::default()).unwrap();
    Publish {
        connection: CONNECTION,
        publisher: PublisherId(1),
        token: 1,
        target: Target::Named,
        route: Arc::new(Route {
            exchange: Name::from(""),
            keys: Arc::from([Name::from(queue)]),
        }),
        message: Arc::new(message),
        forbidden: None,
        delivery_time: None,
        settled: false,
    }
}

fn text_of(message: &Message) -> String {
    let body = message.body();
    // A data section with a short binary: five bytes before its content.
    String::from_utf8_lossy(&body[5..]).into_owned()
}

pub(super) fn text(value: &str) -> Value {
    Value::String(value.to_owned())
}

fn at_least_once<'a>(exchange: &str, more: &[(&'a str, Value)]) -> Vec<(&'a str, Value)> {
    let mut arguments = vec![
        ("x-dead-letter-exchange", text(exchange)),
        ("x-dead-letter-strategy", text("at-least-once")),
    ];
    arguments.extend_from_slice(more);
    arguments
}

pub(super) const REJECTED: Outcome = Outcome::Rejected { evidence: None };

/// One of two targets is full under reject-publish, and drains by one.
fn one_target_refuses(client: &mut Client) {
    let full = [
        ("x-max-length", Value::Ulong(1)),
        ("x-overflow", text("reject-publish")),
    ];
    client.declare("open", &[]);
    client.declare("full", &full);
    client.exchange("both");
    client.bind("both", "open");
    client.bind("both", "full");
    client.declare("source", &at_least_once("both", &[]));
    client.publish("full", "filler");
    for name in ["a", "b", "c"] {
        client.publish("source", name);
    }
    client.take("source", 2, &REJECTED);
    client.take("full", 1, &Outcome::Accepted);
}

/// Both targets are full, and drain one after the other.
fn all_targets_refuse(client: &mut Client) {
    let full = [
        ("x-max-length", Value::Ulong(1)),
        ("x-overflow", text("reject-publish")),
    ];
    client.declare("one", &full);
    client.declare("two", &full);
    client.exchange("both");
    client.bind("both", "one");
    client.bind("both", "two");
    let quorum = [("x-queue-type", text("quorum"))];
    client.declare("source", &at_least_once("both", &quorum));
    client.publish("one", "filler");
    client.publish("two", "filler");
    client.publish("source", "a");
    client.publish("source", "b");
    client.take("source", 2, &REJECTED);
    client.take("two", 1, &Outcome::Accepted);
    client.take("one", 1, &Outcome::Accepted);
}

/// drop-head where nothing is bound; then something is.
fn nothing_is_bound(client: &mut Client) {
    client.exchange("nowhere");
    let limit = [("x-max-length", Value::Ulong(2))];
    client.declare("source", &at_least_once("nowhere", &limit));
    for name in ["a", "b", "c", "d"] {
        client.publish("source", name);
    }
    client.declare("late", &[]);
    client.bind("nowhere", "late");
}

/// After a crash: whatever waits can go now, and everything is taken out.
fn complete(client: &mut Client, exchange: &str, targets: &[&str]) {
    client.exchange(exchange);
    for target in targets {
        client.declare(target, &[]);
        client.bind(exchange, target);
    }
    for _ in 0..4 {
        for target in targets {
            client.take(target, CREDIT, &Outcome::Accepted);
        }
    }
    client.take("source", CREDIT, &Outcome::Accepted);
}

/// Tells a story to a core, crashes the journal of it, and goes on with what is left.
fn check(story: fn(&mut Client), exchange: &str, targets: &[&str]) {
    let core = Core::new(CoreOptions::new(Name::from("sim"), Seed(1)));
    let mut teller = Client::new(core, Archive::default());
    story(&mut teller);
    let mut waited = false;
    for left in crashes(&teller.records) {
        waited |= left.core.queues().any(|queue| !queue.pending.is_empty());
        let mut client = Client::new(left.core, left.archive);
        complete(&mut client, exchange, targets);
        let confirmed = &teller.records[..left.confirmed];
        check_places(&client, targets, confirmed, &left.context);
    }
    assert!(waited, "no crash leaves a dead letter that waits");
}

/// Every message of the source is there once, or in all targets once; none that was confirmed is
/// missing.
fn check_places(
    client: &Client,
    targets: &[&str],
    confirmed: &[(Record, Vec<Lsn>)],
    context: &str,
) {
    let count = |queue: &str, text: &str| {
        let taken = client.taken.get(queue);
        taken.map_or(0, |taken| {
            taken.iter().filter(|found| *found == text).count()
        })
    };
    let confirmed = |text: &str| {
        let facts = confirmed.iter().flat_map(|(record, _)| &record.facts);
        let mut messages = facts.filter_map(|fact| match fact {
            Fact::Inserted { message, .. } => Some(text_of(message)),
            _ => None,
        });
        messages.any(|found| found == text)
    };
    for message in ["a", "b", "c", "d"] {
        let alive = count("source", message);
        let dead: Vec<usize> = targets
            .iter()
            .map(|target| count(target, message))
            .collect();
        let there = match alive {
            0 => dead.iter().all(|count| *count == 1),
            1 => dead.iter().all(|count| *count == 0),
            _ => false,
        };
        let nowhere = alive == 0 && dead.iter().all(|count| *count == 0);
        assert!(
            there || (nowhere && !confirmed(message)),
            "{context}: {message} is {alive} times in its source, {dead:?} times in {targets:?}"
        );
    }
    for queue in client.core.queues() {
        assert!(queue.pending.is_empty(), "{context}: {} waits", queue.name);
        assert_eq!(queue.messages.ready(), 0, "{context}: {}", queue.name);
    }
}

#[test]
fn a_dead_letter_that_one_target_refused_is_in_each_target_once_whatever_the_crash() {
    check(one_target_refuses, "both", &["open", "full"]);
}

#[test]
fn a_dead_letter_that_all_targets_refused_is_in_each_target_once_whatever_the_crash() {
    check(all_targets_refuse, "both", &["one", "two"]);
}

#[test]
fn a_dead_letter_without_a_route_waits_whatever_the_crash() {
    check(nothing_is_bound, "nowhere", &["late"]);
}
