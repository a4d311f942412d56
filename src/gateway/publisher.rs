//! Publishing links: from a delivery to a publish, from its outcome to a disposition, and the
//! credit in between.

use std::sync::Arc;

use super::Gateway;
use super::address::Address;
use super::ahead::Arriving;
use super::errors;
use super::handshake::Login;
use super::links::{Kind, Link, LinkId};
use super::work::Work;
use crate::access::{Right, TopicPermissions};
use crate::base::limits::{PUBLISH_CREDIT_BYTES, PUBLISH_CREDIT_MAX};
use crate::base::{ExchangeId, Name, PublisherId, Serial};
use crate::broker::{Command, Publish, PublishOutcome, Target};
use crate::link::{LinkHandle, Payload};
use crate::message::{Message, Route};
use crate::wire::performative::{DeliveryState, Error};

/// First credit, while the sizes of a link's messages are unknown (as RabbitMQ), in messages.
const CREDIT_FIRST: u32 = 170;
/// A new size counts for one part in so many in the mean.
const MEAN_PARTS: u64 = 8;

/// Our side of a publishing link.
#[derive(Debug)]
pub(super) struct Publisher {
    /// Where its messages go.
    pub(super) to: Destination,
    /// Credit the peer has left, in messages.
    credit: u32,
    /// Credit it was given last; more comes when half of it is used.
    given: u32,
    /// Messages whose outcome is not known yet.
    pending: u32,
    /// Mean size of its messages, in bytes; 0 before the first.
    mean_bytes: u64,
    /// Changes of the registry under which its right to write was checked.
    checked: u64,
    /// The keys it may use, if its exchange is a topic exchange; none: any.
    topic: Option<Arc<TopicPermissions>>,
    /// It has published to the address of a queue, and ends with it.
    follows: bool,
    /// A message that is written ahead while it arrives.
    pub(super) arriving: Option<Box<Arriving>>,
}

/// Where one message goes.
struct Way {
    target: Target,
    route: Arc<Route>,
    /// The keys its publisher may use, if that is limited.
    topic: Option<Arc<TopicPermissions>>,
}

/// Where the messages of a link go.
#[derive(Debug)]
pub(super) enum Destination {
    /// To one exchange with one key, looked up at attach (the core has not answered yet while
    /// `exchange` is absent).
    Fixed {
        /// The exchange.
        exchange: Option<ExchangeId>,
        /// Its name and the key.
        route: Arc<Route>,
    },
    /// To wherever each message says: the anonymous terminus.
    Anonymous {
        /// The last `to` that was looked up, and what came of it.
        last: Option<(String, Arc<Route>)>,
    },
}

impl Publisher {
    pub(super) const fn new(to: Destination) -> Self {
        Self {
            to,
            credit: 0,
            given: 0,
            pending: 0,
            mean_bytes: 0,
            checked: 0,
            topic: None,
            follows: false,
            arriving: None,
        }
    }

    /// The way of all its messages without further keys, once it is known and allowed.
    fn way(&self, generation: u64) -> Option<Way> {
        match &self.to {
            Destination::Fixed {
                exchange: Some(exchange),
                route,
            } if self.checked == generation => Some(Way {
                target: Target::Attached(*exchange),
                route: Arc::clone(route),
                topic: self.topic.clone(),
            }),
            _ => None,
        }
    }

    /// The credit to give now, if the peer's has become low and it is not to wait.
    pub(super) fn top_up(&mut self, wait: bool) -> Option<u32> {
        if self.credit > self.given / 2 {
            return None;
        }
        let window = match (wait, self.mean_bytes) {
            (true, _) => 0,
            (false, 0) => u64::from(CREDIT_FIRST),
            (false, mean) => (PUBLISH_CREDIT_BYTES / mean).clamp(1, PUBLISH_CREDIT_MAX.into()),
        };
        let window = u32::try_from(window).unwrap_or(PUBLISH_CREDIT_MAX);
        let wanted = window.saturating_sub(self.pending);
        if wanted <= self.credit {
            return None;
        }
        (self.credit, self.given) = (wanted, wanted);
        Some(wanted)
    }

