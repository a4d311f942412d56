//! Message annotations as encoded pairs: which belong to the broker, which keys are legal, merging.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Message, MessageError, Route};
use crate::base::Name;
use crate::deaths;
use crate::wire::{Pair, Pairs, Reader, Value, check_annotations, decode_value};

/// The annotation with further routing keys. [dead-lettering part 9 row 5]
const CC: &str = "x-cc";
pub(super) const EXCHANGE: &str = "x-exchange";
pub(super) const ROUTING_KEY: &str = "x-routing-key";
pub(super) const DELIVERY_COUNT: &str = "x-delivery-count";
pub(super) const ACQUIRED_COUNT: &str = "x-acquired-count";

/// Which annotation keys a publisher or a consumer may send.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum KeyRule {
    /// Every symbol and ulong, as the specification says. [AMQP 3.2.10]
    #[default]
    Specification,
    /// Only symbols that begin with `x-`, as `RabbitMQ` (`strict` mode).
    Strict,
}

impl KeyRule {
    /// Checks the annotation map of a `modified` outcome before it goes to the core.
    pub fn check_modified(self, annotations: &[u8]) -> Result<(), MessageError> {
        check_annotations(annotations)?;
        for pair in Reader::new(annotations).map()? {
            self.check(&pair?)?;
        }
        Ok(())
    }

    /// Checks one key whose type is known to be legal.
    pub(super) fn check(self, pair: &Pair<'_>) -> Result<(), MessageError> {
        let allowed = match self {
            Self::Specification => true,
            Self::Strict => pair.symbol_key().is_some_and(|key| key.starts_with("x-")),
        };
        if allowed {
            return Ok(());
        }
        let (key, _) = decode_value(pair.key)?;
        Err(MessageError::AnnotationKey {
            key: key.to_string(),
        })
    }
}

/// Whether an annotation is the broker's to write: under these names nothing is taken from clients.
pub(super) fn is_the_brokers(pair: &Pair<'_>) -> bool {
    pair.symbol_key().is_some_and(|key| {
        matches!(
            key,
            EXCHANGE | ROUTING_KEY | DELIVERY_COUNT | ACQUIRED_COUNT
        ) || deaths::ANNOTATIONS.contains(&key)
    })
}

/// Annotation pairs of a client, without a map around them.
#[derive(Clone, Debug)]
pub(super) struct Edited {
    /// Encoded keys and values by turns.
    pub(super) pairs: Arc<[u8]>,
    /// How many keys and values.
    pub(super) count: u32,
}

/// Copies the pairs that are not the broker's.
pub(super) fn without_the_brokers(pairs: Pairs<'_>) -> Edited {
    let mut out = Vec::with_capacity(pairs.rest().len());
    let mut count = 0;
    for pair in pairs.flatten().filter(|pair| !is_the_brokers(pair)) {
        out.extend_from_slice(pair.key);
        out.extend_from_slice(pair.value);
        count += 2;
    }
    Edited {
        pairs: out.into(),
        count,
    }
}

/// Merges two sets of pairs: what `modified` brings replaces what has the same key, its last pair
/// counts, names of the broker are ignored.
pub(super) fn merge(pairs: Pairs<'_>, modified: Pairs<'_>) -> Edited {
    let changes = modified.flatten().filter(|pair| !is_the_brokers(pair));
    let changes = changes
        .map(|pair| (Key::of(&pair), pair))
        .collect::<BTreeMap<_, _>>();
    let kept = pairs
        .flatten()
        .filter(|pair| !changes.contains_key(&Key::of(pair)));
    let mut out = Vec::new();
    let mut count = 0;
    for pair in kept.chain(changes.values().copied()) {
        out.extend_from_slice(pair.key);
        out.extend_from_slice(pair.value);
        count += 2;
    }
    Edited {
        pairs: out.into(),
        count,
    }
}

/// A key by its meaning: the same symbol or number can be encoded in several ways.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key<'a> {
    Symbol(&'a str),
    Ulong(u64),
    /// Not legal, so never met behind the checks: stands for its encoding.
    Other(&'a [u8]),
}

impl<'a> Key<'a> {
    fn of(pair: &Pair<'a>) -> Self {
        let symbol = pair.symbol_key().map(Key::Symbol);
        let key = symbol.or_else(|| pair.ulong_key().map(Key::Ulong));
        key.unwrap_or(Key::Other(pair.key))
    }
}

impl Message {
    /// The CC keys: annotation `x-cc`, empty if absent.
    pub fn cc(&self) -> Result<Vec<Name>, MessageError> {
        let Some(value) = self.client_annotation(CC) else {
            return Ok(Vec::new());
        };
        let keys = match &value {
            Value::List(keys) => keys.iter().map(|key| match key {
                Value::String(key) => Some(Name::from(key.as_str())),
                _ => None,
            }),
            _ => {
                return Err(MessageError::Cc {
                    found: value.to_string(),
                });
            }
        };
        let keys = keys.collect::<Option<Vec<_>>>();
        keys.ok_or_else(|| MessageError::Cc {
            found: "a list with other elements".to_owned(),
        })
    }

    /// The value of a message annotation: the publisher's, or the broker's own `x-exchange`,
    /// `x-routing-key` and death annotations. What a headers exchange with `any-with-x` sees.
    pub fn annotation(&self, name: &str, route: &Route) -> Option<Value> {
        match name {
            EXCHANGE => Some(Value::string(route.exchange.as_str())),
            ROUTING_KEY => Some(Value::string(route.first_key())),
            _ => {
                let death = self.history().and_then(|history| history.annotation(name));
                death.or_else(|| self.client_annotation(name))
            }
        }
    }

    /// The value of an annotation that a client sent.
    fn client_annotation(&self, name: &str) -> Option<Value> {
        let mut pairs = self.client_annotations().flatten();
        let pair = pairs.find(|pair| pair.symbol_key() == Some(name))?;
        decode_value(pair.value).ok().map(|(value, _)| value)
    }
}
