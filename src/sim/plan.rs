//! The plan of a run: random commands over a small set of names, so that they interact often.

use std::sync::Arc;

use bytes::Bytes;

use super::Random;
use crate::base::{ConnectionId, ConsumerId, Name, Position, PublisherId, Timestamp};
use crate::broker::names::QUARANTINE;
use crate::broker::policy::{Policy, PolicySpec};
use crate::broker::{
    Command, Destination, Outcome, Publish, QueueCommand, Target, TopologyCommand, UpkeepCommand,
};
use crate::message::{DeliveryTime, KeyRule, Message, Route};
use crate::wire::Value;

/// One step of a run.
#[derive(Debug)]
pub(super) enum PlannedStep {
    /// Time passes, in milliseconds; deadlines on the way are met on time.
    Pass(u64),
    /// A consumer attaches.
    Consume {
        queue: Name,
        settled: bool,
        /// How long it may hold a delivery, in milliseconds, if it says.
        timeout_ms: Option<u32>,
    },
    /// A consumer's credit grows by this.
    Credit {
        consumer: ConsumerId,
        more: u64,
        drain: bool,
    },
    /// A consumer detaches.
    Detach(ConsumerId),
    /// The connection is closed, and another opened.
    Reconnect,
    /// A delivery is settled, or was settled before.
    Settle {
        consumer: ConsumerId,
        position: Position,
        outcome: Outcome,
    },
    /// A command that needs no further context.
    Plain(Box<Command>),
}

impl PlannedStep {
    /// The step in one line.
    pub(super) fn told(&self) -> String {
        let Self::Plain(command) = self else {
            return format!("{self:?}");
        };
        let Command::Publish(publish) = &**command else {
            return format!("{self:?}");
        };
        let Publish {
            token,
            route,
            message,
            delivery_time,
            ..
        } = publish;
        let (durable, priority, ttl) = (message.durable(), message.priority(), message.ttl_ms());
        let (exchange, key) = (&route.exchange, route.keys.first());
        let later = delivery_time.map_or_else(String::new, |time| format!(" {time:?}"));
        let times = format!("ttl {ttl:?}{later}");
        format!("publish {token} {exchange}/{key:?} durable {durable} {priority:?} {times}")
    }
}

const QUEUES: [&str; 6] = ["q0", "q1", "q2", "q3", "q4", "q5"];
/// Steps in the beginning that declare and bind, so that the others have objects.
const OPENING: u64 = 9;
const EXCHANGES: [&str; 2] = ["x0", "x1"];

/// Draws random steps.
#[derive(Debug)]
pub(super) struct Plan {
    random: Random,
    drawn: u64,
    published: u64,
    /// Consumers that are attached.
    pub(super) consumers: Vec<ConsumerId>,
    pub(super) deliveries: Vec<(ConsumerId, Position)>,
}

impl Plan {
    pub(super) fn new(seed: u64) -> Self {
        let random = Random::new(seed);
        Self {
            random,
            drawn: 0,
            published: 0,
            consumers: Vec::new(),
            deliveries: Vec::new(),
        }
    }

    pub(super) fn next(&mut self, wall_ms: i64, connection: ConnectionId) -> PlannedStep {
        self.drawn += 1;
        match if self.drawn <= OPENING {
            82 + self.drawn
        } else {
            self.random.below(100)
        } {
            0..35 => PlannedStep::Plain(Box::new(self.publish(wall_ms, connection))),
            35..55 => self.settle(wall_ms),
            55..67 => self.credit(),
            67..75 => PlannedStep::Pass(self.amount(&[0, 1, 2, 5, 20, 200])),
            75..80 => PlannedStep::Consume {
                queue: self.any_queue(),
                settled: self.random.one_in(4),
                timeout_ms: self.timeout().and_then(|ms| u32::try_from(ms).ok()),
            },
            80..83 => self.detach(),
            83..88 => PlannedStep::Plain(Box::new(self.declare(connection))),
            88..90 => PlannedStep::Plain(Box::new(self.topology(connection))),
            90..92 => PlannedStep::Plain(Box::new(self.bind(connection))),
            92..95 => PlannedStep::Plain(Box::new(self.policy())),
            95 => PlannedStep::Plain(Box::new(self.purge(connection))),
            96 => PlannedStep::Plain(Box::new(self.retry(connection))),
            97 => PlannedStep::Reconnect,
            _ => PlannedStep::Plain(Box::new(self.delete(connection))),
        }
    }

