//! Subscriptions: in one step a queue is declared and bound, if it is not there yet, and a consumer
//! attached to it.
//!
//! ```text
//!   Subscribe --> known? --no---------------------------> declare, bind --> consume --> Subscribed
//!                   |                                          ^              ^
//!                   +--yes, to the same topic and filters -----|--------------+
//!                   +--yes, to others: in use? --no--> delete -+  (what is new was checked before)
//!                                         +--yes--> Refused
//! ```

use super::clients::Clients;
use super::{Core, Turn};
use crate::base::{ConnectionId, Lsn, Name, Step, invariant};
use crate::broker::argument_value::{check_weight, kept_bytes};
use crate::broker::arguments::{QueueArguments, QueueProperties};
use crate::broker::exchange::ExchangeKind;
use crate::broker::names::check_form;
use crate::broker::policy::EffectiveSettings;
use crate::broker::queue::Queue;
use crate::broker::subscription::{
    Filter, Lifetime, NoLocal, Subscribe, Topic, is_same, is_shared,
};
use crate::broker::{Destination, DropCause, Error, ObjectKind, Reply};
use crate::wire::Value;

/// A subscription's queue that is to be made: name, properties, arguments.
type New<'a> = (&'a Name, QueueProperties, &'a [(Name, Value)]);

impl Core {
    pub(super) fn subscribe(&mut self, turn: &mut Turn<'_>, subscribe: Subscribe) -> Reply {
        turn.effects.meter.charge(Step::Command, 3);
        let made = match subscribe.topic.clone() {
            Some(topic) => self.subscribe_to(turn, &subscribe, &topic),
            None => self.find_subscription(&subscribe).map(|()| false),
        };
        let created = match made {
            Ok(created) => created,
            Err(error) => return Reply::Refused(error),
        };
        let name = subscribe.consume.queue.clone();
        let mut consume = subscribe.consume;
        // What the subscription does not want never enters its queue.
        consume.selector = None;
        match self.consume(turn, consume) {
            Reply::Consuming { .. } => {}
            refused => {
                invariant!(
                    !created,
                    "a queue that was just made takes its first consumer"
                );
                return refused;
            }
        }
        match self.queue(&name) {
            Some(queue) => Reply::Subscribed {
                created,
                // Also of one that was there: it may have been made just now.
                lsn: if queue.durable {
                    self.recorder.topology()
                } else {
                    Lsn(0)
                },
                info: Box::new(queue.info()),
            },
            None => Reply::Refused(Self::missing_queue(&name)),
        }
    }

    /// Checks that a subscription is there and that nobody uses it.
    fn find_subscription(&self, subscribe: &Subscribe) -> Result<(), Error> {
        let name = &subscribe.consume.queue;
        let queue = self.queue(name).ok_or_else(|| Self::missing_queue(name))?;
        Self::check_idle(queue)
    }

    fn check_idle(queue: &Queue) -> Result<(), Error> {
        if queue.consumers.is_empty() {
            return Ok(());
        }
        let name = queue.name.clone();
        Err(Error::InUse { name })
    }

    /// Makes sure that the subscription's queue is there and bound; whether it was made.
    fn subscribe_to(
        &mut self,
        turn: &mut Turn<'_>,
        subscribe: &Subscribe,
        topic: &Topic,
    ) -> Result<bool, Error> {
        self.check_topic(subscribe, topic)?;
        let name = &subscribe.consume.queue;
        let arguments = subscribe.arguments(topic);
        check_weight(&arguments)?;
        let known = self.queue(name).map(|queue| {
            let arguments_known = queue.arguments.echoed();
            let is_kind_same = is_shared(arguments_known) == subscribe.shared;
            (queue.id, is_kind_same, is_same(arguments_known, &arguments))
        });
        let connection = subscribe.consume.connection;
        let properties = properties(subscribe.lifetime);
        let new = (name, properties, &*arguments);
        let given = match known {
            None => Some(self.check_subscription(turn, (connection, topic), new)?),
            Some((_, false, _)) => {
                return Err(Error::NotIdle {
                    kind: ObjectKind::Queue,
                    name: name.clone(),
                    state: "a subscription that is shared, or is not, other than asked for",
                });
            }
            Some((_, true, true)) => None,
            Some((id, true, false)) => {
                if let Some(queue) = self.queues.get(&id) {
                    Self::check_idle(queue)?;
                }
                // Before what it kept is gone.
                let given = self.check_subscription(turn, (connection, topic), new)?;
                self.remove_queue(turn, id, DropCause::QueueDeleted);
                Some(given)
            }
        };
        let is_known = given.is_none();
        if let Some(given) = given {
            self.add_subscription(turn, connection, new, given);
        }
        let destination = Destination::Queue(name.clone());
        let parts = (&topic.exchange, &destination, &topic.key, Vec::new());
        let bound = self.bind(Some(connection), parts);
        let Some(id) = self.names.get(name).copied() else {
            return Err(Self::missing_queue(name));
        };
        if let Err(error) = bound {
            invariant!(is_known, "what a new subscription is bound to was checked");
            return Err(error);
        }
        if !is_known {
            let kept = (kept_bytes(&arguments), &self.options.kept);
            let selector = subscribe.consume.selector.clone();
            let filter = Filter::new(selector, subscribe.no_local(topic), kept);
            self.router.set_filter(id, filter);
        }
        Ok(!is_known)
    }

