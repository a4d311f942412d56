//! Errors of the server, and errors that peers are told.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use thiserror::Error;

use crate::access::PatternError;
use crate::broker::registry::RegistryError;
use crate::wire::performative::{self, ConnectionError, Error as AmqpError, error};

/// What the system or a library said about a failure, in words; the error that says so is the
/// [`source`](std::error::Error::source) of the one that has it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::error::Error;
///
/// let taken = std::net::TcpListener::bind("127.0.0.1:0")?;
/// let started = coroner::Broker::builder().listen(taken.local_addr()?).start().await;
/// let error = started.expect_err("the port is taken");
/// let source = error.source().and_then(|source| source.downcast_ref::<std::io::Error>());
/// assert_eq!(source.map(|error| error.kind()), Some(std::io::ErrorKind::AddrInUse));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Cause(Arc<dyn std::error::Error + Send + Sync>);

impl Cause {
    pub(super) fn new(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(error.into().into())
    }
}

impl Deref for Cause {
    type Target = dyn std::error::Error + Send + Sync;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// They say the same.
impl PartialEq for Cause {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for Cause {}

/// What is wrong with a file.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
#[error("{file}: {why}")]
pub struct TlsError {
    /// The path of the file.
    pub file: String,
    /// What is wrong with it.
    #[source]
    pub why: Cause,
}

/// Why a broker could not start. The operator's fault, or the machine's.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {why}")]
    Listen {
        /// The address as configured.
        address: String,
        /// What the system said.
        #[source]
        why: Cause,
    },
    /// A setting is invalid by itself or in combination with another.
    #[error("setting '{name}': {why}")]
    Setting {
        /// The setting's name.
        name: &'static str,
        /// What is wrong.
        #[source]
        why: Cause,
    },
    /// The name of a vhost or user is invalid.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// A permission is not a regular expression.
    #[error("setting 'permission': {0}")]
    Pattern(#[from] PatternError),
    /// The data directory cannot be used.
    #[error(
        "data directory {directory}: {why}; --data DIR names another one, --in-memory uses none"
    )]
    Data {
        /// The path of the directory.
        directory: String,
        /// What is wrong with it.
        #[source]
        why: Cause,
    },
    /// A file for TLS cannot be used.
    #[error("TLS file {0}")]
    Tls(#[from] TlsError),
    /// The keys of tokens cannot be used.
    #[error("keys of tokens, {source_of}: {why}")]
    Jwks {
        /// The file or URL as configured.
        source_of: String,
        /// What is wrong with it.
        #[source]
        why: Cause,
    },
    /// The definitions of the settings cannot be imported.
    #[error("definitions file {file}: {why}")]
    Definitions {
        /// The path of the file.
        file: String,
        /// What is wrong with it.
        #[source]
        why: Cause,
    },
    /// The runtime could not be created.
    #[error("cannot start worker threads: {why}")]
    Runtime {
        /// What the system said.
        #[source]
        why: Cause,
    },
    /// The setting `log` is not a filter.
    #[error(
        "setting 'log' = \"{filter}\": {why}; it takes a filter such as info or \
             warn,coroner::server=debug"
    )]
    LogFilter {
        /// The filter as given.
        filter: String,
        /// What is wrong with it.
        #[source]
        why: Cause,
    },
}

impl StartError {
    pub(super) fn listen(address: &impl ToString, why: std::io::Error) -> Self {
        Self::Listen {
            address: address.to_string(),
            why: Cause::new(why),
        }
    }
}

/// The error for peers when the broker stops. [AMQP 2.8.16]
pub(super) fn stopping() -> AmqpError {
    error(
        ConnectionError::ConnectionForced,
        "the broker is shutting down",
    )
}

/// The error for a peer that does not read, should it read again. [AMQP 2.8.15]
pub(super) fn takes_nothing() -> AmqpError {
    error(
        performative::AmqpError::ResourceLimitExceeded,
        "nothing of what was written to this connection was read for twice the idle time-out",
    )
}

/// The error for a connection that an operator closed; in RabbitMQ's words, which clients look for.
/// [AMQP 2.8.16]
pub(super) fn closed_by_operator(why: &str) -> AmqpError {
    error(
        ConnectionError::ConnectionForced,
        format!("Connection forced: \"{why}\""),
    )
}
