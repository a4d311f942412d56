//! The arguments of a queue: typed, checked, and as they are echoed back.
//!
//! Rules: the recordings of management. Integers of every width are taken; a
//! text may be a string or a symbol.

use crate::base::limits::NAME_BYTES_MAX;
use crate::base::{Name, check_routing_key};
use crate::wire::Value;

use super::argument_value::{echoed_arguments, find, integer, same, show, text};
use super::delay::RetryKeys;
use super::{Error, ObjectKind};

/// How a queue keeps its messages and orders them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum QueueType {
    /// Durable as declared; orders by `x-max-priority`.
    #[default]
    Classic,
    /// Always durable, with a delivery limit and two classes of priority.
    Quorum,
}

impl QueueType {
    /// The word of the argument `x-queue-type`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Quorum => "quorum",
        }
    }
}

/// What happens when a queue is over its length limit. [dead-lettering part 7]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Overflow {
    /// The oldest ready message of the lowest priority dies.
    #[default]
    DropHead,
    /// The message being published is refused.
    RejectPublish,
    /// The message being published is refused and dies.
    RejectPublishDlx,
}

impl Overflow {
    const ALL: [Self; 3] = [Self::DropHead, Self::RejectPublish, Self::RejectPublishDlx];

    /// The word of `x-overflow` and of the policy key `overflow`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DropHead => "drop-head",
            Self::RejectPublish => "reject-publish",
            Self::RejectPublishDlx => "reject-publish-dlx",
        }
    }
}

/// What happens to a dead letter that no target takes. [dead-lettering part 6]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum DeadLetterStrategy {
    /// The message is dropped, and the drop is counted with its cause. The default.
    #[default]
    AtMostOnce,
    /// The message stays in its queue until a target takes it.
    AtLeastOnce,
}

impl DeadLetterStrategy {
    const ALL: [Self; 2] = [Self::AtMostOnce, Self::AtLeastOnce];

    /// The word of `x-dead-letter-strategy` and of the policy key `dead-letter-strategy`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AtMostOnce => "at-most-once",
            Self::AtLeastOnce => "at-least-once",
        }
    }
}

/// What happens to a dead letter that has no target. [evidence part 4]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum OnUndeliverable {
    /// It is dropped, and the drop is counted, as in `RabbitMQ`.
    #[default]
    Drop,
    /// It moves to the quarantine of its vhost.
    Quarantine,
}

impl OnUndeliverable {
    const ALL: [Self; 2] = [Self::Drop, Self::Quarantine];

    /// The word of `x-on-undeliverable` and of the policy key `on-undeliverable`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Drop => "drop",
            Self::Quarantine => "quarantine",
        }
    }
}

/// The arguments of one queue, checked. An absent one may still come from a policy.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct QueueArguments {
    /// `x-queue-type`; default classic.
    pub queue_type: QueueType,
    /// `x-dead-letter-exchange`; "" is the default exchange.
    pub dead_letter_exchange: Option<Name>,
    /// `x-dead-letter-routing-key`; the empty key is a key.
    pub dead_letter_routing_key: Option<Name>,
    /// `x-dead-letter-strategy`; absent: that of a policy, else at-most-once.
    pub dead_letter_strategy: Option<DeadLetterStrategy>,
    /// `x-on-undeliverable`; absent: that of a policy, else of the settings.
    pub on_undeliverable: Option<OnUndeliverable>,
    /// `x-overflow`; absent: that of a policy, else drop-head.
    pub overflow: Option<Overflow>,
    /// `x-max-length`, in ready messages.
    pub max_length: Option<u64>,
    /// `x-max-length-bytes`, in bytes of bare messages.
    pub max_length_bytes: Option<u64>,
    /// `x-message-ttl`, at most [`DURATION_MS_MAX`].
    pub message_ttl_ms: Option<u64>,
    /// `x-expires`, at least 1, at most [`DURATION_MS_MAX`].
    pub expires_ms: Option<u64>,
    /// `x-delivery-limit`; negative: none.
    pub delivery_limit: Option<i64>,
    /// `x-max-priority`, at least 1.
    pub max_priority: Option<u8>,
    /// `x-single-active-consumer`; default false.
    pub single_active_consumer: bool,
    /// `x-delayed-retry-type` and what else begins so; absent: those of a policy, else no delays.
    pub delayed_retry: RetryKeys,
    /// `x-consumer-timeout`, at most [`DURATION_MS_MAX`]; 0: none.
    pub consumer_timeout_ms: Option<u64>,
    /// The arguments in the types that are echoed back, `x-queue-type` included.
    echoed: Vec<(Name, Value)>,
}

