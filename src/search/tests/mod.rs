//! Claims about finding dead letters.

mod contains;
mod filter;
mod fingerprint;
mod groups;
mod parts;
mod variable_parts;

use std::sync::Arc;

use bytes::Bytes;

use super::{Candidate, DeathFilter, Verdict};
use crate::base::{Name, Position, Timestamp};
use crate::deaths::{Death, Evidence, History, How, Reason};
use crate::message::{KeyRule, Message, Route};
use crate::wire::{Value, encode_value};

/// A message with the sections of these codes; of none with an empty body.
fn message(sections: &[(u64, Value)]) -> Message {
    let mut payload = Vec::new();
    let empty = [data(b"")];
    let sections = if sections.is_empty() {
        &empty
    } else {
        sections
    };
    for (code, value) in sections {
        let section = Value::Described(Box::new((Value::Ulong(*code), value.clone())));
        encode_value(&section, &mut payload);
    }
    Message::from_transfer(payload.into(), KeyRule::Specification).unwrap()
}

fn data(bytes: &[u8]) -> (u64, Value) {
    (0x75, Value::Binary(Bytes::copy_from_slice(bytes)))
}

fn properties(pairs: &[(&str, Value)]) -> (u64, Value) {
    let pairs = pairs.iter();
    let pairs = pairs.map(|(key, value)| (Value::string(*key), value.clone()));
    (0x74, Value::Map(pairs.collect()))
}

/// An encoded map of symbols to strings.
fn info(pairs: &[(&str, &str)]) -> Bytes {
    let pairs = pairs.iter();
    let pairs = pairs.map(|(key, value)| (Value::symbol(*key), Value::string(*value)));
    let mut encoded = Vec::new();
    encode_value(&Value::Map(pairs.collect()), &mut encoded);
    encoded.into()
}

/// The evidence of a consumer that rejected.
fn evidence(condition: Option<&str>, description: Option<&str>) -> Evidence {
    Evidence {
        condition: condition.map(Name::from),
        description: description.map(Name::from),
        container: Some("billing-1".into()),
        user: Some("ada".into()),
        how: Some(How::Rejected),
        ..Evidence::default()
    }
}

fn death(queue: &str, reason: Reason, time: i64, evidence: Option<Evidence>) -> Death {
    Death {
        queue: queue.into(),
        reason,
        time: Timestamp(time),
        exchange: "shop".into(),
        routing_keys: [Name::from("order.new"), Name::from("copy")].into(),
        ttl: None,
        evidence: evidence.map(Arc::new),
    }
}

/// The message after these deaths.
fn died(message: &Message, deaths: &[Death]) -> Message {
    let history = deaths.iter().fold(None, |history: Option<History>, death| {
        Some(History::record(history.as_ref(), death).unwrap())
    });
    message.died(Arc::new(history.unwrap()), 1)
}

/// What a filter says of a message at position 7 that came with the key of its dead-letter queue.
fn verdict(filter: &DeathFilter, message: &Message) -> Verdict {
    let route = Route {
        exchange: "dlx".into(),
        keys: ["orders.dlq".into()].into(),
    };
    filter.verdict(&Candidate {
        position: Position(7),
        message,
        route: &route,
        failures: 0,
    })
}

fn filter(parts: &[(&str, Value)]) -> DeathFilter {
    DeathFilter::of_parts(parts.iter().map(|(name, value)| (*name, value))).unwrap()
}

fn texts(texts: &[&str]) -> Value {
    Value::List(texts.iter().map(|text| Value::string(*text)).collect())
}
