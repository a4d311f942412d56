//! A core, a clock and hands to play with it.

use std::sync::Arc;

use bytes::Bytes;

use crate::base::limits::BATCH_NS_MAX;
use crate::base::{
    ConnectionId, ConsumerId, Lsn, Meter, Millis, Name, Now, Position, PublisherId, Seed,
    SessionId, Timestamp,
};
use crate::broker::event::VhostEvent;
use crate::broker::memo::MemoFact;
use crate::broker::policy::{Policy, PolicySpec};
use crate::broker::*;
use crate::message::{DeliveryTime, KeyRule, Message, Route};
use crate::wire::Value;

pub(crate) const CONNECTION: ConnectionId = ConnectionId(1);
pub(crate) const SESSION: SessionId = SessionId(1);
/// Wall clock and mono clock at the start; unrelated on purpose.
const WALL: i64 = 1_700_000_000_000;
const MONO: u64 = 5_000_000_000;

/// One connection with one session, all windows open, and a core.
pub(crate) struct Scenario {
    pub(crate) core: Core,
    pub(crate) now: Now,
    pub(crate) effects: Effects,
    /// Every record so far.
    pub(crate) records: Vec<Record>,
    /// Every delivery not yet settled or asked for.
    pub(crate) deliveries: Vec<Delivery>,
    /// The records without which deliveries are not sent.
    pub(crate) awaited: Vec<(Position, Lsn)>,
    /// Every other effect.
    pub(crate) others: Vec<Effect>,
    pub(crate) log: Vec<LogEvent>,
    /// Every event so far, as a ring keeps it.
    pub(crate) events: Vec<VhostEvent>,
    next_token: u64,
}

impl Scenario {
    pub(crate) fn new() -> Self {
        Self::with(CoreOptions::new(Name::from("/"), Seed(7)))
    }

    pub(crate) fn with(options: CoreOptions) -> Self {
        let mut scenario = Self {
            core: Core::new(options),
            now: Now::new(Millis(MONO), Timestamp(WALL)),
            effects: Effects::new(),
            records: Vec::new(),
            deliveries: Vec::new(),
            awaited: Vec::new(),
            others: Vec::new(),
            log: Vec::new(),
            events: Vec::new(),
            next_token: 0,
        };
        scenario.connect(CONNECTION, SESSION);
        scenario
    }

    pub(crate) fn connect(&mut self, connection: ConnectionId, session: SessionId) {
        let user = Name::from("guest");
        self.apply(Command::ConnectionOpen {
            connection,
            user,
            client: Name::default(),
            limit_bytes: u64::MAX,
        });
        self.apply(Command::SessionOpen {
            connection,
            session,
            limit: u64::MAX,
        });
    }

    pub(crate) fn apply(&mut self, command: Command) -> Reply {
        let reply = self.core.apply(self.now, command, &mut self.effects);
        self.collect();
        while self.core.has_work() {
            self.core.tick(self.now, 100, &mut self.effects);
            self.collect();
        }
        reply
    }

    /// Does what a command left to do, in pieces none of which takes long; their number.
    pub(crate) fn finish_in_pieces(&mut self) -> usize {
        let mut pieces = 0;
        while self.core.has_work() {
            pieces += 1;
            self.effects.meter = Meter::default();
            self.core.tick(self.now, 64, &mut self.effects);
            let spent_ns = self.effects.meter.spent_ns();
            assert!(spent_ns < 2 * BATCH_NS_MAX, "{spent_ns}");
        }
        pieces
    }

    /// Applies a command of a batch: what follows from it may come with the next one, or with
    /// [`Scenario::end_batch`].
    pub(crate) fn apply_in_batch(&mut self, command: Command) {
        self.core
            .apply_in_batch(self.now, command, &mut self.effects);
        self.collect();
    }

    pub(crate) fn end_batch(&mut self) {
        self.core.end_batch(self.now, &mut self.effects);
        self.collect();
    }

    fn collect(&mut self) {
        for (_, effect) in self.effects.outgoing.drain(..) {
            match effect {
                Effect::Deliver(delivery) => self.deliveries.push(delivery),
                Effect::DeliverDurably { delivery, lsn } => {
                    self.awaited.push((delivery.position, lsn));
                    self.deliveries.push(*delivery);
                }
                other => self.others.push(other),
            }
        }
        self.records.append(&mut self.effects.records);
        self.log.append(&mut self.effects.log);
        self.events.extend(self.effects.events.take());
    }

