//! Why the core refused. Each kind maps to one AMQP condition and one management code, in one table.

use thiserror::Error;

use crate::base::Name;

/// What is meant by a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObjectKind {
    /// A queue.
    Queue,
    /// An exchange.
    Exchange,
    /// A policy.
    Policy,
}

impl std::fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Queue => "queue",
            Self::Exchange => "exchange",
            Self::Policy => "policy",
        })
    }
}

/// A refused command. The peer's or operator's fault, never ours.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// No such thing. (404, `amqp:not-found`)
    #[error("no {kind} '{name}' in vhost")]
    NotFound {
        /// What kind of thing.
        kind: ObjectKind,
        /// Its name.
        name: Name,
    },
    /// Declared before with another property or argument. (409, `amqp:precondition-failed`)
    #[error("inequivalent {field} for {kind} '{name}': it has {stored}, asked for {given}")]
    Inequivalent {
        /// What kind of thing.
        kind: ObjectKind,
        /// Its name.
        name: Name,
        /// Which property or argument.
        field: Name,
        /// Its value.
        stored: String,
        /// The value asked for.
        given: String,
    },
    /// An argument that cannot be. (409, `amqp:precondition-failed`)
    #[error("invalid argument '{argument}' for {kind} '{name}': {why}")]
    BadArgument {
        /// What kind of thing.
        kind: ObjectKind,
        /// Its name.
        name: Name,
        /// Which argument.
        argument: Name,
        /// What is wrong and what would be right.
        why: String,
    },
    /// A request that cannot be understood. (400, `amqp:invalid-field`)
    #[error("{why}")]
    BadRequest {
        /// What is wrong and what would be right.
        why: String,
    },
    /// A reserved name or a predeclared thing. (403, `amqp:unauthorized-access`)
    #[error("{kind} '{name}': {why}")]
    Reserved {
        /// What kind of thing.
        kind: ObjectKind,
        /// Its name.
        name: Name,
        /// Why not.
        why: &'static str,
    },
    /// Exclusive to another connection. (400 in management as RabbitMQ, `amqp:resource-locked`)
    /// The words are RabbitMQ's: its clients look for both sentences.
    #[error(
        "cannot obtain exclusive access to locked queue '{name}' in vhost '{vhost}'. It could be \
         originally declared on another connection or the exclusive property value does not match \
         that of the original declaration."
    )]
    Locked {
        /// The queue.
        name: Name,
        /// Its vhost.
        vhost: Name,
    },
    /// An exclusive consumer holds it, or consumers exist. (`amqp:resource-locked`)
    #[error("queue '{name}' is in exclusive use by a consumer")]
    InUse {
        /// The queue.
        name: Name,
    },
    /// `if_unused` or `if_empty` did not hold. (412/409, `amqp:precondition-failed`)
    #[error("{kind} '{name}' is {state}")]
    NotIdle {
        /// What kind of thing.
        kind: ObjectKind,
        /// Its name.
        name: Name,
        /// "in use" or "not empty".
        state: &'static str,
    },
    /// Clients may not publish to it. (`amqp:unauthorized-access`)
    #[error("exchange '{name}' is internal")]
    Internal {
        /// The exchange.
        name: Name,
    },
    /// The vhost has as many queues as it may. (403 in management, `amqp:resource-limit-exceeded`)
    #[error("cannot declare queue '{name}': queue limit in vhost '{vhost}' ({limit}) is reached")]
    QueueLimit {
        /// The queue.
        name: Name,
        /// The vhost.
        vhost: Name,
        /// How many it may have.
        limit: u64,
    },
}
