//! Policies that are not applied, or not as they say: DL011, DL012, DL013.

use std::collections::BTreeMap;

use super::rabbitmq::OWN_KEYS;
use super::{listed, subject};
use crate::base::Name;
use crate::base::limits::LINT_MATCHES_MAX;
use crate::broker::definition::{Subject as KeyOf, key};
use crate::broker::policy::ApplyTo;
use crate::broker::queue::Queue;
use crate::broker::{Core, Declared, Policy, Warning};
use crate::lint::Target;
use crate::lint::finding::{Finding, Rule, Severity, Subject};
use crate::lint::map::Map;
use crate::lint::sandbox::Strangers;

pub(super) fn look(core: &Core, map: &Map, target: Target, findings: &mut Vec<Finding>) {
    let strangers = &map.strangers;
    for operator in [false, true] {
        of_kind(core, strangers, operator, findings);
        for policy in core.policies().list(operator) {
            // What has no effect in this broker has one there.
            let is_for_others = target == Target::Rabbitmq || matches_a_stranger(strangers, policy);
            of_one(core, (operator, is_for_others), policy, target, findings);
        }
    }
    let known = |queue: &&Queue| !strangers.has_queue(&queue.name);
    for queue in core.queues().filter(known) {
        beaten(core, queue, findings);
    }
}

/// Whether a policy is for a queue, of a type that this broker does not have, that is there.
fn matches_a_stranger(strangers: &Strangers, policy: &Policy) -> bool {
    let covers = match policy.apply_to {
        ApplyTo::Queues | ApplyTo::Streams | ApplyTo::All => true,
        ApplyTo::ClassicQueues | ApplyTo::QuorumQueues | ApplyTo::Exchanges => false,
    };
    let mut names = strangers.queues.keys();
    covers && names.any(|name| policy.pattern.matches(name))
}

/// What became of one policy.
#[derive(Default)]
struct Fate<'a> {
    applied: usize,
    /// The queues that it matches and is not applied to, by the policy that is.
    outranked: BTreeMap<&'a Name, Vec<&'a Name>>,
}

/// DL011, and DL013 for what matches nothing. Not inlined: it would be there for each kind of policy.
#[inline(never)]
fn of_kind(core: &Core, strangers: &Strangers, operator: bool, findings: &mut Vec<Finding>) {
    let policies = core.policies();
    let fates = policies.list(operator).map(|_| Fate::default());
    let mut fates: Vec<Fate<'_>> = fates.collect();
    let mut left = LINT_MATCHES_MAX;
    let matches = |policy: &Policy, queue: &Queue| {
        policy.apply_to.covers_queue(queue.settings.queue_type)
            && policy.pattern.matches(&queue.name)
    };
    let known = |queue: &&Queue| !strangers.has_queue(&queue.name);
    for queue in core.queues().filter(known) {
        let Some(rest) = left.checked_sub(policies.count(operator)) else {
            return;
        };
        left = rest;
        let winner = policies.of_queue(operator, &queue.name, queue.settings.queue_type);
        let Some(winner) = winner else {
            continue;
        };
        for (policy, fate) in policies.list(operator).zip(&mut fates) {
            if policy.name == winner.name {
                fate.applied += 1;
            } else if matches(policy, queue) {
                let outranked = fate.outranked.entry(&winner.name).or_default();
                outranked.push(&queue.name);
            }
        }
    }
    for (policy, fate) in policies.list(operator).zip(&fates) {
        let subject = named(operator, &policy.name);
        let is_applied = covers_an_exchange(core, policy) || matches_a_stranger(strangers, policy);
        if fate.applied == 0 && fate.outranked.is_empty() && !is_applied {
            let says = format!("matches nothing: '{}'", policy.pattern.as_str());
            findings.push(Finding::new(Rule::NoEffect, subject, says));
            continue;
        }
        for (winner, queues) in &fate.outranked {
            let Some(winner) = policies.get(operator, winner) else {
                continue;
            };
            let lost = policy.given.iter().map(|(key, _)| key);
            let lost = lost.filter(|key| !winner.given.iter().any(|(other, _)| other == *key));
            let lost = listed(lost);
            if lost.is_empty() && fate.applied > 0 {
                continue;
            }
            let scope = if fate.applied == 0 {
                "never applied"
            } else {
                "not applied"
            };
            let says = format!(
                "(priority {}) is {scope} to {}: policy {} has priority {}",
                policy.priority,
                listed(queues.iter().copied()),
                winner.name,
                winner.priority,
            );
            let mut finding = Finding::new(Rule::Outranked, subject.clone(), says);
            if !lost.is_empty() {
                let because = format!("policies do not merge; lost: {lost}");
                let fix = format!("put {lost} into policy {} too", winner.name);
                finding = finding.because(because).fix(fix);
            }
            findings.push(finding);
        }
    }
}

