//! What a RabbitMQ does otherwise, for queues: DL019.

use super::subject;
use crate::broker::Policy;
use crate::broker::arguments::{DeadLetterStrategy, Overflow, QueueType};
use crate::broker::queue::Queue;
use crate::lint::finding::{Finding, Rule};

/// Policy keys that RabbitMQ 4.0.5 refuses, later ones know some of them; with `x-` before them
/// arguments, which it ignores, since no type of queue there has them.
pub const OWN_KEYS: [&str; 7] = [
    "on-undeliverable",
    "delayed-retry-jitter",
    "delayed-retry-max",
    "delayed-retry-min",
    "delayed-retry-multiplier",
    "delayed-retry-type",
    "poison-isolation",
];

/// Arguments that RabbitMQ 4.0 has for other types of queues only: with one of them a declaration is
/// refused, where those that no type has are ignored. Those that this broker refuses, too, are not here: they
/// are told among what was not read.
const REFUSED_BY_CLASSIC: &[&str] = &["x-dead-letter-strategy", "x-delivery-limit"];
const REFUSED_BY_QUORUM: &[&str] = &["x-queue-master-locator"];

/// The policy that a queue has here, and has not in a RabbitMQ for one of its keys.
pub(super) fn is_not_applied(queue: &Queue, policy: &Policy, findings: &mut Vec<Finding>) {
    if queue.settings.queue_type == QueueType::Quorum {
        return;
    }
    let arguments = &queue.arguments;
    let strategy = policy.definition.dead_letter_strategy;
    let is_safe = strategy == Some(DeadLetterStrategy::AtLeastOnce);
    let is_limited = policy
        .given
        .iter()
        .any(|(key, _)| &**key == "delivery-limit");
    let by_policy = [
        (
            "dead-letter-strategy",
            is_safe && arguments.dead_letter_strategy.is_none(),
        ),
        (
            "delivery-limit",
            is_limited && arguments.delivery_limit.is_none(),
        ),
    ];
    for (key, _) in by_policy.into_iter().filter(|(_, is_set)| *is_set) {
        let says = format!(
            "RabbitMQ does not apply a policy with {key} to classic queues: nothing of it counts here"
        );
        let finding = Finding::new(Rule::OtherwiseInRabbitmq, subject(queue), says);
        findings.push(finding.fix("declare it with x-queue-type=quorum"));
    }
}

pub(super) fn look(queue: &Queue, findings: &mut Vec<Finding>) {
    let settings = &queue.settings;
    let mut found = |says: String, fix: &str| {
        let finding = Finding::new(Rule::OtherwiseInRabbitmq, subject(queue), says);
        findings.push(finding.fix(fix));
    };
    let quorum = settings.queue_type == QueueType::Quorum;
    let is_safe = settings.dead_letter_strategy == DeadLetterStrategy::AtLeastOnce;
    if is_safe && quorum && settings.overflow == Overflow::DropHead {
        let says = "with overflow drop-head RabbitMQ falls back to at-most-once dead lettering";
        found(says.to_owned(), "set overflow to reject-publish");
    }
    if quorum && settings.overflow == Overflow::RejectPublishDlx {
        let says = "quorum queues of RabbitMQ do not know overflow reject-publish-dlx: they drop from the head";
        found(says.to_owned(), "use reject-publish, or a classic queue");
    }
    let (refused, kind) = if quorum {
        (REFUSED_BY_QUORUM, "quorum")
    } else {
        (REFUSED_BY_CLASSIC, "classic")
    };
    for (argument, _) in queue.arguments.echoed() {
        let key = argument.strip_prefix("x-").unwrap_or_default();
        if refused.contains(&&**argument) {
            let says = format!(
                "RabbitMQ refuses the declaration: {kind} queues do not have the argument '{argument}'"
            );
            found(
                says,
                "leave it out, or declare the type of queue that has it",
            );
        } else if OWN_KEYS.contains(&key) {
            let says = format!("RabbitMQ 4.0 ignores the argument '{argument}'");
            found(says, "see docs/DIFFERENCES.md");
        }
    }
}
