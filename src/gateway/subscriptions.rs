//! Receivers that subscribe: an exchange as their source, topics of JMS, durable and shared
//! subscriptions. [AMQP 3.5.3, JMS 2.0 8.3]
//!
//! ```text
//!   source                                    subscribes to
//!   /exchanges/X/KEY                          exchange X with KEY
//!   T, capability topic                       exchange amq.topic with T
//!   dynamic, capability temporary-topic       an exchange of its own
//!   null                                      nothing new: the durable subscription of this name
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use super::Gateway;
use super::address::Address;
use super::attach::LinkIds;
use super::connection::AwaitedAnswer;
use super::dynamic::temporary_topic_address;
use super::errors;
use super::links::{Consumer, LinkId, LinkKind};
use super::terminus::{
    OUTCOMES, applied_filters, consumer_timeout, death_evidence, deaths_encoding, exclusive,
    filter_arguments, filter_parts, has_capability, priority, selector,
};
use super::work::{Ask, Work};
use crate::access::Right;
use crate::base::limits::NAME_BYTES_MAX;
use crate::base::{ConsumerId, Lsn, Name};
use crate::broker::names::SUBSCRIPTION_PREFIX;
use crate::broker::subscription::{self, argument};
use crate::broker::{
    Command, Consume, Error as CoreError, Lifetime, QueueCommand, QueueInfo, Reply, Subscribe,
    Topic,
};
use crate::filter::Selector;
use crate::link::LinkHandle;
use crate::wire::performative::{
    Attach, AttachAnswer, DeliveryState, Error, SenderSettleMode, Source, Symbol, TargetArchetype,
    Terminus, filter_fields,
};

/// Terminus capability: the address is that of a topic.
const TOPIC: &str = "topic";
/// Terminus capability: the address is that of a temporary topic, or one is to be made.
pub(super) const TEMPORARY_TOPIC: &str = "temporary-topic";
/// Source capability: several consumers may share the subscription.
const SHARED: &str = "shared";
/// Source capability: the shared subscription is of no client.
const GLOBAL: &str = "global";
/// The exchange of topics that are named by a bare address.
pub(super) const TOPIC_EXCHANGE: &str = "amq.topic";
/// Expiry policy of what is kept until it is closed. [AMQP 3.5.6]
const NEVER: &str = "never";
/// Expiry policy of what goes with its link. [AMQP 3.5.6]
const LINK_DETACH: &str = "link-detach";
/// Durability of a terminus whose configuration is kept, and not which deliveries are unsettled: they
/// come again. [AMQP 3.5.5]
const CONFIGURATION: u32 = 1;
/// What separates the name of a shared subscription from what makes the link's name unique.
const SUFFIX: char = '|';
/// The link's name of the first consumer of a shared durable subscription of no client ends so.
const GLOBAL_SUFFIX: &str = "|global";

/// The subscription of a consuming link.
#[derive(Debug)]
pub(super) struct Subscription {
    queue: Name,
    lifetime: Lifetime,
    shared: bool,
    /// The source to answer with; none: as the subscription's queue says.
    answer: Option<Box<Source>>,
    /// Whether the core has attached the consumer.
    is_attached: bool,
}

/// What a receiver wants to subscribe to.
pub(super) enum Wanted {
    /// An exchange with a binding key, and the source with its address.
    Topic(Name, Name, Box<Source>),
    /// What the durable subscription of this name is subscribed to already.
    Known,
}

/// The address of a topic with a bare name.
pub(super) fn topic_address(name: &str) -> Result<Address, Error> {
    let address = Address::topic(TOPIC_EXCHANGE, name);
    address.map_err(|error| errors::address(&error))
}

/// Whether the target of a publisher is a topic: a message that no subscriber wants is accepted.
pub(super) fn is_topic_target(attach: &Attach) -> bool {
    let Some(TargetArchetype::Target(target)) = attach.target.as_deref() else {
        return false;
    };
    let capabilities = target.capabilities.as_deref();
    has_capability(capabilities, TOPIC) || has_capability(capabilities, TEMPORARY_TOPIC)
}

