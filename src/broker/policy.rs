//! Policies and operator policies, and the effective settings of a queue.

use std::collections::{BTreeMap, btree_map};
use std::ops::Bound;
use std::sync::Arc;

use crate::access::Pattern;
use crate::base::limits::{NAME_BYTES_MAX, POLICY_BYTES_MAX, POLICY_OVERHEAD_BYTES};
use crate::base::{Account, Gauge, Name, shared_text_bytes};
use crate::wire::Value;

use super::argument_value::kept_bytes;
use super::arguments::{DeadLetterStrategy, OnUndeliverable, Overflow, QueueArguments, QueueType};
use super::definition::Definition;
use super::delay::DelayedRetry;
use super::{Error, ObjectKind};

/// The kinds of objects that a policy applies to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum ApplyTo {
    /// Queues of every type.
    Queues,
    /// Classic queues only.
    ClassicQueues,
    /// Quorum queues only.
    QuorumQueues,
    /// Streams, which this broker does not have: such a policy never matches.
    Streams,
    /// Exchanges of every type.
    Exchanges,
    /// Queues and exchanges.
    #[default]
    All,
}

/// One policy or operator policy.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Its name, unique in its vhost among policies or operator policies.
    pub name: Name,
    /// Names of queues and exchanges it applies to (matched anywhere in the name unless anchored).
    pub pattern: Pattern,
    /// Of several matching policies the one of highest priority applies.
    pub priority: i64,
    /// The kinds of objects that it applies to.
    pub apply_to: ApplyTo,
    /// The settings that it defines, typed.
    pub definition: Definition,
    /// The definition as given, for listings.
    pub given: Vec<(Name, Value)>,
    /// The gauge that its memory is charged to, once it is set.
    pub account: Account,
}

impl ApplyTo {
    const ALL: [Self; 6] = [
        Self::Queues,
        Self::ClassicQueues,
        Self::QuorumQueues,
        Self::Streams,
        Self::Exchanges,
        Self::All,
    ];

    /// The word in the API, `classic_queues` for example.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queues => "queues",
            Self::ClassicQueues => "classic_queues",
            Self::QuorumQueues => "quorum_queues",
            Self::Streams => "streams",
            Self::Exchanges => "exchanges",
            Self::All => "all",
        }
    }

    /// Whether it covers queues of this type.
    pub const fn covers_queue(self, queue_type: QueueType) -> bool {
        match self {
            Self::Queues | Self::All => true,
            Self::ClassicQueues => matches!(queue_type, QueueType::Classic),
            Self::QuorumQueues => matches!(queue_type, QueueType::Quorum),
            Self::Streams | Self::Exchanges => false,
        }
    }

    /// Whether it covers queues of any type that this broker has.
    pub const fn covers_queues(self) -> bool {
        self.covers_queue(QueueType::Classic) || self.covers_queue(QueueType::Quorum)
    }

    /// Whether it covers exchanges.
    pub const fn covers_exchanges(self) -> bool {
        matches!(self, Self::Exchanges | Self::All)
    }
}

/// A policy as given by a client, not checked yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicySpec<'a> {
    /// The policy's name, not empty.
    pub name: Name,
    /// A regular expression over names; see [`Pattern`].
    pub pattern: &'a str,
    /// Of several matching policies the one of highest priority applies.
    pub priority: i64,
    /// The word of an [`ApplyTo`].
    pub apply_to: &'a str,
    /// Keys and values of the definition, at least one.
    pub definition: Vec<(Name, Value)>,
}

impl PolicySpec<'_> {
    /// Refuses a policy that is larger than the broker keeps. Policies that a journal already has
    /// are taken as they are.
    ///
    /// Errors: [`Error::BadArgument`] names the part, and the bound.
    pub fn check_kept(&self) -> Result<(), Error> {
        let refused = |argument: &str, why: String| Error::BadArgument {
            kind: ObjectKind::Policy,
            name: self.name.clone(),
            argument: Name::from(argument),
            why,
        };
        if self.name.len() > NAME_BYTES_MAX {
            let why = format!("has more than {NAME_BYTES_MAX} bytes");
            return Err(refused("name", why));
        }
        Pattern::check_kept(self.pattern)
            .and_then(|()| Pattern::check_names(self.pattern))
            .map_err(|error| refused("pattern", error.why))?;
        // What a value shows of itself in an error is cut.
        let pairs = self.definition.iter();
        let bytes = pairs.map(|(key, value)| key.len() + value.encoded_bytes());
        if bytes.sum::<usize>() > POLICY_BYTES_MAX {
            let why = format!("has more than {POLICY_BYTES_MAX} bytes");
            return Err(refused("definition", why));
        }
        Ok(())
    }
}

