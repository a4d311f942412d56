//! What a link may be: the decisions on an attach. [AMQP 2.6.3]
//!
//! ```text
//!  attach --> this file --> refused (null terminus, then detach with the error)
//!                 |
//!                 +--> accepted at once (anonymous terminus, management)
//!                 +--> asked (Work::Ask) --> on_*_reply --> accepted or refused
//! ```

use std::sync::Arc;

use super::Gateway;
use super::address::{Address, MANAGEMENT};
use super::errors;
use super::links::{Consumer, Kind, LINKS_MAX, LinkId};
use super::management::is_pair_half;
use super::publisher::{Destination, Publisher};
use super::work::{Ask, Work};
use crate::access::Right;
use crate::base::{ExchangeId, Name};
use crate::broker::{Command, Consume, Reply};
use crate::deaths::{Encoding, Evidence};
use crate::link::{LinkHandle, SessionHandle};
use crate::wire::performative::{
    Attach, AttachAnswer, Error, FieldValue, Role, SenderSettleMode, Source, Symbol, Target,
    TargetArchetype, Terminus,
};

/// Link property: consumers of higher priority are served first.
const PRIORITY: &str = "rabbitmq:priority";
/// Link property: no other consumers.
const EXCLUSIVE: &str = "exclusive";
/// Link property: how the receiver wants `x-opt-deaths`.
const DEATHS_ENCODING: &str = "x-opt-deaths-encoding";
/// The outcomes a link may name. [AMQP 3.4]
const OUTCOMES: [&str; 4] = [
    "amqp:accepted:list",
    "amqp:rejected:list",
    "amqp:released:list",
    "amqp:modified:list",
];

/// A link of the engine: its handle and its session.
pub(super) type Place = (LinkHandle, SessionHandle);

impl Gateway {
    pub(super) fn on_attached(&mut self, place: Place, role: &Role, attach: &Attach) {
        let result = match role {
            Role::Receiver => self.attach_publisher(place, attach),
            Role::Sender => self.attach_consumer(place, attach),
        };
        if let Err(error) = result {
            self.links.remove(place.0);
            self.link.refuse_attach(place.0, error);
        }
    }

    /// Adds a link under its id.
    pub(super) fn add_link(
        &mut self,
        place: Place,
        attach: &Attach,
        kind: Kind,
    ) -> Result<LinkId, Error> {
        let name = Name::from(attach.name.as_str());
        let id = self.links.add(&self.environment, place, name, kind);
        id.ok_or_else(|| errors::too_many_links(LINKS_MAX))
    }

    fn attach_publisher(&mut self, place: Place, attach: &Attach) -> Result<(), Error> {
        check_outcomes(attach.source.as_deref())?;
        let address = target_address(attach)?;
        if address == Some(MANAGEMENT) && is_pair_half(attach) {
            return self.attach_request(place, attach);
        }
        let Some(address) = address else {
            let to = Destination::Anonymous { last: None };
            let id = self.add_link(place, attach, Kind::Publisher(Box::new(Publisher::new(to))))?;
            self.accept_publisher(id);
            return Ok(());
        };
        let address = Address::target(address, &self.environment.auto_create)
            .map_err(errors::invalid_field)?;
        let question = match &address {
            Address::Queue(name) | Address::BareQueue(name) => {
                Command::QueueGet { name: name.clone() }
            }
            Address::Exchange { exchange, .. } => Command::ExchangeResolve {
                name: exchange.clone(),
            },
        };
        let route = self.address_route(address)?;
        let to = Destination::Fixed {
            exchange: None,
            route,
        };
        let id = self.add_link(place, attach, Kind::Publisher(Box::new(Publisher::new(to))))?;
        self.work.push_back(Work::Ask(Ask::Publisher(id), question));
        Ok(())
    }

