//! Where dead letters arrive: DL015, DL016, DL017, DL020, DL021.

use std::collections::BTreeMap;

use super::{exchange_words, is_kept, listed, rule_words, subject};
use crate::base::QueueId;
use crate::base::limits::LINT_NAMES_TOLD_MAX;
use crate::broker::Core;
use crate::broker::arguments::QueueType;
use crate::broker::names::QUARANTINE;
use crate::broker::queue::Queue;
use crate::lint::budget::Part;
use crate::lint::finding::{Finding, Rule, Subject};
use crate::lint::map::{By, Fate, Map};

/// A queue that dead letters reach.
struct Reached<'a> {
    queue: &'a Queue,
    /// Not surely: more than their keys decides.
    perhaps: bool,
}

pub(super) fn look(core: &Core, map: &Map, queue: &Queue, findings: &mut Vec<Finding>) {
    let mut targets: BTreeMap<QueueId, bool> = BTreeMap::new();
    for step in map.steps_in(queue.id) {
        let perhaps = matches!(step.fate, Fate::Varies(_));
        for target in step.reached.iter() {
            *targets.entry(*target).or_insert(true) &= perhaps;
        }
    }
    let targets = targets.into_iter().filter_map(|(id, perhaps)| {
        let queue = core.queue_by_id(id)?;
        Some(Reached { queue, perhaps })
    });
    let targets: Vec<Reached<'_>> = targets.collect();
    if queue.durable {
        ways_do_not_last(core, map, queue, findings);
        targets_do_not_last(map, queue, &targets, findings);
    }
    if targets
        .iter()
        .any(|target| target.queue.id == queue.id && !target.perhaps)
    {
        let says = "dead letters of this queue go into itself";
        let because = format!("by {}", rule_words(queue));
        findings.push(Finding::new(Rule::IntoItself, subject(queue), says).because(because));
    }
    among_the_living(map, queue, &targets, findings);
    for Reached {
        queue: target,
        perhaps,
    } in &targets
    {
        let why = match (target.settings.max_length, target.settings.message_ttl_ms) {
            _ if map.strangers.has_queue(&target.name) => continue,
            (Some(0), _) => "max-length is 0",
            (_, Some(0)) => "message-ttl is 0",
            _ => continue,
        };
        let says = format!(
            "its dead letters {} on arrival in {}, unless a consumer waits for them: {why}",
            if *perhaps { "may die" } else { "die" },
            target.name
        );
        findings.push(Finding::new(Rule::DiesOnArrival, subject(queue), says));
    }
}

/// DL015: exchanges. Through those behind the dead-letter exchange not all letters need to go.
fn ways_do_not_last(core: &Core, map: &Map, queue: &Queue, findings: &mut Vec<Finding>) {
    let router = core.router();
    let exchange = queue.settings.dead_letter_exchange.as_ref();
    let Some(first) = exchange.and_then(|name| router.id_of(name)) else {
        return;
    };
    let behind = map.behind(first);
    let behind = behind.into_iter().flat_map(|behind| &behind.exchanges);
    let mut told = 0;
    for exchange in behind.filter_map(|id| router.exchange(*id)) {
        if told == LINT_NAMES_TOLD_MAX {
            return;
        }
        let spec = &exchange.spec;
        let why = match (spec.durable, spec.auto_delete) {
            (false, _) => "is not durable: it is gone after a restart",
            (true, true) => "is deleted with its last binding",
            (true, false) => continue,
        };
        let goes = if exchange.id == first { "go" } else { "may go" };
        let says = format!(
            "the dead letters of this durable queue {goes} through {}, which {why}",
            exchange_words(&spec.name)
        );
        findings.push(Finding::new(Rule::DoesNotLast, subject(queue), says));
        told += 1;
    }
}

