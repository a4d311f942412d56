//! Attaching: which links are accepted, and what they are for. [AMQP 2.6.3]
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
use super::handshake::Login;
use super::links::{LINKS_MAX, LinkId, LinkKind};
use super::management::{is_pair_half, is_request_half};
use super::publisher::{Destination, Publisher};
use super::subscriptions::{is_topic_target, topic_address};
use super::terminus::{
    browses, check_outcomes, filter_bytes, source_address, takes_rejected, target_address,
};
use super::work::{Ask, Work};
use crate::access::Right;
use crate::base::Name;
use crate::base::limits::LINKS_KEPT_BYTES_MAX;
use crate::broker::names::check_new_name;
use crate::broker::recovery::Kept;
use crate::broker::router::DEFAULT_EXCHANGE;
use crate::broker::{
    Command, Consume, Error as CoreError, ObjectKind, QueueCommand, Reply, Target, TopologyCommand,
};
use crate::deaths::Evidence;
use crate::link::{LinkHandle, SessionHandle, TagsTold};
use crate::wire::performative::{Attach, AttachAnswer, Error, Role, TargetArchetype, Terminus};

/// The engine's handle of a link, and that of its session.
pub(super) type LinkIds = (LinkHandle, SessionHandle);

impl Gateway {
    pub(super) fn on_attached(&mut self, place: LinkIds, role: &Role, attach: &Attach) {
        let result = match role {
            Role::Receiver => self.attach_publisher(place, attach),
            Role::Sender => self.attach_consumer(place, attach),
        };
        if let Err(error) = result {
            self.refuse(place.0, error);
        }
    }

    /// Refuses a link, and deletes what was created for it.
    pub(super) fn refuse(&mut self, handle: LinkHandle, error: Error) {
        self.links.remove(handle);
        self.delete_dynamic(handle);
        self.link.refuse_attach(handle, error);
    }

    /// Adds a link under its id.
    pub(super) fn add_link(
        &mut self,
        place: LinkIds,
        attach: &Attach,
        kind: LinkKind,
    ) -> Result<LinkId, Error> {
        let name = self.link_name(place.0, attach);
        let kept_bytes = kept_bytes(attach);
        if self.links.texts_bytes() + kept_bytes > LINKS_KEPT_BYTES_MAX {
            return Err(errors::too_long_links(LINKS_KEPT_BYTES_MAX));
        }
        let name = (name, kept_bytes);
        let id = self.links.add(&self.environment, place, name, kind);
        id.ok_or_else(|| errors::too_many_links(LINKS_MAX))
    }

    fn attach_publisher(&mut self, place: LinkIds, attach: &Attach) -> Result<(), Error> {
        if let Some(TargetArchetype::Coordinator { .. }) = attach.target.as_deref() {
            return self.attach_controller(place, attach);
        }
        check_outcomes(attach.source.as_deref())?;
        if let Some((address, is_topic)) = self.dynamic_target(place.0, attach)? {
            return self.ask_publisher(place, attach, (address, is_topic));
        }
        let address = target_address(attach)?;
        if address == Some(MANAGEMENT) && is_request_half(attach) {
            return self.attach_request(place, attach);
        }
        if address.is_some_and(|address| self.is_cbs(address)) {
            return self.attach_put_token(place, attach);
        }
        let Some(address) = address else {
            let takes_rejected = takes_rejected(attach.source.as_deref());
            let to = Destination::Anonymous {
                last: None,
                takes_rejected,
            };
            let publisher = self.new_publisher(attach, to)?;
            let id = self.add_link(place, attach, publisher)?;
            self.accept_publisher(id);
            let tags = if takes_rejected {
                TagsTold::Settled
            } else {
                TagsTold::All
            };
            self.link.tell_tags(place.0, tags);
            return Ok(());
        };
        let is_topic = self.environment.options.subscriptions && is_topic_target(attach);
        let address = if is_topic && !address.starts_with('/') {
            topic_address(address)?
        } else {
            Address::target(address, &self.environment.auto_create)
                .map_err(|error| errors::address(&error))?
        };
        self.ask_publisher(place, attach, (address, is_topic))
    }

