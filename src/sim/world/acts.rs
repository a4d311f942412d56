//! Carrying out each step of a run, in the core and in the model.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::World;
use crate::base::{ConnectionId, ConsumerId, Lsn, Name, QueueId, SessionId};
use crate::broker::{
    Command, Consume, DropCause, Effect, Publish, PublishOutcome, QueueCommand, Reply, Settle,
    TopologyCommand,
};
use crate::deaths::Evidence;
use crate::sim::model::{ModelConsumer, ModelQueue, Scene};
use crate::sim::plan::PlannedStep;

/// LSNs of streamed bodies: unlike those of records and of spilled pieces.
const FIRST_BLOB: u64 = 1 << 62;
/// One message in this many has a streamed body.
const BLOB_ONE_IN: u64 = 6;

impl World {
    pub(super) fn act(&mut self, step: PlannedStep) {
        match step {
            PlannedStep::Pass(ms) => self.pass(ms),
            PlannedStep::Consume {
                queue,
                settled,
                timeout_ms,
            } => self.consume(queue, settled, timeout_ms),
            PlannedStep::Credit {
                consumer,
                more,
                drain,
            } => self.credit(consumer, more, drain),
            PlannedStep::Detach(consumer) => {
                self.apply(Command::ConsumerDetach { consumer });
                self.forget_consumer(consumer, false);
            }
            PlannedStep::Reconnect => self.reconnect(),
            PlannedStep::Settle {
                consumer,
                position,
                outcome,
            } => {
                let settle = Settle {
                    consumer,
                    position,
                    outcome: outcome.clone(),
                    confirm: None,
                };
                self.apply(Command::Settle(settle));
                if let Some(&queue) = self.reads.get(&consumer) {
                    let scene = Scene {
                        now: self.now,
                        core: &self.core,
                    };
                    self.model
                        .settle(scene, queue, position, consumer, &outcome);
                }
            }
            PlannedStep::Plain(command) => self.plain(*command),
        }
        self.run_model();
        let model = &self.model;
        self.reads
            .retain(|_, queue| model.queues.contains_key(queue));
        let reads = &self.reads;
        self.plan
            .consumers
            .retain(|consumer| reads.contains_key(consumer));
    }