    /// The core said whether the queue or exchange of a publisher is there.
    pub(super) fn on_publisher_reply(&mut self, id: LinkId, reply: Reply) {
        let Some((handle, publisher)) = self.links.publisher(id.publisher()) else {
            return;
        };
        let found = match reply {
            Reply::Exchange { exchange } => Ok(exchange),
            Reply::Queue(_) => Ok(ExchangeId(0)),
            Reply::Refused(error) => Err(errors::core(&error)),
            _ => Err(errors::internal("the core gave no answer")),
        };
        match (found, &mut publisher.to) {
            (Ok(id), Destination::Fixed { exchange, .. }) => *exchange = Some(id),
            (Ok(_), Destination::Anonymous { .. }) => {}
            (Err(error), _) => {
                self.links.remove(handle);
                self.link.refuse_attach(handle, error);
                return;
            }
        }
        self.accept_publisher(id);
    }

    fn accept_publisher(&mut self, id: LinkId) {
        let max_message_size = Some(self.environment.options.message_bytes_max);
        let Some((handle, _)) = self.links.publisher(id.publisher()) else {
            return;
        };
        self.link.accept_attach(
            handle,
            AttachAnswer {
                max_message_size,
                ..AttachAnswer::default()
            },
        );
        self.give_credit(id.publisher());
    }

    fn attach_consumer(&mut self, place: Place, attach: &Attach) -> Result<(), Error> {
        let source = attach.source.as_deref();
        let address = source_address(source)?;
        if address == MANAGEMENT && is_pair_half(attach) {
            return self.attach_response(place, attach);
        }
        check_outcomes(source)?;
        let address = Address::source(address, &self.environment.auto_create)
            .map_err(errors::invalid_field)?;
        let (Address::Queue(queue) | Address::BareQueue(queue)) = &address else {
            return Err(errors::internal("a source that is no queue"));
        };
        let settled = attach.snd_settle_mode == SenderSettleMode::Settled;
        let consumer = Consumer {
            settled,
            encoding: deaths_encoding(attach)?,
            answers: std::collections::VecDeque::new(),
            evidence: self.evidence(&attach.name),
        };
        let (priority, exclusive) = (priority(attach)?, exclusive(attach)?);
        if matches!(address, Address::BareQueue(_)) {
            self.declare_bare(queue)?;
        }
        let session = self.sessions.get(&place.1).copied().unwrap_or_default();
        let id = self.add_link(place, attach, Kind::Consumer(Box::new(consumer)))?;
        let queue = queue.clone();
        self.work
            .push_back(if self.check_right(Right::Read, &queue, "queue").is_err() {
                Work::Ask(Ask::Forbidden(id), Command::QueueGet { name: queue })
            } else {
                let connection = self.id;
                let consumer = id.consumer();
                let consume = Consume {
                    connection,
                    session,
                    consumer,
                    queue,
                    settled,
                    priority,
                    exclusive,
                };
                Work::Ask(Ask::Consumer(id), Command::Consume(consume))
            });
        Ok(())
    }

    fn evidence(&self, link: &str) -> Arc<Evidence> {
        Arc::new(Evidence {
            container: Some(self.container.clone()),
            link: Some(Name::from(link)),
            user: self.login.as_ref().map(|login| login.user.clone()),
            ..Evidence::default()
        })
    }

    /// The core said whether a consumer was added.
    pub(super) fn on_consumer_reply(&mut self, id: LinkId, reply: Reply) {
        let Some((handle, _)) = self.links.consumer(id.consumer()) else {
            return;
        };
        match reply {
            Reply::Consuming { .. } => self.link.accept_attach(
                handle,
                AttachAnswer {
                    source: Terminus::EchoWithOutcomes,
                    target: Terminus::Absent,
                    ..AttachAnswer::default()
                },
            ),
            Reply::Refused(error) => {
                self.links.remove(handle);
                self.link.refuse_attach(handle, errors::core(&error));
            }
            _ => self
                .link
                .refuse_attach(handle, errors::internal("the core gave no answer")),
        }
    }

    /// A forbidden queue that does not exist is not found, as RabbitMQ.
    pub(super) fn on_forbidden_reply(&mut self, id: LinkId, reply: Reply) {
        let Some((handle, _)) = self.links.consumer(id.consumer()) else {
            return;
        };
        let error = match reply {
            Reply::Refused(error) => Err(errors::core(&error)),
            Reply::Queue(queue) => self.check_right(Right::Read, &queue.name, "queue"),
            _ => Ok(()),
        };
        let error = error
            .err()
            .unwrap_or_else(|| errors::internal("the core gave no answer"));
        self.links.remove(handle);
        self.link.refuse_attach(handle, error);
    }

