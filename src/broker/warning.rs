//! Warnings about policies and arguments that are allowed but will probably not do what was meant.

use std::fmt;

use super::command::{Command, QueueCommand, TopologyCommand};
use crate::base::Name;

/// The object that warnings are about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Declared {
    /// A policy or operator policy.
    Policy {
        /// Whether it is an operator policy.
        operator: bool,
        /// The policy's name.
        name: Name,
    },
    /// A queue, by name.
    Queue(Name),
    /// An exchange, by name.
    Exchange(Name),
}

impl Declared {
    /// The object that a command sets or declares, if it does.
    pub fn of(command: &Command) -> Option<Self> {
        match command {
            Command::Queue(QueueCommand::Declare { name, .. }) => Some(Self::Queue(name.clone())),
            Command::Topology(TopologyCommand::ExchangeDeclare { name, .. }) => {
                Some(Self::Exchange(name.clone()))
            }
            Command::Topology(TopologyCommand::PolicySet { operator, policy }) => {
                Some(Self::Policy {
                    operator: *operator,
                    name: policy.name.clone(),
                })
            }
            _ => None,
        }
    }
}

/// One warning. The command was not refused.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Warning {
    /// The dead-letter or alternate exchange does not exist (yet).
    ExchangeMissing {
        /// The policy key or argument that names it.
        setting: Name,
        /// The exchange that is missing.
        exchange: Name,
    },
    /// No queue is reached through the dead-letter or alternate exchange (yet).
    NothingBound {
        /// The policy key or argument that names it.
        setting: Name,
        /// The exchange's name; empty: the default exchange.
        exchange: Name,
        /// The routing key that reaches nothing; none: no key does.
        key: Option<Name>,
    },
    /// A dead-letter routing key is set without a dead-letter exchange.
    KeyWithoutExchange {
        /// The policy key that has no effect.
        setting: Name,
    },
    /// An argument is unknown, and its name is nearly that of a known one.
    Misspelled {
        /// The argument as given.
        setting: Name,
        /// The known name nearest to it.
        nearest: &'static str,
    },
    /// A setting is accepted and has no effect in this broker.
    NoEffect {
        /// The policy key, or `apply-to`.
        setting: Name,
        /// Why it has no effect.
        why: &'static str,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ExchangeMissing { setting, exchange } => {
                write!(f, "{setting}: there is no exchange '{exchange}'")
            }
            Self::NothingBound {
                setting,
                exchange,
                key: Some(key),
            } if exchange.is_empty() => write!(f, "{setting}: there is no queue '{key}'"),
            Self::NothingBound {
                setting,
                exchange,
                key: Some(key),
            } => write!(
                f,
                "{setting}: exchange '{exchange}' leads to no queue with the key '{key}'"
            ),
            Self::NothingBound {
                setting, exchange, ..
            } => write!(f, "{setting}: nothing is bound to exchange '{exchange}'"),
            Self::KeyWithoutExchange { setting } => write!(
                f,
                "{setting}: a routing key without an exchange only counts for queues that have one"
            ),
            Self::Misspelled { setting, nearest } => {
                write!(
                    f,
                    "{setting}: no effect, there is no such argument; did you mean '{nearest}'?"
                )
            }
            Self::NoEffect { setting, why } => write!(f, "{setting}: no effect, {why}"),
        }
    }
}
