//! The errors that a gateway answers with: one function for each, with its AMQP condition. [AMQP
//! 2.8.14]

use std::fmt::Display;
use std::sync::Arc;

use super::address::AddressError;
use super::seats::NoSeat;
use crate::broker::{Error as CoreError, NotCommitted, PublishOutcome, TooManyQueues};
use crate::management::RequestError;
use crate::message::MessageError;
use crate::wire::performative::{
    AmqpError, ConnectionError, DeliveryState, Error, LinkError, TransactionError, Value, error,
    fields,
};

/// Information of an error: the field that is invalid.
const INVALID_FIELD: &str = "invalid-field";
/// The field with the client id.
const CONTAINER_ID: &str = "container-id";

/// The outcome `rejected` with this error.
pub(super) fn rejected(error: Error) -> DeliveryState {
    DeliveryState::Rejected {
        error: Some(Arc::new(error)),
    }
}

/// An error of the core. The one table from its errors to conditions.
pub(super) fn core(refused: &CoreError) -> Error {
    let condition = match refused {
        CoreError::NotFound { .. }
        | CoreError::NoMessage { .. }
        | CoreError::NoRedrive { .. }
        | CoreError::NoNote { .. } => AmqpError::NotFound,
        CoreError::Inequivalent { .. }
        | CoreError::BadArgument { .. }
        | CoreError::RedriveExists { .. }
        | CoreError::RedriveState { .. }
        | CoreError::ImportElsewhere { .. }
        | CoreError::NotIdle { .. }
        | CoreError::NotReady { .. }
        | CoreError::QueueFull { .. } => AmqpError::PreconditionFailed,
        CoreError::BadRequest { .. } => AmqpError::InvalidField,
        CoreError::Reserved { .. } | CoreError::Internal { .. } => AmqpError::UnauthorizedAccess,
        CoreError::Locked { .. } | CoreError::OtherOwner { .. } | CoreError::InUse { .. } => {
            AmqpError::ResourceLocked
        }
        CoreError::QueueLimit { .. }
        | CoreError::TooManyRedrives
        | CoreError::TooManyImports
        | CoreError::TooManyNotes { .. } => AmqpError::ResourceLimitExceeded,
    };
    error(condition, refused.to_string())
}

/// A payload that is not a message, or a message that is refused.
pub(super) fn message(refused: &MessageError) -> Error {
    let condition = match refused {
        MessageError::AnnotationKey { .. }
        | MessageError::Cc { .. }
        | MessageError::CcKeys { .. }
        | MessageError::CcBytes { .. }
        | MessageError::CcKey(_)
        | MessageError::DeliveryTime { .. }
        | MessageError::DeliveryDelay { .. } => AmqpError::InvalidField,
        _ => AmqpError::DecodeError,
    };
    error(condition, refused.to_string())
}

/// A large message refused because the disk is full, on a connection that must be read on for its
/// settlements.
pub(super) fn disk_full() -> Error {
    let what = "the disk is full: send the message again when there is credit";
    error(AmqpError::ResourceLimitExceeded, what)
}

/// A message whose bytes on disk are damaged.
pub(super) fn unreadable() -> Error {
    internal("the message cannot be read back from the journal")
}

/// An invalid address. A bare name is well-formed: there is just no such queue.
pub(super) fn address(refused: &AddressError) -> Error {
    let condition = match refused {
        AddressError::Bare { .. } => AmqpError::NotFound,
        _ => AmqpError::InvalidField,
    };
    error(condition, refused.to_string())
}

/// A field with an invalid value.
pub(super) fn invalid_field(what: impl Display) -> Error {
    error(AmqpError::InvalidField, what.to_string())
}

/// A requested feature that this broker does not have.
pub(super) fn not_implemented(what: &str) -> Error {
    error(AmqpError::NotImplemented, what)
}

/// A precondition of the request that does not hold.
pub(super) fn precondition(what: impl Display) -> Error {
    error(AmqpError::PreconditionFailed, what.to_string())
}

/// A right that the user does not have.
pub(super) fn unauthorized(what: impl Display) -> Error {
    error(AmqpError::UnauthorizedAccess, what.to_string())
}

/// A connection that the broker closes.
pub(super) fn forced(what: String) -> Error {
    error(ConnectionError::ConnectionForced, what)
}

/// A connection beyond the limit of its vhost or user.
pub(super) fn too_many_connections(full: NoSeat, user: &str, vhost: &str) -> Error {
    let what = match full {
        NoSeat::Vhost(max) => format!("connection limit of {max} reached in vhost '{vhost}'"),
        NoSeat::User(max) => format!("connection limit of {max} reached for user '{user}'"),
    };
    error(AmqpError::ResourceLimitExceeded, what)
}

/// A client id that another connection has.
pub(super) fn client_id_taken(client: &str, vhost: &str) -> Error {
    let what = format!(
        "container-id '{client}' is that of another connection in vhost '{vhost}', and one of both \
         is to be the only one"
    );
    let info = fields([(INVALID_FIELD, Value::symbol(CONTAINER_ID))]);
    Error::new(AmqpError::InvalidField, Some(what), Some(info))
}

/// Whether an error is that another connection has the client id.
pub(super) fn is_client_id_taken(error: &Error) -> bool {
    let info = error.info.as_ref().and_then(|info| info.get(INVALID_FIELD));
    info == Some(&Value::symbol(CONTAINER_ID))
}

