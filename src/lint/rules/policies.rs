//! Policies that are not applied, or not as they say: DL011, DL012, DL013.

use std::collections::BTreeMap;

use super::rabbitmq::{OWN_KEYS, is_not_applied};
use super::{listed, subject};
use crate::base::Name;
use crate::broker::arguments::QueueType;
use crate::broker::definition::{Subject as KeyOf, key};
use crate::broker::names::QUARANTINE;
use crate::broker::policy::ApplyTo;
use crate::broker::queue::Queue;
use crate::broker::{Core, Declared, Policy, Warning};
use crate::lint::Target;
use crate::lint::budget::Part;
use crate::lint::finding::{Finding, Rule, Severity, Subject};
use crate::lint::map::Map;

pub(super) fn look(core: &Core, map: &Map, target: Target, findings: &mut Vec<Finding>) {
    for operator in [false, true] {
        let policies = core.policies().list(operator);
        let strange: Vec<bool> = policies
            .map(|policy| matches_a_stranger(map, policy))
            .collect();
        of_kind(core, (map, target), (operator, &strange), findings);
        for (policy, is_strange) in core.policies().list(operator).zip(&strange) {
            // What has no effect in this broker has one there.
            let is_for_others = target == Target::Rabbitmq || *is_strange;
            of_one(core, (operator, is_for_others), policy, target, findings);
        }
    }
}

/// Whether a policy is for a queue, of a type that this broker does not have, that is there. Yes where that
/// takes too long to tell: then nothing is said of it.
fn matches_a_stranger(map: &Map, policy: &Policy) -> bool {
    let covers = match policy.apply_to {
        ApplyTo::Queues | ApplyTo::Streams | ApplyTo::All => true,
        ApplyTo::ClassicQueues | ApplyTo::QuorumQueues | ApplyTo::Exchanges => false,
    };
    covers && matches_any(map, policy, map.strangers.queues.keys())
}

/// Whether a policy matches one of these names; yes where that takes too long to tell.
fn matches_any<'a>(map: &Map, policy: &Policy, mut names: impl Iterator<Item = &'a Name>) -> bool {
    names.any(|name| !map.budget.take(Part::Matches, 1) || policy.pattern.matches(name))
}

/// What became of one policy.
#[derive(Default)]
struct Fate<'a> {
    applied: usize,
    /// The queues that it matches and is not applied to, by the policy that is.
    outranked: BTreeMap<&'a Name, Vec<&'a Name>>,
}

/// DL011, DL012, DL013 for what matches nothing, and DL019 for what a RabbitMQ does not apply. Not inlined: it would be there for each kind of policy.
#[inline(never)]
fn of_kind(
    core: &Core,
    (map, target): (&Map, Target),
    (operator, strange): (bool, &[bool]),
    findings: &mut Vec<Finding>,
) {
    let policies = core.policies();
    let fates = policies.list(operator).map(|_| Fate::default());
    let mut fates: Vec<Fate<'_>> = fates.collect();
    let known = |queue: &&Queue| !map.strangers.has_queue(&queue.name);
    for queue in core.queues().filter(known) {
        if !map.budget.take(Part::Matches, policies.count(operator)) {
            return;
        }
        let matches = |policy: &Policy| {
            policy.apply_to.covers_queue(queue.settings.queue_type)
                && policy.pattern.matches(&queue.name)
        };
        let of_queue = policies.list(operator).zip(&mut fates);
        let of_queue: Vec<_> = of_queue.filter(|(policy, _)| matches(policy)).collect();
        let first = of_queue.iter().map(|(policy, _)| *policy);
        // Of equal priorities the first name wins.
        let Some(winner) = first.reduce(|best, policy| {
            if policy.priority > best.priority {
                policy
            } else {
                best
            }
        }) else {
            continue;
        };
        beaten(queue, (operator, winner), findings);
        if target == Target::Rabbitmq {
            is_not_applied(queue, winner, findings);
        }
        for (policy, fate) in of_queue {
            if policy.name == winner.name {
                fate.applied += 1;
            } else {
                let outranked = fate.outranked.entry(&winner.name).or_default();
                outranked.push(&queue.name);
            }
        }
    }
    for ((policy, fate), is_strange) in policies.list(operator).zip(&fates).zip(strange) {
        let is_applied = fate.applied > 0 || *is_strange || !fate.outranked.is_empty();
        let is_awaited = target == Target::Coroner && is_for_quarantine(policy);
        if is_applied || is_awaited || covers_an_exchange(core, map, policy) {
            outranked(core, (operator, policy), fate, findings);
        } else {
            let says = format!("matches nothing: '{}'", policy.pattern.as_str());
            let subject = named(operator, &policy.name);
            findings.push(Finding::new(Rule::NoEffect, subject, says));
        }
    }
}

/// Whether a policy is for the queue that the broker makes itself when a dead letter first gets nowhere.
fn is_for_quarantine(policy: &Policy) -> bool {
    policy.apply_to.covers_queue(QueueType::Classic)
        && policy.pattern.matches(&Name::from(QUARANTINE))
}

/// DL011, of one policy.
fn outranked(
    core: &Core,
    (operator, policy): (bool, &Policy),
    fate: &Fate<'_>,
    findings: &mut Vec<Finding>,
) {
    for (winner, queues) in &fate.outranked {
        let Some(winner) = core.policies().get(operator, winner) else {
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
        let queues = listed(queues.iter().copied());
        let (own, other) = (policy.priority, &winner.name);
        // A RabbitMQ does not say which of them it applies.
        let why = if own == winner.priority {
            format!("policy {other} has the same priority, and comes first by its name")
        } else {
            format!("policy {other} has priority {}", winner.priority)
        };
        let says = format!("(priority {own}) is {scope} to {queues}: {why}");
        let mut finding = Finding::new(Rule::Outranked, named(operator, &policy.name), says);
        if !lost.is_empty() {
            let because = format!("policies do not merge; lost: {lost}");
            let fix = format!("put {lost} into policy {} too", winner.name);
            finding = finding.because(because).fix(fix);
        }
        findings.push(finding);
    }
}

fn covers_an_exchange(core: &Core, map: &Map, policy: &Policy) -> bool {
    let exchanges = core.router().exchanges();
    let names = exchanges.map(|exchange| &exchange.spec.name);
    policy.apply_to.covers_exchanges() && matches_any(map, policy, names)
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
fn beaten(queue: &Queue, (operator, policy): (bool, &Policy), findings: &mut Vec<Finding>) {
    let arguments = &queue.arguments;
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
