//! The errors a gateway answers with: one function for each, with its AMQP condition. [AMQP 2.8.14]

use std::fmt::Display;
use std::sync::Arc;

use super::address::AddressError;
use super::seats::NoSeat;
use crate::broker::{Error as CoreError, TooManyQueues};
use crate::management::RequestError;
use crate::message::MessageError;
use crate::wire::performative::{
    AmqpError, ConnectionError, DeliveryState, Error, LinkError, Value, error, fields,
};

/// `rejected` for this reason.
pub(super) fn rejected(error: Error) -> DeliveryState {
    DeliveryState::Rejected {
        error: Some(Arc::new(error)),
    }
}

/// What the core refused. The one table from its errors to conditions.
pub(super) fn core(refused: &CoreError) -> Error {
    let condition = match refused {
        CoreError::NotFound { .. } => AmqpError::NotFound,
        CoreError::Inequivalent { .. }
        | CoreError::BadArgument { .. }
        | CoreError::NotIdle { .. } => AmqpError::PreconditionFailed,
        CoreError::BadRequest { .. } => AmqpError::InvalidField,
        CoreError::Reserved { .. } | CoreError::Internal { .. } => AmqpError::UnauthorizedAccess,
        CoreError::Locked { .. } | CoreError::InUse { .. } => AmqpError::ResourceLocked,
        CoreError::QueueLimit { .. } => AmqpError::ResourceLimitExceeded,
    };
    error(condition, refused.to_string())
}

/// A payload that is no message, or one that is refused.
pub(super) fn message(refused: &MessageError) -> Error {
    let condition = match refused {
        MessageError::AnnotationKey { .. }
        | MessageError::Cc { .. }
        | MessageError::CcKeys { .. }
        | MessageError::CcBytes { .. }
        | MessageError::CcKey(_) => AmqpError::InvalidField,
        _ => AmqpError::DecodeError,
    };
    error(condition, refused.to_string())
}

/// A large message of a connection that has to be read though the disk is full.
pub(super) fn disk_full() -> Error {
    let what = "the disk is full: send the message again when there is credit";
    error(AmqpError::ResourceLimitExceeded, what)
}

/// A message whose bytes are damaged.
pub(super) fn unreadable() -> Error {
    internal("the message cannot be read back from the journal")
}

/// An address that names nothing. A bare name is well written: there is just no such queue.
pub(super) fn address(refused: &AddressError) -> Error {
    let condition = match refused {
        AddressError::Bare { .. } => AmqpError::NotFound,
        _ => AmqpError::InvalidField,
    };
    error(condition, refused.to_string())
}

/// A field that cannot be so.
pub(super) fn invalid_field(what: impl Display) -> Error {
    error(AmqpError::InvalidField, what.to_string())
}

/// Something that is asked for and does not exist here.
pub(super) fn not_implemented(what: &str) -> Error {
    error(AmqpError::NotImplemented, what)
}

/// A condition of the request does not hold.
pub(super) fn precondition(what: impl Display) -> Error {
    error(AmqpError::PreconditionFailed, what.to_string())
}

/// A user's right that is missing.
pub(super) fn unauthorized(what: impl Display) -> Error {
    error(AmqpError::UnauthorizedAccess, what.to_string())
}

/// A connection that the broker ends.
pub(super) fn forced(what: String) -> Error {
    error(ConnectionError::ConnectionForced, what)
}

/// No room for another connection.
pub(super) fn too_many_connections(full: NoSeat, user: &str, vhost: &str) -> Error {
    let what = match full {
        NoSeat::Vhost(max) => format!("connection limit of {max} reached in vhost '{vhost}'"),
        NoSeat::User(max) => format!("connection limit of {max} reached for user '{user}'"),
    };
    error(AmqpError::ResourceLimitExceeded, what)
}

/// A vhost that is not there.
pub(super) fn no_vhost(name: &str) -> Error {
    error(AmqpError::NotFound, format!("no vhost '{name}'"))
}

/// An exchange that is not there (any more).
pub(super) fn no_exchange(name: &str) -> Error {
    error(
        AmqpError::NotFound,
        format!("no exchange '{name}' in vhost"),
    )
}

/// An exchange that clients may not publish to.
pub(super) fn internal_exchange(name: &str) -> Error {
    unauthorized(format_args!("exchange '{name}' is internal"))
}

/// A routing key that the user may not use on a topic exchange.
pub(super) fn forbidden_key(exchange: &str, key: &str) -> Error {
    unauthorized(format_args!(
        "write access to topic '{key}' in exchange '{exchange}' refused"
    ))
}

/// A message on the anonymous terminus that does not say where to.
pub(super) fn no_to() -> Error {
    precondition("the message has no property 'to', which the anonymous terminus needs")
}

/// A message in somebody else's name.
pub(super) fn user_id(given: &[u8]) -> Error {
    let given = String::from_utf8_lossy(given);
    unauthorized(format_args!(
        "user-id '{given}' is not the user that logged in"
    ))
}

/// A queue that was deleted under its consumer or publisher; without a description, as RabbitMQ.
pub(super) fn queue_deleted() -> Error {
    Error::new(AmqpError::ResourceDeleted, None, None)
}

/// A message is routed to more queues than it may enter in one step.
pub(super) fn too_many_queues() -> Error {
    error(AmqpError::ResourceLimitExceeded, TooManyQueues.to_string())
}

/// A full queue under `reject-publish`: names the queue and the reason. [dead-lettering part 7]
pub(super) fn queue_full(queue: &str) -> Error {
    let info = fields([
        ("queue", Value::String(queue.to_owned())),
        ("reason", Value::symbol("maxlen")),
    ]);
    let description = format!("queue '{queue}' is full");
    Error::new(
        AmqpError::ResourceLimitExceeded,
        Some(description),
        Some(info),
    )
}

/// A message larger than its consumer takes.
pub(super) fn message_too_large(max_bytes: u64) -> Error {
    let what = format!("a message is larger than the receiver's maximum of {max_bytes} bytes");
    error(LinkError::MessageSizeExceeded, what)
}

/// Too many links on one connection.
pub(super) fn too_many_links(max: usize) -> Error {
    error(
        AmqpError::ResourceLimitExceeded,
        format!("at most {max} links on a connection"),
    )
}

/// Links of one connection with too long texts.
pub(super) fn too_long_links(max: u64) -> Error {
    error(
        AmqpError::ResourceLimitExceeded,
        format!(
            "names, addresses and selectors of a connection's links take more than {max} bytes"
        ),
    )
}

/// A link that is used before it was answered: the engine does not let that happen.
pub(super) fn not_attached() -> Error {
    internal("a message came in on a link whose target is not known")
}

/// A management request that is no message.
pub(super) fn request(refused: &RequestError) -> Error {
    error(AmqpError::DecodeError, refused.to_string())
}

/// A fault of ours.
pub(super) fn internal(what: &str) -> Error {
    error(AmqpError::InternalError, what)
}
