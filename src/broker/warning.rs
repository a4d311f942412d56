//! What an operator should hear at once about a policy or an argument that is allowed and will
//! probably not do what was meant.

use std::fmt;

use super::command::{Command, QueueCommand, TopologyCommand};
use crate::base::Name;

/// What warnings may be about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Declared {
    /// A policy, or an operator policy.
    Policy {
        /// Which of the two.
        operator: bool,
        /// Its name.
        name: Name,
    },
    /// A queue.
    Queue(Name),
    /// An exchange.
    Exchange(Name),
}

impl Declared {
    /// What a command sets or declares.
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

/// One warning. Nothing was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Warning {
    /// It names an exchange that does not exist (yet).
    ExchangeMissing {
        /// The policy key or argument.
        setting: Name,
        /// The exchange.
        exchange: Name,
    },
    /// No queue is reached through the exchange it names (yet).
    NothingBound {
        /// The policy key or argument.
        setting: Name,
        /// The exchange; empty: the default exchange.
        exchange: Name,
        /// With this key; none: with any.
        key: Option<Name>,
    },
    /// A routing key without an exchange.
    KeyWithoutExchange {
        /// The policy key.
        setting: Name,
    },
    /// An argument that means nothing, and nearly has the name of one that does.
    Misspelled {
        /// The argument.
        setting: Name,
        /// What was probably meant.
        nearest: &'static str,
    },
    /// It is accepted, and changes nothing here.
    NoEffect {
        /// The policy key, or `apply-to`.
        setting: Name,
        /// Why not.
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