    /// The queue whose address it publishes to, at its first message.
    fn begin_to_follow(&mut self) -> Option<Name> {
        if self.follows {
            return None;
        }
        match &self.to {
            Destination::Fixed { exchange, route } if *exchange == Some(ExchangeId(0)) => {
                self.follows = true;
                route.keys.first().cloned()
            }
            _ => None,
        }
    }

    /// Takes all credit back.
    pub(super) fn stop(&mut self) {
        (self.credit, self.given) = (0, 0);
    }

    /// Counts a message that was given up in the middle: it used up a credit.
    pub(super) fn aborted(&mut self) {
        self.credit = self.credit.saturating_sub(1);
    }

    /// Counts a message that used up a credit.
    pub(super) fn arrived(&mut self, size_bytes: u64) {
        self.credit = self.credit.saturating_sub(1);
        self.mean_bytes = match self.mean_bytes {
            0 => size_bytes.max(1),
            mean => (mean * (MEAN_PARTS - 1) + size_bytes).div_ceil(MEAN_PARTS),
        };
    }
}

/// Why a message was not published.
enum Refusal {
    /// It is settled so; the link stays.
    Outcome(DeliveryState),
    /// It is released and the link detached.
    Released(Error),
    /// The link is detached.
    Detach(Error),
}

impl Gateway {
    /// A message came in.
    pub(super) fn on_message(
        &mut self,
        handle: LinkHandle,
        delivery_id: Serial,
        settled: bool,
        payload: Payload,
    ) {
        let Some(link) = self.links.by_handle(handle) else {
            return;
        };
        let (id, kind) = (link.id, &mut link.kind);
        let Kind::Publisher(publisher) = kind else {
            return;
        };
        let arriving = publisher.arriving.take();
        let before_bytes = arriving.as_ref().map_or(0, |arriving| arriving.bytes());
        publisher.arrived(before_bytes + payload.len() as u64);
        let generation = self.login.as_ref().map_or(0, Login::generation);
        let way = publisher.way(generation);
        let message = self
            .whole_message(arriving, payload)
            .map_err(|error| Refusal::Detach(errors::message(&error)));
        let delivery = (delivery_id, settled);
        match message.and_then(|message| self.publish(id, delivery, way, message)) {
            Ok(()) => {
                let follow = self
                    .links
                    .publisher(id.publisher())
                    .and_then(|(_, publisher)| {
                        publisher.pending += u32::from(!settled);
                        publisher.begin_to_follow()
                    });
                if let Some(queue) = follow {
                    self.work.push_back(Work::Command(Command::PublisherFollow {
                        connection: self.id,
                        publisher: id.publisher(),
                        queue,
                    }));
                }
            }
            Err(refusal) => self.refuse_message(handle, delivery_id, settled, refusal),
        }
        self.give_credit(id.publisher());
    }

    fn publish(
        &mut self,
        id: LinkId,
        (delivery_id, settled): (Serial, bool),
        way: Option<Way>,
        message: Arc<Message>,
    ) -> Result<(), Refusal> {
        let checked = self.check_publish(id, way, &message);
        let Way {
            target,
            route,
            topic,
        } = checked.inspect_err(|_| {
            self.release_ahead(message.ahead().map(|body| **body));
        })?;
        self.work.push_back(Work::Command(Command::Publish(Publish {
            connection: self.id,
            publisher: id.publisher(),
            token: delivery_id.0.into(),
            target,
            route,
            message,
            settled,
            topic,
        })));
        Ok(())
    }

