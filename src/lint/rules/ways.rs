//! Dead letters that reach no queue: DL001, DL002, DL003, DL014.

use std::collections::BTreeSet;

use super::{listed, quoted, rule_words, severity_of_loss, subject};
use crate::base::Name;
use crate::broker::queue::Queue;
use crate::broker::{Core, NoAttributes};
use crate::lint::finding::{Finding, Rule, Severity};
use crate::lint::keys::{is_pattern, with_words_of};
use crate::lint::map::{Fate, Map, Step};
use crate::lint::sorted::Sorted;

pub(super) fn look(core: &Core, map: &Map, queue: &Queue, findings: &mut Vec<Finding>) {
    let settings = &queue.settings;
    let Some(exchange) = &settings.dead_letter_exchange else {
        if let Some(key) = &settings.dead_letter_routing_key {
            let says = format!(
                "the dead-letter routing key '{key}' counts for nothing: there is no dead-letter exchange"
            );
            let rule = Rule::KeyWithoutExchange;
            let fix = "name a dead-letter exchange in the same policy or declaration ('' is the default exchange)";
            findings.push(Finding::new(rule, subject(queue), says).fix(fix));
        }
        return;
    };
    let severity = severity_of_loss(queue, core.quarantines());
    let key = settings.dead_letter_routing_key.as_ref();
    let from = || rule_words(queue);
    let router = core.router();
    let Some(id) = router.id_of(exchange) else {
        let says = format!("the dead-letter exchange '{exchange}' does not exist");
        let finding = Finding::new(Rule::ExchangeMissing, subject(queue), says)
            .because(format!("it is named by {}", from()))
            .witness(first_witness(core, map, queue, &Fate::Missing))
            .fix(format!(
                "coroner declare exchange name={} type=fanout",
                quoted(exchange)
            ));
        findings.push(finding.severity(severity));
        return;
    };
    if !router.leads_anywhere(id, key) {
        let says = match key {
            Some(key) if exchange.is_empty() => {
                format!("dead letters go to queue '{key}', which does not exist")
            }
            Some(key) => format!(
                "no queue is bound to the dead-letter exchange '{exchange}' for the key '{key}'"
            ),
            None => format!("nothing is bound to the dead-letter exchange '{exchange}'"),
        };
        let finding = Finding::new(Rule::NothingBound, subject(queue), says)
            .because(format!("it is named by {}", from()))
            .witness(first_witness(core, map, queue, &Fate::Nowhere))
            .fix(bind(exchange, key));
        findings.push(finding.severity(severity));
        return;
    }
    keys_lead_nowhere(core, map, queue, exchange, findings);
}

/// DL003: one finding for all keys of a queue, with the first as its witness. Keys with words that are
/// made up count only if there are no others: perhaps nobody publishes with them.
fn keys_lead_nowhere(
    core: &Core,
    map: &Map,
    queue: &Queue,
    exchange: &Name,
    findings: &mut Vec<Finding>,
) {
    let lost = map.steps_in(queue.id);
    let lost = lost.filter(|step| step.fate == Fate::Nowhere);
    let (made_up, named): (Vec<&Step>, Vec<&Step>) = lost.partition(|step| step.made_up);
    let bound = core.router().exchange_named(exchange);
    let bound: BTreeSet<&Name> = bound
        .into_iter()
        .flat_map(|exchange| exchange.bindings().keys())
        .map(|binding| &binding.key)
        .collect();
    let only_patterns = bound.iter().all(|key| is_pattern(key));
    let is_guess = named.is_empty() && only_patterns && !exchange.is_empty();
    let lost = if named.is_empty() { made_up } else { named };
    let keys = lost.iter();
    let keys = keys.filter_map(|step| Some((step.way.as_ref()?.keys.first()?, *step)));
    let mut keys: Vec<(&Name, &Step)> = keys.collect();
    // Of equal keys the last one counts: a rejection, which comes first, can be tried.
    keys.reverse();
    let mut keys = Sorted::of(keys);
    if is_guess && bound.len() > 1 {
        keys.retain(|key| !is_lost_alive(core, map, exchange, key));
    }
    let Some((first, step)) = keys.rows().first() else {
        return;
    };
    let says = match keys.rows().len() {
        _ if is_guess => format!("dead letters with keys such as '{first}' reach no queue"),
        1 => format!("dead letters with key '{first}' reach no queue"),
        _ => format!(
            "dead letters with these keys reach no queue: {}",
            listed(keys.rows().iter().map(|(key, _)| *key))
        ),
    };
    let because = if exchange.is_empty() {
        format!(
            "{} sends them to the default exchange, where the key is a queue's name",
            rule_words(queue)
        )
    } else {
        let bound = listed(bound.into_iter());
        format!("{} '{exchange}' is bound with: {bound}", rule_words(queue))
    };
    let severity = if is_guess {
        Severity::Info
    } else {
        severity_of_loss(queue, core.quarantines())
    };
    let finding = Finding::new(Rule::KeysLeadNowhere, subject(queue), says)
        .because(because)
        .witness(map.witness(core, step.from, Some(step.reason)))
        .fix(bind(exchange, Some(first)))
        .severity(severity);
    findings.push(finding);
}

/// Whether an exchange does not take live messages with the made-up words of a key either: those that
/// come to it from other exchanges differ from this one in words that the bindings name. Whoever
/// publishes uses the words that it knows, then.
fn is_lost_alive(core: &Core, map: &Map, exchange: &Name, key: &Name) -> bool {
    let router = core.router();
    let Some(id) = router.id_of(exchange) else {
        return false;
    };
    let patterns = map.fed.get(exchange).into_iter().flatten();
    let mut alive = patterns.filter_map(|pattern| with_words_of(pattern, key));
    alive.any(|alive| {
        let mut queues = Vec::new();
        let keys = std::slice::from_ref(&alive);
        router.route_by(id, keys, &NoAttributes, 0, &mut queues);
        alive != *key && queues.is_empty()
    })
}

fn bind(exchange: &Name, key: Option<&Name>) -> String {
    match key {
        Some(key) if exchange.is_empty() => format!("coroner declare queue name={}", quoted(key)),
        _ => format!(
            "coroner declare binding source={} destination=QUEUE routing_key={}",
            quoted(exchange),
            quoted(key.map_or("", |key| key)),
        ),
    }
}

fn first_witness(
    core: &Core,
    map: &Map,
    queue: &Queue,
    fate: &Fate,
) -> Option<crate::lint::Witness> {
    let mut steps = map.steps_in(queue.id).filter(|step| step.fate == *fate);
    let step = steps.next()?;
    map.witness(core, step.from, Some(step.reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_shell_would_take_apart_is_quoted_in_a_fix() {
        let odd = Name::from("it's $5");
        assert_eq!(
            bind(&Name::from("dead"), Some(&odd)),
            "coroner declare binding source=dead destination=QUEUE routing_key='it'\\''s $5'"
        );
    }
}