impl Policy {
    /// Parses and checks a policy; an `operator` policy may define fewer keys, see
    /// [`super::definition::KEYS`].
    ///
    /// Errors: [`Error::BadArgument`] names the part or key that is wrong.
    pub fn new(operator: bool, spec: PolicySpec<'_>) -> Result<Self, Error> {
        let refused = |argument: &str, why: String| Error::BadArgument {
            kind: ObjectKind::Policy,
            name: spec.name.clone(),
            argument: Name::from(argument),
            why,
        };
        if spec.name.is_empty() {
            return Err(refused("name", "must not be empty".to_owned()));
        }
        let pattern =
            Pattern::of_names(spec.pattern).map_err(|error| refused("pattern", error.why))?;
        let all = ApplyTo::ALL.iter();
        let Some(apply_to) = all.copied().find(|one| one.as_str() == spec.apply_to) else {
            let words = ApplyTo::ALL.map(ApplyTo::as_str).join(", ");
            let why = format!("must be one of {words}, not '{}'", spec.apply_to);
            return Err(refused("apply-to", why));
        };
        if spec.definition.is_empty() {
            return Err(refused("definition", "must set something".to_owned()));
        }
        let definition = Definition::parse(operator, &spec.definition)
            .map_err(|(key, why)| refused(&key, why))?;
        Ok(Self {
            name: spec.name,
            pattern,
            priority: spec.priority,
            apply_to,
            definition,
            given: spec.definition,
            account: Account::default(),
        })
    }

    /// Charges its memory to the gauge for as long as it is set.
    pub fn charge(&self, gauge: &Gauge) {
        self.account.open(gauge, || {
            let texts = shared_text_bytes(self.name.len()) + self.pattern.kept_bytes();
            POLICY_OVERHEAD_BYTES + texts + kept_bytes(&self.given)
        });
    }
}

/// The settings of one queue: its arguments over its policy; its operator policy bounds both, and
/// where it sets a dead-letter key it beats both.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EffectiveSettings {
    /// The queue's type.
    pub queue_type: QueueType,
    /// Where dead letters are sent; none: they are dropped and counted.
    pub dead_letter_exchange: Option<Name>,
    /// What set the dead-letter exchange; none without one.
    pub dead_letter_rule: Option<Rule>,
    /// The routing key of dead letters; none: the keys they were published with.
    pub dead_letter_routing_key: Option<Name>,
    /// What happens to a dead letter that no target takes.
    pub dead_letter_strategy: DeadLetterStrategy,
    /// What happens to a dead letter without a target; none: the vhost's setting decides.
    pub on_undeliverable: Option<OnUndeliverable>,
    /// What happens at a length limit.
    pub overflow: Overflow,
    /// Limit of ready messages; none: unlimited.
    pub max_length: Option<u64>,
    /// Limit of the bytes of ready bare messages; none: unlimited.
    pub max_length_bytes: Option<u64>,
    /// Time to live of every message, in milliseconds; none: unlimited.
    pub message_ttl_ms: Option<u64>,
    /// Time without use after which the queue is deleted, in milliseconds; none: never.
    pub expires_ms: Option<u64>,
    /// Failed deliveries after which a message dies; none: any number.
    pub delivery_limit: Option<u32>,
    /// Highest priority of a classic priority queue; none: no priorities.
    pub max_priority: Option<u8>,
    /// Only one consumer at a time gets messages.
    pub single_active_consumer: bool,
    /// How messages that come back wait; none: they do not.
    pub delayed_retry: Option<DelayedRetry>,
    /// How long a consumer may hold a delivery, in milliseconds; 0: any time. None: neither argument
    /// nor policy says.
    pub consumer_timeout_ms: Option<u64>,
    /// Whether messages that a lost connection held are delivered alone rather than counted as
    /// failed.
    pub poison_isolation: bool,
}

/// What set a queue's dead-letter exchange. [evidence part 2]
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Rule {
    /// An argument of the queue's declaration.
    Argument,
    /// A policy, by name.
    Policy(Name),
    /// An operator policy, by name.
    OperatorPolicy(Name),
}

impl Rule {
    /// The first of them that sets a dead-letter exchange, in order of precedence.
    fn of(
        arguments: &QueueArguments,
        user: Option<&Policy>,
        operator: Option<&Policy>,
    ) -> Option<Self> {
        let named = |policy: &&Policy| policy.definition.dead_letter_exchange.is_some();
        if let Some(policy) = operator.filter(named) {
            return Some(Self::OperatorPolicy(policy.name.clone()));
        }
        if arguments.dead_letter_exchange.is_some() {
            return Some(Self::Argument);
        }
        let policy = user.filter(named)?;
        Some(Self::Policy(policy.name.clone()))
    }