    /// Where a message goes, if it may: the way of its publisher's messages, if it is known.
    fn check_publish(
        &mut self,
        id: LinkId,
        way: Option<Way>,
        message: &Message,
    ) -> Result<Way, Refusal> {
        self.check_user_id(message)?;
        if let Some(way) = way.filter(|_| !message.may_have_cc()) {
            return Ok(way);
        }
        let (target, route) = self.route(id, message)?;
        let topic = self.check_write(id, &route)?;
        Ok(Way {
            target,
            route,
            topic,
        })
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
            Err(Refusal::Detach(errors::user_id(user_id)))
        }
    }

    /// Checks the right to write again if permissions were changed since it was checked. Gives the
    /// keys that may be used.
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
        let topic = login.and_then(|login| login.topic(&route.exchange).cloned());
        if let Some((_, publisher)) = self.links.publisher(id.publisher()) {
            publisher.checked = generation;
            publisher.topic.clone_from(&topic);
        }
        Ok(topic)
    }

    /// Exchange and keys of a message: those of its link or of its `to`, and its CC keys.
    fn route(&mut self, id: LinkId, message: &Message) -> Result<(Target, Arc<Route>), Refusal> {
        let cc = message.cc();
        let anonymous = matches!(
            self.links.publisher(id.publisher()),
            Some((
                _,
                Publisher {
                    to: Destination::Anonymous { .. },
                    ..
                }
            ))
        );
        let cc = cc.map_err(|error| {
            let error = errors::message(&error);
            if anonymous {
                rejected(error)
            } else {
                Refusal::Released(error)
            }
        })?;
        let (target, route) = if anonymous {
            self.anonymous_route(id, message)?
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
                            exchange: Some(exchange),
                            route,
                        },
                    ..
                },
            )) => Ok((Target::Attached(*exchange), Arc::clone(route))),
            _ => Err(Refusal::Detach(errors::not_attached())),
        }
    }

    fn anonymous_route(
        &mut self,
        id: LinkId,
        message: &Message,
    ) -> Result<(Target, Arc<Route>), Refusal> {
        let to = message.to().ok_or_else(|| rejected(errors::no_to()))?;
        if let Some((_, publisher)) = self.links.publisher(id.publisher())
            && let Destination::Anonymous {
                last: Some((last, route)),
            } = &publisher.to
            && last == to
        {
            return Ok((target_of(route), Arc::clone(route)));
        }
        let address = Address::target(to, &self.environment.auto_create)
            .map_err(|error| rejected(errors::precondition(&error)))?;
        let route = self.address_route(address).map_err(Refusal::Detach)?;
        if let Some((_, publisher)) = self.links.publisher(id.publisher()) {
            let last = Some((to.to_owned(), Arc::clone(&route)));
            publisher.to = Destination::Anonymous { last };
            publisher.checked = 0;
        }
        Ok((target_of(&route), route))
    }

    /// The route an address stands for, if the user may write there.
    pub(super) fn address_route(&mut self, address: Address) -> Result<Arc<Route>, Error> {
        let (exchange, key) = match address {
            Address::Exchange { exchange, key } => (exchange, key),
            Address::Queue(queue) => (Name::default(), queue),
            Address::BareQueue(queue) => {
                self.declare_bare(&queue)?;
                (Name::default(), queue)
            }
        };
        self.check_right(Right::Write, &exchange, "exchange")?;
        Ok(Arc::new(Route {
            exchange,
            keys: Arc::from([key]),
        }))
    }

    fn refuse_message(
        &mut self,
        handle: LinkHandle,
        delivery_id: Serial,
        settled: bool,
        refusal: Refusal,
    ) {
        let (state, error) = match refusal {
            Refusal::Outcome(state) => (Some(state), None),
            Refusal::Released(error) => (Some(DeliveryState::Released), Some(error)),
            Refusal::Detach(error) => (None, Some(error)),
        };
        if let Some(state) = state.filter(|_| !settled) {
            self.link.settle_received(handle, delivery_id, &state);
        }
        if let Some(error) = error {
            self.link.detach(handle, true, Some(error));
        }
    }

    /// The queue went whose address a link publishes to.
    pub(super) fn on_publisher_ended(&mut self, id: PublisherId) {
        if let Some((handle, _)) = self.links.publisher(id) {
            self.link
                .detach(handle, true, Some(errors::queue_deleted()));
        }
    }

    /// A link is gone: if it published to the address of a queue, it need not be told any more.
    pub(super) fn forget_publisher(&mut self, link: &Link) {
        if let Kind::Publisher(publisher) = &link.kind
            && publisher.follows
        {
            self.work.push_back(Work::Command(Command::PublisherLeave {
                connection: self.id,
                publisher: link.id.publisher(),
            }));
        }
    }

    /// The core accepted publishes with consecutive tokens.
    pub(super) fn on_accepted(&mut self, id: PublisherId, first: u64, count: u32) {
        let Some((handle, publisher)) = self.links.publisher(id) else {
            return;
        };
        publisher.pending = publisher.pending.saturating_sub(count);
        let first = Serial(u32::try_from(first).unwrap_or_default());
        let last = first.plus(count.saturating_sub(1));
        let accepted = DeliveryState::Accepted;
        self.link
            .settle_received_range(handle, first, last, &accepted);
        self.give_credit(id);
    }

    /// The core decided about a publish.
    pub(super) fn on_published(&mut self, id: PublisherId, token: u64, outcome: &PublishOutcome) {
        let Some((handle, publisher)) = self.links.publisher(id) else {
            return;
        };
        publisher.pending = publisher.pending.saturating_sub(1);
        let (state, detach) = verdict(&publisher.to, outcome);
        // A token is a delivery-id, see `publish`.
        let delivery_id = Serial(u32::try_from(token).unwrap_or_default());
        if let Some(state) = state {
            self.link.settle_received(handle, delivery_id, &state);
        }
        match detach {
            Some(error) => self.link.detach(handle, true, Some(error)),
            None => self.give_credit(id),
        }
    }

    /// Tops up a publisher's credit when it has become low.
    pub(super) fn give_credit(&mut self, id: PublisherId) {
        let wait = self.alarm || self.crowded;
        if let Some((handle, publisher)) = self.links.publisher(id)
            && let Some(credit) = publisher.top_up(wait)
        {
            self.link.set_credit(handle, credit);
        }
    }

    /// An alarm was raised or cleared: publishers lose their credit or get some.
    pub(super) fn on_alarm(&mut self, raised: bool) {
        self.alarm = raised;
        if raised {
            self.give_up_ahead();
        }
        for link in self.links.iter_mut() {
            let Kind::Publisher(publisher) = &mut link.kind else {
                continue;
            };
            if raised {
                publisher.stop();
                self.link.set_credit(link.handle, 0);
            } else if let Some(credit) = publisher.top_up(self.crowded) {
                self.link.set_credit(link.handle, credit);
            }
        }
    }

    /// Messages arrive faster than they leave memory, or do so no more: publishers get no more credit
    /// meanwhile, and keep what they have.
    pub fn set_crowded(&mut self, crowded: bool) {
        let wait = self.alarm || crowded;
        if !std::mem::replace(&mut self.crowded, crowded) || wait {
            return;
        }
        for link in self.links.iter_mut() {
            if let Kind::Publisher(publisher) = &mut link.kind
                && let Some(credit) = publisher.top_up(false)
            {
                self.link.set_credit(link.handle, credit);
            }
        }
    }
}