impl Gateway {
    /// What a receiver wants to subscribe to; none: it wants to consume from a queue.
    pub(super) fn wanted_topic(
        &mut self,
        handle: LinkHandle,
        attach: &Attach,
    ) -> Result<Option<Wanted>, Error> {
        if !self.environment.options.subscriptions {
            return Ok(None);
        }
        let Some(source) = attach.source.as_deref() else {
            return Ok(Some(Wanted::Known));
        };
        let capabilities = source.capabilities.as_deref();
        if source.dynamic {
            if !has_capability(capabilities, TEMPORARY_TOPIC) {
                return Ok(None);
            }
            let exchange = self.dynamic_topic_source(handle, source)?;
            let mut source = Box::new(source.clone());
            source.address = Some(temporary_topic_address(&exchange));
            return Ok(Some(Wanted::Topic(exchange, Name::default(), source)));
        }
        let is_topic =
            has_capability(capabilities, TOPIC) || has_capability(capabilities, TEMPORARY_TOPIC);
        let address = match source.address.as_deref() {
            Some(address) if address.starts_with("/exchanges/") => {
                Address::target(address, &self.environment.auto_create)
                    .map_err(|error| errors::address(&error))?
            }
            Some(name) if is_topic && !name.starts_with('/') => topic_address(name)?,
            _ => return Ok(None),
        };
        let Address::Exchange { exchange, key } = address else {
            return Ok(None);
        };
        let source = Box::new(source.clone());
        Ok(Some(Wanted::Topic(exchange, key, source)))
    }

    /// Attaches a consumer to a subscription, which is made if it is not there.
    pub(super) fn attach_subscriber(
        &mut self,
        place: LinkIds,
        attach: &Attach,
        wanted: Wanted,
    ) -> Result<(), Error> {
        let (topic, source) = match wanted {
            Wanted::Topic(exchange, key, source) => (Some((exchange, key)), Some(source)),
            Wanted::Known => (None, None),
        };
        let (lifetime, shared, global) = match source.as_deref() {
            Some(source) => wish(source),
            None => (
                Lifetime::Durable,
                false,
                attach.name.ends_with(GLOBAL_SUFFIX),
            ),
        };
        let queue = match lifetime {
            Lifetime::Link => self.generated_queue(),
            _ => self.subscription_queue(lifetime, global, (&attach.name, shared))?,
        };
        self.check_right(Right::Configure, &queue, "queue")?;
        self.check_right(Right::Read, &queue, "queue")?;
        let topic = match topic {
            Some(topic) => {
                Some(self.permitted_topic(&queue, topic, (source.as_deref(), global))?)
            }
            None => None,
        };
        let is_alone = lifetime == Lifetime::Durable && !shared;
        let answer = source.map(|source| Box::new(answer(*source, (lifetime, shared, global))));
        let mut consumer = self.consumer_of(attach)?;
        consumer.subscription = Some(Box::new(Subscription {
            queue: queue.clone(),
            lifetime,
            shared,
            answer,
            is_attached: false,
        }));
        let consume = self.consume_of(place, attach, (queue, &consumer))?;
        check_timeless(consume.selector.as_deref())?;
        let id = self.add_link(place, attach, LinkKind::Consumer(Box::new(consumer)))?;
        let consume = Consume {
            consumer: id.consumer(),
            exclusive: consume.exclusive || is_alone,
            ..consume
        };
        let client = if global {
            Name::default()
        } else {
            self.container.clone()
        };
        let subscribe = Box::new(Subscribe {
            consume,
            lifetime,
            shared,
            client,
            topic,
        });
        let command = Command::Subscribe(subscribe);
        self.batch.push(Work::Ask(Ask::Subscriber(id), command));
        Ok(())
    }

    /// What is subscribed to, if the user may bind the queue to it.
    fn permitted_topic(
        &self,
        queue: &Name,
        (exchange, key): (Name, Name),
        (source, global): (Option<&Source>, bool),
    ) -> Result<Topic, Error> {
        self.check_right(Right::Write, queue, "queue")?;
        self.check_right(Right::Read, &exchange, "exchange")?;
        let login = self.login.as_ref();
        let permissions = login.and_then(|login| login.topic(&exchange));
        let is_forbidden = permissions.is_some_and(|topic| !topic.read.matches(&key));
        Ok(Topic {
            no_local: !global && source.is_some_and(|source| source.no_local.is_some()),
            filters: filter_arguments(filter_parts(source)),
            exchange,
            key,
            is_forbidden,
        })
    }

    /// A new name for a queue that goes with its link.
    fn generated_queue(&self) -> Name {
        let prefix = &self.environment.options.temporary_prefix;
        Name::from(format!("{prefix}{}", self.environment.next_id()))
    }