    /// The text for it in a death history.
    pub fn words(&self) -> Name {
        match self {
            Self::Argument => Name::from("argument"),
            Self::Policy(name) => Name::from(format!("policy {name}")),
            Self::OperatorPolicy(name) => Name::from(format!("operator-policy {name}")),
        }
    }
}

/// All policies of one vhost. A clone shares them until a policy is set or deleted, so that
/// listings take a clone under the core's lock.
#[derive(Clone, Debug, Default)]
pub struct Policies {
    user: Arc<PoliciesOfKind>,
    operator: Arc<PoliciesOfKind>,
    /// The number of changes so far.
    generation: u64,
}

/// The policies, or the operator policies, by name.
type PoliciesOfKind = BTreeMap<Name, Arc<Policy>>;

impl Policies {
    /// Adds or replaces a policy; whether it was new.
    pub fn set(&mut self, operator: bool, policy: Policy) -> bool {
        let policies = self.of_kind(operator);
        policies
            .insert(policy.name.clone(), Arc::new(policy))
            .is_none()
    }

    /// Removes a policy and returns it; none if there is no policy of that name.
    pub fn delete(&mut self, operator: bool, name: &Name) -> Option<Arc<Policy>> {
        self.of_kind(operator).remove(name)
    }

    /// A number that rises with each change.
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    fn of_kind(&mut self, operator: bool) -> &mut PoliciesOfKind {
        self.generation += 1;
        let policies = if operator {
            &mut self.operator
        } else {
            &mut self.user
        };
        Arc::make_mut(policies)
    }

    /// The policy (or operator policy) of this name.
    pub fn get(&self, operator: bool, name: &Name) -> Option<&Arc<Policy>> {
        if operator { &self.operator } else { &self.user }.get(name)
    }

    /// The number of policies (or operator policies).
    pub fn count(&self, operator: bool) -> usize {
        if operator { &self.operator } else { &self.user }.len()
    }

    /// All policies (or operator policies), by name.
    pub fn list(&self, operator: bool) -> impl Iterator<Item = &Policy> {
        let policies = if operator { &self.operator } else { &self.user };
        policies.values().map(|policy| &**policy)
    }

    /// The policies (or operator policies) from a name on, by name.
    pub(super) fn range(
        &self,
        operator: bool,
        start: Bound<&Name>,
    ) -> btree_map::Range<'_, Name, Arc<Policy>> {
        let policies = if operator { &self.operator } else { &self.user };
        policies.range::<Name, _>((start, Bound::Unbounded))
    }

    /// The policy (or operator policy) that applies to a queue. Not for use under a lock: see
    /// [`Matching`](super::matching::Matching).
    pub fn of_queue(&self, operator: bool, name: &str, queue_type: QueueType) -> Option<&Policy> {
        highest(self.list(operator).filter(|policy| {
            policy.apply_to.covers_queue(queue_type) && policy.pattern.matches(name)
        }))
    }

    /// The policy that applies to an exchange.
    pub fn of_exchange(&self, name: &str) -> Option<&Policy> {
        highest(
            self.list(false).filter(|policy| {
                policy.apply_to.covers_exchanges() && policy.pattern.matches(name)
            }),
        )
    }

    /// The number of policies and operator policies.
    pub fn len(&self) -> usize {
        self.user.len() + self.operator.len()
    }

    /// Whether there are neither policies nor operator policies.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The effective settings of a queue. Not for use under a lock, as [`Policies::of_queue`].
    pub fn settings(&self, name: &str, arguments: &QueueArguments) -> EffectiveSettings {
        let of = |operator| self.of_queue(operator, name, arguments.queue_type);
        EffectiveSettings::of(arguments, of(false), of(true))
    }
}

impl EffectiveSettings {
    /// How long a consumer may hold a delivery that does not say for itself, in milliseconds; none:
    /// any time. Longer times than 49 days are none.
    pub fn timeout_ms(&self) -> Option<u32> {
        let timeout_ms = self
            .consumer_timeout_ms
            .filter(|timeout_ms| *timeout_ms > 0);
        u32::try_from(timeout_ms?).ok()
    }

    /// Whether dead letters are sent anywhere: to the dead-letter exchange, or to the quarantine if
    /// there is none.
    #[inline]
    pub fn keeps_dead(&self) -> bool {
        self.dead_letter_exchange.is_some()
            || self.on_undeliverable == Some(OnUndeliverable::Quarantine)
    }