/// A vhost that does not exist.
pub(super) fn no_vhost(name: &str) -> Error {
    error(AmqpError::NotFound, format!("no vhost '{name}'"))
}

/// An exchange that does not exist (any more).
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

/// A message on the anonymous terminus without the property `to`.
pub(super) fn no_to() -> Error {
    precondition("the message has no property 'to', which the anonymous terminus needs")
}

/// A message with the user-id of another user.
pub(super) fn user_id(given: &[u8]) -> Error {
    let given = String::from_utf8_lossy(given);
    unauthorized(format_args!(
        "user-id '{given}' is not the user that logged in"
    ))
}

/// The queue of a consumer or publisher was deleted; without a description, as RabbitMQ.
pub(super) fn queue_deleted() -> Error {
    Error::new(AmqpError::ResourceDeleted, None, None)
}

/// A message routed to more queues than it may enter in one step.
pub(super) fn too_many_queues(why: TooManyQueues) -> Error {
    error(AmqpError::ResourceLimitExceeded, why.to_string())
}

/// A full queue under `reject-publish`; names the queue and the reason. [dead-lettering part 7]
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

/// A message larger than its consumer accepts.
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

/// Links of one connection whose texts are too long together.
pub(super) fn too_long_links(max: u64) -> Error {
    error(
        AmqpError::ResourceLimitExceeded,
        format!(
            "names, addresses and selectors of a connection's links take more than {max} bytes"
        ),
    )
}

/// A link that is used before it is attached; the engine prevents that.
pub(super) fn not_attached() -> Error {
    internal("a message came in on a link whose target is not known")
}

/// A management request that is not a message.
pub(super) fn request(refused: &RequestError) -> Error {
    error(AmqpError::DecodeError, refused.to_string())
}

/// A transaction that was not declared on this connection, or that was discharged.
pub(super) fn unknown_transaction() -> Error {
    let what = "no such transaction on this connection";
    error(TransactionError::UnknownId, what)
}

/// A transaction that was not discharged in time.
pub(super) fn transaction_timeout(timeout_ms: u64) -> Error {
    let what = format!("the transaction was not discharged within {timeout_ms} ms: rolled back");
    error(TransactionError::Timeout, what)
}

/// A transaction that cannot be committed.
pub(super) fn rolled_back(why: &str) -> Error {
    error(TransactionError::Rollback, why)
}

/// A transaction that the core refused as a whole.
pub(super) fn not_committed(why: &NotCommitted) -> Error {
    match why {
        NotCommitted::Post(outcome) => not_posted(outcome),
        NotCommitted::NotHeld => rolled_back(
            "a delivery of it was held for too long: it is in its queue, and others may have it",
        ),
    }
}

/// One of the messages of a transaction would not be taken.
fn not_posted(outcome: &PublishOutcome) -> Error {
    match outcome {
        PublishOutcome::Accepted => {
            internal("a transaction was refused for a message that is taken")
        }
        PublishOutcome::Unroutable => rolled_back("no queue takes one of its messages"),
        PublishOutcome::QueueFull { queue } => rolled_back(&queue_full(queue).to_string()),
        PublishOutcome::TooManyQueues(why) => rolled_back(&why.to_string()),
        PublishOutcome::NoExchange { exchange } => rolled_back(&no_exchange(exchange).to_string()),
        PublishOutcome::Internal { exchange } => {
            rolled_back(&internal_exchange(exchange).to_string())
        }
        PublishOutcome::Forbidden { exchange, key } => {
            rolled_back(&forbidden_key(exchange, key).to_string())
        }
    }
}

/// A message that would be in two transactions.
pub(super) fn second_transaction() -> Error {
    rolled_back("a delivery whose outcome is in another transaction")
}

/// A transaction with outcomes of consumers whose session has ended.
pub(super) fn session_of_transaction() -> Error {
    rolled_back("a session ended whose consumers had outcomes in the transaction")
}

/// Too many transactions on one connection.
pub(super) fn too_many_transactions(max: usize) -> Error {
    limit(format_args!("at most {max} transactions on a connection"))
}

/// Too many messages and outcomes in one transaction.
pub(super) fn too_many_in_transaction(max: usize) -> Error {
    limit(format_args!(
        "at most {max} messages and outcomes in a transaction: rolled back"
    ))
}

/// A transaction with too many bytes.
pub(super) fn too_long_transaction(max_bytes: u64) -> Error {
    limit(format_args!(
        "at most {max_bytes} bytes in a transaction (setting transaction-max-bytes): rolled back"
    ))
}

/// No room for more bytes of transactions.
pub(super) fn no_room_for_transaction() -> Error {
    limit("transactions that are not committed take too much memory: rolled back")
}

fn limit(what: impl Display) -> Error {
    error(AmqpError::ResourceLimitExceeded, what.to_string())
}

/// A request that makes no sense here.
pub(super) fn not_allowed(what: &str) -> Error {
    error(AmqpError::NotAllowed, what)
}

/// A link that was attached again on another connection.
pub(super) fn stolen() -> Error {
    error(
        LinkError::Stolen,
        "the link was attached again on another connection",
    )
}

/// Two deliveries of a link with the same tag, of which the first is not settled.
pub(super) fn repeated_tag() -> Error {
    not_allowed("the delivery-tag is that of a delivery of the link that is not settled")
}

/// An error in the broker itself.
pub(super) fn internal(what: &str) -> Error {
    error(AmqpError::InternalError, what)
}
