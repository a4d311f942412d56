//! A message to publish.

use std::time::Duration;

use bytes::Bytes;

use crate::wire::{
    HeaderFields, SectionKind, Value, encode_value, write_binary, write_descriptor, write_header,
};

/// A message to publish: a body of bytes, with header, properties and annotations. Durable unless
/// it is made [`transient`](Message::transient).
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use = "a message does nothing until it is published"]
pub struct Message {
    header: HeaderFields,
    id: Option<String>,
    to: Option<String>,
    subject: Option<String>,
    reply_to: Option<String>,
    correlation_id: Option<String>,
    content_type: Option<String>,
    annotations: Vec<(String, Value)>,
    properties: Vec<(String, Value)>,
    body: Bytes,
}

impl Message {
    /// A durable message with this body.
    pub fn new(body: impl Into<Bytes>) -> Self {
        Self {
            header: HeaderFields {
                durable: Some(true),
                ..HeaderFields::default()
            },
            id: None,
            to: None,
            subject: None,
            reply_to: None,
            correlation_id: None,
            content_type: None,
            annotations: Vec::new(),
            properties: Vec::new(),
            body: body.into(),
        }
    }

    /// Makes it transient: it is kept in memory only, does not survive a restart, and is accepted
    /// without the journal.
    pub const fn transient(mut self) -> Self {
        self.header.durable = Some(false);
        self
    }

    /// Sets the time to live, after which it dies; in whole milliseconds, at most 49 days.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.header.ttl_ms = Some(u32::try_from(ttl.as_millis()).unwrap_or(u32::MAX));
        self
    }

    /// Sets the priority; the default is 4.
    pub const fn priority(mut self, priority: u8) -> Self {
        self.header.priority = Some(priority);
        self
    }

    /// Sets the property `message-id`.
    pub fn message_id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Sets the address, for a publisher without an address of its own.
    pub fn to(mut self, address: impl Into<String>) -> Self {
        self.to = Some(address.into());
        self
    }

    /// Sets the subject, which is the routing key if the publisher's address has none.
    pub fn subject(mut self, subject: impl Into<String>) -> Self {
        self.subject = Some(subject.into());
        self
    }

    /// Sets the address for answers.
    pub fn reply_to(mut self, address: impl Into<String>) -> Self {
        self.reply_to = Some(address.into());
        self
    }

    /// Sets the id of the message that it answers.
    pub fn correlation_id(mut self, id: impl Into<String>) -> Self {
        self.correlation_id = Some(id.into());
        self
    }

    /// Sets the type of its body, such as `application/json`.
    pub fn content_type(mut self, content_type: impl Into<String>) -> Self {
        self.content_type = Some(content_type.into());
        self
    }

    /// Adds a message annotation; its name must begin with `x-`.
    pub fn annotation(mut self, name: impl Into<String>, value: Value) -> Self {
        self.annotations.push((name.into(), value));
        self
    }

    /// Adds an application property, for selectors and headers exchanges.
    pub fn property(mut self, name: impl Into<String>, value: Value) -> Self {
        self.properties.push((name.into(), value));
        self
    }

    /// The encoded message, as the payload of a transfer. [AMQP 3.2]
    pub(super) fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(self.body.len() + 64);
        write_header(&mut out, &self.header);
        let pairs = |pairs: &[(String, Value)], key: fn(&str) -> Value| {
            let pairs = pairs.iter();
            Value::Map(
                pairs
                    .map(|(name, value)| (key(name), value.clone()))
                    .collect(),
            )
        };
        if !self.annotations.is_empty() {
            write_descriptor(&mut out, SectionKind::MessageAnnotations.code());
            encode_value(
                &pairs(&self.annotations, |key| Value::symbol(key)),
                &mut out,
            );
        }
        let text = |text: &Option<String>| text.as_ref().map_or(Value::Null, Value::string);
        let fields = [
            text(&self.id),
            Value::Null,
            text(&self.to),
            text(&self.subject),
            text(&self.reply_to),
            text(&self.correlation_id),
            self.content_type
                .as_ref()
                .map_or(Value::Null, Value::symbol),
        ];
        if fields.iter().any(|field| *field != Value::Null) {
            write_descriptor(&mut out, SectionKind::Properties.code());
            encode_value(&Value::List(fields.to_vec()), &mut out);
        }
        if !self.properties.is_empty() {
            write_descriptor(&mut out, SectionKind::ApplicationProperties.code());
            encode_value(&pairs(&self.properties, |key| Value::string(key)), &mut out);
        }
        write_descriptor(&mut out, SectionKind::Data.code());
        write_binary(&mut out, &self.body);
        out.into()
    }
}

impl<T: Into<Bytes>> From<T> for Message {
    fn from(body: T) -> Self {
        Self::new(body)
    }
}
