//! Warnings about policies and arguments that are allowed but will probably not do what was meant.

use std::fmt;

use super::command::{Command, QueueCommand, TopologyCommand};
use crate::base::Name;
use crate::base::limits::CYCLE_NAMES_SHOWN_MAX;
use crate::deaths::Reason;

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
    /// A field of a vhost means something to RabbitMQ and nothing to this broker.
    Unsupported {
        /// The field as RabbitMQ names it.
        setting: Name,
    },
    /// Dead letters come back by themselves to a queue that they died in, and are lost there.
    Cycle(Box<ClosedCycle>),
}

/// A cycle of queues in which a message dies everywhere without a rejection. [evidence part 9,
/// DL004]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClosedCycle {
    /// Its queues in the order in which dead letters pass them; from the last one they would come
    /// back to the first.
    pub path: Vec<Name>,
    /// The reasons for which messages die in the first queue without a rejection.
    pub reasons: Vec<Reason>,
    /// Whether they are quarantined then; else they are dropped.
    pub is_quarantined: bool,
}

impl fmt::Display for ClosedCycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Some(first), Some(last)) = (self.path.first(), self.path.last()) else {
            return Ok(()); // a cycle has queues
        };
        let reasons: Vec<&str> = self.reasons.iter().map(|reason| reason.as_str()).collect();
        let reasons = reasons.join(", ");
        let fate = if self.is_quarantined {
            "quarantined"
        } else {
            "dropped"
        };
        write!(f, "dead letters go in a circle by themselves, ")?;
        for name in self.path.iter().take(CYCLE_NAMES_SHOWN_MAX) {
            write!(f, "{name} -> ")?;
        }
        if self.path.len() > CYCLE_NAMES_SHOWN_MAX {
            write!(f, "... -> ")?;
        }
        write!(
            f,
            "{first}: what died in '{first}' without a rejection ({reasons}) is {fate}"
        )?;
        if self.path.len() == 1 {
            return write!(f, " when it is to enter '{first}' again");
        }
        write!(
            f,
            " in '{last}' instead of coming back; to move dead letters back use 'coroner redrive \
             {last}'"
        )
    }
}

impl Warning {
    /// The number of the linter's rule that says the same; none: no rule does, as about alternate
    /// exchanges and about arguments that it does not know.
    pub fn rule(&self) -> Option<&'static str> {
        let of_dead_letters = |setting: &Name| setting.contains("dead-letter");
        match self {
            Self::ExchangeMissing { setting, .. } => of_dead_letters(setting).then_some("DL001"),
            Self::NothingBound { setting, .. } => of_dead_letters(setting).then_some("DL002"),
            Self::Cycle(_) => Some("DL004"),
            // The linter says so of policies.
            Self::NoEffect { setting, .. } => (!setting.starts_with("x-")).then_some("DL013"),
            Self::KeyWithoutExchange { .. } => Some("DL014"),
            Self::Misspelled { .. } | Self::Unsupported { .. } => None,
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(rule) = self.rule() {
            write!(f, "{rule}: ")?;
        }
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
            Self::Unsupported { setting } => {
                write!(f, "{setting}: Coroner does not have it, it has no effect")
            }
            Self::NoEffect { setting, why } => write!(f, "{setting}: no effect, {why}"),
            Self::Cycle(cycle) => cycle.fmt(f),
        }
    }
}
