//! Dead letters that reach no queue: DL001, DL002, DL003, DL014.

use std::collections::BTreeSet;

use super::{Unreached, listed, quoted, rule_words, subject};
use crate::base::{ExchangeId, Name};
use crate::broker::arguments::DeadLetterStrategy;
use crate::broker::exchange::ExchangeKind;
use crate::broker::queue::Queue;
use crate::broker::{Core, NoAttributes};
use crate::lint::Target;
use crate::lint::finding::{Finding, Rule, Severity};
use crate::lint::keys::{is_pattern, with_words_of};
use crate::lint::map::{Fate, Map, Step};
use crate::lint::sorted::Sorted;

pub(super) fn look(
    core: &Core,
    (map, target): (&Map, Target),
    queue: &Queue,
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
    if ways.meet_a_stranger(id) {
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
    ways.keys_lead_nowhere(findings);
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

    /// Whether dead letters may pass an exchange of a kind that this broker does not have.
    fn meet_a_stranger(&self, exchange: ExchangeId) -> bool {
        let behind = self.map.behind(exchange).into_iter();
        let behind = behind.flat_map(|behind| &behind.exchanges);
        let mut behind = behind.filter_map(|id| self.core.router().exchange(*id));
        behind.any(|exchange| self.map.strangers.has_exchange(&exchange.spec.name))
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
        let mut queues = Vec::new();
        let keys = std::slice::from_ref(key);
        let steps = router.route_by(exchange, keys, &NoAttributes, 0, &mut queues);
        !queues.is_empty() || steps.are_used_up()
    }

    /// The keys by which the dead-letter exchange, and those behind it, tell letters apart.
    fn told_apart_by(&self) -> BTreeSet<&Name> {
        let router = self.core.router();
        let id = router.id_of(self.exchange);
        let behind = id.and_then(|id| self.map.behind(id));
        let exchanges = behind.into_iter().flat_map(|behind| &behind.exchanges);
        let exchanges = exchanges.filter_map(|id| router.exchange(*id));
        let exchanges = exchanges.filter(|exchange| exchange.spec.kind != ExchangeKind::Fanout);
        let bindings = exchanges.flat_map(|exchange| exchange.bindings().keys());
        bindings.map(|binding| &binding.key).collect()
    }

    /// `policy DLX 'dead' is bound with: order.new`.
    fn bound_words(&self) -> String {
        let named_by = rule_words(self.queue);
        let Some(exchange) = self.core.router().exchange_named(self.exchange) else {
            return named_by;
        };
        if self.exchange.is_empty() {
            return format!(
                "{named_by} sends them to the default exchange, where the key is a queue's name"
            );
        }
        let keys = exchange.bindings().keys().map(|binding| &binding.key);
        let keys: BTreeSet<&Name> = keys.collect();
        let mut words = format!("{named_by} '{}'", self.exchange);
        if exchange.spec.kind == ExchangeKind::Fanout {
            words += " takes all keys";
        } else {
            words = format!("{words} is bound with: {}", listed(keys.into_iter()));
        }
        let behind = self.map.behind(exchange.id);
        let behind = behind.into_iter().flat_map(|behind| &behind.exchanges);
        let behind = behind.filter(|id| **id != exchange.id);
        let behind = behind.filter_map(|id| self.core.router().exchange(*id));
        let mut behind = behind.map(|exchange| &exchange.spec.name).peekable();
        if behind.peek().is_some() {
            words = format!("{words}; behind it: {}", listed(behind));
        }
        words
    }

    /// DL003: one finding for all keys of a queue, with the first as its witness. Keys with words that are
    /// made up count only if there are no others: perhaps nobody publishes with them.
    fn keys_lead_nowhere(&self, findings: &mut Vec<Finding>) {
        let Self { core, map, .. } = *self;
        let lost = map.steps_in(self.queue.id);
        let lost = lost.filter(|step| {
            let arrival = map.arrivals.get(step.from);
            step.fate == Fate::Nowhere && arrival.is_some_and(|arrival| !arrival.perhaps)
        });
        let (made_up, named): (Vec<&Step>, Vec<&Step>) = lost.partition(|step| step.made_up);
        if made_up.is_empty() && named.is_empty() {
            return; // as a rule, and what follows looks at all bindings
        }
        let bound = self.told_apart_by();
        let only_patterns = bound.iter().all(|key| is_pattern(key));
        let is_guess = named.is_empty() && only_patterns && !self.exchange.is_empty();
        let lost = if named.is_empty() { made_up } else { named };
        let keys = lost.iter();
        let keys = keys.filter_map(|step| Some((step.way.as_ref()?.keys.first()?, *step)));
        let mut keys: Vec<(&Name, &Step)> = keys.collect();
        // Of equal keys the last one counts: a rejection, which comes first, can be tried.
        keys.reverse();
        let mut keys = Sorted::of(keys);
        let own = core.router().exchange_named(self.exchange);
        let own = own.into_iter().flat_map(|own| own.bindings().keys());
        let own: BTreeSet<&Name> = own.map(|binding| &binding.key).collect();
        if is_guess && own.len() > 1 {
            keys.retain(|key| !is_lost_alive(core, map, self.exchange, key));
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
        let finding = self.unreached(Rule::KeysLeadNowhere, &says, Some(*step));
        let severity = if is_guess {
            Severity::Info
        } else {
            finding.severity
        };
        let finding = finding.severity(severity).because(self.bound_words());
        findings.push(finding.fix(bind(self.exchange, Some(first))));
    }
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
