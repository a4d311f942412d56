//! What is lost, or kept for ever, without a dead-letter exchange: DL006 to DL010, DL018.

use super::subject;
use crate::broker::Core;
use crate::broker::arguments::{Overflow, QueueType};
use crate::broker::policy::QUORUM_DELIVERY_LIMIT_DEFAULT;
use crate::broker::queue::Queue;
use crate::deaths::Reason;
use crate::lint::Target;
use crate::lint::budget::Part;
use crate::lint::finding::{Finding, Rule, Severity};
use crate::lint::map::{Map, delivery_limit, is_bounded};

const FIX: &str = "set dead-letter-exchange by a policy, or drop the limit";

pub(super) fn look(
    core: &Core,
    (map, target): (&Map, Target),
    queue: &Queue,
    findings: &mut Vec<Finding>,
) {
    let settings = &queue.settings;
    if let Some(retry) = &settings.delayed_retry {
        if settings.delivery_limit.is_none() {
            let says = "delayed retries go on for ever: there is no delivery limit";
            let fix = "set delivery-limit";
            findings.push(Finding::new(Rule::RetriesForEver, subject(queue), says).fix(fix));
        }
        if retry.never_grows() {
            let says =
                "the delay of retries is multiplied and never grows: min and max are the same";
            findings.push(Finding::new(Rule::RetriesForEver, subject(queue), says));
        }
    }
    if settings.keeps_dead() {
        return;
    }
    let is_for_the_dead = map.is_for_the_dead(core, queue.id);
    if is_for_the_dead {
        // By ways that were not followed live messages may come.
        if !map.budget.is_used_up(Part::Routes) {
            of_the_dead(queue, target, findings);
        }
        return;
    }
    let mut lost = |rule: Rule, says: String, reason: Reason| {
        let witness = map.steps_in(queue.id).find(|step| step.reason == reason);
        let witness = witness.and_then(|step| map.witness(core, step.from, Some(reason)));
        let finding = Finding::new(rule, subject(queue), says).fix(FIX);
        findings.push(finding.witness(witness));
    };
    if let Some(ttl_ms) = settings.message_ttl_ms {
        let says =
            format!("what expires after {ttl_ms} ms is dropped: there is no dead-letter exchange");
        lost(Rule::ExpiredIsLost, says, Reason::Expired);
    }
    if is_bounded(queue) && settings.overflow == Overflow::DropHead {
        let says = format!(
            "{} drops the oldest messages: there is no dead-letter exchange",
            limit_words(queue)
        );
        lost(Rule::PushedOutIsLost, says, Reason::Maxlen);
    }
    if let Some(limit) = delivery_limit(queue, target) {
        let default = if is_default_limit(queue) {
            " (the default of quorum queues)"
        } else {
            ""
        };
        let says = format!(
            "what failed more than {limit} times{default} is dropped: there is no dead-letter exchange"
        );
        lost(Rule::FailedIsLost, says, Reason::DeliveryLimit);
    }
}

/// A queue that only dead letters reach, and that sends its own dead nowhere.
fn of_the_dead(queue: &Queue, target: Target, findings: &mut Vec<Finding>) {
    let settings = &queue.settings;
    let bounded = is_bounded(queue) && settings.overflow == Overflow::DropHead;
    match (settings.message_ttl_ms, bounded) {
        (None, false) if !is_bounded(queue) => {
            let says = "holds dead letters and has neither limit nor time to live: without a consumer it grows for ever";
            let fix = "set max-length or message-ttl, or watch its depth (contrib/alerts.yml)";
            findings.push(Finding::new(Rule::GrowsForEver, subject(queue), says).fix(fix));
        }
        (Some(ttl_ms), _) => {
            let says = format!(
                "holds dead letters for {ttl_ms} ms; what expires there is dropped: the second death is the last"
            );
            findings.push(Finding::new(Rule::SecondDeathIsLast, subject(queue), says));
        }
        (None, true) => {
            let says = format!(
                "{} drops the oldest dead letters: the second death is the last",
                limit_words(queue)
            );
            findings.push(Finding::new(Rule::SecondDeathIsLast, subject(queue), says));
        }
        (None, false) => {}
    }
    if delivery_limit(queue, target).is_some() && !is_default_limit(queue) {
        let says =
            "dead letters that fail too often here are dropped: the second death is the last";
        let finding = Finding::new(Rule::SecondDeathIsLast, subject(queue), says);
        findings.push(finding.severity(Severity::Info));
    }
}

fn is_default_limit(queue: &Queue) -> bool {
    queue.settings.queue_type == QueueType::Quorum
        && queue.settings.delivery_limit == Some(QUORUM_DELIVERY_LIMIT_DEFAULT)
        && queue.arguments.delivery_limit.is_none()
}

fn limit_words(queue: &Queue) -> String {
    let settings = &queue.settings;
    match (settings.max_length, settings.max_length_bytes) {
        (Some(length), Some(bytes)) => format!("the limit of {length} messages or {bytes} bytes"),
        (Some(length), None) => format!("the limit of {length} messages"),
        (None, bytes) => format!("the limit of {} bytes", bytes.unwrap_or_default()),
    }
}
