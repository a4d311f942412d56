//! The message.

use std::sync::Arc;

use bytes::Bytes;
use thiserror::Error;

use super::DeliveryView;
use crate::base::{Name, Timestamp};
use crate::deaths::History;
use crate::wire::{DecodeError, PropertyField, Value};

/// Where a message was published to.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Route {
    /// The exchange, "" for the default exchange.
    pub exchange: Name,
    /// The routing keys: the first key, then CC. Never empty.
    pub keys: Arc<[Name]>,
}

/// Which annotation keys a publisher may send.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum KeyRule {
    /// Every symbol and ulong, as the specification says.
    #[default]
    Specification,
    /// Only symbols that begin with `x-`, as RabbitMQ (`strict` mode).
    Strict,
}

/// Why a received message is none, or one that is refused.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum MessageError {
    /// Its bytes are no message. (`amqp:decode-error`)
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// An annotation key that `strict` mode refuses. (`amqp:invalid-field`)
    #[error("annotation key {key} does not begin with 'x-'")]
    AnnotationKey {
        /// The key as text.
        key: String,
    },
    /// An `x-cc` annotation that is no list of strings. (`amqp:invalid-field`)
    #[error("annotation x-cc must be a list of strings, found {found}")]
    Cc {
        /// What it is.
        found: String,
    },
    /// A journal form that cannot be read.
    #[error("stored message is damaged: {0}")]
    Damaged(&'static str),
}

/// One message: immutable, shared as `Arc<Message>`.
#[derive(Clone, Debug)]
pub struct Message {
    bare: Bytes,
    history: Option<Arc<History>>,
}

impl Message {
    /// Takes a message from the payload of a transfer. [AMQP 3.2]
    pub fn from_transfer(payload: Bytes, keys: KeyRule) -> Result<Self, MessageError> {
        let _ = keys;
        Ok(Self {
            bare: payload,
            history: None,
        })
    }

    /// The bare message (and footer) as received.
    pub fn bare(&self) -> &[u8] {
        &self.bare
    }

    /// The same bytes as a shared slice, for large messages that are not copied again.
    pub fn bare_bytes(&self) -> Bytes {
        self.bare.clone()
    }

    /// Length of [`Message::bare`], in bytes: what `max-length-bytes` counts.
    pub fn bare_len(&self) -> usize {
        self.bare.len()
    }

    /// Header durable; false if absent.
    pub fn durable(&self) -> bool {
        false
    }

    /// Header priority.
    pub fn priority(&self) -> Option<u8> {
        None
    }

    /// Header ttl, in milliseconds.
    pub fn ttl_ms(&self) -> Option<u32> {
        None
    }

    /// Header delivery-count it brought along from deaths; 0 when published.
    pub fn carried_delivery_count(&self) -> u32 {
        0
    }

    /// A field of the properties section, if it is there and can be read.
    pub fn property(&self, field: PropertyField) -> Option<Value> {
        let _ = field;
        None
    }

    /// Property to, if it is text. [AMQP 3.2.4]
    pub fn to(&self) -> Option<&str> {
        None
    }

    /// Property subject. [AMQP 3.2.4]
    pub fn subject(&self) -> Option<&str> {
        None
    }

    /// Property reply-to, if it is text. [AMQP 3.2.4]
    pub fn reply_to(&self) -> Option<&str> {
        None
    }

    /// Property user-id. [AMQP 3.2.4]
    pub fn user_id(&self) -> Option<&[u8]> {
        None
    }

    /// Property absolute-expiry-time. [AMQP 3.2.4]
    pub fn absolute_expiry_time(&self) -> Option<Timestamp> {
        None
    }

    /// The CC keys: annotation `x-cc`, empty if absent.
    pub fn cc(&self) -> Result<Vec<Name>, MessageError> {
        Ok(Vec::new())
    }

    /// The value of an application property.
    pub fn application_property(&self, key: &str) -> Option<Value> {
        let _ = key;
        None
    }

    /// The value of a message annotation: the publisher's, or the broker's own `x-exchange`,
    /// `x-routing-key` and death annotations.
    pub fn annotation(&self, key: &str, route: &Route) -> Option<Value> {
        let _ = (key, route);
        None
    }

    /// The encoded body sections, as received.
    pub fn body(&self) -> &[u8] {
        &self.bare
    }

    /// Its deaths so far.
    pub fn history(&self) -> Option<&Arc<History>> {
        self.history.as_ref()
    }

    /// The dead letter: this message with its history after a death, without ttl. Shares the bytes.
    #[must_use]
    pub fn died(&self, history: Arc<History>, delivery_count: u32) -> Self {
        let _ = delivery_count;
        Self {
            bare: self.bare.clone(),
            history: Some(history),
        }
    }

    /// This message with the annotations of a `modified` outcome merged in: an encoded map that
    /// passed [`crate::wire::check_annotations`]. Names of the broker are ignored; what cannot be
    /// read changes nothing.
    #[must_use]
    pub fn with_annotations(&self, modified: &[u8]) -> Self {
        let _ = modified;
        self.clone()
    }

    /// Writes the header and message-annotations sections of one delivery; the bare bytes follow.
    pub fn write_prefix(&self, view: &DeliveryView<'_>, out: &mut Vec<u8>) {
        let _ = (view, out);
    }

    /// Writes the journal form; its first byte names the origin format.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let _ = out;
    }

    /// Reads the journal form; all of `input` must belong to it.
    pub fn decode(input: Bytes) -> Result<Self, MessageError> {
        let _ = input;
        Err(MessageError::Damaged("empty"))
    }
}