    /// Checks that the queue of a subscription can be declared and bound, also in the place of one of that name:
    /// what it is declared with.
    fn check_subscription(
        &mut self,
        turn: &mut Turn<'_>,
        (connection, topic): (ConnectionId, &Topic),
        (name, properties, arguments): New<'_>,
    ) -> Result<(QueueArguments, EffectiveSettings), Error> {
        let arguments = &*self.with_default_type(properties, arguments);
        let given = QueueArguments::parse(name, properties, arguments)?;
        check_form(ObjectKind::Queue, name)?;
        self.check_queue_limit(name)?;
        let settings = self.settings_of_new(turn, name, &given);
        let to = (&topic.exchange, &topic.key);
        self.check_new_binding(connection, to, settings.queue_type)?;
        Ok((given, settings))
    }

    /// Declares the queue of a subscription; its name is the broker's.
    fn add_subscription(
        &mut self,
        turn: &mut Turn<'_>,
        connection: ConnectionId,
        (name, properties, arguments): New<'_>,
        given: (QueueArguments, EffectiveSettings),
    ) {
        let arguments = &*self.with_default_type(properties, arguments);
        self.add_queue(turn, Some(connection), name, properties, given, arguments);
        self.counters.queues.declared += 1;
        self.counters.queues.created += 1;
    }

    /// Checks that the exchange is there, that its keys may be read, and that it lives as long as the
    /// subscription.
    fn check_topic(&self, subscribe: &Subscribe, topic: &Topic) -> Result<(), Error> {
        let name = &topic.exchange;
        let exchange = self.router.exchange_named(name);
        let exchange = exchange.ok_or_else(|| Error::NotFound {
            kind: ObjectKind::Exchange,
            name: name.clone(),
        })?;
        if topic.is_forbidden && exchange.spec.kind == ExchangeKind::Topic {
            return Err(Error::Reserved {
                kind: ObjectKind::Exchange,
                name: name.clone(),
                why: "read access to this topic refused",
            });
        }
        if subscribe.lifetime == Lifetime::Durable && !exchange.spec.durable {
            return Err(Error::NotIdle {
                kind: ObjectKind::Exchange,
                name: name.clone(),
                state: "not durable, so that no durable subscription can be kept on it",
            });
        }
        Ok(())
    }

    /// Whether what a subscription leaves out is of this connection.
    pub(super) fn is_local(clients: &Clients, publisher: ConnectionId, no_local: &NoLocal) -> bool {
        match no_local {
            NoLocal::Connection(connection) => *connection == publisher,
            NoLocal::Client(client) => {
                let connection = clients.connections.get(&publisher);
                connection.is_some_and(|connection| connection.client == *client)
            }
        }
    }
}

/// The properties of a subscription's queue.
const fn properties(lifetime: Lifetime) -> QueueProperties {
    match lifetime {
        Lifetime::Link => QueueProperties {
            durable: false,
            exclusive: true,
            auto_delete: true,
        },
        Lifetime::Consumers => QueueProperties {
            durable: false,
            exclusive: false,
            auto_delete: true,
        },
        Lifetime::Durable => QueueProperties {
            durable: true,
            exclusive: false,
            auto_delete: false,
        },
    }
}
