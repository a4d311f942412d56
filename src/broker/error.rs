//! Errors of the core: refused commands. Each kind maps to one AMQP condition and one management
//! code, in one table.

use thiserror::Error;

use crate::base::limits::{IMPORTS_KEPT_MAX, REDRIVES_UNFINISHED_MAX};
use crate::base::{Name, Position};

/// The kind of object that an error is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObjectKind {
    /// A queue, or a message in it.
    Queue,
    /// An exchange, or a binding from it.
    Exchange,
    /// A policy or operator policy.
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

/// A refused command. The peer's or operator's fault, never the broker's.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The object does not exist. (404, `amqp:not-found`)
    #[error("no {kind} '{name}' in vhost")]
    NotFound {
        /// The kind of object.
        kind: ObjectKind,
        /// The object's name as given.
        name: Name,
    },
    /// Declared before with another property or argument. (409, `amqp:precondition-failed`)
    #[error("inequivalent {field} for {kind} '{name}': it has {stored}, asked for {given}")]
    Inequivalent {
        /// The kind of object.
        kind: ObjectKind,
        /// The object's name.
        name: Name,
        /// The first property or argument that differs.
        field: Name,
        /// The value that the object has.
        stored: String,
        /// The value in the declaration.
        given: String,
    },
    /// An argument has an invalid value. (409, `amqp:precondition-failed`)
    #[error("invalid argument '{argument}' for {kind} '{name}': {why}")]
    BadArgument {
        /// The kind of object.
        kind: ObjectKind,
        /// The object's name.
        name: Name,
        /// The argument that is wrong.
        argument: Name,
        /// What is wrong with it and which values are right.
        why: String,
    },
    /// A request that cannot be understood. (400, `amqp:invalid-field`)
    #[error("{why}")]
    BadRequest {
        /// What is wrong and which form is right.
        why: String,
    },
    /// The name is reserved or the object is predeclared. (403, `amqp:unauthorized-access`)
    #[error("{kind} '{name}': {why}")]
    Reserved {
        /// The kind of object.
        kind: ObjectKind,
        /// The object's name.
        name: Name,
        /// The rule that forbids it.
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
        /// The queue's name.
        name: Name,
        /// The vhost it is in.
        vhost: Name,
    },
    /// A temporary topic that another connection made. (400 in management, `amqp:resource-locked`)
    #[error(
        "exchange '{name}' is the temporary topic of another connection: only that one subscribes to \
         it and deletes it"
    )]
    OtherOwner {
        /// The exchange's name.
        name: Name,
    },
    /// An exclusive consumer reads the queue, or an exclusive one was asked for and there are
    /// consumers. (`amqp:resource-locked`)
    #[error("queue '{name}' is in exclusive use by a consumer")]
    InUse {
        /// The queue's name.
        name: Name,
    },
    /// `if_unused` or `if_empty` did not hold. (412/409, `amqp:precondition-failed`)
    #[error("{kind} '{name}' is {state}")]
    NotIdle {
        /// The kind of object.
        kind: ObjectKind,
        /// The object's name.
        name: Name,
        /// "in use" or "not empty".
        state: &'static str,
    },
    /// There is no message at the position. (404, `amqp:not-found`)
    #[error("no message at position {position} of queue '{queue}': it is gone, or never was there")]
    NoMessage {
        /// The queue's name.
        queue: Name,
        /// The position as given.
        position: Position,
    },
    /// The message is not ready. (409, `amqp:precondition-failed`)
    #[error("the message at position {position} of queue '{queue}' is {state}")]
    NotReady {
        /// The queue's name.
        queue: Name,
        /// The position as given.
        position: Position,
        /// The state that it is in.
        state: &'static str,
    },
    /// The queue is full, and this pushes nothing out. (409, `amqp:precondition-failed`)
    #[error("queue '{name}' is full")]
    QueueFull {
        /// The queue's name.
        name: Name,
    },
    /// Clients may not publish to the exchange. (`amqp:unauthorized-access`)
    #[error("exchange '{name}' is internal")]
    Internal {
        /// The exchange's name.
        name: Name,
    },
    /// There is no redrive with this id. (404, `amqp:not-found`)
    #[error("no redrive '{id}' in vhost")]
    NoRedrive {
        /// The id as given.
        id: Name,
    },
    /// A redrive with this id was asked for with another body. (409, `amqp:precondition-failed`)
    #[error("there is a redrive '{id}' already, and it was asked for something else")]
    RedriveExists {
        /// The id as given.
        id: Name,
    },
    /// What was asked for does not fit the state of the redrive. (409, `amqp:precondition-failed`)
    #[error("redrive '{id}' {is}")]
    RedriveState {
        /// The id as given.
        id: Name,
        /// What does not fit, in words.
        is: &'static str,
    },
    /// The vhost has as many unfinished redrives as it may. (429, `amqp:resource-limit-exceeded`)
    #[error(
        "the vhost has {REDRIVES_UNFINISHED_MAX} redrives that are not over, which is the limit: wait \
         for one, or cancel one"
    )]
    TooManyRedrives,
    /// An import with this id fills another queue. (409, `amqp:precondition-failed`)
    #[error("import '{id}' fills queue '{queue}': each import has an id of its own")]
    ImportElsewhere {
        /// The id as given.
        id: Name,
        /// The queue that it fills.
        queue: Name,
    },
    /// All ids of imports that are remembered were used within the last hour. (429,
    /// `amqp:resource-limit-exceeded`)
    #[error("there are {IMPORTS_KEPT_MAX} imports that went on within the last hour: wait")]
    TooManyImports,
    /// There is no note on this group. (404, `amqp:not-found`)
    #[error("no note on group '{key}' of queue '{queue}'")]
    NoNote {
        /// The queue's name.
        queue: Name,
        /// The group as given.
        key: Name,
    },
    /// There are as many notes on groups as there may be. (429, `amqp:resource-limit-exceeded`)
    #[error("there are {max} notes on groups in the {place}, which is the limit: remove one")]
    TooManyNotes {
        /// `queue` or `vhost`.
        place: &'static str,
        /// Notes that there may be.
        max: usize,
    },
    /// The vhost has as many queues as it may. (403 in management, `amqp:resource-limit-exceeded`)
    #[error("cannot declare queue '{name}': queue limit in vhost '{vhost}' ({limit}) is reached")]
    QueueLimit {
        /// The queue that was to be declared.
        name: Name,
        /// The vhost's name.
        vhost: Name,
        /// Queues that the vhost may have.
        limit: u64,
    },
}
