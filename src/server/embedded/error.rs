//! Errors of a link, as data.

use std::fmt;

use thiserror::Error;

use crate::wire::Value;
use crate::wire::performative::{Error as WireError, Fields, Symbol};

/// An error of AMQP: a condition for programs, a description for people. [AMQP 2.8.14]
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct AmqpError {
    /// The condition, such as `amqp:not-found`.
    pub condition: String,
    /// A text for people.
    pub description: Option<String>,
    /// Further information, by name.
    pub info: Vec<(String, Value)>,
}

impl AmqpError {
    /// An error with a condition and a description.
    pub fn new(condition: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            condition: condition.into(),
            description: Some(description.into()),
            info: Vec::new(),
        }
    }

    pub(super) fn of(error: &WireError) -> Self {
        let info = error.info.iter().flat_map(|info| info.iter());
        Self {
            condition: error.condition.to_string(),
            description: error.description.clone(),
            info: info
                .map(|(key, value)| (key.to_string(), value.clone()))
                .collect(),
        }
    }

    pub(super) fn to_wire(&self) -> WireError {
        let info = self.info.iter();
        let info = info.map(|(key, value)| (Symbol::from(key.as_str()), value.clone()));
        let info = (!self.info.is_empty()).then(|| info.collect::<Fields>());
        WireError::new(&*self.condition, self.description.clone(), info)
    }
}

impl fmt::Display for AmqpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.condition)?;
        match &self.description {
            Some(description) => write!(f, ": {description}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for AmqpError {}

/// Why a publisher or a consumer cannot begin or go on.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The broker refused the link: there is no such vhost, queue or exchange.
    #[error("the broker refused the link")]
    Refused(#[source] AmqpError),
    /// The broker ended the link: its queue was deleted, for example.
    #[error("the broker ended the link")]
    Ended(#[source] AmqpError),
    /// The message is larger than the broker accepts. Nothing else happened.
    #[error("the message has {bytes} bytes, more than the {max_bytes} that the broker takes")]
    TooLarge {
        /// Size of the encoded message, in bytes.
        bytes: u64,
        /// The largest size that is accepted, in bytes.
        max_bytes: u64,
    },
    /// The credit of a consumer is out of range. Nothing else happened.
    #[error("a consumer has from 1 to {max} messages of credit, not {messages}")]
    Credit {
        /// The credit that was asked for, in messages.
        messages: u32,
        /// The highest credit, in messages.
        max: u32,
    },
    /// The broker stopped, or it has as many connections as it accepts.
    #[error("the broker stopped or takes no more connections")]
    Stopped,
}