/// The state for an outcome, and the error to detach with. As with missing rights, there is no
/// outcome for what goes to an internal exchange.
fn verdict(to: &Destination, outcome: &PublishOutcome) -> (Option<DeliveryState>, Option<Error>) {
    match outcome {
        PublishOutcome::Accepted => (Some(DeliveryState::Accepted), None),
        PublishOutcome::Unroutable => (Some(DeliveryState::Released), None),
        PublishOutcome::QueueFull { queue } => {
            (Some(errors::rejected(errors::queue_full(queue))), None)
        }
        PublishOutcome::NoExchange { exchange } => {
            let error = errors::no_exchange(exchange);
            match to {
                Destination::Anonymous { .. } => (Some(errors::rejected(error)), None),
                Destination::Fixed { .. } => (Some(DeliveryState::Released), Some(error)),
            }
        }
        PublishOutcome::Internal { exchange } => (None, Some(errors::internal_exchange(exchange))),
        PublishOutcome::Forbidden { exchange, key } => {
            (None, Some(errors::forbidden_key(exchange, key)))
        }
    }
}

fn rejected(error: Error) -> Refusal {
    Refusal::Outcome(errors::rejected(error))
}

/// The default exchange needs no name to be looked up.
fn target_of(route: &Route) -> Target {
    if route.exchange.is_empty() {
        Target::Attached(ExchangeId(0))
    } else {
        Target::Named
    }
}
