//! Policy definitions: one table of keys, each with its type and what it applies to.

use crate::base::{Name, nearest};
use crate::wire::Value;

use super::argument_value::{integer, show, text};
use super::arguments::{
    DURATION_MS_MAX, DeadLetterStrategy, OnUndeliverable, Overflow, read_count, read_key,
    read_limit, read_name,
};
use super::delay::RetryKeys;

/// The settings that a policy defines. An absent one is left to arguments and defaults.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Definition {
    /// `dead-letter-exchange`; "" is the default exchange.
    pub dead_letter_exchange: Option<Name>,
    /// `dead-letter-routing-key`; the empty key is a key.
    pub dead_letter_routing_key: Option<Name>,
    /// `dead-letter-strategy`: at-most-once or at-least-once.
    pub dead_letter_strategy: Option<DeadLetterStrategy>,
    /// `on-undeliverable`: drop or quarantine.
    pub on_undeliverable: Option<OnUndeliverable>,
    /// `overflow`: what happens at a length limit.
    pub overflow: Option<Overflow>,
    /// `max-length`, in ready messages.
    pub max_length: Option<u64>,
    /// `max-length-bytes`, in bytes of bare messages.
    pub max_length_bytes: Option<u64>,
    /// `message-ttl`, in milliseconds.
    pub message_ttl_ms: Option<u64>,
    /// `expires`, in milliseconds.
    pub expires_ms: Option<u64>,
    /// `delivery-limit`; negative: none.
    pub delivery_limit: Option<i64>,
    /// `delayed-retry-type` and what else begins so.
    pub delayed_retry: RetryKeys,
    /// `consumer-timeout`, in milliseconds; 0: none.
    pub consumer_timeout_ms: Option<u64>,
    /// `poison-isolation`: what a lost connection held is delivered alone.
    pub poison_isolation: Option<bool>,
    /// `alternate-exchange`, for exchanges.
    pub alternate_exchange: Option<Name>,
}

/// A key that policies may define.
#[derive(Debug)]
pub struct PolicyKey {
    /// The key as it is written, `max-length` for example.
    pub name: &'static str,
    /// The noun in RabbitMQ's error texts about it.
    pub noun: &'static str,
    /// Whether operator policies may define it too.
    pub operator: bool,
    /// What kind of object it changes.
    pub subject: Subject,
    read: fn(&mut Definition, &Value) -> Result<(), String>,
}

/// The kind of object that a policy key changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject {
    /// It changes queues.
    Queues,
    /// It changes exchanges.
    Exchanges,
    /// It changes nothing: RabbitMQ has the key, and it is checked and kept, but this broker has
    /// nothing that it could change.
    Nothing,
}

impl Definition {
    /// Parses and checks the keys and values of a definition.
    ///
    /// Errors: the first key that is wrong, and why.
    pub(super) fn parse(operator: bool, given: &[(Name, Value)]) -> Result<Self, (Name, String)> {
        let mut definition = Self::default();
        for (name, value) in given {
            let wrong = |why: String| (name.clone(), why);
            let Some(key) = key(name) else {
                return Err(wrong(unrecognised(name)));
            };
            if operator && !key.operator {
                let taken = KEYS.iter().filter(|key| key.operator).map(|key| key.name);
                let taken = taken.collect::<Vec<_>>().join(", ");
                return Err(wrong(format!("operator policies only take {taken}")));
            }
            (key.read)(&mut definition, value).map_err(|rule| {
                let noun = key.noun;
                wrong(format!("not a valid {noun}: {rule}"))
            })?;
        }
        definition.check_together()?;
        Ok(definition)
    }

    /// Checks what no key can be checked for alone.
    fn check_together(&self) -> Result<(), (Name, String)> {
        let retry = &self.delayed_retry;
        if retry.lacks_min() {
            let why = "needs the key delayed-retry-min too".to_owned();
            return Err((Name::from("delayed-retry-type"), why));
        }
        let refused = |why| (Name::from("delayed-retry-max"), why);
        retry.check_max().map_err(refused)
    }
}