/// DL015: queues that dead letters go to, or may go to, and that are gone before they are.
fn targets_do_not_last(
    map: &Map,
    queue: &Queue,
    targets: &[Reached<'_>],
    findings: &mut Vec<Finding>,
) {
    for Reached {
        queue: target,
        perhaps,
    } in targets
    {
        let why = if map.strangers.has_queue(&target.name) {
            continue;
        } else if !target.declared_durable {
            "is not durable: it is gone after a restart"
        } else if target.exclusive.is_some() {
            "is exclusive: it is gone with its connection"
        } else if target.auto_delete {
            "is deleted with its last consumer"
        } else {
            continue;
        };
        let says = format!(
            "the dead letters of this durable queue {} to {}, which {why}",
            if *perhaps { "may go" } else { "go" },
            target.name
        );
        findings.push(Finding::new(Rule::DoesNotLast, subject(queue), says));
    }
}

/// DL021, of each queue that dead letters of others reach, once: of what surely comes
/// back to itself DL004 and DL005 tell.
pub(super) fn expire(core: &Core, map: &Map, findings: &mut Vec<Finding>) {
    quarantine_expires(core, map, findings);
    let expires = |queue: &&Queue| queue.settings.expires_ms.is_some();
    let expiring = core.queues().filter(expires);
    let mut reached: BTreeMap<QueueId, Option<bool>> =
        expiring.map(|queue| (queue.id, None)).collect();
    if reached.is_empty() {
        return;
    }
    for step in &map.steps {
        let from = map.arrivals.get(step.from).map(|arrival| arrival.queue);
        let perhaps = matches!(step.fate, Fate::Varies(_));
        let others = |id: &&QueueId| perhaps || from != Some(**id);
        for target in step.reached.iter().filter(others) {
            if let Some(known) = reached.get_mut(target) {
                *known = Some(known.unwrap_or(true) && perhaps);
            }
        }
    }
    for (id, perhaps) in reached {
        let (Some(queue), Some(perhaps)) = (core.queue_by_id(id), perhaps) else {
            continue;
        };
        let Some(expires_ms) = queue.settings.expires_ms else {
            continue;
        };
        if map.strangers.has_queue(&queue.name) {
            continue;
        }
        let says = format!(
            "dead letters {} here, and what it holds is dropped with it when nobody used it for {expires_ms} ms",
            if perhaps { "may come" } else { "come" },
        );
        let (because, fix) = expiry_words(core, map, queue);
        let finding = Finding::new(Rule::ExpiresWithThem, subject(queue), says);
        findings.push(finding.because(because).fix(fix));
    }
}

/// All that lets a queue expire, and what to do about it. Policies have no names where it takes too long to
/// find them.
fn expiry_words(core: &Core, map: &Map, queue: &Queue) -> (String, String) {
    let (mut causes, mut fixes) = (Vec::new(), Vec::new());
    let policies = core.policies();
    for (operator, kind) in [(false, "policy"), (true, "operator policy")] {
        if !map.budget.take(Part::Matches, policies.count(operator)) {
            continue;
        }
        let policy = policies.of_queue(operator, &queue.name, queue.settings.queue_type);
        if let Some(policy) = policy.filter(|policy| policy.definition.expires_ms.is_some()) {
            let name = &policy.name;
            causes.push(format!("{kind} {name}"));
            fixes.push(format!("let {kind} {name} match other queues only"));
        }
    }
    if causes.is_empty() && queue.arguments.expires_ms != queue.settings.expires_ms {
        causes.push(String::from("the key expires of a policy"));
        let fix = "let the policy with expires match other queues only";
        fixes.push(String::from(fix));
    }
    if queue.arguments.expires_ms.is_some() {
        causes.insert(0, String::from("argument x-expires"));
        fixes.insert(0, String::from("declare it without x-expires"));
    }
    let because = format!("by {}", causes.join(" and "));
    (because, fixes.join(", and "))
}

/// DL021, of policies that let the quarantine expire: it stands in no definitions. The vhost may turn it on,
/// or a queue for its own.
fn quarantine_expires(core: &Core, map: &Map, findings: &mut Vec<Finding>) {
    let is_known = |queue: &Queue| !map.strangers.has_queue(&queue.name);
    let mut queues = core.queues();
    if !core.quarantines() && !queues.any(|queue| is_known(queue) && is_kept(queue, false)) {
        return;
    }
    for operator in [false, true] {
        let policies = core.policies();
        let Some(policy) = policies.of_queue(operator, QUARANTINE, QueueType::Classic) else {
            continue;
        };
        let Some(expires_ms) = policy.definition.expires_ms else {
            continue;
        };
        let subject = if operator {
            Subject::OperatorPolicy(policy.name.clone())
        } else {
            Subject::Policy(policy.name.clone())
        };
        let says = format!(
            "it lets {QUARANTINE} expire: what that holds is dropped when nobody used it for {expires_ms} ms"
        );
        let fix = "let the policy with expires match other queues only";
        findings.push(Finding::new(Rule::ExpiresWithThem, subject, says).fix(fix));
    }
}

/// DL016. A way back to where a message came from is a retry, not a fan-out; an exchange that live
/// messages pass on their way to the same queues is meant to have both; and a queue in which messages wait
/// for their time sends them where its key says.
fn among_the_living(
    map: &Map,
    queue: &Queue,
    targets: &[Reached<'_>],
    findings: &mut Vec<Finding>,
) {
    let settings = &queue.settings;
    let exchange = settings.dead_letter_exchange.as_ref();
    let is_delay = settings.message_ttl_ms.is_some() && settings.dead_letter_routing_key.is_some();
    if is_delay || exchange.is_some_and(|exchange| map.fed.contains_key(exchange)) {
        return;
    }
    let is_alive = |target: &&Reached<'_>| {
        let target = target.queue.id;
        let arrivals = map.in_queue.get(&target).into_iter().flatten();
        let mut arrivals = arrivals.filter_map(|index| map.arrivals.get(*index));
        target != queue.id
            && arrivals.any(|arrival| arrival.by == By::Exchange)
            && !map.leads_to(target, queue.id)
    };
    let alive: Vec<&Reached<'_>> = targets.iter().filter(is_alive).collect();
    if alive.is_empty() {
        return;
    }
    let reach = if alive.iter().all(|target| target.perhaps) {
        "may also reach"
    } else {
        "also reach"
    };
    let names = listed(alive.iter().map(|target| &target.queue.name));
    let says = format!("its dead letters {reach} queues that get live messages: {names}");
    let because = format!("by {}", rule_words(queue));
    findings.push(Finding::new(Rule::AmongTheLiving, subject(queue), says).because(because));
}