    /// Declares the queue of a bare address; that it is there already is as good.
    pub(super) fn declare_bare(&mut self, queue: &Name) -> Result<(), Error> {
        self.check_right(Right::Configure, queue, "queue")?;
        self.work.push_back(Work::Command(Command::QueueDeclare {
            connection: Some(self.id),
            name: queue.clone(),
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments: Vec::new(),
        }));
        Ok(())
    }
}

/// The address of a target; nothing for the anonymous terminus.
fn target_address(attach: &Attach) -> Result<Option<&str>, Error> {
    match attach.target.as_deref() {
        None => Err(errors::invalid_field(
            "the attach of a sender needs a target",
        )),
        Some(TargetArchetype::Coordinator(_)) => {
            Err(errors::not_implemented("transactions are not offered"))
        }
        Some(TargetArchetype::Target(Target { dynamic: true, .. })) => {
            Err(errors::not_implemented("dynamic targets are not offered"))
        }
        Some(TargetArchetype::Target(target)) => Ok(target.address.as_deref()),
    }
}

fn source_address(source: Option<&Source>) -> Result<&str, Error> {
    match source {
        Some(Source { dynamic: true, .. }) => {
            Err(errors::not_implemented("dynamic sources are not offered"))
        }
        Some(Source {
            address: Some(address),
            ..
        }) => Ok(address),
        _ => Err(errors::invalid_field(
            "the source of a receiver needs an address",
        )),
    }
}

fn check_outcomes(source: Option<&Source>) -> Result<(), Error> {
    let named = source.and_then(|source| source.outcomes.as_ref());
    let unknown = named
        .iter()
        .flat_map(|outcomes| outcomes.iter())
        .find(|outcome| !OUTCOMES.contains(&outcome.as_str()));
    match unknown {
        Some(outcome) => Err(errors::not_implemented(&format!(
            "outcome {} is not offered",
            outcome.as_str()
        ))),
        None => Ok(()),
    }
}

fn property<'a>(attach: &'a Attach, key: &str) -> Option<&'a FieldValue> {
    attach.properties.as_ref()?.get(&Symbol::from(key))
}

fn priority(attach: &Attach) -> Result<i32, Error> {
    let value = match property(attach, PRIORITY) {
        None | Some(FieldValue::Null) => return Ok(0),
        Some(FieldValue::Byte(value)) => Some(i32::from(*value)),
        Some(FieldValue::Short(value)) => Some(i32::from(*value)),
        Some(FieldValue::Int(value)) => Some(*value),
        Some(FieldValue::Long(value)) => i32::try_from(*value).ok(),
        Some(FieldValue::Ubyte(value)) => Some(i32::from(*value)),
        Some(FieldValue::Ushort(value)) => Some(i32::from(*value)),
        Some(FieldValue::Uint(value)) => i32::try_from(*value).ok(),
        Some(FieldValue::Ulong(value)) => i32::try_from(*value).ok(),
        Some(_) => None,
    };
    value.ok_or_else(|| errors::invalid_field(format_args!("{PRIORITY} takes a 32-bit integer")))
}

fn exclusive(attach: &Attach) -> Result<bool, Error> {
    match property(attach, EXCLUSIVE) {
        None | Some(FieldValue::Null) => Ok(false),
        Some(FieldValue::Bool(exclusive)) => Ok(*exclusive),
        Some(_) => Err(errors::invalid_field(format_args!(
            "{EXCLUSIVE} takes a boolean"
        ))),
    }
}

pub(super) fn deaths_encoding(attach: &Attach) -> Result<Encoding, Error> {
    let word = match property(attach, DEATHS_ENCODING) {
        None | Some(FieldValue::Null) => return Ok(Encoding::default()),
        Some(FieldValue::String(word)) => word.as_str(),
        Some(FieldValue::Symbol(word)) => word.as_str(),
        Some(_) => "",
    };
    match word {
        "array" => Ok(Encoding::Array),
        "list" => Ok(Encoding::List),
        "none" => Ok(Encoding::None),
        _ => Err(errors::invalid_field(format_args!(
            "{DEATHS_ENCODING} takes \"array\", \"list\" or \"none\""
        ))),
    }
}
