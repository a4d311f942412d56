//! One match that shows all that can be asked.

use super::{Core, Turn};
use crate::base::{Name, Step};
use crate::broker::argument_value::check_weight;
use crate::broker::arguments::QueueProperties;
use crate::broker::exchange::{ExchangeKind, ExchangeSpec};
use crate::broker::{Command, Effect, Error, Kind, Reply};

impl Core {
    #[inline]
    pub(super) fn handle(&mut self, turn: &mut Turn<'_>, command: Command) -> Reply {
        match command {
            Command::Publish(publish) => self.publish(turn, publish),
            Command::Settle(settle) => self.settle(turn, settle),
            Command::SettleRun(run) => self.settle_run(turn, &run),
            Command::ConsumerFlow {
                consumer,
                limit,
                drain,
            } => {
                self.consumer_flow(consumer, limit, drain);
            }
            Command::ConnectionRoom {
                connection,
                limit_bytes,
            } => {
                self.connection_room(connection, limit_bytes);
            }
            Command::SessionFlow { session, limit } => self.session_flow(session, limit),
            Command::Lose {
                consumer,
                position,
                cause,
            } => self.lose(turn, (consumer, position), cause),
            Command::ReturnUnsent { consumer, position } => {
                self.return_unsent(turn, consumer, position);
            }
            Command::ConnectionOpen {
                connection,
                limit_bytes,
                ..
            } => {
                self.clients.connect(connection, limit_bytes);
                if self.alarm {
                    let alarm = Effect::Alarm { raised: true };
                    turn.effects.outgoing.push((connection, alarm));
                }
            }
            Command::SessionOpen {
                connection,
                session,
                limit,
            } => {
                self.clients.begin(session, connection, limit);
            }
            Command::SessionEnd { session } => self.session_end(turn, session),
            Command::ConnectionClose { connection } => self.connection_close(turn, connection),
            Command::ConsumerDetach { consumer } => self.consumer_detach(turn, consumer, false),
            Command::PublisherFollow {
                connection,
                publisher,
                queue,
            } => self.publisher_follow(connection, publisher, &queue),
            Command::PublisherLeave {
                connection,
                publisher,
            } => self.publishers.leave(connection, publisher),
            Command::Consume(consume) => return self.consume(consume),
            other => return self.handle_upkeep(turn, other),
        }
        Reply::None
    }

    /// What the broker asks for by itself, for no connection.
    fn handle_upkeep(&mut self, turn: &mut Turn<'_>, command: Command) -> Reply {
        match command {
            Command::VhostSettings {
                queues_max,
                default_queue_type,
            } => (self.queues_max, self.default_queue_type) = (queues_max, default_queue_type),
            Command::Loaded(loaded) => self.loaded(turn, loaded),
            Command::PageOut {
                bytes,
                written,
                spill,
            } => self.page_out(turn, bytes, written, spill),
            Command::Spilled {
                queue,
                block,
                lsn,
                written,
            } => self.spilled(turn, (queue, block), lsn, written),
            Command::Alarm { raised } => self.raise_alarm(turn, raised),
            other => {
                let answer = self.handle_queue(turn, other);
                return answer.unwrap_or_else(Reply::Refused);
            }
        }
        Reply::None
    }

    fn handle_queue(&mut self, turn: &mut Turn<'_>, command: Command) -> Result<Reply, Error> {
        turn.effects.meter.charge(Step::Command, 1);
        match command {
            Command::QueueDeclare {
                connection,
                name,
                durable,
                exclusive,
                auto_delete,
                arguments,
            } => {
                let properties = QueueProperties {
                    durable,
                    exclusive,
                    auto_delete,
                };
                check_weight(&arguments)?;
                self.queue_declare(turn, connection, &name, properties, &arguments)
            }
            Command::QueueDelete {
                connection,
                name,
                if_unused,
                if_empty,
            } => self.queue_delete(turn, connection, &name, if_unused, if_empty),
            Command::QueuePurge {
                connection,
                name,
                with_dead_pending,
            } => self.queue_purge(turn, connection, &name, with_dead_pending),
            Command::QueueGet { name } => self.queue_get(&name),
            other => self.handle_exchange(turn, other),
        }
    }

    fn handle_exchange(&mut self, turn: &mut Turn<'_>, command: Command) -> Result<Reply, Error> {
        match command {
            Command::ExchangeResolve { name } => self.exchange_resolve(&name),
            Command::ExchangeDeclare {
                name,
                kind,
                durable,
                auto_delete,
                internal,
                arguments,
            } => ExchangeKind::parse(&kind).and_then(|kind| {
                check_weight(&arguments)?;
                let spec = ExchangeSpec {
                    name,
                    kind,
                    durable,
                    auto_delete,
                    internal,
                    arguments,
                };
                self.exchange_declare(turn, spec)
            }),
            Command::ExchangeDelete { name, if_unused } => self.exchange_delete(&name, if_unused),
            Command::Bind {
                connection,
                source,
                destination,
                key,
                arguments,
            } => {
                check_weight(&arguments)?;
                self.bind(connection, (&source, &destination, &key, arguments))
            }
            Command::Unbind {
                connection,
                source,
                destination,
                key,
                arguments,
            } => self.unbind(connection, (&source, &destination, &key, arguments)),
            Command::BindingsGet { of, after } => {
                let slice = self.router.bindings_slice(&of, after.as_deref());
                turn.effects.meter.charge(Step::Object, slice.found.len());
                Ok(Reply::Bindings(Box::new(slice)))
            }
            Command::PolicySet { operator, policy } => Ok(self.policy_set(turn, operator, policy)),
            Command::PolicyDelete { operator, name } => self.policy_delete(operator, name),
            _ => Ok(Reply::None),
        }
    }

    fn raise_alarm(&mut self, turn: &mut Turn<'_>, raised: bool) {
        if self.alarm == raised {
            return;
        }
        self.alarm = raised;
        for connection in self.clients.connection_ids() {
            turn.effects
                .outgoing
                .push((connection, Effect::Alarm { raised }));
        }
    }

    pub(super) fn missing_queue(name: &Name) -> Error {
        Error::NotFound {
            kind: Kind::Queue,
            name: name.clone(),
        }
    }
}
