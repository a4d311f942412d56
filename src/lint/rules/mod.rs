//! The rules. [evidence part 9]

mod loops;
mod losses;
mod policies;
mod rabbitmq;
mod seen;
mod targets;
mod ways;

pub(super) use self::loops::{Loop, find_all as find_loops, leave_causes_out};
pub use self::rabbitmq::OWN_KEYS;

use super::Target;
use super::finding::{Finding, Severity, Subject};
use super::map::Map;
use crate::base::Name;
use crate::base::limits::LINT_NAMES_TOLD_MAX;
use crate::broker::Core;
use crate::broker::arguments::{DeadLetterStrategy, OnUndeliverable, Overflow, QueueType};
use crate::broker::policy::Rule as SettingRule;
use crate::broker::queue::Queue;

/// What all rules find.
pub(super) fn all(core: &Core, map: &Map, loops: &[Loop], target: Target) -> Vec<Finding> {
    let mut findings = Vec::new();
    let known = |queue: &&Queue| !map.strangers.has_queue(&queue.name);
    let mut seen = seen::Seen::default();
    for queue in core.queues().filter(known) {
        ways::look(core, (map, target), queue, &mut seen, &mut findings);
        losses::look(core, (map, target), queue, &mut findings);
        targets::look(core, map, queue, &mut findings);
        if target == Target::Rabbitmq {
            rabbitmq::look(queue, &mut findings);
        }
    }
    targets::expire(core, map, &mut findings);
    loops::look(core, map, loops, &mut findings);
    policies::look(core, map, target, &mut findings);
    findings
}

fn subject(queue: &Queue) -> Subject {
    Subject::Queue(queue.name.clone())
}

/// Where the dead-letter exchange of a queue was named: `policy DLX`.
pub(super) fn rule_words(queue: &Queue) -> String {
    match &queue.settings.dead_letter_rule {
        None => String::from("nothing"),
        Some(SettingRule::Argument) => String::from("argument x-dead-letter-exchange"),
        Some(SettingRule::Policy(name)) => format!("policy {name}"),
        Some(SettingRule::OperatorPolicy(name)) => format!("operator policy {name}"),
    }
}

/// Whether what reaches no queue through the dead-letter exchange of a queue goes to the quarantine.
pub(super) fn is_kept(queue: &Queue, quarantines: bool) -> bool {
    match queue.settings.on_undeliverable {
        Some(choice) => choice == OnUndeliverable::Quarantine,
        None => quarantines,
    }
}

/// What becomes of dead letters that reach no queue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unreached {
    /// They are dropped.
    Lost,
    /// They go to the quarantine.
    Kept,
    /// They wait in their queue until there is a way.
    Wait,
}

impl Unreached {
    /// Letters of a queue, where this runs it. A RabbitMQ lets letters wait only in a quorum queue that
    /// refuses what is too much.
    fn of(core: &Core, queue: &Queue, target: Target) -> Self {
        let settings = &queue.settings;
        let waits = settings.dead_letter_strategy == DeadLetterStrategy::AtLeastOnce;
        let waits_there = settings.queue_type == QueueType::Quorum
            && settings.overflow == Overflow::RejectPublish;
        if waits && (target == Target::Coroner || waits_there) {
            Self::Wait
        } else if is_kept(queue, core.quarantines()) {
            Self::Kept
        } else {
            Self::Lost
        }
    }

    const fn severity(self) -> Severity {
        match self {
            Self::Lost => Severity::Error,
            Self::Kept | Self::Wait => Severity::Warning,
        }
    }
}

/// Error, or warning where what cannot be delivered is kept in the quarantine.
fn severity_of_loss(queue: &Queue, quarantines: bool) -> Severity {
    if is_kept(queue, quarantines) {
        Severity::Warning
    } else {
        Severity::Error
    }
}

/// `a, b, c and 7 more`.
fn listed<'a>(names: impl Iterator<Item = &'a Name>) -> String {
    let names: Vec<&Name> = names.collect();
    let told: Vec<&str> = names
        .iter()
        .take(LINT_NAMES_TOLD_MAX)
        .map(|name| &***name)
        .collect();
    let told = told.join(", ");
    match names.len().saturating_sub(LINT_NAMES_TOLD_MAX) {
        0 => told,
        more => format!("{told} and {more} more"),
    }
}

/// A word of a command as a shell takes it.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/:".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// An exchange, as findings name it.
fn exchange_words(name: &Name) -> String {
    if name.is_empty() {
        String::from("the default exchange")
    } else {
        format!("exchange '{name}'")
    }
}
