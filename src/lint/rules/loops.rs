//! Dead letters that come back: DL004 and DL005.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{rule_words, severity_of_loss, subject};
use crate::base::{Name, QueueId};
use crate::broker::Core;
use crate::broker::queue::Queue;
use crate::deaths::Reason;
use crate::lint::Witness;
use crate::lint::budget::Part;
use crate::lint::finding::{Finding, Rule, Severity, Subject, verb};
use crate::lint::map::Map;

/// The deaths of one loop: the arrival before each, and its reason.
type Path = Vec<(usize, Reason)>;

/// A way by which dead letters come back to a queue.
#[derive(Debug)]
pub(in crate::lint) struct Loop {
    /// Whether it turns by itself, or by rejections.
    pub(in crate::lint) rule: Rule,
    queue: QueueId,
    path: Path,
}

impl Loop {
    /// Its queues in the order in which dead letters pass them, from the last one back to the first.
    pub(in crate::lint) fn queues(&self, map: &Map) -> Vec<QueueId> {
        let arrivals = self.path.iter();
        let arrivals = arrivals.filter_map(|(arrival, _)| map.arrivals.get(*arrival));
        arrivals.map(|arrival| arrival.queue).collect()
    }

    /// Whether a queue dead-letters into itself.
    fn is_of_one_queue(&self, map: &Map) -> bool {
        self.queues(map).iter().all(|queue| *queue == self.queue)
    }
}

/// The loops of a topology: of each set of queues one of each kind.
pub(in crate::lint) fn find_all(core: &Core, map: &Map) -> Vec<Loop> {
    let (mut found, mut told) = (Vec::new(), BTreeSet::new());
    let mut tell = |rule: Rule, queue: QueueId, path: Option<Path>| {
        let Some(path) = path else {
            return;
        };
        let found_loop = Loop { rule, queue, path };
        let members: BTreeSet<QueueId> = found_loop.queues(map).into_iter().collect();
        if told.insert((rule, members)) {
            found.push(found_loop);
        }
    };
    for queue in core.queues() {
        let by_itself = |_first: bool, reason: Reason| reason != Reason::Rejected;
        let path = find(map, queue.id, &by_itself);
        tell(Rule::LoopByItself, queue.id, path);
    }
    // Consumers reject where they consume: rather not in a queue in which messages wait for their time.
    let waits = |queue: &&Queue| queue.settings.message_ttl_ms.is_some();
    let first = core.queues().filter(|queue| !waits(queue));
    for queue in first.chain(core.queues().filter(waits)) {
        let by_reject = |first: bool, reason: Reason| !first || reason == Reason::Rejected;
        let path = find(map, queue.id, &by_reject);
        tell(Rule::LoopByRejects, queue.id, path);
    }
    found
}

pub(super) fn look(core: &Core, map: &Map, loops: &[Loop], findings: &mut Vec<Finding>) {
    for found in loops {
        let Some(queue) = core.queue_by_id(found.queue) else {
            continue;
        };
        let mut finding = if found.rule == Rule::LoopByItself {
            turns_by_itself(core, map, queue, &found.path)
        } else {
            turned_by_rejects(core, map, queue, &found.path)
        };
        if found.is_of_one_queue(map) {
            let cause = format!("it dead-letters into itself, by {}", rule_words(queue));
            finding.because = Some(match finding.because {
                Some(because) => format!("{cause}; {because}"),
                None => cause,
            });
        }
        findings.push(finding);
    }
}

/// Leaves out DL017 where a loop of that queue alone is told, by DL004 or DL005, which name it as their cause:
/// it would be the same once more. It stays where a silence or a bound took them away, and where they are
/// only infos.
pub(in crate::lint) fn leave_causes_out(
    core: &Core,
    map: &Map,
    loops: &[Loop],
    findings: &mut Vec<Finding>,
) {
    let alone = loops.iter().filter(|one| one.is_of_one_queue(map));
    let alone = alone.filter_map(|one| {
        let queue = core.queue_by_id(one.queue)?;
        Some((one.rule, subject(queue)))
    });
    let alone: BTreeSet<(Rule, Subject)> = alone.collect();
    let told = findings.iter().filter(|finding| {
        let is_bad = finding.severity <= Rule::IntoItself.severity();
        is_bad && alone.contains(&(finding.rule, finding.subject.clone()))
    });
    let told: BTreeSet<Subject> = told.map(|finding| finding.subject.clone()).collect();
    findings.retain(|finding| finding.rule != Rule::IntoItself || !told.contains(&finding.subject));
}

