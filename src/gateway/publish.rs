//! Publishing: an incoming message gets its route, its permissions are checked, and it goes to the
//! core.

use std::sync::Arc;

use super::Gateway;
use super::address::Address;
use super::errors;
use super::handshake::Login;
use super::links::{Link, LinkId, LinkKind};
use super::publisher::{Destination, Publisher};
use super::subscriptions::TOPIC_EXCHANGE;
use super::transactions::TxnId;
use super::work::Work;
use crate::access::{Right, TopicPermissions};
use crate::base::limits::MESSAGE_COPY_BYTES_MAX;
use crate::base::{Name, Serial};
use crate::broker::router::DEFAULT_EXCHANGE;
use crate::broker::{Command, Publish, PublisherCommand, Target};
use crate::link::{Arrived, LinkHandle, Payload};
use crate::message::{DeliveryTime, Directions, Message, MessageError, Route};
use crate::wire::performative::{DeliveryState, Error};

/// The route of one message.
pub(super) struct Way {
    pub(super) target: Target,
    pub(super) route: Arc<Route>,
    /// The routing keys that its publisher may use; none: all.
    pub(super) topic: Option<Arc<TopicPermissions>>,
    /// When the message is to be delivered at the earliest; none: at once.
    pub(super) delivery_time: Option<DeliveryTime>,
}

/// Why a message is not published.
pub(super) enum Refusal {
    /// It is settled with this outcome; the link stays attached.
    Outcome(DeliveryState),
    /// It is settled as released and the link is detached with this error.
    Released(Error),
    /// The link is detached with this error.
    Detach(Error),
}

impl Gateway {
    /// Handles incoming messages: this one, and those of its link that the engine has behind it.
    pub(super) fn on_messages(&mut self, handle: LinkHandle, first: Arrived) {
        let generation = self.login.as_ref().map_or(0, Login::generation);
        let mut next = Some(first);
        while let Some(arrived) = next {
            self.on_message(handle, generation, arrived);
            next = self.link.poll_delivery(handle);
        }
        if let Some(id) = self.links.by_handle(handle).map(|link| link.id) {
            self.give_credit(id.publisher());
        }
    }

    fn on_message(&mut self, handle: LinkHandle, generation: u64, arrived: Arrived) {
        let Arrived {
            delivery_id,
            settled,
            payload,
        } = arrived;
        let Some((id, way)) = self.receive(handle, generation, payload) else {
            return;
        };
        match way {
            Ok((way, message)) => {
                let publish = self.publish_of(id, (delivery_id, settled), way, message);
                self.publish(id, publish);
            }
            Err(refusal) => self.refuse_message(handle, delivery_id, settled, refusal),
        }
    }