    fn new_publisher(&self, attach: &Attach, to: Destination) -> Result<LinkKind, Error> {
        let mut publisher = Publisher::new(to);
        publisher.asked = self.asked_resumable(attach)?;
        Ok(LinkKind::Publisher(Box::new(publisher)))
    }

    /// Asks the core whether the queue or exchange of a publisher exists.
    fn ask_publisher(
        &mut self,
        place: LinkIds,
        attach: &Attach,
        (address, is_topic): (Address, bool),
    ) -> Result<(), Error> {
        let question = match &address {
            Address::Queue(name) | Address::BareQueue(name) => {
                Command::Queue(QueueCommand::Get { name: name.clone() })
            }
            Address::Exchange { exchange, .. } => {
                Command::Topology(TopologyCommand::ExchangeResolve {
                    name: exchange.clone(),
                })
            }
        };
        let route = self.address_route(address)?;
        let to = Destination::Fixed {
            exchange: None,
            route,
            is_topic,
        };
        let publisher = self.new_publisher(attach, to)?;
        let id = self.add_link(place, attach, publisher)?;
        self.batch.push(Work::Ask(Ask::Publisher(id), question));
        Ok(())
    }

    /// Continues with the core's answer whether a publisher's queue or exchange exists.
    pub(super) fn on_publisher_reply(&mut self, id: LinkId, reply: Reply) {
        if let Reply::Refused(error @ CoreError::Internal { name }) = &reply {
            self.audit_refusal("write exchange", name, &errors::core(error));
        }
        let Some((handle, publisher)) = self.links.publisher(id.publisher()) else {
            return;
        };
        let found = match reply {
            Reply::Exchange { exchange } => Ok(exchange),
            Reply::Queue(_) => Ok(DEFAULT_EXCHANGE),
            Reply::Refused(error) => Err(errors::core(&error)),
            _ => Err(errors::internal("the core gave no answer")),
        };
        match (found, &mut publisher.to) {
            (
                Ok(id),
                Destination::Fixed {
                    exchange, is_topic, ..
                },
            ) => {
                *exchange = Some(if *is_topic && id != DEFAULT_EXCHANGE {
                    Target::AttachedTopic(id)
                } else {
                    Target::Attached(id)
                });
            }
            (Ok(_), Destination::Anonymous { .. }) => {}
            (Err(error), _) => {
                self.refuse(handle, error);
                return;
            }
        }
        self.accept_publisher(id);
    }

    fn accept_publisher(&mut self, id: LinkId) {
        let max_message_size = Some(self.environment.options.message_bytes_max);
        let Some((handle, publisher)) = self.links.publisher(id.publisher()) else {
            return;
        };
        let asked = publisher.asked.take();
        let resumable = asked.and_then(|asked| self.claim_resumable(handle, *asked));
        let answer = resumable.unwrap_or_else(|| AttachAnswer {
            target: self.target_answer(handle),
            ..AttachAnswer::default()
        });
        self.link.accept_attach(
            handle,
            AttachAnswer {
                max_message_size,
                ..answer
            },
        );
        self.give_credit(id.publisher());
    }

