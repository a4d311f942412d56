//! Claims about messages.

mod annotations;
mod blob;
mod deliveries;
mod groups;
mod parts;
mod stored;
mod taken;

use std::sync::Arc;

use bytes::Bytes;

use super::{DeliveryView, KeyRule, Merging, Message, Route};
use crate::base::{Name, Timestamp};
use crate::deaths::{Death, DeathsView, History, Reason};

/// Bytes from hexadecimal digits; blanks separate.
fn bytes(text: &str) -> Bytes {
    let digits = text
        .chars()
        .filter(|c| !c.is_whitespace())
        .collect::<Vec<_>>();
    let byte = |pair: &[char]| u8::from_str_radix(&String::from_iter(pair), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(nibble.into(), 16).unwrap();
    let digits = bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
    digits.collect()
}

fn message(payload: &str) -> Message {
    Message::from_transfer(bytes(payload), KeyRule::Specification).unwrap()
}

/// The message with the annotations of a `modified` outcome of its own.
fn modified_by(message: &Message, annotations: &[u8]) -> Option<Message> {
    message.with_annotations(
        &Bytes::copy_from_slice(annotations),
        &mut Merging::default(),
    )
}

fn route(exchange: &str, keys: &[&str]) -> Arc<Route> {
    let keys = keys.iter().map(|key| Name::from(*key)).collect();
    Arc::new(Route {
        exchange: exchange.into(),
        keys,
    })
}

/// The prefix of a first delivery, or of a later one after failures and returns.
fn prefix(message: &Message, route: &Arc<Route>, failures: u32, acquired: u32) -> String {
    let mut out = Vec::new();
    message.write_prefix(&view(message, route, failures, acquired), &mut out);
    hex(&out)
}

/// A delivery after failures and returns.
fn view<'a>(
    message: &Message,
    route: &'a Arc<Route>,
    failures: u32,
    acquired: u32,
) -> DeliveryView<'a> {
    DeliveryView {
        route,
        first_acquirer: message.history().is_none() && acquired == 0,
        delivery_count: message.carried_delivery_count() + failures,
        failures,
        acquired,
        suspect: false,
        deaths: DeathsView::default(),
    }
}

/// A rejection in `src`.
fn death() -> Death {
    Death {
        queue: "src".into(),
        reason: Reason::Rejected,
        time: Timestamp(0x1a1_fd87_458c),
        exchange: Name::default(),
        routing_keys: Arc::from([Name::from("src")]),
        ttl: None,
        evidence: None,
    }
}

/// A history of one rejection in `src`.
fn rejected() -> Arc<History> {
    Arc::new(History::record(None, &death()).unwrap())
}

/// mimalloc serves sizes that are a power of two at once, and takes a slow way with the others.
#[test]
fn the_allocation_of_a_shared_message_is_a_power_of_two() {
    let counts = 2 * size_of::<usize>();
    assert_eq!(counts + size_of::<Message>(), 128);
}