    fn name(&mut self, of: &[&str]) -> Name {
        Name::from(*self.random.pick(of).unwrap_or(&""))
    }

    fn queue(&mut self) -> Name {
        self.name(&QUEUES)
    }

    /// A queue, now and then the quarantine.
    fn any_queue(&mut self) -> Name {
        if self.random.one_in(8) {
            return Name::from(QUARANTINE);
        }
        self.queue()
    }

    fn amount(&mut self, of: &[u64]) -> u64 {
        *self.random.pick(of).unwrap_or(&0)
    }

    fn publish(&mut self, wall_ms: i64, connection: ConnectionId) -> Command {
        self.published += 1;
        let exchange = if self.random.one_in(3) {
            self.name(&EXCHANGES)
        } else {
            Name::from("")
        };
        let keys = Arc::from([self.queue()]);
        let priority = self
            .random
            .one_in(2)
            .then(|| self.amount(&[0, 1, 2, 4, 5, 9]));
        let ttl = self
            .random
            .one_in(4)
            .then(|| self.amount(&[0, 1, 3, 10, 100]));
        let expiry = self.amount(&[0, 1, 5, 50]);
        let expiry = self
            .random
            .one_in(8)
            .then(|| match i64::try_from(expiry).unwrap_or(0) {
                0 => 0,                     // as if it had none
                soon => wall_ms + soon - 3, // it has passed already, sometimes
            });
        let delivery_time = self.delivery_time(wall_ms);
        let durable = self.random.one_in(2);
        let payload = payload(self.published, durable, (priority, ttl, expiry));
        let message = Message::from_transfer(Bytes::from(payload), KeyRule::default());
        let Ok(message) = message else {
            return Command::Upkeep(UpkeepCommand::Alarm { raised: false });
        };
        Command::Publish(Publish {
            connection,
            publisher: PublisherId(1),
            token: self.published,
            target: Target::Named,
            route: Arc::new(Route { exchange, keys }),
            message: Arc::new(message),
            settled: false,
            forbidden: None,
            delivery_time,
        })
    }

    fn settle(&mut self, wall_ms: i64) -> PlannedStep {
        let outcome = match self.random.below(7) {
            0 => Outcome::Accepted,
            1 => Outcome::Released,
            2 | 3 => Outcome::Rejected { evidence: None },
            n => Outcome::Modified {
                delivery_failed: n != 4,
                undeliverable_here: n == 6,
                annotations: self.instant(wall_ms),
            },
        };
        let delivery = self.random.pick(&self.deliveries).copied();
        let Some((consumer, position)) = delivery else {
            return PlannedStep::Pass(0);
        };
        if !self.random.one_in(10) {
            self.deliveries
                .retain(|other| *other != (consumer, position));
        }
        PlannedStep::Settle {
            consumer,
            position,
            outcome,
        }
    }

    /// When a message is to be delivered, now and then; the time may have passed.
    fn delivery_time(&mut self, wall_ms: i64) -> Option<DeliveryTime> {
        let soon = self.amount(&[0, 1, 2, 7, 30, 150]);
        match self.random.below(12) {
            0 => Some(DeliveryTime::After(soon)),
            1 => {
                let instant = wall_ms + i64::try_from(soon).unwrap_or(0) - 2;
                Some(DeliveryTime::At(Timestamp(instant)))
            }
            _ => None,
        }
    }

    /// Annotations that name the time of the next delivery, now and then; it may have passed.
    fn instant(&mut self, wall_ms: i64) -> Option<Bytes> {
        let soon = self.amount(&[0, 1, 2, 7, 30, 150]);
        self.random.one_in(4).then(|| {
            let instant = wall_ms + i64::try_from(soon).unwrap_or(0) - 2;
            let key = b"x-opt-delivery-time";
            let mut map = vec![0xc1, 31, 2, 0xa3, 19];
            map.extend(key);
            map.push(0x83);
            map.extend(instant.to_be_bytes());
            Bytes::from(map)
        })
    }