impl QueueArguments {
    /// Those of a queue of this type that gives no others.
    pub fn of_type(queue_type: QueueType) -> Self {
        Self {
            queue_type,
            ..Self::default()
        }
    }
}

/// The properties that a declaration gives besides its arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueProperties {
    /// The queue survives a restart.
    pub durable: bool,
    /// Only the declaring connection may use the queue; it is deleted when that connection closes.
    pub exclusive: bool,
    /// The queue is deleted when its last consumer detaches.
    pub auto_delete: bool,
}

impl QueueProperties {
    /// Whether a declaration with `given` means the queue that has these.
    ///
    /// Errors: [`Error::Inequivalent`] names the first property that differs.
    pub fn check_equivalent(self, name: &Name, given: Self) -> Result<(), Error> {
        let pairs = [
            ("durable", self.durable, given.durable),
            ("exclusive", self.exclusive, given.exclusive),
            ("auto_delete", self.auto_delete, given.auto_delete),
        ];
        let Some((field, stored, given)) = pairs.into_iter().find(|(_, a, b)| a != b) else {
            return Ok(());
        };
        Err(Error::Inequivalent {
            kind: ObjectKind::Queue,
            name: name.clone(),
            field: Name::from(field),
            stored: stored.to_string(),
            given: given.to_string(),
        })
    }
}

impl QueueArguments {
    /// Checks the arguments of a declaration of the queue `name`.
    ///
    /// Errors: [`Error::BadArgument`] names the argument; [`Error::BadRequest`] for a
    /// dead-letter-exchange that is no text and for a quorum queue that is not durable, exclusive
    /// or auto-delete.
    pub fn parse(
        name: &Name,
        properties: QueueProperties,
        given: &[(Name, Value)],
    ) -> Result<Self, Error> {
        let mut parsed = Self::default();
        for (argument, value) in given {
            let refused = |why| Error::BadArgument {
                kind: ObjectKind::Queue,
                name: name.clone(),
                argument: argument.clone(),
                why,
            };
            if argument == "x-dead-letter-exchange" && text(value).is_none() {
                let shown = show(Some(value));
                let why = format!("argument '{argument}' must be a string, not {shown}");
                return Err(Error::BadRequest { why });
            }
            parsed.take(argument, value).map_err(refused)?;
        }
        parsed.check_together(name, properties, given)?;
        parsed.echoed = echoed_arguments(given);
        if find(given, QUEUE_TYPE).is_none() {
            // RabbitMQ sorts the arguments when it adds the default type.
            let queue_type = Value::String(parsed.queue_type.as_str().to_owned());
            parsed.echoed.push((Name::from(QUEUE_TYPE), queue_type));
            parsed.echoed.sort_by(|(a, _), (b, _)| a.cmp(b));
        }
        Ok(parsed)
    }

    fn take(&mut self, argument: &str, value: &Value) -> Result<(), String> {
        match argument {
            QUEUE_TYPE => self.queue_type = queue_type(value)?,
            "x-dead-letter-exchange" => self.dead_letter_exchange = Some(read_name(value)?),
            "x-dead-letter-routing-key" => self.dead_letter_routing_key = Some(read_key(value)?),
            "x-dead-letter-strategy" => {
                self.dead_letter_strategy = Some(DeadLetterStrategy::read(value)?);
            }
            "x-on-undeliverable" => self.on_undeliverable = Some(OnUndeliverable::read(value)?),
            "x-overflow" => self.overflow = Some(Overflow::read(value)?),
            "x-max-length" => self.max_length = Some(read_count(value)?),
            "x-max-length-bytes" => self.max_length_bytes = Some(read_count(value)?),
            "x-message-ttl" => self.message_ttl_ms = Some(read_duration(value, 0)?),
            "x-expires" => self.expires_ms = Some(read_duration(value, 1)?),
            "x-delivery-limit" => self.delivery_limit = Some(read_limit(value)?),
            "x-max-priority" => self.max_priority = read_priority(value)?,
            "x-single-active-consumer" => match value {
                Value::Bool(single) => self.single_active_consumer = *single,
                other => return Err(format!("must be a boolean, not {}", show(Some(other)))),
            },
            "x-consumer-timeout" => self.consumer_timeout_ms = Some(read_duration(value, 0)?),
            "x-delayed-retry-type" => self.delayed_retry.read_type(value)?,
            "x-delayed-retry-min" => self.delayed_retry.read_min(value)?,
            "x-delayed-retry-max" => self.delayed_retry.read_max(value)?,
            "x-delayed-retry-multiplier" => self.delayed_retry.read_multiplier(value)?,
            "x-delayed-retry-jitter" => self.delayed_retry.read_jitter(value)?,
            other if STREAM_ONLY.contains(&other) => {
                return Err("streams are not supported".to_owned());
            }
            _ => {}
        }
        Ok(())
    }

