//! The arguments of a queue: typed, checked, and as they are echoed back.
//!
//! Rules: `surface.md` 11 and the recordings of management. Integers of every width are taken; a
//! text may be a string or a symbol.

use crate::base::Name;
use crate::wire::Value;

use super::{Error, Kind};

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

/// What becomes of a death without a usable target. [dead-lettering part 6]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum DeadLetterStrategy {
    /// A counted drop.
    #[default]
    AtMostOnce,
    /// It stays in its queue until a target appears.
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

/// The arguments of one queue, checked. What is absent here may still come from a policy.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct QueueArguments {
    /// `x-queue-type`; default classic.
    pub queue_type: QueueType,
    /// `x-dead-letter-exchange`; "" is the default exchange.
    pub dead_letter_exchange: Option<Name>,
    /// `x-dead-letter-routing-key`; the empty key is a key.
    pub dead_letter_routing_key: Option<Name>,
    /// `x-dead-letter-strategy`.
    pub dead_letter_strategy: Option<DeadLetterStrategy>,
    /// `x-overflow`.
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
    /// `x-max-priority`, at least 1; 0 is the same as none.
    pub max_priority: Option<u8>,
    /// `x-single-active-consumer`; default false.
    pub single_active_consumer: bool,
    /// As given, in the types that are echoed back.
    echoed: Vec<(Name, Value)>,
}

/// What a declaration says besides its arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueProperties {
    /// Survives a restart.
    pub durable: bool,
    /// Belongs to one connection.
    pub exclusive: bool,
    /// Goes with its last consumer.
    pub auto_delete: bool,
}

impl QueueArguments {
    /// Checks the arguments of a declaration of the queue `name`.
    ///
    /// Errors: [`Error::BadArgument`] names the argument; [`Error::BadRequest`] for a
    /// dead-letter-exchange that is no text and for a quorum queue that is not durable or exclusive.
    pub fn parse(
        name: &Name,
        properties: QueueProperties,
        given: &[(Name, Value)],
    ) -> Result<Self, Error> {
        let _ = (
            name,
            properties,
            given,
            Kind::Queue,
            Overflow::ALL,
            DeadLetterStrategy::ALL,
        );
        Ok(Self::default())
    }

    /// The arguments as answered to a client: `x-queue-type` always there.
    pub fn echoed(&self) -> &[(Name, Value)] {
        &self.echoed
    }

    /// Whether a declaration with `given` means the same queue as this one, which exists.
    ///
    /// Errors: [`Error::Inequivalent`] names the first argument that differs.
    pub fn check_equivalent(&self, name: &Name, given: &Self) -> Result<(), Error> {
        let _ = (name, given);
        Ok(())
    }
}

/// Longest ttl and expiry, in milliseconds (as RabbitMQ: 2^32 - 1, about 49 days).
pub const DURATION_MS_MAX: u64 = u32::MAX as u64;
