//! A core of its own, without clients, journal or clock, in which a message can be tried.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::base::{
    ConnectionId, ConsumerId, Millis, Name, Now, Position, PublisherId, Seed, SessionId, Timestamp,
};
use crate::broker::arguments::{OnUndeliverable, Overflow};
use crate::broker::queue::Queue;
use crate::broker::{
    Command, Consume, Core, CoreOptions, Effect, Effects, Error, Outcome, Publish, QueueCommand,
    Reply, Settle, Target, TopologyCommand, Undeliverable, UpkeepCommand,
};
use crate::deaths::Reason;
use crate::management::definitions::StandIn;
use crate::message::{KeyRule, Message, Route};

use crate::base::limits::{LINT_FAILURES_MAX, LINT_FILLING_MAX};

const CONNECTION: ConnectionId = ConnectionId(1);
const SESSION: SessionId = SessionId(1);
const PUBLISHER: PublisherId = PublisherId(1);
/// A message without properties: `amqp-value` null. [AMQP 3.2.8]
const MESSAGE: &[u8] = &[0x00, 0x53, 0x77, 0x40];
/// Slices of work that one request may leave over.
const SLICES_MAX: usize = 100_000;

/// What exists where the definitions come from and this broker does not run: in the core there is a
/// stand-in for each, of which nothing may be claimed but that it is there.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Strangers {
    /// Queues, and their types.
    pub(super) queues: BTreeMap<Name, Name>,
    /// Exchanges, and their types.
    pub(super) exchanges: BTreeMap<Name, Name>,
}

impl Strangers {
    pub(super) fn has_queue(&self, name: &Name) -> bool {
        self.queues.contains_key(name)
    }

    pub(super) fn has_exchange(&self, name: &Name) -> bool {
        self.exchanges.contains_key(name)
    }
}

/// A core that has a topology, and nobody but us.
#[derive(Debug)]
pub struct Sandbox {
    core: Core,
    strangers: Arc<Strangers>,
    effects: Effects,
    now: Now,
    consumers: u64,
}

impl Sandbox {
    /// A vhost with what every vhost has. `undeliverable`: what happens to dead letters without a
    /// target where nothing else says so.
    pub fn new(vhost: Name, undeliverable: OnUndeliverable) -> Self {
        let mut options = CoreOptions::new(vhost, Seed(1));
        options.journal = false;
        options.undeliverable = Undeliverable {
            choice: undeliverable,
            ..Undeliverable::default()
        };
        let mut sandbox = Self {
            core: Core::new(options),
            strangers: Arc::default(),
            effects: Effects::new(),
            now: Now::new(Millis(1), Timestamp(0)),
            consumers: 0,
        };
        sandbox.apply(Command::ConnectionOpen {
            connection: CONNECTION,
            user: Name::from("lint"),
            client: Name::default(),
            limit_bytes: u64::MAX,
        });
        sandbox.apply(Command::SessionOpen {
            connection: CONNECTION,
            session: SESSION,
            limit: u64::MAX,
        });
        sandbox
    }

