//! Typed operations: permissions are checked, then the core carries them out.

use crate::access::Right;
use crate::base::limits::{LISTING_SLICE, LISTING_SLICE_BYTES};
use crate::base::{Lsn, Name, Now, Position};
use crate::broker::binding::Binding;
use crate::broker::exchange::ExchangeKind;
use crate::broker::names::check_new_name;
use crate::broker::router::{BindingSlice, BindingsOf};
use crate::broker::{
    Command, Core, Destination, Effects, Matching, ObjectKind, QueueCommand, QueueInfo, Reply,
    TopologyCommand, Warning,
};
use crate::wire::Value;

use super::Caller;
use super::body::{BindingBody, ExchangeBody, QueueBody};
use super::path::{BindingPath, BindingsQuery};
use super::refusal::{Refusal, Status};
use super::token::binding_token;

/// The operations of one caller on one vhost.
#[derive(Debug)]
pub struct Operations<'a> {
    /// The time of the operation.
    pub now: Now,
    /// The client that asks.
    pub caller: &'a Caller<'a>,
    /// The core of the vhost.
    pub core: &'a mut Core,
    /// Collects the effects on connections and the journal.
    pub effects: &'a mut Effects,
}

/// The conditions of a deletion; none by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeleteIf {
    /// Refuse if it has consumers, or bindings.
    pub unused: bool,
    /// Refuse if it has messages.
    pub empty: bool,
}

/// The result of declaring a queue.
#[derive(Debug)]
pub struct DeclaredQueue {
    /// Whether the declaration created it.
    pub created: bool,
    /// The queue's properties and message counts.
    pub info: Box<QueueInfo>,
    /// The record that must be durable before the answer.
    pub lsn: Lsn,
    /// Arguments that will probably not do what was meant.
    pub warnings: Vec<Warning>,
}

/// The result of declaring an exchange.
#[derive(Debug)]
pub struct DeclaredExchange {
    /// Whether the declaration created it.
    pub created: bool,
    /// The record that must be durable before the answer.
    pub lsn: Lsn,
    /// Arguments that will probably not do what was meant.
    pub warnings: Vec<Warning>,
}

/// The result of removing a binding.
#[derive(Debug)]
pub enum Unbound {
    /// The binding does not exist, once this record is durable.
    Done(Lsn),
    /// The binding may be behind this one: call again with it.
    NotYet(Binding),
}

