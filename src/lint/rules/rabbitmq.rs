//! What a RabbitMQ does otherwise, for queues: DL019.

use super::subject;
use crate::broker::arguments::{DeadLetterStrategy, Overflow, QueueType};
use crate::broker::queue::Queue;
use crate::lint::finding::{Finding, Rule};

/// Policy keys that RabbitMQ 4.0.5 refuses, later ones know some of them; with `x-` before them
/// arguments, which it ignores.
pub const OWN_KEYS: [&str; 7] = [
    "on-undeliverable",
    "delayed-retry-jitter",
    "delayed-retry-max",
    "delayed-retry-min",
    "delayed-retry-multiplier",
    "delayed-retry-type",
    "poison-isolation",
];

pub(super) fn look(queue: &Queue, findings: &mut Vec<Finding>) {
    let settings = &queue.settings;
    let mut found = |says: String, fix: &str| {
        let finding = Finding::new(Rule::OtherwiseInRabbitmq, subject(queue), says);
        findings.push(finding.fix(fix));
    };
    let quorum = settings.queue_type == QueueType::Quorum;
    if settings.dead_letter_strategy == DeadLetterStrategy::AtLeastOnce {
        if !quorum {
            let says =
                "at-least-once dead lettering is for quorum queues in RabbitMQ: it ignores it here";
            found(says.to_owned(), "declare it with x-queue-type=quorum");
        } else if settings.overflow == Overflow::DropHead {
            let says = "with overflow drop-head RabbitMQ falls back to at-most-once dead lettering";
            found(says.to_owned(), "set overflow to reject-publish");
        }
    }
    if quorum && settings.overflow == Overflow::RejectPublishDlx {
        let says = "quorum queues of RabbitMQ do not know overflow reject-publish-dlx";
        found(says.to_owned(), "use reject-publish, or a classic queue");
    }
    for (argument, _) in queue.arguments.echoed() {
        let key = argument.strip_prefix("x-").unwrap_or_default();
        if OWN_KEYS.contains(&key) {
            let says = format!("RabbitMQ 4.0 ignores the argument '{argument}'");
            found(says, "see docs/DIFFERENCES.md");
        }
    }
}
