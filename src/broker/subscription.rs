//! Subscriptions: queues of the broker's own that are bound to an exchange for receivers, and the
//! filters by which they take messages.
//!
//! ```text
//!   lifetime    queue                                            deleted
//!   Link        exclusive, auto-delete, with a generated name    with its link
//!   Consumers   auto-delete, named after the subscription        with its last consumer
//!   Durable     durable, named after the subscription            when it is closed
//! ```
//! What a subscription is made of stands in the arguments of its queue, so that operators see it and
//! a restart finds it. Clients cannot declare queues of these names.

use std::sync::Arc;

use super::argument_value::{echoed, find, same, text};
use super::arguments::QueueProperties;
use super::command::Consume;
use super::names::SUBSCRIPTION_PREFIX;
use super::{Error, ObjectKind};
use crate::base::{Charge, ConnectionId, Gauge, Name, Timestamp};
use crate::filter::{FilterParts, Selector, SelectorError};
use crate::message::Message;
use crate::wire::Value;

/// Argument: the exchange that it is bound to.
pub const EXCHANGE: &str = "x-subscription-exchange";
/// Argument: its binding key.
pub const KEY: &str = "x-subscription-key";
/// Argument: its consumers share it.
pub const SHARED: &str = "x-subscription-shared";
/// Argument: the client id whose own messages it leaves out.
pub const NO_LOCAL: &str = "x-subscription-no-local";
/// Argument: the text of its selector.
pub const SELECTOR: &str = "x-subscription-selector";
/// Argument: the text of its `amqp:sql-filter`.
pub const SQL: &str = "x-subscription-sql";
/// Argument: its `amqp:properties-filter`.
pub const PROPERTIES: &str = "x-subscription-properties";
/// Argument: its `amqp:application-properties-filter`.
pub const APPLICATION_PROPERTIES: &str = "x-subscription-application-properties";
/// The arguments that are filters, and whether each is a table rather than a text.
const FILTERS: [(&str, bool); 4] = [
    (SELECTOR, false),
    (SQL, false),
    (PROPERTIES, true),
    (APPLICATION_PROPERTIES, true),
];
/// The arguments that make two subscriptions the same.
const COMPARED: [&str; 8] = [
    EXCHANGE,
    KEY,
    SHARED,
    NO_LOCAL,
    SELECTOR,
    SQL,
    PROPERTIES,
    APPLICATION_PROPERTIES,
];
/// Memory of a filter, in multiples of the bytes of its text: it is kept compiled.
const COMPILED_FACTOR: u64 = 4;
/// Memory of a filter besides its text, in bytes.
const FILTER_BYTES: u64 = 256;

/// Filters of subscriptions do not ask for the time: who wants one that does is refused.
const NO_TIME: Timestamp = Timestamp(0);

/// How long a subscription lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lifetime {
    /// As long as the link that made it.
    Link,
    /// Until its last consumer goes.
    Consumers,
    /// Until it is closed.
    Durable,
}

/// What a receiver subscribes to.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Topic {
    /// The exchange to bind to.
    pub exchange: Name,
    /// The binding key.
    pub key: Name,
    /// What the receiver's connection (in a subscription that outlives it: its client id)
    /// publishes is left out.
    pub no_local: bool,
    /// Its filters, as arguments of the queue.
    pub filters: Vec<(Name, Value)>,
    /// The user may not read this key, if the exchange is a topic exchange.
    pub is_forbidden: bool,
}

/// A receiver that attaches to a subscription.
#[derive(Debug)]
pub struct Subscribe {
    /// The consumer, with the subscription's queue; its selector is that of the subscription.
    pub consume: Consume,
    /// How long the subscription lives.
    pub lifetime: Lifetime,
    /// Whether several consumers may share it.
    pub shared: bool,
    /// The client id that it belongs to; empty: none.
    pub client: Name,
    /// What it subscribes to; none: to what it is subscribed already.
    pub topic: Option<Topic>,
}

impl Subscribe {
    /// The arguments of its queue, in the types that are echoed.
    pub(super) fn arguments(&self, topic: &Topic) -> Vec<(Name, Value)> {
        let mut arguments = vec![
            (Name::from(EXCHANGE), Value::string(topic.exchange.as_str())),
            (Name::from(KEY), Value::string(topic.key.as_str())),
        ];
        if self.shared {
            arguments.push((Name::from(SHARED), Value::Bool(true)));
        }
        if topic.no_local {
            let client = Value::string(self.client.as_str());
            arguments.push((Name::from(NO_LOCAL), client));
        }
        let filters = topic.filters.iter();
        arguments.extend(filters.map(|(name, value)| (name.clone(), echoed(value))));
        arguments
    }

