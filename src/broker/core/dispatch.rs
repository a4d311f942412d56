//! Dispatch of commands to their handlers: each variant is matched, so a new one does not compile
//! until it is handled.
#![deny(clippy::wildcard_enum_match_arm)]

use super::{Core, Turn};
use crate::base::{ConnectionId, Name, Step};
use crate::broker::argument_value::check_weight;
use crate::broker::arguments::QueueProperties;
use crate::broker::exchange::{ExchangeKind, ExchangeSpec};
use crate::broker::recovery::LinkEnd;
use crate::broker::{
    Command, Effect, Error, ObjectKind, PublisherCommand, QueueCommand, Reply, TopologyCommand,
    UpkeepCommand,
};
use crate::deaths::How;

impl Core {
    #[inline]
    pub(super) fn handle(&mut self, turn: &mut Turn<'_>, command: Command) -> Reply {
        match command {
            Command::Publish(publish) => self.publish(turn, publish),
            Command::PublishKept(kept) => self.publish_kept(turn, *kept),
            Command::Commit(commit) => self.commit(turn, commit),
            Command::Settle(settle) => self.settle(turn, settle),
            Command::SettleRun(run) => self.settle_run(turn, &run),
            Command::ConsumerFlow {
                consumer,
                limit,
                drain,
            } => self.consumer_flow(turn, consumer, limit, drain),
            Command::ConsumerEcho(of, consumer) => self.consumer_echo(turn, of, consumer),
            Command::ConnectionRoom {
                connection,
                limit_bytes,
            } => {
                self.connection_room(turn, connection, limit_bytes);
            }
            Command::SessionFlow { session, limit } => self.session_flow(session, limit),
            Command::Discard {
                consumer,
                position,
                cause,
            } => self.discard(turn, (consumer, position), cause),
            Command::ReturnUnsent { consumer, position } => {
                self.return_unsent(turn, consumer, position);
            }
            Command::ConnectionOpen {
                connection,
                client,
                limit_bytes,
                ..
            } => self.connection_open(turn, (connection, client), limit_bytes),
            Command::SessionOpen {
                connection,
                session,
                limit,
            } => {
                self.clients.begin(session, connection, limit);
                self.counters.sessions += 1;
            }
            Command::SessionEnd { session } => self.session_end(turn, session, How::SessionEnded),
            Command::ConnectionClose { connection } => self.connection_close(turn, connection),
            Command::ConsumerDetach { consumer } => {
                self.consumer_detach(turn, consumer, None, LinkEnd::Closed);
            }
            Command::ConsumerSuspend { consumer } => {
                self.consumer_detach(turn, consumer, None, LinkEnd::Detached);
            }
            Command::Publisher(command) => self.handle_publisher(turn, command),
            Command::Consume(consume) => return self.consume(turn, consume),
            Command::Subscribe(subscribe) => return self.subscribe(turn, *subscribe),
            Command::Browse(browse) => return self.browse_attach(browse),
            Command::Queue(command) => {
                return self
                    .handle_queue(turn, command)
                    .unwrap_or_else(Reply::Refused);
            }
            Command::Topology(command) => {
                return self
                    .handle_topology(turn, command)
                    .unwrap_or_else(Reply::Refused);
            }
            Command::Redrive(command) => return self.handle_redrive(turn, command),
            Command::Upkeep(command) => self.handle_upkeep(turn, command),
        }
        Reply::None
    }

    fn connection_open(
        &mut self,
        turn: &mut Turn<'_>,
        (connection, client): (ConnectionId, Name),
        limit_bytes: u64,
    ) {
        self.clients.connect(connection, client, limit_bytes);
        if self.alarm {
            let alarm = Effect::Alarm { raised: true };
            turn.effects.outgoing.push((connection, alarm));
        }
    }

    /// Handles what concerns the links of publishers.
    fn handle_publisher(&mut self, turn: &mut Turn<'_>, command: PublisherCommand) {
        match command {
            PublisherCommand::Follow {
                connection,
                publisher,
                queue,
            } => self.publisher_follow(connection, publisher, &queue),
            PublisherCommand::Leave {
                connection,
                publisher,
            } => self.publishers.leave(connection, publisher),
            PublisherCommand::Keep(link) => self.keep_publisher_link(*link),
            PublisherCommand::Forget { link } => self.forget_publisher_link(link),
            PublisherCommand::Tell {
                connection,
                publisher,
                news,
            } => turn.tell_publisher(connection, publisher, news),
        }
    }

