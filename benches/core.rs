//! What one message costs in the routing core alone: published, assigned, settled; and dead-lettered.
//!
//! `cargo bench --bench core` prints nanoseconds a message. No sockets, no link engine: what is
//! above these figures in `coroner bench` is the rest of the broker.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a benchmark reads a clock and prints"
)]
#![allow(missing_docs, reason = "a benchmark")]

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use coroner::base::{
    ConnectionId, ConsumerId, ExchangeId, Millis, Name, Now, PublisherId, Seed, SessionId,
    Timestamp,
};
use coroner::broker::{
    Command, Consume, Core, Effect, Effects, Options, Outcome, Publish, Settle, Target,
};
use coroner::message::{KeyRule, Message, Route};
use coroner::wire::Value;

const CONNECTION: ConnectionId = ConnectionId(1);
const SESSION: SessionId = SessionId(1);
const MESSAGES: u64 = 2_000_000;
/// Messages published before the consumer settles.
const BATCH: u64 = 256;

fn main() {
    let dead = [
        ("x-dead-letter-exchange", ""),
        ("x-dead-letter-routing-key", "dead"),
    ];
    measure("publish, deliver, accept", &[], &Outcome::Accepted, 1);
    let rejected = Outcome::Rejected { evidence: None };
    measure(
        "publish, deliver, reject, deliver, accept",
        &dead,
        &rejected,
        2,
    );
}

fn measure(title: &str, arguments: &[(&str, &str)], outcome: &Outcome, consumers: u64) {
    let mut bench = Bench::new(arguments, consumers);
    let start = Instant::now();
    for _ in 0..MESSAGES / BATCH {
        bench.turn(outcome);
    }
    let nanos = start.elapsed().as_nanos() / u128::from(MESSAGES);
    assert!(
        bench.accepted >= MESSAGES - BATCH,
        "{} accepted",
        bench.accepted
    );
    println!("{title}: {nanos} ns a message");
}

struct Bench {
    core: Core,
    effects: Effects,
    now: Now,
    route: Arc<Route>,
    payload: Bytes,
    accepted: u64,
}

impl Bench {
    fn new(arguments: &[(&str, &str)], consumers: u64) -> Self {
        let seed = Seed(1);
        let route = Route {
            exchange: Name::default(),
            keys: Arc::from([Name::from("work")]),
        };
        let mut bench = Self {
            core: Core::new(Options::new(Name::from("/"), seed)),
            effects: Effects::new(),
            now: Now::new(Millis(1), Timestamp(1)),
            route: Arc::new(route),
            payload: Bytes::from([&[0x00, 0x53, 0x75, 0xa0, 100][..], &[b'.'; 100]].concat()),
            accepted: 0,
        };
        bench.apply(Command::ConnectionOpen {
            connection: CONNECTION,
            user: Name::from("guest"),
            limit_bytes: u64::MAX,
        });
        bench.apply(Command::SessionOpen {
            connection: CONNECTION,
            session: SESSION,
            limit: u64::MAX,
        });
        let arguments = arguments
            .iter()
            .map(|(name, value)| (Name::from(*name), Value::String((*value).to_owned())));
        bench.declare("work", arguments.collect());
        bench.declare("dead", Vec::new());
        for (number, queue) in (0..consumers).zip(["work", "dead"]) {
            let consumer = ConsumerId(number);
            bench.apply(Command::Consume(Consume {
                connection: CONNECTION,
                session: SESSION,
                consumer,
                queue: Name::from(queue),
                settled: false,
                priority: 0,
                exclusive: false,
            }));
            bench.apply(Command::ConsumerFlow {
                consumer,
                limit: u64::MAX,
                drain: false,
            });
        }
        bench
    }

    fn declare(&mut self, name: &str, arguments: Vec<(Name, Value)>) {
        self.apply(Command::QueueDeclare {
            connection: None,
            name: Name::from(name),
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments,
        });
    }

    fn apply(&mut self, command: Command) {
        self.core.apply(self.now, command, &mut self.effects);
    }

    /// A batch of publishes, then settlements until nothing is delivered any more.
    fn turn(&mut self, outcome: &Outcome) {
        for token in 0..BATCH {
            let message = Message::from_transfer(self.payload.clone(), KeyRule::default());
            let Ok(message) = message else { return };
            self.apply(Command::Publish(Publish {
                connection: CONNECTION,
                publisher: PublisherId(1),
                token,
                target: Target::Attached(ExchangeId(0)),
                route: Arc::clone(&self.route),
                message: Arc::new(message),
                settled: false,
            }));
        }
        loop {
            let mut outgoing = std::mem::take(&mut self.effects.outgoing);
            self.effects.records.clear();
            let mut delivered = false;
            for (_, effect) in outgoing.drain(..) {
                let Effect::Deliver(delivery) = effect else {
                    continue;
                };
                delivered = true;
                let first = delivery.consumer == ConsumerId(0);
                let outcome = if first {
                    outcome.clone()
                } else {
                    Outcome::Accepted
                };
                self.accepted += u64::from(matches!(outcome, Outcome::Accepted));
                self.apply(Command::Settle(Settle {
                    consumer: delivery.consumer,
                    position: delivery.position,
                    outcome,
                    confirm: None,
                }));
            }
            if !delivered {
                return;
            }
        }
    }
}