    /// Whose messages it leaves out; none: nobody's.
    pub(super) fn no_local(&self, topic: &Topic) -> Option<NoLocal> {
        topic.no_local.then(|| match self.lifetime {
            Lifetime::Link => NoLocal::Connection(self.consume.connection),
            Lifetime::Consumers | Lifetime::Durable => NoLocal::Client(self.client.clone()),
        })
    }
}

/// Whether both are arguments of the same subscription.
pub(super) fn is_same(known: &[(Name, Value)], asked: &[(Name, Value)]) -> bool {
    COMPARED.iter().all(
        |argument| match (find(known, argument), find(asked, argument)) {
            (Some(a), Some(b)) => same(a, b),
            (a, b) => a.is_none() && b.is_none(),
        },
    )
}

/// Whether its consumers share it.
pub fn is_shared(arguments: &[(Name, Value)]) -> bool {
    find(arguments, SHARED) == Some(&Value::Bool(true))
}

/// The text of an argument.
pub fn argument<'a>(arguments: &'a [(Name, Value)], name: &str) -> Option<&'a str> {
    find(arguments, name).and_then(text)
}

/// Whether a queue of this name is a subscription that outlives a link.
pub fn is_name(name: &Name) -> bool {
    name.starts_with(SUBSCRIPTION_PREFIX)
}

/// Checks the declaration of a durable subscription by its queue, as exported definitions have it.
///
/// Errors: [`Error::BadArgument`] names the argument that is missing or wrong, [`Error::Reserved`] says
/// that a subscription that is not durable cannot be declared.
pub(super) fn check(
    name: &Name,
    properties: QueueProperties,
    arguments: &[(Name, Value)],
) -> Result<(), Error> {
    let kind = ObjectKind::Queue;
    if !properties.durable || properties.exclusive || properties.auto_delete {
        let (name, why) = (name.clone(), "only durable subscriptions can be declared");
        return Err(Error::Reserved { kind, name, why });
    }
    let refused = |argument: &str, why: String| Error::BadArgument {
        kind,
        name: name.clone(),
        argument: Name::from(argument),
        why,
    };
    for required in [EXCHANGE, KEY] {
        if argument(arguments, required).is_none() {
            let why = "the queue of a subscription needs it, a string".to_owned();
            return Err(refused(required, why));
        }
    }
    for (filter, is_table) in FILTERS {
        let of_type = |value: &Value| {
            if is_table {
                matches!(value, Value::Map(_))
            } else {
                text(value).is_some()
            }
        };
        if find(arguments, filter).is_some_and(|value| !of_type(value)) {
            let type_name = if is_table { "a table" } else { "a string" };
            return Err(refused(filter, format!("must be {type_name}")));
        }
        let alone = arguments.iter().filter(|(name, _)| *name == filter);
        let alone: Vec<(Name, Value)> = alone.cloned().collect();
        match filters(&alone).compile() {
            Err((_, error)) => return Err(refused(filter, error.to_string())),
            Ok(Some(selector)) if selector.asks_for_time() => {
                let why = "UTC() is not known in the filter of a subscription".to_owned();
                return Err(refused(filter, why));
            }
            Ok(_) => {}
        }
    }
    Ok(())
}

/// The filters that are in force: none if they do not compile, see [`Filter::restored`].
pub fn filters_in_force(arguments: &[(Name, Value)]) -> FilterParts<'_> {
    match filters(arguments).compile() {
        Ok(_) => filters(arguments),
        Err(_) => FilterParts::default(),
    }
}

/// Its filters, as they were asked for.
fn filters(arguments: &[(Name, Value)]) -> FilterParts<'_> {
    let pairs = |name| match find(arguments, name) {
        Some(Value::Map(pairs)) => Some(&**pairs),
        _ => None,
    };
    FilterParts {
        selector: argument(arguments, SELECTOR),
        sql: argument(arguments, SQL),
        properties: pairs(PROPERTIES),
        application_properties: pairs(APPLICATION_PROPERTIES),
    }
}

/// The name of a filter that does not compile, and why.
pub type BrokenFilter = (&'static str, SelectorError);

/// Whose messages a subscription leaves out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoLocal {
    /// Those of one connection.
    Connection(ConnectionId),
    /// Those of the connections with this client id.
    Client(Name),
}

/// Which of the messages that are routed to it a queue takes. It is asked once, when a message is
/// routed.
#[derive(Debug)]
pub struct Filter {
    /// What the message has to be like; none: anything.
    selector: Option<Arc<Selector>>,
    /// Whose messages are left out.
    no_local: Option<NoLocal>,
    _kept: Charge,
}