    /// The message of a delivery on a publisher's link, and its way if it may be published.
    #[inline(always)]
    #[allow(
        clippy::inline_always,
        reason = "of two callers one is on the path of every message"
    )]
    #[allow(clippy::type_complexity, reason = "a message with its way, or neither")]
    pub(super) fn receive(
        &mut self,
        handle: LinkHandle,
        generation: u64,
        payload: Payload,
    ) -> Option<(LinkId, Result<(Way, Arc<Message>), Refusal>)> {
        let Some(Link {
            id,
            kind: LinkKind::Publisher(publisher),
            ..
        }) = self.links.by_handle(handle)
        else {
            return None;
        };
        let id = *id;
        let streaming = publisher.streaming.take();
        let before_bytes = streaming.as_ref().map_or(0, |streaming| streaming.bytes());
        publisher.arrived(before_bytes + payload.len() as u64);
        let way = publisher.way(generation);
        let message = match (streaming, payload) {
            (None, Payload::Whole(bytes)) if bytes.len() <= MESSAGE_COPY_BYTES_MAX => {
                let keys = self.environment.options.key_rule;
                Message::from_transfer(bytes, keys).map(Arc::new)
            }
            (streaming, payload) => self.whole_message(streaming, payload),
        };
        let message = message.map_err(|error| Refusal::Detach(errors::message(&error)));
        let way = message.and_then(|message| Ok((self.check_publish(id, way, &message)?, message)));
        Some((id, way))
    }

    /// What the core is asked for.
    #[inline(always)]
    #[allow(
        clippy::inline_always,
        reason = "of two callers one is on the path of every message"
    )]
    pub(super) fn publish_of(
        &self,
        id: LinkId,
        (delivery_id, settled): (Serial, bool),
        way: Way,
        message: Arc<Message>,
    ) -> Publish {
        let Way {
            target,
            route,
            topic,
            delivery_time,
        } = way;
        let forbidden = topic.and_then(|topic| topic.first_forbidden(&route.keys));
        Publish {
            connection: self.id,
            publisher: id.publisher(),
            token: delivery_id.0.into(),
            target,
            route,
            message,
            settled,
            forbidden,
            delivery_time,
        }
    }

    fn publish(&mut self, id: LinkId, publish: Publish) {
        let settled = publish.settled;
        self.batch.push(Work::Command(Command::Publish(publish)));
        self.count_published(id, settled);
    }

    /// Counts a message that was published, or kept for its transaction.
    #[inline]
    pub(super) fn count_published(&mut self, id: LinkId, settled: bool) {
        let publisher = self.links.publisher(id.publisher());
        let follow = publisher.and_then(|(_, publisher)| publisher.published(settled));
        if let Some(queue) = follow {
            self.batch.push(Work::Command(Command::Publisher(
                PublisherCommand::Follow {
                    connection: self.id,
                    publisher: id.publisher(),
                    queue,
                },
            )));
        }
    }

    /// The route of a message, if its publisher may use it: that of the link's other messages, if
    /// it is known.
    #[inline(always)]
    #[allow(
        clippy::inline_always,
        reason = "of two callers one is on the path of every message"
    )]
    fn check_publish(
        &mut self,
        id: LinkId,
        way: Option<Way>,
        message: &Message,
    ) -> Result<Way, Refusal> {
        let checked = match way.filter(|_| !message.has_client_annotations()) {
            Some(way) => self.check_user_id(message).map(|()| way),
            None => self.find_way(id, message),
        };
        checked.inspect_err(|_| self.release_blob(message.blob().map(|body| **body)))
    }

    /// The route of a message that the link alone does not determine.
    fn find_way(&mut self, id: LinkId, message: &Message) -> Result<Way, Refusal> {
        self.check_user_id(message)?;
        let directions = message.directions();
        let (target, route) = self.route(id, message, &directions)?;
        let topic = self.check_write(id, &route)?;
        let delivery_time = if self.environment.options.delivery_times {
            let named = directions.delivery_time();
            named.map_err(|error| self.refusal(id, &error))?
        } else {
            None
        };
        Ok(Way {
            target,
            route,
            topic,
            delivery_time,
        })
    }

    /// The refusal of a message whose annotations say something impossible about its way.
    fn refusal(&mut self, id: LinkId, refused: &MessageError) -> Refusal {
        let error = errors::message(refused);
        if self.is_anonymous(id) {
            rejected(error)
        } else {
            Refusal::Released(error)
        }
    }

    /// Whether each message of a link names its address.
    pub(super) fn is_anonymous(&mut self, id: LinkId) -> bool {
        matches!(
            self.links.publisher(id.publisher()),
            Some((
                _,
                Publisher {
                    to: Destination::Anonymous { .. },
                    ..
                }
            ))
        )
    }

    fn check_user_id(&self, message: &Message) -> Result<(), Refusal> {
        let Some(user_id) = message.user_id() else {
            return Ok(());
        };
        let allowed = self
            .login
            .as_ref()
            .is_some_and(|login| login.may_send_as(user_id));
        if allowed {
            Ok(())
        } else {
            let error = errors::user_id(user_id);
            let given = String::from_utf8_lossy(user_id);
            self.audit_refusal("send as user", &given, &error);
            Err(Refusal::Detach(error))
        }
    }

    /// Checks the right to write again if permissions have changed since the last check. Returns
    /// the keys that may be used.
    fn check_write(
        &mut self,
        id: LinkId,
        route: &Route,
    ) -> Result<Option<Arc<TopicPermissions>>, Refusal> {
        let generation = self.login.as_ref().map_or(0, Login::generation);
        if let Some((_, publisher)) = self.links.publisher(id.publisher())
            && publisher.checked == generation
        {
            return Ok(publisher.topic.clone());
        }
        self.check_right(Right::Write, &route.exchange, "exchange")
            .map_err(Refusal::Detach)?;
        let login = self.login.as_ref();
        let topic = login.and_then(|login| login.topic(&route.exchange));
        if let Some((_, publisher)) = self.links.publisher(id.publisher()) {
            publisher.checked = generation;
            publisher.topic.clone_from(&topic);
        }
        Ok(topic)
    }

    /// Exchange and keys of a message: those of its link or of its `to`, and its CC keys.
    fn route(
        &mut self,
        id: LinkId,
        message: &Message,
        directions: &Directions<'_>,
    ) -> Result<(Target, Arc<Route>), Refusal> {
        let cc = directions.cc();
        let cc = cc.map_err(|error| self.refusal(id, &error))?;
        let (target, route) = if self.is_anonymous(id) {
            let is_topic = self.environment.options.subscriptions && directions.is_topic();
            self.anonymous_route(id, message, is_topic)?
        } else {
            self.fixed_route(id)?
        };
        if cc.is_empty() {
            return Ok((target, route));
        }
        let keys = route.keys.iter().cloned().chain(cc).collect();
        Ok((
            target,
            Arc::new(Route {
                exchange: route.exchange.clone(),
                keys,
            }),
        ))
    }

    fn fixed_route(&mut self, id: LinkId) -> Result<(Target, Arc<Route>), Refusal> {
        match self.links.publisher(id.publisher()) {
            Some((
                _,
                Publisher {
                    to:
                        Destination::Fixed {
                            exchange: Some(target),
                            route,
                            ..
                        },
                    ..
                },
            )) => Ok((*target, Arc::clone(route))),
            _ => Err(Refusal::Detach(errors::not_attached())),
        }
    }

    fn anonymous_route(
        &mut self,
        id: LinkId,
        message: &Message,
        is_topic: bool,
    ) -> Result<(Target, Arc<Route>), Refusal> {
        let to = message.to().ok_or_else(|| rejected(errors::no_to()))?;
        if let Some((_, publisher)) = self.links.publisher(id.publisher())
            && let Destination::Anonymous {
                last: Some((last, was_topic, route)),
                ..
            } = &publisher.to
            && last == to
            && *was_topic == is_topic
        {
            return Ok((target_of(route, is_topic), Arc::clone(route)));
        }
        let address = if is_topic && !to.starts_with('/') {
            Address::topic(TOPIC_EXCHANGE, to)
        } else {
            Address::target(to, &self.environment.auto_create)
        };
        let address = address.map_err(|error| rejected(errors::precondition(&error)))?;
        let route = self.address_route(address).map_err(Refusal::Detach)?;
        if let Some((_, publisher)) = self.links.publisher(id.publisher())
            && let Destination::Anonymous { last, .. } = &mut publisher.to
        {
            *last = Some((to.to_owned(), is_topic, Arc::clone(&route)));
            publisher.checked = 0;
        }
        Ok((target_of(&route, is_topic), route))
    }

    /// The route that an address stands for, if the user may write there.
    pub(super) fn address_route(&mut self, address: Address) -> Result<Arc<Route>, Error> {
        let mut declare = None;
        let (exchange, key) = match address {
            Address::Exchange { exchange, key } => (exchange, key),
            Address::Queue(queue) => (Name::default(), queue),
            Address::BareQueue(queue) => {
                declare = Some(self.bare_declaration(&queue)?);
                (Name::default(), queue)
            }
        };
        // The right is checked first, so that no queue is declared for a user who may not write.
        self.check_right(Right::Write, &exchange, "exchange")?;
        if let Some(declare) = declare {
            self.batch.push(declare);
        }
        Ok(Arc::new(Route {
            exchange,
            keys: Arc::from([key]),
        }))
    }

    pub(super) fn refuse_message(
        &mut self,
        handle: LinkHandle,
        delivery_id: Serial,
        settled: bool,
        refusal: Refusal,
    ) {
        let id = self.links.by_handle(handle).map(|link| link.id.publisher());
        let to = id
            .and_then(|id| self.links.publisher(id))
            .map(|(_, publisher)| &publisher.to);
        let tells_nobody = match to {
            Some(Destination::Anonymous { takes_rejected, .. }) => settled || !takes_rejected,
            Some(Destination::Fixed { .. }) | None => false,
        };
        let (state, error) = match refusal {
            // Nobody would learn that its address leads nowhere. [anonterm 1.0, Routing Errors]
            Refusal::Outcome(DeliveryState::Rejected { error: Some(error) }) if tells_nobody => {
                (None, Some(Arc::unwrap_or_clone(error)))
            }
            Refusal::Outcome(state) => (Some(state), None),
            Refusal::Released(error) => (Some(DeliveryState::Released), Some(error)),
            Refusal::Detach(error) => (None, Some(error)),
        };
        if let Some(state) = state.filter(|_| !settled) {
            self.link.settle_received(handle, delivery_id, &state);
        }
        if let Some(error) = error {
            let error = match id {
                Some(id) => self.tags.name(error, (id, delivery_id)),
                None => error,
            };
            self.link.detach(handle, true, Some(error));
        }
    }
}