    pub(super) fn connect(&mut self) {
        (self.connection, self.session) = (ConnectionId(self.next_id), SessionId(self.next_id));
        self.next_id += 1;
        let (connection, session) = (self.connection, self.session);
        let user = Name::from("sim");
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

    fn reconnect(&mut self) {
        self.apply(Command::ConnectionClose {
            connection: self.connection,
        });
        let consumers: Vec<_> = self.reads.keys().copied().collect();
        for consumer in consumers {
            self.forget_consumer(consumer, true);
        }
        self.run_model();
        self.connect();
    }

    fn forget_consumer(&mut self, consumer: ConsumerId, failed: bool) {
        if let Some(queue) = self.reads.remove(&consumer) {
            let scene = Scene {
                now: self.now,
                core: &self.core,
            };
            self.model.detach(scene, queue, consumer, failed);
        }
    }

    fn consume(&mut self, queue: Name, settled: bool, timeout_ms: Option<u32>) {
        let consumer = ConsumerId(self.next_id);
        self.next_id += 1;
        let (connection, session) = (self.connection, self.session);
        let (priority, exclusive) = (0, false);
        let reply = self.apply(Command::Consume(Consume {
            connection,
            session,
            consumer,
            queue,
            settled,
            priority,
            exclusive,
            passing: false,
            selector: None,
            timeout_ms,
            evidence: Some(Arc::new(Evidence::of_consumer(
                &Name::from(format!("container-{}", consumer.0)),
                "link",
                None,
                None,
            ))),
            recovery: None,
        }));
        let Reply::Consuming { queue, .. } = reply else {
            return;
        };
        self.reads.insert(consumer, queue);
        self.plan.consumers.push(consumer);
        if let Some(queue) = self.model.queues.get_mut(&queue) {
            let (id, limit, assigned, draining) = (consumer, 0, 0, false);
            queue.consumers.push(ModelConsumer {
                id,
                limit,
                assigned,
                draining,
                timeout_ms: if settled { Some(0) } else { timeout_ms },
                timed_out: 0,
            });
            queue.choose_active();
        }
    }

    fn credit(&mut self, consumer: ConsumerId, more: u64, drain: bool) {
        let Some(&queue) = self.reads.get(&consumer) else {
            return;
        };
        let Some(queue) = self.model.queues.get_mut(&queue) else {
            return;
        };
        let Some(state) = queue.consumers.iter_mut().find(|c| c.id == consumer) else {
            return;
        };
        state.limit = state.limit.max(state.assigned) + more;
        state.draining |= drain;
        let limit = state.limit;
        self.apply(Command::ConsumerFlow {
            consumer,
            limit,
            drain,
        });
        if let Some(&queue) = self.reads.get(&consumer) {
            self.model.schedule(queue);
        }
    }

    fn plain(&mut self, command: Command) {
        match command {
            Command::Publish(publish) => self.publish(publish),
            Command::Queue(QueueCommand::Delete { .. }) => {
                let before: Vec<_> = self.model.queues.keys().copied().collect();
                self.apply(command);
                self.queues_gone(&before);
            }
            Command::Queue(QueueCommand::Purge {
                ref name,
                with_dead_pending,
                ..
            }) => {
                let id = self.core.queue(name).map(|queue| queue.id);
                self.apply(command);
                if let Some(id) = id {
                    self.model.purge(id, with_dead_pending);
                }
            }
            Command::Queue(QueueCommand::Retry {
                connection,
                name,
                count,
            }) => {
                // Few queues have messages that wait: one of these, if there is one.
                let name = self.model.delaying().map_or(name, Name::from);
                let id = self.core.queue(&name).map(|queue| queue.id);
                let reply = self.apply(Command::Queue(QueueCommand::Retry {
                    connection,
                    name,
                    count,
                }));
                if let (Some(id), Reply::Retried { messages, .. }) = (id, reply) {
                    self.model.retry_delayed(id, count, messages);
                }
            }
            Command::Queue(QueueCommand::Declare { auto_delete, .. }) => {
                let reply = self.apply(command);
                if let Reply::QueueDeclared {
                    created: true,
                    info,
                    ..
                } = reply
                {
                    self.queue_made(info.id, &info.name, auto_delete);
                }
            }
            Command::Topology(
                TopologyCommand::PolicySet { .. } | TopologyCommand::PolicyDelete { .. },
            ) => {
                let refused = matches!(self.apply(command), Reply::Refused(_));
                if !refused {
                    self.model.policies_changed();
                }
            }
            other => {
                let generation = self.core.router().generation();
                self.apply(other);
                if self.core.router().generation() != generation {
                    self.model.retry_all();
                }
            }
        }
    }

    /// Puts the body of the message into the journal before, some of the time.
    fn write_blob(&mut self, publish: &mut Publish) {
        let random = self.blob_random.as_mut();
        if !random.is_some_and(|random| random.one_in(BLOB_ONE_IN)) {
            return;
        }
        self.blob_count += 1;
        let name = Lsn(FIRST_BLOB + self.blob_count);
        if let Some(message) = publish.message.with_blob(Arc::new(name)) {
            self.archive.add_body(name, publish.message.bare_bytes());
            publish.message = Arc::new(message);
        }
    }

    fn publish(&mut self, mut publish: Publish) {
        self.write_blob(&mut publish);
        let (message, route) = (publish.message.clone(), publish.route.clone());
        let delivery_time = publish.delivery_time;
        let exchange = self
            .core
            .router()
            .exchange_named(&route.exchange)
            .map(|x| x.id);
        let mut targets = Vec::new();
        if let Some(exchange) = exchange {
            self.core
                .router()
                .route(exchange, &route, &message, 0, &mut targets);
        }
        self.carry_out(Command::Publish(publish));
        self.settle_down();
        let outcome = self
            .effects
            .outgoing
            .iter()
            .find_map(|(_, effect)| match effect {
                Effect::Published { outcome, .. } => Some(outcome.clone()),
                _ => None,
            });
        self.collect();
        let scene = Scene {
            now: self.now,
            core: &self.core,
        };
        let all = self
            .model
            .publish(scene, (&message, delivery_time), &route, &targets);
        let expected = match (exchange, targets.is_empty(), all) {
            (None, _, _) => matches!(outcome, Some(PublishOutcome::NoExchange { .. })),
            (_, true, _) => matches!(outcome, Some(PublishOutcome::Unroutable)),
            (_, _, true) => matches!(outcome, Some(PublishOutcome::Accepted)),
            (_, _, false) => matches!(outcome, Some(PublishOutcome::QueueFull { .. })),
        };
        if !expected {
            self.model
                .complaints
                .push(format!("publish: {outcome:?}, all took it: {all}"));
        }
    }

    fn queue_made(&mut self, id: QueueId, name: &Name, auto_delete: bool) {
        let Some(real) = self.core.queue(name) else {
            return;
        };
        let queue = ModelQueue {
            name: name.to_string(),
            settings: real.settings.clone(),
            messages: Vec::new(),
            consumers: Vec::new(),
            active: None,
            places: BTreeMap::new(),
            run: 0,
            grown: false,
            scheduled: false,
            unused_since_ms: self.now.mono.0,
            auto_delete,
        };
        self.model.queues.insert(id, queue);
        self.model.schedule(id);
        self.model.retry_all();
    }

    fn queues_gone(&mut self, before: &[QueueId]) {
        let cause = DropCause::QueueDeleted;
        for id in before {
            if !self.core.queues().any(|queue| queue.id == *id) {
                self.model.remove_queue(*id, cause);
            }
        }
    }
}