/// The shortest way from a queue back to it, by deaths that are wanted; `wanted` is told whether it
/// is the first one.
fn find(map: &Map, queue: QueueId, wanted: &dyn Fn(bool, Reason) -> bool) -> Option<Path> {
    let starts = map.in_queue.get(&queue)?;
    let mut before: BTreeMap<usize, (usize, Reason)> = BTreeMap::new();
    let mut open: VecDeque<(usize, bool)> = starts.iter().map(|start| (*start, true)).collect();
    while let Some((arrival, first)) = open.pop_front() {
        // What waits there expires; only without that somebody has to reject it.
        let by_time = |wanted: bool| {
            let steps = map.steps_from(arrival);
            steps.filter(move |step| (step.reason == Reason::Expired) == wanted)
        };
        for step in by_time(true).chain(by_time(false)) {
            if !wanted(first, step.reason) {
                continue;
            }
            for (next, reached) in map.targets(step) {
                map.budget.take(Part::Loops, 1).then_some(())?;
                if reached == queue {
                    return Some(path(&before, (arrival, step.reason)));
                }
                if let std::collections::btree_map::Entry::Vacant(entry) = before.entry(next) {
                    entry.insert((arrival, step.reason));
                    open.push_back((next, false));
                }
            }
        }
    }
    None
}

fn path(before: &BTreeMap<usize, (usize, Reason)>, last: (usize, Reason)) -> Path {
    let mut path = vec![last];
    let mut at = last.0;
    while let Some(step) = before.get(&at) {
        path.push(*step);
        at = step.0;
    }
    path.reverse();
    path
}

/// `orders (expired) -> orders.dlq (expired) -> orders`.
fn words(core: &Core, map: &Map, queue: &Queue, path: &Path) -> String {
    let mut words = String::new();
    for (arrival, reason) in path {
        let name = map.arrivals.get(*arrival);
        let name = name.and_then(|arrival| core.queue_by_id(arrival.queue));
        let name = name.map_or("?", |queue| &*queue.name);
        words.push_str(name);
        words.push_str(" (");
        words.push_str(verb(*reason));
        words.push_str(") -> ");
    }
    words + &queue.name
}

fn turns_by_itself(core: &Core, map: &Map, queue: &Queue, path: &Path) -> Finding {
    let says = format!(
        "dead letters come back without a rejection, and are not let in: {}",
        words(core, map, queue, path)
    );
    let severity = if path
        .iter()
        .any(|(_, reason)| *reason == Reason::DeliveryLimit)
    {
        Severity::Warning
    } else {
        severity_of_loss(queue, core.quarantines())
    };
    Finding::new(Rule::LoopByItself, subject(queue), says)
        .severity(severity)
        .because("the cycle rule lets a message into a queue that it died in only after a rejection")
        .witness(witness(core, map, path))
        .fix("park dead letters in a queue without a way back, and bring them back by: coroner redrive QUEUE")
}

fn turned_by_rejects(core: &Core, map: &Map, queue: &Queue, path: &Path) -> Finding {
    let on_way = path.iter().filter_map(|(arrival, reason)| {
        let arrival = map.arrivals.get(*arrival)?;
        Some((core.queue_by_id(arrival.queue)?, *reason))
    });
    let mut on_way = on_way;
    let is_slow = on_way.any(|(queue, reason)| {
        let waits = queue
            .settings
            .message_ttl_ms
            .is_some_and(|ttl_ms| ttl_ms > 0);
        (waits && reason == Reason::Expired) || queue.settings.delayed_retry.is_some()
    });
    let way = words(core, map, queue, path);
    let finding = Finding::new(Rule::LoopByRejects, subject(queue), "");
    if is_slow {
        return Finding {
            says: format!(
                "what is rejected comes back after a delay, as long as it is rejected: {way}"
            ),
            severity: Severity::Info,
            fix: Some(String::from(
                "if it is to end one day, count in the consumer (x-opt-deaths), or use delayed-retry-type with a delivery limit",
            )),
            ..finding
        };
    }
    Finding {
        says: format!("what is rejected comes back at once, as long as it is rejected: {way}"),
        fix: Some(String::from(
            "use delayed-retry-type with a delivery limit, or park what is rejected",
        )),
        ..finding
    }
}

/// The message of the first arrival, with the deaths of the loop.
fn witness(core: &Core, map: &Map, path: &Path) -> Option<Witness> {
    let (first, _) = path.first()?;
    let mut witness = map.witness(core, *first, None)?;
    for (arrival, reason) in path {
        let queue = core.queue_by_id(map.arrivals.get(*arrival)?.queue)?;
        let name: Name = queue.name.clone();
        witness.deaths.push((name, *reason));
    }
    Some(witness)
}