impl Refusal {
    /// The same for a publisher that cannot be told `rejected`: its link ends. [anonterm 1.0, Routing Errors]
    pub(super) fn without_rejected(self) -> Self {
        match self {
            Self::Outcome(DeliveryState::Rejected { error: Some(error) }) => {
                Self::Detach(Arc::unwrap_or_clone(error))
            }
            other => other,
        }
    }

    /// The same in a transaction: its outcome is a provisional one. Also returns what the controller
    /// is told who discharges the transaction.
    pub(super) fn in_transaction(self, txn: TxnId) -> (Self, String) {
        let why = match &self {
            Self::Outcome(DeliveryState::Rejected { error: Some(error) }) => error.to_string(),
            Self::Outcome(_) => "a message was refused".to_owned(),
            Self::Released(error) | Self::Detach(error) => error.to_string(),
        };
        let refusal = match self {
            Self::Outcome(state) => Self::Outcome(txn.state(&state)),
            other => other,
        };
        (refusal, why)
    }
}

fn rejected(error: Error) -> Refusal {
    Refusal::Outcome(errors::rejected(error))
}

/// The target of a route: the default exchange needs no lookup by name.
fn target_of(route: &Route, is_topic: bool) -> Target {
    if route.exchange.is_empty() {
        Target::Attached(DEFAULT_EXCHANGE)
    } else if is_topic {
        Target::NamedTopic
    } else {
        Target::Named
    }
}
