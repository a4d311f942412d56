//! Policies and operator policies, and the settings a queue ends up with.

use std::collections::BTreeMap;

use regex::Regex;

use crate::base::Name;
use crate::wire::Value;

use super::arguments::{DeadLetterStrategy, Overflow, QueueArguments, QueueType};
use super::{Error, Kind};

/// What a policy may apply to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum ApplyTo {
    /// Queues of every type.
    Queues,
    /// Classic queues.
    ClassicQueues,
    /// Quorum queues.
    QuorumQueues,
    /// Exchanges.
    Exchanges,
    /// Queues and exchanges.
    #[default]
    All,
}

/// What a policy sets. Absent: says nothing about it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Definition {
    /// `dead-letter-exchange`.
    pub dead_letter_exchange: Option<Name>,
    /// `dead-letter-routing-key`.
    pub dead_letter_routing_key: Option<Name>,
    /// `dead-letter-strategy`.
    pub dead_letter_strategy: Option<DeadLetterStrategy>,
    /// `overflow`.
    pub overflow: Option<Overflow>,
    /// `max-length`, in ready messages.
    pub max_length: Option<u64>,
    /// `max-length-bytes`, in bytes of bare messages.
    pub max_length_bytes: Option<u64>,
    /// `message-ttl`, in milliseconds.
    pub message_ttl_ms: Option<u64>,
    /// `expires`, in milliseconds.
    pub expires_ms: Option<u64>,
    /// `delivery-limit`; negative: none.
    pub delivery_limit: Option<i64>,
    /// `alternate-exchange`, for exchanges.
    pub alternate_exchange: Option<Name>,
}

/// One policy or operator policy.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Its name, unique in its vhost and kind.
    pub name: Name,
    /// Names it matches (anywhere in the name unless anchored).
    pub pattern: Regex,
    /// The highest matching one applies.
    pub priority: i64,
    /// To what.
    pub apply_to: ApplyTo,
    /// What it sets.
    pub definition: Definition,
    /// The definition as given.
    pub given: Vec<(Name, Value)>,
}

impl Policy {
    /// Checks a policy. `operator` policies may only set limits.
    ///
    /// Errors: [`Error::BadArgument`] names the key, the pattern or the kind of target.
    pub fn new(
        operator: bool,
        name: Name,
        pattern: &str,
        priority: i64,
        apply_to: &str,
        definition: Vec<(Name, Value)>,
    ) -> Result<Self, Error> {
        let _ = (operator, apply_to);
        let bad = |why: String| Error::BadArgument {
            kind: Kind::Policy,
            name: name.clone(),
            argument: Name::from("pattern"),
            why,
        };
        Ok(Self {
            pattern: Regex::new(pattern).map_err(|error| bad(error.to_string()))?,
            priority,
            apply_to: ApplyTo::default(),
            definition: Definition::default(),
            given: definition,
            name,
        })
    }
}

/// The settings of one queue: its arguments over its policy over its operator policy's limits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EffectiveSettings {
    /// Type of the queue.
    pub queue_type: QueueType,
    /// Where its dead go; none: dropped and counted.
    pub dead_letter_exchange: Option<Name>,
    /// Their key; none: the keys they came with.
    pub dead_letter_routing_key: Option<Name>,
    /// What becomes of a death without a usable target.
    pub dead_letter_strategy: DeadLetterStrategy,
    /// What happens over a limit.
    pub overflow: Overflow,
    /// Ready messages at most.
    pub max_length: Option<u64>,
    /// Bytes of ready bare messages at most.
    pub max_length_bytes: Option<u64>,
    /// Time to live of every message, in milliseconds.
    pub message_ttl_ms: Option<u64>,
    /// Time unused until the queue goes, in milliseconds.
    pub expires_ms: Option<u64>,
    /// Failures a message survives; none: any number.
    pub delivery_limit: Option<u32>,
    /// Highest priority of a classic priority queue.
    pub max_priority: Option<u8>,
    /// One consumer at a time.
    pub single_active_consumer: bool,
}

/// All policies of one vhost.
#[derive(Debug, Default)]
pub struct Policies {
    user: BTreeMap<Name, Policy>,
    operator: BTreeMap<Name, Policy>,
}

impl Policies {
    /// Adds or replaces a policy; whether it was new.
    pub fn set(&mut self, operator: bool, policy: Policy) -> bool {
        let policies = if operator {
            &mut self.operator
        } else {
            &mut self.user
        };
        policies.insert(policy.name.clone(), policy).is_none()
    }

    /// Removes a policy; `None` when there is none of that name.
    pub fn delete(&mut self, operator: bool, name: &Name) -> Option<Policy> {
        let policies = if operator {
            &mut self.operator
        } else {
            &mut self.user
        };
        policies.remove(name)
    }

    /// The policy (or operator policy) that applies to a queue.
    pub fn of_queue(&self, operator: bool, name: &Name, queue_type: QueueType) -> Option<&Policy> {
        let _ = (operator, name, queue_type);
        None
    }

    /// The policy that applies to an exchange.
    pub fn of_exchange(&self, name: &Name) -> Option<&Policy> {
        let _ = name;
        None
    }

    /// What applies to a queue in the end.
    pub fn settings(&self, name: &Name, arguments: &QueueArguments) -> EffectiveSettings {
        let _ = (name, arguments);
        unreachable!()
    }
}
