//! Where dead letters arrive: DL015, DL016, DL017, DL020.

use std::collections::BTreeSet;

use super::{exchange_words, listed, rule_words, subject};
use crate::base::{Name, QueueId};
use crate::broker::Core;
use crate::broker::queue::Queue;
use crate::lint::finding::{Finding, Rule};
use crate::lint::map::{By, Map};

pub(super) fn look(core: &Core, map: &Map, queue: &Queue, findings: &mut Vec<Finding>) {
    let targets: BTreeSet<QueueId> = map
        .steps_in(queue.id)
        .flat_map(|step| step.reached.iter().copied())
        .collect();
    let targets: Vec<&Queue> = targets
        .iter()
        .filter_map(|id| core.queue_by_id(*id))
        .collect();
    if queue.durable {
        does_not_last(core, queue, &targets, findings);
    }
    if targets.iter().any(|target| target.id == queue.id) {
        let says = "dead letters of this queue go into itself";
        let because = format!("by {}", rule_words(queue));
        findings.push(Finding::new(Rule::IntoItself, subject(queue), says).because(because));
    }
    among_the_living(map, queue, &targets, findings);
    for target in &targets {
        let why = match (target.settings.max_length, target.settings.message_ttl_ms) {
            (Some(0), _) => "max-length is 0",
            (_, Some(0)) => "message-ttl is 0",
            _ => continue,
        };
        let says = format!(
            "its dead letters die on arrival in {}, unless a consumer waits for them: {why}",
            target.name
        );
        findings.push(Finding::new(Rule::DiesOnArrival, subject(queue), says));
    }
}

fn does_not_last(core: &Core, queue: &Queue, targets: &[&Queue], findings: &mut Vec<Finding>) {
    let exchange = queue.settings.dead_letter_exchange.as_ref();
    let exchange = exchange.and_then(|name| core.router().exchange_named(name));
    if let Some(exchange) = exchange {
        let spec = &exchange.spec;
        let why = match (spec.durable, spec.auto_delete) {
            (false, _) => "is not durable: it is gone after a restart",
            (true, true) => "is deleted with its last binding",
            (true, false) => "",
        };
        if !why.is_empty() {
            let says = format!(
                "the dead letters of this durable queue go through {}, which {why}",
                exchange_words(&spec.name)
            );
            findings.push(Finding::new(Rule::DoesNotLast, subject(queue), says));
        }
    }
    for target in targets {
        let why = if !target.declared_durable {
            "is not durable: it is gone after a restart"
        } else if target.exclusive.is_some() {
            "is exclusive: it is gone with its connection"
        } else if target.auto_delete {
            "is deleted with its last consumer"
        } else if target.settings.expires_ms.is_some() {
            "expires when it is not used"
        } else {
            continue;
        };
        let says = format!(
            "the dead letters of this durable queue go to {}, which {why}",
            target.name
        );
        findings.push(Finding::new(Rule::DoesNotLast, subject(queue), says));
    }
}

/// DL016. A way back to where a message came from is a retry, not a fan-out; and an exchange that live
/// messages pass on their way to the same queues is meant to have both.
fn among_the_living(map: &Map, queue: &Queue, targets: &[&Queue], findings: &mut Vec<Finding>) {
    let exchange = queue.settings.dead_letter_exchange.as_ref();
    if exchange.is_some_and(|exchange| map.fed.contains_key(exchange)) {
        return;
    }
    let is_alive = |target: &&&Queue| {
        let arrivals = map.in_queue.get(&target.id).into_iter().flatten();
        let mut arrivals = arrivals.filter_map(|index| map.arrivals.get(*index));
        target.id != queue.id
            && arrivals.any(|arrival| arrival.by == By::Exchange)
            && !map.leads_to(target.id, queue.id)
    };
    let alive: Vec<&Name> = targets
        .iter()
        .filter(is_alive)
        .map(|target| &target.name)
        .collect();
    if alive.is_empty() {
        return;
    }
    let names = listed(alive.into_iter());
    let says = format!("its dead letters also reach queues that get live messages: {names}");
    let because = format!("by {}", rule_words(queue));
    findings.push(Finding::new(Rule::AmongTheLiving, subject(queue), says).because(because));
}
