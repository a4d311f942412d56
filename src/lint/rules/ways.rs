//! Dead letters that reach no queue: DL001, DL002, DL003, DL014.

use super::seen::Seen;
use super::{Unreached, listed, quoted, rule_words, subject};
use crate::base::{ExchangeId, Name};
use crate::broker::Core;
use crate::broker::arguments::DeadLetterStrategy;
use crate::broker::queue::Queue;
use crate::lint::Target;
use crate::lint::finding::{Finding, Rule, Severity};
use crate::lint::map::{Fate, Map, Step};
use crate::lint::sorted::Sorted;

pub(super) fn look(
    core: &Core,
    (map, target): (&Map, Target),
    queue: &Queue,
    seen: &mut Seen,
    findings: &mut Vec<Finding>,
) {
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
    let ways = Ways {
        core,
        map,
        queue,
        exchange,
        unreached: Unreached::of(core, queue, target),
    };
    let key = settings.dead_letter_routing_key.as_ref();
    let named_by = format!("it is named by {}", rule_words(queue));
    let Some(id) = core.router().id_of(exchange) else {
        let says = format!("the dead-letter exchange '{exchange}' does not exist");
        let finding = ways.finding(Rule::ExchangeMissing, &says, &Fate::Missing);
        let fix = format!(
            "coroner declare exchange name={} type=fanout",
            quoted(exchange)
        );
        findings.push(finding.because(named_by).fix(fix));
        return;
    };
    if seen.meets_a_stranger(core, map, id) {
        return; // nobody knows here where it routes
    }
    if !ways.lead_anywhere(id, key) {
        let is_bound = core.router().leads_anywhere(id, None);
        let says = match key {
            Some(key) if exchange.is_empty() => {
                format!("dead letters go to queue '{key}', which does not exist")
            }
            None if is_bound => format!(
                "no queue is bound to the dead-letter exchange '{exchange}', nor to an exchange behind it"
            ),
            Some(key) => format!(
                "no queue is bound to the dead-letter exchange '{exchange}' for the key '{key}'"
            ),
            None => format!("nothing is bound to the dead-letter exchange '{exchange}'"),
        };
        let finding = ways.finding(Rule::NothingBound, &says, &Fate::Nowhere);
        findings.push(finding.because(named_by).fix(bind(exchange, key)));
        return;
    }
    ways.keys_lead_nowhere(id, seen, findings);
}

/// The ways of the dead letters of one queue.
struct Ways<'a> {
    core: &'a Core,
    map: &'a Map,
    queue: &'a Queue,
    /// Its dead-letter exchange.
    exchange: &'a Name,
    unreached: Unreached,
}