    fn check_together(
        &self,
        name: &Name,
        properties: QueueProperties,
        given: &[(Name, Value)],
    ) -> Result<(), Error> {
        let bad_request = |property| {
            let why = format!("quorum queue '{name}' cannot be {property}");
            Err(Error::BadRequest { why })
        };
        if self.queue_type == QueueType::Quorum && !properties.durable {
            return bad_request("declared with durable=false");
        }
        if self.queue_type == QueueType::Quorum && properties.exclusive {
            return bad_request("exclusive");
        }
        if self.queue_type == QueueType::Quorum && properties.auto_delete {
            return bad_request("auto-delete");
        }
        let (refused, of_type) = match self.queue_type {
            QueueType::Classic => (CLASSIC_REFUSES, "classic"),
            QueueType::Quorum => (QUORUM_REFUSES, "quorum"),
        };
        let bad_argument = |argument: &Name, why| {
            Err(Error::BadArgument {
                kind: ObjectKind::Queue,
                name: name.clone(),
                argument: argument.clone(),
                why,
            })
        };
        if let Some((argument, _)) = given.iter().find(|(key, _)| refused.contains(&&**key)) {
            return bad_argument(argument, format!("{of_type} queues do not take it"));
        }
        if self.dead_letter_routing_key.is_some() && self.dead_letter_exchange.is_none() {
            let why = "needs the argument x-dead-letter-exchange too".to_owned();
            return bad_argument(&Name::from("x-dead-letter-routing-key"), why);
        }
        if let Err(why) = self.delayed_retry.check_max() {
            return bad_argument(&Name::from("x-delayed-retry-max"), why);
        }
        Ok(())
    }

    /// The arguments as answered to a client: `x-queue-type` always there.
    pub fn echoed(&self) -> &[(Name, Value)] {
        &self.echoed
    }

    /// Whether a declaration with `given` means the same queue as this one, which exists. Arguments
    /// without a meaning are not compared (as RabbitMQ).
    ///
    /// Errors: [`Error::Inequivalent`] names the first argument that differs.
    pub fn check_equivalent(&self, name: &Name, given: &Self) -> Result<(), Error> {
        for argument in COMPARED {
            let stored = find(&self.echoed, argument);
            let asked = find(&given.echoed, argument);
            let equivalent = match (stored, asked) {
                (Some(a), Some(b)) => same(a, b),
                (a, b) => a.is_none() && b.is_none(),
            };
            if !equivalent {
                return Err(Error::Inequivalent {
                    kind: ObjectKind::Queue,
                    name: name.clone(),
                    field: Name::from(argument),
                    stored: show(stored),
                    given: show(asked),
                });
            }
        }
        Ok(())
    }
}

impl Overflow {
    /// Reads the value of `x-overflow`; the error lists the accepted words.
    pub fn read(value: &Value) -> Result<Self, String> {
        read_word(value, &Self::ALL, Self::as_str)
    }
}

impl DeadLetterStrategy {
    /// Reads the value of `x-dead-letter-strategy`; the error lists the accepted words.
    pub fn read(value: &Value) -> Result<Self, String> {
        read_word(value, &Self::ALL, Self::as_str)
    }
}

impl OnUndeliverable {
    /// Reads the value of `x-on-undeliverable`; the error lists the accepted words.
    pub fn read(value: &Value) -> Result<Self, String> {
        read_word(value, &Self::ALL, Self::as_str)
    }
}

fn queue_type(value: &Value) -> Result<QueueType, String> {
    if text(value) == Some("stream") {
        return Err("streams are not supported".to_owned());
    }
    read_word(
        value,
        &[QueueType::Classic, QueueType::Quorum],
        QueueType::as_str,
    )
}

fn read_word<T: Copy>(value: &Value, all: &[T], word: fn(T) -> &'static str) -> Result<T, String> {
    let found = text(value).and_then(|text| all.iter().find(|item| word(**item) == text));
    found.copied().ok_or_else(|| {
        let words: Vec<_> = all.iter().map(|item| word(*item)).collect();
        let shown = show(Some(value));
        format!("must be one of {}, not {shown}", words.join(", "))
    })
}

/// Reads a name: string or symbol of at most [`NAME_BYTES_MAX`] bytes.
pub fn read_name(value: &Value) -> Result<Name, String> {
    let name = text(value).filter(|text| text.len() <= NAME_BYTES_MAX);
    let wrong = || {
        let shown = show(Some(value));
        format!("must be a string of at most {NAME_BYTES_MAX} bytes, not {shown}")
    };
    name.map(Name::from).ok_or_else(wrong)
}

