//! Typed operations: rights checked, then carried out on the core.

use crate::access::Right;
use crate::base::limits::{LISTING_SLICE, LISTING_SLICE_BYTES};
use crate::base::{Lsn, Name, Now};
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
    /// When.
    pub now: Now,
    /// Who.
    pub caller: &'a Caller<'a>,
    /// On what.
    pub core: &'a mut Core,
    /// With what consequences.
    pub effects: &'a mut Effects,
}

/// On what a deletion depends; without either, it does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeleteIf {
    /// Refuse when it has consumers, or bindings.
    pub unused: bool,
    /// Refuse when it has messages.
    pub empty: bool,
}

/// A queue that was declared.
#[derive(Debug)]
pub struct DeclaredQueue {
    /// Whether it is new.
    pub created: bool,
    /// What it is.
    pub info: Box<QueueInfo>,
    /// Durable with this.
    pub lsn: Lsn,
    /// What its arguments will probably not do as meant.
    pub warnings: Vec<Warning>,
}

/// An exchange that was declared.
#[derive(Debug)]
pub struct DeclaredExchange {
    /// Whether it is new.
    pub created: bool,
    /// Durable with this.
    pub lsn: Lsn,
    /// What its arguments will probably not do as meant.
    pub warnings: Vec<Warning>,
}

/// What came of removing a binding.
#[derive(Debug)]
pub enum Unbound {
    /// It is not there, durable with this.
    Done(Lsn),
    /// It may stand behind this one.
    NotYet(Binding),
}

impl Operations<'_> {
    /// Looks for policies of what is about to be declared: call it until it says yes, each time under a
    /// hold of its own, then declare it under the last one; see [`Core::foresee`].
    pub fn foresee(
        &mut self,
        (kind, name): (ObjectKind, &Name),
        begun: &mut Option<Box<Matching>>,
    ) -> bool {
        // Nobody makes us look who may not declare it.
        let permissions = &self.caller.permissions;
        let ns = permissions.allow_ns(Right::Configure, name);
        self.effects.meter.charge_ns(ns);
        let may = permissions.allow(Right::Configure, name);
        !may || (self.core).foresee((kind, name), begun, &mut self.effects.meter)
    }

    /// Declares a queue. Rights: configure on it; when it is new and has a dead-letter-exchange,
    /// read on it and write on that exchange.
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

    /// Describes a queue. No right is needed (as RabbitMQ).
    pub fn queue(&mut self, name: &Name) -> Result<Box<QueueInfo>, Refusal> {
        match self.apply(Command::Queue(QueueCommand::Get { name: name.clone() }))? {
            Reply::Queue(info) => Ok(info),
            other => Err(unexpected(&other)),
        }
    }

    /// Removes the ready messages of a queue; how many. Right: read.
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

    /// Deletes a queue, also a missing one; how many ready messages it had. Right: configure.
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

    /// Declares an exchange. Rights: configure on it; with an alternate-exchange, read on it and
    /// write on that exchange.
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

    /// Deletes an exchange, also a missing one. Right: configure.
    pub fn delete_exchange(&mut self, name: &Name, only: DeleteIf) -> Result<Lsn, Refusal> {
        self.require(Right::Configure, ObjectKind::Exchange, name)?;
        self.done(Command::Topology(TopologyCommand::ExchangeDelete {
            name: name.clone(),
            if_unused: only.unused,
        }))
    }

    /// Adds a binding. Rights: write on the destination, read on the source, and on its key if the
    /// source is a topic exchange.
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

    /// Removes a binding, also a missing one, looking at some of those with its key, behind `after`.
    /// Rights as for [`Operations::bind`].
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

    /// Removes this binding, also a missing one. Rights as for [`Operations::bind`].
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

    /// Lists bindings: those of one key differ in their arguments, and are refused when they are too
    /// many for one answer. No right is needed (as RabbitMQ).
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
        let Some(topic) = self.caller.topics.and_then(|topics| topics.get(source)) else {
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

/// The core answers each command in its own way; another answer is our fault.
fn unexpected(reply: &Reply) -> Refusal {
    Refusal {
        status: Status::InternalError,
        why: format!("the core gave an answer that belongs to another command: {reply:?}"),
    }
}