impl Ways<'_> {
    /// A finding about letters that reach no queue, with the first of them that meets this fate.
    fn finding(&self, rule: Rule, says: &str, fate: &Fate) -> Finding {
        let mut steps = self.map.steps_in(self.queue.id);
        let step = steps.find(|step| step.fate == *fate);
        self.unreached(rule, says, step)
    }

    fn unreached(&self, rule: Rule, says: &str, step: Option<&Step>) -> Finding {
        let waits = self.unreached == Unreached::Wait;
        let says = if waits {
            format!("{says}: they wait in this queue until there is a way (at-least-once)")
        } else {
            says.to_owned()
        };
        // The sandbox lets letters wait where a RabbitMQ does not.
        let strategy = self.queue.settings.dead_letter_strategy;
        let is_the_same = waits || strategy == DeadLetterStrategy::AtMostOnce;
        let step = step.filter(|_| is_the_same);
        let witness = step.and_then(|step| {
            let (from, reason) = (step.from, Some(step.reason));
            self.map.witness(self.core, from, reason)
        });
        Finding::new(rule, subject(self.queue), says)
            .witness(witness)
            .severity(self.unreached.severity())
    }

    /// Whether any dead letter, or one with this key, can reach a queue.
    fn lead_anywhere(&self, exchange: ExchangeId, key: Option<&Name>) -> bool {
        let router = self.core.router();
        let Some(behind) = self.map.behind(exchange) else {
            return router.leads_anywhere(exchange, key);
        };
        let Some(key) = key.filter(|_| !behind.varies) else {
            return behind.has_others || !behind.queues.is_empty();
        };
        self.map.may_reach_any(exchange, key)
    }

    /// `policy DLX 'dead' is bound with: order.new`.
    fn bound_words(&self, id: ExchangeId, seen: &mut Seen) -> String {
        let named_by = rule_words(self.queue);
        if self.exchange.is_empty() {
            return format!(
                "{named_by} sends them to the default exchange, where the key is a queue's name"
            );
        }
        let bound = seen.bound_words(self.core, self.map, id);
        format!("{named_by} '{}' {bound}", self.exchange)
    }

    /// DL003: one finding for all keys of a queue, with the first as its witness. Keys with words that are
    /// made up count only if there are no others: perhaps nobody publishes with them.
    fn keys_lead_nowhere(&self, id: ExchangeId, seen: &mut Seen, findings: &mut Vec<Finding>) {
        let Self { core, map, .. } = *self;
        let lost = map.steps_in(self.queue.id);
        let lost = lost.filter(|step| step.fate == Fate::Nowhere && map.is_key_known(step));
        let (made_up, named): (Vec<&Step>, Vec<&Step>) =
            lost.partition(|step| map.is_made_up(step));
        if made_up.is_empty() && named.is_empty() {
            return; // as a rule, and what follows looks at all bindings
        }
        let is_guess = named.is_empty()
            && !self.exchange.is_empty()
            && seen.is_told_apart_by_patterns(core, id);
        let mut lost = if named.is_empty() { made_up } else { named };
        // What may come counts only if nothing is lost for sure.
        let is_sure = |step: &&Step| !map.may_not_come(step);
        let is_perhaps = !lost.iter().any(is_sure);
        lost.retain(|step| is_perhaps || is_sure(step));
        let keys = lost.iter();
        let keys = keys.filter_map(|step| Some((step.way.as_ref()?.keys.first()?, *step)));
        let mut keys: Vec<(&Name, &Step)> = keys.collect();
        // Of equal keys the last one counts: a rejection, which comes first, can be tried.
        keys.reverse();
        if is_guess && seen.has_several_keys(core, id) {
            keys.retain(|(key, _)| !seen.is_lost_alive(core, map, (id, self.exchange), key));
        }
        let keys = Sorted::of(keys);
        let Some((first, step)) = keys.rows().first() else {
            return;
        };
        let says = if is_guess {
            format!("dead letters with keys such as '{first}' reach no queue")
        } else {
            lost_words(keys.rows().iter().map(|(key, _)| *key), is_perhaps)
        };
        let finding = self.unreached(Rule::KeysLeadNowhere, &says, Some(*step));
        let severity = if is_guess {
            Severity::Info
        } else if is_perhaps {
            Severity::Warning
        } else {
            finding.severity
        };
        let finding = finding
            .severity(severity)
            .because(self.bound_words(id, seen));
        findings.push(finding.fix(bind(self.exchange, Some(first))));
    }
}

/// `dead letters with key 'new' reach no queue`; `is_perhaps`: none of them need come.
fn lost_words<'a>(keys: impl ExactSizeIterator<Item = &'a Name>, is_perhaps: bool) -> String {
    let is_one = keys.len() == 1;
    let keys = listed(keys);
    match (is_one, is_perhaps) {
        (true, false) => format!("dead letters with key '{keys}' reach no queue"),
        (false, false) => format!("dead letters with these keys reach no queue: {keys}"),
        (true, true) => {
            format!("if messages with key '{keys}' come here, their dead letters reach no queue")
        }
        (false, true) => format!(
            "if messages with these keys come here, their dead letters reach no queue: {keys}"
        ),
    }
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