/// Reads a routing key: string or symbol; see [`check_routing_key`].
pub fn read_key(value: &Value) -> Result<Name, String> {
    let wrong = || format!("must be a string, not {}", show(Some(value)));
    let key = text(value).ok_or_else(wrong)?;
    check_routing_key(key).map_err(|error| format!("has {error}"))?;
    Ok(Name::from(key))
}

/// Reads a number of messages or bytes: not negative.
pub fn read_count(value: &Value) -> Result<u64, String> {
    let wrong = || format!("must be an integer from 0, not {}", show(Some(value)));
    let number = integer(value).ok_or_else(wrong)?;
    u64::try_from(number).map_err(|_| wrong())
}

/// Reads a duration in milliseconds, from `min` to [`DURATION_MS_MAX`].
pub fn read_duration(value: &Value, min: u64) -> Result<u64, String> {
    let number = integer(value).and_then(|number| u64::try_from(number).ok());
    let in_range = number.filter(|ms| (min..=DURATION_MS_MAX).contains(ms));
    in_range.ok_or_else(|| {
        let shown = show(Some(value));
        format!("must be an integer of milliseconds from {min} to {DURATION_MS_MAX}, not {shown}")
    })
}

/// Reads a delivery limit: any integer, a negative one means none.
pub fn read_limit(value: &Value) -> Result<i64, String> {
    let wrong = || format!("must be an integer, not {}", show(Some(value)));
    let number = integer(value).ok_or_else(wrong)?;
    i64::try_from(number).map_err(|_| wrong())
}

/// Reads the highest priority; 0 makes an ordinary queue (as RabbitMQ).
fn read_priority(value: &Value) -> Result<Option<u8>, String> {
    let number = integer(value).and_then(|number| u8::try_from(number).ok());
    let wrong = || {
        format!(
            "must be an integer from 1 to 255, not {}",
            show(Some(value))
        )
    };
    number.map(|n| (n > 0).then_some(n)).ok_or_else(wrong)
}

/// Longest ttl and expiry, in milliseconds (as RabbitMQ: ten years of 365 days).
pub const DURATION_MS_MAX: u64 = 10 * 365 * 24 * 60 * 60 * 1000;

const QUEUE_TYPE: &str = "x-queue-type";

const STREAM_ONLY: [&str; 4] = [
    "x-initial-cluster-size",
    "x-max-age",
    "x-stream-filter-size-bytes",
    "x-stream-max-segment-size-bytes",
];
const CLASSIC_REFUSES: &[&str] = &["x-quorum-initial-group-size"];
const QUORUM_REFUSES: &[&str] = &["x-max-priority", "x-queue-mode", "x-queue-version"];

/// Every argument of queues that means something here or to RabbitMQ.
pub const KNOWN: [&str; 31] = [
    QUEUE_TYPE,
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-dead-letter-strategy",
    "x-delayed-retry-jitter",
    "x-delayed-retry-max",
    "x-delayed-retry-min",
    "x-delayed-retry-multiplier",
    "x-delayed-retry-type",
    "x-delivery-limit",
    "x-expires",
    "x-initial-cluster-size",
    "x-max-age",
    "x-max-in-memory-bytes",
    "x-max-in-memory-length",
    "x-max-length",
    "x-max-length-bytes",
    "x-max-priority",
    "x-message-ttl",
    "x-on-undeliverable",
    "x-overflow",
    "x-queue-leader-locator",
    "x-queue-master-locator",
    "x-queue-mode",
    "x-queue-version",
    "x-quorum-initial-group-size",
    "x-quorum-target-group-size",
    "x-single-active-consumer",
    "x-stream-filter-size-bytes",
    "x-stream-max-segment-size-bytes",
    "x-consumer-timeout",
];

/// Arguments that make another queue, in the order they are compared.
const COMPARED: [&str; 23] = [
    QUEUE_TYPE,
    "x-consumer-timeout",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-dead-letter-strategy",
    "x-delayed-retry-jitter",
    "x-delayed-retry-max",
    "x-delayed-retry-min",
    "x-delayed-retry-multiplier",
    "x-delayed-retry-type",
    "x-delivery-limit",
    "x-expires",
    "x-max-length",
    "x-max-length-bytes",
    "x-max-priority",
    "x-message-ttl",
    "x-on-undeliverable",
    "x-overflow",
    "x-queue-leader-locator",
    "x-queue-mode",
    "x-queue-version",
    "x-quorum-initial-group-size",
    "x-single-active-consumer",
];

#[cfg(test)]
#[path = "tests/arguments.rs"]
mod tests;