    /// The name of the queue of a subscription that outlives a link.
    fn subscription_queue(
        &self,
        lifetime: Lifetime,
        global: bool,
        (link, shared): (&str, bool),
    ) -> Result<Name, Error> {
        let name = match link.split_once(SUFFIX) {
            Some((name, _)) if shared || global => name,
            _ => link,
        };
        let kind = if lifetime == Lifetime::Durable {
            ""
        } else {
            "-volatile"
        };
        let name_encoded = Name::from(name).percent_encoded();
        let queue = if global {
            format!("{SUBSCRIPTION_PREFIX}{kind}-global.{name_encoded}")
        } else if self.container.is_empty() {
            return Err(errors::invalid_field(
                "a subscription that outlives its link belongs to a client id: the container-id of \
                 open is empty",
            ));
        } else {
            // A dot ends the client id.
            let client = self.container.percent_encoded().replace('.', "%2E");
            format!("{SUBSCRIPTION_PREFIX}{kind}.{client}.{name_encoded}")
        };
        if name.is_empty() {
            return Err(errors::invalid_field(
                "the name of the link of a subscription is empty: it is the subscription's name",
            ));
        }
        if queue.len() > NAME_BYTES_MAX {
            return Err(errors::invalid_field(format_args!(
                "client id and subscription name are too long: the name of the subscription's queue \
                 would have {} bytes, at most {NAME_BYTES_MAX} are allowed",
                queue.len()
            )));
        }
        Ok(Name::from(queue))
    }

    /// Continues with the core's answer to a subscriber.
    pub(super) fn on_subscriber_reply(&mut self, id: LinkId, reply: Reply) {
        let Some((handle, consumer)) = self.links.consumer(id.consumer()) else {
            return;
        };
        let (created, lsn, info) = match reply {
            Reply::Subscribed { created, lsn, info } => (created, lsn, info),
            Reply::Refused(error) => return self.refuse_subscriber(handle, &error),
            _ => return self.refuse(handle, errors::internal("the core gave no answer")),
        };
        if let Some(subscription) = &mut consumer.subscription {
            subscription.is_attached = true;
        }
        if lsn <= self.durable {
            self.accept_subscriber(id, created, *info);
        } else {
            let answer = AwaitedAnswer::Subscribed(id, created, info);
            self.waiting.push_back((lsn, answer));
        }
    }

    /// Answers the attach of a subscriber, whose subscription is kept.
    pub(super) fn accept_subscriber(&mut self, id: LinkId, created: bool, info: QueueInfo) {
        let counts_returns = self.environment.options.counts_returns;
        let Some((handle, consumer)) = self.links.consumer(id.consumer()) else {
            return; // it went meanwhile
        };
        consumer.counts_returns = counts_returns && info.kind == "quorum";
        let Some(subscription) = &mut consumer.subscription else {
            return self.refuse(
                handle,
                errors::internal("a subscriber without a subscription"),
            );
        };
        subscription.shared = subscription::is_shared(&info.arguments);
        let answer = subscription.answer.take();
        let source = answer.unwrap_or_else(|| Box::new(known_source(&info)));
        let is_durable = subscription.lifetime == Lifetime::Durable;
        let name = (created && subscription.lifetime != Lifetime::Link).then_some(info.name);
        if is_durable {
            self.link.hold_close(handle);
        }
        self.link.accept_attach(
            handle,
            AttachAnswer {
                source: Terminus::Given(source),
                target: Terminus::Absent,
                ..AttachAnswer::default()
            },
        );
        if let Some(name) = name {
            self.audit_made(&name, Ok(()));
        }
    }

    fn refuse_subscriber(&mut self, handle: LinkHandle, refused: &CoreError) {
        let error = errors::core(refused);
        if let CoreError::Reserved { name, .. } = refused {
            self.audit_refusal("read exchange", name, &error);
        }
        self.refuse(handle, error);
    }

    /// Deletes the durable subscription of a link that its peer closed. The peer is told that once the
    /// record of it is durable.
    pub(super) fn close_subscription(&mut self, handle: LinkHandle, consumer: &Consumer) {
        let Some(subscription) = &consumer.subscription else {
            return;
        };
        if subscription.lifetime == Lifetime::Durable && subscription.is_attached {
            let delete = QueueCommand::Delete {
                connection: Some(self.id),
                name: subscription.queue.clone(),
                if_unused: subscription.shared,
                if_empty: false,
            };
            let ask = Ask::Unsubscribed(handle);
            self.batch.push(Work::Ask(ask, Command::Queue(delete)));
        }
    }

    /// Answers the detach of a subscriber that ended its subscription. A shared one that others use stays.
    pub(super) fn on_unsubscribed(&mut self, handle: LinkHandle, reply: &Reply) {
        let lsn = match reply {
            Reply::QueueDeleted { lsn, .. } => *lsn,
            _ => Lsn(0),
        };
        if lsn <= self.durable {
            self.link.answer_close(handle);
        } else {
            let answer = AwaitedAnswer::Unsubscribed(handle);
            self.waiting.push_back((lsn, answer));
        }
    }

