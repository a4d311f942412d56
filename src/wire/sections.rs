//! The sections of a message, found in place. [AMQP 3.2]

use super::DecodeError;

/// Where one section is: offsets from the first byte of the message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Section {
    /// First byte: the descriptor's.
    pub start: u32,
    /// First byte of the value under the descriptor.
    pub value: u32,
    /// Behind the last byte; equal to `start` if the section is absent.
    pub end: u32,
}

/// Where the sections of a message are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SectionIndex {
    /// header [AMQP 3.2.1]
    pub header: Section,
    /// delivery-annotations [AMQP 3.2.2]
    pub delivery_annotations: Section,
    /// message-annotations [AMQP 3.2.3]
    pub message_annotations: Section,
    /// properties [AMQP 3.2.4]
    pub properties: Section,
    /// application-properties [AMQP 3.2.5]
    pub application_properties: Section,
    /// All sections of the body [AMQP 3.2.6, 3.2.7, 3.2.8]; `value` is the first one's.
    pub body: Section,
    /// footer [AMQP 3.2.9]
    pub footer: Section,
    /// Where the bare message begins: properties, application-properties or body.
    pub bare: u32,
}

/// The fields of a header section, absent ones as nothing. [AMQP 3.2.1]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HeaderFields {
    /// durable
    pub durable: Option<bool>,
    /// priority
    pub priority: Option<u8>,
    /// ttl, in milliseconds
    pub ttl_ms: Option<u32>,
    /// first-acquirer
    pub first_acquirer: Option<bool>,
    /// delivery-count
    pub delivery_count: Option<u32>,
}

/// A field of the properties section, by its place in the list. [AMQP 3.2.4]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PropertyField {
    /// message-id
    MessageId = 0,
    /// user-id
    UserId = 1,
    /// to
    To = 2,
    /// subject
    Subject = 3,
    /// reply-to
    ReplyTo = 4,
    /// correlation-id
    CorrelationId = 5,
    /// content-type
    ContentType = 6,
    /// content-encoding
    ContentEncoding = 7,
    /// absolute-expiry-time
    AbsoluteExpiryTime = 8,
    /// creation-time
    CreationTime = 9,
    /// group-id
    GroupId = 10,
    /// group-sequence
    GroupSequence = 11,
    /// reply-to-group-id
    ReplyToGroupId = 12,
}

/// Finds the sections of a message and checks their order, keys and structure.
pub fn walk(message: &[u8]) -> Result<SectionIndex, DecodeError> {
    let _ = message;
    Err(DecodeError::EmptyMessage)
}