    /// Handles work that the broker asks for itself, for no connection.
    fn handle_upkeep(&mut self, turn: &mut Turn<'_>, command: UpkeepCommand) {
        match command {
            UpkeepCommand::VhostSettings {
                queues_max,
                default_queue_type,
            } => (self.queues_max, self.default_queue_type) = (queues_max, default_queue_type),
            UpkeepCommand::Undeliverable(undeliverable) => self.set_undeliverable(undeliverable),
            UpkeepCommand::ConsumerTimeout(timeout_ms) => self.set_consumer_timeout(timeout_ms),
            UpkeepCommand::PagedIn(paged_in) => self.paged_in(turn, paged_in),
            UpkeepCommand::PageOut {
                bytes,
                written,
                spill,
            } => self.page_out(turn, bytes, written, spill),
            UpkeepCommand::Spilled {
                queue,
                block,
                lsn,
                written,
            } => self.spilled(turn, (queue, block), lsn, written),
            UpkeepCommand::BodyLooked {
                job,
                position,
                has_text,
            } => self.redrive_body_looked(job, position, has_text),
            UpkeepCommand::NotesSeen {
                queue,
                present,
                absent,
            } => self.notes_seen(turn.now, queue, (&present, &absent)),
            UpkeepCommand::UserDeleted { user } => {
                self.end_links_of(&user);
                self.forget_publisher_links_of(&user);
            }
            UpkeepCommand::WriteDeaths => self.write_all_deaths(turn),
            UpkeepCommand::Alarm { raised } => self.raise_alarm(turn, raised),
        }
    }

    fn handle_queue(&mut self, turn: &mut Turn<'_>, command: QueueCommand) -> Result<Reply, Error> {
        turn.effects.meter.charge(Step::Command, 1);
        match command {
            QueueCommand::Declare {
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
            QueueCommand::Delete {
                connection,
                name,
                if_unused,
                if_empty,
            } => self.queue_delete(turn, connection, &name, if_unused, if_empty),
            QueueCommand::Purge {
                connection,
                name,
                with_dead_pending,
            } => self.queue_purge(turn, connection, &name, with_dead_pending),
            QueueCommand::Discard {
                connection,
                name,
                position,
            } => self.queue_discard(turn, connection, &name, position),
            QueueCommand::Retry {
                connection,
                name,
                count,
            } => self.queue_retry(turn, connection, &name, count),
            QueueCommand::Import {
                name,
                message,
                route,
                line,
            } => self.queue_import(turn, &name, (message, route), line),
            QueueCommand::NoteGroup { name, key, note } => {
                self.note_group(turn.now, (name, key), note)
            }
            QueueCommand::ImportBegin { name, id } => self.import_begin(turn.now, &name, &id),
            QueueCommand::Get { name } => self.queue_get(&name),
        }
    }

    fn handle_topology(
        &mut self,
        turn: &mut Turn<'_>,
        command: TopologyCommand,
    ) -> Result<Reply, Error> {
        turn.effects.meter.charge(Step::Command, 1);
        match command {
            TopologyCommand::ExchangeResolve { name } => self.exchange_resolve(&name),
            TopologyCommand::ExchangeDeclare {
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
            TopologyCommand::TemporaryTopic { connection, name } => {
                self.temporary_topic(turn, connection, &name)
            }
            TopologyCommand::ExchangeDelete {
                connection,
                name,
                if_unused,
            } => self.exchange_delete(connection, &name, if_unused),
            TopologyCommand::Bind {
                connection,
                source,
                destination,
                key,
                arguments,
            } => {
                check_weight(&arguments)?;
                self.bind(connection, (&source, &destination, &key, arguments))
            }
            TopologyCommand::Unbind {
                connection,
                source,
                destination,
                key,
                arguments,
            } => self.unbind(connection, (&source, &destination, &key, arguments)),
            TopologyCommand::BindingsGet { of, after } => {
                let slice = self.router.bindings_slice(&of, after.as_deref());
                turn.effects.meter.charge(Step::Object, slice.found.len());
                Ok(Reply::Bindings(Box::new(slice)))
            }
            TopologyCommand::PolicySet { operator, policy } => {
                self.policy_set(turn, operator, policy)
            }
            TopologyCommand::PolicyDelete { operator, name } => self.policy_delete(operator, name),
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
        if !raised {
            self.wake_redrives_behind_alarm();
        }
    }

    pub(super) fn missing_queue(name: &Name) -> Error {
        Error::NotFound {
            kind: ObjectKind::Queue,
            name: name.clone(),
        }
    }
}