    fn credit(&mut self) -> PlannedStep {
        let Some(consumer) = self.random.pick(&self.consumers).copied() else {
            return PlannedStep::Pass(0);
        };
        let more = self.amount(&[0, 1, 2, 3, 10]);
        PlannedStep::Credit {
            consumer,
            more,
            drain: self.random.one_in(4),
        }
    }

    /// How long deliveries may be held, now and then.
    fn timeout(&mut self) -> Option<u64> {
        let timeout_ms = self.amount(&[0, 1, 3, 20, 20, 150]);
        self.random.one_in(4).then_some(timeout_ms)
    }

    fn detach(&mut self) -> PlannedStep {
        let consumer = self.random.pick(&self.consumers).copied();
        consumer.map_or(PlannedStep::Pass(0), PlannedStep::Detach)
    }

    fn declare(&mut self, connection: ConnectionId) -> Command {
        let mut arguments = Vec::new();
        let mut add = |name: &str, value: Value| arguments.push((Name::from(name), value));
        if self.random.one_in(3) {
            add("x-queue-type", Value::String("quorum".to_owned()));
        }
        for (key, value) in self.definition() {
            add(&format!("x-{key}"), value);
        }
        if self.random.one_in(5) {
            add("x-max-priority", Value::Ubyte(3));
        }
        if self.random.one_in(6) {
            add("x-single-active-consumer", Value::Bool(true));
        }
        Command::Queue(QueueCommand::Declare {
            connection: Some(connection),
            name: self.queue(),
            durable: !self.random.one_in(4),
            exclusive: false,
            auto_delete: self.random.one_in(6),
            arguments,
        })
    }

    /// Settings as a policy writes them; as an argument, each is prefixed with `x-`.
    fn definition(&mut self) -> Vec<(Name, Value)> {
        let text = |value: &str| Value::String(value.to_owned());
        let mut definition = Vec::new();
        let mut add = |name: &str, value: Value| definition.push((Name::from(name), value));
        if !self.random.one_in(4) {
            let exchange = self.name(&["", "", "", "x0", "x1", "missing"]);
            add("dead-letter-exchange", text(&exchange));
            if exchange.is_empty() || self.random.one_in(2) {
                add("dead-letter-routing-key", text(&self.queue()));
            }
            if self.random.one_in(2) {
                add("dead-letter-strategy", text("at-least-once"));
            }
        }
        if self.random.one_in(5) {
            let choice = self.name(&["drop", "quarantine"]);
            add("on-undeliverable", text(&choice));
        }
        if self.random.one_in(2) {
            add("max-length", Value::Ulong(self.amount(&[0, 1, 2, 3, 8])));
        }
        if self.random.one_in(5) {
            add(
                "max-length-bytes",
                Value::Ulong(self.amount(&[10, 60, 200])),
            );
        }
        if self.random.one_in(2) {
            let overflow = ["drop-head", "reject-publish", "reject-publish-dlx"];
            add("overflow", text(&self.name(&overflow)));
        }
        if self.random.one_in(3) {
            add(
                "message-ttl",
                Value::Ulong(self.amount(&[0, 1, 5, 30, 100])),
            );
        }
        if self.random.one_in(3) {
            let kind = ["disabled", "all", "all", "failed", "returned"];
            add("delayed-retry-type", text(&self.name(&kind)));
            add("delayed-retry-min", Value::Ulong(self.amount(&[1, 2, 10])));
            if self.random.one_in(2) {
                add("delayed-retry-max", Value::Ulong(self.amount(&[10, 50])));
            }
            if self.random.one_in(2) {
                let half = self.amount(&[2, 3, 5]);
                let multiplier = f64::from(u32::try_from(half).unwrap_or(2)) / 2.0;
                add(
                    "delayed-retry-multiplier",
                    Value::Double(multiplier.to_bits()),
                );
            }
            if self.random.one_in(2) {
                let percent = self.amount(&[0, 20, 100]);
                add("delayed-retry-jitter", Value::Ulong(percent));
            }
        }
        if self.random.one_in(3) {
            add("delivery-limit", Value::Ulong(self.amount(&[0, 1, 2])));
        }
        if let Some(timeout_ms) = self.timeout() {
            add("consumer-timeout", Value::Ulong(timeout_ms));
        }
        definition
    }

