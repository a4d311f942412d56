//! What goes wrong in the server, and what peers are told.

use thiserror::Error;

use crate::access::PatternError;
use crate::broker::registry::RegistryError;
use crate::wire::performative::{ConnectionError, Error as AmqpError, error};

/// What is wrong with a file.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{file}: {why}")]
pub struct TlsError {
    /// Which file.
    pub file: String,
    /// What is wrong with it.
    pub why: String,
}

/// Why a broker could not start. The operator's fault, or the machine's.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {why}")]
    Listen {
        /// Which.
        address: String,
        /// What the system said.
        why: String,
    },
    /// A setting that is wrong by itself or beside another.
    #[error("setting '{name}': {why}")]
    Setting {
        /// The name of the object.
        name: &'static str,
        /// What is wrong.
        why: String,
    },
    /// A name of a vhost or user that cannot be.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// A permission that is no regular expression.
    #[error("setting 'permission': {0}")]
    Pattern(#[from] PatternError),
    /// The data directory cannot be used.
    #[error(
        "data directory {directory}: {why}; --data DIR names another one, --in-memory uses none"
    )]
    Data {
        /// Which.
        directory: String,
        /// What is wrong with it.
        why: String,
    },
    /// A file for TLS is bad.
    #[error("TLS file {0}")]
    Tls(#[from] TlsError),
    /// The definitions of the settings cannot be imported.
    #[error("definitions file {file}: {why}")]
    Definitions {
        /// Which.
        file: String,
        /// What is wrong with it.
        why: String,
    },
    /// The runtime could not be made.
    #[error("cannot start worker threads: {why}")]
    Runtime {
        /// What the system said.
        why: String,
    },
    /// The setting `log` is no filter.
    #[error(
        "setting 'log' = \"{filter}\": {why}; it takes a filter such as info or \
             warn,coroner::server=debug"
    )]
    LogFilter {
        /// As given.
        filter: String,
        /// What is wrong with it.
        why: String,
    },
}

impl StartError {
    pub(super) fn listen(address: &impl ToString, why: &std::io::Error) -> Self {
        Self::Listen {
            address: address.to_string(),
            why: why.to_string(),
        }
    }
}

/// The broker goes down. [AMQP 2.8.16]
pub(super) fn stopping() -> AmqpError {
    error(
        ConnectionError::ConnectionForced,
        "the broker is shutting down",
    )
}

/// An operator closed the connection; in RabbitMQ's words, which clients look for. [AMQP 2.8.16]
pub(super) fn closed_by_operator(why: &str) -> AmqpError {
    error(
        ConnectionError::ConnectionForced,
        format!("Connection forced: \"{why}\""),
    )
}
