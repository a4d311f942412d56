//! What one message costs in the routing core alone: published, assigned, settled; and dead-lettered.
//!
//! `cargo bench --bench core` prints nanoseconds a message. No sockets, no link engine: what is
//! above these figures in `coroner bench` is the rest of the broker. Then what a policy that comes
//! upon a full queue costs: how long one hold of the core is at most, since others wait for it.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a benchmark reads a clock and prints"
)]
#![allow(missing_docs, reason = "a benchmark")]

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use coroner::base::limits::LISTING_SLICE;
use coroner::base::{
    ConnectionId, ConsumerId, ExchangeId, Millis, Name, Now, PublisherId, Seed, SessionId,
    Timestamp,
};
use coroner::broker::policy::{Policy, PolicySpec};
use coroner::broker::{
    Command, Consume, Core, CoreOptions, Effect, Effects, Outcome, Publish, QueueCommand, Settle,
    Target, TopologyCommand,
};
use coroner::message::{KeyRule, Message, Route};
use coroner::metrics::Queues;
use coroner::wire::Value;

const CONNECTION: ConnectionId = ConnectionId(1);
const SESSION: SessionId = SessionId(1);
const MESSAGES: u64 = 2_000_000;
/// Messages published before the consumer settles.
const BATCH: u64 = 256;
const QUEUES: u64 = 100_000;
/// Queues that metrics name, as in the server.
const NAMED_MAX: usize = 1_000;
/// Messages of one tick, as in the server.
const TICK_BUDGET: usize = 256;

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
    let number = |key: &str, value: u64| (Name::from(key), Value::Ulong(value));
    let to_dead = || {
        let text = |text: &str| Value::String(text.to_owned());
        [
            (Name::from("dead-letter-exchange"), text("")),
            (Name::from("dead-letter-routing-key"), text("dead")),
        ]
    };
    policy(
        "message-ttl far away",
        vec![number("message-ttl", 3_600_000)],
    );
    policy("message-ttl over, dropped", vec![number("message-ttl", 1)]);
    let expired = to_dead().into_iter().chain([number("message-ttl", 1)]);
    policy("message-ttl over, dead-lettered", expired.collect());
    let too_many = to_dead().into_iter().chain([number("max-length", 1)]);
    policy("max-length, dead-lettered", too_many.collect());
    look("metrics", false);
    look("metrics per object", true);
}

/// Metrics look at many queues: the holds of the core, of one slice of queues each.
fn look(detail: &str, all: bool) {
    let mut bench = Bench::new(&[], 0);
    for index in 0..QUEUES {
        bench.declare(&format!("queue-{index}"), Vec::new());
        bench.effects.clear();
    }
    let mut queues = Queues::new(Millis(0), NAMED_MAX, all);
    let mut after = None;
    let mut holds = Vec::new();
    loop {
        let start = Instant::now();
        after = (bench.core).visit_after(after.as_ref(), LISTING_SLICE, |queue| queues.add(queue));
        holds.push(start.elapsed().as_micros());
        if after.is_none() {
            break;
        }
    }
    assert!(queues.count >= QUEUES, "{} queues", queues.count);
    tell(&format!("{detail} of {QUEUES} queues"), holds);
}

fn tell(title: &str, mut holds: Vec<u128>) {
    let total_ms = holds.iter().sum::<u128>() / 1_000;
    holds.sort_unstable();
    let per_mille = |share: usize| holds.get((holds.len() - 1) * share / 1_000).copied();
    println!(
        "{title}: {} holds, {total_ms} ms in all; p50 {} us, p99 {} us, longest {} us",
        holds.len(),
        per_mille(500).unwrap_or(0),
        per_mille(990).unwrap_or(0),
        per_mille(1_000).unwrap_or(0),
    );
}

/// A policy comes upon a queue of [`MESSAGES`]: the holds of the core until all is done.
fn policy(title: &str, definition: Vec<(Name, Value)>) {
    let mut bench = Bench::new(&[], 0);
    for token in 0..MESSAGES {
        bench.publish(token);
        bench.effects.outgoing.clear();
        bench.effects.records.clear();
    }
    bench.now.mono = Millis(1_000);
    let spec = PolicySpec {
        name: Name::from("p"),
        pattern: "^work$",
        priority: 0,
        apply_to: "queues",
        definition,
    };
    let Ok(policy) = Policy::new(false, spec) else {
        return;
    };
    let mut command = Some(Command::Topology(TopologyCommand::PolicySet {
        operator: false,
        policy: Box::new(policy),
    }));
    let mut holds = Vec::new();
    while command.is_some() || bench.core.has_work() {
        let start = Instant::now();
        match command.take() {
            Some(command) => bench.apply(command),
            None => {
                bench.core.tick(bench.now, TICK_BUDGET, &mut bench.effects);
            }
        }
        holds.push(start.elapsed().as_micros());
        bench.effects.clear();
    }
    tell(title, holds);
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
            core: Core::new(CoreOptions::new(Name::from("/"), seed)),
            effects: Effects::new(),
            now: Now::new(Millis(1), Timestamp(1)),
            route: Arc::new(route),
            payload: Bytes::from([&[0x00, 0x53, 0x75, 0xa0, 100][..], &[b'.'; 100]].concat()),
            accepted: 0,
        };
        bench.apply(Command::ConnectionOpen {
            connection: CONNECTION,
            user: Name::from("guest"),
            client: Name::default(),
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
                passing: false,
                selector: None,
                timeout_ms: None,
                evidence: None,
                recovery: None,
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
        self.apply(Command::Queue(QueueCommand::Declare {
            connection: None,
            name: Name::from(name),
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments,
        }));
    }

    fn apply(&mut self, command: Command) {
        self.core.apply(self.now, command, &mut self.effects);
    }

    fn publish(&mut self, token: u64) {
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
            forbidden: None,
            delivery_time: None,
        }));
    }

    /// A batch of publishes, then settlements until nothing is delivered any more.
    fn turn(&mut self, outcome: &Outcome) {
        for token in 0..BATCH {
            self.publish(token);
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