    /// Whether the journal was told nothing but which numbers events have.
    pub(crate) fn has_told_event_numbers_only(&self) -> bool {
        let mut facts = self.records.iter().flat_map(|record| &record.facts);
        facts.all(|fact| matches!(fact, Fact::Memo(MemoFact::EventNumbers { .. })))
    }

    /// Lets time pass on both clocks; what is due happens on time.
    pub(crate) fn pass(&mut self, ms: u64) {
        let end = self.now.mono.plus(ms);
        while let Some(deadline) = self.core.next_deadline().filter(|at| *at <= end) {
            self.set_mono(deadline.max(self.now.mono));
            self.core.tick(self.now, 10_000, &mut self.effects);
            self.collect();
        }
        self.set_mono(end);
        self.core.tick(self.now, 10_000, &mut self.effects);
        self.collect();
    }

    fn set_mono(&mut self, mono: Millis) {
        let passed = i64::try_from(mono.since(self.now.mono)).unwrap();
        self.now = Now::new(mono, Timestamp(self.now.wall.0 + passed));
    }

    /// Sets the wall clock back or forth.
    pub(crate) fn jump(&mut self, ms: i64) {
        self.now.wall.0 += ms;
        self.core.tick(self.now, 10_000, &mut self.effects);
        self.collect();
    }

    pub(crate) fn queue(&mut self, name: &str, arguments: &[(&str, Value)]) {
        let reply = self.declare(name, arguments);
        assert!(matches!(reply, Reply::QueueDeclared { .. }), "{reply:?}");
    }

    pub(crate) fn declare(&mut self, name: &str, arguments: &[(&str, Value)]) -> Reply {
        self.apply(Command::Queue(QueueCommand::Declare {
            connection: Some(CONNECTION),
            name: Name::from(name),
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments: owned(arguments),
        }))
    }

    pub(crate) fn exchange(&mut self, name: &str, kind: &str) {
        let reply = self.apply(Command::Topology(TopologyCommand::ExchangeDeclare {
            name: Name::from(name),
            kind: Name::from(kind),
            durable: true,
            auto_delete: false,
            internal: false,
            arguments: Vec::new(),
        }));
        assert!(matches!(reply, Reply::ExchangeDeclared { .. }), "{reply:?}");
    }

    pub(crate) fn bind(&mut self, source: &str, queue: &str, key: &str) {
        let reply = self.apply(Command::Topology(TopologyCommand::Bind {
            connection: Some(CONNECTION),
            source: Name::from(source),
            destination: Destination::Queue(Name::from(queue)),
            key: Name::from(key),
            arguments: Vec::new(),
        }));
        assert!(matches!(reply, Reply::Done { .. }), "{reply:?}");
    }

    pub(crate) fn policy(&mut self, name: &str, pattern: &str, definition: &[(&str, Value)]) {
        self.set_policy(false, name, (pattern, "all"), definition);
    }