/// The error text for an unknown key, with the nearest known one.
pub fn unrecognised(name: &str) -> String {
    let mut why = "it is not a recognised policy setting".to_owned();
    if let Some(nearest) = nearest(name, KEYS.iter().map(|key| key.name)) {
        why = format!("{why}; did you mean '{nearest}'?");
    }
    why
}

/// The table's entry of this name.
pub fn key(name: &str) -> Option<&'static PolicyKey> {
    KEYS.iter().find(|key| key.name == name)
}

const fn of_queues(
    name: &'static str,
    noun: &'static str,
    read: fn(&mut Definition, &Value) -> Result<(), String>,
) -> PolicyKey {
    PolicyKey {
        name,
        noun,
        operator: true,
        subject: Subject::Queues,
        read,
    }
}

const fn of_nothing(
    name: &'static str,
    noun: &'static str,
    operator: bool,
    read: fn(&mut Definition, &Value) -> Result<(), String>,
) -> PolicyKey {
    PolicyKey {
        name,
        noun,
        operator,
        subject: Subject::Nothing,
        read,
    }
}

/// Every key. The nouns are those of RabbitMQ's refusals.
pub const KEYS: &[PolicyKey] = &[
    PolicyKey {
        name: "alternate-exchange",
        noun: "alternate exchange name",
        operator: false,
        subject: Subject::Exchanges,
        read: |to, value| read_name(value).map(|name| to.alternate_exchange = Some(name)),
    },
    PolicyKey {
        name: "consumer-timeout",
        noun: "consumer timeout",
        operator: false,
        subject: Subject::Queues,
        read: |to, value| read_span(value, 0).map(|ms| to.consumer_timeout_ms = Some(ms)),
    },
    of_queues(
        "dead-letter-exchange",
        "dead letter exchange name",
        |to, value| read_name(value).map(|name| to.dead_letter_exchange = Some(name)),
    ),
    of_queues(
        "dead-letter-routing-key",
        "dead letter routing key",
        |to, value| read_key(value).map(|key| to.dead_letter_routing_key = Some(key)),
    ),
    of_queues(
        "dead-letter-strategy",
        "dead letter strategy",
        |to, value| {
            DeadLetterStrategy::read(value).map(|strategy| to.dead_letter_strategy = Some(strategy))
        },
    ),
    of_queues(
        "delayed-retry-jitter",
        "delayed retry jitter",
        |to, value| to.delayed_retry.read_jitter(value),
    ),
    of_queues("delayed-retry-max", "delayed retry maximum", |to, value| {
        to.delayed_retry.read_max(value)
    }),
    of_queues("delayed-retry-min", "delayed retry minimum", |to, value| {
        to.delayed_retry.read_min(value)
    }),
    of_queues(
        "delayed-retry-multiplier",
        "delayed retry multiplier",
        |to, value| to.delayed_retry.read_multiplier(value),
    ),
    of_queues("delayed-retry-type", "delayed retry type", |to, value| {
        to.delayed_retry.read_type(value)
    }),
    of_queues("delivery-limit", "delivery limit", |to, value| {
        read_limit(value).map(|limit| to.delivery_limit = Some(limit))
    }),
    of_queues("expires", "queue expiry", |to, value| {
        read_span(value, 1).map(|ms| to.expires_ms = Some(ms))
    }),
    of_nothing(
        "initial-cluster-size",
        "initial cluster size",
        false,
        |_, value| read_count(value).map(drop),
    ),
    of_nothing("max-age", "max age", false, |_, value| read_age(value)),
    of_nothing(
        "max-in-memory-bytes",
        "maximum memory in bytes",
        true,
        |_, value| read_count(value).map(drop),
    ),
    of_nothing(
        "max-in-memory-length",
        "maximum memory in messages",
        true,
        |_, value| read_count(value).map(drop),
    ),
    of_queues("max-length", "maximum length", |to, value| {
        read_count(value).map(|count| to.max_length = Some(count))
    }),
    of_queues(
        "max-length-bytes",
        "maximum length in bytes",
        |to, value| read_count(value).map(|bytes| to.max_length_bytes = Some(bytes)),
    ),
    of_queues("message-ttl", "message TTL", |to, value| {
        read_span(value, 0).map(|ms| to.message_ttl_ms = Some(ms))
    }),
    of_queues(
        "on-undeliverable",
        "choice for undeliverable dead letters",
        |to, value| OnUndeliverable::read(value).map(|choice| to.on_undeliverable = Some(choice)),
    ),
    of_queues("overflow", "overflow value", |to, value| {
        Overflow::read(value).map(|overflow| to.overflow = Some(overflow))
    }),
    PolicyKey {
        name: "poison-isolation",
        noun: "choice of poison isolation",
        operator: false,
        subject: Subject::Queues,
        read: |to, value| read_bool(value).map(|isolates| to.poison_isolation = Some(isolates)),
    },
    of_nothing(
        "queue-leader-locator",
        "queue leader locator value",
        false,
        |_, value| read_one_of(value, &["client-local", "balanced"]),
    ),
    of_nothing(
        "queue-master-locator",
        "master locator",
        false,
        |_, value| read_one_of(value, &["client-local", "min-masters", "random"]),
    ),
    of_nothing("queue-mode", "queue-mode value", false, |_, value| {
        read_one_of(value, &["default", "lazy"])
    }),
    of_nothing(
        "queue-version",
        "queue-version value",
        true,
        |_, value| match integer(value) {
            Some(1 | 2) => Ok(()),
            _ => Err(format!("must be 1 or 2, not {}", show(Some(value)))),
        },
    ),
    of_nothing(
        "stream-filter-size-bytes",
        "stream filter size",
        false,
        |_, value| read_count(value).map(drop),
    ),
    of_nothing(
        "stream-max-segment-size-bytes",
        "stream segment size",
        false,
        |_, value| read_count(value).map(drop),
    ),
    of_nothing(
        "target-group-size",
        "qq target count value",
        true,
        |_, value| read_count(value).map(drop),
    ),
];

