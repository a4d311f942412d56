//! A message that a filter looks at, as its queue holds it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::base::{Name, Position};
use crate::deaths::{Entry, Evidence};
use crate::filter::uuid_text;
use crate::message::{Message, Route};
use crate::wire::{PropertyField, Value};

/// The word for the cause of a message that is not in the quarantine.
pub const NO_CAUSE: &str = "none";

/// A message in a queue, with what the queue knows of it.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Its position in the queue.
    pub position: Position,
    /// The message itself.
    pub message: &'a Message,
    /// Exchange and keys with which it came to the queue.
    pub route: &'a Route,
    /// Failed deliveries in this queue.
    pub failures: u32,
}

impl<'a> Candidate<'a> {
    /// The entry of the latest death; none if it never died.
    pub fn latest(&self) -> Option<&'a Entry> {
        let entries = self.message.history()?.entries();
        entries.first().map(|entry| &**entry)
    }

    /// The evidence of the latest death, if there is any.
    pub fn evidence(&self) -> Option<&'a Evidence> {
        self.latest()?.evidence.as_deref()
    }

    /// The exchange to which it had been published before its latest death; of a message that never
    /// died the one with which it came here.
    pub fn exchange(&self) -> &'a Name {
        let history = self.message.history();
        history.map_or(&self.route.exchange, |history| history.last().exchange)
    }

    /// The routing keys of the latest death's entry; of a message that never died those with which
    /// it came here.
    pub fn keys(&self) -> &'a [Name] {
        self.latest()
            .map_or(&self.route.keys, |entry| &entry.routing_keys)
    }

    /// The word for why it is in the quarantine, [`NO_CAUSE`] if it is not there.
    pub fn cause(&self) -> &'static str {
        let quarantined = self.message.history().and_then(|it| it.quarantined());
        quarantined.map_or(NO_CAUSE, |why| why.cause.as_str())
    }
}

/// The message-id as the HTTP API shows it: strings as they are, numbers in decimal, UUIDs in their
/// text form, bytes in base64. [AMQP 3.2.4]
pub fn message_id_text(message: &Message) -> Option<String> {
    property_text(message, PropertyField::MessageId)
}

/// A message-id or correlation-id as the HTTP API shows it. [AMQP 3.2.4]
pub fn property_text(message: &Message, field: PropertyField) -> Option<String> {
    match message.property(field)? {
        Value::String(text) => Some(text),
        Value::Ulong(id) => Some(id.to_string()),
        Value::Uuid(bytes) => Some(uuid_text(&bytes)),
        Value::Binary(bytes) => Some(STANDARD.encode(bytes)),
        _ => None,
    }
}