impl Operations<'_> {
    /// Searches the policies of an object that is about to be declared: to be called until it is
    /// done, each time under a hold of its own; then the object is declared under the last one; see
    /// [`Core::match_policies`].
    pub fn match_policies(
        &mut self,
        (kind, name): (ObjectKind, &Name),
        begun: &mut Option<Box<Matching>>,
    ) -> bool {
        // The search is not done for users who may not declare the object.
        let permissions = &self.caller.permissions;
        let ns = permissions.allow_ns(Right::Configure, name);
        self.effects.meter.charge_ns(ns);
        let may = permissions.allow(Right::Configure, name);
        !may || (self.core).match_policies((kind, name), begun, &mut self.effects.meter)
    }

    /// Declares a queue. Permissions: configure on it; when it is new and has a
    /// dead-letter-exchange, read on it and write on that exchange.
    pub fn declare_queue(
        &mut self,
        name: &Name,
        body: QueueBody,
    ) -> Result<DeclaredQueue, Refusal> {
        self.require(Right::Configure, ObjectKind::Queue, name)?;
        check_new_name(ObjectKind::Queue, name)?;
        if let Some(exchange) = text_argument(&body.arguments, "x-dead-letter-exchange")
            && self.queue(name).is_err()
        {
            self.require(Right::Read, ObjectKind::Queue, name)?;
            self.require(Right::Write, ObjectKind::Exchange, exchange)?;
        }
        let reply = self.apply(Command::Queue(QueueCommand::Declare {
            connection: Some(self.caller.connection),
            name: name.clone(),
            durable: body.durable,
            exclusive: body.exclusive,
            auto_delete: body.auto_delete,
            arguments: body.arguments,
        }))?;
        match reply {
            Reply::QueueDeclared {
                created,
                lsn,
                info,
                warnings,
            } => Ok(DeclaredQueue {
                created,
                info,
                lsn,
                warnings,
            }),
            other => Err(unexpected(&other)),
        }
    }

    /// Describes a queue. No permission is needed (as RabbitMQ).
    pub fn queue(&mut self, name: &Name) -> Result<Box<QueueInfo>, Refusal> {
        match self.apply(Command::Queue(QueueCommand::Get { name: name.clone() }))? {
            Reply::Queue(info) => Ok(info),
            other => Err(unexpected(&other)),
        }
    }

    /// Drops the ready messages of a queue; returns their number. Permission: read.
    pub fn purge_queue(&mut self, name: &Name) -> Result<(u64, Lsn), Refusal> {
        self.require(Right::Read, ObjectKind::Queue, name)?;
        let reply = self.apply(Command::Queue(QueueCommand::Purge {
            connection: Some(self.caller.connection),
            name: name.clone(),
            with_dead_pending: false,
        }))?;
        match reply {
            Reply::Purged { messages, lsn } => Ok((messages, lsn)),
            other => Err(unexpected(&other)),
        }
    }

    /// Drops the ready message at a position of a queue; returns the record of it. Permission: read,
    /// as for a purge.
    pub fn discard(&mut self, name: &Name, position: Position) -> Result<Lsn, Refusal> {
        self.require(Right::Read, ObjectKind::Queue, name)?;
        let reply = self.apply(Command::Queue(QueueCommand::Discard {
            connection: Some(self.caller.connection),
            name: name.clone(),
            position,
        }))?;
        match reply {
            Reply::Purged { lsn, .. } => Ok(lsn),
            other => Err(unexpected(&other)),
        }
    }

    /// Deletes a queue, without an error if it does not exist; returns the number of its ready
    /// messages. Permission: configure.
    pub fn delete_queue(&mut self, name: &Name, only: DeleteIf) -> Result<(u64, Lsn), Refusal> {
        self.require(Right::Configure, ObjectKind::Queue, name)?;
        let reply = self.apply(Command::Queue(QueueCommand::Delete {
            connection: Some(self.caller.connection),
            name: name.clone(),
            if_unused: only.unused,
            if_empty: only.empty,
        }))?;
        match reply {
            Reply::QueueDeleted { messages, lsn } => Ok((messages, lsn)),
            other => Err(unexpected(&other)),
        }
    }

    /// Declares an exchange. Permissions: configure on it; with an alternate-exchange, read on it
    /// and write on that exchange.
    pub fn declare_exchange(
        &mut self,
        name: &Name,
        body: ExchangeBody,
    ) -> Result<DeclaredExchange, Refusal> {
        self.require(Right::Configure, ObjectKind::Exchange, name)?;
        if let Some(alternate) = text_argument(&body.arguments, "alternate-exchange") {
            self.require(Right::Read, ObjectKind::Exchange, name)?;
            self.require(Right::Write, ObjectKind::Exchange, alternate)?;
        }
        let reply = self.apply(Command::Topology(TopologyCommand::ExchangeDeclare {
            name: name.clone(),
            kind: body.kind,
            durable: body.durable,
            auto_delete: body.auto_delete,
            internal: body.internal,
            arguments: body.arguments,
        }))?;
        match reply {
            Reply::ExchangeDeclared {
                created,
                lsn,
                warnings,
            } => Ok(DeclaredExchange {
                created,
                lsn,
                warnings,
            }),
            other => Err(unexpected(&other)),
        }
    }

    /// Deletes an exchange, without an error if it does not exist. Permission: configure.
    pub fn delete_exchange(&mut self, name: &Name, only: DeleteIf) -> Result<Lsn, Refusal> {
        self.require(Right::Configure, ObjectKind::Exchange, name)?;
        self.done(Command::Topology(TopologyCommand::ExchangeDelete {
            connection: Some(self.caller.connection),
            name: name.clone(),
            if_unused: only.unused,
        }))
    }

    /// Adds a binding. Permissions: write on the destination, read on the source, and on its key if
    /// the source is a topic exchange.
    pub fn bind(&mut self, body: BindingBody) -> Result<Lsn, Refusal> {
        self.require_binding_rights(&body.source, &body.destination, &body.key)?;
        self.done(Command::Topology(TopologyCommand::Bind {
            connection: Some(self.caller.connection),
            source: body.source,
            destination: body.destination,
            key: body.key,
            arguments: body.arguments,
        }))
    }

    /// Removes a binding, without an error if it does not exist, examining some of those with its
    /// key, behind `after`. Permissions as for [`Operations::bind`].
    pub fn unbind(
        &mut self,
        path: &BindingPath,
        after: Option<Binding>,
    ) -> Result<Unbound, Refusal> {
        self.require_binding_rights(&path.source, &path.destination, &path.key)?;
        let slice = self.some_bindings(&path.source, &path.destination, &path.key, after)?;
        let mut known = slice.found.into_iter();
        let found = known.find(|binding| binding_token(&binding.arguments) == path.token);
        match (found, slice.after) {
            (Some(binding), _) => {
                let unbound = self.unbind_exactly(binding);
                unbound.map(Unbound::Done).map_err(Refusal::as_bad_request)
            }
            (None, Some(after)) => Ok(Unbound::NotYet(after)),
            (None, None) => Ok(Unbound::Done(Lsn(0))),
        }
    }

    /// Removes this binding, without an error if it does not exist. Permissions as for
    /// [`Operations::bind`].
    pub fn unbind_exactly(&mut self, binding: Binding) -> Result<Lsn, Refusal> {
        self.require_binding_rights(&binding.source, &binding.destination, &binding.key)?;
        self.done(Command::Topology(TopologyCommand::Unbind {
            connection: Some(self.caller.connection),
            source: binding.source,
            destination: binding.destination,
            key: binding.key,
            arguments: binding.arguments,
        }))
    }

    /// Lists bindings of one key, which differ in their arguments; an error if they are too many
    /// for one answer. No permission is needed (as RabbitMQ).
    pub fn bindings(&mut self, query: &BindingsQuery) -> Result<Vec<Binding>, Refusal> {
        let slice = self.some_bindings(&query.source, &query.destination, &query.key, None)?;
        if slice.after.is_some() {
            return Err(Refusal::bad_request(format!(
                "there are more bindings with this key than one answer takes: {LISTING_SLICE} of \
                 them, or {LISTING_SLICE_BYTES} bytes of arguments; list them over HTTP"
            )));
        }
        Ok(slice.found)
    }

    fn some_bindings(
        &mut self,
        source: &Name,
        destination: &Destination,
        key: &Name,
        after: Option<Binding>,
    ) -> Result<BindingSlice, Refusal> {
        let of = Box::new(BindingsOf {
            source: Some(source.clone()),
            destination: Some(destination.clone()),
            key: Some(key.clone()),
        });
        let after = after.map(Box::new);
        match self.apply(Command::Topology(TopologyCommand::BindingsGet {
            of,
            after,
        }))? {
            Reply::Bindings(slice) => Ok(*slice),
            other => Err(unexpected(&other)),
        }
    }

    fn require_binding_rights(
        &mut self,
        source: &Name,
        destination: &Destination,
        key: &Name,
    ) -> Result<(), Refusal> {
        match destination {
            Destination::Queue(name) => self.require(Right::Write, ObjectKind::Queue, name)?,
            Destination::Exchange(name) => {
                self.require(Right::Write, ObjectKind::Exchange, name)?;
            }
        }
        self.require(Right::Read, ObjectKind::Exchange, source)?;
        let Some(topics) = self.caller.topics else {
            return Ok(());
        };
        self.effects.meter.charge_ns(topics.get_ns());
        let Some(topic) = topics.get(source) else {
            return Ok(());
        };
        let exchange = self.core.router().exchange_named(source);
        let has_topics = exchange.is_some_and(|found| found.spec.kind == ExchangeKind::Topic);
        self.effects.meter.charge_ns(topic.read.match_ns(key));
        if has_topics && !topic.read.matches(key) {
            return Err(Refusal::no_topic(self.caller.user, source, key));
        }
        Ok(())
    }

    fn require(&mut self, right: Right, kind: ObjectKind, name: &str) -> Result<(), Refusal> {
        let ns = self.caller.permissions.allow_ns(right, name);
        self.effects.meter.charge_ns(ns);
        if self.caller.permissions.allow(right, name) {
            return Ok(());
        }
        Err(Refusal::no_right(self.caller.user, right, kind, name))
    }

    fn done(&mut self, command: Command) -> Result<Lsn, Refusal> {
        match self.apply(command)? {
            Reply::Done { lsn } => Ok(lsn),
            other => Err(unexpected(&other)),
        }
    }

    fn apply(&mut self, command: Command) -> Result<Reply, Refusal> {
        match self.core.apply(self.now, command, self.effects) {
            Reply::Refused(error) => Err(error.into()),
            reply => Ok(reply),
        }
    }
}

fn text_argument<'a>(arguments: &'a [(Name, Value)], name: &str) -> Option<&'a str> {
    let found = arguments.iter().find(|(key, _)| key == name);
    found.and_then(|(_, value)| value.as_str())
}

/// The error for a reply that does not belong to its command: a bug in the broker.
fn unexpected(reply: &Reply) -> Refusal {
    Refusal {
        status: Status::InternalError,
        why: format!("the core gave an answer that belongs to another command: {reply:?}"),
    }
}