    fn topology(&mut self, connection: ConnectionId) -> Command {
        let name = self.name(&EXCHANGES);
        if self.random.one_in(4) {
            return Command::Topology(TopologyCommand::ExchangeDelete {
                connection: Some(connection),
                name,
                if_unused: false,
            });
        }
        Command::Topology(TopologyCommand::ExchangeDeclare {
            name,
            kind: Name::from("fanout"),
            durable: !self.random.one_in(4),
            auto_delete: false,
            internal: false,
            arguments: Vec::new(),
        })
    }

    fn bind(&mut self, connection: ConnectionId) -> Command {
        let (connection, source) = (Some(connection), self.name(&EXCHANGES));
        let destination = Destination::Queue(self.queue());
        let (key, arguments) = (Name::from(""), Vec::new());
        if self.random.one_in(4) {
            return Command::Topology(TopologyCommand::Unbind {
                connection,
                source,
                destination,
                key,
                arguments,
            });
        }
        Command::Topology(TopologyCommand::Bind {
            connection,
            source,
            destination,
            key,
            arguments,
        })
    }

    fn policy(&mut self) -> Command {
        let operator = false;
        let name = self.name(&["p0", "p1"]);
        let definition = self.definition();
        let spec = PolicySpec {
            name: name.clone(),
            pattern: match self.random.below(5) {
                0 | 1 => "^q[0-2]$",
                2 | 3 => "^q[2-5]$",
                _ => ".*",
            },
            priority: i64::try_from(self.random.below(3)).unwrap_or(0),
            apply_to: "all",
            definition,
        };
        match Policy::new(operator, spec) {
            Ok(policy) if !self.random.one_in(3) => Command::Topology(TopologyCommand::PolicySet {
                operator,
                policy: Box::new(policy),
            }),
            _ => Command::Topology(TopologyCommand::PolicyDelete { operator, name }),
        }
    }

    fn purge(&mut self, connection: ConnectionId) -> Command {
        let with_dead_pending = self.random.one_in(3);
        Command::Queue(QueueCommand::Purge {
            connection: Some(connection),
            name: self.any_queue(),
            with_dead_pending,
        })
    }

    fn retry(&mut self, connection: ConnectionId) -> Command {
        Command::Queue(QueueCommand::Retry {
            connection: Some(connection),
            name: self.any_queue(),
            count: self.amount(&[1, 2, 100]),
        })
    }

    fn delete(&mut self, connection: ConnectionId) -> Command {
        Command::Queue(QueueCommand::Delete {
            connection: Some(connection),
            name: self.any_queue(),
            if_unused: self.random.one_in(3),
            if_empty: self.random.one_in(3),
        })
    }
}

/// Encodes a message: header, properties with absolute-expiry-time, a number as body. [AMQP 3.2]
fn payload(
    number: u64,
    durable: bool,
    (priority, ttl_ms, expiry): (Option<u64>, Option<u64>, Option<i64>),
) -> Vec<u8> {
    let mut header = vec![if durable { 0x41 } else { 0x42 }];
    match priority.and_then(|priority| u8::try_from(priority).ok()) {
        Some(priority) => header.extend([0x50, priority]),
        None => header.push(0x40),
    }
    match ttl_ms.and_then(|ttl_ms| u32::try_from(ttl_ms).ok()) {
        Some(ttl_ms) => {
            header.push(0x70);
            header.extend(ttl_ms.to_be_bytes());
        }
        None => header.push(0x40),
    }
    let mut payload = section(0x70, 3, &header);
    if let Some(expiry) = expiry {
        let mut properties = vec![0x40; 8];
        properties.push(0x83);
        properties.extend(expiry.to_be_bytes());
        payload.extend(section(0x73, 9, &properties));
    }
    payload.extend([0x00, 0x53, 0x75, 0xa0, 8]);
    payload.extend(number.to_be_bytes());
    payload
}

fn section(descriptor: u8, count: u8, fields: &[u8]) -> Vec<u8> {
    let size = u8::try_from(fields.len() + 1).unwrap_or(u8::MAX);
    let mut bytes = vec![0x00, 0x53, descriptor, 0xc0, size, count];
    bytes.extend(fields);
    bytes
}