fn covers_an_exchange(core: &Core, policy: &Policy) -> bool {
    policy.apply_to.covers_exchanges()
        && core
            .router()
            .exchanges()
            .any(|exchange| policy.pattern.matches(&exchange.spec.name))
}

fn named(operator: bool, name: &Name) -> Subject {
    if operator {
        Subject::OperatorPolicy(name.clone())
    } else {
        Subject::Policy(name.clone())
    }
}

/// Keys of one policy: without effect here (DL013), unknown to a RabbitMQ (DL019).
fn of_one(
    core: &Core,
    (operator, is_for_others): (bool, bool),
    policy: &Policy,
    target: Target,
    findings: &mut Vec<Finding>,
) {
    let subject = named(operator, &policy.name);
    let declared = Declared::Policy {
        operator,
        name: policy.name.clone(),
    };
    for warning in core.warnings_of(&declared) {
        if let Warning::NoEffect { setting, why } = warning {
            let of_nothing = key(&setting).map(|key| key.subject) == Some(KeyOf::Nothing);
            if is_for_others && (of_nothing || &*setting == "apply-to") {
                continue;
            }
            let says = format!("the key '{setting}' has no effect: {why}");
            findings.push(Finding::new(Rule::NoEffect, subject.clone(), says));
        }
    }
    if target == Target::Rabbitmq {
        for (key, _) in &policy.given {
            if OWN_KEYS.contains(&&**key) {
                let says = format!("RabbitMQ 4.0 refuses the key '{key}', and with it the policy");
                let fix = "coroner export_definitions --for rabbitmq leaves it out";
                let finding = Finding::new(Rule::OtherwiseInRabbitmq, subject.clone(), says);
                findings.push(finding.fix(fix));
            }
        }
    }
}

/// DL012: what an argument and a policy both set, with different values.
fn beaten(core: &Core, queue: &Queue, findings: &mut Vec<Finding>) {
    let (name, kind) = (&queue.name, queue.settings.queue_type);
    let arguments = &queue.arguments;
    for operator in [true, false] {
        let Some(policy) = core.policies().of_queue(operator, name, kind) else {
            continue;
        };
        let definition = &policy.definition;
        let pairs = [
            (
                "dead-letter-exchange",
                &arguments.dead_letter_exchange,
                &definition.dead_letter_exchange,
            ),
            (
                "dead-letter-routing-key",
                &arguments.dead_letter_routing_key,
                &definition.dead_letter_routing_key,
            ),
        ];
        for (key, argument, given) in pairs {
            let (Some(argument), Some(given)) = (argument, given) else {
                continue;
            };
            if argument == given {
                continue;
            }
            let policy = &policy.name;
            let says = if operator {
                format!(
                    "operator policy {policy} sets {key} to '{given}', which beats the argument's '{argument}'"
                )
            } else {
                format!(
                    "the argument x-{key} is '{argument}', which beats '{given}' of policy {policy}"
                )
            };
            findings.push(Finding::new(Rule::Beaten, subject(queue), says));
        }
        let kinds = (arguments.delayed_retry.kind, definition.delayed_retry.kind);
        if let (Some(argument), Some(given)) = kinds
            && argument != given
        {
            let says = format!(
                "delayed-retry-type '{}' of policy {} beats the argument's '{}'",
                given.as_str(),
                policy.name,
                argument.as_str()
            );
            let finding = Finding::new(Rule::Beaten, subject(queue), says);
            findings.push(finding.severity(Severity::Warning));
        }
    }
}