impl Filter {
    /// A filter; none if it would take all messages. `bytes` is the length of its texts.
    pub fn new(
        selector: Option<Arc<Selector>>,
        no_local: Option<NoLocal>,
        (bytes, kept): (u64, &Gauge),
    ) -> Option<Self> {
        if selector.is_none() && no_local.is_none() {
            return None;
        }
        Some(Self {
            selector,
            no_local,
            _kept: kept.charge(FILTER_BYTES + COMPILED_FACTOR * bytes),
        })
    }

    /// The filter of a queue that is restored, from its arguments (none: it takes all messages), and
    /// what is wrong with it.
    ///
    /// It compiled when it was asked for, and may not by the rules of another version. Then the queue
    /// takes what it would have sorted out, too: that can be thrown away later, and what the
    /// subscriber wanted could not be brought back. Its operator is told.
    pub(super) fn restored(
        name: &Name,
        arguments: &[(Name, Value)],
        kept: &Gauge,
    ) -> (Option<Self>, Option<BrokenFilter>) {
        if !is_name(name) {
            return (None, None);
        }
        let (selector, broken) = match filters(arguments).compile() {
            Ok(selector) => (selector, None),
            Err(wrong) => (None, Some(wrong)),
        };
        let no_local = argument(arguments, NO_LOCAL).map(|client| NoLocal::Client(client.into()));
        let bytes = super::argument_value::kept_bytes(arguments);
        let filter = Self::new(selector.map(Arc::new), no_local, (bytes, kept));
        (filter, broken)
    }

    /// Whether the queue takes a message, and the cost of looking, estimated in nanoseconds.
    /// `is_local` says whether what it leaves out is of its publisher.
    pub fn takes(&self, message: &Message, is_local: impl Fn(&NoLocal) -> bool) -> (bool, u64) {
        if self.no_local.as_ref().is_some_and(is_local) {
            return (false, 0);
        }
        match &self.selector {
            None => (true, 0),
            Some(selector) => {
                let answer = selector.asks(NO_TIME, message, 0);
                (answer.matches, answer.spent_ns)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use rstest::rstest;

    use super::*;
    use crate::message::KeyRule;

    fn with_subject(subject: [u8; 3]) -> Message {
        let properties = [0, 0x53, 0x73, 0xc0, 9, 4, 0x40, 0x40, 0x40, 0xa1, 3];
        let body = [0, 0x53, 0x75, 0xa0, 1, b'x'];
        let payload = [&properties[..], &subject, &body].concat();
        Message::from_transfer(Bytes::from(payload), KeyRule::Specification).unwrap()
    }

    #[rstest]
    #[case::a_selector(SELECTOR, "JMSType = 'red'")]
    #[case::an_sql_filter(SQL, "p.subject = 'red'")]
    fn a_subscription_that_is_restored_takes_what_its_filter_wants(
        #[case] argument: &str,
        #[case] text: &str,
    ) {
        let name = Name::from(format!("{SUBSCRIPTION_PREFIX}news").as_str());
        let arguments = [
            (Name::from(argument), Value::string(text)),
            (Name::from(NO_LOCAL), Value::string("ada")),
        ];
        let (filter, broken) = Filter::restored(&name, &arguments, &Gauge::default());
        assert_eq!(broken, None);
        let filter = filter.unwrap();
        let takes = |subject, client: &str| {
            let local = NoLocal::Client(client.into());
            filter
                .takes(&with_subject(subject), |left_out| *left_out == local)
                .0
        };
        assert!(takes(*b"red", "bob"));
        assert!(!takes(*b"tan", "bob"));
        assert!(!takes(*b"red", "ada"));
    }

    #[test]
    fn a_queue_that_is_no_subscription_has_no_filter_whatever_its_arguments() {
        let arguments = [(Name::from(SQL), Value::string("p.subject = 'red'"))];
        let name = Name::from("orders");
        let (filter, broken) = Filter::restored(&name, &arguments, &Gauge::default());
        assert!(filter.is_none() && broken.is_none());
    }

    /// The answer to who attaches by the name of the subscription says what is in force: it named a
    /// filter that was not.
    #[test]
    fn a_filter_that_does_not_compile_is_not_in_force() {
        let of = |selector| {
            [
                (Name::from(SELECTOR), Value::string(selector)),
                (Name::from(SQL), Value::string("p.subject = 'red'")),
            ]
        };
        let arguments = of("JMSType = 'red'");
        let parts = filters_in_force(&arguments);
        assert!(parts.selector.is_some() && parts.sql.is_some());
        let arguments = of("JMSType =");
        let parts = filters_in_force(&arguments);
        assert!(parts.selector.is_none() && parts.sql.is_none());
    }
}