/// Reads a duration of at least `min` milliseconds. A longer one than arguments may have is allowed
/// in a policy (as in RabbitMQ) and shortened to [`DURATION_MS_MAX`].
fn read_span(value: &Value, min: u64) -> Result<u64, String> {
    let number = integer(value).and_then(|number| u64::try_from(number).ok());
    let in_range = number.filter(|ms| *ms >= min);
    let in_range = in_range.map(|ms| ms.min(DURATION_MS_MAX));
    in_range.ok_or_else(|| {
        let shown = show(Some(value));
        format!("must be an integer of milliseconds from {min}, not {shown}")
    })
}

fn read_bool(value: &Value) -> Result<bool, String> {
    match value {
        Value::Bool(given) => Ok(*given),
        other => Err(format!("must be true or false, not {}", show(Some(other)))),
    }
}

fn read_one_of(value: &Value, words: &[&str]) -> Result<(), String> {
    let found = text(value).is_some_and(|text| words.contains(&text));
    let wrong = || {
        let shown = show(Some(value));
        format!("must be one of {}, not {shown}", words.join(", "))
    };
    found.then_some(()).ok_or_else(wrong)
}

/// Checks a maximum age of streams: a number and one of the units `Y`, `M`, `D`, `h`, `m`, `s`.
fn read_age(value: &Value) -> Result<(), String> {
    let number = text(value).and_then(|text| text.strip_suffix(['Y', 'M', 'D', 'h', 'm', 's']));
    let digits = |number: &str| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    let found = number.is_some_and(digits);
    let wrong = || {
        let shown = show(Some(value));
        format!("must be a number with one of the units Y, M, D, h, m, s, not {shown}")
    };
    found.then_some(()).ok_or_else(wrong)
}