    /// Carries out a declaration.
    ///
    /// Errors: what the broker would answer.
    pub fn declare(&mut self, command: Command) -> Result<(), Error> {
        match self.apply(command) {
            Reply::Refused(error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Declares a stand-in for something of a kind that this broker does not have. What is there already
    /// stays; one that cannot be declared is left out.
    pub(super) fn stand_in(&mut self, stand_in: StandIn) {
        let StandIn { kind, command, .. } = stand_in;
        let strangers = Arc::make_mut(&mut self.strangers);
        match &command {
            Command::Queue(QueueCommand::Declare { name, .. }) => {
                if self.core.queue(name).is_some() {
                    return;
                }
                strangers.queues.insert(name.clone(), kind);
            }
            Command::Topology(TopologyCommand::ExchangeDeclare { name, .. }) => {
                if self.core.router().exchange_named(name).is_some() {
                    return;
                }
                strangers.exchanges.insert(name.clone(), kind);
            }
            _ => {}
        }
        self.apply(command);
    }

    /// What there are only stand-ins for.
    pub(super) const fn strangers(&self) -> &Arc<Strangers> {
        &self.strangers
    }

    /// Sets the type of queues that are declared without one.
    pub fn default_queue_type(&mut self, queue_type: Option<Name>) {
        self.apply(Command::Upkeep(UpkeepCommand::VhostSettings {
            queues_max: None,
            default_queue_type: queue_type,
        }));
    }

    /// The core with its topology.
    pub const fn core(&self) -> &Core {
        &self.core
    }

    fn apply(&mut self, command: Command) -> Reply {
        let reply = self.core.apply(self.now, command, &mut self.effects);
        self.settle_down();
        reply
    }

    /// Does the work that is left, as the timers of a broker would.
    fn settle_down(&mut self) {
        for _ in 0..SLICES_MAX {
            if !self.core.has_work() {
                break;
            }
            self.effects.meter = crate::base::Meter::default();
            self.core.tick(self.now, 256, &mut self.effects);
        }
        // Deliveries are looked for in the queue itself.
        self.effects.clear();
        self.effects.meter = crate::base::Meter::default();
    }

    /// Publishes a message; whether a queue took it.
    pub(super) fn publish(&mut self, exchange: &Name, key: &Name) -> bool {
        let Ok(message) = Message::from_transfer(Bytes::from_static(MESSAGE), KeyRule::default())
        else {
            return false;
        };
        let publish = Publish {
            connection: CONNECTION,
            publisher: PUBLISHER,
            token: 1,
            target: Target::Named,
            route: Arc::new(Route {
                exchange: exchange.clone(),
                keys: Arc::from([key.clone()]),
            }),
            message: Arc::new(message),
            settled: true,
            forbidden: None,
            delivery_time: None,
        };
        self.apply(Command::Publish(publish));
        self.core.queues().any(|queue| queue.messages.live() > 0)
    }

    /// Lets the oldest message of a queue die; whether that could be done.
    pub(super) fn die(&mut self, queue: &Name, reason: Reason) -> bool {
        match reason {
            Reason::Rejected => self.deliver(queue, Outcome::Rejected { evidence: None }),
            Reason::DeliveryLimit => self.fail(queue),
            Reason::Expired => self.expire(queue),
            Reason::Maxlen => self.push_out(queue),
        }
    }

    /// A consumer without credit; none if the queue refuses it.
    fn attach(&mut self, queue: &Name) -> Option<ConsumerId> {
        self.consumers += 1;
        let consumer = ConsumerId(self.consumers);
        let reply = self.core.apply(
            self.now,
            Command::Consume(Consume {
                connection: CONNECTION,
                session: SESSION,
                consumer,
                queue: queue.clone(),
                settled: false,
                priority: 0,
                exclusive: false,
                // An auto-delete queue stays.
                passing: true,
                selector: None,
                evidence: None,
                recovery: None,
                timeout_ms: None,
            }),
            &mut self.effects,
        );
        (!matches!(reply, Reply::Refused(_))).then_some(consumer)
    }

    /// Delivers the oldest message of a queue, and settles it.
    fn deliver(&mut self, queue: &Name, outcome: Outcome) -> bool {
        let Some(consumer) = self.attach(queue) else {
            return false;
        };
        let flow = Command::ConsumerFlow {
            consumer,
            limit: 1,
            drain: false,
        };
        self.core.apply(self.now, flow, &mut self.effects);
        let position = self.delivered(consumer);
        if let Some(position) = position {
            self.apply(Command::Settle(Settle {
                consumer,
                position,
                outcome,
                confirm: None,
            }));
        }
        self.apply(Command::ConsumerDetach { consumer });
        position.is_some()
    }

    fn delivered(&mut self, consumer: ConsumerId) -> Option<Position> {
        for _ in 0..SLICES_MAX {
            let mut outgoing = self.effects.outgoing.drain(..);
            let found = outgoing.find_map(|(_, effect)| match effect {
                Effect::Deliver(delivery) if delivery.consumer == consumer => {
                    Some(delivery.position)
                }
                _ => None,
            });
            drop(outgoing);
            if found.is_some() || !self.core.has_work() {
                return found;
            }
            self.effects.meter = crate::base::Meter::default();
            self.core.tick(self.now, 256, &mut self.effects);
        }
        None
    }

    fn fail(&mut self, queue: &Name) -> bool {
        let limit = self.core.queue(queue).and_then(limit_of_deliveries);
        let Some(limit) = limit.filter(|limit| *limit < LINT_FAILURES_MAX) else {
            return false;
        };
        for _ in 0..=limit {
            let failed = Outcome::Modified {
                delivery_failed: true,
                undeliverable_here: false,
                annotations: None,
            };
            if !self.deliver(queue, failed) {
                return false;
            }
            let delay = self.core.queue(queue).and_then(next_delayed);
            if let Some(until) = delay {
                self.pass_until(until);
            }
        }
        true
    }

    fn expire(&mut self, queue: &Name) -> bool {
        let ttl_ms = self
            .core
            .queue(queue)
            .and_then(|queue| queue.settings.message_ttl_ms);
        let Some(ttl_ms) = ttl_ms else {
            return false;
        };
        let until = self.now.mono.plus(ttl_ms);
        self.pass_until(until);
        true
    }

    /// Lets somebody consume from each queue that expires, without credit: one that expired meanwhile
    /// would not be there for the next finding.
    fn keep_queues(&mut self) -> Vec<ConsumerId> {
        let queues = self.core.queues();
        let expiring = queues.filter(|queue| queue.settings.expires_ms.is_some());
        let expiring: Vec<Name> = expiring.map(|queue| queue.name.clone()).collect();
        let mut kept = Vec::new();
        for queue in &expiring {
            kept.extend(self.attach(queue));
        }
        kept
    }

    /// Lets time pass as far as this; only what is due then, and not what follows from it. Queues stay.
    fn pass_until(&mut self, until: Millis) {
        let kept = self.keep_queues();
        let ms = i64::try_from(until.since(self.now.mono)).unwrap_or(i64::MAX);
        let wall = Timestamp(self.now.wall.0.saturating_add(ms));
        self.now = Now::new(until.max(self.now.mono), wall);
        self.core.tick(self.now, 256, &mut self.effects);
        self.settle_down();
        for consumer in kept {
            self.apply(Command::ConsumerDetach { consumer });
        }
    }

    fn push_out(&mut self, queue: &Name) -> bool {
        let Some(found) = self.core.queue(queue) else {
            return false;
        };
        let settings = &found.settings;
        let limit = settings
            .max_length
            .filter(|limit| *limit < LINT_FILLING_MAX);
        let (Some(limit), Overflow::DropHead) = (limit, settings.overflow) else {
            return false;
        };
        let missing = (limit + 1).saturating_sub(found.messages.live());
        for _ in 0..missing {
            self.publish(&Name::from(""), queue);
        }
        true
    }

    /// Removes all messages.
    pub(super) fn clear(&mut self) {
        self.purge(|_| true);
    }

    /// Removes all messages from all queues but one.
    pub(super) fn keep_only(&mut self, queue: &Name) {
        self.purge(|name| name != queue);
    }

    fn purge(&mut self, wanted: impl Fn(&Name) -> bool) {
        let queues = self.core.queues();
        let holds = |queue: &&Queue| queue.messages.live() > 0 || !queue.pending.is_empty();
        let filled = queues.filter(|queue| holds(queue) && wanted(&queue.name));
        let filled: Vec<Name> = filled.map(|queue| queue.name.clone()).collect();
        for name in filled {
            self.apply(Command::Queue(QueueCommand::Purge {
                connection: None,
                name,
                with_dead_pending: true,
            }));
        }
    }
}

fn limit_of_deliveries(queue: &Queue) -> Option<u32> {
    queue.settings.delivery_limit
}

fn next_delayed(queue: &Queue) -> Option<Millis> {
    queue.messages.delayed().first_due().map(|(due, _)| due)
}