    /// Sets a policy or an operator policy; what it was warned of.
    pub(crate) fn set_policy(
        &mut self,
        operator: bool,
        name: &str,
        (pattern, apply_to): (&str, &str),
        definition: &[(&str, Value)],
    ) -> Vec<Warning> {
        let spec = PolicySpec {
            name: Name::from(name),
            pattern,
            priority: 0,
            apply_to,
            definition: owned(definition),
        };
        let policy = Box::new(Policy::new(operator, spec).unwrap());
        match self.apply(Command::Topology(TopologyCommand::PolicySet {
            operator,
            policy,
        })) {
            Reply::PolicySet { warnings, .. } => warnings,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn no_policy(&mut self, name: &str) {
        self.apply(Command::Topology(TopologyCommand::PolicyDelete {
            operator: false,
            name: Name::from(name),
        }));
    }

    /// Publishes to a queue and says what became of it.
    pub(crate) fn publish(&mut self, queue: &str, message: &Draft) -> PublishOutcome {
        self.publish_to("", queue, message)
    }

    pub(crate) fn publish_to(
        &mut self,
        exchange: &str,
        key: &str,
        message: &Draft,
    ) -> PublishOutcome {
        self.next_token += 1;
        let token = self.next_token;
        self.apply(Command::Publish(message.post(exchange, key, token)));
        let at = self
            .others
            .iter()
            .position(|e| matches!(e, Effect::Published { token: t, .. } if *t == token));
        match self.others.remove(at.expect("a publish is answered")) {
            Effect::Published { outcome, .. } => outcome,
            _ => unreachable!(),
        }
    }

    /// Publishes messages with these bodies.
    pub(crate) fn publish_all(&mut self, queue: &str, bodies: &[&str]) {
        for body in bodies {
            assert_eq!(self.publish(queue, &draft(body)), PublishOutcome::Accepted);
        }
    }

    pub(crate) fn consumer(&mut self, id: u64, queue: &str) -> ConsumerId {
        let reply = self.consume(id, queue, |_| {});
        assert!(matches!(reply, Reply::Consuming { .. }), "{reply:?}");
        ConsumerId(id)
    }

    pub(crate) fn consume(
        &mut self,
        id: u64,
        queue: &str,
        adjust: impl FnOnce(&mut Consume),
    ) -> Reply {
        let mut consume = Consume {
            connection: CONNECTION,
            session: SESSION,
            consumer: ConsumerId(id),
            queue: Name::from(queue),
            settled: false,
            priority: 0,
            exclusive: false,
            passing: false,
            selector: None,
            timeout_ms: None,
            evidence: None,
            recovery: None,
        };
        adjust(&mut consume);
        self.apply(Command::Consume(consume))
    }

    /// Sets the cumulative credit of a consumer.
    pub(crate) fn credit(&mut self, consumer: ConsumerId, limit: u64) {
        self.apply(Command::ConsumerFlow {
            consumer,
            limit,
            drain: false,
        });
    }

    pub(crate) fn drain(&mut self, consumer: ConsumerId, limit: u64) {
        self.apply(Command::ConsumerFlow {
            consumer,
            limit,
            drain: true,
        });
    }

    /// Attaches a consumer, takes what is there, and gives the deliveries.
    pub(crate) fn take(&mut self, id: u64, queue: &str, limit: u64) -> Vec<Delivery> {
        let consumer = self.consumer(id, queue);
        self.credit(consumer, limit);
        self.taken(consumer)
    }

    /// Deliveries of a consumer since last asked.
    pub(crate) fn taken(&mut self, consumer: ConsumerId) -> Vec<Delivery> {
        let (taken, rest) = std::mem::take(&mut self.deliveries)
            .into_iter()
            .partition(|d| d.consumer == consumer);
        self.deliveries = rest;
        taken
    }

    pub(crate) fn settle(&mut self, delivery: &Delivery, outcome: Outcome) {
        self.apply(Command::Settle(Settle {
            consumer: delivery.consumer,
            position: delivery.position,
            outcome,
            confirm: None,
        }));
    }

    pub(crate) fn reject(&mut self, delivery: &Delivery) {
        self.settle(delivery, Outcome::Rejected { evidence: None });
    }

    pub(crate) fn fail(&mut self, delivery: &Delivery) {
        let outcome = Outcome::Modified {
            delivery_failed: true,
            undeliverable_here: false,
            annotations: None,
        };
        self.settle(delivery, outcome);
    }

    pub(crate) fn detach(&mut self, consumer: ConsumerId) {
        self.apply(Command::ConsumerDetach { consumer });
    }

    pub(crate) fn info(&mut self, queue: &str) -> QueueInfo {
        match self.apply(Command::Queue(QueueCommand::Get {
            name: Name::from(queue),
        })) {
            Reply::Queue(info) => *info,
            other => panic!("{other:?}"),
        }
    }

    /// Ready, held and waiting dead.
    pub(crate) fn counts(&mut self, queue: &str) -> (u64, u64, u64) {
        let info = self.info(queue);
        (
            info.messages_ready,
            info.messages_unacknowledged,
            info.messages_dead_pending,
        )
    }

    /// Takes all messages of a queue, and accepts them: their bodies.
    pub(crate) fn bodies(&mut self, queue: &str) -> Vec<String> {
        let id = 1_000_000 + self.next_token;
        self.next_token += 1;
        let taken = self.take(id, queue, u64::MAX);
        let bodies = taken.iter().map(body_of).collect();
        for delivery in &taken {
            self.settle(delivery, Outcome::Accepted);
        }
        self.detach(ConsumerId(id));
        bodies
    }

    pub(crate) fn dropped(&self, queue: &str, cause: DropCause) -> u64 {
        self.core
            .queue(queue)
            .map_or(0, |queue| queue.counters.drops.of(cause))
    }
}

impl Consume {
    /// Makes it a consumer of another connection.
    pub(crate) const fn of(&mut self, connection: ConnectionId, session: SessionId) {
        self.connection = connection;
        self.session = session;
    }
}

fn owned(arguments: &[(&str, Value)]) -> Vec<(Name, Value)> {
    arguments
        .iter()
        .map(|(name, value)| (Name::from(*name), value.clone()))
        .collect()
}

/// A message to build: header fields, properties, one data section.
#[derive(Clone, Default)]
pub(crate) struct Draft {
    pub(crate) body: Vec<u8>,
    pub(crate) durable: bool,
    pub(crate) priority: Option<u8>,
    pub(crate) ttl_ms: Option<u32>,
    pub(crate) absolute_expiry: Option<i64>,
    pub(crate) delivery_time: Option<DeliveryTime>,
    /// The properties group-id and group-sequence.
    pub(crate) group: Option<(String, u32)>,
}

pub(crate) fn draft(body: &str) -> Draft {
    Draft {
        body: body.as_bytes().to_vec(),
        durable: true,
        ..Draft::default()
    }
}

impl Draft {
    /// The message as one that is published.
    pub(crate) fn post(&self, exchange: &str, key: &str, token: u64) -> Publish {
        let keys = Arc::from([Name::from(key)]);
        Publish {
            connection: CONNECTION,
            publisher: PublisherId(1),
            token,
            target: Target::Named,
            route: Arc::new(Route {
                exchange: Name::from(exchange),
                keys,
            }),
            message: Arc::new(self.build()),
            settled: false,
            forbidden: None,
            delivery_time: self.delivery_time,
        }
    }

    pub(crate) fn ttl(mut self, ttl_ms: u32) -> Self {
        self.ttl_ms = Some(ttl_ms);
        self
    }

    pub(crate) fn priority(mut self, priority: u8) -> Self {
        self.priority = Some(priority);
        self
    }

    pub(crate) fn group(mut self, id: &str) -> Self {
        self.group = Some((id.to_owned(), 0));
        self
    }

    /// The last message of its group.
    pub(crate) fn ends(mut self, id: &str) -> Self {
        self.group = Some((id.to_owned(), u32::MAX));
        self
    }

    /// Delivered so many milliseconds after its arrival.
    pub(crate) fn after(mut self, delay_ms: u64) -> Self {
        self.delivery_time = Some(DeliveryTime::After(delay_ms));
        self
    }

    /// Delivered at this time of the wall clock.
    pub(crate) fn at(mut self, wall_ms: i64) -> Self {
        self.delivery_time = Some(DeliveryTime::At(Timestamp(wall_ms)));
        self
    }

    pub(crate) fn expires_at(mut self, wall_ms: i64) -> Self {
        self.absolute_expiry = Some(wall_ms);
        self
    }

    /// Encodes the transfer payload by hand. [AMQP 3.2]
    pub(crate) fn build(&self) -> Message {
        let mut header = vec![if self.durable { 0x41 } else { 0x42 }];
        match self.priority {
            Some(priority) => header.extend([0x50, priority]),
            None => header.push(0x40),
        }
        if let Some(ttl_ms) = self.ttl_ms {
            header.push(0x70);
            header.extend(ttl_ms.to_be_bytes());
        }
        let mut payload = section(0x70, if self.ttl_ms.is_some() { 3 } else { 2 }, &header);
        let mut properties = vec![0x40; 8];
        if let Some(expiry) = self.absolute_expiry {
            properties.push(0x83);
            properties.extend(expiry.to_be_bytes());
        } else {
            properties.push(0x40);
        }
        if let Some((group, sequence)) = &self.group {
            properties.extend([0x40, 0xa1, u8::try_from(group.len()).unwrap()]);
            properties.extend(group.as_bytes());
            properties.push(0x70);
            properties.extend(sequence.to_be_bytes());
            payload.extend(section(0x73, 12, &properties));
        } else if self.absolute_expiry.is_some() {
            payload.extend(section(0x73, 9, &properties));
        }
        payload.extend([0x00, 0x53, 0x75, 0xb0]);
        payload.extend(u32::try_from(self.body.len()).unwrap().to_be_bytes());
        payload.extend(&self.body);
        Message::from_transfer(Bytes::from(payload), KeyRule::default()).unwrap()
    }
}

fn section(descriptor: u8, count: u8, fields: &[u8]) -> Vec<u8> {
    let size = u8::try_from(fields.len() + 1).unwrap();
    let mut bytes = vec![0x00, 0x53, descriptor, 0xc0, size, count];
    bytes.extend(fields);
    bytes
}

/// The body of a delivered message, as text.
pub(crate) fn body_of(delivery: &Delivery) -> String {
    let body = delivery.message.body();
    let data = body.get(8..).unwrap_or_default();
    String::from_utf8(data.to_vec()).unwrap()
}

pub(crate) fn text(value: &str) -> Value {
    Value::String(value.to_owned())
}

pub(crate) fn number(value: u64) -> Value {
    Value::Ulong(value)
}