    /// A consuming link, as its attach asks for it.
    pub(super) fn consumer_of(&self, attach: &Attach) -> Result<Consumer, Error> {
        let unasked = self.environment.options.death_evidence;
        Ok(Consumer {
            settled: attach.snd_settle_mode == SenderSettleMode::Settled,
            counts_returns: false,
            unwritten: VecDeque::new(),
            deaths: (deaths_encoding(attach)?, death_evidence(attach, unasked)?),
            answers: VecDeque::new(),
            evidence: self.evidence(&attach.name),
            subscription: None,
            lifetime: None,
            echo_due: false,
            begun: None,
        })
    }

    /// What the core is asked for; the consumer's id is not known yet.
    pub(super) fn consume_of(
        &self,
        place: LinkIds,
        attach: &Attach,
        (queue, consumer): (Name, &Consumer),
    ) -> Result<Consume, Error> {
        Ok(Consume {
            connection: self.id,
            session: self.sessions.get(&place.1).copied().unwrap_or_default(),
            consumer: ConsumerId::default(),
            queue,
            settled: consumer.settled,
            priority: priority(attach)?,
            exclusive: exclusive(attach)?,
            passing: false,
            selector: selector(attach.source.as_deref())?,
            timeout_ms: consumer_timeout(attach)?,
            evidence: Some(Arc::clone(&consumer.evidence)),
            recovery: None,
        })
    }
}

/// How long the subscription of a source lives, whether it is shared, and whether by all clients.
fn wish(source: &Source) -> (Lifetime, bool, bool) {
    let capabilities = source.capabilities.as_deref();
    let shared = has_capability(capabilities, SHARED);
    let never = source.expiry_policy.as_ref().map(Symbol::as_str) == Some(NEVER);
    let lifetime = match (source.durable > 0 && never, shared) {
        (true, _) => Lifetime::Durable,
        (false, true) => Lifetime::Consumers,
        (false, false) => Lifetime::Link,
    };
    (
        lifetime,
        shared,
        shared && has_capability(capabilities, GLOBAL),
    )
}

/// The source as it is in force: what is not kept is left out.
fn answer(mut source: Source, (lifetime, shared, global): (Lifetime, bool, bool)) -> Source {
    let is_durable = lifetime == Lifetime::Durable;
    source.durable = if is_durable { CONFIGURATION } else { 0 };
    source.timeout_s = 0;
    source
        .expiry_policy
        .take_if(|policy| policy.as_str() != if is_durable { NEVER } else { LINK_DETACH });
    let no_local = source.no_local.take().filter(|_| !global);
    if let Some(pair) = no_local {
        let filters = source.filter.take().unwrap_or_default();
        let filters = filters.iter().cloned().chain([pair]);
        source.filter = Some(filters.collect());
    }
    let in_force = |capability: &Symbol| match capability.as_str() {
        TOPIC | TEMPORARY_TOPIC => true,
        SHARED => shared,
        GLOBAL => global,
        _ => false,
    };
    if let Some(capabilities) = &mut source.capabilities {
        capabilities.retain(in_force);
    }
    source.capabilities.take_if(|kept| kept.is_empty());
    // JMS clients say `copy` where each subscription gets its own copy: nothing is browsed.
    source.distribution_mode = None;
    source.default_outcome = Some(DeliveryState::Released);
    let outcomes = || OUTCOMES.map(Symbol::from).to_vec();
    source.outcomes.get_or_insert_with(outcomes);
    source
}

/// The source of a durable subscription that is known by its name.
fn known_source(info: &QueueInfo) -> Source {
    let of = |name| argument(&info.arguments, name).unwrap_or_default();
    let [exchange, key] = [subscription::EXCHANGE, subscription::KEY]
        .map(of)
        .map(Name::from);
    let mut capabilities = vec![Symbol::from(TOPIC)];
    let shared = subscription::is_shared(&info.arguments);
    capabilities.extend(shared.then(|| Symbol::from(SHARED)));
    let no_local = argument(&info.arguments, subscription::NO_LOCAL).is_some();
    let filters = subscription::filters_in_force(&info.arguments);
    let filters = filter_fields(applied_filters(filters), no_local);
    let (exchange, key) = (exchange.percent_encoded(), key.percent_encoded());
    let source = Source {
        address: Some(format!("/exchanges/{exchange}/{key}")),
        durable: CONFIGURATION,
        expiry_policy: Some(Symbol::from(NEVER)),
        filter: filters,
        capabilities: Some(capabilities),
        ..Source::default()
    };
    answer(source, (Lifetime::Durable, shared, false))
}

/// Checks the filter of a subscription, which is asked once, when a message is routed: it knows no time.
fn check_timeless(selector: Option<&Selector>) -> Result<(), Error> {
    if selector.is_some_and(Selector::asks_for_time) {
        let what = "amqp:sql-filter: UTC() is not known in the filter of a subscription";
        return Err(errors::invalid_field(what));
    }
    Ok(())
}