    fn attach_consumer(&mut self, place: LinkIds, attach: &Attach) -> Result<(), Error> {
        let source = attach.source.as_deref();
        check_outcomes(source)?;
        if let Some(wanted) = self.wanted_topic(place.0, attach)? {
            return self.attach_subscriber(place, attach, wanted);
        }
        let browses = browses(attach)?;
        let address = if let Some(queue) = self.dynamic_source(place.0, source)? {
            Address::Queue(queue)
        } else {
            let address = source_address(source)?;
            if address == MANAGEMENT && is_pair_half(attach) {
                return self.attach_response(place, attach);
            }
            if self.is_cbs(address) {
                return self.attach_token_status(place, attach);
            }
            Address::source(address, &self.environment.auto_create)
                .map_err(|error| errors::address(&error))?
        };
        let (Address::Queue(queue) | Address::BareQueue(queue)) = &address else {
            return Err(errors::internal("a source that is no queue"));
        };
        let mut consumer = self.consumer_of(attach)?;
        let mut consume = self.consume_of(place, attach, (queue.clone(), &consumer))?;
        if !browses {
            consume.recovery = self.asked_recovery(attach, &mut consumer)?;
        }
        if matches!(address, Address::BareQueue(_)) {
            let declare = self.bare_declaration(queue)?;
            self.batch.push(declare);
        }
        let id = self.add_link(place, attach, LinkKind::Consumer(Box::new(consumer)))?;
        let queue = queue.clone();
        self.batch.push(if self.has_right(Right::Read, &queue) {
            let consume = Consume {
                consumer: id.consumer(),
                ..consume
            };
            let command = if browses {
                Command::Browse(consume.into_browse())
            } else {
                Command::Consume(consume)
            };
            Work::Ask(Ask::Consumer(id), command)
        } else {
            let look = Command::Queue(QueueCommand::Get { name: queue });
            Work::Ask(Ask::Forbidden(id), look)
        });
        Ok(())
    }

    /// The link's name, sharing the allocation that the engine has.
    fn link_name(&self, handle: LinkHandle, attach: &Attach) -> Name {
        let kept = self.link.link_name(handle).cloned();
        kept.unwrap_or_else(|| Name::from(attach.name.as_str()))
    }

    pub(super) fn evidence(&self, link: &str) -> Arc<Evidence> {
        let user = self.login.as_ref().map(|login| &login.user);
        let address = (!self.peer.is_embedder).then(|| self.peer.address.to_string());
        Arc::new(Evidence {
            by_token: self.login.as_ref().is_some_and(Login::has_token),
            ..Evidence::of_consumer(&self.container, link, user, address.as_deref())
        })
    }

    /// Continues with the core's answer to a new consumer.
    pub(super) fn on_consumer_reply(&mut self, id: LinkId, reply: Reply) {
        let counts_returns = self.environment.options.counts_returns;
        let Some((handle, consumer)) = self.links.consumer(id.consumer()) else {
            return;
        };
        match reply {
            Reply::Consuming {
                is_quorum, kept, ..
            } => {
                consumer.counts_returns = counts_returns && is_quorum;
                if kept == Kept::No {
                    consumer.lifetime = None;
                }
                if self.accept_kept(handle, kept) {
                    return;
                }
                self.link.accept_attach(
                    handle,
                    AttachAnswer {
                        source: self.source_answer(handle),
                        // Azure's client for Python wants it; without an address it is left out,
                        // as RabbitMQ leaves out every one.
                        target: Terminus::EchoIfAddressed,
                        ..AttachAnswer::default()
                    },
                );
            }
            Reply::Refused(error) => {
                self.refuse(handle, errors::core(&error));
            }
            _ => self.refuse(handle, errors::internal("the core gave no answer")),
        }
    }

    /// Reports a forbidden queue that does not exist as not found, as RabbitMQ.
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
        self.refuse(handle, error);
    }

    /// The declaration of the queue of a bare address; that it exists already is no error.
    pub(super) fn bare_declaration(&self, queue: &Name) -> Result<Work, Error> {
        self.check_right(Right::Configure, queue, "queue")?;
        check_new_name(ObjectKind::Queue, queue).map_err(|error| errors::core(&error))?;
        Ok(Work::Declare(Command::Queue(QueueCommand::Declare {
            connection: Some(self.id),
            name: queue.clone(),
            durable: true,
            exclusive: false,
            auto_delete: false,
            arguments: Vec::new(),
        })))
    }
}

/// Estimated memory that an attach takes, in bytes: a selector is kept compiled.
fn kept_bytes(attach: &Attach) -> u64 {
    let source = attach.source.as_deref();
    let target = match attach.target.as_deref() {
        Some(TargetArchetype::Target(target)) => target.address.as_deref(),
        _ => None,
    };
    let addresses = [source.and_then(|source| source.address.as_deref()), target];
    let addresses = addresses.into_iter().flatten().map(str::len);
    let texts = addresses.sum::<usize>() + 4 * filter_bytes(source) + attach.name.len();
    texts as u64
}