    /// The effective settings of a queue with these arguments under a policy and an operator
    /// policy: arguments take precedence over policies, each key on its own; of limits and times
    /// the smallest counts. A dead-letter key of an operator policy, and its `on-undeliverable`,
    /// take precedence over both: the operator decides where dead letters go. [dead-lettering parts
    /// 2, 5 and 7]
    pub fn of(
        arguments: &QueueArguments,
        user: Option<&Policy>,
        operator: Option<&Policy>,
    ) -> Self {
        let none = Definition::default();
        let rule = Rule::of(arguments, user, operator);
        let user = user.map_or(&none, |policy| &policy.definition);
        let operator = operator.map_or(&none, |policy| &policy.definition);
        let smallest = |values: [Option<u64>; 3]| values.into_iter().flatten().min();
        let first = |names: [&Option<Name>; 3]| names.into_iter().flatten().next().cloned();
        Self {
            queue_type: arguments.queue_type,
            dead_letter_exchange: first([
                &operator.dead_letter_exchange,
                &arguments.dead_letter_exchange,
                &user.dead_letter_exchange,
            ]),
            dead_letter_rule: rule,
            dead_letter_routing_key: first([
                &operator.dead_letter_routing_key,
                &arguments.dead_letter_routing_key,
                &user.dead_letter_routing_key,
            ]),
            dead_letter_strategy: (operator.dead_letter_strategy)
                .or(arguments.dead_letter_strategy)
                .or(user.dead_letter_strategy)
                .unwrap_or_default(),
            on_undeliverable: (operator.on_undeliverable)
                .or(arguments.on_undeliverable)
                .or(user.on_undeliverable),
            overflow: (arguments.overflow)
                .or(operator.overflow)
                .or(user.overflow)
                .unwrap_or_default(),
            max_length: smallest([arguments.max_length, user.max_length, operator.max_length]),
            max_length_bytes: smallest([
                arguments.max_length_bytes,
                user.max_length_bytes,
                operator.max_length_bytes,
            ]),
            message_ttl_ms: smallest([
                arguments.message_ttl_ms,
                user.message_ttl_ms,
                operator.message_ttl_ms,
            ]),
            expires_ms: smallest([arguments.expires_ms, user.expires_ms, operator.expires_ms]),
            delivery_limit: delivery_limit(
                arguments.queue_type,
                [
                    arguments.delivery_limit,
                    user.delivery_limit,
                    operator.delivery_limit,
                ],
            ),
            max_priority: arguments.max_priority,
            single_active_consumer: arguments.single_active_consumer,
            delayed_retry: DelayedRetry::of(
                &arguments.delayed_retry,
                &user.delayed_retry,
                &operator.delayed_retry,
            ),
            consumer_timeout_ms: consumer_timeout([
                arguments.consumer_timeout_ms,
                user.consumer_timeout_ms,
            ]),
            poison_isolation: user.poison_isolation.unwrap_or(false),
        }
    }
}

/// Of equal priorities the first name wins, so that the choice is stable.
fn highest<'a>(policies: impl Iterator<Item = &'a Policy>) -> Option<&'a Policy> {
    policies.reduce(|best, next| {
        if next.priority > best.priority {
            next
        } else {
            best
        }
    })
}

/// The smallest limit counts; a negative one only if there is no other. [dead-lettering part 5]
fn delivery_limit(queue_type: QueueType, given: [Option<i64>; 3]) -> Option<u32> {
    let limits = given.into_iter().flatten();
    let smallest = limits.clone().filter(|limit| *limit >= 0).min();
    match (smallest, limits.min(), queue_type) {
        (Some(limit), ..) => Some(u32::try_from(limit).unwrap_or(u32::MAX)),
        (None, Some(_), _) | (None, None, QueueType::Classic) => None,
        (None, None, QueueType::Quorum) => Some(QUORUM_DELIVERY_LIMIT_DEFAULT),
    }
}

/// The smallest timeout counts; 0, which is none, only if there is no other. [evidence part 5]
fn consumer_timeout(given: [Option<u64>; 2]) -> Option<u64> {
    let given = given.into_iter().flatten();
    let smallest = given.clone().filter(|timeout_ms| *timeout_ms > 0).min();
    smallest.or_else(|| given.min())
}

/// Failed deliveries that a message survives in a quorum queue by default (as RabbitMQ 4).
pub const QUORUM_DELIVERY_LIMIT_DEFAULT: u32 = 20;

#[cfg(test)]
#[path = "tests/policy.rs"]
mod tests;
